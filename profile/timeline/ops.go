// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"math"
	"slices"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/internal/limits"
	"github.com/profinfer/profinfer/profile/ops"
)

// A chunk of operators is two blocks of columns: operators, then their spans on threads, grouped by operator
// and ordered by thread. If counters were recorded, a third block follows: what they counted in each span,
// one column per counter, -1 where unknown.

const (
	opID    = iota // difference to the previous one; the first: to 0
	opDef          // difference of the index in Timeline.Ops
	opGraph        // difference of the graph's number; 0 is none
	opStart        // difference to the end of the previous one; the first: to the chunk's base
	opDur
	opProbe // difference
	opFlags // 1: followed, 2: incomplete
	opTeam  // number of its spans
	opColumns
)

const (
	// difference of the index in Timeline.Threads to that of the previous span plus 1, the first: to 0
	spanThread = iota
	spanIth    // its index in the team minus its index here; unknown: -1 minus its index
	spanStart  // from the operator's start
	spanOff    // off-CPU
	spanWait
	// busy - (end - start - off-CPU - wait): not 0 where the thread was not seen to arrive
	spanRest
	spanCPU // difference to that of the thread's previous span
	spanColumns
)

// opChunk is the chunk being filled.
type opChunk struct {
	ops, on    columns
	counts     columns // empty until a span has counts
	spans      int
	id, graph  int64
	def        int32
	end, probe int64
	base       int64
	first      int64
	last       int64
	ids        [2]int64
	cpu        map[int]int64
	team       []teamSpan
}

type teamSpan struct {
	thread int
	*profile.OpThread
}

func (c *opChunk) init() {
	c.ops.init(opColumns)
	c.on.init(spanColumns)
	c.reset()
}

func (c *opChunk) reset() {
	c.ops.reset()
	c.on.reset()
	c.counts = columns{}
	c.spans, c.id, c.graph, c.def, c.probe = 0, 0, 0, 0, 0
	c.first, c.last = math.MaxInt64, math.MinInt64
	c.ids = [2]int64{math.MaxInt64, math.MinInt64}
	c.cpu = map[int]int64{}
}

// Op takes an operator.
func (b *Builder) Op(o *profile.Op) error {
	c := &b.ops
	if c.spans > 0 && c.spans+len(o.Threads) > b.opts.ChunkSpans {
		if err := b.cutOps(); err != nil {
			return err
		}
	}
	if c.ops.rows == 0 {
		c.base, c.end = o.Start, o.Start
	}
	def := b.def(o)
	end := o.Start + o.Dur
	var graph, flags int64
	if o.Graph != nil {
		graph = o.Graph.ID
	}
	if o.Followed {
		flags |= 1
	}
	if o.Incomplete {
		flags |= 2
	}
	c.team = c.team[:0]
	pid := profile.PidOf(o)
	for i := range o.Threads {
		th := &o.Threads[i]
		k := b.thread(pid, th.TID)
		if k < 0 {
			b.t.SpansLeftOut++
			continue
		}
		c.team = append(c.team, teamSpan{k, th})
	}
	slices.SortStableFunc(c.team, func(x, y teamSpan) int { return cmp.Compare(x.thread, y.thread) })

	p := &c.ops
	p.put(opID, o.ID-c.id)
	p.put(opDef, int64(def)-int64(c.def))
	p.put(opGraph, graph-c.graph)
	p.put(opStart, o.Start-c.end)
	p.put(opDur, o.Dur)
	p.put(opProbe, o.Probe-c.probe)
	p.put(opFlags, flags)
	p.put(opTeam, int64(len(c.team)))
	p.rows++
	c.id, c.def, c.graph, c.end, c.probe = o.ID, def, graph, end, o.Probe
	c.first, c.last = min(c.first, o.Start), max(c.last, end)
	c.ids = [2]int64{min(c.ids[0], o.ID), max(c.ids[1], o.ID)}
	kind := b.t.Ops[def].Kind

	before := 0
	for i, s := range c.team {
		ith := int64(-1)
		if s.Ith != profile.UnknownIth {
			ith = int64(s.Ith)
		}
		q := &c.on
		q.put(spanThread, int64(s.thread-before))
		q.put(spanIth, ith-int64(i))
		q.put(spanStart, s.Start-o.Start)
		q.put(spanOff, s.OffCPU)
		q.put(spanWait, s.Wait)
		q.put(spanRest, s.Busy-(end-s.Start-s.OffCPU-s.Wait))
		q.put(spanCPU, int64(s.CPU)-c.cpu[s.thread])
		q.rows++
		c.count(s.Counts)
		c.cpu[s.thread] = int64(s.CPU)
		before = s.thread + 1
		c.first = min(c.first, s.Start)
		t := &b.t.Threads[s.thread]
		t.Ops++
		t.Busy += s.Busy
		t.Wait += s.Wait
		t.OffCPU += s.OffCPU
		b.bins.operator(s.thread, kind, s.Start, s.Busy, s.OffCPU, end, s.Wait)
	}
	c.spans += len(c.team)
	b.t.Spans += int64(len(c.team))
	b.t.Operator++
	// operators without threads, from a foreign trace
	if c.spans == 0 && c.ops.rows >= b.opts.ChunkSpans {
		return b.cutOps()
	}
	return nil
}

// maxCountColumns bounds the counters of a chunk.
const maxCountColumns = 64

// count adds the counters of the latest span. If it is the first that has any, the earlier ones are padded.
func (c *opChunk) count(counts []int64) {
	if len(c.counts.col) == 0 {
		if len(counts) == 0 {
			return
		}
		c.counts.init(min(len(counts), maxCountColumns))
	}
	for c.counts.rows < c.on.rows {
		last := c.counts.rows == c.on.rows-1
		for i := range c.counts.col {
			v := int64(profile.UnknownCount)
			if last && i < len(counts) && counts[i] >= 0 {
				v = counts[i]
			}
			c.counts.put(i, v)
		}
		c.counts.rows++
	}
}

// def returns the index of what o shares with other operators.
func (b *Builder) def(o *profile.Op) int32 {
	d := b.book.Derive(o)
	k := opKey{d, o.Shape, o.Op}
	i, ok := b.defs[k]
	if !ok {
		i = b.newDef(o, d)
		if len(b.defs) >= 4*limits.OpDefs { // ever new graph definitions
			clear(b.defs)
		}
		b.defs[k] = i
	}
	e := &b.t.Ops[i]
	if e.Calls == 0 || o.Start < e.First {
		e.First, e.FirstID = o.Start, o.ID
	}
	e.Calls++
	return i
}

func (b *Builder) newDef(o *profile.Op, d *facts.Derived) int32 {
	c := opContent{name: d.Name, op: o.Op, weight: d.Weight, weightType: d.WeightType, layer: -1,
		block: d.Block, bytes: -1, flops: -1, atMost: d.BytesAtMost, node: -1}
	words := profile.VocabularyOf("")
	if d != &facts.Unknown {
		n := o.NodeDef()
		words = o.Shape.Vocabulary()
		c.typ, c.ne, c.node = n.Type, n.Ne, o.Node
	}
	if d.Layer != nil {
		c.layer = *d.Layer
	}
	if d.Bytes != nil {
		c.bytes = *d.Bytes
	}
	if d.Flops != nil {
		c.flops = *d.Flops
	}
	if i, ok := b.same[c]; ok {
		return i
	}
	label, _ := facts.RowKey(facts.ByWeight, d, o.Op)
	v := Op{Name: c.name, Op: c.op, Label: label, Kind: words.Kind(c.op, c.block, c.weight != ""),
		Type: c.typ, Ne: c.ne, Layer: d.Layer, Block: c.block,
		Weight: c.weight, WeightType: c.weightType, Bytes: d.Bytes, BytesAtMost: c.atMost, Flops: d.Flops,
		Node: c.node}
	if len(b.t.Ops) >= limits.OpDefs-1 {
		c = opContent{name: "(more operators than are kept)", node: -1}
		if i, ok := b.same[c]; ok {
			return i
		}
		v = Op{Name: c.name, Label: c.name, Kind: ops.KindOther, Node: -1}
	}
	i := int32(len(b.t.Ops))
	b.same[c] = i
	b.t.Ops = append(b.t.Ops, v)
	return i
}

// cutOps ends the current chunk.
func (b *Builder) cutOps() error {
	c := &b.ops
	if c.ops.rows == 0 {
		return nil
	}
	data := c.on.appendTo(c.ops.appendTo(nil))
	if len(c.counts.col) > 0 {
		data = c.counts.appendTo(data)
	}
	err := b.chunk(Chunk{Kind: ChunkOps, Start: c.first, Dur: c.last - c.first, Base: c.base, Spans: c.spans,
		FirstOp: c.ids[0], LastOp: c.ids[1]}, data)
	c.reset()
	return err
}

// chunk packs a chunk and adds it.
func (b *Builder) chunk(c Chunk, data []byte) error {
	if b.opts.Pack != nil {
		var err error
		if data, err = b.opts.Pack(data); err != nil {
			return err
		}
	}
	c.Data = data
	b.t.Chunks = append(b.t.Chunks, c)
	if b.packed += len(data); b.opts.Limit > 0 && b.packed > b.opts.Limit {
		b.trim()
	}
	return nil
}

// trim drops the data of chunks that will not stay anyway.
func (b *Builder) trim() {
	b.opts.Trim(&b.t, b.opts.Limit/2)
	b.packed = 0
	for i := range b.t.Chunks {
		c := &b.t.Chunks[i]
		if !c.Kept {
			c.Data = nil
		}
		b.packed += len(c.Data)
	}
}
