// SPDX-License-Identifier: Apache-2.0

// Package sched follows the scheduler: which threads are runnable without a CPU, which CPUs they were taken
// off, and who ran there instead.
package sched

import (
	"cmp"
	"slices"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/trace"
)

// maxNames bounds how many names of other threads are kept for one thread; the rest are summed up as
// "(others)".
const maxNames = 256

// Follower finds who ran in place of the computing threads. A thread can be runnable without running: it was
// taken off its CPU, or was woken. That is charged to whoever ran on that CPU meanwhile, or on the other CPUs
// that the thread may use. Time a thread slept is not interference, whoever ran.
type Follower struct {
	Seats   seats
	Threads map[int32]*waiter
	Any     bool
	// The team that was watched last, or a part of it.
	watched []int32
	step    map[CulpritKey]*Culprit // who ran in place of any thread since the last call of Since
	held    map[string]int64        // by name, of threads of other processes
}

type CulpritKey struct {
	Comm string
	Own  bool
}

// waiter is one computing thread, as the scheduler sees it.
type waiter struct {
	Preempted int64
	Slept     int64
	Runnable  int64
	Instead   map[CulpritKey]*Culprit
	WokenBy   map[CulpritKey]*Culprit
}

func (f *Follower) Init() {
	f.Threads = map[int32]*waiter{}
	f.step = map[CulpritKey]*Culprit{}
	f.held = map[string]int64{}
	f.Seats.init(func(tid, _ int32) bool { return f.Threads[tid] != nil })
	f.Seats.ran = func(r run) {
		if f.Threads[r.tid] == nil && (len(f.held) < MaxTracked || f.held[r.comm] > 0) {
			f.held[r.comm] += r.to - r.from
		}
	}
}

// SetHeld sets how long culprits of other processes were seen to have a CPU.
func (f *Follower) SetHeld(all []Culprit) {
	for i := range all {
		if c := &all[i]; !c.Own && !c.Unnamed() {
			c.Held = max(c.Dur, f.held[c.Comm])
		}
	}
}

// Watch starts following the threads of an operator's team.
func (f *Follower) Watch(team []profile.OpThread) {
	for i := range team {
		tid := team[i].TID
		if i < len(f.watched) && f.watched[i] == tid {
			continue
		}
		if f.Threads[tid] == nil {
			f.Threads[tid] = &waiter{Instead: map[CulpritKey]*Culprit{}, WokenBy: map[CulpritKey]*Culprit{}}
		}
		f.watched = append(f.watched[:min(i, len(f.watched))], tid)
	}
}

// MayUse returns how many CPUs the watched threads of a process may use together; 0 if unknown.
func (f *Follower) MayUse() int {
	var all cpuMask
	for tid := range f.Threads {
		m := f.Seats.allowed[tid]
		if m == nil {
			return 0
		}
		all = all.with(m)
	}
	return all.count()
}

// Add takes one event; events come in time order.
func (f *Follower) Add(s *trace.Sched) {
	f.Any = true
	switch s.Kind {
	case trace.SchedWakeup:
		if w := f.Threads[s.NextTID]; w != nil {
			AddCulprit(w.WokenBy, &Culprit{Comm: commOf(s.PrevTID, s.PrevComm),
				Own: f.Threads[s.PrevTID] != nil, Count: 1})
		}
	case trace.SchedSwitch:
		if w := f.Threads[s.PrevTID]; w != nil {
			if s.PrevState == 0 {
				w.Preempted++
			} else {
				w.Slept++
			}
		}
	}
	ended, unseen := f.Seats.event(s)
	f.charge(&unseen)
	f.charge(&ended)
}

// charge attributes a wait to its causes.
func (f *Follower) charge(ended *seatWait) {
	w := f.Threads[ended.tid]
	if w == nil {
		return
	}
	w.Runnable += max(0, ended.to-ended.from)
	f.Seats.explain(ended, func(p waitPart) {
		c := Culprit{Comm: commOf(p.tid, p.comm), Own: f.Threads[p.tid] != nil, PID: max(0, p.pid),
			Kernel: p.kernel, Dur: p.to - p.from, Count: 1}
		c.on.Add(p.cpu)
		if c.From, c.To = p.from, p.to; p.elsewhere {
			c.Elsewhere = c.Dur
		}
		if p.free {
			c.Free = c.Dur
		}
		AddCulprit(w.Instead, &c)
		AddCulprit(f.step, &c)
	})
}

// Since returns who ran in place of the threads since it was last called.
func (f *Follower) Since() []Culprit {
	if len(f.step) == 0 {
		return nil
	}
	c := TopCulprits(f.step, 5)
	clear(f.step)
	return c
}

// Holders calls each for the CPUs that were seen between two times, with how long computing threads and
// threads of other processes had them, and how long they were idle. The rest of the time was not seen.
func (f *Follower) Holders(from, to int64, each func(cpu uint16, own, others, idle int64)) {
	for cpu := range f.Seats.cpus {
		var own, others, idle int64
		f.Seats.each(cpu, from, to, func(r run) {
			switch {
			case f.Seats.another(&r.holder):
				others += r.to - r.from
			case r.tid == 0:
				idle += r.to - r.from
			case r.tid > 0:
				own += r.to - r.from
			}
		})
		each(cpu, own, others, idle)
	}
}

// AddCulprit adds x to the entry of the same name.
func AddCulprit(m map[CulpritKey]*Culprit, x *Culprit) {
	who := CulpritKey{x.Comm, x.Own}
	c := m[who]
	if c == nil {
		if len(m) >= maxNames {
			who = CulpritKey{Comm: "(others)"}
			c = m[who]
		}
		if c == nil {
			c = &Culprit{Comm: who.Comm, Own: who.Own, PID: x.PID, Kernel: x.Kernel}
			m[who] = c
		}
	}
	if c.PID != x.PID {
		c.PID = 0
	}
	c.Kernel = c.Kernel && x.Kernel
	c.Dur += x.Dur
	c.Count += x.Count
	if x.To > 0 {
		if c.To == 0 || x.From < c.From {
			c.From = x.From
		}
		c.To = max(c.To, x.To)
	}
	c.Elsewhere += x.Elsewhere
	c.Free += x.Free
	for i, w := range x.on {
		c.on[i] |= w
	}
}

// commOf returns a thread's name; thread 0 is a CPU's idle loop.
func commOf(tid int32, comm string) string {
	switch {
	case tid == 0:
		return "(idle)"
	case comm == "":
		return "(unknown)"
	}
	return comm
}

// TopCulprits returns the first n of m, by time, then by count.
func TopCulprits(m map[CulpritKey]*Culprit, n int) []Culprit {
	all := make([]Culprit, 0, len(m))
	for _, c := range m {
		x := *c
		x.CPUs = cpuMask(x.on[:]).list(8)
		all = append(all, x)
	}
	slices.SortFunc(all, func(a, b Culprit) int {
		return cmp.Or(cmp.Compare(b.Dur, a.Dur), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Comm, b.Comm),
			CompareBool(b.Own, a.Own))
	})
	return all[:min(n, len(all))]
}

func CompareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
