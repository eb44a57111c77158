// SPDX-License-Identifier: Apache-2.0

package pmu

import (
	"math"
	"math/bits"
)

// Reading is what the kernel tells of a counter at a moment: the count so far, and for how many
// nanoseconds it was wanted and really counted. They differ where more events are counted than there
// are counters: the kernel lets them take turns.
type Reading struct{ Value, Enabled, Running uint64 }

// Sub is what happened since an earlier reading of the same counter. ok is false where a number went
// backwards: the two are not of one counter.
func (r Reading) Sub(earlier Reading) (d Reading, ok bool) {
	if r.Value < earlier.Value || r.Enabled < earlier.Enabled || r.Running < earlier.Running {
		return Reading{}, false
	}
	return Reading{r.Value - earlier.Value, r.Enabled - earlier.Enabled, r.Running - earlier.Running}, true
}

// Add sums two spans; a sum that no longer fits stays at the largest number.
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

// State says how far a count can be trusted.
type State uint8

const (
	// Unknown: the counter did not run in this span. There is no count, in particular not 0.
	Unknown State = iota
	// Exact: it ran all the time.
	Exact
	// Scaled: it ran for a share of the time, and the count is an estimate: what was counted, times
	// enabled/running.
	Scaled
)

func (s State) String() string { return [...]string{"unknown", "exact", "scaled"}[s] }

// Count is a span's count.
type Count struct {
	Value uint64 // 0 where State is Unknown
	State State
	Share float64 // of the time that it ran: 0 to 1
}

// Count estimates what a span's count is.
//
// The estimate takes for granted that the events came as often while the counter did not run. An
// operator is often shorter than a turn (4 ms): its counter ran all the time or not at all. So the
// spans of many operators are added first, and the sum is scaled: single spans that are scaled and then added
// leave out all that were Unknown.
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
