// SPDX-License-Identifier: Apache-2.0

package perfetto

import (
	"testing"

	"github.com/profinfer/profinfer/profile/profiletest"
)

func TestExperts(t *testing.T) {
	c := check(t, export(t, nil, profiletest.Run{Model: profiletest.MoE, PID: 4242, Threads: 2, Prefill: 3, Decode: 2, Start: 1_000_000_000, Gap: 500}))
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
