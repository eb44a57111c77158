// SPDX-License-Identifier: Apache-2.0

package ggml

import (
	"path"
	"slices"
	"strings"

	"github.com/profinfer/profinfer/profile/ops"
	"github.com/profinfer/profinfer/trace"
)

// Vocabulary is the [ops.Vocabulary] of ggml.
type Vocabulary struct{}

var (
	words Vocabulary
	_     ops.Vocabulary = words
)

// Kind classifies an operator by ggml's description.
func (Vocabulary) Kind(op string, block ops.Block, weight bool) ops.Kind {
	starts := func(with ...string) bool {
		return slices.ContainsFunc(with, func(w string) bool { return strings.HasPrefix(op, w) })
	}
	switch {
	case starts("MUL_MAT") && !starts("MUL_MAT_ID") && block == ops.BlockAttention && !weight:
		return ops.KindAttention
	case starts("FLASH_ATTN", "SOFT_MAX", "ROPE", "DIAG_MASK"):
		return ops.KindAttention
	case starts("MUL_MAT_ID", "ADD_ID", "ARGSORT", "TOP_K"):
		return ops.KindMoE
	case starts("MUL_MAT", "OUT_PROD", "CONV_"):
		return ops.KindMatMul
	case starts("NORM") || strings.Contains(op, "_NORM"):
		return ops.KindNorm
	case starts("CPY", "CONT", "DUP", "SET_ROWS", "GET_ROWS", "CONCAT", "REPEAT", "PAD", "IM2COL") ||
		op == "SET":
		return ops.KindCopy
	case starts("ADD", "SUB", "MUL", "DIV", "SCALE", "SQR", "SQRT", "SUM", "MEAN", "CLAMP", "UNARY", "GLU",
		"SWIGLU", "GEGLU", "REGLU", "SILU", "GELU",
		"RELU", "TANH", "SIGMOID", "EXP", "NEG", "LOG", "SIN", "COS"):
		return ops.KindElementwise
	}
	return ops.KindOther
}

func (Vocabulary) Class(op string, block ops.Block, weight bool) ops.Class {
	first, _, _ := strings.Cut(op, "+")
	switch {
	case first == "FLASH_ATTN_EXT", first == "SOFT_MAX" && block == ops.BlockAttention:
		return ops.ClassAttention
	case !words.IsProduct(first):
		return ops.ClassOther
	case !weight && block == ops.BlockAttention:
		return ops.ClassAttention
	}
	return ops.ClassProduct
}

func (Vocabulary) Product(nodes []trace.Node, n *trace.Node) (p ops.MatrixProduct, ok bool) {
	if !words.IsProduct(n.Op) {
		return p, false
	}
	a := ops.Source(nodes, n, 0)
	all, ok := ops.Elements(n)
	if a == nil || !ok || n.Ne[0] <= 0 {
		return p, false
	}
	p = ops.MatrixProduct{M: n.Ne[0], N: all / n.Ne[0], K: a.Ne[0], Type: a.Type}
	if n.Op == "OUT_PROD" {
		p.K = a.Ne[1]
	}
	return p, true
}

// Cells: for ggml_flash_attn_ext k is [dk, n_kv, n_head_kv]. Where attention is computed in separate
// operators the softmax is [n_kv, n_tokens, n_head].
func (Vocabulary) Cells(nodes []trace.Node, n *trace.Node) int64 {
	switch n.Op {
	case "FLASH_ATTN_EXT":
		if k := ops.Source(nodes, n, 1); k != nil {
			return k.Ne[1]
		}
	case "SOFT_MAX":
		return n.Ne[0]
	}
	return 0
}

// Writes: the result of ggml_cpy and ggml_set_rows is a view of the destination.
func (Vocabulary) Writes(n *trace.Node, i int) bool {
	return (n.Op == "CPY" || n.Op == "SET_ROWS") && !readsSource(n, i)
}

// RowsOfOutputs: llama.cpp names the row indices inp_out_ids.
func (Vocabulary) RowsOfOutputs(nodes []trace.Node, n *trace.Node) bool {
	ids := ops.Source(nodes, n, 1)
	return n.Op == "GET_ROWS" && ids != nil && ops.Source(nodes, n, 0) != nil && ids.Leaf &&
		strings.HasSuffix(ids.Name, "out_ids")
}

func (Vocabulary) HasSettings(op string) bool {
	switch op {
	case "ROPE", "FLASH_ATTN_EXT", "SOFT_MAX", "SCALE", "GLU", "UNARY":
		return true
	}
	return false
}

// ExpertSources: ggml_mul_mat_id(as, b, ids).
func (Vocabulary) ExpertSources(nodes []trace.Node, n *trace.Node) (weights, ids int32) {
	weights, ids = -1, -1
	if n.Op != "MUL_MAT_ID" {
		return weights, ids
	}
	for i, to := range map[int]*int32{0: &weights, 2: &ids} {
		if i < len(n.Src) && n.Src[i] >= 0 && int(n.Src[i]) < len(nodes) {
			*to = n.Src[i]
		}
	}
	return weights, ids
}

func (Vocabulary) ExpertBytes(nodes []trace.Node, n *trace.Node) (int64, bool) {
	if w, _ := words.ExpertSources(nodes, n); w < 0 {
		return 0, false
	}
	return readOf(nodes, n, 0)
}

// AreExperts: llama.cpp names the choice ffn_moe_topk. Where it keeps experts in a cache (--moe-cache-mib),
// ffn_moe_slots holds slots in that cache. Whatever its name, the result of a sort (ARGSORT, TOP_K) over as
// many numbers as there are experts is a choice of experts.
func (Vocabulary) AreExperts(nodes []trace.Node, ids int32) bool {
	for range 8 {
		if ids < 0 || int(ids) >= len(nodes) {
			return false
		}
		n := &nodes[ids]
		switch base, _ := words.SplitName(n.Name); {
		case base == "ffn_moe_slots":
			return false
		case base == "ffn_moe_topk" || n.Op == "ARGSORT" || n.Op == "TOP_K":
			return true
		case n.ViewSrc < 0:
			return false
		}
		ids = n.ViewSrc
	}
	return false
}

// CallComputes: in ggml-cpu.cpp, ggml-blas.cpp and ggml-zendnn.cpp synchronize is NULL: there is no function
// to wait with.
func (Vocabulary) CallComputes(backend string) bool {
	switch backend {
	case "CPU", "BLAS", "ZenDNN":
		return true
	}
	return false
}

func (Vocabulary) HandsOver(backend string) bool { return backend == "RPC" }

// Variant returns "sapphirerapids" of ".../libggml-cpu-sapphirerapids.so".
func (Vocabulary) Variant(library string) string {
	v, ok := strings.CutPrefix(path.Base(library), "libggml-cpu-")
	if !ok {
		return ""
	}
	v, _, _ = strings.Cut(v, ".so")
	return v
}
