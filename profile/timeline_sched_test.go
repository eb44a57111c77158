// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"slices"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/ops"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/profile/summary"
	"github.com/profinfer/profinfer/profile/timeline"
	"github.com/profinfer/profinfer/trace"
)

type cpuSpan struct {
	cpu, start, dur int64
	who             string
}

type stateSpan struct{ tid, start, dur, what, cpu int64 }

func schedOf(t *testing.T, tl *timeline.Timeline) (runs []cpuSpan, states []stateSpan) {
	for _, c := range tl.Chunks {
		if c.Kind != timeline.ChunkSched {
			continue
		}
		r := &blocks{t, c.Data}
		a, b := r.block(5), r.block(6)
		end := c.Base
		for i := range a[0] {
			runs = append(runs, cpuSpan{a[0][i], end + a[1][i], a[2][i], tl.Runners[a[3][i]].Comm})
			end += a[1][i] + a[2][i]
		}
		end = c.Base
		for i := range b[0] {
			states = append(states, stateSpan{int64(tl.Threads[b[0][i]].TID), end + b[1][i], b[2][i], b[3][i],
				b[4][i]})
			end += b[1][i] + b[2][i]
		}
	}
	return runs, states
}

// feedSched hands scheduling events of two threads of process 10 to a timeline.
func feedSched(t *testing.T, size int, events ...trace.Sched) (*timeline.Timeline, *summary.Stat) {
	t.Helper()
	b, st := timeline.New(timeline.Options{ChunkSpans: size}), stat.New(stat.Options{})
	sink := profile.Tee(b, st)
	step := &profile.Step{ID: 1, PID: 10, TID: 10, Phase: profile.Decode, Start: 1000, Dur: 1000, NTokens: 1}
	op := &profile.Op{ID: 1, Step: step, Op: "ADD", Start: 1000, Dur: 10,
		Threads: []profile.OpThread{{TID: 10, Start: 1000, Busy: 10}, {TID: 11, Start: 1000, Busy: 10}}}
	for _, err := range []error{sink.Op(op), sink.Step(step)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range events {
		if err := sink.Sched(&events[i]); err != nil {
			t.Fatal(err)
		}
	}
	h := &profile.Header{First: 1000, Last: 5000}
	tl, err := b.Finish(h)
	if err != nil {
		t.Fatal(err)
	}
	return tl, st.Finish(h)
}

func sw(at int64, cpu uint16, state uint32, prev int32, prevComm string, next int32,
	nextComm string) trace.Sched {
	pid := func(tid int32) int32 {
		if tid == 11 {
			return 10
		}
		return tid
	}
	return trace.Sched{Time: at, CPU: cpu, Kind: trace.SchedSwitch, PrevState: state, PrevTID: prev,
		PrevPID: pid(prev), PrevComm: prevComm, NextTID: next, NextPID: pid(next), NextComm: nextComm}
}

// TestTimelineSched: what ran on each CPU, and why a thread did not.
func TestTimelineSched(t *testing.T) {
	events := []trace.Sched{
		sw(1000, 0, 0, 0, "swapper/0", 10, "llama"),
		sw(1000, 1, 0, 0, "swapper/1", 11, "llama"),
		sw(1500, 1, 0, 11, "llama", 77, "apt-get"), // taken off
		sw(1900, 1, 1, 77, "apt-get", 11, "llama"),
		sw(2000, 0, 1, 10, "llama", 0, "swapper/0"), // sleeps
		{Time: 2300, CPU: 1, Kind: trace.SchedWakeup, PrevTID: 11, PrevPID: 10, PrevComm: "llama",
			NextTID: 10, NextPID: 10, NextComm: "llama"},
		sw(2350, 0, 0, 0, "swapper/0", 10, "llama"),
		sw(2600, 0, 0x402, 10, "llama", 88, "cc1"), // waits for the disk
		sw(3000, 0, 1, 99, "make", 10, "llama"),    // how 99 came there was not seen
	}
	for _, size := range []int{0, 3} {
		tl, st := feedSched(t, size, events...)
		runs, states := schedOf(t, tl)
		if size == 3 { // cut, and put together again
			runs, states = joinRuns(runs), joinStates(states)
		}
		slices.SortFunc(runs, func(a, b cpuSpan) int { return int(a.start - b.start + 10000*(a.cpu-b.cpu)) })
		slices.SortFunc(states, func(a, b stateSpan) int { return int(a.start - b.start) })
		wantRuns := []cpuSpan{
			{0, 0, 1000, "llama"}, {0, 1350, 250, "llama"}, {0, 1600, 400, "(not seen)"}, {0, 2000, 2000,
				"llama"},
			{1, 0, 500, "llama"}, {1, 500, 400, "apt-get"}, {1, 900, 3100, "llama"},
		}
		wantStates := []stateSpan{
			{11, 500, 400, timeline.StatePreempted, 1}, {10, 1000, 300, timeline.StateSleeps, 0}, {10, 1300,
				50, timeline.StateWoken, 1}, {10, 1600, 400, timeline.StateBlocked, 0},
		}
		if !slices.Equal(runs, wantRuns) {
			t.Errorf("chunks of %d: runs\n%v, want\n%v", size, runs, wantRuns)
		}
		if !slices.Equal(states, wantStates) {
			t.Errorf("chunks of %d: states\n%v, want\n%v", size, states, wantStates)
		}
		for _, th := range st.Threads {
			sum := int64(0)
			for _, s := range states {
				if s.tid == int64(th.TID) && s.what <= timeline.StateWoken {
					sum += s.dur
				}
			}
			if th.Runnable == nil || *th.Runnable != sum {
				t.Errorf("thread %d ready for %d, statistics say %v", th.TID, sum, th.Runnable)
			}
		}
		if !tl.HasSched || !slices.Equal(tl.CPUs, []int{0, 1}) || tl.Runners[0].Comm != "(not seen)" {
			t.Errorf("%v %v %v", tl.HasSched, tl.CPUs, tl.Runners)
		}
		// The overview of CPUs: its own, others, not seen.
		r := &blocks{t, tl.Bins}
		for _, tr := range tl.Overview.Tracks {
			if tr.Track == "thread" {
				r.block(len(ops.Kinds) + 2)
				continue
			}
			var sums []int64
			for _, col := range r.block(3) {
				sum := int64(0)
				for _, v := range col {
					sum += v
				}
				sums = append(sums, sum)
			}
			if w := [][]int64{{3250, 0, 400}, {3600, 400, 0}}[tr.Index]; !slices.Equal(sums, w) {
				t.Errorf("CPU %d: %v, want %v", tr.Index, sums, w)
			}
		}
	}
}

func joinRuns(in []cpuSpan) (out []cpuSpan) {
	for _, r := range in {
		i := slices.IndexFunc(out, func(o cpuSpan) bool {
			return o.cpu == r.cpu && o.who == r.who && o.start+o.dur == r.start
		})
		if i >= 0 {
			out[i].dur += r.dur
			continue
		}
		out = append(out, r)
	}
	return out
}

func joinStates(in []stateSpan) (out []stateSpan) {
	for _, s := range in {
		i := slices.IndexFunc(out, func(o stateSpan) bool {
			return o.tid == s.tid && o.what == s.what && o.start+o.dur == s.start
		})
		if i >= 0 {
			out[i].dur += s.dur
			continue
		}
		out = append(out, s)
	}
	return out
}

// TestTimelineSwitchNotSeen: a thread that ran again, though nobody saw it come, was off its CPU only as far
// as that is known.
func TestTimelineSwitchNotSeen(t *testing.T) {
	tl, st := feedSched(t, 0,
		sw(1000, 0, 0, 0, "swapper/0", 10, "llama"),
		sw(1200, 0, 0, 10, "llama", 77, "cc1"),
		sw(1300, 0, 0, 77, "cc1", 78, "ld"),
		sw(4000, 0, 0, 10, "llama", 79, "make"),
		sw(4100, 0, 1, 79, "make", 10, "llama"))
	_, states := schedOf(t, tl)
	want := []stateSpan{{10, 200, 100, timeline.StatePreempted, 0},
		{10, 3000, 100, timeline.StatePreempted, 0}}
	if !slices.Equal(states, want) {
		t.Errorf("%v, want %v", states, want)
	}
	for _, th := range st.Threads {
		if th.TID == 10 && *th.Runnable != 200 {
			t.Errorf("statistics say %d", *th.Runnable)
		}
	}
}
