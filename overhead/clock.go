// SPDX-License-Identifier: Apache-2.0

package overhead

import (
	"cmp"
	"slices"

	"github.com/profinfer/profinfer/profile"
)

// kind is the kind of a step: only steps of one kind have comparable durations.
type kind struct {
	pid     int32
	ctx     uint64
	phase   profile.Phase
	nTokens int32
}

// tick is a step with the time to the next one.
type tick struct {
	kind
	start, dur int64
	period     int64 // to the begin of its thread's next step; 0: there is none
}

// clock measures the time per step in a span.
type clock struct {
	ticks []tick // by start
	phase profile.Phase
	basis Basis
}

func newClock(steps []Step) *clock {
	steps = slices.Clone(steps)
	slices.SortFunc(steps, func(a, b Step) int {
		return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.TID, b.TID), cmp.Compare(a.Start, b.Start))
	})
	c := &clock{basis: Elapsed}
	for i, s := range steps {
		t := tick{kind: kind{s.PID, s.Ctx, s.Phase, s.NTokens}, start: s.Start, dur: s.Dur}
		if i+1 < len(steps) && steps[i+1].PID == s.PID && steps[i+1].TID == s.TID {
			t.period = steps[i+1].Start - s.Start
		}
		c.ticks = append(c.ticks, t)
	}
	slices.SortFunc(c.ticks, func(a, b tick) int { return cmp.Compare(a.start, b.start) })
	return c
}

// within returns the steps that begin in a span.
func (c *clock) within(s Span) []tick {
	find := func(t int64) int {
		i, _ := slices.BinarySearchFunc(c.ticks, t, func(k tick, t int64) int {
			return cmp.Compare(k.start, t)
		})
		return i
	}
	a, b := find(s.From), find(s.To)
	return c.ticks[a:max(a, b)]
}

// count is the number of complete steps, of any kind, in a span.
func (c *clock) count(s Span) (n int) {
	for _, t := range c.within(s) {
		if t.start+t.dur <= s.To {
			n++
		}
	}
	return n
}

// gaps is the share of the time between steps of the phase, over spans. It returns false if there are no
// steps.
func (c *clock) gaps(spans []Span) (float64, bool) {
	var in, all int64
	for _, s := range spans {
		for _, t := range c.within(s) {
			if t.phase == c.phase && t.period > 0 && t.start+t.period <= s.To {
				in += t.dur
				all += t.period
			}
		}
	}
	if all == 0 {
		return 0, false
	}
	return 1 - float64(in)/float64(all), true
}

// total is a sum over steps.
type total struct {
	n  int
	ns int64
}

func (t total) mean() float64 { return float64(t.ns) / float64(t.n) }

// sums adds up the complete steps of a span by kind: their periods, or their durations.
func (c *clock) sums(s Span) map[kind]total {
	m := make(map[kind]total)
	for _, t := range c.within(s) {
		ns := t.period
		if c.basis == Durations {
			ns = t.dur
		}
		if t.phase != c.phase || ns <= 0 || t.start+ns > s.To {
			continue
		}
		k := m[t.kind]
		m[t.kind] = total{k.n + 1, k.ns + ns}
	}
	return m
}

// perStep is the time per step, ns, in a span and in the two adjacent ones. It uses the kind of steps that
// takes most of the span's time among those of which all three have enough. n is the number of steps in the
// span or, if there is no such kind, the fewest of the fullest kind: less than MinSteps.
func (c *clock) perStep(s, before, after Span) (n int, x, b, a float64) {
	xs, bs, as := c.sums(s), c.sums(before), c.sums(after)
	var most int64
	var best kind
	enough := 0
	for k, t := range xs {
		few := min(t.n, bs[k].n, as[k].n)
		if few < MinSteps {
			if most == 0 {
				enough = max(enough, few)
			}
			continue
		}
		if t.ns > most || t.ns == most && less(k, best) {
			most, best = t.ns, k
		}
	}
	if most == 0 {
		return enough, 0, 0, 0
	}
	return xs[best].n, xs[best].mean(), bs[best].mean(), as[best].mean()
}

// less makes the choice between equal kinds deterministic.
func less(a, b kind) bool {
	return cmp.Or(cmp.Compare(a.pid, b.pid), cmp.Compare(a.ctx, b.ctx), cmp.Compare(a.nTokens, b.nTokens)) < 0
}
