// SPDX-License-Identifier: Apache-2.0

package facts

import "github.com/profinfer/profinfer/profile"

// Book is what the sinks of one replay share: facts derived from operators' definitions, and the models
// found. Sinks that share a book look at the same processes. It is not safe for concurrent use.
type Book struct {
	Deriver
	Models
}

// BookOf returns b, or a new book for a sink that shares none.
func BookOf(b *Book) *Book {
	if b == nil {
		b = &Book{}
	}
	return b
}

// Op takes an operator. Each sink passes on what it gets; repeated calls change nothing.
func (b *Book) Op(o *profile.Op) {
	var ctx uint64
	if o.Step != nil {
		ctx = o.Step.Ctx
	}
	b.serves(o.Graph)
	b.see(profile.PidOf(o), ctx, o.Shape, opBackend(o))
}

// Graph takes a graph execution.
func (b *Book) Graph(g *profile.Graph) {
	b.serves(g)
	if g.Shape != nil {
		b.see(g.PID, g.Ctx, g.Shape, g.Backend)
	}
}

// RowName returns an operator's name in statistics by weight: its weight's name without the layer, or what it
// computes, or its op. typ is the weight's type, empty if the name is not a weight's.
func RowName(d *Derived, op string) (name, typ string) {
	name, weight := RowKey(ByWeight, d, op)
	if weight {
		typ = d.WeightType
	}
	return name, typ
}

// IndexOf returns a model's index in the list; nil: unknown.
func (b *Models) IndexOf(m *ModelWeights) *int {
	if i := b.Index(m); i >= 0 {
		return &i
	}
	return nil
}
