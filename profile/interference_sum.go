// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"cmp"
	"slices"
	"strconv"
)

const (
	maxPaid     = 256 // names and threads told apart of one that took CPUs
	paidListed  = 5
	takerListed = 20
)

// interferenceSum sums up who took CPUs over a run.
type interferenceSum struct {
	by          map[int32]*taker
	disk, sleep int64
}

// taker is one that ran in place of threads that compute.
type taker struct {
	ran, times, cost  int64
	elsewhere         int64
	cpus              map[uint16]bool
	ops               map[string]int64
	displaced, waited map[int32]int64
}

func (f *interferenceSum) init() { f.by = map[int32]*taker{} }

func (f *interferenceSum) at(who int32) *taker {
	t := f.by[who]
	if t == nil {
		t = &taker{cpus: map[uint16]bool{}, ops: map[string]int64{}, displaced: map[int32]int64{}, waited: map[int32]int64{}}
		f.by[who] = t
	}
	return t
}

func addTo[K comparable](m map[K]int64, k, rest K, ns int64) {
	if _, ok := m[k]; !ok && len(m) >= maxPaid {
		k = rest
	}
	m[k] += ns
}

// op counts what an operator lasted longer by one of them, and who waited for the thread.
func (f *interferenceSum) op(o *Op, d *Derived, crit int, c whoCost, cost int64) {
	switch c.kind {
	case offDisk:
		f.disk += cost
		return
	case offSleep:
		f.sleep += cost
		return
	case offFault:
		return
	}
	t := f.at(c.who)
	t.cost += cost
	key, _ := rowKey(ByWeight, d, o.Op)
	addTo(t.ops, key, "(others)", cost)
	for i := range o.Threads {
		if w := &o.Threads[i]; i != crit {
			addTo(t.waited, w.TID, 0, min(cost, w.Wait))
		}
	}
}

// gap counts the same outside operators, at a place.
func (f *interferenceSum) gap(s offSpan, ns int64, place string) {
	switch s.kind {
	case offDisk:
		f.disk += ns
		return
	case offSleep:
		f.sleep += ns
		return
	case offFault:
		return
	}
	t := f.at(s.who)
	t.cost += ns
	addTo(t.ops, place, "(others)", ns)
}

// ran counts a time that a thread could run and another did, whether or not that cost anything.
func (f *interferenceSum) ran(t *trackedThread, s offSpan) {
	if s.kind == offDisk || s.kind == offSleep || s.kind == offFault {
		return
	}
	k := f.at(s.who)
	k.ran += s.to - s.from
	if s.elsewhere {
		k.elsewhere += s.to - s.from
	}
	k.times++
	if len(k.cpus) < maxPaid {
		k.cpus[s.cpu] = true
	}
	addTo(k.displaced, t.tid, 0, s.to-s.from)
}

func (f *interferenceSum) finish(k *tracker) Interference {
	out := Interference{By: []Interferer{}, Disk: f.disk, Sleep: f.sleep, Threads: []MovedThread{}, CPUs: []CPUState{}}
	for who, t := range f.by {
		w := &k.whos[who]
		x := Interferer{Comm: w.comm, Own: w.own, Ran: t.ran, Times: t.times, Cost: t.cost, CPUs: []int{},
			Displaced: paid(t.displaced, threadName), Waited: paid(t.waited, threadName),
			Ops:       paid(t.ops, func(s string) (string, int32) { return s, 0 }),
			Elsewhere: t.elsewhere, Kernel: w.kernel}
		if !w.own && w.held > 0 {
			x.Held = &w.held
		}
		if !w.mixed {
			x.PID = w.pid
		}
		for c := range t.cpus {
			x.CPUs = append(x.CPUs, int(c))
		}
		slices.Sort(x.CPUs)
		out.Cost += t.cost
		out.Ran += t.ran
		out.By = append(out.By, x)
	}
	slices.SortFunc(out.By, func(a, b Interferer) int {
		return cmp.Or(cmp.Compare(b.Cost, a.Cost), cmp.Compare(b.Ran, a.Ran), cmp.Compare(a.Comm, b.Comm), compareBool(a.Own, b.Own))
	})
	out.By = out.By[:min(len(out.By), takerListed)]
	if !k.any {
		return out
	}
	var all int64
	for _, t := range k.threads {
		all += t.moved
		if t.moved > 0 || t.preempted > 0 {
			out.Threads = append(out.Threads, MovedThread{t.tid, t.moved, t.preempted})
		}
	}
	slices.SortFunc(out.Threads, func(a, b MovedThread) int {
		return cmp.Or(cmp.Compare(b.Migrations, a.Migrations), cmp.Compare(b.Preempted, a.Preempted), cmp.Compare(a.TID, b.TID))
	})
	out.Threads = out.Threads[:min(len(out.Threads), takerListed)]
	out.Migrations = &all
	return out
}

func threadName(tid int32) (string, int32) {
	if tid == 0 {
		return "(others)", 0
	}
	return strconv.Itoa(int(tid)), tid
}

// paid lists the first few, by what they paid.
func paid[K comparable](m map[K]int64, name func(K) (string, int32)) []PaidBy {
	out := make([]PaidBy, 0, len(m))
	for k, ns := range m {
		if ns > 0 {
			n, tid := name(k)
			out = append(out, PaidBy{n, tid, ns})
		}
	}
	slices.SortFunc(out, func(a, b PaidBy) int { return cmp.Or(cmp.Compare(b.Ns, a.Ns), cmp.Compare(a.Name, b.Name)) })
	return out[:min(len(out), paidListed)]
}
