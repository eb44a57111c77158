// SPDX-License-Identifier: Apache-2.0

package perfetto

import (
	"slices"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/profile/profiletest"
)

func TestExperts(t *testing.T) {
	c := check(t, export(t, nil, profiletest.Run{Model: profiletest.MoE, PID: 4242, Threads: 2, Prefill: 3,
		Decode: 2, Start: 1_000_000_000, Gap: 500}))
	want := []map[string]string{
		// tokens 0 to 2 choose 0 to 3, 1 to 4 and 2 to 5 in layer 0; in layer 1 each the next
		{"layer": "0", "experts_different": "6", "experts_tokens": "3", "experts_of": "16", "experts": ""},
		{"layer": "1", "experts_different": "6", "experts_tokens": "3", "experts_of": "16", "experts": ""},
		{"layer": "0", "experts": "3 4 5 6", "experts_of": "16", "experts_different": ""},
		{"layer": "1", "experts": "4 5 6 7", "experts_of": "16"},
		{"layer": "0", "experts": "4 5 6 7"},
		{"layer": "1", "experts": "5 6 7 8"},
	}
	i := 0
	for _, s := range c.named("ffn_down_exps") {
		if s.notes["thread"] != "0" {
			if s.notes["experts_of"] != "" {
				t.Errorf("a worker's slice is annotated: %v", s.notes)
			}
			continue
		}
		if i < len(want) {
			for k, v := range want[i] {
				if s.notes[k] != v {
					t.Errorf("product %d: %s is %q, want %q", i, k, s.notes[k], v)
				}
			}
		}
		i++
	}
	if i != len(want) {
		t.Errorf("%d products, want %d", i, len(want))
	}
}

// counterOf returns the values of a counter of that name; several of a name fail.
func (c *checked) counterOf(name string) (values []float64, unit string) {
	found := 0
	for id, k := range c.tracks {
		if k.name == name {
			values, unit = c.counters[id], k.unit
			found++
		}
	}
	if found > 1 {
		c.t.Errorf("%d tracks %q", found, name)
	}
	return values, unit
}

// Counters of a step's experts: one of four is new in each of two layers; a step that was not wholly seen has
// no value.
func TestExpertCounters(t *testing.T) {
	run := profiletest.Run{Model: profiletest.MoE, PID: 4242, Threads: 2, Prefill: 3, Decode: 6,
		Start: 1_000_000_000, Gap: 500}
	const plane = 64 * 192 / 32 * 18 // bytes of an expert
	const few, many = float64(2 * 3 * 4 * plane), float64(2 * 3 * 6 * plane)
	for _, x := range []struct {
		partial      int
		fresh, bytes []float64
	}{
		{fresh: []float64{2, 2, 2, 2, 2, 0}, bytes: []float64{few, few, few, few, few, few, 0}},
		{partial: 3, fresh: []float64{2, 0, 2, 2, 2, 0}, bytes: []float64{few, few, 0, few, few, few, 0}},
	} {
		run.Partial = x.partial
		c := check(t, export(t, nil, run))
		if v, unit := c.counterOf("decode new experts"); !slices.Equal(v, x.fresh) ||
			unit != "experts per step" {
			t.Errorf("partial %d: new experts %v %s, want %v", x.partial, v, unit, x.fresh)
		}
		if v, unit := c.counterOf("decode experts' bytes"); !slices.Equal(v, x.bytes) ||
			unit != "bytes per step" {
			t.Errorf("partial %d: bytes %v %s, want %v", x.partial, v, unit, x.bytes)
		}
		if v, _ := c.counterOf("prefill experts' bytes"); !slices.Equal(v, []float64{many, 0}) {
			t.Errorf("prefill's bytes %v, want %v", v, many)
		}
		if v, _ := c.counterOf("prefill new experts"); v != nil {
			t.Errorf("one prefill has new experts: %v", v)
		}
	}
	run.Model, run.Partial = profiletest.Small, 0
	for _, k := range check(t, export(t, nil, run)).tracks {
		if strings.Contains(k.name, "experts") {
			t.Errorf("a track %q without experts", k.name)
		}
	}
}
