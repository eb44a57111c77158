// SPDX-License-Identifier: Apache-2.0

// Package profiletest makes runs for tests: a small llama's graphs, run by two threads with times that follow
// from the operators' sizes. Everything is computed, so tests can compute the same values.
package profiletest

import (
	"fmt"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/trace"
)

// Model is the size of a llama. All matrices are Q4_0 (blocks of 32 elements in 18 bytes).
type Model struct {
	Layers, Width, FF, Vocab int64
	Heads, HeadsKV, HeadDim  int64
	Suffix                   string // appended to every weight's name, before ".weight": for hostile names
	Base                     uint64 // address of the first weight
	Experts, Used            int64  // 0: a dense model
}

// Small is a model whose figures can be computed by hand.
var Small = Model{Layers: 2, Width: 64, FF: 192, Vocab: 1024, Heads: 4, HeadsKV: 2, HeadDim: 16,
	Base: 0x10000}

// graph builds a graph definition.
type graph struct {
	nodes, leaves []trace.Node
	addr          uint64
	leafAt        map[string]int32
}

// leafBit marks the number of a leaf until the number of nodes is known.
const leafBit = 1 << 20

func strides(typ string, ne [4]int64) (nb [4]uint64, block, size int64) {
	block, size = 1, 4
	switch typ {
	case "q4_0":
		block, size = 32, 18
	case "f16":
		size = 2
	case "i64":
		size = 8
	}
	nb[0] = uint64(size)
	nb[1] = uint64(ne[0] / block * size)
	nb[2] = nb[1] * uint64(ne[1])
	nb[3] = nb[2] * uint64(ne[2])
	return nb, block, size
}

func dims(ne ...int64) (out [4]int64) {
	for i := range out {
		out[i] = 1
		if i < len(ne) {
			out[i] = ne[i]
		}
	}
	return out
}

func (g *graph) leaf(name, typ string, ne [4]int64) int32 {
	if at, ok := g.leafAt[name]; ok {
		return at
	}
	at := int32(leafBit + len(g.leaves))
	g.leafAt[name] = at
	g.addr += 0x1000
	n := trace.Node{Name: name, Op: "NONE", Type: typ, Ne: ne, ViewSrc: -1, Addr: g.addr, Data: g.addr << 12,
		Leaf: true}
	n.Nb, n.BlockSize, n.TypeSize = strides(typ, ne)
	g.leaves = append(g.leaves, n)
	return at
}

func (g *graph) node(name, op, typ string, ne [4]int64, src ...int32) int32 {
	g.addr += 0x1000
	n := trace.Node{Name: name, Op: op, Type: typ, Ne: ne, Src: src, ViewSrc: -1, Addr: g.addr,
		Data: g.addr << 12, Executes: true}
	n.Nb, n.BlockSize, n.TypeSize = strides(typ, ne)
	switch op {
	case "VIEW", "RESHAPE", "PERMUTE", "TRANSPOSE":
		n.Executes = false
		n.ViewSrc = src[0]
	}
	g.nodes = append(g.nodes, n)
	return int32(len(g.nodes) - 1)
}

// Shape returns the graph that computes tokens with the given number of cache cells in use.
func (m Model) Shape(pid int32, id uint64, tokens, cells int64) *profile.Shape {
	g := &graph{addr: m.Base, leafAt: map[string]int32{}}
	weight := func(name string, ne ...int64) int32 {
		typ := "q4_0"
		if len(ne) == 1 {
			typ = "f32"
		}
		return g.leaf(name+m.Suffix+".weight", typ, dims(ne...))
	}
	blk := func(i int64, name string, ne ...int64) int32 {
		return weight(fmt.Sprintf("blk.%d.%s", i, name), ne...)
	}
	named := func(name string, i int64) string { return fmt.Sprintf("%s-%d", name, i) }
	// Weights first, so that their addresses are the same in every graph of the model.
	embd := weight("token_embd", m.Width, m.Vocab)
	for i := range m.Layers {
		blk(i, "attn_norm", m.Width)
		blk(i, "attn_q", m.Width, m.Heads*m.HeadDim)
		blk(i, "attn_k", m.Width, m.HeadsKV*m.HeadDim)
		blk(i, "attn_v", m.Width, m.HeadsKV*m.HeadDim)
		blk(i, "attn_output", m.Heads*m.HeadDim, m.Width)
		blk(i, "ffn_norm", m.Width)
		if m.Experts > 0 {
			m.expertWeights(i, blk)
			continue
		}
		blk(i, "ffn_gate", m.Width, m.FF)
		blk(i, "ffn_up", m.Width, m.FF)
		blk(i, "ffn_down", m.FF, m.Width)
	}
	norm := weight("output_norm", m.Width)
	ids := g.leaf("inp_tokens", "i32", dims(tokens))
	pos := g.leaf("inp_pos", "i32", dims(tokens))
	idx := g.leaf("inp_k_idxs", "i64", dims(tokens))
	mask := g.leaf("inp_kq_mask", "f16", dims(cells, tokens))

	x := g.node("embd", "GET_ROWS", "f32", dims(m.Width, tokens), embd, ids)
	for i := range m.Layers {
		wide, kv := dims(m.Width, tokens), dims(m.HeadsKV*m.HeadDim, tokens)
		in := x
		n := g.node(named("norm", i), "RMS_NORM", "f32", wide, x)
		n = g.node(named("attn_norm", i), "MUL", "f32", wide, n, blk(i, "attn_norm", m.Width))
		q := g.node(named("Qcur", i), "MUL_MAT", "f32", dims(m.Heads*m.HeadDim, tokens),
			blk(i, "attn_q", m.Width, m.Heads*m.HeadDim), n)
		q = g.node(named("Qcur", i)+" (reshaped)", "RESHAPE", "f32", dims(m.HeadDim, m.Heads, tokens), q)
		q = g.node(named("Qcur", i), "ROPE", "f32", dims(m.HeadDim, m.Heads, tokens), q, pos)
		k := g.node(named("Kcur", i), "MUL_MAT", "f32", kv, blk(i, "attn_k", m.Width, m.HeadsKV*m.HeadDim), n)
		k = g.node(named("Kcur", i), "ROPE", "f32", kv, k, pos)
		v := g.node(named("Vcur", i), "MUL_MAT", "f32", kv, blk(i, "attn_v", m.Width, m.HeadsKV*m.HeadDim), n)
		ck := g.leaf(fmt.Sprintf("cache_k_l%d", i), "f16", dims(m.HeadsKV*m.HeadDim, 4096))
		cv := g.leaf(fmt.Sprintf("cache_v_l%d", i), "f16", dims(m.HeadsKV*m.HeadDim, 4096))
		g.node(fmt.Sprintf("cache_k_l%d (view)", i), "SET_ROWS", "f16", dims(m.HeadsKV*m.HeadDim, 4096), k,
			idx, ck)
		g.node(fmt.Sprintf("cache_v_l%d (view)", i), "SET_ROWS", "f16", dims(m.HeadsKV*m.HeadDim, 4096), v,
			idx, cv)
		vk := g.node(fmt.Sprintf("cache_k_l%d (view)", i), "VIEW", "f16", dims(m.HeadDim, cells, m.HeadsKV),
			ck)
		vv := g.node(fmt.Sprintf("cache_v_l%d (view)", i), "VIEW", "f16", dims(m.HeadDim, cells, m.HeadsKV),
			cv)
		qp := g.node(named("Qcur", i)+" (permuted)", "PERMUTE", "f32", dims(m.HeadDim, tokens, m.Heads), q)
		a := g.node("node_"+fmt.Sprint(len(g.nodes)), "FLASH_ATTN_EXT", "f32",
			dims(m.HeadDim, m.Heads, tokens), qp, vk, vv, mask)
		a = g.node(named("kqv_out", i), "RESHAPE", "f32", dims(m.Heads*m.HeadDim, tokens), a)
		a = g.node(named("attn_out", i), "MUL_MAT", "f32", wide,
			blk(i, "attn_output", m.Heads*m.HeadDim, m.Width), a)
		f := g.node(named("ffn_inp", i), "ADD", "f32", wide, a, in)
		n = g.node(named("norm", i), "RMS_NORM", "f32", wide, f)
		n = g.node(named("ffn_norm", i), "MUL", "f32", wide, n, blk(i, "ffn_norm", m.Width))
		if m.Experts > 0 {
			x = g.node(named("l_out", i), "ADD", "f32", wide, m.experts(g, i, tokens, n, blk), f)
			continue
		}
		gate := g.node(named("ffn_gate", i), "MUL_MAT", "f32", dims(m.FF, tokens),
			blk(i, "ffn_gate", m.Width, m.FF), n)
		up := g.node(named("ffn_up", i), "MUL_MAT", "f32", dims(m.FF, tokens),
			blk(i, "ffn_up", m.Width, m.FF), n)
		h := g.node(named("ffn_swiglu", i), "SWIGLU", "f32", dims(m.FF, tokens), gate, up)
		h = g.node(named("ffn_out", i), "MUL_MAT", "f32", wide, blk(i, "ffn_down", m.FF, m.Width), h)
		x = g.node(named("l_out", i), "ADD", "f32", wide, h, f)
	}
	x = g.node("norm", "RMS_NORM", "f32", dims(m.Width, tokens), x)
	x = g.node("result_norm", "MUL", "f32", dims(m.Width, tokens), x, norm)
	g.node("result_output", "MUL_MAT", "f32", dims(m.Vocab, tokens), embd, x)
	return g.shape(pid, id)
}

// shape numbers the leaves after the nodes.
func (g *graph) shape(pid int32, id uint64) *profile.Shape {
	n := int32(len(g.nodes))
	all := append(g.nodes, g.leaves...)
	s := &profile.Shape{Index: int64(id), ByAddr: map[uint64]int32{}, Executed: make([]bool, len(all)),
		FusedInto: make([]int32, len(all))}
	for i := range all {
		for j, src := range all[i].Src {
			if src >= leafBit {
				all[i].Src[j] = src - leafBit + n
			}
		}
		if all[i].ViewSrc >= leafBit {
			all[i].ViewSrc += n - leafBit
		}
		s.ByAddr[all[i].Addr] = int32(i)
		s.FusedInto[i] = -1
	}
	s.Shape = &trace.Shape{PID: pid, ID: id, NNodes: int(n), Nodes: all}
	return s
}
