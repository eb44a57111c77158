// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"slices"
	"sync/atomic"

	"github.com/profinfer/profinfer/trace"
)

// Choice records which experts the tokens of a batch chose in one layer. Operators that share it (the matmuls
// with the experts' gate, up and down matrices) refer to the same Choice.
type Choice struct {
	Step  *Step // nil: outside any step
	Graph *Graph
	Shape *Shape
	Node  int32 // the first operator that used it
	IDs   int32 // the tensor that held it, -1: not in the graph's definition
	Time  int64 // when it was copied, ns
	// Layer is the layer it belongs to, -1: unknown.
	Layer  int
	Tokens int // of the batch that reached this layer
	Used   int // experts per token
	// Total is how many experts the layer has, 0: unknown.
	Total int
	// Chosen[t*Used+r] is the expert that token t ranks r-th, from 0, or UnknownExpert.
	Chosen []int32
	// Seen is how many tokens were seen: fewer than Tokens where parts were lost.
	Seen int
	// Slots: the numbers are slots in a cache of experts that the engine keeps, not experts.
	Slots bool

	rows     []bool // seen
	handed   bool
	same     *Choice // equal choice of an earlier graph of the step
	distinct int32   // their number plus one; 0: not counted yet. Atomic
}

// UnknownExpert marks a choice that was not seen.
const UnknownExpert = -1

// Whole reports whether the experts of all tokens are known.
func (c *Choice) Whole() bool { return c != nil && !c.Slots && c.Seen == c.Tokens }

// Distinct returns how many different experts (or slots) were chosen; unseen choices are left out. It caches
// the result.
func (c *Choice) Distinct() int {
	n := atomic.LoadInt32(&c.distinct)
	if n == 0 {
		n = int32(len(c.Set()) + 1)
		atomic.StoreInt32(&c.distinct, n)
	}
	return int(n - 1)
}

// Set returns the distinct chosen experts, in the order in which tokens chose them.
func (c *Choice) Set() []int32 {
	var set []int32
	seen := make(map[int32]bool, c.Used)
	for _, e := range c.Chosen {
		if e != UnknownExpert && !seen[e] {
			seen[e] = true
			set = append(set, e)
		}
	}
	return set
}

// maxChosen bounds a choice: the numbers of tokens and experts come from a process's memory.
const maxChosen = 1 << 20

// Choose takes a part of a choice. It belongs to the graph that its thread runs.
func (p *replayer) Choose(e *trace.Experts) {
	p.seen(e.Time)
	q := p.procs[e.PID]
	if q == nil {
		p.unchosen.add(e.Time)
		return
	}
	t := q.thread(e.TID)
	if len(t.execs) == 0 {
		p.unchosen.add(e.Time) // its graph began before the recording
		return
	}
	x := t.execs[len(t.execs)-1]
	if x.shape == nil || e.Used <= 0 || e.Tokens <= 0 || e.First < 0 ||
		int64(e.Used)*int64(e.Tokens) > maxChosen {
		p.unchosen.add(e.Time)
		return
	}
	n, ok := x.shape.ByAddr[e.Node]
	if !ok {
		p.unchosen.add(e.Time)
		return
	}
	_, ids := x.shape.expertSources(n)
	c := x.choice(ids)
	if c == nil || ids < 0 {
		c = newChoice(x, n, ids, e)
		x.choices = append(x.choices, c)
	}
	if c.Used != int(e.Used) || c.Tokens != int(e.Tokens) {
		p.unchosen.add(e.Time)
		return
	}
	for row := int(e.First); len(e.Chosen) >= c.Used && row < c.Tokens; row++ {
		if !c.rows[row] && c.may(e.Chosen[:c.Used]) {
			c.rows[row] = true
			c.Seen++
			copy(c.Chosen[row*c.Used:], e.Chosen[:c.Used])
		}
		e.Chosen = e.Chosen[c.Used:]
	}
}

// may reports whether a row can be a choice. A number that no expert has means that the memory held something
// else.
func (c *Choice) may(row []int32) bool {
	for _, n := range row {
		if n < 0 || !c.Slots && c.Total > 0 && int(n) >= c.Total {
			return false
		}
	}
	return true
}

func newChoice(x *exec, n, ids int32, e *trace.Experts) *Choice {
	nodes := x.shape.Nodes
	c := &Choice{Graph: x.g, Shape: x.shape, Node: n, IDs: ids, Time: e.Time, Layer: -1,
		Tokens: int(e.Tokens), Used: int(e.Used),
		Chosen: make([]int32, int(e.Used)*int(e.Tokens)), rows: make([]bool, e.Tokens)}
	for i := range c.Chosen {
		c.Chosen[i] = UnknownExpert
	}
	if x.step != nil {
		c.Step = x.step.Step
	}
	words := x.shape.Vocabulary()
	if w, _ := x.shape.expertSources(n); w >= 0 && nodes[w].Ne[2] > 0 && nodes[w].Ne[2] <= maxChosen {
		c.Total = int(nodes[w].Ne[2])
		if l := words.WeightLayer(nodes[w].Name); l >= 0 {
			c.Layer = l
		}
	}
	if _, l := words.SplitName(nodes[n].Name); c.Layer < 0 && l >= 0 {
		c.Layer = l
	}
	c.Slots = !words.AreExperts(nodes, ids)
	return c
}

// ChoosesExperts reports whether node n multiplies with only those experts' weights that its tokens choose.
func (sh *Shape) ChoosesExperts(n int32) bool {
	_, ids := sh.expertSources(n)
	return ids >= 0
}

// expertSources returns the tensor with the weights of node n's experts and the tensor that says which it
// uses; -1: it has none.
func (sh *Shape) expertSources(n int32) (weights, ids int32) {
	return sh.Vocabulary().ExpertSources(sh.Nodes, &sh.Nodes[n])
}

// choice returns the choice that a tensor of the graph held.
func (x *exec) choice(ids int32) *Choice {
	for _, c := range x.choices {
		if c.IDs == ids {
			return c
		}
	}
	return nil
}

// chosen assigns to an operator the choice it used, and emits the choice on first use.
func (p *replayer) chosen(x *exec, o *Op) error {
	if len(x.choices) == 0 {
		return nil
	}
	_, ids := x.shape.expertSources(o.Node)
	if ids < 0 {
		return nil
	}
	c := x.choice(ids)
	if c == nil {
		return nil
	}
	first := !c.handed
	if c.handed = true; x.step != nil && ids >= 0 {
		x.step.share(x, c, o.Node)
	}
	if o.Choice = c; c.same != nil {
		o.Choice = c.same
		return nil
	}
	if first {
		return p.sink.Choice(c)
	}
	return nil
}

// sharing is a choice and the operators that used it, by their addresses.
type sharing struct {
	*Choice
	by []uint64
}

// share reports whether a graph's choice is one of an earlier graph of the step, which was split between the
// matmuls that share it. An operator that uses the same tensor once more has another choice, whatever the
// values: that of the next tokens.
func (s *openStep) share(x *exec, c *Choice, node int32) {
	ids, user := x.shape.Nodes[c.IDs].Addr, x.shape.Nodes[node].Addr
	last := s.chosen[ids]
	switch {
	case last != nil && (last.Choice == c || last.Choice == c.same):
	case last != nil && !slices.Contains(last.by, user) && c.equals(last.Choice):
		c.same = last.Choice
	default:
		if s.chosen == nil {
			s.chosen = map[uint64]*sharing{}
		}
		last = &sharing{Choice: c}
		s.chosen[ids] = last
	}
	last.by = append(last.by, user)
}

// equals reports whether two choices hold the same values.
func (c *Choice) equals(o *Choice) bool {
	return c.Layer == o.Layer && c.Total == o.Total && c.Used == o.Used && c.Tokens == o.Tokens &&
		c.Slots == o.Slots &&
		slices.Equal(c.Chosen, o.Chosen)
}

// unused counts choices of a graph that no operator was seen to use. Untraced graphs are left out:
// Graph.Untraced already reports them.
func (p *replayer) unused(x *exec) {
	for _, c := range x.choices {
		if !c.handed && x.g.Untraced == "" {
			p.unchosen.add(c.Time)
		}
	}
	x.choices = nil
}
