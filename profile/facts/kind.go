// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"github.com/profinfer/profinfer/profile/ops"
	"strings"
)

type Kind uint8

const (
	Other Kind = iota
	MatMul
	Attention
)

// KindOf sorts an operator into products with weights, attention itself (scores, softmax and
// values, fused or one by one) and the rest.
func KindOf(d *Derived, op string) Kind {
	first, _, _ := strings.Cut(op, "+")
	switch {
	case first == "FLASH_ATTN_EXT", first == "SOFT_MAX" && d.Block == ops.BlockAttention:
		return Attention
	case !ops.IsMatMul(first):
		return Other
	case d.Weight == "" && d.Block == ops.BlockAttention:
		return Attention
	}
	return MatMul
}
