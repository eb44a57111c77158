// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"testing"

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

func TestFamilies(t *testing.T) {
	for want, names := range map[string][]string{
		"llama":         {"blk.0.attn_q.weight", "blk.0.ffn_gate.weight", "blk.0.ffn_norm.weight"},
		"qwen2":         {"blk.0.attn_q.weight", "blk.0.attn_q.bias", "blk.0.ffn_gate.weight"},
		"qwen3":         {"blk.0.attn_q.weight", "blk.0.attn_q_norm.weight", "blk.0.ffn_norm.weight", "blk.0.ffn_gate.weight"},
		"qwen3 moe":     {"blk.0.attn_q.weight", "blk.0.attn_q_norm.weight", "blk.0.ffn_norm.weight", "blk.0.ffn_gate_inp.weight"},
		"gemma3":        {"blk.0.post_ffw_norm.weight", "blk.0.attn_q_norm.weight", "blk.0.ffn_gate.weight"},
		"deepseek2 moe": {"blk.0.attn_kv_a_mqa.weight", "blk.0.ffn_up_exps.weight"},
		"mamba":         {"blk.0.ssm_in.weight"},
		"hybrid ssm":    {"blk.0.ssm_in.weight", "blk.1.attn_q.weight"},
		"rwkv":          {"blk.0.time_mix_key.weight"},
		"bert":          {"token_types.weight", "blk.0.attn_q.weight"},
		"gpt2":          {"position_embd.weight", "blk.0.attn_qkv.weight"},
		"phi3":          {"blk.0.attn_qkv.weight", "blk.0.ffn_up.weight"},
		"":              {"something.weight"},
	} {
		m := &ModelWeights{weights: map[string]weight{}}
		for _, n := range names {
			m.weights[n] = weight{}
		}
		if got := m.family(); got != want {
			t.Errorf("%v make %q, want %q", names, got, want)
		}
	}
}
