// SPDX-License-Identifier: Apache-2.0

package experts

import (
	"cmp"
	"slices"

	"github.com/profinfer/profinfer/profile/internal/num"
)

// Finish computes the figures; nil where nothing was chosen.
func (g *Sums) Finish() *Stat {
	if len(g.layers) == 0 && g.notSeen+g.slots+g.dropped == 0 {
		return nil
	}
	s := &Stat{Layers: []Layer{}, Cache: []Cache{}, Products: []Product{},
		NotSeen: g.notSeen, Slots: g.slots, Dropped: g.dropped}
	slices.SortStableFunc(g.order, func(a, b layerKey) int { return cmp.Compare(a.layer, b.layer) })
	most := 0
	for _, k := range g.order {
		s.Layers = append(s.Layers, g.layers[k].finish(k))
		most = max(most, k.experts)
	}
	if g.steps > 0 && !g.noBytes {
		s.Bytes, s.BytesAll = num.Ratio(g.bytes, float64(g.steps)), num.Ratio(g.all, float64(g.steps))
	}
	if g.chosen > 0 {
		s.Again, s.ByChance = num.Share(g.again, g.chosen), num.Ratio(g.chance, float64(g.chosen))
	}
	s.Cache = g.cache(most)
	for _, k := range g.weights {
		s.Products = append(s.Products, g.products[k].finish(k))
	}
	return s
}

func (l *layerLoad) finish(k layerKey) Layer {
	e := Layer{Experts: k.experts, Used: k.used, Batches: l.batches, Tokens: l.tokens, Load: l.load,
		Distinct: float64(l.distinct) / float64(l.batches)}
	if k.layer >= 0 {
		e.Layer = &k.layer
	}
	var sum, most int64
	for _, n := range l.load {
		sum += n
		most = max(most, n)
		if n == 0 {
			e.Unused++
		}
	}
	if sum > 0 {
		e.Imbalance = float64(most)*float64(len(l.load))/float64(sum) - 1
	}
	if l.chosen > 0 {
		e.Again = num.Share(l.again, l.chosen)
	}
	return e
}

// cache returns the hit rates of caches of 1, 2, 4 ... experts, and of as many as there are.
func (g *Sums) cache(most int) []Cache {
	out := []Cache{}
	total := g.first
	for _, n := range g.distances {
		total += n
	}
	if total == g.first {
		return out
	}
	var held int64
	at := 0
	for n := 1; ; n *= 2 {
		n = min(n, most)
		for ; at < n && at < len(g.distances); at++ {
			held += g.distances[at]
		}
		out = append(out, Cache{n, float64(held) / float64(total)})
		if n >= most {
			return out
		}
	}
}

func (p *CostByNew) finish(k Weight) Product {
	e := Product{Weight: k.Weight, Type: k.Typ, New: []NewCalls{}}
	var line num.Line
	for n, c := range p.new {
		if c.Calls == 0 {
			continue
		}
		median := c.Hist.Quantile(0.5)
		e.New = append(e.New, NewCalls{n, c.Calls, float64(c.Dur) / float64(c.Calls), median})
		line.Add(float64(n), median, float64(c.Calls))
	}
	e.PerNew = line.Slope()
	return e
}

// Merge adds the sums of another group of the same model.
func (g *Sums) Merge(o *Sums) {
	for _, k := range o.order {
		l := o.layers[k]
		m := g.layers[k]
		if m == nil {
			if g.layers == nil {
				g.layers = map[layerKey]*layerLoad{}
			}
			m = &layerLoad{load: make([]int64, len(l.load))}
			g.layers[k] = m
			g.order = append(g.order, k)
		}
		for i, n := range l.load {
			m.load[i] += n
		}
		m.batches += l.batches
		m.tokens += l.tokens
		m.distinct += l.distinct
		m.chosen += l.chosen
		m.again += l.again
		m.chance += l.chance
		m.distances = addEach(m.distances, l.distances)
		m.first += l.first
	}
	g.steps += o.steps
	g.bytes += o.bytes
	g.all += o.all
	g.noBytes = g.noBytes || o.noBytes
	g.distinct += o.distinct
	g.chosen += o.chosen
	g.again += o.again
	g.chance += o.chance
	g.distances = addEach(g.distances, o.distances)
	g.first += o.first
	for _, k := range o.weights {
		p := g.products[k]
		if p == nil {
			if g.products == nil {
				g.products = map[Weight]*CostByNew{}
			}
			p = &CostByNew{}
			g.products[k] = p
			g.weights = append(g.weights, k)
		}
		p.merge(o.products[k])
	}
	g.notSeen += o.notSeen
	g.slots += o.slots
	g.dropped += o.dropped
}

func (p *CostByNew) merge(o *CostByNew) {
	for n, c := range o.new {
		to := p.At(n)
		to.Calls += c.Calls
		to.Dur += c.Dur
		to.Hist.Merge(&c.Hist)
	}
}

// addEach adds sums element by element.
func addEach(to, from []int64) []int64 {
	for len(to) < len(from) {
		to = append(to, 0)
	}
	for i, n := range from {
		to[i] += n
	}
	return to
}
