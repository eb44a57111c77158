// SPDX-License-Identifier: Apache-2.0

package profiletest

import (
	"fmt"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/trace"
)

// MoE is a mixture of 16 experts, 4 per token, each as wide as Small's feed-forward block.
var MoE = Model{Layers: 2, Width: 64, FF: 192, Vocab: 1024, Heads: 4, HeadsKV: 2, HeadDim: 16, Base: 0x10000,
	Experts: 16, Used: 4}

// expertWeights declares the weights of a layer.
func (m Model) expertWeights(i int64, blk func(i int64, name string, ne ...int64) int32) {
	blk(i, "ffn_gate_inp", m.Width, m.Experts)
	blk(i, "ffn_gate_exps", m.Width, m.FF, m.Experts)
	blk(i, "ffn_up_exps", m.Width, m.FF, m.Experts)
	blk(i, "ffn_down_exps", m.FF, m.Width, m.Experts)
}

// experts adds a layer's mixture of experts to n and returns its output.
func (m Model) experts(g *graph, i, tokens int64, n int32,
	blk func(i int64, name string, ne ...int64) int32) int32 {
	named := func(name string) string { return fmt.Sprintf("%s-%d", name, i) }
	all, few := dims(m.Experts, tokens), dims(m.Used, tokens)
	logits := g.node(named("ffn_moe_logits"), "MUL_MAT", "f32", all,
		blk(i, "ffn_gate_inp", m.Width, m.Experts), n)
	probs := g.node(named("ffn_moe_probs"), "SOFT_MAX", "f32", all, logits)
	sorted := g.node(named("ffn_moe_argsort"), "ARGSORT", "i32", all, probs)
	ids := g.node(named("ffn_moe_topk"), "VIEW", "i32", few, sorted)
	g.nodes[ids].Nb[1] = uint64(m.Experts) * 4 // rows of the sort, of which the first are seen
	weights := g.node(named("ffn_moe_weights"), "GET_ROWS", "f32", dims(1, m.Used, tokens), probs, ids)
	wide := dims(m.FF, m.Used, tokens)
	up := g.node(named("ffn_moe_up"), "MUL_MAT_ID", "f32", wide,
		blk(i, "ffn_up_exps", m.Width, m.FF, m.Experts), n, ids)
	gate := g.node(named("ffn_moe_gate"), "MUL_MAT_ID", "f32", wide,
		blk(i, "ffn_gate_exps", m.Width, m.FF, m.Experts), n, ids)
	h := g.node(named("ffn_moe_swiglu"), "SWIGLU", "f32", wide, gate, up)
	h = g.node(named("ffn_moe_down"), "MUL_MAT_ID", "f32", dims(m.Width, m.Used, tokens),
		blk(i, "ffn_down_exps", m.FF, m.Width, m.Experts), h, ids)
	return g.node(named("ffn_moe_out"), "MUL", "f32", dims(m.Width, tokens), h, weights)
}

// chosen is the expert that a token chooses by default: from token to token the last one is dropped and one
// is new, so all but one of a step's experts were in the previous step.
func chosen(m *Model, layer, pos, rank int64) int32 { return int32((layer + pos + rank) % m.Experts) }

// choice returns what the tokens of a graph chose at an operator, nil where they do not choose.
func (p *Player) choice(r *Run, o *profile.Op, pos int64, under map[int32]*profile.Choice) *profile.Choice {
	nodes := o.Shape.Nodes
	n := &nodes[o.Node]
	if n.Op != "MUL_MAT_ID" {
		return nil
	}
	ids := n.Src[2]
	if c := under[ids]; c != nil {
		return c
	}
	var layer int
	fmt.Sscanf(nodes[n.Src[0]].Name, "blk.%d.", &layer)
	used, tokens := nodes[ids].Ne[0], nodes[ids].Ne[1]
	c := &profile.Choice{Step: o.Step, Graph: o.Graph, Shape: o.Shape, Node: o.Node, IDs: ids, Time: o.Start,
		Layer:  layer,
		Tokens: int(tokens), Used: int(used), Total: int(r.Model.Experts), Seen: int(tokens)}
	for t := range tokens {
		for k := range used {
			if r.Choose != nil {
				c.Chosen = append(c.Chosen, r.Choose(int64(layer), pos+t, k))
			} else {
				c.Chosen = append(c.Chosen, chosen(&r.Model, int64(layer), pos+t, k))
			}
		}
	}
	under[ids] = c
	return c
}

// choose assigns to an operator its choice, and emits the choice on first use.
func (p *Player) choose(r *Run, o *profile.Op, pos int64, under map[int32]*profile.Choice) error {
	before := len(under)
	o.Choice = p.choice(r, o, pos, under)
	if len(under) > before {
		return p.Sink.Choice(o.Choice)
	}
	return nil
}

// Choice implements profile.Sink: what was chosen as it is copied, of many tokens in parts.
func (r *Recorder) Choice(c *profile.Choice) error {
	if r.level() != "op" || r.NoExperts {
		return nil
	}
	nodes := c.Shape.Nodes
	const part = 64 // tokens
	for first := 0; first < c.Tokens; first += part {
		last := min(first+part, c.Tokens)
		x := trace.Experts{Time: c.Time, PID: c.Graph.PID, TID: c.Graph.TID, Node: nodes[c.Node].Addr,
			Source: nodes[c.IDs].Addr,
			Used:   int32(c.Used), Tokens: int32(c.Tokens), First: int32(first),
			Chosen: c.Chosen[first*c.Used : last*c.Used]}
		if r.Experts != nil {
			r.Experts(&x)
		}
		if err := r.w.Experts([]trace.Experts{x}); err != nil {
			return err
		}
	}
	return nil
}
