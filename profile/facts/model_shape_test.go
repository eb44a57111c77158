// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/trace"
)

// ProductShape makes a shape of one product with a weight, and another with a second one if given.
func ProductShape(weights ...trace.Node) *profile.Shape {
	x := Tensor("x", "ADD", "f32", 32)
	if len(weights) > 1 {
		x = weights[1]
	}
	return ShapeOf(Of(Tensor("y", "MUL_MAT", "f32", 32), weights[0], x))
}

func LeafAt(name string, data uint64) trace.Node {
	return with(Tensor(name, "", "q4_0", 32, 32), func(n *trace.Node) { n.Data = data })
}
