// SPDX-License-Identifier: Apache-2.0

package dag

import (
	"hash/maphash"
	"slices"
	"strconv"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/internal/limits"
	"github.com/profinfer/profinfer/profile/internal/steps"
	"github.com/profinfer/profinfer/profile/summary"
	"github.com/profinfer/profinfer/profile/verdict"
	"github.com/profinfer/profinfer/trace"
)

const (
	// maxDAGs bounds the structures kept per phase and model.
	maxDAGs = 64
	// maxDAGNodes bounds the nodes of all kept structures together.
	maxDAGNodes = 1 << 18
	// maxParts bounds the parts of one DAG.
	maxParts = 256
)

// dagState is the state of a Builder.
type dagState struct {
	profile.BaseSink
	opts   Options
	book   *facts.Book
	wanted map[profile.Phase]bool // nil: all
	whole  map[facts.PhaseKey]*dagGroup
	part   map[facts.PhaseKey]*dagGroup
	// complete steps that were disturbed
	disturbed map[facts.PhaseKey]*dagGroup
	leavesOut func(facts.ModelKey) bool // nil: nothing is left out
	open      steps.Collector
	nodes     int // of all kept structures
	outside   int64

	seed    maphash.Seed
	known   map[*profile.Shape]*structure
	structs map[uint64][]*structure
	n       int
	offCPU  bool
	// number of counters of the run, set by Finish
	counters int
}

// structure is what definitions have in common that differ only in dimensions.
type structure struct {
	id    int
	nodes []trace.Node // of the first
}

// dagGroup sums up the steps of one phase and model.
type dagGroup struct {
	number                   int
	steps, traced, tracedDur int64
	sums                     map[string]*dagSum
	dropped                  Rest
}

// dagSum is one DAG while it is summed up.
type dagSum struct {
	number      int
	pid         int32
	manyPIDs    bool
	steps, runs int64
	lastStep    int64
	ops         int64
	dur, probe  int64
	unplaced    int64
	parts       []*partSum
}

// partSum is one part while it is summed up.
type partSum struct {
	structure  *structure
	backend    string
	graphs     int64
	dur        int64
	seen       bool
	incomplete string
	last       *profile.Shape // seen last
	shapes     map[*profile.Shape]bool
	low, high  [][4]int64
	sums       []*nodeSum // by node; nil: not executed
}

// nodeSum is one executed node while it is summed up.
type nodeSum struct {
	summary.RowSum
	op       string
	fused    []int32
	weight   string
	key      string
	min, max int64
	squares  float64
}

func (b *dagState) init(opts Options) {
	if opts.Most <= 0 {
		opts.Most = 8
	}
	b.opts, b.book = opts, facts.BookOf(opts.Book)
	if len(opts.Phases) > 0 {
		b.wanted = map[profile.Phase]bool{}
		for _, p := range opts.Phases {
			b.wanted[p] = true
		}
	}
	b.whole, b.part = map[facts.PhaseKey]*dagGroup{}, map[facts.PhaseKey]*dagGroup{}
	b.disturbed = map[facts.PhaseKey]*dagGroup{}
	b.open.Early = b.early
	b.seed = maphash.MakeSeed()
	b.known, b.structs = map[*profile.Shape]*structure{}, map[uint64][]*structure{}
}

// Op takes one operator.
func (b *dagState) Op(o *profile.Op) error {
	pid := profile.PidOf(o)
	if b.opts.PID != 0 && pid != b.opts.PID {
		return nil
	}
	if o.OffCPU > 0 {
		b.offCPU = true
	}
	b.book.Op(o)
	if o.Step == nil {
		b.outside++
		return nil
	}
	b.open.Op(o)
	return nil
}

// early takes operators of a step before its end is known.
func (b *dagState) early(s *profile.Step, ops []*profile.Op) {
	if b.wanted == nil || b.wanted[s.Phase] {
		b.fold(b.group(b.whole, s), s, ops, nil)
	}
}

// Graph takes one graph execution.
func (b *dagState) Graph(g *profile.Graph) error {
	if b.opts.PID != 0 && g.PID != b.opts.PID {
		return nil
	}
	b.book.Graph(g)
	if g.Shape != nil && g.Shape.Shape != nil {
		b.open.Graph(g)
	}
	return nil
}

// Step takes one step, after its operators.
func (b *dagState) Step(s *profile.Step) error {
	if b.opts.PID != 0 && s.PID != b.opts.PID {
		return nil
	}
	ops, graphs, _ := b.open.Take(s)
	defer b.open.Done(ops)
	if b.wanted != nil && !b.wanted[s.Phase] {
		return nil
	}
	in := b.whole
	switch {
	case s.Incomplete != "":
		in = b.part
	case s.Untraced == "":
		if _, _, much := verdict.Disturbed(s, ops); much {
			in = b.disturbed
		}
	}
	g := b.group(in, s)
	g.steps++
	if s.Untraced != "" {
		return nil // a part of its operators is unknown
	}
	g.traced++
	g.tracedDur += s.Dur
	b.fold(g, s, ops, graphs)
	return nil
}

func (b *dagState) group(in map[facts.PhaseKey]*dagGroup, s *profile.Step) *dagGroup {
	k := facts.PhaseKey{Phase: s.Phase, Model: b.book.At(s.PID, s.Ctx)}
	if in[k] == nil && len(in) >= limits.Models {
		k.Model = nil
	}
	g := in[k]
	if g == nil {
		g = &dagGroup{number: len(in), sums: map[string]*dagSum{}}
		in[k] = g
	}
	return g
}

// execution is one graph with its operators.
type execution struct {
	g   *profile.Graph
	ops []*profile.Op
}

// fold adds the operators and graphs of one step.
func (b *dagState) fold(g *dagGroup, s *profile.Step, ops []*profile.Op, graphs []*profile.Graph) {
	all := make([]execution, 0, len(graphs)+1)
	for _, x := range graphs {
		all = append(all, execution{g: x})
	}
	at := -1
	for _, o := range ops {
		if at < 0 || all[at].g != o.Graph {
			at = slices.IndexFunc(all, func(e execution) bool { return e.g == o.Graph })
			if at < 0 { // a graph whose end was not seen
				at = len(all)
				all = append(all, execution{g: o.Graph})
			}
		}
		all[at].ops = append(all[at].ops, o)
	}
	for i := 0; i < len(all); {
		// A scheduler run: its splits are numbered from 0.
		n := i + 1
		for n < len(all) && n-i < maxParts && all[i].g != nil && all[n].g != nil &&
			all[n].g.Split > all[n-1].g.Split {
			n++
		}
		b.run(g, s, all[i:n])
		i = n
	}
}

// run adds one scheduler run: the graphs of one computation.
func (b *dagState) run(g *dagGroup, s *profile.Step, parts []execution) {
	var key []byte
	structs := make([]*structure, len(parts))
	nodes := 0
	for i, e := range parts {
		if e.g == nil || e.g.Shape == nil || e.g.Shape.Shape == nil {
			g.drop(e.ops)
			continue
		}
		structs[i] = b.structureOf(e.g.Shape)
		key = strconv.AppendInt(key, int64(structs[i].id), 10)
		key = append(append(append(key, ' '), e.g.Backend...), 0)
		nodes += len(structs[i].nodes)
	}
	if len(key) == 0 {
		return
	}
	d := g.sums[string(key)]
	if d == nil {
		if len(g.sums) >= maxDAGs || b.nodes+nodes > maxDAGNodes {
			g.dropped.Runs++
			for _, e := range parts {
				if e.g != nil && e.g.Shape != nil && e.g.Shape.Shape != nil {
					g.drop(e.ops)
				}
			}
			return
		}
		d = &dagSum{number: len(g.sums), pid: s.PID, lastStep: -1}
		for i, e := range parts {
			if st := structs[i]; st != nil {
				d.parts = append(d.parts, newPart(st, e.g.Backend))
			}
		}
		b.nodes += nodes
		g.sums[string(key)] = d
	}
	d.runs++
	if d.lastStep != s.ID {
		d.lastStep = s.ID
		d.steps++
	}
	d.manyPIDs = d.manyPIDs || d.pid != s.PID
	k := 0
	for i, e := range parts {
		if structs[i] == nil {
			continue
		}
		p := d.parts[k]
		k++
		p.graphs++
		p.dur += e.g.Dur
		p.shape(e.g.Shape)
		for _, o := range e.ops {
			d.ops++
			d.dur += o.Dur
			d.probe += o.Probe
			if !p.op(b, o) {
				d.unplaced += o.Dur - o.Probe
			}
		}
	}
}

func (g *dagGroup) drop(ops []*profile.Op) {
	for _, o := range ops {
		g.dropped.Ops++
		g.dropped.OpsDur += o.Dur
		g.dropped.Probe += o.Probe
	}
}

func newPart(st *structure, backend string) *partSum {
	n := len(st.nodes)
	return &partSum{structure: st, backend: backend, shapes: map[*profile.Shape]bool{},
		low: make([][4]int64, n), high: make([][4]int64, n), sums: make([]*nodeSum, n)}
}

// shape takes the dimensions of a definition with the part's structure.
func (p *partSum) shape(s *profile.Shape) {
	if p.last == s {
		return
	}
	p.last = s
	if p.shapes[s] {
		return
	}
	if len(p.shapes) == 0 {
		for i := range s.Nodes {
			p.low[i], p.high[i] = s.Nodes[i].Ne, s.Nodes[i].Ne
		}
	}
	p.shapes[s] = true
	if s.Incomplete != "" {
		p.incomplete = s.Incomplete
	}
	p.widen(s.Nodes)
}

func (p *partSum) widen(nodes []trace.Node) {
	for i := range nodes {
		for k, v := range nodes[i].Ne {
			p.low[i][k], p.high[i][k] = min(p.low[i][k], v), max(p.high[i][k], v)
		}
	}
}

// op adds one operator; false if it is not a node of the part.
func (p *partSum) op(b *dagState, o *profile.Op) bool {
	if o.Shape == nil || o.Shape.Shape == nil || o.Node < 0 || int(o.Node) >= len(p.sums) ||
		b.structureOf(o.Shape) != p.structure {
		return false
	}
	p.seen = true
	d := b.book.Derive(o)
	r := p.sums[o.Node]
	net := o.Dur - o.Probe
	if r == nil {
		r = &nodeSum{min: net, max: net}
		p.sums[o.Node] = r
	}
	if r.op != o.Op {
		r.op, r.weight = o.Op, d.Weight
		r.key, _ = facts.RowKey(facts.ByWeight, d, o.Op)
	}
	if len(o.Fused) > len(r.fused) {
		r.fused = slices.Clone(o.Fused)
	}
	r.min, r.max = min(r.min, net), max(r.max, net)
	r.squares += float64(net) * float64(net)
	r.Add(d, o, o.Dur, o.Busy, o.Wait, o.OffCPU)
	return true
}

// structureOf returns the structure that a definition shares with those that differ only in dimensions.
func (b *dagState) structureOf(s *profile.Shape) *structure {
	if st := b.known[s]; st != nil {
		return st
	}
	h := hashNodes(b.seed, s.Nodes)
	for _, st := range b.structs[h] {
		if sameStructure(st.nodes, s.Nodes) {
			b.known[s] = st
			return st
		}
	}
	st := &structure{id: b.n, nodes: s.Nodes}
	b.n++
	b.structs[h] = append(b.structs[h], st)
	b.known[s] = st
	return st
}

func hashNodes(seed maphash.Seed, nodes []trace.Node) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for i := range nodes {
		n := &nodes[i]
		h.WriteString(n.Name)
		h.WriteByte(0)
		h.WriteString(n.Op)
		h.WriteByte(0)
		for _, s := range n.Src {
			h.Write([]byte{byte(s), byte(s >> 8), byte(s >> 16), byte(s >> 24)})
		}
	}
	return h.Sum64()
}

func sameStructure(a, b []trace.Node) bool {
	return slices.EqualFunc(a, b, func(x, y trace.Node) bool {
		return x.Name == y.Name && x.Op == y.Op && x.Type == y.Type && x.Leaf == y.Leaf &&
			x.ViewSrc == y.ViewSrc && slices.Equal(x.Src, y.Src)
	})
}
