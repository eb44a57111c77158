// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"cmp"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/profinfer/profinfer/profile/internal/oncpu"
	"github.com/profinfer/profinfer/trace"
)

// This file tracks who has which CPU, and what a runnable thread without a CPU waits for. The scheduler moves
// threads that another process has pushed off their CPU to other CPUs. They then share these, and each waits
// for one of its own team, while the cause is on a CPU where no thread of the team waits. So where a thread
// waits behind one of its own team, the other CPUs that it may use are looked at too.

const (
	maxSeatRuns  = 512  // runs kept per CPU
	maxSeatWaits = 1024 // waits kept
	maxEdges     = 256  // in an interval in which a team shares CPUs
)

// holder is a thread that has a CPU; tid 0 is the idle loop, -1 an unseen thread.
type holder struct {
	tid, pid int32
	comm     string
	kernel   bool
}

func (h holder) ThreadID() int32 { return h.tid }

var notSeen = holder{tid: -1, comm: "(not seen)"}

// run is an interval in which a thread had a CPU.
type run struct {
	holder
	from, to int64
}

// seat is a CPU with who had it before, oldest first.
type seat struct {
	oncpu.CPU[holder]
	runs []run
}

// seatWait is an interval in which a computing thread was runnable without a CPU.
type seatWait struct {
	tid, pid int32
	from, to int64
	cpu      uint16 // that it was pushed off or, if woken, that it got
	placed   bool   // cpu is known
}

// waitPart is a part of a wait, with who had the CPU that the thread waited for.
type waitPart struct {
	run

	cpu       uint16
	elsewhere bool // one of its team had that CPU, and the holder has another that it may use
	free      bool // one of its team had it, and another CPU that it may use was idle
}

// seats tracks CPUs and the waits of the team's own threads.
type seats struct {
	own     func(tid, pid int32) bool
	ran     func(run) // called for each run when it ends; may be nil
	cpus    map[uint16]*seat
	allowed map[int32]cpuMask // by thread
	ofPID   map[int32]cpuMask // of some thread of a process
	active  map[int32]*active // own threads that have a CPU or lack nothing else
	closed  []seatWait        // in order of their ends
	edges   []int64
	beside  []uint16
	behind  []seatQueue
}

// seatQueue is how many threads wait for a CPU that another process has.
type seatQueue struct {
	cpu uint16
	n   int64
}

func (s *seats) init(own func(tid, pid int32) bool) {
	*s = seats{own: own, cpus: map[uint16]*seat{}, allowed: map[int32]cpuMask{}, ofPID: map[int32]cpuMask{},
		active: map[int32]*active{}}
}

// Thread takes the set of CPUs that a thread may use.
func (s *seats) Thread(t *trace.Thread) {
	m, ok := parseCPUs(t.CPUs)
	if !ok {
		return
	}
	if len(s.allowed) >= MaxTracked {
		clear(s.allowed)
	}
	if len(s.ofPID) >= MaxTracked {
		clear(s.ofPID)
	}
	s.allowed[t.TID], s.ofPID[t.PID] = m, m
}

// mask returns the CPUs that a thread may use; nil if unknown.
func (s *seats) mask(tid, pid int32) cpuMask {
	if m := s.allowed[tid]; m != nil {
		return m
	}
	return s.ofPID[pid]
}

// active is a thread of the team that has a CPU or lacks nothing else.
type active struct {
	oncpu.Thread
	pid int32
}

// wait returns how long an active thread has been runnable.
func (a *active) wait(tid int32) seatWait {
	return seatWait{tid: tid, pid: a.pid, from: a.Since, cpu: a.CPU, placed: a.State == oncpu.Preempted}
}

// event takes one scheduling event. It returns the wait that it ends; one that is known only up to an earlier
// time ends there.
func (s *seats) event(e *trace.Sched) (ended, unseen seatWait) {
	switch e.Kind {
	case trace.SchedWakeup:
		if s.own(e.NextTID, e.NextPID) {
			if t := s.thread(e.NextTID, e.NextPID); t != nil {
				t.Wake(e.Time, e.CPU)
			}
		}
		return
	case trace.SchedLook:
		c := s.cpu(e)
		s.keep(c, c.Look(e.Time, e.Held, holder{e.NextTID, e.NextPID, e.NextComm, e.NextKernel}))
		return
	}
	c := s.cpu(e)
	last := c.Since
	s.keep(c, c.Switch(e.Time, e.Held, holder{e.PrevTID, e.PrevPID, e.PrevComm, e.PrevKernel},
		holder{e.NextTID, e.NextPID, e.NextComm, e.NextKernel}))
	if s.own(e.PrevTID, e.PrevPID) {
		if t := s.thread(e.PrevTID, e.PrevPID); t != nil {
			w := t.wait(e.PrevTID)
			was := t.Leave(e.Time, e.CPU, e.PrevState)
			if w.placed {
				w.to = was.KnownUntil(e.CPU, last)
				unseen = w
			}
			if !t.State.Runnable() {
				delete(s.active, e.PrevTID)
			}
		}
	}
	if !s.own(e.NextTID, e.NextPID) {
		return
	}
	t := s.thread(e.NextTID, e.NextPID)
	if t == nil {
		return
	}
	w := t.wait(e.NextTID)
	if !t.Enter(e.Time, e.CPU).State.Runnable() {
		return
	}
	w.to = e.Time
	if !w.placed {
		w.cpu, w.placed = e.CPU, true
	}
	if len(s.closed) >= maxSeatWaits {
		s.closed = slices.Delete(s.closed, 0, maxSeatWaits/2)
	}
	s.closed = append(s.closed, w)
	return w, unseen
}

// keep adds what has ended on a CPU to its past.
func (s *seats) keep(c *seat, ended []oncpu.Run[holder]) {
	for _, x := range ended {
		r := run{x.Holder, x.From, x.To}
		if x.Unseen {
			r.holder = notSeen
		}
		if len(c.runs) >= maxSeatRuns {
			c.runs = slices.Delete(c.runs, 0, maxSeatRuns/2)
		}
		c.runs = append(c.runs, r)
		if s.ran != nil && r.tid > 0 {
			s.ran(r)
		}
	}
}

func (s *seats) thread(tid, pid int32) *active {
	t := s.active[tid]
	if t == nil && len(s.active) < MaxTracked {
		t = &active{}
		s.active[tid] = t
	}
	if t != nil {
		t.pid = pid
	}
	return t
}

func (s *seats) cpu(e *trace.Sched) *seat {
	c := s.cpus[e.CPU]
	if c == nil {
		c = &seat{}
		s.cpus[e.CPU] = c
	}
	return c
}

// each calls f for each holder of a CPU between two times, without gaps.
func (s *seats) each(cpu uint16, from, to int64, f func(r run)) {
	at := from
	put := func(h holder, end int64) {
		if end = min(end, to); end > at {
			f(run{h, at, end})
			at = end
		}
	}
	if c := s.cpus[cpu]; c != nil {
		i, _ := slices.BinarySearchFunc(c.runs, from, func(r run, at int64) int {
			return cmp.Compare(r.to, at)
		})
		for _, r := range c.runs[i:] {
			if r.from >= to {
				break
			}
			put(notSeen, r.from)
			put(r.holder, r.to)
		}
		put(notSeen, c.Since)
		put(c.Holder, to)
	}
	put(notSeen, to)
}

// holds returns who had a CPU at a time.
func (s *seats) holds(cpu uint16, at int64) (h holder) {
	h = notSeen
	s.each(cpu, at, at+1, func(r run) { h = r.holder })
	return h
}

// another reports whether a thread was seen and belongs to another process.
func (s *seats) another(h *holder) bool { return h.tid > 0 && !s.own(h.tid, h.pid) }

// explain splits a finished wait by who caused it. The parts follow each other without gaps.
func (s *seats) explain(w *seatWait, f func(p waitPart)) {
	var last waitPart
	put := func(p waitPart) {
		switch {
		case p.to <= p.from:
		case last.to == p.from && last.holder == p.holder && last.cpu == p.cpu &&
			last.elsewhere == p.elsewhere && last.free == p.free && last.to > last.from:
			last.to = p.to
		default:
			if last.to > last.from {
				f(last)
			}
			last = p
		}
	}
	m := s.mask(w.tid, w.pid)
	s.each(w.cpu, w.from, w.to, func(r run) {
		p := waitPart{run: r, cpu: w.cpu}
		if r.tid <= 0 || m == nil {
			put(p)
			return
		}
		s.shared(w, m, p, put)
	})
	if last.to > last.from {
		f(last)
	}
}

// shared splits an interval in which a thread waited for a thread that was seen. Threads that wait for a CPU
// that others have are kept from it by these others. All further waiting threads lack the CPUs that others
// have and for which none of the team waits: of k such threads and m such CPUs, each thread lacks m/k of one.
// The rest is due to whoever has the CPU that the thread waits for: another process, or the team itself,
// which would have to share even if nothing else ran.
func (s *seats) shared(w *seatWait, m cpuMask, p waitPart, put func(waitPart)) {
	s.edges = append(s.edges[:0], p.from, p.to)
	s.beside = s.beside[:0]
	var free bool
	for cpu := range m.each {
		if cpu == w.cpu || s.cpus[cpu] == nil {
			continue
		}
		taken := false
		s.each(cpu, p.from, p.to, func(r run) {
			if s.another(&r.holder) {
				taken = true
			}
			free = free || r.tid == 0
			if r.from > p.from && len(s.edges) < maxEdges {
				s.edges = append(s.edges, r.from)
			}
		})
		if taken || free {
			s.beside = append(s.beside, cpu)
		}
	}
	if len(s.beside) == 0 {
		put(p)
		return
	}
	i, _ := slices.BinarySearchFunc(s.closed, p.from, func(c seatWait, at int64) int {
		return cmp.Compare(c.to, at)
	})
	others := s.closed[i:]
	for i := range others {
		for _, at := range [2]int64{others[i].from, others[i].to} {
			if at > p.from && at < p.to && len(s.edges) < 2*maxEdges {
				s.edges = append(s.edges, at)
			}
		}
	}
	slices.Sort(s.edges)
	for i := 1; i < len(s.edges); i++ {
		if from, to := s.edges[i-1], s.edges[i]; to > from {
			part := p
			part.from, part.to = from, to
			s.crowd(w, part, others, put)
		}
	}
}

// crowd splits an interval in which nothing changes.
func (s *seats) crowd(w *seatWait, p waitPart, others []seatWait, put func(waitPart)) {
	s.behind = s.behind[:0]
	k := int64(0)
	waits := func(o *seatWait) {
		if o.placed {
			if h := s.holds(o.cpu, p.from); s.another(&h) {
				i := slices.IndexFunc(s.behind, func(q seatQueue) bool { return q.cpu == o.cpu })
				if i < 0 {
					s.behind = append(s.behind, seatQueue{o.cpu, 1})
					return
				}
				s.behind[i].n++
			}
		}
		k++
	}
	waits(w)
	for i := range others {
		if o := &others[i]; o.tid != w.tid && o.from <= p.from && o.to > p.from {
			waits(o)
		}
	}
	for tid, a := range s.active {
		if a.State.Runnable() && tid != w.tid && a.Since <= p.from {
			o := a.wait(tid)
			waits(&o)
		}
	}
	queue := func(cpu uint16) int64 {
		if i := slices.IndexFunc(s.behind, func(q seatQueue) bool { return q.cpu == cpu }); i >= 0 {
			return s.behind[i].n
		}
		return 0
	}
	var m int64
	free := false
	for _, cpu := range s.beside {
		h := s.holds(cpu, p.from)
		free = free || h.tid == 0
		if s.another(&h) && queue(cpu) == 0 {
			m++
		}
	}
	at := p.from
	if m > 0 && k > 0 {
		// If n threads wait for the same CPU of others, n-1 are further ones: the share of each.
		part := 1.0
		if n := queue(w.cpu); n > 0 {
			part = float64(n-1) / float64(n)
		}
		part *= min(1, float64(m)/float64(k))
		end := p.from + int64(part*float64(p.to-p.from)+0.5)
		for _, cpu := range s.beside {
			if h := s.holds(cpu, p.from); s.another(&h) && queue(cpu) == 0 {
				to := at + (end-at)/m
				m--
				put(waitPart{run: run{h, at, to}, cpu: cpu, elsewhere: true})
				at = to
			}
		}
	}
	p.from, p.free = at, free && s.own(p.tid, p.pid)
	put(p)
}

// cpuMask is a set of CPUs, one bit each; nil is unknown.
type cpuMask []uint64

const maxCPUNumber = 1 << 14

// parseCPUs reads "0-3,7", in ascending order only: repeated CPUs would take long to read.
func parseCPUs(text string) (cpuMask, bool) {
	if text == "" {
		return nil, false
	}
	var m cpuMask
	last := -1
	for part := range strings.SplitSeq(text, ",") {
		a, b, ok := strings.Cut(part, "-")
		if !ok {
			b = a
		}
		from, err1 := strconv.Atoi(a)
		to, err2 := strconv.Atoi(b)
		if err1 != nil || err2 != nil || from <= last || to < from || to >= maxCPUNumber {
			return nil, false
		}
		last = to
		for len(m) <= to/64 {
			m = append(m, 0)
		}
		for c := from; c <= to; c++ {
			m[c/64] |= 1 << (c % 64)
		}
	}
	return m, true
}

func (m cpuMask) each(yield func(cpu uint16) bool) {
	for i, w := range m {
		for ; w != 0; w &= w - 1 {
			if !yield(uint16(64*i + bits.TrailingZeros64(w))) {
				return
			}
		}
	}
}

func (m cpuMask) count() (n int) {
	for _, w := range m {
		n += bits.OnesCount64(w)
	}
	return n
}

// with adds CPUs.
func (m cpuMask) with(o cpuMask) cpuMask {
	for len(m) < len(o) {
		m = append(m, 0)
	}
	for i, w := range o {
		m[i] |= w
	}
	return m
}

// list formats "0-3,7", with at most most parts.
func (m cpuMask) list(most int) string {
	var out []string
	from, last := -2, -2
	end := func() {
		switch {
		case last < 0:
		case from == last:
			out = append(out, strconv.Itoa(from))
		default:
			out = append(out, strconv.Itoa(from)+"-"+strconv.Itoa(last))
		}
	}
	for c := range m.each {
		if int(c) != last+1 {
			end()
			from = int(c)
		}
		last = int(c)
	}
	end()
	if len(out) > most {
		out = append(out[:most], "..")
	}
	return strings.Join(out, ",")
}
