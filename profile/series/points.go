// SPDX-License-Identifier: Apache-2.0

package series

import (
	"cmp"
	"slices"

	"github.com/profinfer/profinfer/profile/internal/limits"
)

// pointList keeps steps, thinned: once there are too many, neighbours are merged into one point.
type pointList struct {
	points []StepPoint
	every  int64 // most steps per point; 0: one
}

func (l *pointList) add(p StepPoint) {
	if n := len(l.points); n > 0 && l.points[n-1].N < l.every {
		l.points[n-1].join(&p)
		return
	}
	l.points = append(l.points, p)
	l.thin()
}

func (l *pointList) thin() {
	for len(l.points) > limits.Points {
		n := len(l.points)
		for i := 0; i < n; i += 2 {
			p := l.points[i]
			if i+1 < n {
				p.join(&l.points[i+1])
			}
			l.points[i/2] = p
		}
		l.points = l.points[:(n+1)/2]
		l.every = 2 * max(1, l.every)
	}
}

// merge merges the steps of another list, which ran before, after or between these.
func (l *pointList) merge(o *pointList) {
	l.points = append(l.points, o.points...)
	slices.SortStableFunc(l.points, func(a, b StepPoint) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.ID, b.ID))
	})
	l.every = max(l.every, o.every)
	l.thin()
}

// slowest keeps the slowest steps individually.
type slowest []StepPoint

func (l *slowest) add(p StepPoint) {
	if *l = append(*l, p); len(*l) >= 4*maxSlowest {
		l.cut()
	}
}

func (l *slowest) cut() {
	slices.SortStableFunc(*l, func(a, b StepPoint) int {
		return cmp.Or(cmp.Compare(b.whole(), a.whole()), cmp.Compare(a.ID, b.ID))
	})
	*l = (*l)[:min(len(*l), maxSlowest)]
}

// whole is the end-to-end time of the steps, where that was seen.
func (p *StepPoint) whole() int64 {
	if p.Late == nil {
		return p.Dur
	}
	return p.Dur + *p.Late
}

// sum adds values that may be unknown: the sum is unknown if either part is.
func (p *StepPoint) sum(to **int64, from *int64, mine, other bool) {
	switch {
	case !other: // nothing to add
	case !mine:
		if from != nil {
			v := *from
			*to = &v
		} else {
			*to = nil
		}
	case *to == nil || from == nil:
		*to = nil
	default:
		v := **to + *from
		*to = &v
	}
}

// join adds the steps of o, which come after p's.
func (p *StepPoint) join(o *StepPoint) {
	if o.Max > p.Max {
		p.Slowest = o.Slowest
	}
	p.N += o.N
	p.Dur += o.Dur
	p.Min, p.Max = min(p.Min, o.Min), max(p.Max, o.Max)
	p.sum(&p.Tokens, o.Tokens, true, true)
	p.sum(&p.Late, o.Late, true, true)
	p.Seqs = max(p.Seqs, o.Seqs)
	p.posSum += o.posSum
	p.posN += o.posN
	if o.Cells != nil && (p.Cells == nil || *o.Cells > *p.Cells) {
		p.Cells = o.Cells
	}
	mine, other := p.Traced > 0, o.Traced > 0
	p.sum(&p.MatMul, o.MatMul, mine, other)
	p.sum(&p.Attn, o.Attn, mine, other)
	p.sum(&p.Other, o.Other, mine, other)
	p.sum(&p.Backends, o.Backends, mine, other)
	p.sum(&p.Gap, o.Gap, mine, other)
	p.sum(&p.Probe, o.Probe, mine, other)
	p.sum(&p.Overlap, o.Overlap, mine, other)
	p.sum(&p.Busy, o.Busy, mine, other)
	p.sum(&p.Wait, o.Wait, mine, other)
	p.sum(&p.OffCPU, o.OffCPU, mine, other)
	p.sum(&p.Bytes, o.Bytes, mine, other)
	p.BytesDur += o.BytesDur
	p.Traced += o.Traced
	p.TracedDur += o.TracedDur
	p.Ops += o.Ops
	p.Untraced = cmp.Or(p.Untraced, o.Untraced)
	p.Incomplete = cmp.Or(p.Incomplete, o.Incomplete)
}
