// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/trace"
)

// Which threads belong to the engine is known only when the run is over. Scheduling events are therefore
// kept, some bytes each, and made into spans then: what ran on each CPU, and why a thread of the engine did
// not run.
//
// A chunk of scheduling is two blocks of columns: spans of CPUs, then states of threads. Spans that cross a
// chunk's end are split, and continue in the next chunk.

const (
	runCPU   = iota
	runStart // difference to the end of the previous span; the first: to the chunk's base
	runDur
	runRunner // index in Timeline.Runners; idle is left out
	runFlags  // 1: continues in the next chunk
	runColumns
)

const (
	stateThread = iota // index in Timeline.Threads
	stateStart         // difference to the end of the previous span; the first: to the chunk's base
	stateDur
	stateWhat  // see below
	stateCPU   // where it waits, or the CPU it left
	stateFlags // 1: continues in the next chunk
	stateColumns
)

// State of a thread that is on no CPU.
const (
	StatePreempted = 1 // runnable, after it was taken off its CPU
	StateWoken     = 2 // runnable, after it was woken
	StateSleeps    = 3 // it waits for something (a lock, work)
	StateBlocked   = 4 // uninterruptible sleep: mostly disk
)

// schedLog holds the events in arrival order.
type schedLog struct {
	data    []byte
	n       int64
	last    int64
	runners map[runnerKey]int32
	keys    []runnerKey
	left    int64
	first   int64 // the first event's time
}

type runnerKey struct {
	tid, pid int32
	comm     string
}

func (l *schedLog) init() {
	l.runners = map[runnerKey]int32{}
	l.keys = []runnerKey{{comm: "(not seen)"}, {comm: "(idle)"}}
}

// runner returns a thread's index: 0 for those beyond the limit, 1 for a CPU's idle loop.
func (l *schedLog) runner(tid, pid int32, comm string) int32 {
	if tid == 0 {
		return 1
	}
	k := runnerKey{tid, pid, comm}
	i, ok := l.runners[k]
	if !ok {
		if len(l.keys) >= maxRunners {
			return 0
		}
		i = int32(len(l.keys))
		l.runners[k] = i
		l.keys = append(l.keys, k)
	}
	return i
}

// Sched takes a scheduling event.
func (b *Builder) Sched(s *trace.Sched) error {
	l := &b.sched
	if len(l.data) >= maxSchedLog {
		l.left++
		return nil
	}
	d := binary.AppendVarint(l.data, s.Time-l.last)
	d = append(d, byte(s.Kind))
	d = binary.AppendUvarint(d, uint64(s.CPU))
	d = binary.AppendUvarint(d, uint64(s.PrevState))
	d = binary.AppendUvarint(d, uint64(l.runner(s.PrevTID, s.PrevPID, s.PrevComm)))
	d = binary.AppendUvarint(d, uint64(l.runner(s.NextTID, s.NextPID, s.NextComm)))
	if l.n == 0 {
		l.first = s.Time
	}
	d = binary.AppendUvarint(d, uint64(min(s.Held, s.Time-l.first)))
	l.data, l.last = d, s.Time
	l.n++
	return nil
}

// next removes the oldest event from the log.
func (l *schedLog) next() (e schedEvent) {
	u := func() uint64 {
		v, n := binary.Uvarint(l.data)
		l.data = l.data[n:]
		return v
	}
	d, n := binary.Varint(l.data)
	l.last += d
	e.time, e.kind = l.last, trace.SchedKind(l.data[n])
	l.data = l.data[n+1:]
	e.cpu, e.state, e.prev, e.next, e.held = int(u()), uint32(u()), int32(u()), int32(u()), int64(u())
	return e
}

type schedEvent struct {
	time, held int64
	cpu        int
	prev, next int32
	state      uint32
	kind       trace.SchedKind
}

// lost returns for each event, one bit each, whether the switch that should follow on its CPU was not seen:
// it is unknown who ran from there on.
func (l *schedLog) lost() []uint64 {
	bits := make([]uint64, l.n/64+1)
	type last struct {
		event int64
		next  int32
	}
	cpus := map[int]last{}
	log := *l
	log.last = 0
	for i := range l.n {
		e := log.next()
		if e.kind == trace.SchedWakeup {
			continue
		}
		if c, ok := cpus[e.cpu]; ok && (l.keys[c.next].tid != l.keys[e.prev].tid || c.next == 0) {
			bits[c.event/64] |= 1 << (c.event % 64)
		}
		cpus[e.cpu] = last{i, e.next}
	}
	l.last = 0
	return bits
}

// schedPass makes spans of events.
type schedPass struct {
	b       *Builder
	runs    columns
	states  columns
	runEnd  int64
	stEnd   int64
	base    int64
	first   int64
	last    int64
	cpus    map[int]*cpuRun
	threads []threadState
	thread  []int // by runner: its index in Timeline.Threads, -1: none
	tid     []int32
}

type cpuRun struct {
	who   int32 // 0: unknown
	next  int32 // who was switched to
	since int64
}

type threadState struct {
	what  int64 // 0: it runs, or unknown
	since int64
	cpu   int
}

func (b *Builder) finishSched(end int64) error {
	l := &b.sched
	p := &schedPass{b: b, cpus: map[int]*cpuRun{}, threads: make([]threadState, len(b.t.Threads))}
	p.runs.init(runColumns)
	p.states.init(stateColumns)
	for _, k := range l.keys {
		t, ok := b.threads[threadID{k.pid, k.tid}]
		if !ok || k.tid == 0 {
			t = -1
		}
		p.thread = append(p.thread, t)
		p.tid = append(p.tid, k.tid)
		b.t.Runners = append(b.t.Runners, Runner{TID: k.tid, Comm: k.comm, Thread: t})
	}
	b.t.HasSched, b.t.SchedLeftOut = l.n > 0, l.left
	p.begin(0)
	lost := l.lost()
	for i := range l.n {
		e := l.next()
		if err := p.event(&e, lost[i/64]>>(i%64)&1 > 0); err != nil {
			return err
		}
	}
	// What still ran or waited did so until the end: nothing else was seen. For other processes not even that
	// is known.
	for _, cpu := range p.order() {
		if c := p.cpus[cpu]; p.thread[c.who] >= 0 {
			p.run(cpu, c.who, c.since, end, 0)
		}
	}
	for i := range p.threads {
		p.leave(i, end, 0)
	}
	return p.cut()
}

func (p *schedPass) order() []int {
	cpus := make([]int, 0, len(p.cpus))
	for c := range p.cpus {
		cpus = append(cpus, c)
	}
	slices.Sort(cpus)
	p.b.t.CPUs = cpus
	return cpus
}

func (p *schedPass) begin(base int64) {
	p.runs.reset()
	p.states.reset()
	p.base, p.runEnd, p.stEnd = base, base, base
	p.first, p.last = math.MaxInt64, math.MinInt64
}

func (p *schedPass) event(e *schedEvent, lost bool) error {
	now, kind, cpu, state, prev, next := e.time, e.kind, e.cpu, e.state, e.prev, e.next
	if p.runs.rows+p.states.rows >= p.b.opts.ChunkSpans {
		for _, c := range p.order() {
			if r := p.cpus[c]; now > r.since {
				p.run(c, r.who, r.since, now, 1)
				r.since = now
			}
		}
		for i := range p.threads {
			if t := &p.threads[i]; t.what != 0 && now > t.since {
				s := *t
				p.leave(i, now, 1)
				*t = threadState{s.what, now, s.cpu}
			}
		}
		if err := p.cut(); err != nil {
			return err
		}
	}
	if kind == trace.SchedWakeup {
		if t := p.thread[next]; t >= 0 && p.threads[t].what != StatePreempted &&
			p.threads[t].what != StateWoken && !p.running(next) {
			p.leave(t, now, 0)
			p.threads[t] = threadState{StateWoken, now, cpu}
		}
		return nil
	}
	c := p.cpus[cpu]
	if kind == trace.SchedLook {
		p.look(c, e, lost)
		return nil
	}
	if t := p.thread[prev]; t >= 0 && p.threads[t].what != 0 {
		// It ran here, but the switch to it was not seen: why it did not run is known only up to the last
		// switch that was seen.
		if c != nil && p.threads[t].cpu == cpu {
			p.leave(t, c.since, 0)
		}
		p.threads[t].what = 0
	}
	if c == nil {
		c = &cpuRun{}
		p.cpus[cpu] = c
	} else {
		if e.held > 0 && c.who == 0 { // the event says since when prev had it
			from := max(c.since, now-e.held)
			p.run(cpu, 0, c.since, from, 0)
			c.who, c.since = prev, from
		}
		p.run(cpu, c.who, c.since, now, 0)
	}
	c.who, c.next, c.since = next, next, now
	if lost {
		c.who = 0
	}
	if t := p.thread[prev]; t >= 0 {
		what := int64(StateSleeps)
		switch {
		case state == 0:
			what = StatePreempted
		case state&profile.Uninterruptible != 0:
			what = StateBlocked
		}
		p.threads[t] = threadState{what, now, cpu}
	}
	if t := p.thread[next]; t >= 0 {
		p.leave(t, now, 0)
	}
	return nil
}

// look takes an observation of who has a CPU.
func (p *schedPass) look(c *cpuRun, e *schedEvent, lost bool) {
	from := e.time - e.held
	if c == nil {
		c = &cpuRun{since: from}
		p.cpus[e.cpu] = c
	}
	if from < c.since || c.who == e.next {
		return
	}
	p.run(e.cpu, c.who, c.since, from, 0)
	c.who, c.next, c.since = e.next, e.next, from
	if lost {
		c.who = 0
	}
}

// running reports whether a thread was switched to on a CPU, and not away from it.
func (p *schedPass) running(who int32) bool {
	for _, c := range p.cpus {
		if p.tid[c.next] == p.tid[who] {
			return true
		}
	}
	return false
}

// run adds a span of a CPU.
func (p *schedPass) run(cpu int, who int32, from, to, flags int64) {
	if who == 1 || to <= from {
		return
	}
	p.at(from, to)
	c := &p.runs
	c.put(runCPU, int64(cpu))
	c.put(runStart, from-p.runEnd)
	c.put(runDur, to-from)
	c.put(runRunner, int64(who))
	c.put(runFlags, flags)
	c.rows++
	p.runEnd = to
	channel := cpuOther
	switch {
	case who == 0:
		channel = cpuLost
	case p.thread[who] >= 0:
		channel = cpuOwn
	}
	p.b.bins.onCPU(cpu, channel, from, to-from)
}

// leave ends a thread's state.
func (p *schedPass) leave(thread int, now, flags int64) {
	t := &p.threads[thread]
	if t.what == 0 {
		return
	}
	what := t.what
	t.what = 0
	if now <= t.since {
		return
	}
	p.at(t.since, now)
	c := &p.states
	c.put(stateThread, int64(thread))
	c.put(stateStart, t.since-p.stEnd)
	c.put(stateDur, now-t.since)
	c.put(stateWhat, what)
	c.put(stateCPU, int64(t.cpu))
	c.put(stateFlags, flags)
	c.rows++
	p.stEnd = now
}

func (p *schedPass) at(from, to int64) {
	if p.runs.rows+p.states.rows == 0 {
		p.base = from
		p.runEnd, p.stEnd = from, from
	}
	p.first, p.last = min(p.first, from), max(p.last, to)
}

func (p *schedPass) cut() error {
	n := p.runs.rows + p.states.rows
	if n == 0 {
		return nil
	}
	data := p.states.appendTo(p.runs.appendTo(nil))
	err := p.b.chunk(Chunk{Kind: ChunkSched, Start: p.first, Dur: p.last - p.first, Base: p.base, Spans: n},
		data)
	p.begin(0)
	return err
}
