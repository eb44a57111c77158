// SPDX-License-Identifier: Apache-2.0

// Package ggml is the vocabulary of ggml and the engines based on it, llama.cpp and whisper.cpp, as seen in a
// graph definition: names of operators and tensors, the kind and block of an operator, its weight, and the
// bytes and floating point operations that follow from dimensions and types.
package ggml

import (
	"slices"
	"strconv"
	"strings"

	"github.com/profinfer/profinfer/profile/ops"
	"github.com/profinfer/profinfer/trace"
)

// NameShape finds each node's layer and block: the weight is the most reliable key, then the node's own name,
// then its neighbours (for nodes that the engine left unnamed).
func (Vocabulary) NameShape(nodes []trace.Node) *ops.ShapeNames {
	s := &ops.ShapeNames{Layer: make([]int, len(nodes)), Block: make([]ops.Block, len(nodes))}
	unnamed := make([]bool, len(nodes))
	for i := range nodes {
		n := &nodes[i]
		base, own := words.SplitName(n.Name)
		s.Layer[i] = own
		w := int32(-1)
		if !n.Leaf {
			w = words.WeightOf(nodes, []int32{int32(i)})
		}
		if w >= 0 && words.ReadsWeight(n.Op, nodes[w].Name) {
			if l := words.WeightLayer(nodes[w].Name); l >= 0 {
				s.Layer[i] = l
			}
			s.Block[i] = blockOfWeight(words.WeightStem(nodes[w].Name), n.Op)
		}
		if n.Leaf {
			if l := words.WeightLayer(n.Name); l >= 0 {
				s.Layer[i] = l
			}
		}
		if s.Block[i] == "" {
			s.Block[i] = blockOfName(base, n.Op)
		}
		unnamed[i] = base == "" || words.IsDefaultName(base)
	}
	scaled(s, nodes)
	// If the engine names no layers at all (whisper.cpp), every node is a neighbour of every other: one
	// attention block would spread over the whole graph.
	if slices.ContainsFunc(s.Layer, func(l int) bool { return l >= 0 }) {
		fromNeighbours(s, nodes, unnamed)
	}
	for i := range s.Block {
		if s.Block[i] == "" {
			s.Block[i] = ops.BlockOther
		}
	}
	return s
}

// scaled assigns to a norm that the engine names without a layer (llama.cpp: Gemma 2's after the blocks) the
// layer of the weight that scales it.
func scaled(s *ops.ShapeNames, nodes []trace.Node) {
	for i := range nodes {
		if n := &nodes[i]; n.Op == "MUL" && !n.Leaf && s.Layer[i] >= 0 {
			for _, src := range n.Src {
				if src >= 0 && int(src) < len(nodes) && s.Layer[src] < 0 &&
					(nodes[src].Op == "RMS_NORM" || nodes[src].Op == "NORM") {
					s.Layer[src] = s.Layer[i]
				}
			}
		}
	}
}

// fromNeighbours assigns to unnamed nodes the layer and block of their sources, or else of the nodes that use
// them. Named nodes pass on only what they have: the model's output does not belong to the last layer.
func fromNeighbours(s *ops.ShapeNames, nodes []trace.Node, unnamed []bool) {
	take := func(to, from int) {
		if unnamed[to] && s.Layer[to] < 0 {
			s.Layer[to] = s.Layer[from]
		}
		if s.Block[to] == "" && unnamed[to] {
			switch b := s.Block[from]; b {
			case ops.BlockAttention, ops.BlockFFN, ops.BlockMoE:
				s.Block[to] = b
			}
		}
	}
	for i := range nodes {
		if nodes[i].Leaf || !unnamed[i] {
			continue
		}
		for _, src := range nodes[i].Src {
			if src >= 0 && int(src) < len(nodes) && !nodes[src].Leaf {
				take(i, int(src))
			}
		}
	}
	for i := len(nodes) - 1; i >= 0; i-- {
		if nodes[i].Leaf {
			continue
		}
		for _, src := range nodes[i].Src {
			if src >= 0 && int(src) < len(nodes) && !nodes[src].Leaf {
				take(int(src), i)
			}
		}
	}
}

// IsDefaultName recognises ggml's own numbering (node_12, leaf_3; ggml_build_forward_impl).
func (Vocabulary) IsDefaultName(base string) bool {
	for _, p := range []string{"node_", "leaf_"} {
		if r, ok := strings.CutPrefix(base, p); ok {
			_, err := strconv.ParseUint(r, 10, 32)
			return err == nil
		}
	}
	return false
}

// SplitName strips the suffixes that ggml and the scheduler add to a node's name, and splits "ffn_norm-12"
// into "ffn_norm" and 12. The number is -1 if there is none.
//
// Suffixes: ggml_view_*, ggml_reshape, ggml_permute, ggml_transpose, ggml_cont, ggml_cpy in ggml.c; copies
// "backend#name#copy" in ggml-backend.cpp; "cache_k_l0" in llama-kv-cache.cpp.
func (Vocabulary) SplitName(name string) (base string, layer int) {
	name = words.CopyOf(name)
	// The first: "cache_k_l0 (view) (copy of Kcur-0 (view))" is cache_k_l0, whatever was copied there. A name
	// that fills its field lacks its closing parenthesis.
	if i := strings.Index(name, " ("); i >= 0 {
		name = name[:i]
	}
	if i := strings.LastIndexByte(name, '-'); i > 0 {
		if n, ok := layerNumber(name[i+1:]); ok {
			return name[:i], n
		}
	}
	if rest, ok := strings.CutPrefix(name, "cache_"); ok {
		if i := strings.LastIndex(rest, "_l"); i >= 0 {
			if n, ok := layerNumber(rest[i+2:]); ok {
				return "cache_" + rest[:i], n
			}
		}
	}
	return name, -1
}

// layerNumber parses a layer's number. Five digits are enough for any model, and exclude invalid names.
func layerNumber(s string) (int, bool) {
	if s == "" || len(s) > 5 {
		return 0, false
	}
	n := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int(s[i]-'0')
	}
	return n, true
}

// splitWeight splits "blk.12.ffn_down.weight" into 12 and "ffn_down.weight", and
// "v.blk.3.ln1.weight" (a vision part) into 3 and "v.ln1.weight". The layer is -1 if the name
// has none.
func splitWeight(name string) (layer int, rest string) {
	i := 0
	if !strings.HasPrefix(name, "blk.") {
		if i = strings.Index(name, ".blk.") + 1; i == 0 {
			return -1, name
		}
	}
	num, rest, ok := strings.Cut(name[i+len("blk."):], ".")
	n, isNum := layerNumber(num)
	if !ok || !isNum {
		return -1, name
	}
	return n, name[:i] + rest
}

func (Vocabulary) WeightLayer(name string) int {
	l, _ := splitWeight(name)
	return l
}

// WeightStem returns a weight's name without its layer and without ".weight": "ffn_down" for
// "blk.12.ffn_down.weight", "attn_q.bias" for "blk.0.attn_q.bias". Weights of one stem do the same work in
// every layer.
func (Vocabulary) WeightStem(name string) string {
	_, rest := splitWeight(name)
	return strings.TrimSuffix(rest, ".weight")
}

// IsWeight recognises a weight's name (gguf-py/gguf/constants.py: every tensor of a model file ends in one of
// these suffixes).
func (Vocabulary) IsWeight(name string) bool {
	return strings.HasSuffix(name, ".weight") || strings.HasSuffix(name, ".bias")
}

// ReadsWeight is false for weights that say nothing about the operator's purpose: the factors of the position
// encoding are used in every layer.
func (Vocabulary) ReadsWeight(op, name string) bool {
	return !strings.HasPrefix(op, "ROPE")
}

// WeightOf returns the node number of the weight among the members' sources, -1 if there is none. In a matmul
// only the first source can be the weight.
func (Vocabulary) WeightOf(nodes []trace.Node, members []int32) int32 {
	bias := int32(-1)
	for _, m := range members {
		for j, src := range nodes[m].Src {
			if j > 0 && words.IsProduct(nodes[m].Op) {
				break
			}
			w := ops.LeafOf(nodes, src)
			switch {
			case w < 0 || !words.IsWeight(nodes[w].Name):
			case strings.HasSuffix(nodes[w].Name, ".weight"):
				return w
			case bias < 0:
				bias = w
			}
		}
	}
	return bias
}

// IsProduct reports whether an operator is a matmul.
func (Vocabulary) IsProduct(op string) bool {
	return op == "MUL_MAT" || op == "MUL_MAT_ID" || op == "OUT_PROD"
}

// blockOfWeight classifies by the weight's stem, with the names of gguf-py/gguf/constants.py. It is empty if
// the name is not conclusive.
func blockOfWeight(stem, op string) ops.Block {
	stem = strings.TrimSuffix(stem, ".bias")
	if i := strings.LastIndexByte(stem, '.'); i >= 0 { // v.attn_q, mm.0: the last part counts
		stem = stem[i+1:]
	}
	switch {
	case strings.HasSuffix(stem, "_norm") || strings.Contains(stem, "_norm_") ||
		strings.HasPrefix(stem, "ln") || stem == "norm":
		return ops.BlockNorm
	case strings.HasPrefix(stem, "token_embd") || strings.HasPrefix(stem, "per_layer_token_embd"):
		// Tied weights: the same tensor is looked up at the beginning and multiplied at the end.
		if words.IsProduct(op) {
			return ops.BlockOutput
		}
		return ops.BlockEmbedding
	case stem == "position_embd" || stem == "token_types" || stem == "patch_embd":
		return ops.BlockEmbedding
	case stem == "output" || stem == "cls" || stem == "cls_out" || strings.HasPrefix(stem, "cls."):
		return ops.BlockOutput
	case strings.HasPrefix(stem, "attn") || strings.HasPrefix(stem, "cross_attn") ||
		strings.HasPrefix(stem, "rope"):
		return ops.BlockAttention
	case strings.HasPrefix(stem, "ffn"):
		if strings.Contains(stem, "exp") || stem == "ffn_gate_inp" ||
			strings.HasPrefix(stem, "ffn_gate_inp_") {
			return ops.BlockMoE
		}
		return ops.BlockFFN
	case strings.HasPrefix(stem, "exp_probs"):
		return ops.BlockMoE
	}
	return ""
}

// blockOfName classifies by the node's own name (the cb() calls of llama.cpp's models), then by its operator.
// It is empty if neither is conclusive.
func blockOfName(base, op string) ops.Block {
	switch {
	case base == "result_output" || strings.HasPrefix(base, "result_embd") || base == "result_logits":
		return ops.BlockOutput
	case base == "norm" || strings.HasSuffix(base, "_norm") || strings.Contains(base, "_normed") ||
		base == "result_norm":
		return ops.BlockNorm
	case strings.HasPrefix(base, "ffn_moe") || strings.HasPrefix(base, "ffn_shexp") ||
		strings.HasPrefix(base, "ffn_shared"):
		return ops.BlockMoE
	case base == "ffn_inp":
		return ops.BlockOther // the residual sum between attention and feed-forward
	case strings.HasPrefix(base, "ffn"):
		return ops.BlockFFN
	case base == "embd" || strings.HasPrefix(base, "inp_embd") || strings.HasPrefix(base, "inp_tokens") ||
		strings.HasPrefix(base, "inp_scaled"):
		return ops.BlockEmbedding
	}
	for _, p := range []string{"Qcur", "Kcur", "Vcur", "kq", "kqv", "attn", "cache_k", "cache_v", "q_pe",
		"k_pe", "q_nope", "k_nope", "kv_cmpr", "KQ", "fattn", "__fattn__"} {
		if strings.HasPrefix(base, p) {
			return ops.BlockAttention
		}
	}
	switch first, _, _ := strings.Cut(op, "+"); first {
	case "FLASH_ATTN_EXT", "ROPE", "ROPE_BACK", "DIAG_MASK_INF":
		return ops.BlockAttention
	case "RMS_NORM", "NORM", "GROUP_NORM", "L2_NORM":
		return ops.BlockNorm
	case "MUL_MAT_ID", "ADD_ID":
		return ops.BlockMoE
	}
	return ""
}

// WeightRow distinguishes the uses of tied weights: the embedding table is the output weight too.
func (Vocabulary) WeightRow(name string, block ops.Block) string {
	stem := words.WeightStem(name)
	if block == ops.BlockOutput && !strings.HasPrefix(stem, "output") {
		return "output (" + stem + ")"
	}
	return stem
}

// CopyOf: the scheduler's copies are named "backend#name#number" (ggml-backend.cpp).
func (Vocabulary) CopyOf(name string) string {
	if s := strings.SplitN(name, "#", 4); len(s) == 3 {
		return s[1]
	}
	return name
}

// IsCache recognises by name what outlives a step: "cache_k_l0" of llama-kv-cache.cpp, "cache_r_l0" and
// "cache_s_l0" of llama-memory-recurrent.cpp.
func (Vocabulary) IsCache(name string) bool { return strings.HasPrefix(name, "cache_") }
