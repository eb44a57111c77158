// SPDX-License-Identifier: Apache-2.0

package ggml

import (
	"testing"

	"github.com/profinfer/profinfer/trace"
)

// As Gemma 2's graph has them: the norm behind a block has no layer in its name, the weight that scales it
// has one; the output's norm has neither.
func TestNormsLayer(t *testing.T) {
	nodes := []trace.Node{
		{Name: "ffn_out-3", Op: "MUL_MAT", Src: []int32{7, 6}, Executes: true},
		{Name: "norm", Op: "RMS_NORM", Src: []int32{0}, Executes: true},
		{Name: "ffn_post_norm", Op: "MUL", Src: []int32{1, 8}, Executes: true},
		{Name: "l_out-3", Op: "ADD", Src: []int32{2, 6}, Executes: true},
		{Name: "norm", Op: "RMS_NORM", Src: []int32{3}, Executes: true},
		{Name: "result_norm", Op: "MUL", Src: []int32{4, 9}, Executes: true},
		{Name: "inp", Op: "NONE", Leaf: true},
		{Name: "blk.3.ffn_down.weight", Op: "NONE", Leaf: true},
		{Name: "blk.3.post_ffw_norm.weight", Op: "NONE", Leaf: true},
		{Name: "output_norm.weight", Op: "NONE", Leaf: true},
	}
	for i, want := range []int{3, 3, 3, 3, -1, -1} {
		if got := words.NameShape(nodes).Layer[i]; got != want {
			t.Errorf("node %d, %s, is of layer %d, want %d", i, nodes[i].Name, got, want)
		}
	}
	nodes[2].Src[0] = 99 // a source that is not there
	if got := words.NameShape(nodes).Layer[1]; got != -1 {
		t.Errorf("a norm that nothing scales is of layer %d", got)
	}
}
