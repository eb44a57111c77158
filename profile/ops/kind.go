// SPDX-License-Identifier: Apache-2.0

package ops

// Kind of an operator, coarse enough for a colour each, as the timeline and the operator graph tell them
// apart.
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

// Class is what statistics sum an operator's time up as.
type Class uint8

const (
	ClassOther     Class = iota
	ClassProduct         // a product with weights
	ClassAttention       // attention itself: scores, softmax and values, fused or one by one
	ClassUnknown         // of an engine whose operators are not known
)
