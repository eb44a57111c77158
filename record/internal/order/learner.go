// SPDX-License-Identifier: Apache-2.0

// Package order learns the order in which the operators of graphs end, so that they can be followed by
// arrivals alone.
package order

import (
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"slices"
	"time"

	"github.com/profinfer/profinfer/probe"
	"github.com/profinfer/profinfer/trace"
)

const (
	// after a graph whose order was given up is last seen, it is expected again for this long, with both
	// sites probed
	awaitFor = time.Minute
	// a structure whose arrivals did not fit more often than this is no longer followed
	maxAlarms = 3
	// maximum number of shapes kept while their order is unknown
	maxUnlearned = 256
	maxShapes    = 1 << 16
	maxHeld      = 1 << 20 // hits of a main thread that wait for the next drain
	// The first graphs run with cold caches: how long the first operator takes is known a little later.
	minRuns = 3
	// maximum number of consecutive rounds without anything new that are required
	maxRounds = 64
	// graphs of fewer operators than this, averaged over about this many graphs, are not followed
	fewOps    = 4
	fewGraphs = 256
)

// Learner learns the order in which the operators of a process's graphs end, from graphs traced with begins
// and arrivals, so that later ones can be followed by arrivals alone. Graphs of one structure (operators,
// types, sources, which dimensions are one) have one order, whatever their dimensions: nothing is learned
// anew when the KV cache grows. A graph that differs from a known one only in its dimensions (prefill from
// decode) takes over that one's order. Which operators are fused could depend on the dimensions; then the
// number of arrivals does not fit. Learner counts the arrivals of graphs that are followed, and a mismatch is
// an alarm.
//
// Arrivals suffice once graphs repeat: after a round (a run of the scheduler) in which no graph was new and
// all orders were known. Each time that something new appears while following, twice as many such rounds are
// required. Arrivals do not suffice for graphs of few operators, such as those of a program that inspects
// every node: the begin of a graph's first operator is only estimated.
type Learner struct {
	structures map[uint64]*structure
	kin        map[uint64]*structure // by structure without dimensions: the first whose order was known
	shapes     map[uint64]*knownShape
	mains      map[int32]*Thread
	seed       maphash.Seed
	unlearned  time.Time // when a graph whose order is no longer learned was last seen
	runs       int       // graphs watched with both sites
	// recent consecutive rounds without a new structure, in which all graphs' orders were known at their ends
	clean   int
	wanted  int      // how many are required
	ops     int      // operators of the recent graphs
	graphs  int      // number of these graphs
	defs    int      // shapes waiting for their order
	Idle    bool     // nothing to learn: begins are needed anyway
	alarmed bool     // an order did not fit: those written are unreliable while begins are seen
	again   []uint64 // shapes to be defined again
}

type structure struct {
	order  [][]int32
	ops    int       // nodes that are to run
	least  int64     // minimum time of the main thread in the first operator; 0: not seen
	tried  [][]int32 // an implausible order, seen once
	kin    uint64
	own    bool // the order of its kin does not fit
	met    bool // a graph of it ran, or its order was known before
	alarms int
}

type knownShape struct {
	*structure
	def    *trace.Shape // until its order is known
	byAddr map[uint64]int32
}

// Thread is a thread that began graphs: their main thread.
type Thread struct {
	hits  []trace.Hit
	marks []trace.Mark
	open  []*graphRun
	round round
}

// round is what a thread did since it began its current run of the scheduler; if these are not seen, a step
// or a graph is a round.
type round struct {
	graphs, ops int
	news        bool // a graph was new, or ended with its order unknown
	bounded     bool // the thread's rounds are seen
}

// graphRun is a running graph.
type graphRun struct {
	shape uint64
	begin int64
	first int64 // begin of its first operator
	ended int64 // and its end
	n     int   // arrivals of the main thread
	order [][]int32
	cur   []int32
	valid bool
}

// New returns a learner of one process without any knowledge.
func New() *Learner {
	return &Learner{structures: make(map[uint64]*structure), kin: make(map[uint64]*structure),
		shapes: make(map[uint64]*knownShape),
		mains:  make(map[int32]*Thread), seed: maphash.MakeSeed(), wanted: 1}
}

// Define takes a new definition and adds its order, if known. A graph in which nothing runs has none.
func (l *Learner) Define(s *trace.Shape) {
	ops := operators(s)
	if s.Incomplete != "" || ops == 0 {
		return
	}
	if len(l.shapes) >= maxShapes {
		clear(l.shapes)
		clear(l.structures)
		clear(l.kin)
		l.defs, l.clean = 0, 0
	}
	key, kin := l.structureOf(s, ops)
	st := l.structures[key]
	if st == nil {
		st = &structure{kin: kin, ops: ops}
		l.structures[key] = st
	}
	if o := l.kin[kin]; st.order == nil && !st.own && o != nil {
		st.take(o)
	}
	k := &knownShape{structure: st}
	l.Drop(s.ID)
	l.shapes[s.ID] = k
	if st.order != nil {
		s.Order, s.First = st.order, st.least
		return
	}
	if l.Idle || l.defs >= maxUnlearned {
		return // it will be requested again
	}
	l.defs++
	k.def = s
	k.byAddr = make(map[uint64]int32, s.NNodes)
	for i := range s.NNodes {
		k.byAddr[s.Nodes[i].Addr] = int32(i)
	}
}

// Drop forgets a shape.
func (l *Learner) Drop(id uint64) {
	if k := l.shapes[id]; k != nil && k.def != nil {
		l.defs--
	}
	delete(l.shapes, id)
}

// take takes over the order of a graph that differs only in its dimensions. It also takes over how long the
// first operator lasts, unless it is the only one, for which that would be the whole result.
func (st *structure) take(o *structure) {
	st.order, st.met = o.order, true
	if st.ops > 1 {
		st.least = o.least
	}
}

// operators counts the nodes that are to run.
func operators(s *trace.Shape) (n int) {
	for i := range s.NNodes {
		if s.Nodes[i].Executes {
			n++
		}
	}
	return n
}

// structureOf hashes what determines which of a graph's operators run, and which are fused: with the relevant
// part of the dimensions, and without. For a single operator all dimensions matter, as they determine how
// long it lasts.
func (l *Learner) structureOf(s *trace.Shape, ops int) (key, kin uint64) {
	var h, dims maphash.Hash
	h.SetSeed(l.seed)
	dims.SetSeed(l.seed)
	b := make([]byte, 0, 256)
	for i := range s.NNodes {
		n := &s.Nodes[i]
		b = b[:0]
		b = append(b, n.Op...)
		b = append(append(b, 0), n.Type...)
		var bits byte
		size := uint64(max(n.TypeSize, 1))
		for d := range n.Ne {
			if n.Ne[d] == 1 {
				bits |= 1 << d
			}
			// contiguous up to here
			if n.Ne[d] == 1 || n.Nb[d] == size {
				bits |= 16 << d
			}
			if d == 0 && n.BlockSize > 0 {
				size *= uint64(max(n.Ne[d]/n.BlockSize, 0))
			} else {
				size *= uint64(max(n.Ne[d], 0))
			}
		}
		dims.WriteByte(bits)
		b = append(b, 0, flag(n.Executes), flag(n.ViewSrc >= 0))
		for _, src := range n.Src {
			if int(src) >= s.NNodes {
				src = -1
			}
			b = binary.LittleEndian.AppendUint32(b, uint32(src))
		}
		b = append(b, 0xff)
		h.Write(b)
	}
	kin = h.Sum64()
	h.WriteString("dimensions")
	var d [8]byte
	if ops == 1 {
		for i := range s.Nodes {
			for _, n := range s.Nodes[i].Ne {
				binary.LittleEndian.PutUint64(d[:], uint64(n))
				dims.Write(d[:])
			}
		}
	}
	binary.LittleEndian.PutUint64(d[:], dims.Sum64())
	h.Write(d[:])
	return h.Sum64(), kin
}

func flag(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// Forget drops the main threads' events: some were lost, so the counts are meaningless.
func (l *Learner) Forget() {
	for _, m := range l.mains {
		m.hits, m.marks, m.open = m.hits[:0], m.marks[:0], nil
	}
}

// Mark takes the begins and ends of graphs on the CPU, of scheduler runs and of steps.
func (l *Learner) Mark(m *trace.Mark) {
	t := l.mains[m.TID]
	if t == nil {
		if len(l.mains) >= 256 { // threads that came and went
			clear(l.mains)
		}
		t = &Thread{}
		l.mains[m.TID] = t
	}
	t.marks = append(t.marks, *m)
}

// Advance processes what the main threads did before limit: everything older than the previous drain has
// arrived. It returns the shapes whose order became known.
func (l *Learner) Advance(limit int64, mode probe.Mode, since int64) (learned []*trace.Shape) {
	for _, t := range l.mains {
		byTime := func(a, b trace.Hit) int { return cmp.Compare(a.Time, b.Time) }
		if !slices.IsSortedFunc(t.hits, byTime) {
			slices.SortStableFunc(t.hits, byTime)
		}
		slices.SortStableFunc(t.marks, func(a, b trace.Mark) int { return cmp.Compare(a.Time, b.Time) })
		h, k := 0, 0
		for k < len(t.marks) && t.marks[k].Time < limit {
			m := &t.marks[k]
			for h < len(t.hits) && t.hits[h].Time < m.Time {
				l.hit(t, &t.hits[h])
				h++
			}
			k++
			switch m.Kind {
			case trace.MarkGraphBegin:
				if len(t.open) > 8 {
					t.open = nil // ends were lost
				}
				t.open = append(t.open, &graphRun{shape: m.Shape, begin: m.Time, valid: true})
			case trace.MarkGraphEnd:
				n := len(t.open)
				if n == 0 {
					break
				}
				g := t.open[n-1]
				t.open = t.open[:n-1]
				learned = append(learned, l.done(g, mode, since)...)
				l.ran(t, g, mode, since)
			default:
				t.round.bounded = true
				l.ended(t)
			}
		}
		for h < len(t.hits) && t.hits[h].Time < limit {
			l.hit(t, &t.hits[h])
			h++
		}
		t.hits = slices.Delete(t.hits, 0, h)
		t.marks = slices.Delete(t.marks, 0, k)
		if len(t.hits) > maxHeld {
			t.hits = t.hits[:0]
		}
	}
	return learned
}

func (l *Learner) hit(t *Thread, h *trace.Hit) {
	if len(t.open) == 0 {
		return
	}
	g := t.open[len(t.open)-1]
	if h.Kind == trace.HitOpEnd {
		g.n++
	}
	k := l.shapes[g.shape]
	if k == nil || k.def == nil || !g.valid {
		return
	}
	switch h.Kind {
	case trace.HitOpBegin, trace.HitOpFused:
		n, ok := k.byAddr[h.Arg]
		g.valid = ok
		g.cur = nil
		if ok && k.def.Nodes[n].Executes {
			g.cur = []int32{n}
		}
		if g.first == 0 {
			g.first = h.Time
		}
	case trace.HitFusedWith:
		n, ok := k.byAddr[h.Arg]
		g.valid = ok && g.cur != nil
		g.cur = append(g.cur, n)
	case trace.HitOpEnd:
		if g.ended == 0 {
			g.ended = h.Time
		}
		g.order = append(g.order, g.cur)
		g.cur = nil
	}
}

// done takes a graph that has ended. since is when the current mode began.
func (l *Learner) done(g *graphRun, mode probe.Mode, since int64) (learned []*trace.Shape) {
	k := l.shapes[g.shape]
	if k == nil || g.begin < since || mode == probe.ModeOff {
		return nil
	}
	if k.order != nil {
		if mode == probe.ModeArrivals && g.n != len(k.order) {
			l.alarm(k.structure)
		}
		return nil
	}
	if k.alarms > maxAlarms {
		l.unlearned = time.Now()
		return nil
	}
	if l.Idle {
		return nil
	}
	if k.def == nil && l.defs < maxUnlearned { // there was no room for it, or no use
		l.again = append(l.again, g.shape)
	}
	if mode != probe.ModeBoth || !g.valid || k.def == nil || len(g.order) == 0 {
		return nil
	}
	if d := g.ended - g.first; g.first != 0 && d > 0 && (k.least == 0 || d < k.least) {
		k.least = d
	}
	if l.runs++; l.runs < minRuns {
		return nil
	}
	if !plausible(k.def, g.order) {
		// the actual order is not the expected one: it is believed when seen twice
		if !slices.EqualFunc(k.tried, g.order, slices.Equal[[]int32]) {
			k.tried = g.order
			return nil
		}
	}
	st := k.structure
	st.order, st.tried = g.order, nil
	if l.kin[st.kin] == nil {
		l.kin[st.kin] = st
	}
	for _, o := range l.shapes {
		if o.structure != st && o.kin == st.kin && o.order == nil && !o.own {
			o.take(st)
		}
	}
	for _, o := range l.shapes {
		if o.kin == st.kin && o.order != nil && o.def != nil {
			o.def.Order, o.def.First = o.order, o.least
			learned = append(learned, o.def)
			o.def, o.byAddr = nil, nil
			l.defs--
		}
	}
	return learned
}

// ran adds a graph that has ended to its round.
func (l *Learner) ran(t *Thread, g *graphRun, mode probe.Mode, since int64) {
	k := l.shapes[g.shape]
	if k == nil {
		return
	}
	t.round.graphs++
	t.round.ops += k.ops
	// the first one missed
	if k.order == nil && mode == probe.ModeArrivals && g.begin >= since && l.clean >= l.wanted {
		l.wanted = min(2*l.wanted, maxRounds)
	}
	if k.order == nil || !k.met {
		t.round.news, l.clean = true, 0
	}
	k.met = true
	if !t.round.bounded {
		l.ended(t)
	}
}

// ended takes the end of a thread's round.
func (l *Learner) ended(t *Thread) {
	r := t.round
	if r.graphs == 0 {
		return
	}
	if t.round = (round{bounded: r.bounded}); !r.news {
		l.clean++
	}
	l.graphs += r.graphs
	l.ops += r.ops
	for l.graphs > fewGraphs {
		l.graphs, l.ops = l.graphs/2, l.ops/2
	}
}

// Few reports whether graphs have so few operators that begins are needed to know how long they last.
func (l *Learner) Few() bool { return l.ops < fewOps*l.graphs }

// alarm gives up an order that did not fit. Its shapes are defined again, as their definitions are needed to
// relearn it.
func (l *Learner) alarm(st *structure) {
	st.order, st.own = nil, true
	st.alarms++
	l.alarmed, l.clean = true, 0
	for id, o := range l.shapes {
		if o.structure == st {
			l.again = append(l.again, id)
		}
	}
}

// plausible reports whether every node that is to run does so once, in the order of the graph.
func plausible(s *trace.Shape, order [][]int32) bool {
	ran := make([]bool, s.NNodes)
	last := int32(-1)
	for _, nodes := range order {
		for k, n := range nodes {
			if ran[n] || k == 0 && n <= last {
				return false
			}
			ran[n] = true
			if k == 0 {
				last = n
			}
		}
	}
	for i := range ran {
		if s.Nodes[i].Executes && !ran[i] {
			return false
		}
	}
	return true
}

// Follows reports whether arrivals are sufficient at the moment.
func (l *Learner) Follows(now time.Time) bool {
	return l.clean >= l.wanted && now.Sub(l.unlearned) > awaitFor
}

// Alarmed reports whether an order did not fit: those written are unreliable while begins are seen.
func (l *Learner) Alarmed() bool { return l.alarmed }

// Redefine returns the shapes to be defined again, added since the last call.
func (l *Learner) Redefine() []uint64 {
	ids := l.again
	l.again = nil
	return ids
}

// Thread returns the main thread with that ID, nil if no graph was begun on it.
func (l *Learner) Thread(tid int32) *Thread { return l.mains[tid] }

// Hit takes a hit of the thread.
func (t *Thread) Hit(h *trace.Hit) { t.hits = append(t.hits, *h) }

// Waiting returns how many events of main threads, and how many shapes, are kept.
func (l *Learner) Waiting() (events, shapes int) {
	for _, t := range l.mains {
		events += len(t.hits) + len(t.marks)
	}
	return events, len(l.shapes)
}
