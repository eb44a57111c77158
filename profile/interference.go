// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"cmp"
	"slices"

	"github.com/profinfer/profinfer/trace"
)

// maxNames bounds how many names of other threads are kept for one thread; the rest go by
// "(others)".
const maxNames = 256

// interference finds who ran in place of the threads that compute. A thread that could run
// (it was taken off its CPU, or was woken) but did not is in the way of whoever ran on that CPU
// meanwhile, or of those who had the others that it may use. Time a thread slept is no interference, whoever ran.
type interference struct {
	seats   seats
	threads map[int32]*waiter
	any     bool
	// The team that was watched last, or a part of it.
	watched []int32
	step    map[name]*Culprit // who ran in place of any thread since the last call of since
}

type name struct {
	comm string
	own  bool
}

// waiter is one thread that computes, as the scheduler sees it.
type waiter struct {
	preempted int64
	slept     int64
	runnable  int64
	instead   map[name]*Culprit
	wokenBy   map[name]*Culprit
}

func (f *interference) init() {
	f.threads = map[int32]*waiter{}
	f.step = map[name]*Culprit{}
	f.seats.init(func(tid, _ int32) bool { return f.threads[tid] != nil })
}

// watch begins to follow the threads of an operator's team.
func (f *interference) watch(team []OpThread) {
	for i := range team {
		tid := team[i].TID
		if i < len(f.watched) && f.watched[i] == tid {
			continue
		}
		if f.threads[tid] == nil {
			f.threads[tid] = &waiter{instead: map[name]*Culprit{}, wokenBy: map[name]*Culprit{}}
		}
		f.watched = append(f.watched[:min(i, len(f.watched))], tid)
	}
}

// mayUse is how many CPUs the threads of a process that were watched may use together; 0 if that is not known.
func (f *interference) mayUse() int {
	var all cpuMask
	for tid := range f.threads {
		m := f.seats.allowed[tid]
		if m == nil {
			return 0
		}
		all = all.with(m)
	}
	return all.count()
}

// add takes one event; events come in order of time.
func (f *interference) add(s *trace.Sched) {
	f.any = true
	switch s.Kind {
	case trace.SchedWakeup:
		if w := f.threads[s.NextTID]; w != nil {
			count(w.wokenBy, &Culprit{Comm: commOf(s.PrevTID, s.PrevComm), Own: f.threads[s.PrevTID] != nil, Count: 1})
		}
	case trace.SchedSwitch:
		if w := f.threads[s.PrevTID]; w != nil {
			f.unseen(w, s)
			if s.PrevState == 0 {
				w.preempted++
			} else {
				w.slept++
			}
		}
	}
	if ended, ok := f.seats.event(s); ok {
		f.charge(&ended)
	}
}

// unseen takes a thread that ran here, though the switch to it was not seen: how long it waited is known only up to the last switch
// that was.
func (f *interference) unseen(w *waiter, s *trace.Sched) {
	open, c := f.seats.open[s.PrevTID], f.seats.cpus[s.CPU]
	if open == nil || c == nil || !open.placed || open.cpu != s.CPU || c.since <= open.from {
		return
	}
	ended := *open
	ended.to = c.since
	f.charge(&ended)
}

// charge counts a wait for those who are behind it.
func (f *interference) charge(ended *seatWait) {
	w := f.threads[ended.tid]
	w.runnable += max(0, ended.to-ended.from)
	f.seats.explain(ended, func(p waitPart) {
		c := Culprit{Comm: commOf(p.tid, p.comm), Own: f.threads[p.tid] != nil, PID: max(0, p.pid), Kernel: p.kernel, Dur: p.to - p.from, Count: 1}
		c.on.add(p.cpu)
		if p.elsewhere {
			c.Elsewhere = c.Dur
		}
		if p.free {
			c.Free = c.Dur
		}
		count(w.instead, &c)
		count(f.step, &c)
	})
}

// since returns who ran in place of the threads since it was last called.
func (f *interference) since() []Culprit {
	if len(f.step) == 0 {
		return nil
	}
	c := culprits(f.step, 5)
	clear(f.step)
	return c
}

// count adds x to what is known of the same name.
func count(m map[name]*Culprit, x *Culprit) {
	who := name{x.Comm, x.Own}
	c := m[who]
	if c == nil {
		if len(m) >= maxNames {
			who = name{comm: "(others)"}
			c = m[who]
		}
		if c == nil {
			c = &Culprit{Comm: who.comm, Own: who.own, PID: x.PID, Kernel: x.Kernel}
			m[who] = c
		}
	}
	if c.PID != x.PID {
		c.PID = 0
	}
	c.Kernel = c.Kernel && x.Kernel
	c.Dur += x.Dur
	c.Count += x.Count
	c.Elsewhere += x.Elsewhere
	c.Free += x.Free
	for i, w := range x.on {
		c.on[i] |= w
	}
}

// commOf names a thread; thread 0 is a CPU's idle loop.
func commOf(tid int32, comm string) string {
	switch {
	case tid == 0:
		return "(idle)"
	case comm == "":
		return "(unknown)"
	}
	return comm
}

// culprits returns the first n of m, by time, then by count.
func culprits(m map[name]*Culprit, n int) []Culprit {
	all := make([]Culprit, 0, len(m))
	for _, c := range m {
		x := *c
		x.CPUs = cpuMask(x.on[:]).list(8)
		all = append(all, x)
	}
	slices.SortFunc(all, func(a, b Culprit) int {
		return cmp.Or(cmp.Compare(b.Dur, a.Dur), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Comm, b.Comm), compareBool(b.Own, a.Own))
	})
	return all[:min(n, len(all))]
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
