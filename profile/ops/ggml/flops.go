// SPDX-License-Identifier: Apache-2.0

package ggml

import (
	"github.com/profinfer/profinfer/profile/ops"
	"github.com/profinfer/profinfer/trace"
)

// Each addition, multiplication, division, comparison, negation and function (square root, exponential,
// logarithm, tanh, erf) of the operator's definition counts as one flop. Unpacking quantised weights does not count: it is the cost of a
// format, not requested work.

// flopsPerElement is for operators that do the same for each element of their result. Source: the expression
// in ggml/src/ggml-cpu (ops.cpp, unary-ops.cpp, binary-ops.cpp, vec.h), given beside each.
var flopsPerElement = map[string]int64{
	// Only moves data.
	"NONE": 0, "RESHAPE": 0, "VIEW": 0, "PERMUTE": 0, "TRANSPOSE": 0,
	"DUP": 0, "CPY": 0, "CONT": 0, "GET_ROWS": 0, "SET_ROWS": 0, "SET": 0, "REPEAT": 0, "CONCAT": 0,
	"PAD": 0, "PAD_REFLECT_1D": 0, "ROLL": 0, "IM2COL": 0, "IM2COL_3D": 0, "FILL": 0, "ARANGE": 0, "DIAG": 0,
	"DIAG_MASK_INF": 0, "DIAG_MASK_ZERO": 0, "TRI": 0, "WIN_PART": 0, "WIN_UNPART": 0,
	"GET_REL_POS": 0,

	"ADD": 1, "ADD1": 1, "ADD_ID": 1, "ACC": 1, "SUB": 1, "MUL": 1, "DIV": 1,
	"SQR": 1, "SQRT": 1, "LOG": 1, "SIN": 1, "COS": 1,
	"CLAMP":      2, // min(max(x, a), b)
	"LEAKY_RELU": 2, // max(x, 0) + s*min(x, 0), one branch of it

	// Unary operators (unary-ops.cpp).
	"ABS": 1, "SGN": 1, "NEG": 1, "STEP": 1, "TANH": 1, "RELU": 1, "EXP": 1,
	"FLOOR": 1, "CEIL": 1, "ROUND": 1, "TRUNC": 1,
	"EXPM1":       2, // exp(x) - 1
	"ELU":         2, // exp(x) - 1
	"SOFTPLUS":    3, // log(1 + exp(x)), above 20 x itself
	"SIGMOID":     4, // 1 / (1 + exp(-x))
	"SILU":        4, // x / (1 + exp(-x))
	"HARDSIGMOID": 4, // min(1, max(0, (x + 3) / 6))
	"HARDSWISH":   5, // x * that
	"GELU":        9, // 0.5*x*(1 + tanh(c*x*(1 + a*x*x)))
	"GELU_ERF":    5, // 0.5*x*(1 + erf(x*c))
	"GELU_QUICK":  5, // x * (1 / (1 + exp(c*x)))

	// Gated units (ggml_glu): the unary operator on one half, times the other.
	"REGLU": 2, "GEGLU": 10, "SWIGLU": 5, "GEGLU_ERF": 6, "GEGLU_QUICK": 6,
	"SWIGLU_OAI": 10, // min, max, min; x/(1+exp(a*-x)): 5; y+1; *

	"NORM":     5, // sum: 1; x-mean: 1; sum of squares: 2; scale: 1
	"RMS_NORM": 3, // sum of squares: 2; scale: 1
	"L2_NORM":  3, // the same
}

// Flops returns the number of floating point operations of the operator made of the members; nil where no
// formula is known.
func (Vocabulary) Flops(nodes []trace.Node, members []int32) *int64 {
	var sum int64
	for _, m := range members {
		f, ok := nodeFlops(nodes, &nodes[m])
		if !ok || f < 0 || sum+f < sum {
			return nil
		}
		sum += f
	}
	return &sum
}

func nodeFlops(nodes []trace.Node, n *trace.Node) (int64, bool) {
	n0, n1, n2 := ops.Source(nodes, n, 0), ops.Source(nodes, n, 1), ops.Source(nodes, n, 2)
	dst, known := ops.Elements(n)
	if !known {
		return 0, false
	}
	switch n.Op {
	case "MUL_MAT", "MUL_MAT_ID":
		// 2*m*n*k: each element of the result sums k products, k = ne00 (ggml_mul_mat). The result of
		// MUL_MAT_ID is [m, n_used, n_tokens]: one matmul for each expert used.
		if n0 == nil {
			return 0, false
		}
		return ops.Product(2, n0.Ne[0], dst)
	case "OUT_PROD":
		// Sums over the second dimension (ggml_out_prod: a is [n, k], b is [p, k]).
		if n0 == nil {
			return 0, false
		}
		return ops.Product(2, n0.Ne[1], dst)
	case "FLASH_ATTN_EXT":
		// Two matmuls, K*q and V*softmax: 2*n_kv*(dk + dv) per token and head, so 4*n_kv*d where both have
		// width d (ggml_flash_attn_ext: q [dk, n_tokens, n_head, n_seq], k [dk, n_kv, n_head_kv], v [dv,
		// n_kv, n_head_kv]). The softmax between them, about 5*n_kv, and the mask, which lets the CPU skip
		// cells, are left out.
		if n0 == nil || n1 == nil || n2 == nil {
			return 0, false
		}
		return ops.Product(2, n0.Ne[1], n0.Ne[2], n0.Ne[3], n1.Ne[1], n1.Ne[0]+n2.Ne[0])
	case "SOFT_MAX":
		// Scale, maximum, subtraction, exponential, sum, division: 6; the mask adds one
		// (ggml_compute_forward_soft_max_f32).
		if n1 != nil {
			return ops.Product(7, dst)
		}
		return ops.Product(6, dst)
	case "SCALE":
		// s*x + b; b is the second parameter (ggml_scale_bias), a float whose bits are 0 if unused.
		if len(n.Params) > 1 && n.Params[1] != 0 {
			return ops.Product(2, dst)
		}
		return dst, true
	case "ROPE", "ROPE_BACK":
		// Each pair is rotated by 4 products and 2 sums: 3 per element, for the first n_dims of each row;
		// n_dims is parameter 1 (ggml_rope_impl). Sines and cosines are shared by all heads.
		dims := n.Ne[0]
		if len(n.Params) > 1 && n.Params[1] > 0 {
			dims = min(dims, int64(n.Params[1]))
		}
		return ops.Product(3, dims, n.Ne[1], n.Ne[2], n.Ne[3])
	case "GROUP_NORM": // same as NORM
		return ops.Product(5, dst)
	case "SUM", "SUM_ROWS", "MEAN", "CUMSUM", "ARGMAX":
		if n0 == nil {
			return 0, false
		}
		return ops.Elements(n0)
	case "SSM_CONV":
		// Each element of the result sums d_conv products (ggml_ssm_conv: c is [d_conv, d_inner]).
		if n1 == nil {
			return 0, false
		}
		return ops.Product(2, n1.Ne[0], dst)
	case "SSM_SCAN":
		// Per token and element of the state: h = h*dA + B*x*dt, y += h*C: 5 (ggml_ssm_scan: s is [d_state,
		// head_dim, n_head, n_rs], x is [head_dim, n_head, n_tokens, n_seqs]).
		if n0 == nil || n1 == nil {
			return 0, false
		}
		x, ok := ops.Elements(n1)
		if !ok {
			return 0, false
		}
		return ops.Product(5, n0.Ne[0], x)
	case "CONV_2D":
		// ggml_conv_2d_direct: a is [KW, KH, IC, OC], the result [OW, OH, OC, N].
		if n0 == nil {
			return 0, false
		}
		return ops.Product(2, n0.Ne[0], n0.Ne[1], n0.Ne[2], dst)
	case "CONV_2D_DW":
		if n0 == nil {
			return 0, false
		}
		return ops.Product(2, n0.Ne[0], n0.Ne[1], dst)
	case "CONV_TRANSPOSE_1D":
		// ggml_conv_transpose_1d: a is [K, OC, IC], b is [L, IC].
		if n0 == nil || n1 == nil {
			return 0, false
		}
		return ops.Product(2, n0.Ne[0], n0.Ne[1], n0.Ne[2], n1.Ne[0])
	}
	if per, ok := flopsPerElement[n.Op]; ok {
		return ops.Product(per, dst)
	}
	return 0, false
}
