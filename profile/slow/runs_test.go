// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"slices"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/trace"
)

// Three seconds of interference in a run of fifteen: all its steps are found, although their neighbours are
// slow too.
func TestSlowLong(t *testing.T) {
	r := newSlowRun(Options{Top: 2000})
	r.play(5000)
	const hit = 750
	for range hit {
		r.change = func(k int, o *profile.Op) {
			if k == 3 {
				r.off(o, 1, 50_000, 3e6, 5, 0)
			}
			if k == 4 {
				r.off(o, 0, 50_000, 1e5, 6, 0)
			}
		}
		r.play(1)
	}
	r.play(5000)
	s := r.finish(t)
	if s.Slow != hit || len(s.Listed) != hit || s.Steps != 10000+hit {
		t.Fatalf("%d of %d steps are slow, %d listed", s.Slow, s.Steps, len(s.Listed))
	}
	wantParts(t, s.Causes, map[Cause]int64{SlowOther: hit * 3_100_000})
	if w := s.Causes[0].Who; len(w) != 2 || w[0] != (Who{"sh", hit * 3e6, hit * 3e6, 5}) ||
		w[1] != (Who{"apt", hit * 1e5, hit * 1e5, 6}) {
		t.Errorf("behind it: %+v", w)
	}
	f := s.Interference
	if f.Ran != hit*3_100_000 || f.Cost != f.Ran || len(f.By) != 2 || *f.Migrations != 0 {
		t.Fatalf("interference: %+v", f)
	}
	x := f.By[0]
	if x.Comm != "sh" || x.PID != 5 || x.Own || x.Times != hit || !slices.Equal(x.CPUs, []int{1}) ||
		x.Ran != hit*3e6 || x.Cost != hit*3e6 {
		t.Errorf("the first: %+v", x)
	}
	if !slices.Equal(x.Displaced, []PaidBy{{"31", 31, hit * 3e6}}) ||
		!slices.Equal(x.Waited, []PaidBy{{"30", 30, hit * 3e6}}) || len(x.Ops) != 1 ||
		x.Ops[0].Ns != hit*3e6 {
		t.Errorf("who paid: %+v", x)
	}
}

// The same with little memory: nothing is counted twice or left out.
func TestSlowBounded(t *testing.T) {
	play := func(keep int) *Slow {
		r := newSlowRun(Options{keep: keep})
		for i := range 1000 {
			if i%10 == 7 {
				r.change = func(k int, o *profile.Op) {
					if k == 3 {
						r.off(o, 1, 50_000, int64(1+i)*1e4+2e5, 5, 0)
					}
				}
			}
			r.play(1)
		}
		if len(r.b.records) > max(keep, 1000) || keep > 0 && len(r.b.records) > keep {
			t.Errorf("%d steps are kept", len(r.b.records))
		}
		return r.finish(t)
	}
	all, few := play(0), play(200)
	if all.Slow != 100 || few.Slow != 100 || all.Excess != few.Excess || all.Steps != few.Steps ||
		all.Listed[3].Step != few.Listed[3].Step {
		t.Errorf("with all kept %d steps, %d ns; with few %d, %d", all.Slow, all.Excess, few.Slow, few.Excess)
	}
	wantParts(t, few.Causes, map[Cause]int64{SlowOther: few.Excess})

	// More slow steps than are kept.
	var totals slowTotals
	var want int64
	for i := range int64(3 * maxFound) {
		f := foundStep{excess: i, stepRecord: stepRecord{id: i}}
		f.causes[0] = i
		f.shares = []whoShare{{who: 3, ns: float64(i), ran: i}}
		want += i
		totals.add(f)
	}
	if len(totals.found) >= 2*maxFound {
		t.Errorf("%d are kept", len(totals.found))
	}
	for i := range totals.found {
		totals.take(&totals.found[i])
	}
	if totals.causes[0] != want || totals.who[whoKindKey{3, 0}].ran != want {
		t.Errorf("summed up to %d, want %d", totals.causes[0], want)
	}
}

// Prefill in parts of one size: attention reads more of the cache in each.
func TestSlowGrowth(t *testing.T) {
	r := newSlowRun(Options{})
	for i := range int64(9) {
		r.change = func(k int, o *profile.Op) {
			if k == 9 {
				o.Threads[0].Busy += i * 200_000
				o.Threads[1].Busy += i * 200_000
				r.settle(o)
			}
		}
		r.play(1)
	}
	s := r.finish(t)
	// The neighbours' middle has its position and its time: what lies between is growth, all of it.
	if s.Slow == 0 {
		t.Fatal("no step is slow")
	}
	for i := range s.Listed {
		x := &s.Listed[i]
		wantParts(t, x.Parts, map[Cause]int64{SlowKV: x.Excess})
	}
	if x := s.Listed[0]; x.Step != 9 || *x.Position != 9 || x.Excess < 700_000 {
		t.Errorf("the slowest: %+v", x)
	}
	// Time that does not follow the position is not growth.
	r = newSlowRun(Options{})
	for i := range int64(30) {
		r.change = func(k int, o *profile.Op) {
			if k == 9 {
				o.Threads[0].Busy += i * i % 7 * 200_000
				o.Threads[1].Busy += i * i % 7 * 200_000
				r.settle(o)
			}
		}
		r.play(1)
	}
	for _, x := range r.finish(t).Listed {
		wantParts(t, x.Parts, map[Cause]int64{SlowUnexplained: x.Excess})
	}
}

// Steps that cannot be compared are counted, not judged.
func TestSlowNotJudged(t *testing.T) {
	r := newSlowRun(Options{})
	r.play(3)
	r.change = func(k int, o *profile.Op) { o.Dur += 1e6 }
	r.play(1)
	s := r.finish(t)
	if s.Steps != 0 || s.Alone != 4 || s.Slow != 0 {
		t.Errorf("of four steps: %+v", s)
	}
	r = newSlowRun(Options{})
	r.play(20)
	r.before = func(s *profile.Step, g *profile.Graph) { s.Incomplete = "lost" }
	r.lead = 1e6
	r.play(1)
	if s = r.finish(t); s.Partial != 1 || s.Slow != 0 {
		t.Errorf("with a part of a step: %+v", s)
	}
	// Operators not recorded: what is known is the main thread's.
	r = newSlowRun(Options{})
	for i := range 20 {
		r.before = func(s *profile.Step, g *profile.Graph) {
			s.Untraced = "throttled"
			if i == 10 {
				r.sched(r.now, 0, 30, 0, 5)
				r.sched(r.now+2e6, 0, 5, 1, 30)
				r.now += 2e6
			}
		}
		r.play(1)
	}
	s = r.finish(t)
	if s.Slow != 1 || len(s.Listed[0].Doubts) != 1 {
		t.Fatalf("without operators: %+v", s)
	}
	wantParts(t, s.Listed[0].Parts, map[Cause]int64{SlowOther: 2e6})
	if s.Listed[0].Parts[0].Who[0].Comm != "sh" {
		t.Errorf("behind it: %+v", s.Listed[0].Parts[0].Who)
	}
	// Nothing at all.
	if s = New(Options{}).Finish(nil); s.Slow != 0 || s.Listed == nil || s.Causes == nil {
		t.Errorf("of nothing: %+v", s)
	}
}

// Of what is open, the hypervisor gets what it took in the same time, on CPUs that the steps ran on, and no
// more.
func TestSlowSteal(t *testing.T) {
	ms := func(n int64) *int64 { n *= 1e6; return &n }
	state := func(at int64, a, b *int64) *trace.CPUState {
		return &trace.CPUState{Time: at, CPUs: []trace.CPUTime{{CPU: 1, Steal: a}, {CPU: 7, Steal: b}}}
	}
	for _, c := range []struct {
		name          string
		stolen, else7 int64
		want          map[Cause]int64
	}{
		{"enough", 50, 0, map[Cause]int64{SlowSteal: 4e6}},
		{"half", 2, 0, map[Cause]int64{SlowSteal: 2e6, SlowUnexplained: 1e6, SlowImbalance: 1e6}},
		{"on a CPU that it did not run on", 0, 50, map[Cause]int64{SlowUnexplained: 2e6, SlowImbalance: 2e6}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newSlowRun(Options{})
			r.b.CPU(state(r.now-5e8, ms(1000), ms(5)))
			r.b.CPU(state(r.now, ms(1000), ms(5)))
			r.play(20)
			r.change = func(k int, o *profile.Op) {
				if k == 2 {
					o.Threads[1].Busy += 4e6
					r.settle(o)
				}
			}
			r.play(1)
			r.play(20)
			r.b.CPU(state(r.now, ms(1000+c.stolen), ms(5+c.else7)))
			s := r.finish(t)
			wantParts(t, s.Listed[0].Parts, c.want)
			if got := s.Interference.CPUs; len(got) != 2 || *got[0].Steal != c.stolen*1e6 ||
				*got[1].Steal != c.else7*1e6 || got[0].MinKHz != nil {
				t.Errorf("CPUs: %+v", got)
			}
			for _, p := range s.Listed[0].Parts {
				if p.Estimate != (p.Cause == SlowSteal) {
					t.Errorf("%+v", p)
				}
			}
		})
	}
	// Clocks that go back, and more than there was time for, are nothing.
	b := New(Options{})
	k := int64(3e6)
	for i, v := range []int64{1000, 900, 99000} {
		b.CPU(&trace.CPUState{Time: 1e9 + int64(i)*5e8,
			CPUs: []trace.CPUTime{{CPU: 1, Steal: ms(v)}, {CPU: 2, KHz: &k}}})
	}
	s := b.Finish(nil)
	if got := s.Interference.CPUs; len(got) != 2 || got[0].Steal != nil || *got[1].MinKHz != k ||
		*got[1].MaxKHz != k {
		t.Errorf("CPUs: %+v", got)
	}
}

// Recorded faults take their part; those without a duration, and counts, take none.
func TestSlowFaults(t *testing.T) {
	r := newSlowRun(Options{})
	r.play(20)
	r.change = func(k int, o *profile.Op) {
		if k != 5 {
			return
		}
		o.Threads[0].Busy += 3e6
		r.settle(o)
		for _, f := range []trace.Fault{
			{Kind: trace.FaultMajor, PID: 30, TID: 30, Time: o.Start + 1e6, Dur: 1e6},
			{Kind: trace.FaultMinor, PID: 30, TID: 30, Time: o.Start + 15e5, Dur: 5e5},
			{Kind: trace.FaultMajor, PID: 30, TID: 30, Time: o.Start + 2e6},
			{Kind: trace.FaultCounts, PID: 30, TID: 30, Time: o.Start + 3e6, Dur: 1e6},
		} {
			if err := r.b.Fault(&profile.Fault{Fault: f}); err != nil {
				t.Fatal(err)
			}
		}
	}
	r.play(1)
	r.play(20)
	s := r.finish(t)
	wantParts(t, s.Listed[0].Parts,
		map[Cause]int64{SlowDisk: 1e6, SlowFaults: 5e5, SlowImbalance: 75e4, SlowUnexplained: 75e4})
}
