// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/profinfer/profinfer/profile/internal/merge"
	"github.com/profinfer/profinfer/profile/internal/meter"
	"github.com/profinfer/profinfer/trace"
)

// Replay reads a trace and hands its steps, graphs and operators to sink, in order of completion. Memory is
// bounded by what is in progress at one time, not by the trace's length. A truncated trace is replayed up to
// the damage; Header.Torn reports it.
//
// Incomplete steps are not handed on as if they were complete: a step that began before the recording, or did
// not end in it, is left out and counted in Header.Losses ("cut").
func Replay(r *trace.Reader, sink Sink) (*Header, error) { return ReplayReusing(r, sink, nil) }

// ReplayReusing is [Replay] for a run whose only sink returns operators that it no longer needs to the pool,
// where they are reused.
func ReplayReusing(r *trace.Reader, sink Sink, pool *OpPool) (*Header, error) {
	return ReplayPart(r, sink, nil, pool)
}

// ReplayPart is [ReplayReusing] of a part that [FindPart] found in the same recording; nil: of all of it. Blocks
// that lie outside are not unpacked, and nothing behind the part is read.
func ReplayPart(r *trace.Reader, sink Sink, c *Chosen, pool *OpPool) (*Header, error) {
	if c != nil {
		sink = gate{sink, c}
	}
	p := newReplayer(sink)
	if pool != nil {
		p.ops = pool
	}
	if c == nil {
		return p.replay(r)
	}
	for _, x := range []*cut{&p.cutHits, &p.cutMarks, &p.unmatched, &p.undefined, &p.learning, &p.unchosen} {
		x.in = c
	}
	p.part, r.Skip = c, c.skip
	return p.replay(r)
}

func (p *replayer) replay(r *trace.Reader) (*Header, error) {
	p.joinFaults()
	in := r.Ahead()
	defer in.Close()
	p.merge.Runs.Free = in.Reuse
	for {
		b, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if err := p.block(b); err != nil {
			return nil, err
		}
		if p.part != nil && p.merge.Held > p.part.To+partAfter {
			p.h.End = &trace.End{} // not read; it is no cut
			break
		}
	}
	if err := p.finish(); err != nil {
		return nil, err
	}
	p.h.Part = p.part
	in.Close()
	p.h.Torn, p.h.Problems = r.Torn(), r.Problems()
	return &p.h, nil
}

// replayer is the state machine from hits to operators. It depends only on its input.
type replayer struct {
	sink  Sink
	merge merge.Merger
	h     Header
	procs map[int32]*Proc
	comms map[int32]string

	recent [64]recentThread // the most recent, by the low bits of their IDs
	ops    *OpPool

	nextStep, nextGraph, nextOp, nextShape int64

	remote remoteLinks
	count  meter.Counters
	faults *faultJoin // nil: no sink takes faults

	part   *Chosen // nil: all
	seeded bool
	scout  *scout // it looks for a part; nil: none does

	filter  trace.Filter // of operators
	hitCost int64        // of the most expensive operator probe, ns
	spare   *following   // for reuse

	cutHits, cutMarks    cut // before the first complete step or graph, or after the last
	unmatched, undefined cut
	learning             cut // graphs whose order was not yet known
	unchosen             cut // choices of experts that no operator was seen to use
}

// cut counts events outside every complete step or graph.
type cut struct {
	n           uint64
	first, last int64
	in          *Chosen // others are not counted; nil: all are
}

func (c *cut) add(t int64) {
	if c.in != nil && !c.in.covers(t) {
		return
	}
	if c.n == 0 {
		c.first = t
	}
	c.n++
	c.last = t
}

// Proc is one process during replay.
type Proc struct {
	ofEngine
	pid     int32
	info    *trace.Process
	Shapes  map[uint64]*Shape
	threads map[int32]*thread
	open    []*exec
	entries bool            // it has probed entry points
	ends    bool            // arrivals at the operators' barrier are probed
	ending  map[string]bool // copy calls whose ends are probed
	copies  bool            // copies are probed
	devices map[uint64]submitted
	// queues of devices, in order of first use
	queues   map[queueKey]*queue
	order    []*queue
	nDevices int
	opens    int                      // submissions that are not known to be done
	objects  map[string]deviceObjects // by backend
	covered  map[queueKey]int64       // until when a device's time is covered by a span
	awaited  []*awaitedStep           // in order of their graphs
	// when probes were set: at the beginning, and for each library loaded later
	attached []int64
	// when graphs of backends other than the CPU were first watched: their functions are known only once a
	// scheduler ran
	backends int64

	watches   []trace.Watch // what is traced of operators, and since when
	throttled []trace.Loss  // intervals in which none were; the last may be open
	followed  []*exec       // in progress
	early     []trace.Hit   // arrivals of followed graphs whose pool is not yet known
}

// thread is one thread during replay.
type thread struct {
	tid int32
	off offCPU

	// The operator it is in or was in last: its graph, its index in the operator's threads, and the sums of
	// off at its begin.
	exec      *exec
	begun     int // the value of exec.begun then
	slot      int
	offAt     int64
	blockedAt int64
	in        bool

	ith uint16 // its index in its team, as last reported, or UnknownIth
	at  *exec  // the followed graph it works on, and its record there
	rec *followed

	steps []*openStep
	// Scheduler runs outside any step that was seen. They become steps of their own, unless the end of an
	// entry point follows whose begin was not seen.
	pending []*openStep
	entered bool // a step's begin was seen
	run     *schedRun
	execs   []*exec // graphs it runs, innermost last
	last    map[lastKey]lastGraph

	ranStep, ranOp bool
	serves         bool // it computes graphs for another process

	meter      meter.Meter
	copying    *openCopy // in progress
	sync       syncing
	wait       waiting
	submitting *Submission // in progress
}

type lastKey struct {
	ctx   uint64
	split int
}

type lastGraph struct {
	shape, uid uint64
}

// schedRun is one run of the graph scheduler.
type schedRun struct {
	ctx    uint64
	splits int
}

// openStep is a step that has begun and not yet ended.
type openStep struct {
	*Step
	entry    string
	implicit bool                // made from the scheduler's run: its entry point is unknown
	lastEnd  int64               // end of its last graph
	graphs   []*Graph            // its finished graphs, where there are copies: at most limits.Copies
	copies   []*openCopy         // waiting for its end
	chosen   map[uint64]*sharing // the latest choice in each tensor
}

// exec is a graph execution in progress on a backend.
type exec struct {
	g      *Graph
	shape  *Shape
	step   *openStep
	uid    uint64
	device uint64      // the backend object; 0: unknown
	handed *handed     // to a device; nil: no submission was seen
	remote *remoteCall // it was handed over to another process
	cur    *Op
	begun  int // number of operators so far
	// ends[i] is when thread i of cur reached the barrier; 0: not yet
	ends   []int64
	last   int32 // highest node that ran, including fused ones
	closed bool

	watch   trace.Watch // what was traced of operators when it began
	threads int         // as planned; 0: unknown
	f       *following  // set if it is followed by arrivals
	choices []*Choice
}

// recentThread caches where a thread is kept.
type recentThread struct {
	pid, tid int32
	q        *Proc
	t        *thread
}

// thread returns a thread and its process.
func (p *replayer) thread(pid, tid int32) (*Proc, *thread) {
	e := &p.recent[tid&int32(len(p.recent)-1)]
	if e.t == nil || e.tid != tid || e.pid != pid {
		q := p.proc(pid)
		*e = recentThread{pid, tid, q, q.thread(tid)}
	}
	return e.q, e.t
}

func newReplayer(sink Sink) *replayer {
	return &replayer{sink: sink, procs: make(map[int32]*Proc), comms: make(map[int32]string), ops: &OpPool{}}
}

func (p *replayer) proc(pid int32) *Proc {
	q := p.procs[pid]
	if q == nil {
		q = &Proc{pid: pid, Shapes: make(map[uint64]*Shape), threads: make(map[int32]*thread)}
		p.procs[pid] = q
	}
	return q
}

func (q *Proc) thread(tid int32) *thread {
	t := q.threads[tid]
	if t == nil {
		t = &thread{tid: tid, ith: UnknownIth}
		q.threads[tid] = t
	}
	return t
}

func (p *replayer) block(b trace.Block) error {
	switch {
	case b.Meta != nil:
		p.h.Meta, p.filter = *b.Meta, b.Meta.Filter()
		p.count.Set(b.Meta.Counters)
		p.sink.Meta(&p.h.Meta)
	case b.Process != nil:
		p.process(b.Process)
	case b.Shape != nil:
		p.shape(b.Shape)
	case b.Loss != nil:
		p.h.Losses = append(p.h.Losses, *b.Loss)
	case b.CPU != nil:
		if err := p.sink.CPU(b.CPU); err != nil {
			return err
		}
	case b.Memory != nil:
		if err := p.memory(b.Memory); err != nil {
			return err
		}
	case b.Watch != nil:
		p.watch(b.Watch)
	case b.Exit != nil:
		p.h.Exits = append(p.h.Exits, *b.Exit)
	case b.End != nil:
		p.h.End = b.End
	}
	for _, t := range b.Threads {
		if t.Comm != "" { // it can end before its name is read
			p.comms[t.TID] = t.Comm
		}
		p.proc(t.PID).thread(t.TID)
		if err := p.sink.Thread(&t); err != nil {
			return err
		}
	}
	p.merge.Add(&b)
	p.count.Add(b.Samples)
	if b.Watermark != 0 {
		before := p.merge.Held
		if err := p.merge.Drained(b.Watermark, p); err != nil {
			return err
		}
		p.count.Forget(before)
	}
	return nil
}

func (p *replayer) process(i *trace.Process) {
	q := p.proc(i.PID)
	info := *i
	for k := range info.Sites {
		if s := &info.Sites[k]; s.Role == trace.RoleGraphBegin && s.Backend != trace.BackendCPU &&
			(q.info == nil || k >= len(q.info.Sites)) {
			q.backends = i.Attached
		}
	}
	q.info = &info
	if v := VocabularyOf(info.Engine); v != q.vocabulary {
		q.ofEngine = ofEngine{v}
		for _, sh := range q.Shapes {
			sh.ofEngine = q.ofEngine
		}
	}
	for k := range info.Sites {
		if r := info.Sites[k].Role; r == trace.RoleOpBegin || r == trace.RoleOpEnd {
			p.hitCost = max(p.hitCost, p.h.Meta.ProbeCost[info.Sites[k].Class])
		}
		q.entries = q.entries || info.Sites[k].Role == trace.RoleStepBegin
		q.copies = q.copies || info.Sites[k].Role == trace.RoleCopyBegin
		if info.Sites[k].Role == trace.RoleCopyEnd {
			if q.ending == nil {
				q.ending = map[string]bool{}
			}
			q.ending[info.Sites[k].Entry] = true
		}
		q.ends = q.ends || info.Sites[k].Role == trace.RoleOpEnd
	}
	if n := len(q.attached); i.Attached != 0 && (n == 0 || q.attached[n-1] != i.Attached) {
		q.attached = append(q.attached, i.Attached)
	}
	for k := range p.h.Processes {
		if p.h.Processes[k].PID == i.PID && p.h.Processes[k].StartTime == i.StartTime {
			p.h.Processes[k] = info
			return
		}
	}
	p.h.Processes = append(p.h.Processes, info)
}

func (p *replayer) seen(t int64) {
	if c := p.part; c != nil {
		p.h.First, p.h.Last = c.Begin, c.To
		return
	}
	if p.h.First == 0 || t < p.h.First {
		p.h.First = t
	}
	p.h.Last = max(p.h.Last, t)
}

// Switched tracks the off-CPU time of threads.
func (p *replayer) Switched(s *trace.Sched) error {
	p.seen(s.Time)
	switch s.Kind {
	case trace.SchedSwitch:
		if q := p.procs[s.PrevPID]; q != nil {
			q.thread(s.PrevTID).off.leave(s)
			p.comms[s.PrevTID] = s.PrevComm
		}
		if q := p.procs[s.NextPID]; q != nil {
			t := q.thread(s.NextTID)
			if off, ok := t.off.enter(s); ok {
				t.wasOff(off)
			}
			p.comms[s.NextTID] = s.NextComm
		}
	case trace.SchedWakeup:
		if q := p.procs[s.NextPID]; q != nil {
			if t := q.threads[s.NextTID]; t != nil {
				t.off.wake(s)
			}
		}
	}
	return p.sink.Sched(s)
}

func (p *replayer) Hit(h *trace.Hit) error {
	if p.part != nil && !p.part.covers(h.Time) {
		return nil
	}
	p.seen(h.Time)
	q, t := p.thread(h.PID, h.TID)
	switch h.Kind {
	case trace.HitOpEnd:
		if len(q.followed) > 0 && p.arrive(q, t, h) {
			return nil
		}
		p.opEnd(t, h)
		return nil
	case trace.HitFusedWith:
		p.fusedWith(q, t, h)
		return nil
	}
	x, n := q.find(t, h.Arg)
	if h.Nth > 0 {
		t.ith = h.Ith
	}
	if x == nil {
		switch {
		case len(q.open) == 0:
			p.cutHits.add(h.Time)
		case slices.ContainsFunc(q.open, func(x *exec) bool { return x.watch.Ops != trace.WatchBoth }):
			// of a followed graph, or one whose operators are not traced
		case q.open[len(q.open)-1].shape == nil:
			p.undefined.add(h.Time)
		default:
			p.unmatched.add(h.Time)
		}
		t.in = false
		return nil
	}
	if !x.shape.Nodes[n].Executes {
		// before 2024-12 the loop calls every node, including those that compute nothing
		t.in = false
		return nil
	}
	return p.opBegin(q, t, x, n, h)
}

func (p *replayer) finish() error {
	if err := p.merge.Rest(p); err != nil {
		return err
	}
	if err := p.queuesEnd(); err != nil {
		return err
	}
	for _, pid := range slices.Sorted(maps.Keys(p.procs)) {
		q := p.procs[pid]
		for _, l := range q.throttled {
			if l.End == 0 {
				l.End = max(p.h.Last, l.Start)
			}
			p.h.Losses = append(p.h.Losses, l)
		}
		for _, tid := range slices.Sorted(maps.Keys(q.threads)) {
			t := q.threads[tid]
			for _, s := range t.steps {
				if s.implicit && s.lastEnd != 0 && len(t.execs) == 0 {
					if err := p.stepDone(s, s.lastEnd); err != nil {
						return err
					}
					continue
				}
				p.cutMarks.add(s.Start)
			}
			if q.entries && !t.entered {
				p.dropTorn(q, t)
			}
			if err := p.flush(t, 0); err != nil {
				return err
			}
			for _, x := range t.execs {
				if x.cur != nil {
					p.cutHits.add(x.cur.Start)
				}
			}
			role := "other"
			if t.ranStep || t.serves {
				role = "main"
			} else if t.ranOp {
				role = "worker"
			}
			p.h.Threads = append(p.h.Threads,
				Thread{PID: q.pid, TID: t.tid, Comm: p.comms[t.tid], Role: role})
		}
	}
	if err := p.remoteRest(); err != nil {
		return err
	}
	for _, pid := range slices.Sorted(maps.Keys(p.procs)) {
		if err := p.resultsEnd(p.procs[pid]); err != nil {
			return err
		}
	}
	if p.faults != nil {
		if err := p.faults.rest(); err != nil {
			return err
		}
	}
	p.loss(trace.WhyCut, trace.LostHits, p.cutHits)
	p.loss(trace.WhyCut, trace.LostMarks, p.cutMarks)
	p.loss(trace.WhyLearning, trace.LostHits, p.undefined)
	p.loss(trace.WhyUnmatched, trace.LostHits, p.unmatched)
	p.loss(trace.WhyLearning, trace.LostGraphs, p.learning)
	p.loss(trace.WhyUnmatched, trace.LostExperts, p.unchosen)
	sortThreads(p.h.Threads)
	if c := p.part; c != nil {
		p.h.First, p.h.Last = c.Begin, c.To
		p.h.Losses = slices.DeleteFunc(p.h.Losses, func(l trace.Loss) bool {
			return !c.overlaps(l.Start, max(l.Start, l.End))
		})
	}
	return nil
}

func (p *replayer) loss(why, what string, c cut) {
	if c.n != 0 {
		p.h.Losses = append(p.h.Losses,
			trace.Loss{Start: c.first, End: c.last, Why: why, What: what, Events: c.n, CPU: -1})
	}
}

var _ merge.Handler = (*replayer)(nil)

func backendOf(q *Proc, site uint32) (backend, entry, phase string) {
	if q.info == nil || int(site) >= len(q.info.Sites) {
		return "", fmt.Sprintf("site %d", site), ""
	}
	s := &q.info.Sites[site]
	return s.Backend, s.Entry, s.Phase
}

func libraryOf(q *Proc, site uint32) string {
	if q.info == nil || int(site) >= len(q.info.Sites) {
		return ""
	}
	if f := q.info.Sites[site].File; f >= 0 && f < len(q.info.Files) {
		return q.info.Files[f].Path
	}
	return ""
}
