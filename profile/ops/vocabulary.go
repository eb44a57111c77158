// SPDX-License-Identifier: Apache-2.0

// Package ops says what operators and tensors of a graph definition are. What their names mean is an
// engine's: a [Vocabulary], one package below this one for each. What follows from dimensions, strides and
// types alone is the same for all.
package ops

import "github.com/profinfer/profinfer/trace"

// Vocabulary is what one engine's names mean. It holds no state, and reads definitions as a process's memory
// has them: whatever they hold, it does not panic. What it does not know it says so: no layer, [BlockOther],
// nil. An engine's embeds [Neutral].
type Vocabulary interface {
	TensorNames
	Operators
	Experts
	Models
	Backends
}

// TensorNames reads names of tensors.
type TensorNames interface {
	// SplitName takes off a name what the engine adds to each tensor's, and the layer: "ffn_norm" and 12. The
	// layer is -1 if there is none.
	SplitName(name string) (base string, layer int)
	// IsDefaultName tells a name (without its layer) that the engine made up by counting.
	IsDefaultName(base string) bool
	// CopyOf returns of which tensor one is a copy on another backend; name itself if it is none.
	CopyOf(name string) string
	// IsWeight tells a weight of the model's file.
	IsWeight(name string) bool
	// IsCache tells what outlives a step: a KV cache, a recurrent state.
	IsCache(name string) bool
	// WeightLayer is the layer of a weight, -1 if it has none.
	WeightLayer(name string) int
	// WeightStem is a weight's name without its layer: weights of one stem do the same work in every layer.
	WeightStem(name string) string
	// WeightRow is the name under which statistics sum up the operators of a block that read a weight: its
	// stem, or more where one weight does two kinds of work.
	WeightRow(name string, block Block) string
}

// Operators says what operators do.
type Operators interface {
	// NameShape finds the layer and block of each node.
	NameShape(nodes []trace.Node) *ShapeNames
	// WeightOf returns the number of the weight among the sources of nodes that run together, -1 if there is
	// none.
	WeightOf(nodes []trace.Node, members []int32) int32
	// ReadsWeight is false for a weight that says nothing about what the operator is for.
	ReadsWeight(op, weight string) bool
	// IsProduct tells products of matrices. Class and Kind sort an operator by its name, its block and
	// whether a weight is among its sources; several that run as one are joined by "+" and sorted by the
	// first.
	IsProduct(op string) bool
	Class(op string, block Block, weight bool) Class
	Kind(op string, block Block, weight bool) Kind
	// Bytes is what nodes that run together must read and write at least; nil where it cannot be told.
	// atMost: it is an upper estimate, as it depends on what tokens choose.
	Bytes(nodes []trace.Node, members []int32) (bytes *int64, atMost bool)
	// Flops are the floating point operations of these nodes; nil where no formula is known.
	Flops(nodes []trace.Node, members []int32) *int64
	// Product is what a node multiplies; false if it is no product of matrices, or a dimension is not known.
	Product(nodes []trace.Node, n *trace.Node) (MatrixProduct, bool)
	// Cells is how many cells of the KV cache an operator of attention reads; 0 if it is none.
	Cells(nodes []trace.Node, n *trace.Node) int64
	// Writes is true where source i of a node is memory that the operator writes into.
	Writes(n *trace.Node, i int) bool
	// RowsOfOutputs is true for a node that only takes the rows whose output is asked for, of its first
	// source.
	RowsOfOutputs(nodes []trace.Node, n *trace.Node) bool
	// HasSettings tells operators whose parameters change what they compute: windows, bases of a position
	// encoding.
	HasSettings(op string) bool
}

// MatrixProduct is a product of matrices: M*N results, each a sum of K products; Type is that of the first
// factor, the weights if it has some.
type MatrixProduct struct {
	M, N, K int64
	Type    string
}

// Experts finds the weights of which each token uses a part only.
type Experts interface {
	// ExpertSources returns the numbers of a node's sources that hold the experts' weights, and that say
	// which each token uses;
	// -1: it is no such operator, or has none.
	ExpertSources(nodes []trace.Node, n *trace.Node) (weights, ids int32)
	// ExpertBytes is what Bytes counts of the experts' weights that a node reads.
	ExpertBytes(nodes []trace.Node, n *trace.Node) (int64, bool)
	// AreExperts is true if the tensor ids holds numbers of experts, false if of places in a cache of them.
	AreExperts(nodes []trace.Node, ids int32) bool
}

// Models recognises models by their weights and operators.
type Models interface {
	// Dimensions is what the operators of a graph tell of the model.
	Dimensions(nodes []trace.Node) Dimensions
	// Model is what the names and dimensions of all its weights tell.
	Model(weights map[string][4]int64) ModelNames
}

// Dimensions of a model as a graph shows them; 0: not known.
type Dimensions struct{ Heads, HeadsKV, HeadDim, ExpertsUsed, Vocab int64 }

// Max takes the larger of each.
func (d *Dimensions) Max(o Dimensions) {
	d.Heads, d.HeadsKV, d.HeadDim = max(d.Heads, o.Heads), max(d.HeadsKV, o.HeadsKV),
		max(d.HeadDim, o.HeadDim)
	d.ExpertsUsed, d.Vocab = max(d.ExpertsUsed, o.ExpertsUsed), max(d.Vocab, o.Vocab)
}

// ModelNames is what a model's weights tell; 0: not known.
type ModelNames struct {
	// of architectures that differ in nothing but numbers the first; empty: the names tell nothing
	Family         string
	Layers         int
	Width, Experts int64
}

// Backends says what is known of backends by their names.
type Backends interface {
	// CallComputes tells a backend that computes within the call and returns when it is done. Of others a
	// call may only submit.
	CallComputes(backend string) bool
	// HandsOver tells a backend whose graphs another process computes.
	HandsOver(backend string) bool
	// Variant is the kind of CPU that a library is built for, by its path; empty: its name does not tell.
	Variant(library string) string
}

// ShapeNames says to which layer and block each node of a shape belongs.
type ShapeNames struct {
	Layer []int // -1: none
	Block []Block
}
