// SPDX-License-Identifier: Apache-2.0

package profile

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
		{k("cycles", false, ""), k("instructions", false, ""), k("cycles", true, ""), k("instructions", true, "")},
		{k("cycles", false, ""), k("instructions", false, ""), k("cycles", true, "it reads 0"), k("instructions", true, "")},
	} {
		a, b := CounterPair(cs, "instructions", "cycles")
		if i, j := pairOf(statCounters(cs), "instructions", "cycles"); i != a || j != b {
			t.Errorf("%+v: %d and %d in a Stat, want %d and %d", cs, i, j, a, b)
		}
	}
}
