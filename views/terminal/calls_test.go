// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"bytes"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/summary"
)

// The table's tokens a second are end to end; the calls' own are named as such, and are not in the table
// where the end was not seen.
func TestCalls(t *testing.T) {
	f := func(v float64) *float64 { return &v }
	sum := int64(3 * 400_000_000)
	ps := summary.Phase{Phase: "decode", Steps: 4, Dur: 4 * 10_000_000, TokensPerS: f(2.5), PerToken: f(4e8),
		Async: 4, Unseen: 1, EndToEnd: &sum,
		CallTokensPerS: f(100), CallPerToken: f(1e7), Backends: []summary.Backend{{Backend: "BLAS"},
			{Backend: "Vul\x1bkan", Submits: true}}}
	draw := func(ps summary.Phase) string {
		var b bytes.Buffer
		if err := Stat(&b, &summary.Stat{By: facts.ByWeight, Run: summary.Run{Level: "graph"},
			Phases: []summary.Phase{ps}}, Options{Width: 300, Unicode: true, Full: true}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	has := func(text string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("it does not say %q:\n%s", w, text)
			}
		}
	}
	has(draw(ps), "decode      4  2.5",
		"decode: end to end 400 ms per step, until the host has the results of Vul\\x1bkan; submit time alone 10.0 ms per step, 100.0 t/s: "+
			"shares and operators below are of this; 1 step without a seen wait for the results: left out of t/s")
	ps.Unseen, ps.EndToEnd, ps.TokensPerS, ps.PerToken = 4, nil, nil, nil
	text := draw(ps)
	has(text, "decode: t/s is not known: no thread was seen to wait for the results of Vul\\x1bkan; submit time alone 10.0 ms per step, 100.0 t/s")
	for l := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(l, "decode  ") && strings.Contains(l, "100") {
			t.Errorf("the table has the calls' rate: %s", l)
		}
	}
	// on the CPU alone nothing is said
	ps.Async, ps.Unseen, ps.TokensPerS, ps.CallTokensPerS, ps.Backends = 0, 0, f(100), nil, nil
	if text := draw(ps); strings.Contains(text, "submit time") {
		t.Error(text)
	}
}
