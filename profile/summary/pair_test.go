// SPDX-License-Identifier: Apache-2.0

package summary

import (
	"testing"

	"github.com/profinfer/profinfer/trace"
)

// A pair of counters is the same one in a Stat as in the recording.
func TestPairOf(t *testing.T) {
	k := func(role string, user bool, void string) trace.Counter {
		return trace.Counter{Role: role, PMU: "cpu", User: user, Void: void}
	}
	for _, cs := range [][]trace.Counter{
		nil,
		{k("cycles", true, "")},
		{k("cycles", true, ""), k("instructions", false, "")},
		{k("cycles", false, ""), k("stall", false, ""), k("instructions", false, "")},
		{k("cycles", false, ""), k("instructions", false, ""), k("cycles", true, ""),
			k("instructions", true, "")},
		{k("cycles", false, ""), k("instructions", false, ""), k("cycles", true, "it reads 0"),
			k("instructions", true, "")},
	} {
		a, b := CounterPair(cs, "instructions", "cycles")
		if i, j := PairOf(CountersOf(cs), "instructions", "cycles"); i != a || j != b {
			t.Errorf("%+v: %d and %d in a Stat, want %d and %d", cs, i, j, a, b)
		}
	}
}

// Of counters with one role, those are a pair that counted alike: user space's before all's; what has no
// values is none.
func TestCounterPair(t *testing.T) {
	k := func(role string, user bool, void string) trace.Counter {
		return trace.Counter{Role: role, PMU: "cpu", User: user, Void: void}
	}
	for _, c := range []struct {
		what   string
		cs     []trace.Counter
		ai, bi int
	}{
		{"none", nil, -1, -1},
		{"one", []trace.Counter{k("cycles", true, "")}, -1, -1},
		{"unlike", []trace.Counter{k("cycles", true, ""), k("instructions", false, "")}, -1, -1},
		{"alike", []trace.Counter{k("cycles", false, ""), k("stall", false, ""),
			k("instructions", false, "")}, 2, 0},
		{"both ways", []trace.Counter{k("cycles", false, ""), k("instructions", false, ""),
			k("cycles", true, ""), k("instructions", true, "")}, 3, 2},
		{"one way is void", []trace.Counter{k("cycles", false, ""), k("instructions", false, ""),
			k("cycles", true, "it reads 0"), k("instructions", true, "")}, 1, 0},
	} {
		if i, j := CounterPair(c.cs, "instructions", "cycles"); i != c.ai || j != c.bi {
			t.Errorf("%s: %d and %d, want %d and %d", c.what, i, j, c.ai, c.bi)
		}
	}
}
