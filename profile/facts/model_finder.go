// SPDX-License-Identifier: Apache-2.0

package facts

import "github.com/profinfer/profinfer/profile"

// ModelFinder tells which model a step computes, as [summary.Stat] does, for sinks that keep models apart. The
// zero value is ready. Models come to light with the graphs: numbers are final after the last.
type ModelFinder struct{ book Models }

// ModelRef is a model that a [ModelFinder] found; the zero value: not known which.
type ModelRef struct{ sum *ModelWeights }

// Op takes an operator.
func (f *ModelFinder) Op(o *profile.Op) {
	var ctx uint64
	if o.Step != nil {
		ctx = o.Step.Ctx
	}
	f.book.See(profile.PidOf(o), ctx, o.Shape, OpBackend(o))
}

// Graph takes a graph execution.
func (f *ModelFinder) Graph(g *profile.Graph) {
	if g.Shape != nil {
		f.book.See(g.PID, g.Ctx, g.Shape, g.Backend)
	}
}

// Of returns the model that a step computes.
func (f *ModelFinder) Of(s *profile.Step) ModelRef { return ModelRef{f.book.At(s.PID, s.Ctx)} }

// Models returns the models found, in the order of Stat.Models.
func (f *ModelFinder) Models() []Model { return f.book.List() }

// Index returns a model's place in Models, which has been called; -1: not known.
func (f *ModelFinder) Index(m ModelRef) int { return f.book.Index(m.sum) }

// RowName returns the name that an operator goes by in statistics by weight: its weight's without the
// layer, or what it computes, or its op. typ is the weight's type, empty if the name is no weight's.
func RowName(d *Derived, op string) (name, typ string) {
	name, weight := RowKey(ByWeight, d, op)
	if weight {
		typ = d.WeightType
	}
	return name, typ
}

// IndexOf returns a model's place in the list; nil: not known which.
func (b *Models) IndexOf(m *ModelWeights) *int {
	if i := b.Index(m); i >= 0 {
		return &i
	}
	return nil
}
