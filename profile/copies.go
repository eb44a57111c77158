// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"slices"
	"strings"

	"github.com/profinfer/profinfer/profile/internal/limits"
	"github.com/profinfer/profinfer/profile/ops"
	"github.com/profinfer/profinfer/trace"
)

// Copy is one call that moves a tensor's data between memories: from host to backend, from backend to host,
// or between backends.
type Copy struct {
	ofEngine
	Step *Step // nil: outside any step
	PID  int32
	TID  int32
	// Split is the index of the step's next graph, from 0; -1: no graph follows.
	Split int
	Start int64
	Dur   int64 // of the call; -1: its end was not probed
	// Kind is set (from the host's memory), get (to the host's memory) or copy (from tensor to tensor).
	Kind string
	// Async: the call returns before the data has arrived, where the backend supports that.
	Async bool
	// Tensor is the name of the tensor that is written (for get: read), and Type is its type. Both are empty
	// if the tensor is in no graph of the step.
	Tensor, Type string
	Bytes        int64 // -1: unknown
	// From and To are names of backends, or "host"; empty: unknown.
	From, To string
}

// host names memory that belongs to no backend, as in [Copy].
const host = "host"

// openCopy is a copy in progress. Copies that it calls in turn are a part of it.
type openCopy struct {
	Copy
	entry    string
	dst, src uint64 // tensors' addresses; 0: the host's memory
	nested   int
}

// copyBegin opens a copy, or notes that it is a part of another one.
func (p *replayer) copyBegin(q *Proc, t *thread, m *trace.Mark) error {
	_, entry, _ := backendOf(q, m.Site)
	if t.copying != nil {
		if q.ending[entry] {
			t.copying.nested++
		}
		return nil
	}
	c := &openCopy{entry: entry, dst: m.Copied(), src: m.CopiedFrom(),
		Copy: Copy{ofEngine: q.ofEngine, PID: m.PID, TID: m.TID, Start: m.Time, Dur: -1,
			Bytes: m.CopiedBytes(), Split: -1,
			Kind: "copy", Async: strings.HasSuffix(entry, "_async")}}
	switch {
	case strings.Contains(entry, "_set"):
		c.Kind = "set"
	case strings.Contains(entry, "_get"):
		c.Kind = "get"
	}
	if !q.ending[entry] {
		return p.copied(q, t, c)
	}
	t.copying = c
	return nil
}

func (p *replayer) copyEnd(q *Proc, t *thread, m *trace.Mark) error {
	c := t.copying
	if c == nil {
		return nil
	}
	if c.nested > 0 {
		c.nested--
		return nil
	}
	t.copying = nil
	if _, entry, _ := backendOf(q, m.Site); entry == c.entry {
		c.Dur = m.Time - c.Start
	}
	return p.copied(q, t, c)
}

// copyCut closes a copy whose end was not seen: the thread has moved on.
func (p *replayer) copyCut(q *Proc, t *thread) error {
	c := t.copying
	if c == nil {
		return nil
	}
	t.copying = nil
	return p.copied(q, t, c)
}

// copied keeps a copy until its step's graphs are known, because they identify its tensors.
func (p *replayer) copied(q *Proc, t *thread, c *openCopy) error {
	if s := t.step(); s != nil && len(s.copies) < limits.Copies {
		if n := len(s.copies); n > 0 && s.copies[n-1].before(c, s.lastEnd) {
			s.copies[n-1].take(c)
			return nil
		}
		s.copies = append(s.copies, c)
		return nil
	}
	return p.handOn(c)
}

// before reports whether x is how c was implemented: a copy between tensors that a backend refuses is done by
// another call, and one from the host's memory by a call that sets the tensor. graph is when the latest graph
// ended.
func (c *openCopy) before(x *openCopy, graph int64) bool {
	return c.Kind == "copy" && c.TID == x.TID && c.Start >= graph &&
		(x.dst == c.dst || x.Kind == "get" && x.dst == c.src)
}

// take merges x into c.
func (c *openCopy) take(x *openCopy) {
	if x.Bytes >= 0 {
		c.Bytes = x.Bytes
	}
	c.Async = c.Async && x.Async
	c.Dur = -1
	if x.Dur >= 0 {
		c.Dur = x.Start + x.Dur - c.Start
	}
}

func (p *replayer) handOn(c *openCopy) error {
	return p.sink.Copy(&c.Copy)
}

// copiesDone resolves the tensors of a step's copies by its graphs, and emits the copies.
func (p *replayer) copiesDone(s *openStep) error {
	for _, c := range s.copies {
		c.Step = s.Step
		c.resolve(s.graphs)
		if err := p.handOn(c); err != nil {
			return err
		}
	}
	s.copies = nil
	return nil
}

// resolve finds a copy's tensors in the graphs of its step, which are in time order: the tensor written is
// read by a later graph, the tensor read was computed by an earlier one.
func (c *openCopy) resolve(graphs []*Graph) {
	after := slices.IndexFunc(graphs, func(g *Graph) bool { return g.Start >= c.Start })
	if after >= 0 {
		c.Split = graphs[after].Split
	} else {
		after = len(graphs)
	}
	later := func(addr uint64) (*trace.Node, string) { return tensorIn(graphs[after:], addr, false) }
	before := func(addr uint64, computed bool) (*trace.Node, string) {
		rev := slices.Clone(graphs[:after])
		slices.Reverse(rev)
		return tensorIn(rev, addr, computed)
	}
	var n *trace.Node
	switch c.Kind {
	case "get":
		n, c.From = before(c.dst, true)
		if n == nil {
			n, c.From = before(c.dst, false)
		}
		c.To = host
	case "set":
		c.From = host
		n, c.To = later(c.dst)
	default:
		n, c.To = later(c.dst)
		var src *trace.Node
		if src, c.From = before(c.src, true); n == nil {
			n = src
		}
	}
	if n == nil {
		return
	}
	c.Tensor, c.Type = n.Name, n.Type
	if c.Bytes < 0 {
		if b, ok := ops.Touched(n); ok {
			c.Bytes = b
		}
	}
}

// tensorIn finds a tensor and the backend of the first graph that has it. With computed, the tensor must be a
// node of the graph, not just an input.
func tensorIn(graphs []*Graph, addr uint64, computed bool) (*trace.Node, string) {
	for _, g := range graphs {
		if g.Shape == nil || g.Shape.Shape == nil {
			continue
		}
		if i, ok := g.Shape.ByAddr[addr]; ok {
			return &g.Shape.Nodes[i], g.Backend
		}
		if computed {
			continue
		}
		for i := g.Shape.NNodes; i < len(g.Shape.Nodes); i++ {
			if n := &g.Shape.Nodes[i]; n.Addr == addr {
				return n, g.Backend
			}
		}
	}
	return nil, ""
}
