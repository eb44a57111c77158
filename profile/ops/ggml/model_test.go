// SPDX-License-Identifier: Apache-2.0

package ggml

import "testing"

func TestFamilies(t *testing.T) {
	for want, names := range map[string][]string{
		"llama": {"blk.0.attn_q.weight", "blk.0.ffn_gate.weight", "blk.0.ffn_norm.weight"},
		"qwen2": {"blk.0.attn_q.weight", "blk.0.attn_q.bias", "blk.0.ffn_gate.weight"},
		"qwen3": {"blk.0.attn_q.weight", "blk.0.attn_q_norm.weight", "blk.0.ffn_norm.weight",
			"blk.0.ffn_gate.weight"},
		"qwen3 moe": {"blk.0.attn_q.weight", "blk.0.attn_q_norm.weight", "blk.0.ffn_norm.weight",
			"blk.0.ffn_gate_inp.weight"},
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
		weights := map[string][4]int64{}
		for _, n := range names {
			weights[n] = [4]int64{}
		}
		if got := words.Model(weights).Family; got != want {
			t.Errorf("%v make %q, want %q", names, got, want)
		}
	}
}
