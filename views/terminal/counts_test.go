// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"bytes"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/summary"
)

func TestCounters(t *testing.T) {
	n := func(v int64) *int64 { return &v }
	s := &summary.Stat{By: facts.ByOp,
		Counters: []summary.Counter{{Name: "cycles", Role: "cycles", Scaled: true},
			{Name: "instructions", Role: "instructions"},
			{Name: "major-faults"}, {Name: "stall_backend", Void: "it reads 0"}, {Name: "\x1b[31m"},
			{Name: "task-clock", Role: "task-clock", Unit: "ns"}}}
	rows := []summary.Row{
		// known of 4 of its 8 calls, 2 a step
		{Key: "MUL_MAT", Calls: 8, CallsPerStep: 2,
			Counts: []summary.Count{{Sum: n(4000), Calls: 4}, {Sum: n(1000), Calls: 4}, {Sum: n(0), Calls: 8},
				{}, {Sum: n(1), Calls: 8}, {Sum: n(12_000_000), Calls: 8}}},
		{Key: "ADD", Calls: 8, CallsPerStep: 2,
			Counts: []summary.Count{{}, {Sum: n(80), Calls: 8}, {Sum: n(0), Calls: 8}, {}, {}}},
	}
	p := &page{o: Options{Unicode: true}}
	p.counters(s, &summary.Phase{Phase: "decode", Rows: rows})
	got := p.b.String()
	for _, want := range []string{"cycles (scaled)", "2.00k", "500.0", "0.25", "3.00 ms",
		"none in operators of major-faults"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	for _, bad := range []string{"stall_backend", "\x1b[31m"} {
		if strings.Contains(got, bad) {
			t.Errorf("%q in\n%s", bad, got)
		}
	}
	if line := got[strings.Index(got, "ADD"):]; !strings.Contains(strings.Split(line, "\n")[0], "-") {
		t.Errorf("what is not known of ADD is not told:\n%s", got)
	}
	var b bytes.Buffer
	if err := Stat(&b, &summary.Stat{}, Options{}); err != nil ||
		strings.Contains(b.String(), "counted a step") {
		t.Errorf("%v, a table of counters without any:\n%s", err, b.String())
	}
}
