// SPDX-License-Identifier: Apache-2.0

package ops

// Block is the part of a model that an operator belongs to.
type Block string

const (
	BlockAttention Block = "attention"
	BlockFFN       Block = "ffn"
	BlockMoE       Block = "moe"
	BlockNorm      Block = "norm"
	BlockEmbedding Block = "embedding"
	BlockOutput    Block = "output"
	BlockOther     Block = "other"
)
