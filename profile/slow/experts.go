// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"slices"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/experts"
	"github.com/profinfer/profinfer/profile/facts"
)

// expertUse is what a step's matmuls with one token's experts of one weight took.
type expertUse struct {
	weight int16 // index of expertBook.weights
	fresh  int32 // experts that the previous batch did not use, summed over the matmuls
	work   int64 // of the matmuls, ns
}

// expertBook learns how the time of matmuls depends on how many of their experts are new: not used by the
// previous batch of the same context and phase. Its memory is bounded by layers, weights and experts.
type expertBook struct {
	batches experts.Batches
	fresh   map[*profile.Choice]int32 // of the step in progress
	at      map[experts.Weight]int16
	weights []*experts.CostByNew
}

// step counts the new experts of a step's choices: nil where that is unknown for all of them.
func (b *expertBook) step(s *profile.Step, ops []*profile.Op, whole bool) (fresh *int64) {
	clear(b.fresh)
	if !whole {
		b.batches.Forget(s)
		return nil
	}
	var sum int64
	for _, o := range ops {
		c := o.Choice
		if c == nil {
			continue
		}
		if !c.Whole() || c.Total <= 0 || c.Total > experts.MaxExperts {
			b.batches.ForgetLayer(s, c.Layer)
			continue
		}
		if _, ok := b.fresh[c]; ok {
			continue
		}
		n, _ := b.batches.New(s, c.Layer, c.Set())
		if b.fresh == nil {
			b.fresh = map[*profile.Choice]int32{}
		}
		b.fresh[c] = int32(n)
		if n >= 0 {
			sum += int64(n)
			fresh = &sum
		}
	}
	return fresh
}

// product records the time of an operator.
func (b *expertBook) product(r *stepRecord, o *profile.Op, d *facts.Derived, work int64) {
	if o.Choice == nil || o.Choice.Tokens != 1 || o.Incomplete || d.Weight == "" {
		return
	}
	n, ok := b.fresh[o.Choice]
	if !ok || n < 0 {
		return
	}
	k := experts.Weight{Weight: d.Stem, Typ: d.WeightType}
	i, ok := b.at[k]
	if !ok {
		if len(b.weights) >= experts.MaxExpertWeights {
			return
		}
		if b.at == nil {
			b.at = map[experts.Weight]int16{}
		}
		i = int16(len(b.weights))
		b.at[k] = i
		b.weights = append(b.weights, &experts.CostByNew{})
	}
	c := b.weights[i].At(int(n))
	c.Calls++
	c.Dur += work
	c.Hist.Add(work)
	at := slices.IndexFunc(r.experts, func(u expertUse) bool { return u.weight == i })
	if at < 0 {
		at = len(r.experts)
		r.experts = append(r.experts, expertUse{weight: i})
	}
	r.experts[at].fresh += n
	r.experts[at].work += work
}

// typicalExperts is the mean over a sample's matmuls with experts, by weight.
type typicalExperts struct{ n, fresh, work float64 }

// explain returns what new experts add to a step compared with its neighbours, ns. For each weight's matmuls
// it is the cost of a new expert times the number of additional new experts, and at most the extra time of
// these matmuls.
func (b *expertBook) explain(r *stepRecord, ref *typicalStep) float64 {
	var sum float64
	for _, u := range r.experts {
		t := ref.experts[u.weight]
		if t == nil || t.n*2 < ref.n {
			continue
		}
		more, took := float64(u.fresh)-t.fresh/t.n, float64(u.work)-t.work/t.n
		if more == 0 || took == 0 || more > 0 != (took > 0) {
			continue
		}
		cost := b.weights[u.weight].Price() * more
		if more > 0 {
			sum += min(cost, took)
		} else {
			sum += max(cost, took)
		}
	}
	return sum
}

// addExperts adds the experts of a typical step.
func (t *typicalStep) addExperts(r *stepRecord) {
	for _, u := range r.experts {
		if t.experts == nil {
			t.experts = map[int16]*typicalExperts{}
		}
		e := t.experts[u.weight]
		if e == nil {
			e = &typicalExperts{}
			t.experts[u.weight] = e
		}
		e.n++
		e.fresh += float64(u.fresh)
		e.work += float64(u.work)
	}
	if r.fresh >= 0 {
		t.fresh += float64(r.fresh)
		t.freshN++
	}
}
