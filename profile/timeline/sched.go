// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/profinfer/profinfer/profile/internal/oncpu"
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
	StatePreempted = int64(oncpu.Preempted)
	StateWoken     = int64(oncpu.Woken)
	StateSleeps    = int64(oncpu.Sleeps)
	StateBlocked   = int64(oncpu.Blocked)
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
	l.keys = []runnerKey{{tid: -1, comm: "(not seen)"}, {comm: "(idle)"}}
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

// runner is a thread of the log, as who has a CPU.
type runner struct{ tid, index int32 }

func (r runner) ThreadID() int32 { return r.tid }

func (l *schedLog) who(index int32) runner { return runner{l.keys[index].tid, index} }

// lost returns for each event, one bit each, whether the switch that should follow on its CPU was not seen:
// it is unknown who ran from there on. Spans that are split have to know it before they end.
func (l *schedLog) lost() []uint64 {
	bits := make([]uint64, l.n/64+1)
	type cpu struct {
		oncpu.CPU[runner]
		event int64 // the latest
	}
	cpus := map[int]*cpu{}
	log := *l
	log.last = 0
	for i := range l.n {
		e := log.next()
		if e.kind == trace.SchedWakeup {
			continue
		}
		c := cpus[e.cpu]
		if c == nil {
			c = &cpu{}
			cpus[e.cpu] = c
		}
		if c.Missed(l.who(e.prev)) {
			bits[c.event/64] |= 1 << (c.event % 64)
		}
		c.Switch(e.time, 0, l.who(e.prev), l.who(e.next))
		c.event = i
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
	cpus    map[int]*oncpu.CPU[runner]
	threads []oncpu.Thread
	thread  []int // by runner: its index in Timeline.Threads, -1: none
}

func (b *Builder) finishSched(end int64) error {
	l := &b.sched
	p := &schedPass{b: b, cpus: map[int]*oncpu.CPU[runner]{}, threads: make([]oncpu.Thread, len(b.t.Threads))}
	p.runs.init(runColumns)
	p.states.init(stateColumns)
	for _, k := range l.keys {
		t, ok := b.threads[threadID{k.pid, k.tid}]
		if !ok || k.tid == 0 {
			t = -1
		}
		p.thread = append(p.thread, t)
		b.t.Runners = append(b.t.Runners, Runner{TID: max(0, k.tid), Comm: k.comm, Thread: t})
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
		if c := p.cpus[cpu]; !c.Unseen && p.thread[c.Holder.index] >= 0 {
			p.run(cpu, c.Holder.index, c.Since, end, 0)
		}
	}
	for i := range p.threads {
		p.state(i, &p.threads[i], end, 0)
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
	if p.runs.rows+p.states.rows >= p.b.opts.ChunkSpans {
		if err := p.split(e.time); err != nil {
			return err
		}
	}
	cpu := uint16(e.cpu)
	prev, next := p.thread[e.prev], p.thread[e.next]
	if e.kind == trace.SchedWakeup {
		if next >= 0 {
			if was, ok := p.threads[next].Wake(e.time, cpu); ok {
				p.state(next, &was, e.time, 0)
			}
		}
		return nil
	}
	c := p.cpus[e.cpu]
	if c == nil {
		c = &oncpu.CPU[runner]{}
		p.cpus[e.cpu] = c
	}
	l := &p.b.sched
	if e.kind == trace.SchedLook {
		p.ended(e.cpu, c.Look(e.time, e.held, l.who(e.next)))
	} else {
		if prev >= 0 {
			// Where it ran here, but the switch to it was not seen, its state is known only for a while.
			was := p.threads[prev].Leave(e.time, cpu, e.state)
			p.state(prev, &was, was.KnownUntil(cpu, c.Since), 0)
		}
		p.ended(e.cpu, c.Switch(e.time, e.held, l.who(e.prev), l.who(e.next)))
		if next >= 0 {
			was := p.threads[next].Enter(e.time, cpu)
			p.state(next, &was, e.time, 0)
		}
	}
	if lost {
		c.Lose()
	}
	return nil
}

// split ends a chunk, and what goes on in the next one.
func (p *schedPass) split(now int64) error {
	for _, cpu := range p.order() {
		c := p.cpus[cpu]
		who := c.Holder.index
		if c.Unseen {
			who = 0
		}
		if now > c.Since {
			p.run(cpu, who, c.Since, now, 1)
			c.Since = now
		}
	}
	for i := range p.threads {
		if t := &p.threads[i]; t.State.Off() && now > t.Since {
			p.state(i, t, now, 1)
			t.Since = now
		}
	}
	return p.cut()
}

// ended adds what has ended on a CPU.
func (p *schedPass) ended(cpu int, runs []oncpu.Run[runner]) {
	for _, r := range runs {
		who := r.Holder.index
		if r.Unseen {
			who = 0
		}
		p.run(cpu, who, r.From, r.To, 0)
	}
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

// state adds a span in which a thread was on no CPU.
func (p *schedPass) state(thread int, t *oncpu.Thread, to, flags int64) {
	if !t.State.Off() || to <= t.Since {
		return
	}
	p.at(t.Since, to)
	c := &p.states
	c.put(stateThread, int64(thread))
	c.put(stateStart, t.Since-p.stEnd)
	c.put(stateDur, to-t.Since)
	c.put(stateWhat, int64(t.State))
	c.put(stateCPU, int64(t.CPU))
	c.put(stateFlags, flags)
	c.rows++
	p.stEnd = to
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
