// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"cmp"
	"slices"
)

// splitter cuts one step's time into parts.
type splitter struct {
	b      *slowState
	r      *stepRecord
	main   *trackedThread
	graphs []slowGraph
	end    int64
	at     int64 // what is before it is cut already
	costs  []whoCost
	comp   []whoCost // of the thread that an operator waited for
}

// op cuts an operator's time. Had its threads kept their CPUs, it would have ended with the last arrival less that thread's time
// off; had its work been spread evenly, after the mean of their busy times.
func (x *splitter) op(o *Op, nth int32) {
	from, to := max(o.Start, x.at), min(o.Start+o.Dur, x.end)
	if to <= from { // it ran beside another one
		return
	}
	x.gap(from)
	x.at = to
	r := x.r
	dur := to - from
	probe := min(o.Probe, dur)
	net := dur - probe
	work := net
	var off int64
	known := true
	n := int64(len(o.Threads))
	var last, lastOff, without int64
	crit := -1
	for i := range o.Threads {
		t := &o.Threads[i]
		arrived := t.Start + t.Busy + t.OffCPU
		tracked := x.b.track.threads[t.TID]
		if tracked != nil {
			tracked.computes = true
		}
		sum, ok := tracked.within(from, arrived, nil)
		known = known && ok
		sum = max(sum, t.OffCPU)
		without = max(without, arrived-sum)
		if crit < 0 || arrived > last {
			crit, last, lastOff = i, arrived, sum
		}
	}
	if n > 0 {
		work = min(net, max(0, o.Busy/n-probe))
		if lastOff > 0 {
			off = min(max(0, last-without), net-work)
		}
	}
	wait := net - work - off
	d := x.b.derive.Derive(o)
	parts := &r.parts
	before := *parts
	parts[partProbe] += probe
	if known {
		parts[partWait] += wait
	} else {
		parts[partLate] += wait
		r.doubt = true
	}
	if c, ok := x.b.charged[o.ID]; ok {
		f := min(c[0], work)
		e := min(c[1], work-f)
		parts[partFaults] += f
		parts[partExperts] += e
		work -= f + e
	}
	if kindOf(d, o.Op) == kindAttn {
		parts[partAttn] += work
	} else {
		parts[partWork] += work
	}
	if off > 0 {
		x.lost(o, d, crit, from, last, off)
	}
	x.usual(o, d, nth, &before)
}

// lost says who had the CPU of the thread that an operator waited for, in parts of off.
func (x *splitter) lost(o *Op, d *Derived, crit int, from, last, off int64) {
	t := &o.Threads[crit]
	x.comp = x.comp[:0]
	sum, _ := x.b.track.threads[t.TID].within(from, last, func(s *offSpan, ns int64) {
		x.comp = addWho(x.comp, s.who, s.kind, ns, ns)
	})
	if t.OffCPU > sum {
		x.comp = addWho(x.comp, whoUnseen, offUnseen, t.OffCPU-sum, 0)
		sum = t.OffCPU
	}
	var done, cum int64
	for _, c := range x.comp {
		cum += c.cost
		part := int64(float64(off)*(float64(cum)/float64(sum))) - done
		if cum == sum {
			part = off - done
		}
		done += part
		x.r.parts[partOff+int(c.kind)] += part
		x.costs = addWho(x.costs, c.who, c.kind, part, c.ran)
		x.b.takers.op(o, d, crit, c, part)
	}
}

func addWho(all []whoCost, who int32, kind uint8, cost, ran int64) []whoCost {
	for i := range all {
		if all[i].who == who && all[i].kind == kind {
			all[i].cost += cost
			all[i].ran += ran
			return all
		}
	}
	return append(all, whoCost{who, kind, cost, ran})
}

// usual compares an operator with what it took before, and keeps those that took most beyond.
func (x *splitter) usual(o *Op, d *Derived, nth int32, before *slowParts) {
	k := usualKey{x.r.kind, o.Node, nth}
	u := x.b.usual[k]
	if u == nil {
		if len(x.b.usual) >= maxUsual {
			clear(x.b.usual)
		}
		u = &usualTime{}
		x.b.usual[k] = u
	}
	was := u.add(o.Dur)
	over := o.Dur - was
	if over <= 0 {
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
	// Of what it took beyond, the largest: what it computed is only so much longer.
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
	c := slowOpCost{d, o.Op, o.Dur, was, int8(most)}
	if len(r.ops) < slowOps {
		r.ops = append(r.ops, c)
	} else {
		r.ops[least] = c
	}
}

// gap cuts the time up to to, in which no operator ran.
func (x *splitter) gap(to int64) {
	for x.at < to {
		part, until := x.where(to)
		if part == partBackend {
			x.r.parts[part] += until - x.at
			x.at = until
			continue
		}
		sum, ok := x.main.within(x.at, until, func(s *offSpan, ns int64) {
			x.r.parts[partOff+int(s.kind)] += ns
			x.costs = addWho(x.costs, s.who, s.kind, ns, ns)
			x.b.takers.gap(s, ns)
		})
		if !ok {
			x.r.doubt = true
		}
		x.r.parts[part] += until - x.at - sum
		x.at = until
	}
}

// where says in what part of the step x.at lies, and until when, to at most.
func (x *splitter) where(to int64) (part int, until int64) {
	until = to
	before, behind := false, false
	for i := range x.graphs {
		g := &x.graphs[i]
		switch {
		case g.to <= x.at:
			before = true
		case g.from > x.at:
			behind = true
			until = min(until, g.from)
		default:
			if g.ops == 0 && g.backend != "" && g.backend != "CPU" {
				return partBackend, min(until, g.to)
			}
			return partGraph, min(until, g.to)
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

// whos returns what took the threads' CPUs, the dearest first, those beyond a number summed up.
func (x *splitter) whos() []whoCost {
	slices.SortStableFunc(x.costs, func(a, b whoCost) int { return cmp.Compare(b.cost, a.cost) })
	if len(x.costs) <= slowNames {
		return slices.Clone(x.costs)
	}
	out := slices.Clone(x.costs[:slowNames])
	for _, c := range x.costs[slowNames:] {
		out = addWho(out, whoRest, c.kind, c.cost, c.ran)
	}
	return out
}
