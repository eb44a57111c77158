// SPDX-License-Identifier: Apache-2.0

package profile

import "github.com/profinfer/profinfer/trace"

// statState is what a StatBuilder knows so far.
type statState struct {
	opts     StatOptions
	counters int // of the run; known at the end
	derive   Deriver
	factRows []factRow      // by Derived.ID, for the group that asked last: an operator of one shape is mostly in one phase
	wanted   map[Phase]bool // nil: all
	whole    map[groupKey]*group
	part     map[groupKey]*group
	outside  group
	pending  map[*Step]*stepOps
	release  func([]*Op)
	spare    []*Op                    // of the step folded last, for the next one
	at       *stepOps                 // of the step that the operator before was of
	graphs   map[int64][]backendGraph // by number of the step under way
	awaited  map[*Step]awaited        // whose results are not there yet
	kept     int                      // operators in pending
	procs    map[int32]*procStat
	proc0    *procStat // of process pid0, the last asked for
	pid0     int32
	requests sequencesState
	models   modelBook
	sched    interference
	offload  offload
	remote   remoteSums
	work     workState
	teams    teamCounts
	faults   faultBuilder
	experts  expertState
	lost     StatLost

	first, last int64
	steps, ops  int64
	threadHits  int64            // operators, counted once for each thread
	followed    int64            // of these, seen by one hit
	why         map[string]int64 // steps without operators, by reason
	threadTime  int64
	offCPU      bool
	filtered    bool // some operators were not asked for
}

// stepOps are operators of a step under way.
type stepOps struct {
	step *Step
	ops  []*Op
}

type procStat struct {
	team    int
	steps   int64
	library string // that computed its first graph on a CPU
}

// group sums up the steps of one phase that were seen wholly, or of those that were not.
type group struct {
	number                   int     // in the order they came
	stepSum                          // by the durations of their calls
	ends                     *endSum // by when their results were there; nil: no step handed anything over
	traced, tracedDur, probe int64   // steps whose operators were recorded
	ops, opsDur, covered     int64
	busy, wait, off          int64
	matmul, attn             int64
	bytes, bytesDur          int64
	mmBytes, mmDur           int64
	rows                     map[string]*rowSum
	threads                  map[int32]*threadSum
	team                     []teamMember // of the operator before
	dropped                  int64
	experts                  expertSums
	spans                    []span // of the step being folded
	backends                 map[string]*backendSum
	elsewhere                int64 // covered by graphs of backends and no operator
}

// factRow is what the operators of one Derived and op have in common in a group.
type factRow struct {
	of   *Derived
	in   *group
	op   string
	kind kind
	row  *rowSum // nil by thread and by step
}

type teamMember struct {
	tid int32
	sum *threadSum
}

// backendGraph is a graph of which no operator was seen, as other backends than the CPU run them.
type backendGraph struct {
	backend string
	span
}

type backendSum struct{ graphs, dur int64 }

type threadSum struct {
	pid                         int32
	ops, busy, wait, off, steps int64
	lastStep                    int64
}

func (b *statState) init(opts StatOptions) {
	if opts.By == "" {
		opts.By = ByWeight
	}
	b.opts = opts
	if len(opts.Phases) > 0 {
		b.wanted = map[Phase]bool{}
		for _, p := range opts.Phases {
			b.wanted[p] = true
		}
	}
	b.whole, b.part = map[groupKey]*group{}, map[groupKey]*group{}
	b.pending = map[*Step]*stepOps{}
	b.procs = map[int32]*procStat{}
	b.requests.most = maxRequests
	b.sched.init()
	b.work.derive, b.work.models = &b.derive, &b.models
	b.faults.pid, b.faults.wanted = opts.PID, b.wanted
}

func (b *statState) seen(from, dur int64) {
	if b.first == 0 || from < b.first {
		b.first = from
	}
	b.last = max(b.last, from+dur)
}

// Op takes one operator.
func (b *statState) Op(o *Op) error {
	pid := pidOf(o)
	if b.opts.PID != 0 && pid != b.opts.PID {
		return nil
	}
	b.seen(o.Start, o.Dur)
	b.ops++
	b.threadHits += int64(len(o.Threads))
	if o.Followed {
		b.followed += int64(len(o.Threads))
	}
	b.threadTime += o.Busy + o.Wait + o.OffCPU
	if o.OffCPU > 0 {
		b.offCPU = true
	}
	if o.Incomplete {
		b.lost.IncompleteOps++
	}
	p := b.proc(pid)
	p.team = max(p.team, len(o.Threads))
	b.models.serves(o.Graph)
	b.sched.watch(o.Threads)
	var ctx uint64
	if o.Step != nil {
		ctx = o.Step.Ctx
	}
	b.models.see(pid, ctx, o.Shape, opBackend(o))
	if o.Step == nil && o.Graph != nil && o.Graph.Caller != nil {
		b.remoteOp(o)
		return nil
	}
	if o.Step == nil {
		if b.wanted == nil {
			b.outside.op(b, o, 0)
		}
		return nil
	}
	if b.kept >= maxPending {
		for s, p := range b.pending {
			b.work.early(s, p.ops)
			if b.wanted != nil && !b.wanted[s.Phase] {
				continue
			}
			b.fold(b.group(b.whole, s), s, p.ops)
		}
		clear(b.pending)
		b.kept, b.at = 0, nil
	}
	if b.at == nil || b.at.step != o.Step {
		if b.at = b.pending[o.Step]; b.at == nil {
			b.at = &stepOps{step: o.Step, ops: b.spare}
			b.spare = nil
			b.pending[o.Step] = b.at
		}
	}
	b.at.ops = append(b.at.ops, o)
	b.kept++
	return nil
}

// Graph takes one graph execution.
func (b *statState) Graph(g *Graph) error {
	if p := b.proc(g.PID); p.library == "" && g.Backend == "CPU" {
		p.library = g.Library
	}
	if b.opts.PID != 0 && g.PID != b.opts.PID {
		return nil
	}
	b.seen(g.Start, g.Dur)
	switch {
	case g.Shape == nil || g.Shape.Shape == nil:
		b.lost.UnknownShapes++
	case g.Shape.Incomplete != "":
		b.lost.PartShapes++
	}
	b.models.serves(g)
	if g.Shape != nil {
		b.models.see(g.PID, g.Ctx, g.Shape, g.Backend)
	}
	if g.Aborted {
		b.lost.Aborted++
	}
	b.work.graph(g)
	b.offload.graph(g)
	b.remote.unlinked(g, 1)
	b.faults.graph(g)
	if g.Step != 0 && g.Ops == 0 && g.Backend != "" && g.Backend != "CPU" {
		if b.graphs == nil || len(b.graphs) >= maxPending { // of steps that never ended
			b.graphs = map[int64][]backendGraph{}
		}
		if s := b.graphs[g.Step]; len(s) < maxPending {
			b.graphs[g.Step] = append(s, backendGraph{g.Backend, span{g.Start, g.Start + g.Dur}})
		}
	}
	return nil
}

// Thread takes which CPUs a thread may use.
func (b *statState) Thread(t *trace.Thread) error {
	b.sched.seats.thread(t)
	return nil
}

// Sched takes one scheduling event.
func (b *statState) Sched(s *trace.Sched) error {
	b.sched.add(s)
	return nil
}

// Step takes one step, whose operators came before.
func (b *statState) Step(s *Step) error {
	if b.opts.PID != 0 && s.PID != b.opts.PID {
		return nil
	}
	b.seen(s.Start, s.Dur)
	b.steps++
	b.proc(s.PID).steps++
	b.requests.step(s, &b.models)
	b.faults.step(s)
	instead := b.sched.since()
	ops := b.taken(s)
	graphs := b.graphs[s.ID]
	delete(b.graphs, s.ID)
	b.work.step(s, ops, instead)
	b.offload.done(s, b.wanted == nil || b.wanted[s.Phase], ops)
	if b.wanted != nil && !b.wanted[s.Phase] {
		return nil
	}
	in := b.whole
	if s.Incomplete != "" || s.Untraced != "" {
		b.experts.forget(s)
	}
	if s.Incomplete != "" {
		b.lost.Steps++
		in = b.part
	}
	defer b.reuse(ops)
	g := b.group(in, s)
	g.step(s, instead)
	b.await(s, g, instead)
	if s.Untraced != "" {
		b.untraced(s.Untraced)
		if b.opts.By == ByStep {
			g.stepRow(s)
		}
		return nil // of a part of its operators nothing is known
	}
	g.traced++
	g.tracedDur += s.Dur
	b.fold(g, s, ops)
	if s.Incomplete == "" {
		b.teams.step(b, s, ops)
	}
	g.foldGraphs(graphs)
	if b.opts.By == ByStep {
		g.stepRow(s)
	}
	return nil
}

// untraced counts a step whose operators were not recorded.
func (b *statState) untraced(why string) {
	if b.why == nil {
		b.why = map[string]int64{}
	}
	b.why[why]++
}

// taken takes a step's operators out of those pending.
func (b *statState) taken(s *Step) []*Op {
	p := b.pending[s]
	if p == nil {
		return nil
	}
	delete(b.pending, s)
	b.kept -= len(p.ops)
	b.at = nil
	return p.ops
}

// releaseTo takes what takes back operators.
func (b *statState) releaseTo(f func([]*Op)) { b.release = f }

func (b *statState) reuse(ops []*Op) {
	if b.release != nil {
		b.release(ops)
	}
	if cap(ops) > cap(b.spare) {
		clear(ops)
		b.spare = ops[:0]
	}
}

func (b *statState) proc(pid int32) *procStat {
	if b.proc0 != nil && b.pid0 == pid {
		return b.proc0
	}
	p := b.procs[pid]
	if p == nil {
		p = &procStat{}
		b.procs[pid] = p
	}
	b.proc0, b.pid0 = p, pid
	return p
}

func (b *statState) group(in map[groupKey]*group, s *Step) *group {
	k := groupKey{s.Phase, b.models.at(s.PID, s.Ctx)}
	if in[k] == nil && len(in) >= maxModels {
		k.model = nil
	}
	g := in[k]
	if g == nil {
		g = &group{number: len(in)}
		in[k] = g
	}
	return g
}

// StatOptions choose what a Stat is made of. The zero value is everything, by weight.
type StatOptions struct {
	By     By      // "": ByWeight
	Phases []Phase // none: all
	PID    int32   // 0: all processes
	Top    int     // rows a phase; the others are summed up in Phase.Rest. 0: all
	// Peaks are what the machine can do; nil: not measured. They are read by Finish, so they may be filled in once the
	// header is known that says which machine it was.
	Peaks *Peaks
}

// StatBuilder computes a Stat while a run is replayed into it. Its memory grows with the
// number of rows, threads and live sequences, not with the length of the run.
type StatBuilder struct{ statState }

// NewStat returns an empty builder.
func NewStat(opts StatOptions) *StatBuilder {
	b := &StatBuilder{}
	b.init(opts)
	return b
}
