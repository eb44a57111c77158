// SPDX-License-Identifier: Apache-2.0

package stat

import (
	"slices"
	"strconv"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/ops"
	"github.com/profinfer/profinfer/profile/summary"
	"github.com/profinfer/profinfer/trace"
)

// maxStepRows bounds the rows by step; the longest steps are kept.
const maxStepRows = 4096

// How the operators and graphs of one step are added to the sums of its group.

// fold adds the operators of one step.
func (b *statState) fold(g *Group, s *profile.Step, ops []*profile.Op) {
	g.Spans = g.Spans[:0]
	b.experts.Fold(&g.experts, &b.book.Deriver, s, ops)
	for _, o := range ops {
		g.op(b, o, s.ID)
		g.Took(s, o)
	}
	g.Covers(s)
}

// Took adds an operator's share of a step's time and of its threads'.
func (g *Group) Took(s *profile.Step, o *profile.Op) {
	g.cover(max(o.Start, s.Start), o.Start+o.Dur)
	for i := range o.Threads {
		t := &o.Threads[i]
		e := g.thread(i, t.TID, s.PID)
		e.Ops++
		e.Busy += t.Busy
		e.Wait += t.Wait
		e.Off += t.OffCPU
		if e.lastStep != s.ID && s.Dur > 0 {
			e.lastStep = s.ID
			e.Steps += s.Dur
		}
	}
}

// Covers adds up the spans of a step in which an operator ran.
func (g *Group) Covers(s *profile.Step) {
	for _, c := range g.Spans {
		if s.Dur > 0 {
			c.To = min(c.To, s.Start+s.Dur)
		}
		g.Covered += max(0, c.To-c.From)
	}
}

// thread returns the sums of a thread, which is number i of its team: a team's threads mostly come in the
// same order.
func (g *Group) thread(i int, tid, pid int32) *threadSum {
	if i < len(g.team) && g.team[i].tid == tid {
		return g.team[i].sum
	}
	if g.Threads == nil {
		g.Threads = map[int32]*threadSum{}
	}
	e := g.Threads[tid]
	if e == nil {
		e = &threadSum{Pid: pid}
		g.Threads[tid] = e
	}
	if g.team = g.team[:min(i, len(g.team))]; i == len(g.team) {
		g.team = append(g.team, teamMember{tid, e})
	}
	return e
}

// FoldGraphs adds the graphs of a step of which no operator was seen, because backends other than the CPU run
// them. The step's operators, folded before, left their spans. One graph can run within another (a backend
// made of backends): no time counts twice.
func (g *Group) FoldGraphs(graphs []*profile.Graph) {
	ops := int64(-1)
	for _, x := range graphs {
		if x.Ops != 0 || !trace.Elsewhere(x.Backend) {
			continue
		}
		if ops < 0 {
			ops = profile.Union(g.Spans)
		}
		if g.backends == nil {
			g.backends = map[string]*backendSum{}
		}
		e := g.backends[x.Backend]
		if e == nil {
			e = &backendSum{}
			g.backends[x.Backend] = e
		}
		e.graphs++
		e.submits = !x.Vocabulary().CallComputes(x.Backend)
		e.dur += x.Dur
		g.Spans = append(g.Spans, profile.Span{From: x.Start, To: x.Start + x.Dur})
	}
	if ops >= 0 {
		g.Elsewhere += profile.Union(g.Spans) - ops
	}
}

// cover adds from..to to the spans of a step in which an operator ran. Operators come in order of their ends,
// so overlapping spans are at the end of the list.
func (g *Group) cover(from, to int64) {
	for n := len(g.Spans); n > 0; n-- {
		last := g.Spans[n-1]
		if last.To < from {
			break
		}
		from, to = min(from, last.From), max(to, last.To)
		g.Spans = g.Spans[:n-1]
	}
	g.Spans = append(g.Spans, profile.Span{From: from, To: to})
}

// op adds one operator to the sums and to its row.
func (g *Group) op(b *statState, o *profile.Op, step int64) {
	d := b.book.Derive(o)
	g.Ops++
	g.OpsDur += o.Dur
	g.Probe += o.Probe
	g.Busy += o.Busy
	g.Wait += o.Wait
	g.Off += o.OffCPU
	f := g.facts(b, d, o.Op)
	switch f.kind {
	case ops.ClassProduct:
		g.Matmul += o.Dur - o.Probe
		if d.Bytes != nil && d.Weight != "" {
			g.mmBytes += *d.Bytes
			g.mmDur += o.Dur - o.Probe
		}
	case ops.ClassAttention:
		g.Attn += o.Dur - o.Probe
	case ops.ClassUnknown:
		g.Unsorted++
	}
	if d.Bytes != nil {
		g.Bytes += *d.Bytes
		g.BytesDur += o.Dur - o.Probe
	}
	for at, by := range b.by {
		switch by {
		case facts.ByThread:
			for i := range o.Threads {
				t := &o.Threads[i]
				r := g.row(at, "t"+strconv.Itoa(int(t.TID)))
				r.Row.TID, r.Row.Key = t.TID, strconv.Itoa(int(t.TID))
				r.Call(d, o, t.Busy+t.Wait+t.OffCPU, t.Busy, t.Wait, t.OffCPU)
				if t.Counts != nil {
					r.Count(t.Counts)
				}
			}
		case facts.ByStep:
			r := g.row(at, strconv.FormatInt(step, 10))
			r.Row.Key, r.Row.Step = strconv.FormatInt(step, 10), step
			r.Add(d, o, o.Dur, o.Busy, o.Wait, o.OffCPU)
		default:
			f.rows[at].Add(d, o, o.Dur, o.Busy, o.Wait, o.OffCPU)
		}
	}
}

// facts returns what all operators with d and op have in common.
func (g *Group) facts(b *statState, d *facts.Derived, op string) *factRow {
	if d.ID >= len(b.factRows) {
		b.factRows = append(b.factRows, make([]factRow, d.ID+1-len(b.factRows))...)
	}
	f := &b.factRows[d.ID]
	if f.of == d && f.in == g && f.op == op {
		return f
	}
	*f = factRow{of: d, in: g, op: op, kind: d.Class, rows: f.rows[:0]}
	for at, by := range b.by {
		var r *summary.RowSum
		if by != facts.ByThread && by != facts.ByStep {
			key, isWeight := facts.RowKey(by, d, op)
			typ := ""
			if isWeight {
				typ = d.WeightType
			}
			r = g.row(at, key+"\x00"+typ)
			r.Row.Key, r.Row.Weight = key, isWeight
		}
		f.rows = append(f.rows, r)
	}
	return f
}

// row returns a row of a grouping.
func (g *Group) row(by int, key string) *summary.RowSum {
	rows := g.rowsBy(by)
	r := rows[key]
	if r == nil {
		r = &summary.RowSum{}
		rows[key] = r
	}
	return r
}

// rowsBy returns the rows of a grouping.
func (g *Group) rowsBy(by int) map[string]*summary.RowSum {
	for len(g.rows) <= by {
		g.rows = append(g.rows, map[string]*summary.RowSum{})
	}
	return g.rows[by]
}

// stepRow completes the row of a step: its time is the step's own.
func (b *statState) stepRow(g *Group, s *profile.Step) {
	by := slices.Index(b.by, facts.ByStep)
	if by < 0 {
		return
	}
	key := strconv.FormatInt(s.ID, 10)
	r := g.row(by, key)
	r.Row.Key, r.Row.Step, r.Row.Dur = key, s.ID, s.Dur
	if s.NTokens >= 0 {
		n := int64(s.NTokens)
		r.Row.Tokens = &n
	}
	if rows := g.rows[by]; len(rows) >= 2*maxStepRows {
		g.dropped += dropShortest(rows, maxStepRows)
	}
}

// Merge adds the steps of another context.
func (g *Group) Merge(o *Group) {
	g.mergeSteps(o)
	g.Traced += o.Traced
	g.TracedDur += o.TracedDur
	g.Probe += o.Probe
	g.Ops += o.Ops
	g.OpsDur += o.OpsDur
	g.Covered += o.Covered
	g.Busy += o.Busy
	g.Wait += o.Wait
	g.Off += o.Off
	g.Matmul += o.Matmul
	g.Attn += o.Attn
	g.Unsorted += o.Unsorted
	g.Bytes += o.Bytes
	g.BytesDur += o.BytesDur
	g.mmBytes += o.mmBytes
	g.mmDur += o.mmDur
	g.dropped += o.dropped
	g.Elsewhere += o.Elsewhere
	g.outer.merge(&o.outer)
	g.experts.Merge(&o.experts)
	for name, e := range o.backends {
		if g.backends == nil {
			g.backends = map[string]*backendSum{}
		}
		to := g.backends[name]
		if to == nil {
			to = &backendSum{}
			g.backends[name] = to
		}
		to.graphs += e.graphs
		to.submits = e.submits
		to.dur += e.dur
	}
	for by, rows := range o.rows {
		for key, r := range rows {
			to := g.row(by, key)
			if to.Row.Calls == 0 && to.Row.Dur == 0 {
				*to = *r
				continue
			}
			to.Same(r.Row.Type, r.Row.Op, r.Row.Block)
			to.Merge(r)
		}
	}
	for tid, t := range o.Threads {
		to := g.Threads[tid]
		if to == nil {
			if g.Threads == nil {
				g.Threads = map[int32]*threadSum{}
			}
			g.Threads[tid] = t
			continue
		}
		to.Ops += t.Ops
		to.Busy += t.Busy
		to.Wait += t.Wait
		to.Off += t.Off
		to.Steps += t.Steps
	}
}
