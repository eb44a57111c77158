// SPDX-License-Identifier: Apache-2.0

// Package experts reports which experts of a mixture of experts the tokens choose, what new ones cost, and
// how well a cache would serve them.
package experts

import (
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/internal/sketch"
)

// Stat is what a phase's tokens chose, over the complete steps. A batch is one execution of a layer's choice:
// a step in decode, and in prefill a part of one if the engine splits it. Shares are 0 to 1, and a nil
// pointer is unknown.
type Stat struct {
	Layers []Layer `json:"layers"` // in order
	// Bytes is that of the chosen experts' weights that a step must read, each expert counted once per
	// matmul; BytesAll is that of all experts. They are means over the steps with choices; nil where a type's
	// size is unknown.
	Bytes    *float64 `json:"bytes_per_step"`
	BytesAll *float64 `json:"bytes_of_all_experts"`
	// Again is the share of a batch's experts that the previous batch of the same context and phase chose as
	// well; ByChance is what it would be if each token chose at random. nil: no two consecutive batches.
	Again    *float64 `json:"reused_share"`
	ByChance *float64 `json:"reused_by_chance"`
	// Cache is the simulated hit rate of an LRU cache of Experts experts per layer: the share of choices
	// whose reuse distance (the number of other experts chosen since) is below Experts. The first choice of
	// an expert is a miss. It is empty where no expert could be chosen twice.
	Cache []Cache `json:"cache"`
	// Products are the times of matmuls with one token's experts, by weight and by how many of these are new:
	// not chosen by the previous batch.
	Products []Product `json:"products"`
	// NotSeen counts choices (of a batch and layer) of which a part was lost. Slots counts those that hold
	// slots of a cache instead of experts. Both are left out. Dropped counts those of layers beyond the
	// limit.
	NotSeen int64 `json:"not_seen"`
	Slots   int64 `json:"slots"`
	Dropped int64 `json:"dropped"`
}

// Layer is what tokens chose in one layer.
type Layer struct {
	Layer   *int  `json:"layer"` // nil: unknown
	Experts int   `json:"experts"`
	Used    int   `json:"used"` // per token
	Batches int64 `json:"batches"`
	Tokens  int64 `json:"tokens"`
	// Load is how many tokens chose each expert.
	Load []int64 `json:"load"`
	// Imbalance is the largest load / the mean - 1; Unused counts experts that no token chose.
	Imbalance float64 `json:"imbalance"`
	Unused    int     `json:"unused"`
	// Distinct is the mean number of distinct experts per batch.
	Distinct float64  `json:"distinct_per_batch"`
	Again    *float64 `json:"reused_share"`
}

// Cache is the hit rate of a cache with a given number of experts per layer.
type Cache struct {
	Experts int     `json:"experts"`
	Hits    float64 `json:"hit_rate"`
}

// Product is the matmuls of one weight with chosen experts.
type Product struct {
	Weight string     `json:"weight"` // ffn_down_exps
	Type   string     `json:"type"`
	New    []NewCalls `json:"new"` // by number of new experts
	// PerNew is the cost of one more new expert in a matmul, ns: the slope of the least-squares line through
	// the medians, weighted by calls. Medians are used because some matmuls are slow for other reasons. nil
	// where the number of new experts did not vary.
	PerNew *float64 `json:"per_new_ns"`
}

// NewCalls are matmuls with a given number of new experts.
type NewCalls struct {
	New    int     `json:"new"`
	Calls  int64   `json:"calls"`
	Mean   float64 `json:"mean_ns"`   // without the time of the probes; so is the median
	Median float64 `json:"median_ns"` // within the error Stat.MaxError
}

const (
	// maxExpertLayers bounds the layers kept per phase, MaxExperts the experts of a layer; more are dropped.
	maxExpertLayers = 1024
	MaxExperts      = 4096
	// MaxExpertWeights bounds the weights whose matmuls are kept separately.
	MaxExpertWeights = 64
)

// recent is a layer's experts over all phases, most recently chosen first.
type recent struct {
	order []int32
	spare []int32
}

// Sums are the sums of a group.
type Sums struct {
	layers                  map[layerKey]*layerLoad
	order                   []layerKey
	steps                   int64 // with choices
	bytes, all              float64
	noBytes                 bool
	distinct                int64 // experts of batches
	chosen, again           int64 // of batches whose predecessor is known
	chance                  float64
	distances               []int64 // by reuse distance
	first                   int64   // choices of an expert that was not chosen before
	products                map[Weight]*CostByNew
	weights                 []Weight
	notSeen, slots, dropped int64
	tokens                  *tokenMaps // what each token chose; nil: not requested
}

type layerKey struct{ layer, experts, used int }

type layerLoad struct {
	load            []int64
	batches, tokens int64
	distinct        int64
	chosen, again   int64
	chance          float64
	distances       []int64 // by reuse distance
	first           int64
}

type Weight struct{ Weight, Typ string }

// CostByNew is the cost of matmuls by how many of their experts are new.
type CostByNew struct{ new []*newCalls }

type newCalls struct {
	Calls, Dur int64
	Hist       sketch.Histogram
}

// At returns the sums of matmuls with n new experts.
func (p *CostByNew) At(n int) *newCalls {
	for len(p.new) <= n {
		p.new = append(p.new, &newCalls{})
	}
	return p.new[n]
}

// Collector collects the choices for statistics.
type Collector struct {
	batches Batches
	recent  map[layerOf]*recent
	mark    [MaxExperts]int32 // by expert, 0 between uses
}

// Forget drops what is known of a context's latest choices, after an incomplete step.
func (e *Collector) Forget(s *profile.Step) {
	e.batches.Forget(s)
	forgetContext(e.recent, s)
}

// Fold adds the choices of a step's operators to the sums.
func (e *Collector) Fold(g *Sums, d *facts.Deriver, s *profile.Step, ops []*profile.Op) {
	var c *profile.Choice
	fresh := -1 // number of new experts of c; -1: unknown
	any := false
	for _, o := range ops {
		if o.Choice == nil {
			continue
		}
		if o.Choice != c {
			c = o.Choice
			fresh = -1
			if g.takes(c) {
				fresh = e.batch(g, s, c)
			}
		}
		if c.Slots || !c.Whole() {
			continue
		}
		any = true
		g.read(o)
		if fresh >= 0 && c.Tokens == 1 {
			g.product(d.Derive(o), o, fresh)
		}
	}
	if any {
		g.steps++
	}
}

// takes reports whether a choice counts; otherwise it records why not.
func (g *Sums) takes(c *profile.Choice) bool {
	switch {
	case c.Slots:
		g.slots++
		return false
	case !c.Whole():
		g.notSeen++
		return false
	case c.Total <= 0 || c.Total > MaxExperts:
		g.dropped++
		return false
	}
	for _, x := range c.Chosen {
		if x < 0 || int(x) >= c.Total {
			g.notSeen++ // no expert has that number: it was overwritten before it was read
			return false
		}
	}
	return true
}

// batch takes one choice. It returns how many of its experts are new, -1 if unknown.
func (e *Collector) batch(g *Sums, s *profile.Step, c *profile.Choice) int {
	k := layerKey{c.Layer, c.Total, c.Used}
	l := g.layers[k]
	if l == nil {
		if len(g.layers) >= maxExpertLayers {
			g.dropped++
			return -1
		}
		if g.layers == nil {
			g.layers = map[layerKey]*layerLoad{}
		}
		l = &layerLoad{load: make([]int64, c.Total)}
		g.layers[k] = l
		g.order = append(g.order, k)
	}
	for _, x := range c.Chosen {
		l.load[x]++
	}
	set := c.Set()
	l.batches++
	l.tokens += int64(c.Tokens)
	l.distinct += int64(len(set))
	g.distinct += int64(len(set))

	rk := layerOf{s.PID, s.Ctx, c.Layer}
	r := e.recent[rk]
	if r == nil {
		if e.recent == nil || len(e.recent) >= maxRecent {
			e.recent = map[layerOf]*recent{}
		}
		r = &recent{}
		e.recent[rk] = r
	}
	fresh, before := e.batches.New(s, c.Layer, set)
	if fresh >= 0 {
		l.chosen += int64(len(set))
		l.again += int64(len(set) - fresh)
		g.chosen += int64(len(set))
		g.again += int64(len(set) - fresh)
		// by chance, each expert of this batch is in the previous one with probability before/Total
		chance := float64(len(set)) * float64(before) / float64(c.Total)
		g.chance += chance
		l.chance += chance
	}
	g.distance(r, set, l, &e.mark)
	if g.tokens != nil {
		g.tokens.add(k, s, c)
	}
	r.touch(set, &e.mark)
	return fresh
}

// distance counts, for each expert of the set, how many others were used since its last use.
func (g *Sums) distance(r *recent, set []int32, l *layerLoad, mark *[MaxExperts]int32) {
	for i, x := range r.order {
		mark[x] = int32(i) + 1
	}
	for _, x := range set {
		i := int(mark[x]) - 1
		if i < 0 {
			g.first++
			l.first++
			continue
		}
		g.distances = countAt(g.distances, i)
		l.distances = countAt(l.distances, i)
	}
	for _, x := range r.order {
		mark[x] = 0
	}
}

// countAt increments the count at an index.
func countAt(counts []int64, i int) []int64 {
	for len(counts) <= i {
		counts = append(counts, 0)
	}
	counts[i]++
	return counts
}

// touch moves the set to the front.
func (r *recent) touch(set []int32, mark *[MaxExperts]int32) {
	for _, x := range set {
		mark[x] = 1
	}
	order := append(r.spare[:0], set...)
	for _, x := range r.order {
		if mark[x] == 0 {
			order = append(order, x)
		}
	}
	for _, x := range set {
		mark[x] = 0
	}
	r.order, r.spare = order, r.order
}

// read adds the bytes of an operator's experts.
func (g *Sums) read(o *profile.Op) {
	some, ok := facts.ExpertBytes(o.Shape, o.Node, o.Choice.Distinct())
	all, known := facts.ExpertBytes(o.Shape, o.Node, o.Choice.Total)
	if !ok || !known {
		g.noBytes = true
		return
	}
	g.bytes += float64(some)
	g.all += float64(all)
}

// product adds the time of a matmul with one token's experts.
func (g *Sums) product(d *facts.Derived, o *profile.Op, fresh int) {
	if d.Weight == "" || o.Incomplete {
		return
	}
	k := Weight{d.Stem, d.WeightType}
	p := g.products[k]
	if p == nil {
		if len(g.products) >= MaxExpertWeights {
			return
		}
		if g.products == nil {
			g.products = map[Weight]*CostByNew{}
		}
		p = &CostByNew{}
		g.products[k] = p
		g.weights = append(g.weights, k)
	}
	c := p.At(fresh)
	c.Calls++
	c.Dur += o.Dur - o.Probe
	c.Hist.Add(o.Dur - o.Probe)
}
