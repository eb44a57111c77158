// SPDX-License-Identifier: Apache-2.0

package series

import (
	"slices"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/internal/limits"
	"github.com/profinfer/profinfer/profile/internal/steps"
	"github.com/profinfer/profinfer/profile/ops"
	"github.com/profinfer/profinfer/profile/requests"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/profile/verdict"
)

// seriesBy are the groupings whose rows have distributions.
var seriesBy = [...]facts.By{facts.ByWeight, facts.ByOp, facts.ByLayer, facts.ByBlock}

// seriesState is the state of a Builder.
type seriesState struct {
	profile.BaseSink
	book  *facts.Book
	whole map[facts.PhaseKey]*seriesGroup
	part  map[facts.PhaseKey]*seriesGroup
	// Operators of complete steps that were disturbed; their points are in whole.
	disturbed map[facts.PhaseKey]*seriesGroup
	leavesOut func(facts.ModelKey) bool // nil: nothing is left out
	open      steps.Collector
	// threads of operators that were folded before their step ended, because there were too many
	teams    map[*profile.Step]int
	awaited  map[*profile.Step]awaitedPoint // steps whose results are not there yet
	facts    map[seriesKey]*seriesFacts
	requests requests.Collector
	// roofline is what Finish leaves for Roofline.
	roofline []RooflineGroup
}

// seriesGroup is a phase while it is collected. It embeds the group's sums of steps, threads and backends.
type seriesGroup struct {
	stat.Group
	points pointList
	slow   slowest
	cells  int64 // KV cache cells of the operators folded last
	// tokenTime is the time per token of one sequence, over steps.
	tokenTime requests.DistSum
	rows      [len(seriesBy)]map[string]*seriesRow
	products  map[productKey]*productSum
	teams     map[int]*teamSum // by number of threads
	// operators of rows and matmuls beyond the limits
	rowsDropped, productsDropped int64
}

type seriesRow struct {
	key, typ string
	weight   bool
	time     requests.DistSum
	layers   []LayerPart // by layer
	noLayer  int64
	threads  []ThreadPart
}

// seriesKey identifies operators that share all facts.
type seriesKey struct {
	in *seriesGroup
	d  *facts.Derived
	op string
}

type seriesFacts struct {
	isProduct bool // it is a matmul
	kind      ops.Class
	rows      [len(seriesBy)]*seriesRow // nil: dropped
	layer     int                       // -1: none
	cells     int64                     // KV cache cells that it read; 0: it is not attention
	product   *productSum
	// Where its operators are in the roofline of a number of threads.
	team   *teamSum
	points [len(rooflineBy)]*pointSum // nil: dropped
}

type productKey struct {
	name, typ    string
	weight, attn bool
	m, n, k      int64
}

type productSum struct {
	time                    requests.DistSum
	bytes, bytesDur, bytesN int64 // of those whose bytes are known
	flops, flopsDur, flopsN int64
	atMost                  bool
	threads                 int
	layers                  map[int]bool
}

func (b *seriesState) init(book *facts.Book) {
	b.book = facts.BookOf(book)
	b.whole, b.part = map[facts.PhaseKey]*seriesGroup{}, map[facts.PhaseKey]*seriesGroup{}
	b.disturbed = map[facts.PhaseKey]*seriesGroup{}
	b.open.Early = b.early
	b.teams = map[*profile.Step]int{}
	b.facts = map[seriesKey]*seriesFacts{}
	b.requests.Most = requests.MaxRequests
	b.requests.KeepSteps = true
}

// Op takes one operator.
func (b *seriesState) Op(o *profile.Op) error {
	b.book.Op(o)
	if o.Step != nil {
		b.open.Op(o)
	}
	return nil
}

// early folds operators of a step before it is known whether the step is complete.
func (b *seriesState) early(s *profile.Step, ops []*profile.Op) {
	b.fold(b.group(b.whole, s), s, ops)
	if len(b.teams) >= limits.Pending { // of steps that never ended
		clear(b.teams)
	}
	b.teams[s] = max(b.teams[s], teamOf(ops))
}

// Graph takes one graph execution.
func (b *seriesState) Graph(g *profile.Graph) error {
	b.book.Graph(g)
	b.open.Graph(g)
	return nil
}

// Step takes one step, after its operators.
func (b *seriesState) Step(s *profile.Step) error {
	ops, graphs, cut := b.open.Take(s)
	defer b.open.Done(ops)
	team := max(b.teams[s], teamOf(ops))
	delete(b.teams, s)
	in := b.whole
	if s.Incomplete != "" {
		in = b.part
	}
	g := b.group(in, s)
	b.requests.AddStep(s, b.book)
	g.Step(s, nil)
	if !s.HandedOver {
		g.tokenTimes(s)
	}
	p := point(s)
	if s.Untraced == "" {
		to := g
		if _, _, much := verdict.Disturbed(s, ops); much && s.Incomplete == "" {
			to = b.group(b.disturbed, s)
		}
		to.Traced++
		to.TracedDur += s.Dur
		before := to.Group
		b.fold(to, s, ops)
		to.FoldGraphs(graphs)
		if t := to.team(team); t != nil {
			t.step(s)
		}
		// A step whose operators were folded early gets no operator times: some may be missing.
		if !cut {
			p.taken(&before, &to.Group, to.cells)
		}
	}
	if s.HandedOver {
		b.await(s, g, p)
		return nil
	}
	g.points.add(p)
	g.slow.add(p)
	return nil
}

// awaitedPoint is a step whose results are not there yet.
type awaitedPoint struct {
	g *seriesGroup
	p StepPoint
}

func (b *seriesState) await(s *profile.Step, g *seriesGroup, p StepPoint) {
	if b.awaited == nil || len(b.awaited) >= limits.Pending { // of recordings whose steps have no result
		b.awaited = map[*profile.Step]awaitedPoint{}
	}
	b.awaited[s] = awaitedPoint{g, p}
}

// Result takes a step that handed graphs over.
func (b *seriesState) Result(s *profile.Step) error {
	b.requests.AddResult(b.book)
	a, ok := b.awaited[s]
	if !ok {
		return nil
	}
	delete(b.awaited, s)
	a.g.Result(s, nil)
	if e, known := s.WithResults(); known {
		a.g.tokenTimes(e)
		late := e.Dur - s.Dur
		a.p.Late = &late
	} else {
		a.p.Late = nil
	}
	a.g.points.add(a.p)
	a.g.slow.add(a.p)
	return nil
}

// tokenTimes records a step's time per token.
func (g *seriesGroup) tokenTimes(s *profile.Step) {
	if v, ok := tokenTime(s); ok {
		g.tokenTime.Add(v)
	}
}

// tokenTime returns a step's time per token of one sequence, as in Stat.
func tokenTime(s *profile.Step) (int64, bool) {
	switch {
	case s.NTokens <= 0 || s.Phase == profile.Decode && s.NSeqs <= 0 && s.NTokens > 1:
		return 0, false
	case s.Phase == profile.Decode:
		return int64(float64(s.Dur) / float64(s.NTokens) * float64(max(1, s.NSeqs))), true
	}
	return int64(float64(s.Dur) / float64(s.NTokens)), true
}

// point returns a step's point, without operators.
func point(s *profile.Step) StepPoint {
	p := StepPoint{ID: s.ID, N: 1, Slowest: s.ID, PID: s.PID, Start: s.Start, Dur: s.Dur, Min: s.Dur,
		Max: s.Dur, Late: new(int64),
		Seqs: s.NSeqs, Untraced: s.Untraced, Incomplete: s.Incomplete}
	if s.NTokens >= 0 {
		n := int64(s.NTokens)
		p.Tokens = &n
	}
	far := int64(-1)
	for i := range s.Seqs {
		if q := &s.Seqs[i]; q.Pos >= 0 && q.NTokens >= 0 {
			far = max(far, int64(q.Pos)+int64(q.NTokens))
		}
	}
	if far >= 0 {
		p.posSum, p.posN = float64(far), 1
	}
	return p
}

// taken sets the times of the operators folded between two states of a group.
func (p *StepPoint) taken(before, after *stat.Group, cells int64) {
	p.Traced, p.TracedDur, p.Ops = 1, p.Dur, after.Ops-before.Ops
	backends := after.Elsewhere - before.Elsewhere
	p.Backends = &backends
	if p.Ops == 0 {
		return // the level records none, or another backend computed all
	}
	matmul, attn, probe := after.Matmul-before.Matmul, after.Attn-before.Attn, after.Probe-before.Probe
	dur, covered := after.OpsDur-before.OpsDur, after.Covered-before.Covered
	other, overlap, gap := dur-probe-matmul-attn, dur-covered, p.Dur-covered-backends
	busy, wait, off := after.Busy-before.Busy, after.Wait-before.Wait, after.Off-before.Off
	p.Probe, p.Overlap, p.Gap = &probe, &overlap, &gap
	if after.Unsorted == before.Unsorted {
		p.MatMul, p.Attn, p.Other = &matmul, &attn, &other
	}
	p.Busy, p.Wait, p.OffCPU = &busy, &wait, &off
	if p.BytesDur = after.BytesDur - before.BytesDur; p.BytesDur > 0 {
		bytes := after.Bytes - before.Bytes
		p.Bytes = &bytes
	}
	if cells > 0 {
		p.Cells = &cells
	}
}

func (b *seriesState) group(in map[facts.PhaseKey]*seriesGroup, s *profile.Step) *seriesGroup {
	k := facts.PhaseKey{Phase: s.Phase, Model: b.book.At(s.PID, s.Ctx)}
	if in[k] == nil && len(in) >= limits.Models {
		k.Model = nil
	}
	g := in[k]
	if g == nil {
		g = &seriesGroup{Group: stat.Group{Number: len(in)}}
		in[k] = g
	}
	return g
}

// fold adds operators of one step.
func (b *seriesState) fold(g *seriesGroup, s *profile.Step, ops []*profile.Op) {
	g.Spans, g.cells = g.Spans[:0], 0
	team := g.team(teamOf(ops))
	for _, o := range ops {
		b.op(g, team, o)
		g.Took(s, o)
	}
	g.Covers(s)
}

// op adds one operator.
func (b *seriesState) op(g *seriesGroup, team *teamSum, o *profile.Op) {
	d := b.book.Derive(o)
	f := b.factsOf(g, d, o)
	net := o.Dur - o.Probe
	g.Ops++
	g.OpsDur += o.Dur
	g.Probe += o.Probe
	g.Busy += o.Busy
	g.Wait += o.Wait
	g.Off += o.OffCPU
	switch f.kind {
	case ops.ClassProduct:
		g.Matmul += net
	case ops.ClassAttention:
		g.Attn += net
		g.cells = max(g.cells, f.cells)
	case ops.ClassUnknown:
		g.Unsorted++
	}
	if d.Bytes != nil {
		g.Bytes += *d.Bytes
		g.BytesDur += net
	}
	for i, r := range f.rows {
		if r == nil {
			g.rowsDropped++
			continue
		}
		r.time.Add(net)
		if by := seriesBy[i]; by == facts.ByWeight || by == facts.ByOp {
			r.layer(f.layer, net)
			r.thread(o, profile.PidOf(o))
		}
	}
	if p := f.product; p != nil {
		p.add(d, o, net, f.layer)
	} else if f.isProduct {
		g.productsDropped++
	}
	if team != nil {
		team.place(f, d, o)
	}
}

// factsOf returns what all operators of one definition in a phase have in common.
func (b *seriesState) factsOf(g *seriesGroup, d *facts.Derived, o *profile.Op) *seriesFacts {
	k := seriesKey{g, d, o.Op}
	// The unknown definition is shared by all.
	known := d != &facts.Unknown
	if f := b.facts[k]; f != nil && known {
		return f
	}
	f := &seriesFacts{kind: d.Class, layer: -1}
	if d.Layer != nil {
		f.layer = *d.Layer
	}
	for i, by := range seriesBy {
		key, weight := facts.RowKey(by, d, o.Op)
		typ := ""
		if weight {
			typ = d.WeightType
		}
		f.rows[i] = g.seriesRow(i, key, typ, weight)
	}
	if known {
		f.cells = o.Shape.Vocabulary().Cells(o.Shape.Nodes, o.NodeDef())
		f.isProduct = o.Shape.Vocabulary().IsProduct(o.NodeDef().Op)
		f.product = g.product(d, o, f)
		if len(b.facts) >= limits.Pending { // graph definitions that no longer exist
			clear(b.facts)
		}
		b.facts[k] = f
	}
	return f
}

func (g *seriesGroup) seriesRow(by int, key, typ string, weight bool) *seriesRow {
	rows := g.rows[by]
	if rows == nil {
		rows = map[string]*seriesRow{}
		g.rows[by] = rows
	}
	k := key + "\x00" + typ
	r := rows[k]
	if r == nil {
		if len(rows) >= maxSeriesRows {
			return nil
		}
		r = &seriesRow{key: key, typ: typ, weight: weight}
		rows[k] = r
	}
	return r
}

// product returns the sums of the matmuls like this one; nil if it is not one, or there are too many.
func (g *seriesGroup) product(d *facts.Derived, o *profile.Op, f *seriesFacts) *productSum {
	x, ok := o.Shape.Vocabulary().Product(o.Shape.Nodes, o.NodeDef())
	if !ok {
		return nil
	}
	k := productKey{typ: x.Type, attn: f.kind == ops.ClassAttention, m: x.M, n: x.N, k: x.K}
	k.name, k.weight = facts.RowKey(facts.ByWeight, d, o.Op)
	p := g.products[k]
	if p == nil {
		if len(g.products) >= maxProducts {
			return nil
		}
		if g.products == nil {
			g.products = map[productKey]*productSum{}
		}
		p = &productSum{layers: map[int]bool{}}
		g.products[k] = p
	}
	return p
}

func (p *productSum) add(d *facts.Derived, o *profile.Op, net int64, layer int) {
	p.time.Add(net)
	if d.Bytes != nil {
		p.bytes += *d.Bytes
		p.bytesDur += net
		p.bytesN++
		p.atMost = p.atMost || d.BytesAtMost
	}
	if d.Flops != nil {
		p.flops += *d.Flops
		p.flopsDur += net
		p.flopsN++
	}
	p.threads = max(p.threads, len(o.Threads))
	if layer >= 0 && len(p.layers) < maxLayers {
		p.layers[layer] = true
	}
}

func (r *seriesRow) layer(l int, net int64) {
	if l < 0 || l >= maxLayers {
		r.noLayer++
		return
	}
	for len(r.layers) <= l {
		r.layers = append(r.layers, LayerPart{Layer: len(r.layers)})
	}
	e := &r.layers[l]
	e.Calls++
	e.Dur += net
	e.Max = max(e.Max, net)
}

// thread adds an operator's threads. A team's threads mostly come in the same order.
func (r *seriesRow) thread(o *profile.Op, pid int32) {
	for i := range o.Threads {
		t := &o.Threads[i]
		at := i
		if at >= len(r.threads) || r.threads[at].TID != t.TID || r.threads[at].PID != pid {
			at = slices.IndexFunc(r.threads, func(e ThreadPart) bool {
				return e.TID == t.TID && e.PID == pid
			})
			if at < 0 {
				if len(r.threads) >= maxSeriesThreads {
					continue
				}
				at = len(r.threads)
				r.threads = append(r.threads, ThreadPart{PID: pid, TID: t.TID})
			}
		}
		e := &r.threads[at]
		e.Ops++
		e.Busy += t.Busy
		e.Wait += t.Wait
		e.OffCPU += t.OffCPU
	}
}
