// SPDX-License-Identifier: Apache-2.0

package ops

import "strings"

// Kinds are kinds of operators, coarse enough for a colour each, as the timeline and the operator graph tell them apart.
var Kinds = []string{"matmul", "attention", "moe", "norm", "elementwise", "copy", "other"}

const (
	tlMatMul = iota
	tlAttention
	tlMoE
	tlNorm
	tlElementwise
	tlCopy
	TlOther
	NumKinds
)

// KindOf returns the kind of an operator by ggml's description, a fused one by its first part.
func KindOf(op string, block Block, weight bool) int {
	starts := func(with ...string) bool {
		for _, w := range with {
			if strings.HasPrefix(op, w) {
				return true
			}
		}
		return false
	}
	switch {
	case starts("MUL_MAT") && !starts("MUL_MAT_ID") && block == BlockAttention && !weight:
		return tlAttention
	case starts("FLASH_ATTN", "SOFT_MAX", "ROPE", "DIAG_MASK"):
		return tlAttention
	case starts("MUL_MAT_ID", "ADD_ID", "ARGSORT", "TOP_K"):
		return tlMoE
	case starts("MUL_MAT", "OUT_PROD", "CONV_"):
		return tlMatMul
	case starts("NORM") || strings.Contains(op, "_NORM"):
		return tlNorm
	case starts("CPY", "CONT", "DUP", "SET_ROWS", "GET_ROWS", "CONCAT", "REPEAT", "PAD", "IM2COL") || op == "SET":
		return tlCopy
	case starts("ADD", "SUB", "MUL", "DIV", "SCALE", "SQR", "SQRT", "SUM", "MEAN", "CLAMP", "UNARY", "GLU", "SWIGLU", "GEGLU", "REGLU", "SILU", "GELU",
		"RELU", "TANH", "SIGMOID", "EXP", "NEG", "LOG", "SIN", "COS"):
		return tlElementwise
	}
	return TlOther
}
