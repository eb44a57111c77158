// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"cmp"
	"slices"

	"github.com/profinfer/profinfer/trace"
)

// Where the threads of the processes that compute were off their CPUs, and who had those meanwhile.

const (
	offOther = iota // it could run, another process's thread had the CPU
	offOwn          // the same, a thread of its own process
	offUnseen
	offDisk  // it slept and could not be interrupted
	offSleep // it slept, or was woken and the CPU did nothing yet
	offFault // it was in a page fault that read nothing
	offKinds
)

const (
	maxTracked = 1 << 14 // threads followed
	maxOffs    = 1 << 14 // spans kept of one
	maxWhos    = 1 << 12 // others told apart
	maxEarly   = 1 << 16 // events kept before a process is known
)

// offSpan is a time that a thread was off its CPU.
type offSpan struct {
	from, to int64
	who      int32 // index in whos; of a sleep: who ended it
	cpu      uint16
	kind     uint8
	// elsewhere: cpu is not the one that the thread waited for, but another that it may use.
	elsewhere bool
}

// whoKey is another thread as it is told: by name, and whether it belongs to the process that computes.
type whoKey struct {
	comm string
	own  bool
}

// whoIs is one with its process, as long as that is one.
type whoIs struct {
	whoKey
	pid    int32
	mixed  bool
	kernel bool
	held   int64 // how long it was seen to have a CPU, in all
}

type trackedThread struct {
	tid, pid    int32
	off         bool
	waits       bool // it can run
	blocked     bool
	from        int64
	cpu         uint16
	last        int32 // CPU that it ran on last; -1: not known
	spans       []offSpan
	faults      []offSpan // page faults, in order of their begins; where it was off its CPU in one, spans tell too
	holes       []int64   // times at which an event before was missing
	moved       int64
	preempted   int64
	movedBefore int64 // at the end of the step before
	computes    bool  // it took part in an operator
}

// tracker follows them through scheduling events.
type tracker struct {
	pids    map[int32]bool
	early   []trace.Sched
	seats   seats
	threads map[int32]*trackedThread
	whos    []whoIs
	whoAt   map[whoKey]int32
	any     bool
	dropped bool // more threads or spans than are kept
}

const (
	whoUnseen = iota
	whoIdle
	whoRest
)

func (k *tracker) init() {
	k.pids = map[int32]bool{}
	k.seats.init(func(_, pid int32) bool { return k.pids[pid] })
	k.seats.ran = func(r seatRun) {
		if w := &k.whos[k.who(&r.holder)]; !w.own {
			w.held += r.to - r.from
		}
	}
	k.threads = map[int32]*trackedThread{}
	k.whos = []whoIs{{whoKey: whoKey{comm: "(not seen)"}}, {whoKey: whoKey{comm: "(idle)"}}, {whoKey: whoKey{comm: "(others)"}}}
	k.whoAt = map[whoKey]int32{}
}

// process begins to follow a process's threads. What came before the first one is looked at now.
func (k *tracker) process(pid int32) {
	if k.pids[pid] || len(k.pids) >= maxModels {
		return
	}
	k.pids[pid] = true
	early := k.early
	k.early = nil
	for i := range early {
		k.event(&early[i])
	}
}

func (k *tracker) add(s *trace.Sched) {
	k.any = true
	if len(k.pids) == 0 {
		if len(k.early) < maxEarly {
			k.early = append(k.early, *s)
		}
		return
	}
	k.event(s)
}

func (k *tracker) thread(tid, pid int32) *trackedThread {
	if tid == 0 || !k.pids[pid] {
		return nil
	}
	t := k.threads[tid]
	if t == nil {
		if len(k.threads) >= maxTracked {
			k.dropped = true
			return nil
		}
		t = &trackedThread{tid: tid, pid: pid, last: -1}
		k.threads[tid] = t
	}
	return t
}

// who returns the index of a thread that has a CPU.
func (k *tracker) who(h *holder) int32 {
	switch h.tid {
	case 0:
		return whoIdle
	case notSeen.tid:
		return whoUnseen
	}
	key := whoKey{commOf(h.tid, h.comm), k.pids[h.pid]}
	i, ok := k.whoAt[key]
	if !ok {
		if len(k.whos) >= maxWhos {
			return whoRest
		}
		i = int32(len(k.whos))
		k.whos = append(k.whos, whoIs{whoKey: key, pid: h.pid, kernel: h.kernel})
		k.whoAt[key] = i
	}
	w := &k.whos[i]
	w.mixed = w.mixed || w.pid != h.pid
	w.kernel = w.kernel && h.kernel
	return i
}

func (k *tracker) event(s *trace.Sched) {
	ended, waited := k.seats.event(s)
	switch s.Kind {
	case trace.SchedWakeup:
		if t := k.thread(s.NextTID, s.NextPID); t != nil && t.off && !t.waits {
			t.slept(s.Time, k.who(&holder{s.PrevTID, s.PrevPID, s.PrevComm, s.PrevKernel}))
			t.off, t.waits, t.from = true, true, s.Time
		}
		return
	case trace.SchedLook:
		return
	}
	if t := k.thread(s.PrevTID, s.PrevPID); t != nil {
		if t.off { // it ran here, and the switch to it was not seen
			t.hole(t.from)
			t.hole(s.Time)
		}
		*t = trackedThread{tid: t.tid, pid: t.pid, spans: t.spans, faults: t.faults, holes: t.holes, moved: t.moved, preempted: t.preempted, movedBefore: t.movedBefore, computes: t.computes,
			off: true, waits: s.PrevState == 0, blocked: s.PrevState&uninterruptible != 0, from: s.Time, cpu: s.CPU, last: int32(s.CPU)}
		if t.waits {
			t.preempted++
		}
	}
	if t := k.thread(s.NextTID, s.NextPID); t != nil {
		if waited {
			k.on(t, s, &ended)
		} else {
			k.on(t, s, nil)
		}
	}
}

// on ends a thread's time off.
func (k *tracker) on(t *trackedThread, s *trace.Sched, ended *seatWait) {
	switch {
	case !t.off:
		if t.last >= 0 { // it had a CPU, and was not seen to leave it
			t.hole(s.Time)
		}
	case !t.waits: // its wake-up was not seen
		t.slept(s.Time, whoUnseen)
	case ended == nil: // more threads than are followed
		t.spans = append(t.spans, offSpan{from: t.from, to: s.Time, who: whoUnseen, cpu: t.cpu, kind: offUnseen})
	default:
		k.waited(t, ended)
	}
	if t.last >= 0 && t.last != int32(s.CPU) {
		t.moved++
	}
	t.off, t.waits, t.last, t.cpu = false, false, int32(s.CPU), s.CPU
	if len(t.spans) > maxOffs {
		t.spans = slices.Delete(t.spans, 0, maxOffs/2)
		k.dropped = true
	}
}

func (t *trackedThread) hole(at int64) {
	if len(t.holes) < maxOffs {
		t.holes = append(t.holes, at)
	}
}

func (t *trackedThread) slept(to int64, who int32) {
	kind := uint8(offSleep)
	if t.blocked {
		kind = offDisk
	}
	if to > t.from {
		t.spans = append(t.spans, offSpan{from: t.from, to: to, who: who, cpu: t.cpu, kind: kind})
	}
}

// waited says who had the CPU while a thread could run: where it was pushed off, that CPU, also if it then went on elsewhere; where it was
// woken, the one that it got; and where its own team had that, those who had the others that it may use.
func (k *tracker) waited(t *trackedThread, ended *seatWait) {
	k.seats.explain(ended, func(p waitPart) {
		who := k.who(&p.holder)
		kind := uint8(offOther)
		switch {
		case who == whoUnseen:
			kind = offUnseen
		case who == whoIdle:
			kind = offSleep
		case k.whos[who].own:
			kind = offOwn
		}
		t.spans = append(t.spans, offSpan{from: p.from, to: p.to, who: who, cpu: p.cpu, kind: kind, elsewhere: p.elsewhere})
	})
}

// forget drops what ended before a time, of one process.
func (k *tracker) forget(pid int32, before int64) {
	for _, t := range k.threads {
		if t.pid != pid {
			continue
		}
		i, _ := slices.BinarySearchFunc(t.spans, before, func(r offSpan, at int64) int { return cmp.Compare(r.to, at) })
		t.spans = slices.Delete(t.spans, 0, i)
		n := 0
		for n < len(t.faults) && t.faults[n].to <= before {
			n++
		}
		t.faults = slices.Delete(t.faults, 0, n)
		j, _ := slices.BinarySearch(t.holes, before)
		t.holes = slices.Delete(t.holes, 0, j)
	}
}

// fault notes a page fault of a thread.
func (k *tracker) fault(pid, tid int32, from, to int64, reads bool) {
	k.process(pid)
	t := k.thread(tid, pid)
	if t == nil || to <= from {
		return
	}
	if len(t.faults) >= maxOffs {
		t.faults = slices.Delete(t.faults, 0, maxOffs/2)
		k.dropped = true
	}
	kind := uint8(offFault)
	if reads {
		kind = offDisk
	}
	i := len(t.faults)
	for i > 0 && t.faults[i-1].from > from {
		i--
	}
	t.faults = slices.Insert(t.faults, i, offSpan{from: from, to: to, who: whoUnseen, cpu: t.cpu, kind: kind})
}

// within calls f for the spans of a thread that lie in from..to, cut to it, and returns their sum, with what it was on its CPU in
// page faults. ok is false where events of it were missed in that time.
func (t *trackedThread) within(from, to int64, f func(s offSpan)) (sum, faults int64, ok bool) {
	if t == nil || to <= from {
		return 0, 0, true
	}
	put := func(s offSpan, from, to int64) {
		if to > from {
			sum += to - from
			if f != nil {
				s.from, s.to = from, to
				f(s)
			}
		}
	}
	first, _ := slices.BinarySearchFunc(t.spans, from, func(r offSpan, at int64) int { return cmp.Compare(r.to, at) })
	for i := first; i < len(t.spans) && t.spans[i].from < to; i++ {
		put(t.spans[i], max(t.spans[i].from, from), min(t.spans[i].to, to))
	}
	off := sum
	at := from // faults do not overlap, if they do they count once
	for _, s := range t.faults {
		if s.from >= to {
			break
		}
		at = max(at, s.from)
		end := min(s.to, to)
		for i := first; i < len(t.spans) && t.spans[i].from < end; i++ {
			if t.spans[i].to > at {
				put(s, at, min(t.spans[i].from, end))
				at = max(at, t.spans[i].to)
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
	if t.off && t.from < to { // it did something since: the switch to it was not seen
		ok = false
	}
	return sum, faults, ok
}
