// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/profile/series"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/profile/summary"
	"github.com/profinfer/profinfer/profile/timeline"
	"github.com/profinfer/profinfer/trace"
)

func replayed(t *testing.T, r *trace.Reader) (*summary.Stat, *series.Series) {
	t.Helper()
	b, c := stat.New(stat.Options{}), series.New(nil)
	h, err := profile.Replay(r, profile.Tee(b, c))
	if err != nil {
		t.Fatal(err)
	}
	return b.Finish(h), c.Finish(h)
}

// The first figures of a phase go by when its results were there, wherever that is known: of steps whose
// device works on after their calls.
func TestEndToEnd(t *testing.T) {
	s, series := replayed(t, offloaded(t, 40, nil))
	// a token a step; the call takes 180, its results are there after 400
	f := s.Phases[0]
	if !near(f.TokensPerS, 2.5e6) || !near(f.PerToken, 400) || f.PerTokenP95 == nil ||
		math.Abs(*f.PerTokenP95-400) > 4 {
		t.Errorf("%s t/s, %s a token, p95 %s; its calls alone have %s", text(f.TokensPerS), text(f.PerToken),
			text(f.PerTokenP95), text(f.CallPerToken))
	}
	if !near(f.CallTokensPerS, 1e9/180.) || !near(f.CallPerToken, 180) || f.Async != 40 || f.Unseen != 0 ||
		f.EndToEnd == nil || *f.EndToEnd != 40*400 || f.Dur != 40*180 || f.StepMax != 400 {
		t.Errorf("its calls: %s t/s, %s a token; %d asynchronous, %d unseen, %+v", text(f.CallTokensPerS),
			text(f.CallPerToken), f.Async, f.Unseen, f)
	}
	if x := s.Offload[0]; !near(x.TokensPerS, *f.TokensPerS) {
		t.Errorf("offload says %s t/s", text(x.TokensPerS))
	}
	if d := series.Phases[0].PerToken; math.Abs(d.Mean-400) > 1e-6 || d.Min != 400 || d.Max != 400 {
		t.Errorf("the distribution over steps has %v, %d to %d", d.Mean, d.Min, d.Max)
	}
	if s.TTFT.Mean == nil || *s.TTFT.Mean != 400 {
		t.Errorf("TTFT %s", text(s.TTFT.Mean))
	}
}

// What nobody was seen to wait for has no tokens a second: its calls' rate is not the truth.
func TestEndToEndUnseen(t *testing.T) {
	s, series := replayed(t, offloaded(t, 40, withoutWait))
	if f := s.Phases[0]; f.TokensPerS != nil || f.PerToken != nil || f.PerTokenP95 != nil {
		t.Errorf("%s t/s, %s a token, p95 %s", text(f.TokensPerS), text(f.PerToken), text(f.PerTokenP95))
	}
	if f := s.Phases[0]; !near(f.CallTokensPerS, 1e9/180.) || f.Async != 40 || f.Unseen != 40 ||
		f.EndToEnd != nil {
		t.Errorf("its calls: %s t/s; %d asynchronous, %d unseen, %s", text(f.CallTokensPerS), f.Async,
			f.Unseen, text(nil))
	}
	if p := series.Phases[0].Steps[0]; p.Late != nil {
		t.Errorf("a step's results are there %d after its call", *p.Late)
	}
	if d := series.Phases[0].PerToken; d != nil {
		t.Errorf("the distribution over steps has %v", d.Mean)
	}
	if s.TTFT.Mean != nil {
		t.Errorf("TTFT %s", text(s.TTFT.Mean))
	}
}

// withoutWait leaves out a step's wait.
func withoutWait(ms []trace.Mark) []trace.Mark {
	return slices.DeleteFunc(ms, func(m trace.Mark) bool {
		return m.Kind == trace.MarkSyncBegin || m.Kind == trace.MarkSyncEnd
	})
}

// Steps that are waited for together: those before the last take their calls, what is left of them is in the
// last one's time.
func TestEndToEndTogether(t *testing.T) {
	step := 0
	s, series := replayed(t, offloaded(t, 40, func(ms []trace.Mark) []trace.Mark {
		if step++; step%4 != 0 {
			return withoutWait(ms)
		}
		return ms
	}))
	f := s.Phases[0]
	if f.Unseen != 0 || f.EndToEnd == nil || *f.EndToEnd != 10*(3*180+400) ||
		!near(f.TokensPerS, 40e9/float64(10*(3*180+400))) || f.StepMax != 400 {
		t.Errorf("%d unseen, %s t/s, %+v", f.Unseen, text(f.TokensPerS), f)
	}
	if p := series.Phases[0].Steps; *p[0].Late != 0 || *p[3].Late != 220 || p[3].Start <= p[2].Start {
		t.Errorf("steps: %+v", p[:4])
	}
}

// Of the last steps nobody was seen to wait: figures are of the others.
func TestEndToEndPartly(t *testing.T) {
	step := 0
	s, _ := replayed(t, offloaded(t, 40, func(ms []trace.Mark) []trace.Mark {
		if step++; step > 30 {
			return withoutWait(ms)
		}
		return ms
	}))
	f := s.Phases[0]
	if f.Steps != 40 || f.Async != 40 || f.Unseen != 10 || *f.EndToEnd != 30*400 ||
		!near(f.TokensPerS, 2.5e6) || !near(f.CallTokensPerS, 1e9/180.) {
		t.Errorf("%d unseen, %s t/s: %+v", f.Unseen, text(f.TokensPerS), f)
	}
	// the first request has its first token, and its last ones' times are those of the calls
	if q := s.Sequences.Requests[0]; q.TTFT == nil || *q.TTFT != 400 || *q.Generated != 40 {
		t.Errorf("%+v", q)
	}
}

// What waits within the call has its own time for both; a step that hands nothing over is done with its call.
func TestEndToEndWithin(t *testing.T) {
	step := 0
	s, _ := replayed(t, offloaded(t, 40, func(ms []trace.Mark) []trace.Mark {
		if step++; step%2 == 0 { // all of it on the CPU
			return slices.DeleteFunc(withoutWait(ms), func(m trace.Mark) bool {
				return m.Site == offGPUBegin || m.Site == offGPUEnd
			})
		}
		for i := range ms {
			if ms[i].Kind == trace.MarkStepEnd {
				ms[i].Time = 405
			}
		}
		slices.SortStableFunc(ms, func(a, b trace.Mark) int { return int(a.Time - b.Time) })
		return ms
	}))
	f := s.Phases[0]
	if f.Async != 20 || f.Unseen != 0 || !near(f.TokensPerS, *f.CallTokensPerS) ||
		!near(f.PerToken, (405+180)/2.) || f.Late() {
		t.Errorf("%d asynchronous, %d unseen, %s and %s t/s", f.Async, f.Unseen, text(f.TokensPerS),
			text(f.CallTokensPerS))
	}
}

// What the device's queue tells counts as well: the wait for a fence after the call.
func TestEndToEndQueue(t *testing.T) {
	s, _ := replayed(t, offloaded(t, 40, func(ms []trace.Mark) []trace.Mark {
		return append(withoutWait(ms),
			trace.Mark{Time: 152, Kind: trace.MarkSubmitBegin, Site: offSubmit, Ctx: 1, Graph: 7,
				NNodes: 1}, trace.Mark{Time: 155, Kind: trace.MarkSubmitEnd, Site: offSubmitEnd},
			trace.Mark{Time: 200, Kind: trace.MarkWaitBegin, Site: offFence, Graph: 7,
				NNodes: 1}, trace.Mark{Time: 390, Kind: trace.MarkWaitEnd, Site: offFenceEnd})
	}))
	if f := s.Phases[0]; f.Unseen != 0 || !near(f.PerToken, 390) {
		t.Errorf("%d unseen, %s a token", f.Unseen, text(f.PerToken))
	}
}

// Another process computes: the client's tokens a second are by when it knew.
func TestEndToEndRemote(t *testing.T) {
	b := stat.New(stat.Options{})
	h := replayRemote(t, profiletest.Remote{Steps: 40}, b)
	s := b.Finish(h)
	f := s.Phases[0]
	if !near(f.TokensPerS, 2000) || !near(f.PerToken, 500_000) || !near(f.CallTokensPerS, 25_000) ||
		!near(s.Remote[0].TokensPerS, 2000) {
		t.Errorf("%s t/s, %s a token; its calls %s t/s", text(f.TokensPerS), text(f.PerToken),
			text(f.CallTokensPerS))
	}
}

// A step that began before backends were watched may have handed graphs over: when its results were there is
// not known.
func TestEndToEndUnwatched(t *testing.T) {
	var buf bytes.Buffer
	r := profiletest.Remote{Steps: 3, Marks: func(step int, ms []trace.Mark) []trace.Mark {
		if step == 0 {
			ms = slices.DeleteFunc(withoutWait(ms), func(m trace.Mark) bool {
				return m.Time >= 30_000 && m.Time < 40_000
			})
		}
		return ms
	}, Process: func(p *trace.Process) { p.Attached = profiletest.RemoteStep + 20_000 }}
	if err := r.Record(&buf); err != nil {
		t.Fatal(err)
	}
	in, err := trace.NewReader(&buf)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := replayed(t, in)
	if f := s.Phases[0]; f.Partial != 1 || f.Steps != 2 || !near(f.TokensPerS, 2000) || s.TTFT.Mean != nil ||
		s.TTFT.Unknown != 1 {
		t.Errorf("%s t/s of %d steps; TTFT %s, %d unknown", text(f.TokensPerS), f.Steps, text(s.TTFT.Mean),
			s.TTFT.Unknown)
	}
}

// The timeline has the time after each call until the results.
func TestEndToEndTimeline(t *testing.T) {
	for _, c := range []struct {
		change func([]trace.Mark) []trace.Mark
		want   int64
	}{{nil, 220}, {withoutWait, -1}} {
		b := timeline.New(timeline.Options{})
		h, err := profile.Replay(offloaded(t, 5, c.change), b)
		if err != nil {
			t.Fatal(err)
		}
		tl, err := b.Finish(h)
		if err != nil {
			t.Fatal(err)
		}
		const late = 16
		if got := (&blocks{t, tl.Steps}).block(late + 1)[late]; len(got) != 5 ||
			slices.ContainsFunc(got, func(v int64) bool {
				return v != c.want
			}) {
			t.Errorf("%v after the calls, want %d", got, c.want)
		}
	}
}
