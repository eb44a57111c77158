// SPDX-License-Identifier: Apache-2.0

package pmu

import (
	"math"
	"testing"
)

func TestCount(t *testing.T) {
	const huge = math.MaxUint64
	for _, c := range []struct {
		r    Reading
		want Count
	}{
		{Reading{1000, 50, 50}, Count{1000, Exact, 1}},
		{Reading{0, 50, 50}, Count{0, Exact, 1}},
		{Reading{1000, 100, 25}, Count{4000, Scaled, 0.25}},
		{Reading{0, 100, 25}, Count{0, Scaled, 0.25}},
		{Reading{10, 3, 2}, Count{15, Scaled, 2.0 / 3}},
		{Reading{1, 8, 3}, Count{3, Scaled, 0.375}}, // 2.67: to the nearest
		{Reading{1000, 50, 0}, Count{0, Unknown, 0}},
		{Reading{0, 0, 0}, Count{0, Unknown, 0}},
		{Reading{1000, 50, 60}, Count{1000, Exact, 1}}, // more than wanted: rounding in the kernel
		{Reading{1 << 60, 1 << 40, 1 << 39}, Count{1 << 61, Scaled, 0.5}},
		{Reading{huge, 100, 1}, Count{huge, Scaled, 0.01}},
		{Reading{huge, huge, 1}, Count{huge, Scaled, 1 / float64(huge)}},
		{Reading{huge, huge, huge - 1}, Count{huge, Scaled, 1}},
	} {
		if got := c.r.Count(); got != c.want {
			t.Errorf("%v: %v, want %v", c.r, got, c.want)
		}
	}
}

// Nine operators of which a counter saw three: the sum is scaled by time. Scaling each and adding them would
// lose the six that it did not see.
func TestSumThenScale(t *testing.T) {
	var sum Reading
	var added uint64
	for i := range 9 {
		r := Reading{Enabled: 100}
		if i%3 == 0 {
			r.Value, r.Running = 700, 100
		}
		sum = sum.Add(r)
		added += r.Count().Value
	}
	if c := sum.Count(); c.Value != 6300 || c.State != Scaled || added != 2100 {
		t.Errorf("%v, one by one %d", c, added)
	}
}

func TestSub(t *testing.T) {
	d, ok := Reading{10, 20, 30}.Sub(Reading{1, 2, 3})
	if !ok || d != (Reading{9, 18, 27}) {
		t.Errorf("%v %v", d, ok)
	}
	for _, later := range []Reading{{0, 20, 30}, {10, 1, 30}, {10, 20, 2}} {
		if d, ok := later.Sub(Reading{1, 2, 3}); ok {
			t.Errorf("%v is %v later", later, d)
		}
	}
	if s := (Reading{math.MaxUint64, 1, 1}).Add(Reading{1, 1, 1}); s != (Reading{math.MaxUint64, 2, 2}) {
		t.Errorf("a sum that does not fit: %v", s)
	}
}
