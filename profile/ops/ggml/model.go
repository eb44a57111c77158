// SPDX-License-Identifier: Apache-2.0

package ggml

import (
	"strings"

	"github.com/profinfer/profinfer/profile/ops"
	"github.com/profinfer/profinfer/trace"
)

func (Vocabulary) Dimensions(nodes []trace.Node) (d ops.Dimensions) {
	for i := range nodes {
		n := &nodes[i]
		switch n.Op {
		case "FLASH_ATTN_EXT":
			// q [dk, n_tokens, n_head], k [dk, n_kv, n_head_kv]
			if q, k := ops.Source(nodes, n, 0), ops.Source(nodes, n, 1); q != nil && k != nil {
				d.Max(ops.Dimensions{Heads: q.Ne[2], HeadsKV: k.Ne[2], HeadDim: q.Ne[0]})
			}
		case "MUL_MAT":
			// Attention scores kq = k [d, n_kv, n_head_kv] * q [d, n_tokens, n_head]. The engine may leave
			// the result unnamed, but k is a view of the cache.
			base, _ := words.SplitName(n.Name)
			if k, q := ops.Source(nodes, n, 0), ops.Source(nodes, n, 1); k != nil && q != nil {
				if of, _ := words.SplitName(k.Name); base == "kq" || of == "cache_k" {
					d.Max(ops.Dimensions{Heads: q.Ne[2], HeadsKV: k.Ne[2], HeadDim: q.Ne[0]})
				}
			}
		case "MUL_MAT_ID":
			if ids := ops.Source(nodes, n, 2); ids != nil {
				d.Max(ops.Dimensions{ExpertsUsed: ids.Ne[0]})
			}
		}
		if n.Name == "result_output" {
			d.Max(ops.Dimensions{Vocab: n.Ne[0]})
		}
	}
	return d
}

func (Vocabulary) Model(weights map[string][4]int64) (m ops.ModelNames) {
	has := map[string]bool{}
	layers := map[int]bool{}
	var embd, norm int64
	for name, ne := range weights {
		layer, rest := splitWeight(name)
		has[rest] = true
		if layer >= 0 {
			layers[layer] = true
		}
		if _, ok := ops.Product(ne[:]...); !ok {
			continue // invalid: no tensor has so many elements
		}
		switch {
		case rest == "token_embd.weight":
			embd = ne[0]
		case rest == "output_norm.weight":
			norm = ne[0]
		case strings.HasSuffix(rest, "_exps.weight"):
			m.Experts = ne[2]
		}
	}
	m.Family, m.Layers, m.Width = family(has), len(layers), embd
	if m.Width <= 0 {
		m.Width = norm
	}
	return m
}

// family guesses the model family from the weights it has, ignoring layers; the names are those of
// gguf-py/gguf/constants.py. Architectures that differ only in numbers (llama, mistral) go by the first of
// them. It is empty if the names are not conclusive.
func family(has map[string]bool) string {
	any := func(prefix string) bool {
		for k := range has {
			if strings.HasPrefix(k, prefix) {
				return true
			}
		}
		return false
	}
	moe := ""
	if has["ffn_gate_inp.weight"] || has["ffn_up_exps.weight"] || has["ffn_gate_up_exps.weight"] {
		moe = " moe"
	}
	switch {
	case any("time_mix_"):
		return "rwkv"
	case any("ssm_") && any("attn_q"):
		return "hybrid ssm" + moe
	case any("ssm_"):
		return "mamba" + moe
	case has["attn_kv_a_mqa.weight"]:
		return "deepseek2" + moe
	case has["token_types.weight"] || any("attn_output_norm"):
		return "bert" + moe
	case has["post_ffw_norm.weight"] && has["attn_q_norm.weight"]:
		return "gemma3" + moe
	case has["post_ffw_norm.weight"]:
		return "gemma2" + moe
	case has["attn_sinks.weight"]:
		return "gpt-oss" + moe
	case has["attn_q_norm.weight"] && has["ffn_norm.weight"]:
		return "qwen3" + moe
	case has["attn_q.bias"] && (has["ffn_gate.weight"] || moe != ""):
		return "qwen2" + moe
	case has["position_embd.weight"]:
		return "gpt2" + moe
	case has["attn_qkv.weight"] && has["ffn_up.weight"] && !has["ffn_gate.weight"]:
		return "phi3" + moe
	case any("attn_q") && (has["ffn_gate.weight"] || moe != ""):
		return "llama" + moe
	}
	return strings.TrimSpace(moe)
}
