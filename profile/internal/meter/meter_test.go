// SPDX-License-Identifier: Apache-2.0

package meter

import (
	"slices"
	"testing"

	"github.com/profinfer/profinfer/trace"
)

// A thread's counts are those of its own spans: what others counted on the CPU meanwhile is left out.
func TestMeter(t *testing.T) {
	const begin, end, off, on = trace.SampleBegin, trace.SampleEnd, trace.SampleOff, trace.SampleOn
	type sample struct {
		kind   trace.SampleKind
		cpu    uint16
		values []uint64 // one event, one thread's own
		torn   bool
	}
	for _, c := range []struct {
		what    string
		samples []sample
		want    []int64
	}{
		{"undisturbed", []sample{{begin, 0, []uint64{100, 7}, false}, {end, 0, []uint64{150, 9}, false}},
			[]int64{50, 2}},
		{"switched out", []sample{{begin, 0, []uint64{100, 7}, false}, {off, 0, []uint64{120}, false},
			{on, 0, []uint64{900}, false}, {end, 0, []uint64{930, 8}, false}}, []int64{50, 1}},
		{"moved", []sample{{begin, 0, []uint64{100, 7}, false}, {off, 0, []uint64{120}, false},
			{on, 1, []uint64{5000}, false}, {end, 1, []uint64{5005, 7}, false}}, []int64{25, 0}},
		{"moved unseen", []sample{{begin, 0, []uint64{100, 7}, false}, {end, 1, []uint64{5005, 7}, false}},
			nil},
		{"left unseen", []sample{{begin, 0, []uint64{100, 7}, false}, {on, 0, []uint64{900}, false},
			{end, 0, []uint64{930, 8}, false}}, nil},
		{"torn begin", []sample{{begin, 0, []uint64{100, 7}, true}, {end, 0, []uint64{150, 9}, false}}, nil},
		{"torn end", []sample{{begin, 0, []uint64{100, 7}, false}, {end, 0, []uint64{150, 9}, true}}, nil},
		{"not readable at a switch", []sample{{begin, 0, []uint64{100, 7}, false},
			{off, 0, []uint64{trace.NoValue}, false}, {on, 0, []uint64{900}, false}, {end, 0,
				[]uint64{930, 8}, false}}, []int64{-1, 1}},
		{"too few values", []sample{{begin, 0, nil, false}, {end, 0, []uint64{150, 9}, false}}, nil},
	} {
		n := Counters{}
		n.Set([]trace.Counter{{Name: "cycles", PMU: "cpu"}, {Name: "minor-faults"}})
		var m Meter
		var got []int64
		for _, s := range c.samples {
			x := &trace.Sample{Kind: s.kind, CPU: s.cpu, Values: s.values, Torn: s.torn}
			switch s.kind {
			case begin:
				m.Begin(&n, x)
			case off:
				m.Off(&n, x)
			case on:
				m.Again(&n, x)
			case end:
				got, _ = m.End(&n, x)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}

func TestMeterScaled(t *testing.T) {
	n := Counters{}
	n.Set([]trace.Counter{{Name: "a", PMU: "cpu", Scaled: true}, {Name: "b", PMU: "cpu", Scaled: true},
		{Name: "c", PMU: "cpu", Scaled: true, Void: "reads 0"}})
	var m Meter
	m.Begin(&n, &trace.Sample{Values: []uint64{10, 1000, 500, 0, 1000, 1000, 0, 0, 0}})
	// a counted half of the time, b all of it
	got, scaled := m.End(&n, &trace.Sample{Values: []uint64{40, 2000, 1000, 70, 2000, 2000, 0, 1000, 1000}})
	if !slices.Equal(got, []int64{60, 70, -1}) || !scaled {
		t.Errorf("%v scaled %v, want 60 (twice 30), 70 and unknown, scaled", got, scaled)
	}
	m.Begin(&n, &trace.Sample{Values: []uint64{10, 1000, 500, 0, 1000, 1000, 0, 0, 0}})
	if got, _ = m.End(&n, &trace.Sample{Values: []uint64{10, 2000, 500, 70, 2000, 2000, 0, 0,
		0}}); got[0] != Unknown {
		t.Errorf("a counter that did not count has %d, want unknown", got[0])
	}
}
