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
// meanwhile. Time a thread slept is no interference, whoever ran.
type interference struct {
	cpus    map[uint16]*cpuState
	threads map[int32]*waiter
	// Threads waiting for a CPU, by CPU: few at any time.
	queue map[uint16][]*waiter
	any   bool
	// The team that was watched last, or a part of it.
	watched []int32
	step    map[name]*Culprit // who ran in place of any thread since the last call of since
}

// cpuState is who runs on a CPU since when.
type cpuState struct {
	who   other
	since int64
}

// other is a thread that ran on a CPU or woke one: its number, and its name with whether it is
// one of those that compute.
type other struct {
	tid int32
	name
}

type name struct {
	comm string
	own  bool
}

// waiter is one thread that computes, as the scheduler sees it.
type waiter struct {
	tid       int32
	waiting   bool
	cpu       uint16
	since     int64
	preempted int64
	slept     int64
	runnable  int64
	instead   map[name]*Culprit
	wokenBy   map[name]*Culprit
}

func (f *interference) init() {
	f.cpus = map[uint16]*cpuState{}
	f.threads = map[int32]*waiter{}
	f.queue = map[uint16][]*waiter{}
	f.step = map[name]*Culprit{}
}

// watch begins to follow the threads of an operator's team.
func (f *interference) watch(team []OpThread) {
	for i := range team {
		tid := team[i].TID
		if i < len(f.watched) && f.watched[i] == tid {
			continue
		}
		if f.threads[tid] == nil {
			f.threads[tid] = &waiter{tid: tid, instead: map[name]*Culprit{}, wokenBy: map[name]*Culprit{}}
		}
		f.watched = append(f.watched[:min(i, len(f.watched))], tid)
	}
}

// add takes one event; events come in order of time.
func (f *interference) add(s *trace.Sched) {
	f.any = true
	if s.Kind == trace.SchedWakeup {
		w := f.threads[s.NextTID]
		if w == nil {
			return
		}
		count(w.wokenBy, f.who(s.PrevTID, s.PrevComm).name, 0)
		if !w.waiting {
			f.wait(w, s.CPU, s.Time)
		}
		return
	}
	c := f.cpus[s.CPU]
	if w := f.threads[s.PrevTID]; w != nil && w.waiting {
		// It ran here, but the switch to it was not seen: how long it waited is known only up to the last
		// switch that was.
		if c != nil && w.cpu == s.CPU {
			w.runnable += max(0, c.since-w.since)
		}
		f.leave(w)
	}
	if c == nil {
		c = &cpuState{since: s.Time}
		f.cpus[s.CPU] = c
	} else {
		// Who left ran since the last switch here, unless switches in between were not seen.
		ran := f.who(s.PrevTID, s.PrevComm).name
		if c.who.tid != s.PrevTID {
			ran = name{comm: "(not seen)"}
		}
		for _, w := range f.queue[s.CPU] {
			f.charge(w, ran, c.since, s.Time)
		}
	}
	c.who, c.since = f.who(s.NextTID, s.NextComm), s.Time
	if w := f.threads[s.PrevTID]; w != nil {
		if s.PrevState == 0 {
			w.preempted++
			f.wait(w, s.CPU, s.Time)
		} else {
			w.slept++
		}
	}
	if w := f.threads[s.NextTID]; w != nil {
		f.run(w, s)
	}
}

// wait puts a thread into a CPU's queue.
func (f *interference) wait(w *waiter, cpu uint16, now int64) {
	f.leave(w)
	w.waiting, w.cpu, w.since = true, cpu, now
	f.queue[cpu] = append(f.queue[cpu], w)
}

func (f *interference) leave(w *waiter) {
	if w.waiting {
		f.queue[w.cpu] = slices.DeleteFunc(f.queue[w.cpu], func(o *waiter) bool { return o == w })
		w.waiting = false
	}
}

// run ends a thread's waiting. Where it moved to another CPU, what its old one did since that
// CPU's last switch is still to be charged.
func (f *interference) run(w *waiter, s *trace.Sched) {
	if !w.waiting {
		return
	}
	w.runnable += max(0, s.Time-w.since)
	if w.cpu != s.CPU {
		if c := f.cpus[w.cpu]; c != nil {
			f.charge(w, c.who.name, c.since, s.Time)
		}
	}
	f.leave(w)
}

// charge counts the part of from..to in which w waited.
func (f *interference) charge(w *waiter, ran name, from, to int64) {
	if d := to - max(from, w.since); d > 0 {
		count(w.instead, ran, d)
		count(f.step, ran, d)
	}
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

func count(m map[name]*Culprit, who name, d int64) {
	c := m[who]
	if c == nil {
		if len(m) >= maxNames {
			who = name{comm: "(others)"}
			c = m[who]
		}
		if c == nil {
			c = &Culprit{Comm: who.comm, Own: who.own}
			m[who] = c
		}
	}
	c.Dur += d
	c.Count++
}

// who names a thread; thread 0 is a CPU's idle loop.
func (f *interference) who(tid int32, comm string) other {
	o := other{tid: tid, name: name{comm: comm, own: f.threads[tid] != nil}}
	switch {
	case tid == 0:
		o.comm = "(idle)"
	case comm == "":
		o.comm = "(unknown)"
	}
	return o
}

// culprits returns the first n of m, by time, then by count.
func culprits(m map[name]*Culprit, n int) []Culprit {
	all := make([]Culprit, 0, len(m))
	for _, c := range m {
		all = append(all, *c)
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
