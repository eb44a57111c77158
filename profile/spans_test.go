// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"github.com/profinfer/profinfer/trace"
	"testing"
)

// Figures of operators are of the steps that have them; steps and their speed are of all.
func TestStatOfSpans(t *testing.T) {
	b := NewStat(StatOptions{By: ByOp})
	s := newScene(t)
	s.into(b)
	opLevel(s)
	s.extra("budget", "0.005")
	s.learned()
	s.watch(900, trace.WatchOff, "budget")
	s.decode(1000)
	s.b.Hits = nil
	s.watch(1400, trace.WatchArrivals, "following")
	s.arrivals(1500)
	s.watch(2150, trace.WatchOff, "budget")
	s.arrivals(2000)
	st := b.Finish(s.done())
	if len(st.Phases) != 1 {
		t.Fatalf("%d phases", len(st.Phases))
	}
	f := &st.Phases[0]
	if f.Steps != 3 || f.Traced != 1 || f.TracedDur != 310 || f.Dur != 930 || st.Run.Budget != "0.005" {
		t.Errorf("%d steps of %d ns, %d of %d ns with operators", f.Steps, f.Dur, f.Traced, f.TracedDur)
	}
	for _, r := range f.Rows {
		if r.CallsPerStep != 1 || r.DurPerStep != float64(r.Dur) || *r.Share != float64(r.Dur)/310 {
			t.Errorf("row %+v", r)
		}
	}
	if len(st.Lost.Untraced) != 1 || st.Lost.Untraced[0] != (UntracedSteps{"throttled", 2}) {
		t.Errorf("untraced %+v", st.Lost.Untraced)
	}
}
