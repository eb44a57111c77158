// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"github.com/profinfer/profinfer/internal/format"
	"github.com/profinfer/profinfer/profile/internal/num"
	"github.com/profinfer/profinfer/profile/summary"
)

const (
	scales   = 0.85 // of the threads' ratio: a rate that grows this much with the threads is per core
	noGrowth = 1.15 // a rate that grows by at most this with at least twice the threads is shared
)

// scaling compares matmuls that teams of several sizes computed in one phase, of the same type: a rate that
// grows with the threads is each core's own limit (compute), one that does not grow is that of a shared
// resource (memory). Empty: there are no such teams, or the rate is not conclusive. fewer and more are the
// numbers of threads.
func (j *judge) scaling(g *workGroup, c *workClass) (b summary.Bound, fewer, more int) {
	if c.what != "weight_matmul" {
		return "", 0, 0
	}
	var longest int64
	for _, x := range g.ways() {
		for _, y := range g.ways() {
			if x.typ != y.typ || x.chosen != y.chosen || x.team <= 0 || y.team < 2*x.team {
				continue
			}
			p, q := g.products(x), g.products(y)
			if min(p.work, q.work) <= max(minRefDur, longest) || p.bytes <= 0 || q.bytes <= 0 ||
				!similar(p.intensity(), q.intensity()) {
				continue
			}
			longest = min(p.work, q.work)
			b, fewer, more = "", x.team, y.team
			switch grown := num.SafeRatio(q.bytes, q.work) / num.SafeRatio(p.bytes, p.work); {
			case grown >= scales*float64(y.team)/float64(x.team):
				b = summary.BoundCompute
			case grown <= noGrowth:
				b = summary.BoundMemory
			}
		}
	}
	return b, fewer, more
}

func similar(a, b float64) bool { return a <= sameRate*b && b <= sameRate*a }

// byScaling decides, by teams of several sizes, what rates left open.
func (j *judge) byScaling(g *workGroup, c *workClass) {
	if c.bound != summary.BoundUnknown || c.short {
		return
	}
	b, fewer, more := j.scaling(g, c)
	text := format.Plural(int64(fewer), "thread") + " and " + format.Plural(int64(more), "thread") +
		" computed them: "
	switch {
	case b == summary.BoundMemory:
		c.is(b, 2)
		c.reasons = append(c.reasons, text+"more threads read no faster, so they share a limit.")
	case b == summary.BoundCompute && (c.memPeak == nil || *c.memPeak <= ruledOut):
		c.is(b, 1)
		c.reasons = append(c.reasons, text+
			"the rate grew with them, so each core is at its own limit.")
	default:
		return
	}
	c.neither = false
}
