// SPDX-License-Identifier: Apache-2.0

// Package ops is ggml's vocabulary as a graph definition shows it: names of operators and tensors, the kind and block of an
// operator, its weight, and the bytes and floating point operations that follow from shapes and types.
package ops

import (
	"slices"
	"strconv"
	"strings"

	"github.com/profinfer/profinfer/trace"
)

// ShapeNames says to which layer and block each node of a shape belongs.
type ShapeNames struct {
	Layer []int // -1: none
	Block []Block
}

// NameShape finds each node's layer and block: the weight is the surest key, then the node's
// own name, then its neighbours (for nodes that the engine left unnamed).
func NameShape(nodes []trace.Node) *ShapeNames {
	s := &ShapeNames{Layer: make([]int, len(nodes)), Block: make([]Block, len(nodes))}
	unnamed := make([]bool, len(nodes))
	for i := range nodes {
		n := &nodes[i]
		base, own := SplitName(n.Name)
		s.Layer[i] = own
		w := int32(-1)
		if !n.Leaf {
			w = WeightOf(nodes, []int32{int32(i)})
		}
		if w >= 0 && ReadsWeight(n.Op, nodes[w].Name) {
			if l := WeightLayer(nodes[w].Name); l >= 0 {
				s.Layer[i] = l
			}
			s.Block[i] = blockOfWeight(WeightStem(nodes[w].Name), n.Op)
		}
		if n.Leaf {
			if l := WeightLayer(n.Name); l >= 0 {
				s.Layer[i] = l
			}
		}
		if s.Block[i] == "" {
			s.Block[i] = blockOfName(base, n.Op)
		}
		unnamed[i] = base == "" || IsDefaultName(base)
	}
	s.scaled(nodes)
	// Where the engine names no layer at all (whisper.cpp), everything is the neighbour of everything:
	// one attention would spread over the whole graph.
	if slices.ContainsFunc(s.Layer, func(l int) bool { return l >= 0 }) {
		s.fromNeighbours(nodes, unnamed)
	}
	for i := range s.Block {
		if s.Block[i] == "" {
			s.Block[i] = BlockOther
		}
	}
	return s
}

// scaled gives a norm that the engine names without a layer (llama.cpp: Gemma 2's behind the blocks) that of
// the weight that scales it.
func (s *ShapeNames) scaled(nodes []trace.Node) {
	for i := range nodes {
		if n := &nodes[i]; n.Op == "MUL" && !n.Leaf && s.Layer[i] >= 0 {
			for _, src := range n.Src {
				if src >= 0 && int(src) < len(nodes) && s.Layer[src] < 0 && (nodes[src].Op == "RMS_NORM" || nodes[src].Op == "NORM") {
					s.Layer[src] = s.Layer[i]
				}
			}
		}
	}
}

// fromNeighbours gives unnamed nodes the layer and block of what they are computed from, else
// of what is computed from them. Named nodes pass nothing on that they do not have: the
// model's output is not of the last layer.
func (s *ShapeNames) fromNeighbours(nodes []trace.Node, unnamed []bool) {
	take := func(to, from int) {
		if unnamed[to] && s.Layer[to] < 0 {
			s.Layer[to] = s.Layer[from]
		}
		if s.Block[to] == "" && unnamed[to] {
			switch b := s.Block[from]; b {
			case BlockAttention, BlockFFN, BlockMoE:
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

// IsDefaultName tells ggml's own numbering (node_12, leaf_3; ggml_build_forward_impl).
func IsDefaultName(base string) bool {
	for _, p := range []string{"node_", "leaf_"} {
		if r, ok := strings.CutPrefix(base, p); ok {
			_, err := strconv.ParseUint(r, 10, 32)
			return err == nil
		}
	}
	return false
}

// SplitName takes the suffixes off a node's name that ggml and the scheduler add, and splits
// "ffn_norm-12" into "ffn_norm" and 12. The number is -1 if there is none.
//
// Suffixes: ggml_view_*, ggml_reshape, ggml_permute, ggml_transpose, ggml_cont, ggml_cpy in
// ggml.c; copies "backend#name#copy" in ggml-backend.cpp; "cache_k_l0" in llama-kv-cache.cpp.
func SplitName(name string) (base string, layer int) {
	if p := strings.SplitN(name, "#", 4); len(p) == 3 {
		name = p[1]
	}
	// The first: "cache_k_l0 (view) (copy of Kcur-0 (view))" is cache_k_l0, whatever was copied
	// there. A name that fills its field has lost its closing parenthesis.
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

// layerNumber parses a layer's number. Five digits are enough for any model, and keep
// nonsense out.
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

// SplitWeight splits "blk.12.ffn_down.weight" into 12 and "ffn_down.weight", and
// "v.blk.3.ln1.weight" (a vision part) into 3 and "v.ln1.weight". The layer is -1 if the name
// has none.
func SplitWeight(name string) (layer int, rest string) {
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

func WeightLayer(name string) int {
	l, _ := SplitWeight(name)
	return l
}

// WeightStem returns a weight's name without its layer and without ".weight":
// "ffn_down" of "blk.12.ffn_down.weight", "attn_q.bias" of "blk.0.attn_q.bias". Weights of
// one stem do the same work in every layer.
func WeightStem(name string) string {
	_, rest := SplitWeight(name)
	return strings.TrimSuffix(rest, ".weight")
}

// IsWeightName tells a weight's name (gguf-py/gguf/constants.py: every tensor of a model file
// ends in one of them).
func IsWeightName(name string) bool {
	return strings.HasSuffix(name, ".weight") || strings.HasSuffix(name, ".bias")
}

// ReadsWeight is false for weights that say nothing about what the operator is for: the factors
// of the position encoding serve every layer.
func ReadsWeight(op, name string) bool {
	return !strings.HasPrefix(op, "ROPE")
}

// WeightOf returns the node number of the weight among the members' sources, -1 if there is
// none. Of a matrix product only the first source can be the weight.
func WeightOf(nodes []trace.Node, members []int32) int32 {
	bias := int32(-1)
	for _, m := range members {
		for j, src := range nodes[m].Src {
			if j > 0 && IsMatMul(nodes[m].Op) {
				break
			}
			w := LeafOf(nodes, src)
			switch {
			case w < 0 || !IsWeightName(nodes[w].Name):
			case strings.HasSuffix(nodes[w].Name, ".weight"):
				return w
			case bias < 0:
				bias = w
			}
		}
	}
	return bias
}

// LeafOf follows views to the leaf they look at; -1 if it is not a leaf. The way is bounded: a
// recording may hold a circle.
func LeafOf(nodes []trace.Node, n int32) int32 {
	for range 8 {
		if n < 0 || int(n) >= len(nodes) {
			return -1
		}
		if nodes[n].Leaf {
			return n
		}
		if nodes[n].ViewSrc < 0 {
			return -1
		}
		n = nodes[n].ViewSrc
	}
	return -1
}

// IsMatMul tells matrix products.
func IsMatMul(op string) bool { return op == "MUL_MAT" || op == "MUL_MAT_ID" || op == "OUT_PROD" }

// blockOfWeight classifies by the weight's stem, as gguf-py/gguf/constants.py names them.
// Empty if the name tells nothing.
func blockOfWeight(stem, op string) Block {
	stem = strings.TrimSuffix(stem, ".bias")
	if i := strings.LastIndexByte(stem, '.'); i >= 0 { // v.attn_q, mm.0: the last part counts
		stem = stem[i+1:]
	}
	switch {
	case strings.HasSuffix(stem, "_norm") || strings.Contains(stem, "_norm_") || strings.HasPrefix(stem, "ln") || stem == "norm":
		return BlockNorm
	case strings.HasPrefix(stem, "token_embd") || strings.HasPrefix(stem, "per_layer_token_embd"):
		// Tied weights: the same tensor is looked up in the beginning and multiplied in the end.
		if IsMatMul(op) {
			return BlockOutput
		}
		return BlockEmbedding
	case stem == "position_embd" || stem == "token_types" || stem == "patch_embd":
		return BlockEmbedding
	case stem == "output" || stem == "cls" || stem == "cls_out" || strings.HasPrefix(stem, "cls."):
		return BlockOutput
	case strings.HasPrefix(stem, "attn") || strings.HasPrefix(stem, "cross_attn") || strings.HasPrefix(stem, "rope"):
		return BlockAttention
	case strings.HasPrefix(stem, "ffn"):
		if strings.Contains(stem, "exp") || stem == "ffn_gate_inp" || strings.HasPrefix(stem, "ffn_gate_inp_") {
			return BlockMoE
		}
		return BlockFFN
	case strings.HasPrefix(stem, "exp_probs"):
		return BlockMoE
	}
	return ""
}

// blockOfName classifies by the node's own name (the cb() calls of llama.cpp's models), then by
// its operator. Empty if neither tells.
func blockOfName(base, op string) Block {
	switch {
	case base == "result_output" || strings.HasPrefix(base, "result_embd") || base == "result_logits":
		return BlockOutput
	case base == "norm" || strings.HasSuffix(base, "_norm") || strings.Contains(base, "_normed") || base == "result_norm":
		return BlockNorm
	case strings.HasPrefix(base, "ffn_moe") || strings.HasPrefix(base, "ffn_shexp") || strings.HasPrefix(base, "ffn_shared"):
		return BlockMoE
	case base == "ffn_inp":
		return BlockOther // the residual sum between attention and feed-forward
	case strings.HasPrefix(base, "ffn"):
		return BlockFFN
	case base == "embd" || strings.HasPrefix(base, "inp_embd") || strings.HasPrefix(base, "inp_tokens") || strings.HasPrefix(base, "inp_scaled"):
		return BlockEmbedding
	}
	for _, p := range []string{"Qcur", "Kcur", "Vcur", "kq", "kqv", "attn", "cache_k", "cache_v", "q_pe", "k_pe", "q_nope", "k_nope", "kv_cmpr", "KQ", "fattn", "__fattn__"} {
		if strings.HasPrefix(base, p) {
			return BlockAttention
		}
	}
	switch first, _, _ := strings.Cut(op, "+"); first {
	case "FLASH_ATTN_EXT", "ROPE", "ROPE_BACK", "DIAG_MASK_INF":
		return BlockAttention
	case "RMS_NORM", "NORM", "GROUP_NORM", "L2_NORM":
		return BlockNorm
	case "MUL_MAT_ID", "ADD_ID":
		return BlockMoE
	}
	return ""
}

// IsCacheName tells what outlives a step by name: "cache_k_l0" of llama-kv-cache.cpp, "cache_r_l0" and
// "cache_s_l0" of llama-memory-recurrent.cpp.
func IsCacheName(name string) bool { return strings.HasPrefix(name, "cache_") }
