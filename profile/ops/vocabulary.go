// SPDX-License-Identifier: Apache-2.0

// Package ops classifies the operators and tensors of a graph definition. The meaning of their names depends
// on the engine: a [Vocabulary], with one package below this one per engine. What follows from dimensions,
// strides and types alone is the same for all.
package ops

import "github.com/profinfer/profinfer/trace"

// Vocabulary interprets one engine's names. It is stateless, and it reads definitions from a process's
// memory, so it must not panic whatever they contain. For what it does not know it returns no layer,
// [BlockOther] or nil. An engine's vocabulary embeds [Neutral].
type Vocabulary interface {
	TensorNames
	Operators
	Experts
	Models
	Backends
}

// TensorNames interprets names of tensors.
type TensorNames interface {
	// SplitName strips the layer, and what the engine adds to every tensor's name: "ffn_norm" and 12. The
	// layer is -1 if there is none.
	SplitName(name string) (base string, layer int)
	// IsDefaultName reports whether the engine made up a name (without its layer) by counting.
	IsDefaultName(base string) bool
	// CopyOf returns the tensor that this one copies on another backend; name itself if it is no copy.
	CopyOf(name string) string
	// IsWeight reports whether the tensor is a weight of the model's file.
	IsWeight(name string) bool
	// IsCache reports whether the tensor outlives a step: a KV cache, a recurrent state.
	IsCache(name string) bool
	// WeightLayer returns the layer of a weight, -1 if it has none.
	WeightLayer(name string) int
	// WeightStem returns a weight's name without its layer: weights of one stem do the same work in every
	// layer.
	WeightStem(name string) string
	// WeightRow returns the name under which statistics sum up a block's operators that read a weight: its
	// stem, or a longer name where one weight does two kinds of work.
	WeightRow(name string, block Block) string
}

// Operators classifies operators.
type Operators interface {
	// NameShape finds the layer and block of each node.
	NameShape(nodes []trace.Node) *ShapeNames
	// WeightOf returns the number of the weight among the sources of nodes that run together, -1 if there is
	// none.
	WeightOf(nodes []trace.Node, members []int32) int32
	// ReadsWeight returns false for a weight that says nothing about the operator's purpose.
	ReadsWeight(op, weight string) bool
	// IsProduct reports whether an operator is a matmul. Class and Kind classify an operator by its name, its
	// block and whether a weight is among its sources. Fused operators are joined by "+" and classified by
	// the first.
	IsProduct(op string) bool
	Class(op string, block Block, weight bool) Class
	Kind(op string, block Block, weight bool) Kind
	// Bytes is the minimum that nodes that run together must read and write; nil where unknown. atMost: it is
	// an upper bound, because it depends on what tokens choose.
	Bytes(nodes []trace.Node, members []int32) (bytes *int64, atMost bool)
	// Flops is the number of floating point operations of these nodes; nil where no formula is known.
	Flops(nodes []trace.Node, members []int32) *int64
	// Product returns what a node multiplies; false if it is not a matmul, or a dimension is unknown.
	Product(nodes []trace.Node, n *trace.Node) (MatrixProduct, bool)
	// Cells returns how many cells of the KV cache an attention operator reads; 0 for any other.
	Cells(nodes []trace.Node, n *trace.Node) int64
	// Writes reports whether source i of a node is memory that the operator writes into.
	Writes(n *trace.Node, i int) bool
	// RowsOfOutputs reports whether a node only selects, from its first source, the rows whose output is
	// requested.
	RowsOfOutputs(nodes []trace.Node, n *trace.Node) bool
	// HasSettings reports whether an operator's parameters change what it computes: windows, bases of a
	// position encoding.
	HasSettings(op string) bool
}

// MatrixProduct is a matmul: M*N results, each a sum of K products. Type is that of the first factor, the
// weights if it has some.
type MatrixProduct struct {
	M, N, K int64
	Type    string
}

// Experts finds the weights of which each token uses only a part.
type Experts interface {
	// ExpertSources returns the numbers of a node's sources that hold the experts' weights, and that say
	// which experts each token uses; -1: it is not such an operator, or has none.
	ExpertSources(nodes []trace.Node, n *trace.Node) (weights, ids int32)
	// ExpertBytes returns the part of Bytes that is experts' weights read by a node.
	ExpertBytes(nodes []trace.Node, n *trace.Node) (int64, bool)
	// AreExperts reports whether the tensor ids holds expert numbers; false: slots in a cache of experts.
	AreExperts(nodes []trace.Node, ids int32) bool
}

// Models recognises models by their weights and operators.
type Models interface {
	// Dimensions returns what the operators of a graph reveal about the model.
	Dimensions(nodes []trace.Node) Dimensions
	// Model returns what the names and dimensions of all its weights reveal.
	Model(weights map[string][4]int64) ModelNames
}

// Dimensions are a model's dimensions as a graph shows them; 0: unknown.
type Dimensions struct{ Heads, HeadsKV, HeadDim, ExpertsUsed, Vocab int64 }

// Max takes the larger value of each.
func (d *Dimensions) Max(o Dimensions) {
	d.Heads, d.HeadsKV, d.HeadDim = max(d.Heads, o.Heads), max(d.HeadsKV, o.HeadsKV),
		max(d.HeadDim, o.HeadDim)
	d.ExpertsUsed, d.Vocab = max(d.ExpertsUsed, o.ExpertsUsed), max(d.Vocab, o.Vocab)
}

// ModelNames is what a model's weights reveal; 0: unknown.
type ModelNames struct {
	// the first of architectures that differ only in numbers; empty: unknown from the names
	Family         string
	Layers         int
	Width, Experts int64
}

// Backends holds what is known of backends by their names.
type Backends interface {
	// CallComputes reports whether a backend computes within the call and returns when it is done. A call of
	// another backend may only submit work.
	CallComputes(backend string) bool
	// HandsOver reports whether another process computes the backend's graphs.
	HandsOver(backend string) bool
	// Variant returns the kind of CPU that a library is built for, from its path; empty: unknown from its
	// name.
	Variant(library string) string
}

// ShapeNames holds the layer and block of each node of a graph definition.
type ShapeNames struct {
	Layer []int // -1: none
	Block []Block
}
