// SPDX-License-Identifier: Apache-2.0

// Package steps collects a step's operators and graphs, which come before it, until the step ends.
package steps

import (
	"cmp"
	"maps"
	"slices"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/internal/limits"
)

// Collector keeps the operators and graphs of the steps in progress. The zero value is ready to use. What it
// keeps is bounded: once [limits.Pending] operators wait for the ends of their steps, those of all steps are
// dropped.
type Collector struct {
	// Early takes the operators of a step that are dropped before its end; nil: they are discarded.
	Early func(*profile.Step, []*profile.Op)

	steps  map[*profile.Step]*open
	at     *open // the step of the previous operator
	kept   int   // operators of all steps
	graphs map[int64][]*profile.Graph
	spare  []*profile.Op // of a finished step, for reuse
}

// open is a step in progress.
type open struct {
	step *profile.Step
	ops  []*profile.Op
	cut  bool // some of its operators were dropped
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

// letGo drops the operators of all steps in progress.
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

// Graph takes a graph execution. Those outside any step are not kept.
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

// Take returns and removes what was kept of a finished step. cut: some of its operators were dropped before.
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

// Done takes back a list of operators that Take returned and that is no longer used.
func (c *Collector) Done(ops []*profile.Op) {
	if cap(ops) > cap(c.spare) {
		clear(ops)
		c.spare = ops[:0]
	}
}

// Oldest returns when the first of a process's steps in progress began, but at most before.
func (c *Collector) Oldest(pid int32, before int64) int64 {
	for s := range c.steps {
		if s.PID == pid {
			before = min(before, s.Start)
		}
	}
	return before
}

// Kept returns how many operators are kept, and for how many steps graphs are kept.
func (c *Collector) Kept() (ops, steps int) { return c.kept, len(c.graphs) }
