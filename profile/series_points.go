// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"cmp"
	"math"
	"slices"
)

// pointList keeps steps, thinned: once there are too many, neighbours become one point.
type pointList struct {
	points []StepPoint
	every  int64 // steps a point stands for at most; 0: one
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
	for len(l.points) > maxPoints {
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

// merge takes the steps of another list, which ran before, after or between these.
func (l *pointList) merge(o *pointList) {
	l.points = append(l.points, o.points...)
	slices.SortStableFunc(l.points, func(a, b StepPoint) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.ID, b.ID)) })
	l.every = max(l.every, o.every)
	l.thin()
}

// slowest keeps the slowest steps one by one.
type slowest []StepPoint

func (l *slowest) add(p StepPoint) {
	if *l = append(*l, p); len(*l) >= 4*maxSlowest {
		l.cut()
	}
}

func (l *slowest) cut() {
	slices.SortStableFunc(*l, func(a, b StepPoint) int { return cmp.Or(cmp.Compare(b.whole(), a.whole()), cmp.Compare(a.ID, b.ID)) })
	*l = (*l)[:min(len(*l), maxSlowest)]
}

// whole is the time until the steps' results were there, as far as that was seen.
func (p *StepPoint) whole() int64 {
	if p.Late == nil {
		return p.Dur
	}
	return p.Dur + *p.Late
}

// sum adds what may be unknown: a part of a sum is none of it, so unknown stays unknown.
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

// bucketBound returns the upper bound of bucket i, the lower one of the next.
func bucketBound(i int) float64 { return math.Exp(float64(i) * logGamma) }

// dist returns the distribution as it is drawn.
func (d *distSum) dist() Dist {
	h := &d.hist
	v := Dist{N: h.n, Min: d.min, Max: d.max, Zeros: h.zeros, Counts: []int64{},
		P5: h.quantile(0.05), P25: h.quantile(0.25), P50: h.quantile(0.5), P75: h.quantile(0.75), P95: h.quantile(0.95)}
	if h.n > 0 {
		v.Mean = float64(d.sum) / float64(h.n)
	}
	first, last := 0, len(h.counts)
	for first < last && h.counts[first] == 0 {
		first++
	}
	for last > first && h.counts[last-1] == 0 {
		last--
	}
	// Buckets are joined to few, on bounds that are the same for all rows: two rows' buckets of one width
	// lie on each other.
	wide := 1
	bounds := func() (lo, hi int) { return floorDiv(h.first+first-1, wide), floorDiv(h.first+last-2, wide) }
	for first < last {
		lo, hi := bounds()
		if hi-lo < maxBuckets {
			v.Lo, v.Ratio = bucketBound(lo*wide), bucketBound(wide)
			v.Counts = make([]int64, hi-lo+1)
			for i := first; i < last; i++ {
				v.Counts[floorDiv(h.first+i-1, wide)-lo] += int64(h.counts[i])
			}
			break
		}
		wide++
	}
	return v
}

// distSum is a distribution under way.
type distSum struct {
	hist          histogram
	min, max, sum int64
}

// add adds a duration without what its probes took: that is an estimate, and can be more than there was.
func (d *distSum) add(net int64) {
	d.sum += net
	v := max(0, net)
	if d.hist.n == 0 || v < d.min {
		d.min = v
	}
	d.max = max(d.max, v)
	d.hist.add(v)
}

func (d *distSum) merge(o *distSum) {
	if o.hist.n == 0 {
		return
	}
	if d.hist.n == 0 {
		d.min = o.min
	}
	d.min, d.max = min(d.min, o.min), max(d.max, o.max)
	d.sum += o.sum
	d.hist.merge(&o.hist)
}

func floorDiv(a, b int) int {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
