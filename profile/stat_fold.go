// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"cmp"
	"slices"
	"strconv"
)

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

// union returns the time that at least one of the spans covers. It sorts them.
func union(spans []span) (sum int64) {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var end int64
	for _, s := range spans {
		if from := max(s.from, end); s.to > from {
			sum += s.to - from
			end = s.to
		}
	}
	return sum
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
	f := g.facts(b.opts.By, d, o.Op)
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

// facts returns what is the same of all operators with d and op. It is kept with d, for the group that
// asked last: an operator of one shape is mostly in one phase.
func (g *group) facts(by By, d *Derived, op string) factRow {
	if d.last.in == g && d.last.op == op {
		return d.last
	}
	f := factRow{in: g, op: op, kind: kindOf(d, op)}
	if by != ByThread && by != ByStep {
		key, isWeight := rowKey(by, d, op)
		typ := ""
		if isWeight {
			typ = d.WeightType
		}
		f.row = g.row(key + "\x00" + typ)
		f.row.row.Key, f.row.row.Weight = key, isWeight
	}
	if d != &unknownDerived { // which is everybody's
		d.last = f
	}
	return f
}
