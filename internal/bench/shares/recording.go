// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"slices"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/ops"
	"github.com/profinfer/profinfer/trace"
)

// recording is what a trace of profinfer tells: the threads' time by class, and when graphs ran.
type recording struct {
	profile.BaseSink
	derive facts.Deriver
	phases map[profile.Phase]*phaseTime
	graphs []window // in order
	tids   map[int32]bool
	kv     bool // products without weights ran
	open   map[*profile.Step]*phaseTime
	spans  map[int64][]window // of graphs, by their step under way
	header *profile.Header
}

// phaseTime are sums over the operators and threads of one phase, ns.
type phaseTime struct {
	steps, ops int
	time       [classes]int64 // of products, attention, rest: busy
}

// window is when a graph ran, ns of CLOCK_BOOTTIME.
type window struct {
	from, to int64
	phase    profile.Phase
}

// load reads a trace.
func load(path string) (*recording, error) {
	r, err := trace.Open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	c := &recording{phases: map[profile.Phase]*phaseTime{}, tids: map[int32]bool{},
		open: map[*profile.Step]*phaseTime{}, spans: map[int64][]window{}}
	if c.header, err = profile.Replay(r, c); err != nil {
		return nil, err
	}
	slices.SortFunc(c.graphs, func(a, b window) int { return cmp.Compare(a.from, b.from) })
	return c, nil
}

// Op takes one operator.
func (c *recording) Op(o *profile.Op) error {
	if o.Step == nil {
		return nil
	}
	t := c.open[o.Step]
	if t == nil {
		t = &phaseTime{}
		c.open[o.Step] = t
	}
	d := c.derive.Derive(o)
	k := classOf[d.Class]
	if k == attention && o.Shape != nil && o.Shape.Vocabulary().IsProduct(o.NodeDef().Op) {
		c.kv = true
	}
	t.ops++
	t.time[k] += o.Busy
	t.time[waiting] += o.Wait
	for i := range o.Threads {
		c.tids[o.Threads[i].TID] = true
	}
	return nil
}

// classOf are the classes that `profinfer stat` sorts operators into.
var classOf = map[ops.Class]class{ops.ClassProduct: products, ops.ClassAttention: attention,
	ops.ClassOther: rest}

// Graph takes one graph.
func (c *recording) Graph(g *profile.Graph) error {
	if g.Step != 0 && g.Dur > 0 && g.Ops > 0 {
		c.spans[g.Step] = append(c.spans[g.Step], window{from: g.Start, to: g.Start + g.Dur})
	}
	return nil
}

// Step takes one step, whose operators and graphs came before.
func (c *recording) Step(s *profile.Step) error {
	t := c.open[s]
	delete(c.open, s)
	spans := c.spans[s.ID]
	delete(c.spans, s.ID)
	if t == nil || s.Incomplete != "" || s.Untraced != "" {
		return nil
	}
	p := c.phases[s.Phase]
	if p == nil {
		p = &phaseTime{}
		c.phases[s.Phase] = p
	}
	p.steps++
	p.ops += t.ops
	for i := range t.time {
		p.time[i] += t.time[i]
	}
	for _, w := range spans {
		w.phase = s.Phase
		c.graphs = append(c.graphs, w)
	}
	return nil
}

// at returns the graph that ran at a time.
func (c *recording) at(t int64) (window, bool) {
	i, found := slices.BinarySearchFunc(c.graphs, t, func(w window, t int64) int {
		return cmp.Compare(w.from, t)
	})
	if !found {
		i--
	}
	if i < 0 || t >= c.graphs[i].to {
		return window{}, false
	}
	return c.graphs[i], true
}

// shares are the parts of products, attention and rest in their sum.
func shares(n [classes]int64) (s [3]float64, sum int64) {
	sum = n[products] + n[attention] + n[rest]
	if sum == 0 {
		return s, 0
	}
	for c := range s {
		s[c] = float64(n[c]) / float64(sum)
	}
	return s, sum
}
