// SPDX-License-Identifier: Apache-2.0

package profile

import "strings"

type kind uint8

const (
	kindOther kind = iota
	kindMatMul
	kindAttn
)

// kindOf sorts an operator into products with weights, attention itself (scores, softmax and
// values, fused or one by one) and the rest.
func kindOf(d *Derived, op string) kind {
	first, _, _ := strings.Cut(op, "+")
	switch {
	case first == "FLASH_ATTN_EXT", first == "SOFT_MAX" && d.Block == BlockAttention:
		return kindAttn
	case !isMatMul(first):
		return kindOther
	case d.Weight == "" && d.Block == BlockAttention:
		return kindAttn
	}
	return kindMatMul
}
