// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"cmp"
	"slices"

	"github.com/profinfer/profinfer/profile/internal/limits"
	"github.com/profinfer/profinfer/profile/internal/oncpu"
	"github.com/profinfer/profinfer/trace"
)

// When the threads of the computing processes were off-CPU, and who had their CPUs meanwhile.

const (
	OffOther = iota // it was runnable, and another process's thread had the CPU
	OffOwn          // the same, with a thread of its own process
	OffUnseen
	OffDisk  // uninterruptible sleep
	OffSleep // it slept, or was woken and the CPU was still idle
	OffFault // it was in a page fault that read nothing
	OffKinds
)

const (
	MaxTracked = 1 << 14 // threads followed
	maxOffs    = 1 << 14 // spans kept of one thread
	maxWhos    = 1 << 12 // distinct other threads
	maxEarly   = 1 << 16 // events kept before a process is known
)

// OffSpan is an interval in which a thread was off-CPU.
type OffSpan struct {
	From, To int64
	Who      int32 // index in whos; of a sleep: who ended it
	Cpu      uint16
	Kind     uint8
	// Elsewhere: cpu is not the one that the thread waited for, but another one that it may use.
	Elsewhere bool
}

// whoKey identifies another thread as it is reported: by name, and whether it belongs to the computing
// process.
type whoKey struct {
	Comm string
	Own  bool
}

// whoIs is such a thread with its process, as long as that is always the same.
type whoIs struct {
	whoKey
	Pid    int32
	Mixed  bool
	Kernel bool
	Held   int64 // total time it was seen to have a CPU
}

type TrackedThread struct {
	Tid, Pid int32
	oncpu.Thread
	last  int32 // CPU that it ran on last; -1: unknown
	spans []OffSpan
	// page faults, in order of their begins; off-CPU time within them is in spans as well
	faults      []OffSpan
	holes       []int64 // times before which an event was missing
	Moved       int64
	Preempted   int64
	MovedBefore int64 // at the end of the previous step
	Computes    bool  // it took part in an operator
}

// Tracker follows threads through scheduling events.
type Tracker struct {
	pids    map[int32]bool
	early   []trace.Sched
	Seats   seats
	Threads map[int32]*TrackedThread
	Whos    []whoIs
	whoAt   map[whoKey]int32
	Any     bool
	dropped bool // more threads or spans than can be kept
}

const (
	Unseen = iota
	whoIdle
	Rest
)

func (k *Tracker) Init() {
	k.pids = map[int32]bool{}
	k.Seats.init(func(_, pid int32) bool { return k.pids[pid] })
	k.Seats.ran = func(r run) {
		if w := &k.Whos[k.who(&r.holder)]; !w.Own {
			w.Held += r.to - r.from
		}
	}
	k.Threads = map[int32]*TrackedThread{}
	k.Whos = []whoIs{{whoKey: whoKey{Comm: "(not seen)"}}, {whoKey: whoKey{Comm: "(idle)"}},
		{whoKey: whoKey{Comm: "(others)"}}}
	k.whoAt = map[whoKey]int32{}
}

// Process starts following a process's threads. Events before the first process are processed now.
func (k *Tracker) Process(pid int32) {
	if k.pids[pid] || len(k.pids) >= limits.Models {
		return
	}
	k.pids[pid] = true
	early := k.early
	k.early = nil
	for i := range early {
		k.event(&early[i])
	}
}

func (k *Tracker) Add(s *trace.Sched) {
	k.Any = true
	if len(k.pids) == 0 {
		if len(k.early) < maxEarly {
			k.early = append(k.early, *s)
		}
		return
	}
	k.event(s)
}

func (k *Tracker) thread(tid, pid int32) *TrackedThread {
	if tid == 0 || !k.pids[pid] {
		return nil
	}
	t := k.Threads[tid]
	if t == nil {
		if len(k.Threads) >= MaxTracked {
			k.dropped = true
			return nil
		}
		t = &TrackedThread{Tid: tid, Pid: pid, last: -1}
		k.Threads[tid] = t
	}
	return t
}

// who returns the index of a thread that has a CPU.
func (k *Tracker) who(h *holder) int32 {
	switch h.tid {
	case 0:
		return whoIdle
	case notSeen.tid:
		return Unseen
	}
	key := whoKey{commOf(h.tid, h.comm), k.pids[h.pid]}
	i, ok := k.whoAt[key]
	if !ok {
		if len(k.Whos) >= maxWhos {
			return Rest
		}
		i = int32(len(k.Whos))
		k.Whos = append(k.Whos, whoIs{whoKey: key, Pid: h.pid, Kernel: h.kernel})
		k.whoAt[key] = i
	}
	w := &k.Whos[i]
	w.Mixed = w.Mixed || w.Pid != h.pid
	w.Kernel = w.Kernel && h.kernel
	return i
}

func (k *Tracker) event(s *trace.Sched) {
	ended, _ := k.Seats.event(s)
	switch s.Kind {
	case trace.SchedWakeup:
		if t := k.thread(s.NextTID, s.NextPID); t != nil {
			if was, ok := t.Wake(s.Time, s.CPU); ok && was.State.Off() {
				t.slept(&was, s.Time, k.who(&holder{s.PrevTID, s.PrevPID, s.PrevComm, s.PrevKernel}))
			}
		}
		return
	case trace.SchedLook:
		return
	}
	if t := k.thread(s.PrevTID, s.PrevPID); t != nil {
		// it ran here; if it seemed not to, the switch to it was not seen
		if was := t.Leave(s.Time, s.CPU, s.PrevState); was.State.Off() {
			t.hole(was.Since)
			t.hole(s.Time)
		}
		t.last = int32(s.CPU)
		if t.State == oncpu.Preempted {
			t.Preempted++
		}
	}
	if t := k.thread(s.NextTID, s.NextPID); t != nil {
		k.on(t, s, &ended)
	}
}

// on ends a thread's off-CPU interval.
func (k *Tracker) on(t *TrackedThread, s *trace.Sched, ended *seatWait) {
	switch was := t.Enter(s.Time, s.CPU); {
	case !was.State.Off():
		if t.last >= 0 { // it had a CPU, and was not seen to leave it
			t.hole(s.Time)
		}
	case !was.State.Runnable(): // its wake-up was not seen
		t.slept(&was, s.Time, Unseen)
	case ended.tid == 0: // more threads than are followed
		t.spans = append(t.spans, OffSpan{From: was.Since, To: s.Time, Who: Unseen, Cpu: was.CPU,
			Kind: OffUnseen})
	default:
		k.waited(t, ended)
	}
	if t.last >= 0 && t.last != int32(s.CPU) {
		t.Moved++
	}
	t.last = int32(s.CPU)
	if len(t.spans) > maxOffs {
		t.spans = slices.Delete(t.spans, 0, maxOffs/2)
		k.dropped = true
	}
}

func (t *TrackedThread) hole(at int64) {
	if len(t.holes) < maxOffs {
		t.holes = append(t.holes, at)
	}
}

// slept adds a sleep, which began as was says.
func (t *TrackedThread) slept(was *oncpu.Thread, to int64, who int32) {
	kind := uint8(OffSleep)
	if was.State == oncpu.Blocked {
		kind = OffDisk
	}
	if to > was.Since {
		t.spans = append(t.spans, OffSpan{From: was.Since, To: to, Who: who, Cpu: was.CPU, Kind: kind})
	}
}

// waited determines who had the CPU while a thread was runnable. For a preempted thread that is the CPU it
// was pushed off, even if it continued elsewhere; for a woken thread, the one that it got. Where its own team
// had that CPU, it is those who had the other CPUs that the thread may use.
func (k *Tracker) waited(t *TrackedThread, ended *seatWait) {
	k.Seats.explain(ended, func(p waitPart) {
		who := k.who(&p.holder)
		kind := uint8(OffOther)
		switch {
		case who == Unseen:
			kind = OffUnseen
		case who == whoIdle:
			kind = OffSleep
		case k.Whos[who].Own:
			kind = OffOwn
		}
		t.spans = append(t.spans, OffSpan{From: p.from, To: p.to, Who: who, Cpu: p.cpu, Kind: kind,
			Elsewhere: p.elsewhere})
	})
}

// Forget drops what ended before a time, for one process.
func (k *Tracker) Forget(pid int32, before int64) {
	for _, t := range k.Threads {
		if t.Pid != pid {
			continue
		}
		i, _ := slices.BinarySearchFunc(t.spans, before, func(r OffSpan, at int64) int {
			return cmp.Compare(r.To, at)
		})
		t.spans = slices.Delete(t.spans, 0, i)
		n := 0
		for n < len(t.faults) && t.faults[n].To <= before {
			n++
		}
		t.faults = slices.Delete(t.faults, 0, n)
		j, _ := slices.BinarySearch(t.holes, before)
		t.holes = slices.Delete(t.holes, 0, j)
	}
}

// Fault notes a page fault of a thread.
func (k *Tracker) Fault(pid, tid int32, from, to int64, reads bool) {
	k.Process(pid)
	t := k.thread(tid, pid)
	if t == nil || to <= from {
		return
	}
	if len(t.faults) >= maxOffs {
		t.faults = slices.Delete(t.faults, 0, maxOffs/2)
		k.dropped = true
	}
	kind := uint8(OffFault)
	if reads {
		kind = OffDisk
	}
	i := len(t.faults)
	for i > 0 && t.faults[i-1].From > from {
		i--
	}
	t.faults = slices.Insert(t.faults, i, OffSpan{From: from, To: to, Who: Unseen, Cpu: t.CPU, Kind: kind})
}

// Within calls f for the spans of a thread in from..to, clipped to it. It returns their sum, and the time it
// spent on its CPU in page faults. ok is false where events of the thread are missing in that time.
func (t *TrackedThread) Within(from, to int64, f func(s OffSpan)) (sum, faults int64, ok bool) {
	if t == nil || to <= from {
		return 0, 0, true
	}
	put := func(s OffSpan, from, to int64) {
		if to > from {
			sum += to - from
			if f != nil {
				s.From, s.To = from, to
				f(s)
			}
		}
	}
	first, _ := slices.BinarySearchFunc(t.spans, from, func(r OffSpan, at int64) int {
		return cmp.Compare(r.To, at)
	})
	for i := first; i < len(t.spans) && t.spans[i].From < to; i++ {
		put(t.spans[i], max(t.spans[i].From, from), min(t.spans[i].To, to))
	}
	off := sum
	at := from // faults do not overlap; if they do, they count once
	for _, s := range t.faults {
		if s.From >= to {
			break
		}
		at = max(at, s.From)
		end := min(s.To, to)
		for i := first; i < len(t.spans) && t.spans[i].From < end; i++ {
			if t.spans[i].To > at {
				put(s, at, min(t.spans[i].From, end))
				at = max(at, t.spans[i].To)
			}
		}
		put(s, at, end)
		at = max(at, end)
	}
	faults = sum - off
	ok = true
	if len(t.holes) > 0 {
		i, _ := slices.BinarySearch(t.holes, from)
		ok = i == len(t.holes) || t.holes[i] > to
	}
	if t.State.Off() && t.Since < to { // it was active since: the switch to it was not seen
		ok = false
	}
	return sum, faults, ok
}
