// SPDX-License-Identifier: Apache-2.0

// Package facts derives from a graph definition what analyses need to know of each operator ([Deriver]):
// layer, block, weight, bytes, flops and row. It also finds the models whose weights the graphs use
// ([Models]).
package facts

import (
	"slices"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/ops"
)

// Derived is what follows from an operator's definition. It is the same for every run of that operator of the
// same graph definition.
type Derived struct {
	Name  string // the (first) node's own name
	Layer *int   // nil: it belongs to no layer, or the layer is unknown
	Block ops.Block
	// Weight is the name of the weight among the sources ("blk.0.ffn_down.weight"), empty if there is none;
	// WeightType is its type.
	Weight     string
	WeightType string
	// Bytes is the minimum that the operator must read and write; nil where the types' sizes or a source's
	// definition are unknown. Flops is the number of floating point operations; nil where no formula is
	// known. See profile/ops/ggml/bytes.go and profile/ops/ggml/flops.go for the formulas and their sources.
	Bytes *int64
	Flops *int64
	// BytesAtMost is true where Bytes is an upper bound: several tokens chose experts, and it is unknown how
	// many chose the same.
	BytesAtMost bool

	// ID numbers the results of one Deriver, from 1, so that callers can index a slice by it; 0: unknown
	// graph definition. A result whose node is fused differently reuses the number: compare pointers.
	ID int

	// Stem is the weight's name without its layer; empty if no weight says what the operator is for.
	Stem string
	// Class is the class its time is summed up under. ChoosesExperts: each token uses only some of its
	// weights.
	Class          ops.Class
	ChoosesExperts bool

	fused []int32
	row   string // as RowKey returns it by weight; empty: same as its op
}

// Unknown stands for operators without a known graph definition.
var Unknown = Derived{Block: ops.BlockOther}

// Derive computes what follows from op's definition. Use a [Deriver] for whole runs.
func Derive(op *profile.Op) Derived {
	return *new(Deriver).Derive(op)
}

// Deriver derives and caches, since an operator of one graph definition runs once per token. The zero value
// is ready to use. It holds one entry for each node that ran. It is not safe for concurrent use.
type Deriver struct {
	shapes map[*profile.Shape]*shapeFacts
	last   *profile.Shape
	facts  *shapeFacts
	n      int // numbers given out
}

// shapeFacts holds the facts of one graph definition: those of its nodes, made on demand.
type shapeFacts struct {
	names  *ops.ShapeNames
	nodes  []*Derived
	chosen map[chosenKey]*Derived
}

// Derive returns what follows from op's definition and, where tokens choose experts, from how many they
// chose. The result is shared: do not change it.
func (d *Deriver) Derive(op *profile.Op) *Derived {
	if op.Shape == nil || op.Shape.Shape == nil || op.Node < 0 || int(op.Node) >= len(op.Shape.Nodes) {
		return &Unknown
	}
	if op.Shape != d.last {
		d.last, d.facts = op.Shape, d.of(op.Shape)
	}
	v := d.facts.nodes[op.Node]
	if v == nil || !slices.Equal(v.fused, op.Fused) {
		v = d.keep(d.facts, op.Node, deriveNode(op.Shape, d.facts.names, op.Node, op.Fused))
	}
	if v.BytesAtMost && op.Choice.Whole() {
		return d.choose(op, v)
	}
	return v
}

// Node returns what follows from the definition of node n of a graph definition, fused with the nodes in
// fused, whatever it was seen to run with. The result is shared: do not change it.
func (d *Deriver) Node(sh *profile.Shape, n int32, fused ...int32) *Derived {
	f := d.of(sh)
	v := f.nodes[n]
	if v != nil && slices.Equal(v.fused, fused) {
		return v
	}
	w := deriveNode(sh, f.names, n, fused)
	if v == nil {
		d.keep(f, n, w)
	}
	return w
}

// of returns the facts of a graph definition.
func (d *Deriver) of(sh *profile.Shape) *shapeFacts {
	f := d.shapes[sh]
	if f == nil {
		if d.shapes == nil {
			d.shapes = map[*profile.Shape]*shapeFacts{}
		}
		f = &shapeFacts{names: sh.Vocabulary().NameShape(sh.Nodes), nodes: make([]*Derived, len(sh.Nodes))}
		d.shapes[sh] = f
	}
	return f
}

// keep numbers what was derived for a node and caches it.
func (d *Deriver) keep(f *shapeFacts, n int32, v *Derived) *Derived {
	if old := f.nodes[n]; old != nil {
		v.ID = old.ID
	} else {
		d.n++
		v.ID = d.n
	}
	f.nodes[n] = v
	return v
}

// deriveNode computes the facts of node n of a graph definition, fused with the nodes in fused.
func deriveNode(sh *profile.Shape, names *ops.ShapeNames, n int32, fused []int32) *Derived {
	nodes, words := sh.Nodes, sh.Vocabulary()
	members := []int32{n}
	for _, f := range fused {
		if f >= 0 && int(f) < len(nodes) {
			members = append(members, f)
		}
	}
	v := &Derived{Name: nodes[n].Name, fused: slices.Clone(fused)}
	w := words.WeightOf(nodes, members)
	if w >= 0 {
		v.Weight, v.WeightType = nodes[w].Name, nodes[w].Type
	}
	if l := names.Layer[n]; l >= 0 {
		v.Layer = &l
	}
	v.Block = names.Block[n]
	// A fused operator is named after its first node; the layer can be in a later one's name.
	for _, m := range members[1:] {
		if v.Layer == nil && names.Layer[m] >= 0 {
			l := names.Layer[m]
			v.Layer = &l
		}
		if v.Block == ops.BlockOther {
			v.Block = names.Block[m]
		}
	}
	v.Bytes, v.BytesAtMost = words.Bytes(nodes, members)
	v.Flops = words.Flops(nodes, members)
	op := nodes[n].Op
	v.Class = words.Class(op, v.Block, w >= 0)
	experts, _ := words.ExpertSources(nodes, &nodes[n])
	v.ChoosesExperts = experts >= 0
	if w >= 0 && words.ReadsWeight(op, v.Weight) {
		v.Stem, v.row = words.WeightStem(v.Weight), words.WeightRow(v.Weight, v.Block)
	} else if base, _ := words.SplitName(v.Name); len(members) == 1 && words.IsProduct(op) &&
		!words.IsDefaultName(base) {
		v.row = base // matmuls without a weight differ by what they compute: kq, kqv
	}
	return v
}
