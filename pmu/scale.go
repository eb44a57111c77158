// SPDX-License-Identifier: Apache-2.0

package pmu

import (
	"math"
	"math/bits"
)

// Reading is the kernel's state of a counter at a moment: the count so far, and for how many nanoseconds it
// was enabled and actually running. These differ if more events are counted than there are counters: the
// kernel multiplexes them.
type Reading struct{ Value, Enabled, Running uint64 }

// Sub is the difference to an earlier reading of the same counter. ok is false if a number decreased: the
// readings are then not from one counter.
func (r Reading) Sub(earlier Reading) (d Reading, ok bool) {
	if r.Value < earlier.Value || r.Enabled < earlier.Enabled || r.Running < earlier.Running {
		return Reading{}, false
	}
	return Reading{r.Value - earlier.Value, r.Enabled - earlier.Enabled, r.Running - earlier.Running}, true
}

// Add sums two spans; a sum that overflows saturates.
func (r Reading) Add(o Reading) Reading {
	return Reading{sat(r.Value, o.Value), sat(r.Enabled, o.Enabled), sat(r.Running, o.Running)}
}

func sat(a, b uint64) uint64 {
	s, carry := bits.Add64(a, b, 0)
	if carry != 0 {
		return math.MaxUint64
	}
	return s
}

// State is how far a count can be trusted.
type State uint8

const (
	// Unknown: the counter did not run in this span. There is no count, and in particular not 0.
	Unknown State = iota
	// Exact: it ran all the time.
	Exact
	// Scaled: it ran for a share of the time, and the count is an estimate: counted value times
	// enabled/running.
	Scaled
)

func (s State) String() string { return [...]string{"unknown", "exact", "scaled"}[s] }

// Count is a span's count.
type Count struct {
	Value uint64 // 0 if State is Unknown
	State State
	Share float64 // of the time that it ran: 0 to 1
}

// Count estimates the count of a span.
//
// The estimate assumes the same event rate while the counter did not run. An operator is often shorter than a
// turn (4 ms): its counter ran all the time or not at all. So the spans of many operators are added first,
// and the sum is scaled: scaling single spans and then adding them would omit all that were Unknown.
func (r Reading) Count() Count {
	switch {
	case r.Running == 0 || r.Enabled == 0:
		return Count{}
	case r.Running >= r.Enabled:
		return Count{Value: r.Value, State: Exact, Share: 1}
	}
	c := Count{State: Scaled, Share: float64(r.Running) / float64(r.Enabled)}
	hi, lo := bits.Mul64(r.Value, r.Enabled)
	lo, carry := bits.Add64(lo, r.Running/2, 0) // to the nearest
	hi += carry
	if hi >= r.Running {
		c.Value = math.MaxUint64
		return c
	}
	c.Value, _ = bits.Div64(hi, lo, r.Running)
	return c
}
