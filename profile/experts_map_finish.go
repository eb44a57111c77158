// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"cmp"
	"maps"
	"slices"
)

// Finish makes the map; the builder takes no more.
func (b *ExpertMapBuilder) Finish() *ExpertMap {
	m := &ExpertMap{SchemaVersion: ExpertMapSchema, Phases: []ExpertMapPhase{}, MaxError: histogramError}
	models := b.models.Models() // puts them in order
	whole, part := b.byModel(b.whole), b.byModel(b.part)
	for _, p := range []Phase{Prefill, Decode, Encode, Unknown} {
		for i := -1; i < len(models); i++ {
			k := modelKey{p, i}
			g := whole[k]
			if g == nil || g.steps == 0 {
				g = part[k] // as Stat: no step was wholly seen
			}
			if g == nil || len(g.sums.layers) == 0 {
				continue
			}
			out := g.finish()
			out.Phase = string(p)
			if i >= 0 {
				out.Model = &i
			}
			m.Phases = append(m.Phases, out)
		}
	}
	return m
}

// byModel joins groups whose models turned out to be one.
func (b *ExpertMapBuilder) byModel(groups map[expertPhase]*expertGroup) map[modelKey]*expertGroup {
	out := map[modelKey]*expertGroup{}
	keys := slices.SortedFunc(maps.Keys(groups), func(a, b expertPhase) int { return cmp.Compare(groups[a].number, groups[b].number) })
	for _, k := range keys {
		m := modelKey{k.phase, b.models.Index(k.model)}
		if out[m] == nil {
			out[m] = groups[k]
		} else {
			out[m].merge(groups[k])
		}
	}
	return out
}

func (g *expertGroup) merge(o *expertGroup) {
	g.steps += o.steps
	g.sums.merge(&o.sums)
	g.sums.tokens.merge(o.sums.tokens)
	for g.each < o.each {
		g.halve()
	}
	for o.each < g.each {
		o.halve()
	}
	g.points = append(g.points, o.points...)
	slices.SortStableFunc(g.points, func(a, b ExpertStep) int { return cmp.Compare(a.ID, b.ID) })
	for len(g.points) > maxPoints {
		g.halve()
	}
}

func (g *expertGroup) finish() ExpertMapPhase {
	stat := g.sums.finish() // puts the layers in order
	p := ExpertMapPhase{Layers: []ExpertMapLayer{}, Axes: []ExpertAxis{}, Steps: g.points, PerPoint: g.each, Products: []ExpertTimes{}}
	if p.Steps == nil {
		p.Steps = []ExpertStep{}
	}
	p.Cache = hitsOf(g.sums.distances, g.sums.first)
	for _, k := range g.sums.order {
		l, t := g.sums.layers[k], g.sums.tokens.layers[k]
		e := ExpertMapLayer{Experts: k.experts, Used: k.used, Columns: len(t.cols), TokensPerColumn: t.wide, Offset: len(p.Data), Cache: hitsOf(l.distances, l.first)}
		if k.layer >= 0 {
			e.Layer = &k.layer
		}
		if l.chosen > 0 {
			e.ByChance = ratio(l.chance, float64(l.chosen))
		}
		p.Data, e.Width = t.pack(p.Data)
		axis := t.axis()
		e.Axis = slices.IndexFunc(p.Axes, func(a ExpertAxis) bool { return a.equal(&axis) })
		if e.Axis < 0 {
			e.Axis = len(p.Axes)
			p.Axes = append(p.Axes, axis)
		}
		p.Layers = append(p.Layers, e)
	}
	for i, k := range g.sums.weights {
		p.Products = append(p.Products, g.sums.products[k].times(&stat.Products[i]))
	}
	return p
}

// hitsOf returns which part of the uses caches of 1, 2, 3 ... experts would have held, up to the last that holds more than the one before.
func hitsOf(distances []int64, first int64) []float64 {
	out := []float64{}
	uses := first
	for _, n := range distances {
		uses += n
	}
	held := int64(0)
	for _, n := range distances {
		held += n
		out = append(out, float64(held)/float64(uses))
	}
	return out
}

// times adds the spread to what Stat has of a weight's products.
func (p *newSum) times(s *ExpertProduct) ExpertTimes {
	e := ExpertTimes{Weight: s.Weight, Type: s.Type, New: []ExpertNewTimes{}, PerNew: s.PerNew}
	var w, x, y float64
	for _, n := range s.New {
		h := &p.new[n.New].hist
		e.New = append(e.New, ExpertNewTimes{New: n.New, Calls: n.Calls, Mean: n.Mean, P5: h.quantile(0.05), P25: h.quantile(0.25), P50: n.Median, P75: h.quantile(0.75), P95: h.quantile(0.95)})
		w += float64(n.Calls)
		x += float64(n.Calls) * float64(n.New)
		y += float64(n.Calls) * n.Median
	}
	if s.PerNew != nil {
		v := y/w - *s.PerNew*x/w // the line goes through the mean of the points
		e.Base = &v
	}
	return e
}
