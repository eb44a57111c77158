// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	"github.com/profinfer/profinfer/internal/engines"
	"github.com/profinfer/profinfer/internal/testkit"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/slow"
)

// A slow step's new experts are those that the choices tell, step by step.
func TestSlowExperts(t *testing.T) { slowExperts(t) }

// What they cost, in memory, is little.
func TestQuietSlowExperts(t *testing.T) {
	if testkit.Quiet(t) {
		return
	}
	if cost, excess := slowExperts(t); cost > excess/10 || -cost > excess/10 {
		t.Errorf("in memory they cost %d of %d ns", cost, excess)
	}
}

// slowExperts also returns what new experts cost, and by how much steps were slow in all, ns.
func slowExperts(t *testing.T) (cost, excess int64) {
	t.Helper()
	e := engines.Debian(t)
	_, model := engines.Model(t, e, "moe-small-vocab")
	path := record(t, nil, e.Command("llama-bench", "-m", model, "-t", "1", "-p", "0", "-n", "120", "-r",
		"1")...)
	s := slowOf(t, path)
	want, before := map[int64]int64{}, map[int]*profile.Choice{}
	r := load(t, path)
	for _, c := range r.choices {
		if b := before[c.Layer]; b != nil && c.Step != nil {
			for _, x := range c.Set() {
				used := false
				for _, y := range b.Set() {
					used = used || x == y
				}
				if !used {
					want[c.Step.ID]++
				}
			}
		}
		before[c.Layer] = c
	}
	known := 0
	for i := range s.Listed {
		x := &s.Listed[i]
		if x.NewExperts == nil {
			continue
		}
		known++
		if *x.NewExperts != want[x.Step] {
			t.Errorf("step %d has %d new experts, its choices tell %d", x.Step, *x.NewExperts, want[x.Step])
		}
		if x.UsualNewExperts == nil || *x.UsualNewExperts <= 0 || *x.UsualNewExperts > 16 {
			t.Errorf("step %d: %v are usual", x.Step, x.UsualNewExperts)
		}
	}
	experts, _ := partOf(s.Causes, slow.SlowExperts)
	t.Logf("%d of %d steps slow, new experts known of %d, they add %d us of %d ms", s.Slow, s.Steps, known,
		experts/1000, s.Excess/1e6)
	if s.Slow > 10 && known < len(s.Listed)/2 {
		t.Errorf("new experts are known of %d of %d steps", known, len(s.Listed))
	}
	return experts, s.Excess
}
