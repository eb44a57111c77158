// SPDX-License-Identifier: Apache-2.0

// Package steps collects what belongs to a step until the step ends: operators and graphs come before it.
package steps

import (
	"cmp"
	"maps"
	"slices"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/internal/limits"
)

// Collector keeps the operators and graphs of the steps under way. The zero value is ready. What it keeps is
// bounded: where [limits.Pending] operators wait for their steps' ends, those of all steps are let go.
type Collector struct {
	// Early takes the operators of a step that are let go before its end; nil: they are dropped.
	Early func(*profile.Step, []*profile.Op)

	steps  map[*profile.Step]*open
	at     *open // of the step that the operator before was of
	kept   int   // operators of all steps
	graphs map[int64][]*profile.Graph
	spare  []*profile.Op // of a step that is done, for another one
}

// open is a step under way.
type open struct {
	step *profile.Step
	ops  []*profile.Op
	cut  bool // some of its operators were let go
}

// Op takes an operator of a step.
func (c *Collector) Op(o *profile.Op) {
	if c.kept >= limits.Pending {
		c.letGo()
	}
	if c.at == nil || c.at.step != o.Step {
		if c.at = c.steps[o.Step]; c.at == nil {
			c.at = &open{step: o.Step, ops: c.spare}
			c.spare = nil
			if c.steps == nil {
				c.steps = map[*profile.Step]*open{}
			}
			c.steps[o.Step] = c.at
		}
	}
	c.at.ops = append(c.at.ops, o)
	c.kept++
}

// letGo gives up the operators of all steps under way.
func (c *Collector) letGo() {
	byID := func(a, b *open) int { return cmp.Compare(a.step.ID, b.step.ID) }
	for _, s := range slices.SortedFunc(maps.Values(c.steps), byID) {
		if len(s.ops) > 0 {
			if c.Early != nil {
				c.Early(s.step, s.ops)
			}
			s.ops, s.cut = nil, true
		}
	}
	c.kept = 0
	if len(c.steps) > limits.Pending { // of steps that never ended
		clear(c.steps)
		c.at = nil
	}
}

// Graph takes a graph's execution. Those in no step are not kept.
func (c *Collector) Graph(g *profile.Graph) {
	if g.Step == 0 {
		return
	}
	if c.graphs == nil || len(c.graphs) >= limits.Pending { // of steps that never ended
		c.graphs = map[int64][]*profile.Graph{}
	}
	if s := c.graphs[g.Step]; len(s) < limits.Pending {
		c.graphs[g.Step] = append(s, g)
	}
}

// Take returns what was kept of a step that ended, and forgets it. cut: some of its operators were let go
// before.
func (c *Collector) Take(s *profile.Step) (ops []*profile.Op, graphs []*profile.Graph, cut bool) {
	graphs = c.graphs[s.ID]
	delete(c.graphs, s.ID)
	o := c.steps[s]
	if o == nil {
		return nil, graphs, false
	}
	delete(c.steps, s)
	c.kept -= len(o.ops)
	c.at = nil
	return o.ops, graphs, o.cut
}

// Done takes a list of operators back that Take returned and nobody uses any more.
func (c *Collector) Done(ops []*profile.Op) {
	if cap(ops) > cap(c.spare) {
		clear(ops)
		c.spare = ops[:0]
	}
}

// Oldest is when the first of a process's steps under way began, before if none did before that.
func (c *Collector) Oldest(pid int32, before int64) int64 {
	for s := range c.steps {
		if s.PID == pid {
			before = min(before, s.Start)
		}
	}
	return before
}

// Kept is how many operators and of how many steps graphs are kept.
func (c *Collector) Kept() (ops, steps int) { return c.kept, len(c.graphs) }
