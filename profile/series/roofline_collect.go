// SPDX-License-Identifier: Apache-2.0

package series

import (
	"cmp"
	"maps"
	"slices"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/internal/num"
	"github.com/profinfer/profinfer/profile/ops"
	"github.com/profinfer/profinfer/profile/roof"
	"github.com/profinfer/profinfer/profile/summary"
	"github.com/profinfer/profinfer/profile/verdict"
)

// A Builder collects the roofline, because it has the operators of each step at hand when the step
// ends.

// rooflineBy are the groupings of points.
var rooflineBy = [...]facts.By{facts.ByWeight, facts.ByOp}

// teamSum sums up the steps of a phase that one number of threads computed.
type teamSum struct {
	steps, dur, tokens int64
	noTokens           bool
	points             [len(rooflineBy)]map[pointKey]*pointSum
	all                pointSum // of all operators
	dropped            int64
}

type pointKey struct {
	key, typ string
	weight   bool
}

// pointSum is a point while it is summed up.
type pointSum struct {
	calls, dur                       int64
	bytes, bytesDur, flops           int64
	both, bothBytes, bothDur         int64 // of operators for which both are known
	hasBytes, hasFlops, atMost, have bool
	block                            ops.Block
	counts                           summary.RowSum // of which only the counters are used
}

// teamOf returns how many threads computed operators of a step: the most that one operator has.
func teamOf(ops []*profile.Op) int {
	n := 0
	for _, o := range ops {
		n = max(n, len(o.Threads))
	}
	return n
}

// team returns the sums of a number of threads; nil: unknown, or there are too many.
func (g *seriesGroup) team(n int) *teamSum {
	t := g.teams[n]
	if t == nil {
		if n <= 0 {
			return nil
		}
		if len(g.teams) >= maxRooflineTeams {
			return nil
		}
		if g.teams == nil {
			g.teams = map[int]*teamSum{}
		}
		t = &teamSum{}
		for i := range t.points {
			t.points[i] = map[pointKey]*pointSum{}
		}
		g.teams[n] = t
	}
	return t
}

// step adds a step whose operators were added.
func (t *teamSum) step(s *profile.Step) {
	t.steps++
	t.dur += s.Dur
	if s.NTokens < 0 {
		t.noTokens = true
	} else {
		t.tokens += int64(s.NTokens)
	}
}

// place adds an operator to its points. The points are cached with the facts of its definition: a definition
// is mostly computed by one number of threads.
func (t *teamSum) place(f *seriesFacts, d *facts.Derived, o *profile.Op) {
	if f.team != t {
		f.team = t
		for i, by := range rooflineBy {
			key, weight := facts.RowKey(by, d, o.Op)
			k := pointKey{key: key, weight: weight}
			if weight || by == facts.ByOp {
				k.typ = d.WeightType
			}
			p := t.points[i][k]
			if p == nil && len(t.points[i]) < maxRooflinePoints {
				p = &pointSum{}
				t.points[i][k] = p
			}
			f.points[i] = p
		}
	}
	for i, p := range f.points {
		if p != nil {
			p.add(d, o)
		} else if i == 0 {
			t.dropped++
		}
	}
	t.all.add(d, o)
}

func (p *pointSum) add(d *facts.Derived, o *profile.Op) {
	net := o.Dur - o.Probe
	p.calls++
	p.dur += net
	if !p.have {
		p.have, p.block = true, d.Block
	} else if p.block != d.Block {
		p.block = ""
	}
	if d.Bytes != nil {
		p.hasBytes = true
		p.bytes += *d.Bytes
		p.bytesDur += net
		p.atMost = p.atMost || d.BytesAtMost
	}
	if d.Flops != nil {
		p.hasFlops = true
		p.flops += *d.Flops
	}
	if d.Bytes != nil && d.Flops != nil {
		p.both += *d.Flops
		p.bothBytes += *d.Bytes
		p.bothDur += net
	}
	if o.Counts != nil {
		p.counts.Count(o.Counts)
	}
}

func (p *pointSum) merge(o *pointSum) {
	if o.have && !p.have {
		p.have, p.block = true, o.block
	} else if o.have && p.block != o.block {
		p.block = ""
	}
	p.calls += o.calls
	p.dur += o.dur
	p.bytes += o.bytes
	p.bytesDur += o.bytesDur
	p.flops += o.flops
	p.both += o.both
	p.bothBytes += o.bothBytes
	p.bothDur += o.bothDur
	p.hasBytes = p.hasBytes || o.hasBytes
	p.hasFlops = p.hasFlops || o.hasFlops
	p.atMost = p.atMost || o.atMost
	p.counts.MergeCounts(&o.counts)
}

func (t *teamSum) merge(o *teamSum) {
	t.steps += o.steps
	t.dur += o.dur
	t.tokens += o.tokens
	t.noTokens = t.noTokens || o.noTokens
	t.dropped += o.dropped
	t.all.merge(&o.all)
	for i := range o.points {
		for k, p := range o.points[i] {
			to := t.points[i][k]
			switch {
			case to != nil:
				to.merge(p)
			case len(t.points[i]) >= maxRooflinePoints:
				if i == 0 {
					t.dropped += p.calls
				}
			default:
				t.points[i][k] = p
			}
		}
	}
}

// mergeTeams adds the steps of another context.
func (g *seriesGroup) mergeTeams(o *seriesGroup) {
	for n, t := range o.teams {
		if to := g.team(n); to != nil {
			to.merge(t)
		}
	}
}

// rooflineGroups completes the sums of a phase.
func (g *seriesGroup) rooflineGroups(ps *Phase, counters int) []RooflineGroup {
	var out []RooflineGroup
	for _, n := range slices.Sorted(maps.Keys(g.teams)) {
		t := g.teams[n]
		v := RooflineGroup{Phase: ps.Phase, Model: ps.Model, Threads: n, OnlyPartial: ps.OnlyPartial,
			Steps: t.steps, Dur: t.dur, Dropped: t.dropped,
			Counts: t.all.counts.StatCounts(counters)}
		if !t.noTokens {
			tokens := t.tokens
			v.Tokens = &tokens
		}
		for i, to := range []*[]RooflinePoint{&v.ByWeight, &v.ByOp} {
			*to = []RooflinePoint{}
			for k, p := range t.points[i] {
				*to = append(*to, p.point(k, t.dur, counters))
			}
			slices.SortFunc(*to, func(a, b RooflinePoint) int {
				return cmp.Or(cmp.Compare(b.Dur, a.Dur), cmp.Compare(a.Key, b.Key),
					cmp.Compare(a.Type, b.Type))
			})
		}
		out = append(out, v)
	}
	return out
}

func (p *pointSum) point(k pointKey, steps int64, counters int) RooflinePoint {
	v := RooflinePoint{Key: k.key, Weight: k.weight, Type: k.typ, Block: p.block, Calls: p.calls, Dur: p.dur,
		Share:       num.Share(p.dur, steps),
		BytesAtMost: p.atMost, Counts: p.counts.StatCounts(counters)}
	if p.hasBytes {
		bytes := p.bytes
		v.Bytes, v.GBps = &bytes, num.PerSecond(p.bytes, p.bytesDur)
	}
	if p.hasFlops {
		flops := p.flops
		v.Flops = &flops
	}
	if p.bothBytes > 0 {
		v.Intensity, v.GFlops = num.Share(p.both, p.bothBytes), num.PerSecond(p.both, p.bothDur)
	}
	return v
}

// Roofline returns the run's roofline, with peaks that are nil where unknown. Call Finish first.
func (b *Builder) Roofline(h *profile.Header, peaks *roof.Peaks) *Roofline {
	v := &Roofline{SchemaVersion: RooflineSchema, Groups: []RooflineGroup{},
		Counters: summary.CountersOf(h.Meta.Counters)}
	v.Peaks.Roofs = []roof.UsedRoof{}
	if peaks != nil {
		v.Peaks.Source, v.Peaks.Missing, v.Peaks.Doubtful = peaks.Source, peaks.Missing, peaks.Doubtful
	}
	type at struct {
		threads int
		typ     string
	}
	seen := map[at]roof.Roof{}
	for _, g := range b.roofline {
		for _, points := range [][]RooflinePoint{g.ByWeight, g.ByOp} {
			for i := range points {
				p := &points[i]
				k := at{g.Threads, p.Type}
				peak, ok := seen[k]
				if !ok && p.Intensity != nil && len(seen) < verdict.MaxRoofs {
					peak = peaks.Roof(g.Threads, p.Type)
					seen[k] = peak
					if peak.GBps != nil || peak.GFlops != nil {
						v.Peaks.Roofs = append(v.Peaks.Roofs, roof.UsedRoof{Weight: p.Type, Roof: peak})
					}
				}
				if p.Intensity == nil || p.GFlops == nil {
					continue
				}
				if limit, most, ok := peak.Under(*p.Intensity); ok {
					p.Limit, p.OfRoof = limit, num.Ratio(*p.GFlops, most)
				}
			}
		}
		v.Groups = append(v.Groups, g)
	}
	slices.SortFunc(v.Peaks.Roofs, func(a, b roof.UsedRoof) int {
		return cmp.Or(cmp.Compare(a.Threads, b.Threads), cmp.Compare(a.Weight, b.Weight))
	})
	return v
}
