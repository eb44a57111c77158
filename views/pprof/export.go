// SPDX-License-Identifier: Apache-2.0

// Package pprof converts a run to a profile for `go tool pprof` and other readers of its format: flame graphs
// whose frames are model, phase, layer, block and operator.
//
// The time of all frames below a phase is the time in its steps whose operators were recorded, to the
// nanosecond: every moment counts once. An operator's time is that in which no operator that ended before it
// ran, without the time of the probes. The probes' estimate, the graphs of backends whose operators cannot be
// seen, and the rest of the steps have frames of their own. Incomplete steps are left out, as in statistics,
// unless a phase has no others.
package pprof

import (
	"io"
	"slices"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/ops"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/trace"
)

const (
	// maxPending bounds the operators and graphs kept for steps in progress.
	maxPending = 1 << 18
	// maxStacks bounds the stacks. Operators beyond it share one frame in their phase.
	maxStacks = 1 << 16
	// maxGroups bounds the phases, processes and models kept separately.
	maxGroups = 256
)

// Export writes a run, gzipped, as replay feeds it. replay is [profile.Replay] of a reader. Memory is
// bounded: it grows with the stacks, not with the run's length. It returns errors of replay and w.
func Export(w io.Writer, replay func(profile.Sink) (*profile.Header, error)) error {
	return export(w, newExporter(), replay)
}

func export(w io.Writer, e *exporter, replay func(profile.Sink) (*profile.Header, error)) error {
	stat := stat.New(stat.Options{By: facts.ByBlock, Book: &e.book}) // counts what was lost
	h, err := replay(profile.Tee(e, stat))
	if err != nil {
		return err
	}
	return e.profile(h, stat.Finish(h)).Write(w)
}

// stack identifies an operator's frames below its phase.
type stack struct {
	layer int // -1: none
	block ops.Block
	name  string // of the operator's row in statistics
	op    string
	typ   string // of the weight; empty if there is none
}

// values are one stack's, in the order of sampleTypes.
type values struct {
	time, busy, wait, off, calls, bytes, flops int64
}

func (v *values) list() []int64 {
	return []int64{v.time, v.busy, v.wait, v.off, v.calls, v.bytes, v.flops}
}

func (v *values) add(o *values) {
	v.time += o.time
	v.busy += o.busy
	v.wait += o.wait
	v.off += o.off
	v.calls += o.calls
	v.bytes += o.bytes
	v.flops += o.flops
}

// call is an operator of a step in progress. Its time is initially its duration.
type call struct {
	stack *stack
	start int64
	probe int64
	v     values
}

// graph is an execution of which no operator was seen.
type graph struct {
	backend  string
	cpu      bool
	from, to int64
}

type pending struct {
	calls  []call
	graphs []graph
}

// key identifies a sum.
type key struct {
	phase   profile.Phase
	pid     int32
	model   *facts.ModelWeights
	partial bool
	outside bool // outside any step; with a phase: for a step of another process
}

// group sums up steps.
type group struct {
	number                     int // in order of appearance
	steps, untraced, traced    int64
	dur, tracedDur             int64
	ops                        map[*stack]*values
	graphs                     map[string]*values // by backend
	probe                      int64
	restOps, restGraphs, alone int64 // time outside operators, outside graphs, and in steps without either
}

// exporter is a profile.Sink.
type exporter struct {
	profile.BaseSink
	book    facts.Book
	stacks  map[stack]*stack
	known   map[opKey]*stack
	pending map[int64]*pending // by number of the step
	kept    int
	spare   *pending
	groups  map[key]*group
	sums    int // entries of all groups
	cover   coverage

	limits struct{ pending, stacks, groups int }
	// Operators dropped because their steps' ends did not come, and those whose bytes or flops are unknown or
	// only an upper bound.
	dropped, noBytes, noFlops, atMost int64
}

type opKey struct {
	d  *facts.Derived
	op string
}

func newExporter() *exporter {
	e := &exporter{stacks: map[stack]*stack{}, known: map[opKey]*stack{}, pending: map[int64]*pending{},
		groups: map[key]*group{}}
	e.limits.pending, e.limits.stacks, e.limits.groups = maxPending, maxStacks, maxGroups
	return e
}

// others stands for operators beyond the limit of stacks.
var others = &stack{}

// stackOf returns the stack of an operator; the same one for equal frames.
func (e *exporter) stackOf(d *facts.Derived, op string) *stack {
	k := opKey{d, op}
	if s := e.known[k]; s != nil {
		return s
	}
	v := stack{layer: -1, block: d.Block, op: op}
	if d.Layer != nil {
		v.layer = *d.Layer
	}
	v.name, v.typ = facts.RowName(d, op)
	s := e.stacks[v]
	if s == nil {
		if len(e.stacks) >= e.limits.stacks {
			return others
		}
		s = &v
		e.stacks[v] = s
	}
	e.known[k] = s
	return s
}

// Op takes an operator.
func (e *exporter) Op(o *profile.Op) error {
	e.book.Op(o)
	d := e.book.Derive(o)
	c := call{stack: e.stackOf(d, o.Op), start: o.Start, probe: o.Probe,
		v: values{time: o.Dur, busy: o.Busy, wait: o.Wait, off: o.OffCPU, calls: 1}}
	if d.Bytes != nil {
		c.v.bytes = *d.Bytes
	} else {
		e.noBytes++
	}
	if d.BytesAtMost {
		e.atMost++
	}
	if d.Flops != nil {
		c.v.flops = *d.Flops
	} else {
		e.noFlops++
	}
	if o.Step == nil {
		pid := int32(0)
		if o.Graph != nil {
			pid = o.Graph.PID
		}
		k := key{pid: pid, outside: true}
		if o.Graph != nil && o.Graph.CallerStep != nil {
			k.phase = o.Graph.CallerStep.Phase // of the process for which it was computed
		}
		g := e.group(k)
		// Nothing contains them all: each has its own time.
		probe := min(c.probe, c.v.time)
		c.v.time -= probe
		g.probe += probe
		e.add(g, &c)
		return nil
	}
	p := e.of(o.Step.ID)
	p.calls = append(p.calls, c)
	return nil
}

// of returns the pending state of a step in progress, to add one item.
func (e *exporter) of(step int64) *pending {
	if e.kept >= e.limits.pending { // of steps that never ended, or of an enormous one
		for _, p := range e.pending {
			e.dropped += int64(len(p.calls))
		}
		clear(e.pending)
		e.kept = 0
	}
	e.kept++
	p := e.pending[step]
	if p == nil {
		if p, e.spare = e.spare, nil; p == nil {
			p = &pending{}
		}
		e.pending[step] = p
	}
	return p
}

// Graph takes a finished graph.
func (e *exporter) Graph(g *profile.Graph) error {
	e.book.Graph(g)
	if g.Step == 0 || g.Ops > 0 {
		return nil
	}
	p := e.of(g.Step)
	p.graphs = append(p.graphs, graph{g.Backend, !trace.Elsewhere(g.Backend), g.Start, g.Start + g.Dur})
	return nil
}

// Step takes a finished step: its time is distributed.
func (e *exporter) Step(s *profile.Step) error {
	p := e.pending[s.ID]
	delete(e.pending, s.ID)
	g := e.group(key{phase: s.Phase, pid: s.PID, model: e.book.At(s.PID, s.Ctx), partial: s.Incomplete != ""})
	g.steps++
	g.dur += s.Dur
	if s.Untraced != "" {
		g.untraced++ // a part of its operators is unknown
	} else {
		g.traced++
		g.tracedDur += s.Dur
		e.fold(g, s, p)
	}
	if p != nil {
		e.kept -= len(p.calls) + len(p.graphs)
		clear(p.calls)
		p.calls, p.graphs = p.calls[:0], p.graphs[:0]
		e.spare = p
	}
	return nil
}

// fold distributes the time of a step.
func (e *exporter) fold(g *group, s *profile.Step, p *pending) {
	if p == nil {
		g.alone += s.Dur
		return
	}
	e.cover.reset(s.Start, s.Start+s.Dur)
	for i := range p.calls {
		c := &p.calls[i]
		c.v.time = e.cover.add(c.start, c.start+c.v.time)
		probe := min(c.probe, c.v.time)
		c.v.time -= probe
		g.probe += probe
		e.add(g, c)
	}
	// CPU graphs are represented by their operators, and by themselves where no operator was recorded. A
	// graph that contains others ends after them.
	seen := false
	for i := range p.graphs {
		x := &p.graphs[i]
		if x.cpu && len(p.calls) > 0 {
			continue
		}
		seen = true
		name := x.backend
		if len(g.graphs) >= e.limits.groups && g.graphs[name] == nil {
			name = ""
		}
		v := g.graphs[name]
		if v == nil {
			if g.graphs == nil {
				g.graphs = map[string]*values{}
			}
			v = &values{}
			g.graphs[name] = v
		}
		v.time += e.cover.add(x.from, x.to)
		v.calls++
	}
	rest := max(0, s.Dur-e.cover.sum)
	switch {
	case len(p.calls) > 0:
		g.restOps += rest
	case seen:
		g.restGraphs += rest
	default:
		g.alone += rest
	}
}

// add adds a call to its stack's sums.
func (e *exporter) add(g *group, c *call) {
	v := g.ops[c.stack]
	if v == nil {
		if g.ops == nil {
			g.ops = map[*stack]*values{}
		}
		if e.sums >= e.limits.stacks && c.stack != others {
			c.stack = others
			e.add(g, c)
			return
		}
		v = &values{}
		g.ops[c.stack] = v
		e.sums++
	}
	v.add(&c.v)
}

func (e *exporter) group(k key) *group {
	g := e.groups[k]
	if g == nil {
		if len(e.groups) >= e.limits.groups {
			k.pid, k.model = 0, nil
			if g = e.groups[k]; g != nil {
				return g
			}
		}
		g = &group{number: len(e.groups)}
		e.groups[k] = g
	}
	return g
}

// merge adds the steps of another context.
func (g *group) merge(o *group) {
	g.steps += o.steps
	g.untraced += o.untraced
	g.traced += o.traced
	g.dur += o.dur
	g.tracedDur += o.tracedDur
	g.probe += o.probe
	g.restOps += o.restOps
	g.restGraphs += o.restGraphs
	g.alone += o.alone
	for s, v := range o.ops {
		if g.ops == nil {
			g.ops = map[*stack]*values{}
		}
		if g.ops[s] == nil {
			g.ops[s] = &values{}
		}
		g.ops[s].add(v)
	}
	for name, v := range o.graphs {
		if g.graphs == nil {
			g.graphs = map[string]*values{}
		}
		if g.graphs[name] == nil {
			g.graphs[name] = &values{}
		}
		g.graphs[name].add(v)
	}
}

// coverage is the accounted part of one step's time.
type coverage struct {
	from, to int64
	spans    []span // disjoint, in order
	sum      int64
}

type span struct{ from, to int64 }

func (c *coverage) reset(from, to int64) {
	c.from, c.to, c.spans, c.sum = from, to, c.spans[:0], 0
}

// add accounts for a span, and returns how much of it was not yet accounted for.
func (c *coverage) add(from, to int64) int64 {
	from, to = max(from, c.from), min(to, c.to)
	if to <= from {
		return 0
	}
	// Operators come in order of their ends, so mostly at the end of the list.
	i := len(c.spans)
	if i > 0 && c.spans[i-1].to >= from {
		i, _ = slices.BinarySearchFunc(c.spans, from, func(s span, from int64) int {
			if s.to < from {
				return -1
			}
			return 1
		})
	}
	fresh, all, j := to-from, span{from, to}, i
	for ; j < len(c.spans) && c.spans[j].from <= to; j++ {
		s := c.spans[j]
		fresh -= max(0, min(s.to, to)-max(s.from, from))
		all.from, all.to = min(all.from, s.from), max(all.to, s.to)
	}
	c.spans = slices.Replace(c.spans, i, j, all)
	c.sum += fresh
	return fresh
}
