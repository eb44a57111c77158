// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"cmp"
	"slices"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/ops"
	"github.com/profinfer/profinfer/profile/sched"
	"github.com/profinfer/profinfer/trace"
)

// splitter splits one step's time into parts.
type splitter struct {
	b      *slowState
	r      *stepRecord
	main   *sched.TrackedThread
	graphs []*profile.Graph
	end    int64
	at     int64 // everything before it is split already
	costs  []whoCost
	comp   []whoCost // of the thread that the operator waited for
	others []whoCost // of other threads, while that one had its CPU
	offs   []teamOff
	edges  []offEdge
	active []int
	held   []int
	copies []profile.Span // calls of the step's thread: those that copy, those that wait for a device
	waits  []profile.Span
	spans  []sched.OffSpan
	held2  []sched.OffSpan
}

// op splits an operator's time.
//
// If its threads had kept their CPUs, it would have ended at the latest at the last arrival minus that
// thread's off-CPU time: that much is certainly lost. But operators have barriers inside (a matmul first
// packs its other factor), where threads with a CPU spin until one without a CPU arrives. So if an operator
// took longer than it does while all have their CPUs, the off-CPU time of any of its threads counts too, as
// far as it explains the difference. If the rest had been spread evenly, the operator would have ended after
// the mean of its threads' busy times: that is work, and the remainder is waiting.
func (x *splitter) op(o *profile.Op, nth int32) {
	from, to := max(o.Start, x.at), min(o.Start+o.Dur, x.end)
	if to <= from { // it ran in parallel to another one
		return
	}
	x.gap(from)
	x.at = to
	r := x.r
	dur := to - from
	probe := min(o.Probe, dur)
	net := dur - probe
	d := x.b.book.Derive(o)
	u := x.b.usualOf(r.kind, o.Node, nth)
	l := x.losses(o, from)
	least := min(max(0, l.last-l.without), net)
	var extra int64
	if l.beside > 0 && u.known() {
		extra = min(l.beside, max(0, net-least-int64(u.ns)))
	}
	off := least + extra
	rest := net - off
	work := rest
	if n := int64(len(o.Threads)); n > 0 {
		busy := o.Busy - l.faults
		if l.beside > 0 {
			busy -= int64(float64(l.spun) * (float64(extra) / float64(l.beside)))
		}
		work = min(rest, max(0, busy/n-probe))
	}
	wait := rest - work
	parts := &r.parts
	before := *parts
	parts[partProbe] += probe
	if l.known {
		parts[partWait] += wait
	} else {
		parts[partLate] += wait
		r.doubt = true
	}
	x.b.experts.product(r, o, d, work)
	if d.Class == ops.ClassAttention {
		parts[partAttn] += work
	} else {
		parts[partWork] += work
	}
	if off > 0 {
		x.lost(o, d, &l, least, extra)
	}
	x.keep(o, d, u, net, l.beside == 0 && l.own == 0, &before)
}

// opLosses is the off-CPU time of an operator's threads before they arrived.
type opLosses struct {
	crit    int   // the thread that arrived last; -1: none
	last    int64 // its arrival
	without int64 // the last arrival if all had kept their CPUs
	own     int64 // off-CPU time of the last one
	beside  int64 // time in which others were off-CPU, and it was not
	spun    int64 // sum over threads: time on their CPUs during beside
	faults  int64 // sum over threads: time on their CPUs in page faults
	known   bool  // no event is missing
}

// losses examines an operator's threads. x.comp gets what took the last one's CPU, x.others what took the
// CPUs of the others meanwhile.
func (x *splitter) losses(o *profile.Op, from int64) opLosses {
	l := opLosses{crit: -1, known: true}
	x.comp, x.others, x.offs = x.comp[:0], x.others[:0], x.offs[:0]
	for i := range o.Threads {
		t := &o.Threads[i]
		arrived := t.Start + t.Busy + t.OffCPU
		x.r.cpus.Add(t.CPU)
		tracked := x.b.track.Threads[t.TID]
		if tracked != nil {
			tracked.Computes = true
		}
		sum, faults, ok := tracked.Within(from, arrived, func(s sched.OffSpan) {
			x.offs = append(x.offs, teamOff{s, i})
		})
		l.faults += faults
		l.known = l.known && ok
		sum = max(sum, t.OffCPU+faults)
		l.without = max(l.without, arrived-sum)
		if l.crit < 0 || arrived > l.last {
			l.crit, l.last, l.own = i, arrived, sum
		}
	}
	if l.own == 0 && len(x.offs) == 0 {
		return l
	}
	x.sweep(o, &l)
	var sum int64
	for _, c := range x.comp {
		sum += c.cost
	}
	if l.own > sum {
		x.comp = addWho(x.comp, sched.Unseen, sched.OffUnseen, l.own-sum, 0)
	}
	return l
}

// sweep walks through the times at which a thread left or got its CPU.
func (x *splitter) sweep(o *profile.Op, l *opLosses) {
	x.edges = x.edges[:0]
	for i := range x.offs {
		x.edges = append(x.edges, offEdge{x.offs[i].From, i, true}, offEdge{x.offs[i].To, i, false})
	}
	slices.SortFunc(x.edges, func(a, b offEdge) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.span, b.span))
	})
	active := x.active[:0]
	at := int64(0)
	for _, e := range x.edges {
		if d := e.at - at; d > 0 && len(active) > 0 {
			x.segment(o, l, active, at, d)
		}
		at = e.at
		if e.begins {
			active = append(active, e.span)
		} else if i := slices.Index(active, e.span); i >= 0 {
			active = slices.Delete(active, i, i+1)
		}
	}
	x.active = active[:0]
}

// segment counts an interval of length d from at, in which the same threads were off-CPU. A thread that slept
// until one of its own process woke it waited for that thread: if others had no CPU meanwhile, that is why it
// slept, and otherwise the interval is no loss of theirs.
func (x *splitter) segment(o *profile.Op, l *opLosses, active []int, at, d int64) {
	crit := -1
	x.held = x.held[:0]
	for _, i := range active {
		s := &x.offs[i]
		if s.thread == l.crit {
			crit = i
		}
		if s.Kind != sched.OffSleep || !x.b.track.Whos[s.Who].Own {
			x.held = append(x.held, i)
		}
	}
	into := &x.comp
	switch {
	case crit >= 0 && (slices.Contains(x.held, crit) || len(x.held) == 0):
		x.held = append(x.held[:0], crit)
	case crit >= 0:
	case len(x.held) == 0:
		return
	default:
		into = &x.others
		l.beside += d
		for i := range o.Threads {
			t := &o.Threads[i]
			if arrived := t.Start + t.Busy + t.OffCPU; arrived > at &&
				!slices.ContainsFunc(active, func(k int) bool {
					return x.offs[k].thread == i
				}) {
				l.spun += min(d, arrived-at)
			}
		}
	}
	for n, i := range x.held {
		part := d / int64(len(x.held)-n)
		d -= part
		*into = addWho(*into, x.offs[i].Who, x.offs[i].Kind, part, part)
	}
}

type teamOff struct {
	sched.OffSpan
	thread int // index in the operator's threads
}

type offEdge struct {
	at     int64
	span   int // index in offs
	begins bool
}

// lost attributes the loss to those who had the CPUs: least to those of the thread that arrived last, then
// extra to those of others. What exceeds the off-CPU time of others stays with the last one.
func (x *splitter) lost(o *profile.Op, d *facts.Derived, l *opLosses, least, extra int64) {
	x.share(o, d, l, x.comp, least)
	x.share(o, d, l, x.others, extra)
}

// share splits off time in proportion to the entries of comp.
func (x *splitter) share(o *profile.Op, d *facts.Derived, l *opLosses, comp []whoCost, off int64) {
	var sum, cum, done int64
	for _, c := range comp {
		sum += c.cost
	}
	if off <= 0 || sum <= 0 {
		return
	}
	for _, c := range comp {
		cum += c.cost
		part := int64(float64(off)*(float64(cum)/float64(sum))) - done
		if cum == sum {
			part = off - done
		}
		done += part
		x.r.parts[partOff+int(c.kind)] += part
		x.costs = addWho(x.costs, c.who, c.kind, part, c.ran)
		x.b.takers.op(o, d, l.crit, c, part)
	}
}

func addWho(all []whoCost, who int32, kind uint8, cost, ran int64) []whoCost {
	if kind != sched.OffOther && kind != sched.OffOwn { // no thread took a CPU, or it is unknown who did
		who = sched.Unseen
	}
	for i := range all {
		if all[i].who == who && all[i].kind == kind {
			all[i].cost += cost
			all[i].ran += ran
			return all
		}
	}
	return append(all, whoCost{who, kind, cost, ran})
}

// keep compares an operator with its usual time, and keeps those that exceeded it most. clean: its threads
// had their CPUs.
func (x *splitter) keep(o *profile.Op, d *facts.Derived, u *usualTime, net int64, clean bool,
	before *slowParts) {
	was := int64(u.ns)
	known := u.known()
	if clean {
		u.add(net)
	}
	over := net - was
	if over <= 0 || !known {
		return
	}
	r := x.r
	least := -1
	for i := range r.ops {
		if least < 0 || r.ops[i].dur-r.ops[i].usual < r.ops[least].dur-r.ops[least].usual {
			least = i
		}
	}
	if len(r.ops) >= slowOps && r.ops[least].dur-r.ops[least].usual >= over {
		return
	}
	// The largest part of the excess; of its work, only what exceeds the usual time.
	most, ns := partWork, int64(0)
	for i := range r.parts {
		if i == partWork || i == partAttn || i >= partBackend {
			continue
		}
		if v := r.parts[i] - before[i]; v > ns {
			most, ns = i, v
		}
	}
	if ns*2 < over {
		most = partWork
	}
	c := slowOpCost{d, o.Op, net, was, int8(most)}
	if len(r.ops) < slowOps {
		r.ops = append(r.ops, c)
	} else {
		r.ops[least] = c
	}
}

// gap splits the time up to to, in which no operator ran.
func (x *splitter) gap(to int64) {
	for x.at < to {
		part, until := x.where(to)
		call, end, in := x.calling(until)
		if until = end; in {
			part = call
		}
		if in || part == partBackend {
			x.device(part, until)
			continue
		}
		sum, _, ok := x.main.Within(x.at, until, func(s sched.OffSpan) { x.taken(s, s.To-s.From, between) })
		if !ok {
			x.r.doubt = true
		}
		x.r.parts[part] += until - x.at - sum
		x.at = until
	}
}

// where returns which part of the step x.at lies in, and until when, at most to.
func (x *splitter) where(to int64) (part int, until int64) {
	until = to
	before, behind := false, false
	for _, g := range x.graphs {
		end := g.Start + g.Dur
		switch {
		case end <= x.at:
			before = true
		case g.Start > x.at:
			behind = true
			until = min(until, g.Start)
		default:
			if g.Ops == 0 && trace.Elsewhere(g.Backend) {
				return partBackend, min(until, end)
			}
			return partGraph, min(until, end)
		}
		if behind {
			break
		}
	}
	if before && behind {
		return partCopies, until
	}
	return partOutside, until
}

// whos returns what took the threads' CPUs, the most expensive first; those beyond a limit are summed up.
func (x *splitter) whos() []whoCost {
	slices.SortStableFunc(x.costs, func(a, b whoCost) int { return cmp.Compare(b.cost, a.cost) })
	if len(x.costs) <= slowNames {
		return slices.Clone(x.costs)
	}
	out := slices.Clone(x.costs[:slowNames])
	for _, c := range x.costs[slowNames:] {
		out = addWho(out, sched.Rest, c.kind, c.cost, c.ran)
	}
	return out
}
