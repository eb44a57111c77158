// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"cmp"
	"slices"

	"github.com/profinfer/profinfer/profile/internal/merge"
	"github.com/profinfer/profinfer/trace"
)

// A graph whose operator order is known is followed by one hit per operator and thread: the arrival at the
// barrier that ends the operator. An operator then starts when the last thread has arrived at the previous
// barrier. The first operator starts its learned duration before its first arrival, or with its graph where
// that duration is unknown. Nothing is guessed: which operator the n-th arrival ends was learned from begins
// (Shape.Order), and the graph identity was taken at its start. A graph in which the number of arrivals of
// any thread does not match is left out and counted.

// following is an open graph that is followed.
type following struct {
	threads []*followed
	pool    uint64 // of its thread pool; 0: unknown so far
	hits    uint64 // arrivals in total
}

// followed is one thread of such a graph.
type followed struct {
	t        *thread
	arrivals []arrival
	off      []offTime // when it was off-CPU
}

type arrival struct {
	time int64
	cpu  uint16
}

// UnknownIth is the thread's index in its team when no begin reported it.
const UnknownIth = ^uint16(0)

// follow starts following a graph.
func (p *replayer) follow(q *Proc, x *exec) {
	f := p.spare
	if f == nil {
		f = &following{}
	}
	p.spare = nil
	f.threads, f.pool, f.hits = f.threads[:0], 0, 0
	x.f = f
	q.followed = append(q.followed, x)
}

// thread returns the record of a thread.
func (f *following) thread(t *thread) *followed {
	for _, w := range f.threads {
		if w.t == t {
			return w
		}
	}
	t.ranOp = true
	n := len(f.threads)
	if n < cap(f.threads) && f.threads[:n+1][n] != nil {
		f.threads = f.threads[:n+1]
	} else {
		f.threads = append(f.threads, &followed{})
	}
	w := f.threads[n]
	*w = followed{t: t, arrivals: w.arrivals[:0], off: w.off[:0]}
	return w
}

// arrive takes an arrival; false if it belongs to no followed graph.
func (p *replayer) arrive(q *Proc, t *thread, h *trace.Hit) bool {
	x := t.at
	if x == nil || x.closed || x.f.pool != h.Arg {
		var early bool
		if x, early = q.followedBy(t, h.Arg); x == nil {
			if early {
				q.early = append(q.early, *h)
			}
			return early
		}
		t.at, t.rec = x, x.f.thread(t)
		if x.f.pool != h.Arg {
			x.f.pool = h.Arg
			defer p.takeEarly(q, h.Arg)
		}
	}
	x.f.hits++
	t.rec.arrivals = append(t.rec.arrivals, arrival{h.Time, h.CPU})
	return true
}

// followedBy returns the followed graph that a thread with this pool works on. early: several are open, and
// the first arrival of their main threads will reveal which one owns the pool.
func (q *Proc) followedBy(t *thread, pool uint64) (x *exec, early bool) {
	if n := len(t.execs); n > 0 {
		return t.execs[n-1].following(), false // its own
	}
	for _, x := range q.followed {
		if x.f.pool == pool {
			return x, false
		}
		early = early || x.f.pool == 0
	}
	if early && len(q.followed) == 1 {
		return q.followed[0], false
	}
	return nil, early
}

func (x *exec) following() *exec {
	if x.f == nil {
		return nil
	}
	return x
}

// takeEarly replays arrivals that came before their pool was known.
func (p *replayer) takeEarly(q *Proc, pool uint64) {
	if len(q.early) == 0 {
		return
	}
	early := q.early
	q.early = nil
	for i := range early {
		if early[i].Arg != pool || !p.arrive(q, q.thread(early[i].TID), &early[i]) {
			q.early = append(q.early, early[i])
		}
	}
}

// wasOff notes an off-CPU interval of a thread that works on a followed graph.
func (t *thread) wasOff(off offTime) {
	if t.at != nil && !t.at.closed {
		t.rec.off = append(t.rec.off, off)
	}
}

// offIn sums a thread's off-CPU time between two times, and the blocked part of it.
func (w *followed) offIn(from, to int64) (off, blocked int64) {
	for _, s := range w.off {
		if s.From >= to {
			break
		}
		off += max(0, min(s.To, to)-max(s.From, from))
		blocked += max(0, min(s.blocked, to)-max(s.From, from))
	}
	return off, blocked
}

// unfollow ends the following of a graph. What was followed is used again for the next one.
func (p *replayer) unfollow(q *Proc, x *exec) {
	if i := slices.Index(q.followed, x); i >= 0 {
		q.followed = slices.Delete(q.followed, i, i+1)
	}
	if len(q.followed) == 0 {
		q.early = q.early[:0]
	}
	p.spare = x.f
}

// followedDone makes the operators of a graph that was followed to its end.
func (p *replayer) followedDone(q *Proc, x *exec) error {
	f := x.f
	p.unfollow(q, x)
	if x.g.Untraced != "" { // a part of it was not traced
		return nil
	}
	order := x.shape.Order
	slices.SortFunc(f.threads, func(a, b *followed) int {
		return cmp.Or(cmp.Compare(a.t.ith, b.t.ith), cmp.Compare(a.t.tid, b.t.tid))
	})
	fits := len(f.threads) > 0 && len(order) > 0
	for _, w := range f.threads {
		fits = fits && len(w.arrivals) == len(order)
	}
	if !fits {
		p.unmatched.add(x.g.Start)
		p.unmatched.n += max(f.hits, 1) - 1
		x.g.Untraced = "unmatched"
		return nil
	}
	x.last = int32(x.shape.NNodes)
	start := merge.EndOfTime
	for _, w := range f.threads {
		start = min(start, w.arrivals[0].time)
	}
	if start -= x.shape.First; x.shape.First == 0 || start < x.g.Start {
		start = x.g.Start
	}
	for i, nodes := range order {
		var last int64
		for _, w := range f.threads {
			last = max(last, w.arrivals[i].time)
		}
		if len(nodes) > 0 {
			if err := p.followedOp(x, i, start, last); err != nil {
				return err
			}
		}
		start = last
	}
	return nil
}

// followedOp makes the operator that the i-th arrivals of a graph's threads end.
func (p *replayer) followedOp(x *exec, i int, start, last int64) error {
	f, nodes := x.f, x.shape.Order[i]
	p.nextOp++
	o := p.ops.take(len(f.threads))
	*o = Op{ID: p.nextOp, Graph: x.g, Shape: x.shape, Node: nodes[0], Fused: nodes[1:],
		Op:    x.shape.orderOps[i],
		Start: start, Dur: last - start, Incomplete: x.threads > len(f.threads), Followed: true,
		Threads: o.Threads[:len(f.threads)]}
	if x.step != nil {
		o.Step = x.step.Step
	}
	for k, w := range f.threads {
		a := w.arrivals[i]
		th := &o.Threads[k]
		begin := start
		if i == 0 && x.shape.First > 0 { // threads start one after another
			begin = max(start, a.time-x.shape.First)
		}
		*th = OpThread{TID: w.t.tid, Ith: w.t.ith, CPU: a.cpu, Start: begin, Wait: last - a.time}
		if len(w.off) > 0 && i > 0 {
			th.OffCPU, th.Blocked = w.offIn(begin, a.time)
		}
		th.Busy = max(0, a.time-begin-th.OffCPU) // clocks of CPUs can differ by nanoseconds
		o.Busy += th.Busy
		o.OffCPU += th.OffCPU
		o.Wait += th.Wait
	}
	return p.opSeen(x, o)
}

// Which operators are traced, as the recorder reported.

// watchAt returns what was traced of operators at a time, and why.
func (q *Proc) watchAt(t int64) trace.Watch {
	for i := len(q.watches) - 1; i >= 0; i-- {
		if q.watches[i].Time <= t {
			return q.watches[i]
		}
	}
	return trace.Watch{Ops: trace.WatchBoth}
}

func (p *replayer) watch(w *trace.Watch) {
	q := p.proc(w.PID)
	n := len(q.watches)
	if n > 0 && w.Time <= q.watches[n-1].Time {
		return // repeated for readers that begin in the middle
	}
	if k := len(q.throttled); k > 0 && q.throttled[k-1].End == 0 {
		q.throttled[k-1].End = w.Time
	}
	if w.Ops == trace.WatchOff {
		q.throttled = append(q.throttled,
			trace.Loss{Start: w.Time, Why: trace.WhyThrottled, What: trace.LostGraphs, CPU: -1})
	}
	q.watches = append(q.watches, *w)
	if n >= 64 { // open graphs began later
		q.watches = slices.Delete(q.watches, 0, n/2)
	}
}

// skipped counts a graph whose operators were not traced, in the untraced interval that it lies in.
func (q *Proc) skipped(begin, end int64) {
	for i := len(q.throttled) - 1; i >= 0; i-- {
		if l := &q.throttled[i]; l.Start < end {
			l.Events++
			return
		}
	}
}

// unseen says why operators of a graph that begins now will not be seen; "" if they will.
func unseen(x *exec, now trace.Watch) string {
	switch {
	case now.Ops == trace.WatchOff:
		return trace.WhyThrottled
	case now.Ops == trace.WatchArrivals && x.shape != nil && x.shape.Order == nil && x.shape.runs > 0:
		return trace.WhyLearning
	}
	return ""
}

// follows reports whether arrivals are all that is needed for a graph whose order is known. Where begins are
// seen too, those of a graph with one operator provide more detail.
func follows(w trace.Watch, sh *Shape) bool {
	return w.Ops == trace.WatchArrivals || w.Ops == trace.WatchBoth &&
		(w.Why == "" || w.Why == trace.WhyLearning) && sh.runs > 1
}

// unseenSince does the same for a graph that ends now, where tracing changed while it ran.
func (q *Proc) unseenSince(x *exec, now int64) string {
	if x.watch.Ops == trace.WatchOff {
		return trace.WhyThrottled
	}
	why := "" // while all its arrivals were seen
	for i := len(q.watches) - 1; i >= 0 && q.watches[i].Time > x.watch.Time; i-- {
		switch w := &q.watches[i]; {
		case w.Time > now:
		case w.Ops == trace.WatchOff:
			return trace.WhyThrottled
		case x.f == nil && w.Ops == trace.WatchArrivals && (x.shape == nil || x.shape.runs > 0):
			why = trace.WhyLearning
		}
	}
	return why
}
