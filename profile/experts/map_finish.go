// SPDX-License-Identifier: Apache-2.0

package experts

import (
	"cmp"
	"maps"
	"slices"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/internal/limits"
	"github.com/profinfer/profinfer/profile/internal/num"
	"github.com/profinfer/profinfer/profile/internal/sketch"
)

// Finish builds the map; the builder must not be used afterwards.
func (b *MapBuilder) Finish() *Map {
	m := &Map{SchemaVersion: ExpertMapSchema, Phases: []MapPhase{}, MaxError: sketch.HistogramError}
	models := b.book.List() // sorts them
	whole, part := b.byModel(b.whole), b.byModel(b.part)
	for _, p := range []profile.Phase{profile.Prefill, profile.Decode, profile.Encode, profile.Unknown} {
		for i := -1; i < len(models); i++ {
			k := facts.ModelKey{Phase: p, Model: i}
			g := whole[k]
			if g == nil || g.steps == 0 {
				g = part[k] // as in Stat: no step was complete
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

// byModel merges groups whose models turned out to be one.
func (b *MapBuilder) byModel(groups map[expertPhase]*expertGroup) map[facts.ModelKey]*expertGroup {
	out := map[facts.ModelKey]*expertGroup{}
	keys := slices.SortedFunc(maps.Keys(groups), func(a, b expertPhase) int {
		return cmp.Compare(groups[a].number, groups[b].number)
	})
	for _, k := range keys {
		m := facts.ModelKey{Phase: k.phase, Model: b.book.Index(k.model)}
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
	g.sums.Merge(&o.sums)
	g.sums.tokens.merge(o.sums.tokens)
	for g.each < o.each {
		g.halve()
	}
	for o.each < g.each {
		o.halve()
	}
	g.points = append(g.points, o.points...)
	slices.SortStableFunc(g.points, func(a, b Step) int { return cmp.Compare(a.ID, b.ID) })
	for len(g.points) > limits.Points {
		g.halve()
	}
}

func (g *expertGroup) finish() MapPhase {
	stat := g.sums.Finish() // sorts the layers
	p := MapPhase{Layers: []MapLayer{}, Axes: []Axis{}, Steps: g.points, PerPoint: g.each,
		Products: []Times{}}
	if p.Steps == nil {
		p.Steps = []Step{}
	}
	p.Cache = hitsOf(g.sums.distances, g.sums.first)
	for _, k := range g.sums.order {
		l, t := g.sums.layers[k], g.sums.tokens.layers[k]
		e := MapLayer{Experts: k.experts, Used: k.used, Columns: len(t.cols), TokensPerColumn: t.wide,
			Offset: len(p.Data), Cache: hitsOf(l.distances, l.first)}
		if k.layer >= 0 {
			e.Layer = &k.layer
		}
		if l.chosen > 0 {
			e.ByChance = num.Ratio(l.chance, float64(l.chosen))
		}
		p.Data, e.Width = t.pack(p.Data)
		axis := t.axis()
		e.Axis = slices.IndexFunc(p.Axes, func(a Axis) bool { return a.equal(&axis) })
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

// hitsOf returns the hit rates of caches of 1, 2, 3 ... experts, up to the last size that improves the rate.
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

// times adds the distribution to Stat's figures of a weight's matmuls.
func (p *CostByNew) times(s *Product) Times {
	e := Times{Weight: s.Weight, Type: s.Type, New: []NewTimes{}, PerNew: s.PerNew}
	var w, x, y float64
	for _, n := range s.New {
		h := &p.new[n.New].Hist
		e.New = append(e.New, NewTimes{New: n.New, Calls: n.Calls, Mean: n.Mean, P5: h.Quantile(0.05),
			P25: h.Quantile(0.25), P50: n.Median, P75: h.Quantile(0.75), P95: h.Quantile(0.95)})
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
