// SPDX-License-Identifier: Apache-2.0

// Package stat computes the statistics of a run while it is replayed: [Builder] fills a [summary.Stat].
package stat

import (
	"cmp"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/experts"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/internal/limits"
	"github.com/profinfer/profinfer/profile/internal/steps"
	"github.com/profinfer/profinfer/profile/memory"
	"github.com/profinfer/profinfer/profile/offload"
	"github.com/profinfer/profinfer/profile/ops"
	"github.com/profinfer/profinfer/profile/requests"
	"github.com/profinfer/profinfer/profile/roof"
	"github.com/profinfer/profinfer/profile/sched"
	"github.com/profinfer/profinfer/profile/summary"
	"github.com/profinfer/profinfer/profile/verdict"
	"github.com/profinfer/profinfer/trace"
)

// statState is the state of a Builder.
type statState struct {
	profile.BaseSink
	opts     Options
	by       []facts.By // the groupings
	counters int        // of the run; set at the end
	book     *facts.Book
	// by Derived.ID, for the last group: an operator of one graph definition is mostly in one phase
	factRows []factRow
	wanted   map[profile.Phase]bool // nil: all
	whole    map[facts.PhaseKey]*Group
	part     map[facts.PhaseKey]*Group
	// Operators of complete steps that were disturbed. Their times are in whole too.
	disturbed map[facts.PhaseKey]*Group
	outside   Group
	open      steps.Collector
	awaited   map[*profile.Step]awaited // steps whose results are not there yet
	procs     map[int32]*procStat
	proc0     *procStat // of process pid0, the last one looked up
	pid0      int32
	requests  requests.Collector
	sched     sched.Follower
	offload   offload.Collector
	remote    remoteSums
	work      verdict.Collector
	teams     teamCounts
	faults    memory.Collector
	experts   experts.Collector
	lost      summary.Lost
	cpus      cpuSum
	batches   batchSum

	first, last int64
	steps, ops  int64
	threadHits  int64            // operators, counted once per thread
	followed    int64            // of these, seen by one hit
	why         map[string]int64 // steps without operators, by reason
	threadTime  int64
	offCPU      bool
	filtered    bool // some operators were filtered
}

type procStat struct {
	team    int
	steps   int64
	library string // that computed its first graph on a CPU
}

// Group sums up the complete steps of one phase, or the incomplete ones.
type Group struct {
	Number                   int     // in order of appearance
	stepSum                          // by the durations of their calls
	ends                     *endSum // by their end-to-end time; nil: no step handed anything over
	Traced, TracedDur, Probe int64   // steps whose operators were recorded
	Ops, OpsDur, Covered     int64
	Busy, Wait, Off          int64
	Matmul, Attn             int64
	Unsorted                 int64 // operators of ClassUnknown
	Bytes, BytesDur          int64
	mmBytes, mmDur           int64
	rows                     []map[string]*summary.RowSum // by grouping
	Threads                  map[int32]*threadSum
	team                     []teamMember // of the previous operator
	dropped                  int64
	experts                  experts.Sums
	Spans                    []profile.Span // of the step being folded
	backends                 map[string]*backendSum
	Elsewhere                int64 // covered by graphs of backends and by no operator
	outer                    disturbedSum
}

// factRow is what the operators of one Derived and op share in a group.
type factRow struct {
	of   *facts.Derived
	in   *Group
	op   string
	kind ops.Class
	rows []*summary.RowSum // by grouping; nil by thread and by step
}

type teamMember struct {
	tid int32
	sum *threadSum
}

type backendSum struct {
	graphs, dur int64
	submits     bool
}

type threadSum struct {
	Pid                         int32
	Ops, Busy, Wait, Off, Steps int64
	lastStep                    int64
}

func (b *statState) init(opts Options) {
	b.opts, b.by = opts, append([]facts.By{cmp.Or(opts.By, facts.ByWeight)}, opts.Further...)
	if len(opts.Phases) > 0 {
		b.wanted = map[profile.Phase]bool{}
		for _, p := range opts.Phases {
			b.wanted[p] = true
		}
	}
	b.whole, b.part = map[facts.PhaseKey]*Group{}, map[facts.PhaseKey]*Group{}
	b.disturbed = map[facts.PhaseKey]*Group{}
	b.open.Early = b.early
	b.procs = map[int32]*procStat{}
	b.requests.Most = requests.MaxRequests
	b.sched.Init()
	b.book = facts.BookOf(opts.Book)
	b.work.Book, b.offload.Book = b.book, b.book
	b.faults.Pid, b.faults.Wanted = opts.PID, b.wanted
}

func (b *statState) seen(from, dur int64) {
	if b.first == 0 || from < b.first {
		b.first = from
	}
	b.last = max(b.last, from+dur)
}

// Op takes one operator.
func (b *statState) Op(o *profile.Op) error {
	pid := profile.PidOf(o)
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
	b.book.Op(o)
	b.sched.Watch(o.Threads)
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
	b.open.Op(o)
	return nil
}

// early takes operators of a step before its end is known, because too many wait for theirs: they count as if
// the step were complete.
func (b *statState) early(s *profile.Step, ops []*profile.Op) {
	b.work.Early(s, ops)
	if b.wanted == nil || b.wanted[s.Phase] {
		b.fold(b.group(b.whole, s), s, ops)
	}
}

// Graph takes one graph execution.
func (b *statState) Graph(g *profile.Graph) error {
	if p := b.proc(g.PID); p.library == "" && g.Backend == trace.BackendCPU {
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
	b.book.Graph(g)
	if g.Aborted {
		b.lost.Aborted++
	}
	b.open.Graph(g)
	b.offload.Graph(g)
	b.remote.unlinked(g, 1)
	b.faults.Graph(g)
	return nil
}

// Thread takes the set of CPUs that a thread may use.
func (b *statState) Thread(t *trace.Thread) error {
	b.sched.Seats.Thread(t)
	return nil
}

// Sched takes one scheduling event.
func (b *statState) Sched(s *trace.Sched) error {
	b.sched.Add(s)
	return nil
}

// Step takes one step, after its operators.
func (b *statState) Step(s *profile.Step) error {
	if b.opts.PID != 0 && s.PID != b.opts.PID {
		return nil
	}
	b.seen(s.Start, s.Dur)
	b.steps++
	b.proc(s.PID).steps++
	b.requests.AddStep(s, b.book)
	b.faults.Step(s)
	instead := b.sched.Since()
	ops, graphs, _ := b.open.Take(s)
	defer b.reuse(ops)
	disturbed := b.disturbedBy(s, ops)
	b.work.AddStep(s, ops, graphs, instead, disturbed.much)
	b.offload.Done(s, b.wanted == nil || b.wanted[s.Phase], ops)
	if b.wanted != nil && !b.wanted[s.Phase] {
		return nil
	}
	b.batches.step(s)
	b.cpus.step(b, s, ops)
	in := b.whole
	if s.Incomplete != "" || s.Untraced != "" {
		b.experts.Forget(s)
	}
	if s.Incomplete != "" {
		b.lost.Steps++
		in = b.part
	}
	g := b.group(in, s)
	g.Step(s, instead)
	b.await(s, g, instead)
	if s.Untraced != "" {
		b.untraced(s.Untraced)
		b.stepRow(g, s)
		return nil // a part of its operators is unknown
	}
	if disturbed.much {
		g = b.group(b.disturbed, s)
		g.disturb(s, &disturbed, instead)
	}
	g.Traced++
	g.TracedDur += s.Dur
	b.fold(g, s, ops)
	if s.Incomplete == "" {
		b.teams.step(b, s, ops)
	}
	g.FoldGraphs(graphs)
	b.stepRow(g, s)
	return nil
}

// untraced counts a step whose operators were not recorded.
func (b *statState) untraced(why string) {
	if b.why == nil {
		b.why = map[string]int64{}
	}
	b.why[why]++
}

func (b *statState) reuse(ops []*profile.Op) {
	b.opts.Pool.Release(ops)
	b.open.Done(ops)
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

func (b *statState) group(in map[facts.PhaseKey]*Group, s *profile.Step) *Group {
	k := facts.PhaseKey{Phase: s.Phase, Model: b.book.At(s.PID, s.Ctx)}
	if in[k] == nil && len(in) >= limits.Models {
		k.Model = nil
	}
	g := in[k]
	if g == nil {
		g = &Group{Number: len(in)}
		in[k] = g
	}
	return g
}

// Options select the contents of a Stat. The zero value is everything, by weight.
type Options struct {
	By     facts.By        // "": ByWeight
	Phases []profile.Phase // none: all
	PID    int32           // 0: all processes
	// Further groupings, each with a Stat of its own ([Builder.FinishEach]).
	Further []facts.By
	Top     int // rows per phase; the others are summed up in Phase.Rest. 0: all
	// Disturbed: figures of operators are of all steps, those that something outside disturbed included.
	Disturbed bool
	// Peaks returns the machine's peaks, once all has been read; nil: not measured.
	Peaks func(*profile.Header) *roof.Peaks
	// Pool takes back the operators that the statistics no longer need, for [profile.ReplayReusing]; nil:
	// other sinks need them too.
	Pool *profile.OpPool
	Book *facts.Book // shared with other sinks of the replay; nil: none
}

// Builder computes a Stat while a run is replayed into it. Its memory grows with the number of rows, threads
// and live sequences, not with the run's length.
type Builder struct{ statState }

// New returns an empty builder.
func New(opts Options) *Builder {
	b := &Builder{}
	b.init(opts)
	return b
}
