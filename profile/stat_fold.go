// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"strconv"
)

// maxStepRows bounds the rows by step; the longest steps are kept.
const maxStepRows = 4096

// How the operators and graphs of one step are added to the sums of its group.

// fold adds the operators of one step.
func (b *statState) fold(g *group, s *Step, ops []*Op) {
	g.spans = g.spans[:0]
	b.experts.fold(&g.experts, &b.derive, s, ops)
	for _, o := range ops {
		g.op(b, o, s.ID)
		g.took(s, o)
	}
	g.covers(s)
}

// took adds what an operator took of a step's time and of its threads'.
func (g *group) took(s *Step, o *Op) {
	g.cover(max(o.Start, s.Start), o.Start+o.Dur)
	for i := range o.Threads {
		t := &o.Threads[i]
		e := g.thread(i, t.TID, s.PID)
		e.ops++
		e.busy += t.Busy
		e.wait += t.Wait
		e.off += t.OffCPU
		if e.lastStep != s.ID && s.Dur > 0 {
			e.lastStep = s.ID
			e.steps += s.Dur
		}
	}
}

// covers adds up the spans of a step in which an operator ran.
func (g *group) covers(s *Step) {
	for _, c := range g.spans {
		if s.Dur > 0 {
			c.to = min(c.to, s.Start+s.Dur)
		}
		g.covered += max(0, c.to-c.from)
	}
}

// thread returns the sums of a thread, which is number i of its team: a team's threads mostly come in
// one order.
func (g *group) thread(i int, tid, pid int32) *threadSum {
	if i < len(g.team) && g.team[i].tid == tid {
		return g.team[i].sum
	}
	if g.threads == nil {
		g.threads = map[int32]*threadSum{}
	}
	e := g.threads[tid]
	if e == nil {
		e = &threadSum{pid: pid}
		g.threads[tid] = e
	}
	if g.team = g.team[:min(i, len(g.team))]; i == len(g.team) {
		g.team = append(g.team, teamMember{tid, e})
	}
	return e
}

// foldGraphs adds the graphs of a step whose operators, folded before, left their spans. One
// graph can run within another (a backend made of backends): no time counts twice.
func (g *group) foldGraphs(graphs []backendGraph) {
	if len(graphs) == 0 {
		return
	}
	ops := union(g.spans)
	for _, x := range graphs {
		if g.backends == nil {
			g.backends = map[string]*backendSum{}
		}
		e := g.backends[x.backend]
		if e == nil {
			e = &backendSum{}
			g.backends[x.backend] = e
		}
		e.graphs++
		e.dur += x.to - x.from
		g.spans = append(g.spans, x.span)
	}
	g.elsewhere += union(g.spans) - ops
}

// cover adds from..to to the spans of a step in which an operator ran. Operators come in the
// order of their ends, so what overlaps lies at the end of the list.
func (g *group) cover(from, to int64) {
	for n := len(g.spans); n > 0; n-- {
		last := g.spans[n-1]
		if last.to < from {
			break
		}
		from, to = min(from, last.from), max(to, last.to)
		g.spans = g.spans[:n-1]
	}
	g.spans = append(g.spans, span{from, to})
}

// op adds one operator to the sums and to its row.
func (g *group) op(b *statState, o *Op, step int64) {
	d := b.derive.Derive(o)
	g.ops++
	g.opsDur += o.Dur
	g.probe += o.Probe
	g.busy += o.Busy
	g.wait += o.Wait
	g.off += o.OffCPU
	f := g.facts(b, d, o.Op)
	switch f.kind {
	case kindMatMul:
		g.matmul += o.Dur - o.Probe
		if d.Bytes != nil && d.Weight != "" {
			g.mmBytes += *d.Bytes
			g.mmDur += o.Dur - o.Probe
		}
	case kindAttn:
		g.attn += o.Dur - o.Probe
	}
	if d.Bytes != nil {
		g.bytes += *d.Bytes
		g.bytesDur += o.Dur - o.Probe
	}
	switch b.opts.By {
	case ByThread:
		for i := range o.Threads {
			t := &o.Threads[i]
			r := g.row("t" + strconv.Itoa(int(t.TID)))
			r.row.TID, r.row.Key = t.TID, strconv.Itoa(int(t.TID))
			r.call(d, o, t.Busy+t.Wait+t.OffCPU, t.Busy, t.Wait, t.OffCPU)
			if t.Counts != nil {
				r.count(t.Counts)
			}
		}
		return
	case ByStep:
		r := g.row(strconv.FormatInt(step, 10))
		r.row.Key, r.row.Step = strconv.FormatInt(step, 10), step
		r.add(d, o, o.Dur, o.Busy, o.Wait, o.OffCPU)
		return
	}
	f.row.add(d, o, o.Dur, o.Busy, o.Wait, o.OffCPU)
}

// facts returns what is the same of all operators with d and op.
func (g *group) facts(b *statState, d *Derived, op string) *factRow {
	if d.ID >= len(b.factRows) {
		b.factRows = append(b.factRows, make([]factRow, d.ID+1-len(b.factRows))...)
	}
	f := &b.factRows[d.ID]
	if f.of == d && f.in == g && f.op == op {
		return f
	}
	by := b.opts.By
	*f = factRow{of: d, in: g, op: op, kind: kindOf(d, op)}
	if by != ByThread && by != ByStep {
		key, isWeight := rowKey(by, d, op)
		typ := ""
		if isWeight {
			typ = d.WeightType
		}
		f.row = g.row(key + "\x00" + typ)
		f.row.row.Key, f.row.row.Weight = key, isWeight
	}
	return f
}

func (g *group) row(key string) *rowSum {
	r := g.rows[key]
	if r == nil {
		if g.rows == nil {
			g.rows = map[string]*rowSum{}
		}
		r = &rowSum{}
		g.rows[key] = r
	}
	return r
}

// stepRow completes the row of a step: its time is the step's own.
func (g *group) stepRow(s *Step) {
	key := strconv.FormatInt(s.ID, 10)
	r := g.row(key)
	r.row.Key, r.row.Step, r.row.Dur = key, s.ID, s.Dur
	if s.NTokens >= 0 {
		n := int64(s.NTokens)
		r.row.Tokens = &n
	}
	if len(g.rows) >= 2*maxStepRows {
		g.dropped += dropShortest(g.rows, maxStepRows)
	}
}

// merge adds the steps of another context.
func (g *group) merge(o *group) {
	g.mergeSteps(o)
	g.traced += o.traced
	g.tracedDur += o.tracedDur
	g.probe += o.probe
	g.ops += o.ops
	g.opsDur += o.opsDur
	g.covered += o.covered
	g.busy += o.busy
	g.wait += o.wait
	g.off += o.off
	g.matmul += o.matmul
	g.attn += o.attn
	g.bytes += o.bytes
	g.bytesDur += o.bytesDur
	g.mmBytes += o.mmBytes
	g.mmDur += o.mmDur
	g.dropped += o.dropped
	g.elsewhere += o.elsewhere
	g.experts.merge(&o.experts)
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
		to.dur += e.dur
	}
	for key, r := range o.rows {
		to := g.row(key)
		if to.row.Calls == 0 && to.row.Dur == 0 {
			*to = *r
			continue
		}
		to.same(r.row.Type, r.row.Op, r.row.Block)
		to.merge(r)
	}
	for tid, t := range o.threads {
		to := g.threads[tid]
		if to == nil {
			if g.threads == nil {
				g.threads = map[int32]*threadSum{}
			}
			g.threads[tid] = t
			continue
		}
		to.ops += t.ops
		to.busy += t.busy
		to.wait += t.wait
		to.off += t.off
		to.steps += t.steps
	}
}
