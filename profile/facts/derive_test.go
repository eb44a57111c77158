// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/ops"
	"github.com/profinfer/profinfer/trace"
)

// Tensor makes a contiguous tensor.
func Tensor(name, op, typ string, ne ...int64) trace.Node {
	n := trace.Node{Name: name, Op: op, Type: typ, Ne: [4]int64{1, 1, 1, 1}, ViewSrc: -1, BlockSize: 1,
		TypeSize: 4}
	copy(n.Ne[:], ne)
	switch typ {
	case "f16":
		n.TypeSize = 2
	case "i64":
		n.TypeSize = 8
	case "q4_0":
		n.BlockSize, n.TypeSize = 32, 18
	case "q6_K":
		n.BlockSize, n.TypeSize = 256, 210
	}
	n.Nb = [4]uint64{uint64(n.TypeSize), uint64(n.Ne[0] / n.BlockSize * n.TypeSize)}
	n.Nb[2] = n.Nb[1] * uint64(n.Ne[1])
	n.Nb[3] = n.Nb[2] * uint64(n.Ne[2])
	n.Leaf = op == ""
	if n.Leaf {
		n.Op = "NONE"
	}
	return n
}

// Of makes a node (the first) with its sources behind it.
func Of(n trace.Node, src ...trace.Node) []trace.Node {
	all := []trace.Node{n}
	for i := range src {
		all[0].Src = append(all[0].Src, int32(i+1))
		all = append(all, src[i])
	}
	return all
}

func ShapeOf(nodes []trace.Node) *profile.Shape {
	return &profile.Shape{Shape: &trace.Shape{PID: 1, Nodes: nodes, NNodes: len(nodes)}}
}

func with(n trace.Node, f func(*trace.Node)) trace.Node { f(&n); return n }

const unknown = -1

func TestBytesAndFlops(t *testing.T) {
	strided := func(nb ...uint64) func(*trace.Node) { return func(n *trace.Node) { copy(n.Nb[:], nb) } }
	ids := with(Tensor("ffn_moe_topk-0", "VIEW", "i32", 4, 5), strided(4, 256, 1280, 1280))
	cases := []struct {
		name         string
		nodes        []trace.Node
		fused        []int32
		bytes, flops int64
	}{
		// 64x32 in q4_0: 2048/32*18 = 1152; 64 floats: 256; 32 floats: 128. 2*64*32.
		{"matrix and vector", Of(Tensor("x", "MUL_MAT", "f32", 32), Tensor("w", "", "q4_0", 64, 32),
			Tensor("a", "ADD", "f32", 64)),
			nil, 1152 + 256 + 128, 4096},
		// 7 tokens: weights once.
		{"matrix and matrix", Of(Tensor("x", "MUL_MAT", "f32", 32, 7), Tensor("w", "", "q4_0", 64, 32),
			Tensor("a", "ADD", "f32", 64, 7)),
			nil, 1152 + 7*256 + 7*128, 7 * 4096},
		// Grouped queries: 2 key heads serve 8: k is 16x10x2 halves = 640 bytes, once; q 16x3x8
		// floats = 1536; result 10x3x8 floats = 960. 2*16*240.
		{"broadcast", Of(Tensor("kq", "MUL_MAT", "f32", 10, 3, 8), Tensor("k", "VIEW", "f16", 16, 10, 2),
			Tensor("q", "PERMUTE", "f32", 16, 3, 8)),
			nil, 640 + 1536 + 960, 7680},
		// 256x64 in q6_K: 16384/256*210 = 13440.
		{"k-quant", Of(Tensor("x", "MUL_MAT", "f32", 64), Tensor("w", "", "q6_K", 256, 64),
			Tensor("a", "ADD", "f32", 256)),
			nil, 13440 + 1024 + 256, 2 * 256 * 64},
		// 16 experts of 64x32 (1152 bytes each), 4 used by each of 5 tokens: 20 choices, so all 16 at
		// most. Activations 64x1x5 floats, result 32x4x5 floats, 20 ids of 4 bytes (their rows lie
		// 256 bytes apart; the holes are not read).
		{"experts", Of(Tensor("x", "MUL_MAT_ID", "f32", 32, 4, 5), Tensor("w", "", "q4_0", 64, 32, 16),
			Tensor("a", "ADD", "f32", 64, 1, 5), ids),
			nil, 16*1152 + 1280 + 2560 + 80, 2 * 64 * 32 * 4 * 5},
		// One token: 4 of 16.
		{"experts of one token", Of(Tensor("x", "MUL_MAT_ID", "f32", 32, 4, 1),
			Tensor("w", "", "q4_0", 64, 32, 16), Tensor("a", "ADD", "f32", 64, 1, 1), Tensor("ids", "VIEW",
				"i32", 4, 1)),
			nil, 4*1152 + 256 + 512 + 16, 2 * 64 * 32 * 4},
		// 3 rows of 64 elements in q4_0 (36 bytes), 3 ids, 3 rows of floats.
		{"get rows", Of(Tensor("x", "GET_ROWS", "f32", 64, 3), Tensor("w", "", "q4_0", 64, 1000),
			Tensor("ids", "", "i32", 3)),
			nil, 3*36 + 12 + 768, 0},
		// More rows asked for than there are: the table once.
		{"get all rows", Of(Tensor("x", "GET_ROWS", "f32", 64, 30), Tensor("w", "", "q4_0", 64, 10),
			Tensor("ids", "", "i32", 30)),
			nil, 10*36 + 120 + 30*256, 0},
		// 2 rows of 64 floats into a cache of halves: not the cache itself.
		{"set rows", Of(Tensor("x", "SET_ROWS", "f16", 64, 4096), Tensor("k", "ROPE", "f32", 64, 2),
			Tensor("ids", "", "i64", 2), Tensor("cache", "", "f16", 64, 4096)),
			nil, 512 + 16 + 256, 0},
		// The destination is not read.
		{"copy", Of(Tensor("x", "CPY", "f16", 64), Tensor("a", "ADD", "f32", 64),
			Tensor("b", "VIEW", "f16", 64)), nil, 256 + 128, 0},
		// 32x3 floats and a row of 32.
		{"add a row", Of(Tensor("x", "ADD", "f32", 32, 3), Tensor("a", "ADD", "f32", 32, 3),
			Tensor("b", "", "f32", 32)), nil, 384 + 128 + 384, 96},
		{"the same twice", Of(with(Tensor("x", "MUL", "f32", 32), func(n *trace.Node) {}),
			Tensor("a", "ADD", "f32", 32)), nil, 256, 32},
		// A view of every fourth float counts its 8 elements; a stride of 0 counts once.
		{"view", Of(Tensor("x", "CONT", "f32", 1, 8),
			with(Tensor("v", "VIEW", "f32", 1, 8), strided(4, 16, 128, 128))), nil, 32 + 32, 0},
		{"stride 0", Of(Tensor("x", "CONT", "f32", 8, 5),
			with(Tensor("v", "VIEW", "f32", 8, 5), strided(4, 0, 0, 0))), nil, 32 + 160, 0},
		// Rows of 8 floats that begin 1 float apart: 8 + 4 floats in all.
		{"overlap", Of(Tensor("x", "CONT", "f32", 8, 5),
			with(Tensor("v", "VIEW", "f32", 8, 5), strided(4, 4, 20, 20))), nil, 48 + 160, 0},
		// Transposed: rows lie 4 bytes apart, elements 20; nothing is shared.
		{"transposed", Of(Tensor("x", "CONT", "f32", 8, 5),
			with(Tensor("v", "TRANSPOSE", "f32", 8, 5), strided(20, 4, 160, 160))), nil, 160 + 160, 0},
		// q 16x3x4 floats, k and v 16x10x2 halves, mask 10x3 halves of which rows are padded to 8.
		{"flash attention", Of(Tensor("x", "FLASH_ATTN_EXT", "f32", 16, 4, 3),
			Tensor("q", "PERMUTE", "f32", 16, 3, 4), Tensor("k", "VIEW", "f16", 16, 10, 2), Tensor("v",
				"VIEW", "f16", 16, 10, 2), Tensor("m", "", "f16", 10, 8)),
			nil, 768 + 640 + 640 + 60 + 768, 4 * 3 * 4 * 10 * 16},
		{"softmax", Of(Tensor("x", "SOFT_MAX", "f32", 10, 3, 4), Tensor("kq", "MUL_MAT", "f32", 10, 3, 4),
			Tensor("m", "", "f16", 10, 8)), nil, 480 + 60 + 480, 7 * 120},
		// 12 of 16 elements are rotated.
		{"rope", Of(with(Tensor("x", "ROPE", "f32", 16, 4), func(n *trace.Node) {
			n.Params = []int32{0, 12}
		}), Tensor("q", "VIEW", "f32", 16, 4), Tensor("pos", "", "i32", 1)), nil, 256 + 4 + 256, 3 * 12 * 4},
		{"swiglu", Of(Tensor("x", "SWIGLU", "f32", 32), Tensor("g", "MUL_MAT", "f32", 32),
			Tensor("u", "MUL_MAT", "f32", 32)), nil, 384, 160},
		{"scale", Of(with(Tensor("x", "SCALE", "f32", 32), func(n *trace.Node) {
			n.Params = []int32{5, 0}
		}), Tensor("a", "ADD", "f32", 32)), nil, 256, 32},
		// What is handed on inside is neither written nor read; the weight of the MUL is.
		{"fused", append(Of(Tensor("norm-0", "RMS_NORM", "f32", 32), Tensor("in", "ADD", "f32", 32),
			Tensor("blk.0.attn_norm.weight", "", "f32", 32)),
			with(Tensor("attn_norm-0", "MUL", "f16", 32), func(n *trace.Node) {
				n.Src = []int32{0, 2}
			})), []int32{3}, 128 + 128 + 64, 96 + 32},
		{"type not known", Of(Tensor("x", "ADD", "f32", 32),
			with(Tensor("a", "ADD", "new", 32), func(n *trace.Node) {
				n.TypeSize = 0
			})), nil, unknown, 32},
		{"operator not known", Of(Tensor("x", "NEW_OP", "f32", 32), Tensor("a", "ADD", "f32", 32)), nil, 256,
			unknown},
		{"a caller's own", Of(Tensor("x", "MAP_CUSTOM1", "f32", 32), Tensor("a", "ADD", "f32", 32)), nil,
			unknown, unknown},
		{"source outside", Of(with(Tensor("x", "MUL_MAT", "f32", 32), func(n *trace.Node) {
			n.Src = []int32{9, -3}
		})), nil, unknown, unknown},
		{"too large", Of(Tensor("x", "MUL_MAT", "f32", math.MaxInt64, 4),
			Tensor("w", "", "q4_0", 64, math.MaxInt64), Tensor("a", "ADD", "f32", 64)), nil, unknown,
			unknown},
		{"negative", Of(Tensor("x", "ADD", "f32", -1), Tensor("a", "ADD", "f32", 2)), nil, unknown, unknown},
		{"empty", Of(Tensor("x", "ADD", "f32", 0), Tensor("a", "ADD", "f32", 0)), nil, 0, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "the same twice" {
				c.nodes[0].Src = []int32{1, 1}
			}
			// of() numbers the sources of experts: the ids are the third.
			o := &profile.Op{Shape: ShapeOf(c.nodes), Node: 0, Fused: c.fused}
			d := Derive(o)
			if got := orUnknown(d.Bytes); got != c.bytes {
				t.Errorf("bytes: %d, want %d", got, c.bytes)
			}
			if got := orUnknown(d.Flops); got != c.flops {
				t.Errorf("flops: %d, want %d", got, c.flops)
			}
			if want := c.name == "experts"; d.BytesAtMost != want {
				t.Errorf("an upper estimate: %v, want %v", d.BytesAtMost, want)
			}
		})
	}
}

func orUnknown(v *int64) int64 {
	if v == nil {
		return unknown
	}
	return *v
}

// noLayer is what no layer is written as in tables below.
const noLayer = -1

func TestLayerAndBlock(t *testing.T) {
	x := Tensor("x", "ADD", "f32", 32)
	w := func(name string) trace.Node { return Tensor(name, "", "q4_0", 32, 32) }
	cases := []struct {
		nodes  []trace.Node
		layer  int
		block  ops.Block
		weight string
	}{
		{Of(Tensor("Qcur-3", "MUL_MAT", "f32", 32), w("blk.3.attn_q.weight"), x), 3, ops.BlockAttention,
			"blk.3.attn_q.weight"},
		// The weight is surer than the name.
		{Of(Tensor("node_7", "MUL_MAT", "f32", 32), w("blk.11.ffn_down.weight"), x), 11, ops.BlockFFN,
			"blk.11.ffn_down.weight"},
		{Of(Tensor("ffn_out-2", "MUL_MAT", "f32", 32), w("blk.12.ffn_down.weight"), x), 12, ops.BlockFFN,
			"blk.12.ffn_down.weight"},
		{Of(Tensor("ffn_moe_down-2", "MUL_MAT_ID", "f32", 32), w("blk.2.ffn_down_exps.weight"), x), 2,
			ops.BlockMoE, "blk.2.ffn_down_exps.weight"},
		{Of(Tensor("ffn_moe_logits-2", "MUL_MAT", "f32", 8), w("blk.2.ffn_gate_inp.weight"), x), 2,
			ops.BlockMoE, "blk.2.ffn_gate_inp.weight"},
		{Of(Tensor("attn_norm-0", "MUL", "f32", 32), x, w("blk.0.attn_norm.weight")), 0, ops.BlockNorm,
			"blk.0.attn_norm.weight"},
		{Of(Tensor("result_norm", "MUL", "f32", 32), x, w("output_norm.weight")), noLayer, ops.BlockNorm,
			"output_norm.weight"},
		{Of(Tensor("result_output", "MUL_MAT", "f32", 32), w("token_embd.weight"), x), noLayer,
			ops.BlockOutput, "token_embd.weight"},
		{Of(Tensor("result_output", "MUL_MAT", "f32", 32), w("output.weight"), x), noLayer, ops.BlockOutput,
			"output.weight"},
		{Of(Tensor("embd", "GET_ROWS", "f32", 32), w("token_embd.weight"), x), noLayer, ops.BlockEmbedding,
			"token_embd.weight"},
		{Of(Tensor("cache_k_l17 (view)", "SET_ROWS", "f16", 32), x, x, Tensor("cache_k_l17", "", "f16", 32)),
			17, ops.BlockAttention, ""},
		{Of(Tensor("cache_v_l4 (view) (copy of Vcur-4 (transposed))", "CPY", "f16", 32), x, x), 4,
			ops.BlockAttention, ""},
		{Of(Tensor("CPU#l_out-5#0", "ADD", "f32", 32), x, x), 5, ops.BlockOther, ""},
		{Of(Tensor("ffn_inp-1", "ADD", "f32", 32), x, x), 1, ops.BlockOther, ""},
		{Of(Tensor("ffn_swiglu-1", "SWIGLU", "f32", 32), x, x), 1, ops.BlockFFN, ""},
		{Of(Tensor("kq_soft_max-9", "SOFT_MAX", "f32", 32), x), 9, ops.BlockAttention, ""},
		{Of(Tensor("norm-9", "RMS_NORM", "f32", 32), x), 9, ops.BlockNorm, ""},
		// The second source of a product is no weight, nor is a leaf of another name.
		{Of(Tensor("y", "MUL_MAT", "f32", 32), x, w("blk.1.attn_q.weight")), noLayer, ops.BlockOther, ""},
		{Of(Tensor("y", "MUL_MAT", "f32", 32), w("inp_pos"), x), noLayer, ops.BlockOther, ""},
		{Of(Tensor("Kcur-1", "ADD", "f32", 32), x, w("blk.1.attn_k.bias")), 1, ops.BlockAttention,
			"blk.1.attn_k.bias"},
		// The factors of the position encoding are everybody's.
		{Of(Tensor("Qcur-6", "ROPE", "f32", 32), x, x, w("rope_freqs.weight")), 6, ops.BlockAttention,
			"rope_freqs.weight"},
		{Of(Tensor("v.x", "MUL_MAT", "f32", 32), w("v.blk.8.attn_q.weight"), x), 8, ops.BlockAttention,
			"v.blk.8.attn_q.weight"},
		// Not numbers of layers.
		{Of(Tensor("mine--", "ADD", "f32", 32), x), noLayer, ops.BlockOther, ""},
		{Of(Tensor("a-999999999999999999999", "ADD", "f32", 32), x), noLayer, ops.BlockOther, ""},
		{Of(Tensor("", "ADD", "f32", 32), x), noLayer, ops.BlockOther, ""},
		{Of(Tensor("blk..weight", "MUL_MAT", "f32", 32), w("blk.x.weight"), x), noLayer, ops.BlockOther,
			"blk.x.weight"},
	}
	for _, c := range cases {
		d := Derive(&profile.Op{Shape: ShapeOf(c.nodes)})
		layer := noLayer
		if d.Layer != nil {
			layer = *d.Layer
		}
		if layer != c.layer || d.Block != c.block || d.Weight != c.weight {
			t.Errorf("%s %s: layer %d, block %s, weight %q; want %d, %s, %q", c.nodes[0].Op, c.nodes[0].Name,
				layer, d.Block, d.Weight, c.layer, c.block, c.weight)
		}
		if d.Name != c.nodes[0].Name {
			t.Errorf("the name of %q is %q", c.nodes[0].Name, d.Name)
		}
	}
}

// A view of a weight is the weight; an unnamed node belongs where its neighbours do.
func TestNeighbours(t *testing.T) {
	nodes := []trace.Node{
		Tensor("Qcur-4", "MUL_MAT", "f32", 32),
		Tensor("node_1", "FLASH_ATTN_EXT", "f32", 32),
		Tensor("node_2", "ADD", "f32", 32),
		Tensor("node_3", "SCALE", "f32", 32),
		Tensor("ffn_up-5", "MUL_MAT", "f32", 32),
		Tensor("result_norm", "RMS_NORM", "f32", 32),
		Tensor("node_6", "SCALE", "f32", 32),
		Tensor("blk.4.attn_q.weight", "", "q4_0", 64, 32),
		Tensor("blk.4.attn_q.weight (reshaped)", "RESHAPE", "q4_0", 64, 32),
		Tensor("blk.5.ffn_up.weight", "", "q4_0", 64, 32),
	}
	nodes[8].ViewSrc = 7
	nodes[0].Src = []int32{8, 2}
	nodes[1].Src = []int32{0}
	nodes[2].Src = []int32{1}
	nodes[4].Src = []int32{9, 3}
	nodes[5].Src = []int32{4}
	nodes[6].Src = []int32{5}
	nodes[3].Src = nil
	s := ShapeOf(nodes)
	d := new(Deriver)
	want := []struct {
		layer int
		block ops.Block
	}{{4, ops.BlockAttention}, {4, ops.BlockAttention}, {4, ops.BlockAttention}, {5, ops.BlockFFN}, {5,
		ops.BlockFFN}, {noLayer, ops.BlockNorm}, {noLayer, ops.BlockOther}}
	for i, w := range want {
		v := d.Derive(&profile.Op{Shape: s, Node: int32(i)})
		layer := noLayer
		if v.Layer != nil {
			layer = *v.Layer
		}
		if layer != w.layer || v.Block != w.block {
			t.Errorf("node %d (%s): layer %d, %s; want %d, %s", i, nodes[i].Name, layer, v.Block, w.layer,
				w.block)
		}
	}
	if v := d.Derive(&profile.Op{Shape: s}); v.Weight != "blk.4.attn_q.weight" || v.WeightType != "q4_0" {
		t.Errorf("the weight behind the view is %q, %q", v.Weight, v.WeightType)
	}
}

func TestDeriverRemembers(t *testing.T) {
	s := ShapeOf(append(Of(Tensor("norm-0", "RMS_NORM", "f32", 32), Tensor("in", "ADD", "f32", 32)),
		Tensor("attn_norm-0", "MUL", "f32", 32)))
	d := new(Deriver)
	a := d.Derive(&profile.Op{Shape: s})
	if d.Derive(&profile.Op{Shape: s}) != a {
		t.Error("the same operator is derived anew")
	}
	// Fusion can be switched off at any time.
	if d.Derive(&profile.Op{Shape: s, Fused: []int32{2}}) == a {
		t.Error("a fused operator is taken for the plain one")
	}
	if v := d.Derive(&profile.Op{}); v.Block != ops.BlockOther || v.Bytes != nil {
		t.Errorf("without a shape: %+v", v)
	}
	if v := d.Derive(&profile.Op{Shape: s, Node: 99, Fused: []int32{-4, 77}}); v.Bytes != nil {
		t.Errorf("outside the shape: %+v", v)
	}
}

// Definitions come from a process's memory: whatever they hold, nothing panics.
func TestDeriveNonsense(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	ops := []string{"MUL_MAT", "MUL_MAT_ID", "GET_ROWS", "SET_ROWS", "CPY", "SET", "FLASH_ATTN_EXT",
		"SOFT_MAX", "ROPE", "SSM_SCAN", "SSM_CONV",
		"CONV_2D", "CONV_2D_DW", "CONV_TRANSPOSE_1D", "OUT_PROD", "IM2COL", "ADD_ID", "SUM_ROWS", "SCALE",
		"VIEW", "REPEAT_BACK", ""}
	names := []string{"blk.1.attn_q.weight", "a (view) (", "#a#b#", "cache_k_l", "-", "blk.", "node_", "a-1",
		"\xff-2"}
	num := func() int64 {
		switch r.IntN(4) {
		case 0:
			return r.Int64N(100)
		case 1:
			return -r.Int64N(100)
		case 2:
			return math.MaxInt64 - r.Int64N(3)
		}
		return r.Int64()
	}
	for range 3000 {
		nodes := make([]trace.Node, 1+r.IntN(6))
		for i := range nodes {
			n := &nodes[i]
			n.Op, n.Name = ops[r.IntN(len(ops))], names[r.IntN(len(names))]
			for j := range 4 {
				n.Ne[j], n.Nb[j] = num(), uint64(num())
			}
			n.BlockSize, n.TypeSize, n.ViewSrc, n.Leaf = num(), num(), int32(r.IntN(8))-1, r.IntN(2) == 0
			for range r.IntN(7) {
				n.Src = append(n.Src, int32(r.IntN(8))-1)
			}
			for range r.IntN(3) {
				n.Params = append(n.Params, r.Int32())
			}
		}
		d := Derive(&profile.Op{Shape: ShapeOf(nodes), Node: int32(r.IntN(len(nodes)+2)) - 1,
			Fused: []int32{int32(r.IntN(9)) - 2}})
		if d.Bytes != nil && *d.Bytes < 0 || d.Flops != nil && *d.Flops < 0 {
			t.Fatalf("negative figures: %+v", d)
		}
	}
}

// Shares tell attention itself from products with weights.
func TestKinds(t *testing.T) {
	x := Tensor("x", "ADD", "f32", 32)
	w := Tensor("blk.0.attn_q.weight", "", "q4_0", 32, 32)
	for _, c := range []struct {
		nodes []trace.Node
		want  ops.Class
	}{
		{Of(Tensor("Qcur-0", "MUL_MAT", "f32", 32), w, x), ops.ClassProduct},
		{Of(Tensor("kq-0", "MUL_MAT", "f32", 32), x, x), ops.ClassAttention},
		{Of(Tensor("kq_soft_max-0", "SOFT_MAX", "f32", 32), x), ops.ClassAttention},
		{Of(Tensor("ffn_moe_probs-0", "SOFT_MAX", "f32", 32), x), ops.ClassOther},
		{Of(Tensor("node_1", "FLASH_ATTN_EXT", "f32", 32), x), ops.ClassAttention},
		{Of(Tensor("lora-1", "MUL_MAT", "f32", 32), x, x), ops.ClassProduct},
		{Of(Tensor("Qcur-0", "ROPE", "f32", 32), x), ops.ClassOther},
	} {
		o := &profile.Op{Shape: ShapeOf(c.nodes), Op: c.nodes[0].Op}
		d := Derive(o)
		if got := d.Class; got != c.want {
			t.Errorf("%s %s is of kind %d, want %d", o.Op, c.nodes[0].Name, got, c.want)
		}
	}
}

// whisper.cpp names neither its weights nor most of what it computes.
func TestNamelessGraph(t *testing.T) {
	var nodes []trace.Node
	add := func(name, op string, leaf bool, src ...int32) int32 {
		n := Tensor(name, op, "f32", 64, 64)
		n.Leaf, n.Src, n.Executes = leaf, src, !leaf
		nodes = append(nodes, n)
		return int32(len(nodes) - 1)
	}
	w, x := add("leaf_0", "", true), add("mel", "", true)
	norm := add("node_0", "NORM", false, x)
	q := add("node_1", "MUL_MAT", false, w, norm)
	fa := add("node_2", "FLASH_ATTN_EXT", false, q, q, q)
	out := add("node_3", "MUL_MAT", false, w, fa)
	gelu := add("node_4", "GELU", false, out)
	n := profile.VocabularyOf("whisper.cpp").NameShape(nodes)
	for i, want := range map[int32]ops.Block{norm: ops.BlockNorm, q: ops.BlockOther, fa: ops.BlockAttention,
		out: ops.BlockOther, gelu: ops.BlockOther} {
		if n.Block[i] != want {
			t.Errorf("%s %s: block %s, want %s", nodes[i].Name, nodes[i].Op, n.Block[i], want)
		}
	}
	d := deriveNode(ShapeOf(nodes), n, out, nil)
	if k := d.Class; k != ops.ClassProduct {
		t.Errorf("a product with a nameless weight is of kind %d", k)
	}
}
