// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"cmp"
	"math"
	"slices"

	"github.com/profinfer/profinfer/profile/internal/num"
	"github.com/profinfer/profinfer/profile/sched"
)

const (
	maxSlowSteps = 1 << 15 // steps kept
	maxFound     = 1 << 12 // slow steps kept; of further ones only the sums
)

// The causes in a fixed order, for sums.
var slowCauses = [...]Cause{SlowOther, SlowOwn, SlowNotSeen, SlowDisk, SlowSleep, SlowFaults, SlowExperts,
	SlowImbalance, SlowKV,
	SlowRebuilt, SlowBackend, SlowCopies, SlowRecording, SlowSteal, SlowUnexplained}

type causeSums [len(slowCauses)]int64

func (s *causeSums) of(c Cause) *int64 { return &s[slices.Index(slowCauses[:], c)] }

// foundStep is a slow step with the causes of its excess. causes add up to excess.
type foundStep struct {
	stepRecord
	baseline, excess    int64
	neighbours, typical int
	usualFresh          *float64
	causes              causeSums
	shares              []whoShare
}

// whoShare is what one that took a CPU cost a step beyond what it cost the neighbours.
type whoShare struct {
	who  int32
	kind uint8
	ns   float64
	cost int64
	ran  int64
}

// slowTotals sums up slow steps that are no longer kept.
type slowTotals struct {
	found  []foundStep
	causes causeSums
	who    map[whoKindKey]*whoTotal
	next   float64 // the largest share among steps that are not slow
	near   bool
}

type whoKindKey struct {
	who  int32
	kind uint8
}

type whoTotal struct {
	ns  float64
	ran int64
}

// typicalStep is the typical step of a sample: sums over those nearest to its median.
type typicalStep struct {
	sampled   int
	n         float64
	dur       float64
	parts     [partCount]float64
	pos, posN float64
	slope     float64 // time of attention per position, ns
	rebuilt   float64
	first     float64
	who       map[whoKindKey]float64
	experts   map[int16]*typicalExperts
	fresh     float64
	freshN    float64
}

// judgeSome judges the older part of the kept steps, with the later ones as neighbours, and drops the oldest.
func (b *slowState) judgeSome() {
	n := len(b.records)
	b.judge(n * 3 / 4)
	b.records = slices.Delete(b.records, 0, n/2)
}

// judge compares the first n of the kept steps with their neighbours.
func (b *slowState) judge(n int) {
	kinds := map[int32][]int32{}
	for i := range b.records {
		k := b.records[i].kind
		kinds[k] = append(kinds[k], int32(i))
	}
	order := make([]int32, 0, len(kinds))
	for k := range kinds {
		order = append(order, k)
	}
	slices.Sort(order)
	var sample []int32
	for _, k := range order {
		list := kinds[k]
		var ref typicalStep
		block := -1
		for at, i := range list {
			r := &b.records[i]
			if int(i) >= n || r.judged {
				continue
			}
			r.judged = true
			from, to := b.window(list, at)
			switch {
			case to-from-1 < slowFewest:
				b.sum.Alone++
				continue
			case to-from > 4*slowNear && at/slowBlock == block:
				// With this many neighbours, those of the adjacent steps are as good.
			case to-from > 4*slowNear:
				block = at / slowBlock
				step := (to - from + slowSample - 1) / slowSample
				sample = sample[:0]
				for j := from; j < to; j += step {
					sample = append(sample, list[j])
				}
				ref = b.typical(sample)
			default:
				block = -1
				sample = append(append(sample[:0], list[from:at]...), list[at+1:to]...)
				ref = b.typical(sample)
			}
			b.compare(r, &ref)
		}
	}
}

// window returns the neighbours of a step in a list: those within some seconds, and at least the nearest.
func (b *slowState) window(list []int32, at int) (from, to int) {
	t := b.records[list[at]].start
	byTime := func(i int32, t int64) int { return cmp.Compare(b.records[i].start, t) }
	from, _ = slices.BinarySearchFunc(list, t-slowWindow, byTime)
	to, _ = slices.BinarySearchFunc(list, t+slowWindow, byTime)
	from, to = max(from, at-slowFar), min(to, at+slowFar+1)
	return max(0, min(from, at-slowNear)), min(len(list), max(to, at+slowNear+1))
}

// typical finds what is typical of a sample: the mean over the quarter of it around the median of the
// durations, corrected for how attention grows with the position. Means over one set of steps add up; medians
// of parts do not.
func (b *slowState) typical(sample []int32) typicalStep {
	t := typicalStep{sampled: len(sample), who: map[whoKindKey]float64{}}
	t.slope = b.slope(sample)
	dur := func(i int32) float64 {
		r := &b.records[i]
		return float64(r.dur) - t.slope*float64(max(0, r.pos))
	}
	slices.SortStableFunc(sample, func(x, y int32) int { return cmp.Compare(dur(x), dur(y)) })
	k := max(3, len(sample)/4)
	from := (len(sample) - k) / 2
	for _, i := range sample[from : from+k] {
		r := &b.records[i]
		t.n++
		t.dur += float64(r.dur)
		for p, ns := range r.parts {
			t.parts[p] += float64(ns)
		}
		if r.pos >= 0 {
			t.pos += float64(r.pos)
			t.posN++
		}
		if r.rebuilt {
			t.rebuilt++
		}
		if r.first {
			t.first++
		}
		t.addExperts(r)
		for _, c := range r.who {
			t.who[whoKindKey{c.who, c.kind}] += float64(c.cost)
		}
	}
	t.dur /= t.n
	for p := range t.parts {
		t.parts[p] /= t.n
	}
	if t.posN > 0 {
		t.pos /= t.posN
	}
	for c := range t.who {
		t.who[c] /= t.n
	}
	return t
}

// slope fits the time of attention to the position by least squares; 0 where it does not depend on it.
func (b *slowState) slope(sample []int32) float64 {
	var line num.Line
	n := 0
	first := true
	var at0 int64
	for _, i := range sample {
		r := &b.records[i]
		if r.pos < 0 || !r.hasOps {
			continue
		}
		if first {
			at0, first = r.pos, false
		}
		// small numbers: sums of squares stay exact
		line.Add(float64(min(max(r.pos-at0, math.MinInt32), math.MaxInt32)), float64(r.parts[partAttn]), 1)
		n++
	}
	vx, vy, cxy := line.Variances()
	if n < slowFewest || vx <= 0 || vy <= 0 || cxy <= 0 {
		return 0
	}
	r2 := cxy * cxy / vx / vy
	if n < 16 && r2 < 0.8 || r2 < 0.3 {
		return 0
	}
	return cxy / vx
}

// compare judges one step.
func (b *slowState) compare(r *stepRecord, ref *typicalStep) {
	b.sum.Steps++
	b.sum.Dur += r.dur
	f := foundStep{stepRecord: *r, baseline: int64(math.Round(ref.dur)), neighbours: ref.sampled,
		typical: int(ref.n)}
	f.excess = r.dur - f.baseline
	share := 0.0
	if f.baseline > 0 {
		share = float64(f.excess) / float64(f.baseline)
	}
	if f.excess <= slowLeast || share <= slowShare {
		if !b.doneBy.near || share > b.doneBy.next {
			b.doneBy.next, b.doneBy.near = share, true
		}
		return
	}
	b.explain(&f, ref)
	if ref.freshN*2 >= ref.n {
		f.usualFresh = num.Ratio(ref.fresh, ref.freshN)
	}
	b.sum.Slow++
	b.sum.SlowDur += r.dur
	b.sum.Excess += f.excess
	b.doneBy.add(f)
}

// explain sets the causes of a step's excess. What no cause claims is unexplained, so the parts add up.
func (b *slowState) explain(f *foundStep, ref *typicalStep) {
	beyond := func(p int) float64 { return float64(f.parts[p]) - ref.parts[p] }
	set := func(c Cause, ns float64) { *f.causes.of(c) += int64(math.Round(ns)) }
	set(SlowOther, beyond(partOff+sched.OffOther))
	set(SlowOwn, beyond(partOff+sched.OffOwn))
	set(SlowNotSeen, beyond(partOff+sched.OffUnseen))
	set(SlowDisk, beyond(partOff+sched.OffDisk))
	set(SlowSleep, beyond(partOff+sched.OffSleep))
	set(SlowFaults, beyond(partOff+sched.OffFault))
	set(SlowExperts, b.experts.explain(&f.stepRecord, ref))
	set(SlowImbalance, beyond(partWait))
	set(SlowBackend, beyond(partBackend))
	set(SlowCopies, beyond(partCopies))
	if ref.posN > 0 && f.pos >= 0 {
		// At most the extra time that attention took.
		grown, took := ref.slope*(float64(f.pos)-ref.pos), beyond(partAttn)
		switch {
		case grown > 0 && took > 0:
			set(SlowKV, min(grown, took))
		case grown < 0 && took < 0:
			set(SlowKV, max(grown, took))
		}
	}
	// A new graph costs time before it runs. If the neighbours had new ones too, that is not a difference.
	if f.rebuilt && ref.rebuilt*2 < ref.n && beyond(partOutside) > 0 {
		set(SlowRebuilt, beyond(partOutside))
	}
	if f.first && f.hasOps && ref.first*2 < ref.n && beyond(partGraph) > 0 {
		set(SlowRecording, beyond(partGraph))
	}
	var sum int64
	for _, ns := range f.causes {
		sum += ns
	}
	*f.causes.of(SlowUnexplained) = f.excess - sum
	f.shares = whoShares(f.who, ref.who)
}

// whoShares compares what each culprit cost with what it cost the neighbours.
func whoShares(own []whoCost, ref map[whoKindKey]float64) []whoShare {
	out := make([]whoShare, 0, len(own)+len(ref))
	seen := map[whoKindKey]bool{}
	for _, c := range own {
		k := whoKindKey{c.who, c.kind}
		seen[k] = true
		out = append(out, whoShare{c.who, c.kind, float64(c.cost) - ref[k], c.cost, c.ran})
	}
	for k, ns := range ref {
		if !seen[k] {
			out = append(out, whoShare{who: k.who, kind: k.kind, ns: -ns})
		}
	}
	slices.SortFunc(out, func(a, b whoShare) int {
		return cmp.Or(cmp.Compare(b.ns, a.ns), cmp.Compare(a.kind, b.kind), cmp.Compare(a.who, b.who))
	})
	return out
}

// add keeps a slow step. If there are too many, those with the smallest excess go into the sums.
func (t *slowTotals) add(f foundStep) {
	t.found = append(t.found, f)
	if len(t.found) < 2*maxFound {
		return
	}
	t.sort()
	for i := maxFound; i < len(t.found); i++ {
		t.take(&t.found[i])
	}
	clear(t.found[maxFound:])
	t.found = t.found[:maxFound]
}

func (t *slowTotals) sort() {
	slices.SortFunc(t.found, func(a, b foundStep) int {
		return cmp.Or(cmp.Compare(b.excess, a.excess), cmp.Compare(a.start, b.start), cmp.Compare(a.id, b.id))
	})
}

// take adds a step to the sums.
func (t *slowTotals) take(f *foundStep) {
	for i, ns := range f.causes {
		t.causes[i] += ns
	}
	for _, s := range f.shares {
		k := whoKindKey{s.who, s.kind}
		if t.who == nil {
			t.who = map[whoKindKey]*whoTotal{}
		}
		if t.who[k] == nil {
			t.who[k] = &whoTotal{}
		}
		t.who[k].ns += s.ns
		t.who[k].ran += s.ran
	}
}
