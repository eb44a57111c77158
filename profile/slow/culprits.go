// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/sched"
)

const (
	maxPaid     = 256 // distinct names and threads affected by one that took CPUs
	paidListed  = 5
	takerListed = 20
)

// interferenceSum sums up over a run who took CPUs.
type interferenceSum struct {
	by          map[int32]*preemptor
	disk, sleep int64
}

// preemptor is one that ran in place of computing threads.
type preemptor struct {
	ran, times, cost  int64
	elsewhere         int64
	cpus              map[uint16]bool
	ops               map[string]int64
	displaced, waited map[int32]int64
}

func (f *interferenceSum) init() { f.by = map[int32]*preemptor{} }

func (f *interferenceSum) at(who int32) *preemptor {
	t := f.by[who]
	if t == nil {
		t = &preemptor{cpus: map[uint16]bool{}, ops: map[string]int64{}, displaced: map[int32]int64{},
			waited: map[int32]int64{}}
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

// op counts by how much one of them delayed an operator, and who waited for the thread.
func (f *interferenceSum) op(o *profile.Op, d *facts.Derived, crit int, c whoCost, cost int64) {
	switch c.kind {
	case sched.OffDisk:
		f.disk += cost
		return
	case sched.OffSleep:
		f.sleep += cost
		return
	case sched.OffFault:
		return
	}
	t := f.at(c.who)
	t.cost += cost
	key, _ := facts.RowKey(facts.ByWeight, d, o.Op)
	addTo(t.ops, key, "(others)", cost)
	for i := range o.Threads {
		if w := &o.Threads[i]; i != crit {
			addTo(t.waited, w.TID, 0, min(cost, w.Wait))
		}
	}
}

// gap counts the same outside operators, at a place.
func (f *interferenceSum) gap(s sched.OffSpan, ns int64, place string) {
	switch s.Kind {
	case sched.OffDisk:
		f.disk += ns
		return
	case sched.OffSleep:
		f.sleep += ns
		return
	case sched.OffFault:
		return
	}
	t := f.at(s.Who)
	t.cost += ns
	addTo(t.ops, place, "(others)", ns)
}

// ran counts an interval in which a thread was runnable and another ran, whether or not that cost anything.
func (f *interferenceSum) ran(t *sched.TrackedThread, s sched.OffSpan) {
	if s.Kind == sched.OffDisk || s.Kind == sched.OffSleep || s.Kind == sched.OffFault {
		return
	}
	k := f.at(s.Who)
	k.ran += s.To - s.From
	if s.Elsewhere {
		k.elsewhere += s.To - s.From
	}
	k.times++
	if len(k.cpus) < maxPaid {
		k.cpus[s.Cpu] = true
	}
	addTo(k.displaced, t.Tid, 0, s.To-s.From)
}

func (f *interferenceSum) finish(k *sched.Tracker) Interference {
	out := Interference{By: []Interferer{}, Disk: f.disk, Sleep: f.sleep, Threads: []MovedThread{},
		CPUs: []CPUState{}}
	for who, t := range f.by {
		w := &k.Whos[who]
		x := Interferer{Comm: w.Comm, Own: w.Own, Ran: t.ran, Times: t.times, Cost: t.cost, CPUs: []int{},
			Displaced: paid(t.displaced, threadName), Waited: paid(t.waited, threadName),
			Ops:       paid(t.ops, func(s string) (string, int32) { return s, 0 }),
			Elsewhere: t.elsewhere, Kernel: w.Kernel}
		if !w.Own && w.Held > 0 {
			x.Held = &w.Held
		}
		if !w.Mixed {
			x.PID = w.Pid
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
		return cmp.Or(cmp.Compare(b.Cost, a.Cost), cmp.Compare(b.Ran, a.Ran), cmp.Compare(a.Comm, b.Comm),
			sched.CompareBool(a.Own, b.Own))
	})
	out.By = out.By[:min(len(out.By), takerListed)]
	if !k.Any {
		return out
	}
	var all int64
	for _, t := range k.Threads {
		all += t.Moved
		if t.Moved > 0 || t.Preempted > 0 {
			out.Threads = append(out.Threads, MovedThread{t.Tid, t.Moved, t.Preempted})
		}
	}
	slices.SortFunc(out.Threads, func(a, b MovedThread) int {
		return cmp.Or(cmp.Compare(b.Migrations, a.Migrations), cmp.Compare(b.Preempted, a.Preempted),
			cmp.Compare(a.TID, b.TID))
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

// paid lists the first few, by what they lost.
func paid[K comparable](m map[K]int64, name func(K) (string, int32)) []PaidBy {
	out := make([]PaidBy, 0, len(m))
	for k, ns := range m {
		if ns > 0 {
			n, tid := name(k)
			out = append(out, PaidBy{n, tid, ns})
		}
	}
	slices.SortFunc(out, func(a, b PaidBy) int {
		return cmp.Or(cmp.Compare(b.Ns, a.Ns), cmp.Compare(a.Name, b.Name))
	})
	return out[:min(len(out), paidListed)]
}
