// SPDX-License-Identifier: Apache-2.0

package profile

// ModelFinder tells which model a step computes, as [Stat] does, for sinks that keep models apart. The
// zero value is ready. Models come to light with the graphs: numbers are final after the last.
type ModelFinder struct{ book modelBook }

// ModelRef is a model that a [ModelFinder] found; the zero value: not known which.
type ModelRef struct{ sum *modelSum }

// Op takes an operator.
func (f *ModelFinder) Op(o *Op) {
	var ctx uint64
	if o.Step != nil {
		ctx = o.Step.Ctx
	}
	f.book.see(pidOf(o), ctx, o.Shape, opBackend(o))
}

// Graph takes a graph execution.
func (f *ModelFinder) Graph(g *Graph) {
	if g.Shape != nil {
		f.book.see(g.PID, g.Ctx, g.Shape, g.Backend)
	}
}

// Of returns the model that a step computes.
func (f *ModelFinder) Of(s *Step) ModelRef { return ModelRef{f.book.at(s.PID, s.Ctx)} }

// Models returns the models found, in the order of Stat.Models.
func (f *ModelFinder) Models() []Model { return f.book.list() }

// Index returns a model's place in Models, which has been called; -1: not known.
func (f *ModelFinder) Index(m ModelRef) int { return f.book.index(m.sum) }

// RowName returns the name that an operator goes by in statistics by weight: its weight's without the
// layer, or what it computes, or its op. typ is the weight's type, empty if the name is no weight's.
func RowName(d *Derived, op string) (name, typ string) {
	name, weight := rowKey(ByWeight, d, op)
	if weight {
		typ = d.WeightType
	}
	return name, typ
}

// indexOf returns a model's place in the list; nil: not known which.
func (b *modelBook) indexOf(m *modelSum) *int {
	if i := b.index(m); i >= 0 {
		return &i
	}
	return nil
}
