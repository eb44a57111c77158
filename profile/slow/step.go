// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"cmp"
	"slices"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/internal/limits"
	"github.com/profinfer/profinfer/profile/internal/steps"
	"github.com/profinfer/profinfer/profile/sched"
	"github.com/profinfer/profinfer/trace"
)

// A step's time, split into parts that add up to it exactly.
const (
	partWork    = iota // operators: the threads' mean busy time, without attention's
	partAttn           // the same for attention operators
	partWait           // until the last thread arrived, beyond the mean
	partLate           // the same where scheduling events are missing: the reason is unknown
	partOff            // a thread had no CPU, or slept: sched.OffKinds parts
	partProbe   = partOff + sched.OffKinds
	partBackend = partProbe + 1   // graphs whose operators are not seen
	partCopies  = partBackend + 1 // between a step's graphs
	partGraph   = partCopies + 1  // inside a graph, outside its operators
	partOutside = partGraph + 1   // outside any graph
	partCount   = partOutside + 1
)

type slowParts [partCount]int64

// stepRecord is what is kept of a step.
type stepRecord struct {
	id, start, dur int64
	pos            int64 // after its last token; -1: unknown
	tokens         int64 // -1: unknown
	parts          slowParts
	who            []whoCost
	experts        []expertUse
	fresh          int64 // experts that the previous step did not use; -1: unknown
	ops            []slowOpCost
	phase          profile.Phase
	pid            int32
	kind           int32 // the kind of steps it is compared with
	moved          int32
	rebuilt        bool
	first          bool // a graph ran that had not been seen before
	hasOps         bool
	doubt          bool // scheduling events are missing in it
	untraced       string
	judged         bool
	cpus           sched.CpuSet
}

// whoCost is what one that took a CPU cost a step.
type whoCost struct {
	who       int32
	kind      uint8
	cost, ran int64
}

type slowOpCost struct {
	d          *facts.Derived
	op         string
	dur, usual int64
	part       int8
}

// kindKey is what comparable steps have in common.
type kindKey struct {
	pid             int32
	ctx             uint64
	phase           profile.Phase
	tokens, seqs    int32
	outputs         bool
	traced          bool
	ops             int
	firstOp, lastOp string
}

type slowState struct {
	profile.BaseSink
	opts     Options
	wanted   map[profile.Phase]bool
	track    sched.Tracker
	book     *facts.Book
	open     steps.Collector
	firsts   map[*profile.Graph]bool // of steps in progress: graphs whose definition ran for the first time
	newest   int64                   // highest number of a graph definition that ran
	kinds    map[kindKey]int32
	nextKind int32
	usual    map[usualKey]*usualTime
	records  []stepRecord
	experts  expertBook
	calls    slowCalls
	takers   interferenceSum
	sum      Slow
	doneBy   slowTotals
	cpus     cpuBook
}

// usualTime is a running estimate of the median of an operator's time while all its threads had their CPUs.
// It moves towards each new value by a fraction of itself.
type usualTime struct{ ns, by float64 }

type usualKey struct {
	kind int32
	node int32
	nth  int32
}

const maxUsual = 1 << 16

func (u *usualTime) known() bool { return u.by > 0 }

func (u *usualTime) add(ns int64) {
	if u.by == 0 {
		u.ns, u.by = float64(ns), max(1, float64(ns)/4)
		return
	}
	switch v := float64(ns); {
	case v > u.ns:
		u.ns = min(v, u.ns+u.by)
	case v < u.ns:
		u.ns = max(v, u.ns-u.by)
	}
	u.by = max(u.by*0.9, u.ns/64, 1)
}

// usualOf returns an operator's usual time in steps of a kind.
func (b *slowState) usualOf(kind, node, nth int32) *usualTime {
	k := usualKey{kind, node, nth}
	u := b.usual[k]
	if u == nil {
		if len(b.usual) >= maxUsual {
			clear(b.usual)
		}
		u = &usualTime{}
		b.usual[k] = u
	}
	return u
}

func (b *slowState) init(opts Options) {
	if opts.Top <= 0 {
		opts.Top = slowListed
	}
	opts.Top = min(opts.Top, slowMostListed)
	if opts.keep <= 0 {
		opts.keep = maxSlowSteps
	}
	b.opts, b.book = opts, facts.BookOf(opts.Book)
	if len(opts.Phases) > 0 {
		b.wanted = map[profile.Phase]bool{}
		for _, p := range opts.Phases {
			b.wanted[p] = true
		}
	}
	b.track.Init()
	b.firsts = map[*profile.Graph]bool{}
	b.kinds = map[kindKey]int32{}
	b.usual = map[usualKey]*usualTime{}
	b.takers.init()
}

// Op takes one operator.
func (b *slowState) Op(o *profile.Op) error {
	pid := profile.PidOf(o)
	b.track.Process(pid)
	if o.Step == nil || b.opts.PID != 0 && pid != b.opts.PID {
		return nil
	}
	b.open.Op(o)
	return nil
}

// Graph takes one graph execution.
func (b *slowState) Graph(g *profile.Graph) error {
	b.track.Process(g.PID)
	first := g.Shape != nil && g.Shape.Index > b.newest
	if first {
		b.newest = g.Shape.Index
	}
	if g.Step == 0 || b.opts.PID != 0 && g.PID != b.opts.PID {
		return nil
	}
	if first {
		if len(b.firsts) >= limits.Pending { // of steps that never ended
			clear(b.firsts)
		}
		b.firsts[g] = true
	}
	b.open.Graph(g)
	return nil
}

// Thread takes the set of CPUs that a thread may use.
func (b *Builder) Thread(t *trace.Thread) error {
	b.track.Seats.Thread(t)
	return nil
}

// Sched takes one scheduling event.
func (b *slowState) Sched(s *trace.Sched) error {
	b.track.Add(s)
	return nil
}

// Step takes one step, after its operators.
func (b *slowState) Step(s *profile.Step) error {
	b.track.Process(s.PID)
	ops, graphs, cut := b.open.Take(s)
	defer b.open.Done(ops)
	first := false
	for _, g := range graphs {
		first = first || b.firsts[g]
		delete(b.firsts, g)
	}
	if b.opts.PID != 0 && s.PID != b.opts.PID {
		return nil
	}
	defer b.after(s)
	slices.SortStableFunc(ops, func(x, y *profile.Op) int { return cmp.Compare(x.Start, y.Start) })
	fresh := b.experts.step(s, ops, s.Incomplete == "" && s.Untraced == "" && !cut)
	if b.wanted != nil && !b.wanted[s.Phase] {
		return nil
	}
	if s.Incomplete != "" || cut {
		b.sum.Partial++
		return nil
	}
	if s.Untraced != "" {
		ops = nil
	}
	r := stepRecord{id: s.ID, start: s.Start, dur: s.Dur, pos: -1, fresh: -1, tokens: int64(s.NTokens),
		phase: s.Phase, pid: s.PID,
		untraced: s.Untraced, first: first, hasOps: len(ops) > 0}
	for i := range s.Seqs {
		if q := &s.Seqs[i]; q.Pos >= 0 && q.NTokens >= 0 {
			r.pos = max(r.pos, int64(q.Pos)+int64(q.NTokens))
		}
	}
	for i := range graphs {
		r.rebuilt = r.rebuilt || !graphs[i].Reused
	}
	if fresh != nil {
		r.fresh = *fresh
	}
	r.kind = b.kind(s, ops)
	b.sum.HasOps = b.sum.HasOps || r.hasOps
	b.split(&r, s, ops, graphs)
	if len(b.records) >= b.opts.keep {
		b.judgeSome()
	}
	b.records = append(b.records, r)
	return nil
}

// after drops the state of a finished step.
func (b *slowState) after(s *profile.Step) {
	before := b.open.Oldest(s.PID, s.Start)
	b.track.Forget(s.PID, before)
	b.calls.forget(s, before)
}

func (b *slowState) kind(s *profile.Step, ops []*profile.Op) int32 {
	k := kindKey{pid: s.PID, ctx: s.Ctx, phase: s.Phase, tokens: s.NTokens, seqs: s.NSeqs,
		outputs: s.Outputs > 0, traced: s.Untraced == "", ops: len(ops)}
	if n := len(ops); n > 0 {
		k.firstOp, k.lastOp = ops[0].Op, ops[n-1].Op
	}
	i, ok := b.kinds[k]
	if !ok {
		if len(b.kinds) >= maxUsual {
			clear(b.kinds)
		}
		i = b.nextKind
		b.nextKind++
		b.kinds[k] = i
	}
	return i
}

// split splits a step's time into parts.
func (b *slowState) split(r *stepRecord, s *profile.Step, ops []*profile.Op, graphs []*profile.Graph) {
	x := &splitter{b: b, r: r, main: b.track.Threads[s.TID], graphs: graphs, end: s.Start + s.Dur,
		at: s.Start}
	x.copies, x.waits = b.calls.take(s)
	slices.SortFunc(x.graphs, func(a, b *profile.Graph) int { return cmp.Compare(a.Start, b.Start) })
	for i, o := range ops {
		x.op(o, int32(i))
	}
	x.gap(x.end)
	r.who = x.whos()
	slices.SortStableFunc(r.ops, func(a, b slowOpCost) int {
		return cmp.Compare(b.dur-b.usual, a.dur-a.usual)
	})
	for _, t := range b.track.Threads {
		if t.Pid == s.PID {
			if t.Computes || t.Tid == s.TID {
				t.Within(s.Start, s.Start+s.Dur, func(o sched.OffSpan) { b.takers.ran(t, o) })
			}
			r.moved += int32(t.Moved - t.MovedBefore)
			t.MovedBefore = t.Moved
		}
	}
}
