// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/profile/summary"
	"github.com/profinfer/profinfer/trace"
)

// A step's call that returns before its device is done is judged by the time until it is.
func TestUntilDone(t *testing.T) {
	offloadStat := func(change func([]trace.Mark) []trace.Mark) *summary.Stat {
		b := stat.New(stat.Options{})
		h, err := profile.Replay(offloaded(t, 40, change), b)
		if err != nil {
			t.Fatal(err)
		}
		return b.Finish(h)
	}
	s := offloadStat(nil)
	// the call takes 180, all is done 400 after its begin, a token a step
	x := s.Offload[0]
	if x.UntilDone == nil || *x.UntilDone != 400 || *x.Call != 180 || *x.TokensPerS != 2.5e6 || !x.Late() {
		t.Fatalf("until done: %s of %s, %s tokens a second", text(x.UntilDone), text(x.Call),
			text(x.TokensPerS))
	}
	v := s.Verdicts[0]
	if v.Bound != summary.BoundOutside || !slices.Equal(v.Names, []string{"GPU"}) ||
		!strings.HasPrefix(v.Text, "Decode is limited by GPU: it has work for 250 ns of the 400 ns per step, end to end (62 %).") {
		t.Errorf("%s, %q: %s", v.Bound, v.Names, v.Text)
	}
	for _, f := range s.Findings {
		if f.Kind == "between_steps" {
			t.Errorf("the wait for the device is told as a gap: %s", f.Text)
		}
	}

	// waited for within the call: its own time says it
	within := offloadStat(func(ms []trace.Mark) []trace.Mark {
		for i := range ms {
			if ms[i].Kind == trace.MarkStepEnd {
				ms[i].Time = 405
			}
		}
		slices.SortStableFunc(ms, func(a, b trace.Mark) int { return int(a.Time - b.Time) })
		return ms
	})
	if x := within.Offload[0]; *x.UntilDone != 405 || *x.Call != 405 || x.Late() ||
		strings.Contains(within.Verdicts[0].Text, "bound by GPU") {
		t.Errorf("until done: %s; %s", text(x.UntilDone), within.Verdicts[0].Text)
	}

	// nobody was seen to wait
	never := offloadStat(func(ms []trace.Mark) []trace.Mark {
		return slices.DeleteFunc(ms, func(m trace.Mark) bool {
			return m.Kind == trace.MarkSyncBegin || m.Kind == trace.MarkSyncEnd
		})
	})
	if x := never.Offload[0]; x.UntilDone != nil || x.TokensPerS != nil || x.Late() ||
		strings.Contains(never.Verdicts[0].Text, "bound by GPU") {
		t.Errorf("until done: %s; %s", text(x.UntilDone), never.Verdicts[0].Text)
	}
}
