// SPDX-License-Identifier: Apache-2.0

package ops

// Kind is the kind of an operator, coarse enough for one colour each in the timeline and the operator graph.
type Kind = int

const (
	KindMatMul Kind = iota
	KindAttention
	KindMoE
	KindNorm
	KindElementwise
	KindCopy
	KindOther
	NumKinds
)

// Kinds are their names.
var Kinds = []string{"matmul", "attention", "moe", "norm", "elementwise", "copy", "other"}

// Class is what statistics sum an operator's time under.
type Class uint8

const (
	ClassOther     Class = iota
	ClassProduct         // a weight matmul
	ClassAttention       // attention: scores, softmax and values, fused or separate
	ClassUnknown         // of an engine whose operators are unknown
)
