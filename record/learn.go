// SPDX-License-Identifier: Apache-2.0

package record

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
	// unlearned graphs are awaited this long after they were last seen, with both sites probed
	awaitFor = time.Minute
	// a structure whose arrivals did not fit more often is not followed any more
	maxAlarms = 3
	// shapes whose order is not known are kept for at most so many
	maxUnlearned = 256
	maxShapes    = 1 << 16
	maxHeld      = 1 << 20 // hits of a main thread that wait for the next drain
	// The first graphs find cold caches: how long the first operator takes is known a little later.
	minRuns = 3
)

// learner finds out in which order the operators of a process's graphs end, from graphs that
// were watched with begins and arrivals, so that they can then be followed by arrivals alone. Graphs
// of one structure (operators, types, sources, which dimensions are one) have one order, whatever
// their dimensions: with a growing KV cache nothing is learned anew. A graph that differs from a known one
// by its dimensions alone (prefill from decode) takes over that one's order: which operators are fused
// could depend on them, and then the number of arrivals does not fit. It counts those of
// graphs that are followed: what does not fit is an alarm.
type learner struct {
	structures map[uint64]*structure
	kin        map[uint64]*structure // by structure without dimensions: the first whose order was known
	shapes     map[uint64]*knownShape
	mains      map[int32]*mainThread
	seed       maphash.Seed
	unlearned  time.Time // when a graph of no known order was last seen
	runs       int       // graphs watched with both sites
	idle       bool      // nothing is to be learned: begins are needed anyway
	alarmed    bool      // an order did not fit: those told are not to be relied on while begins are seen
	again      []uint64  // shapes to be defined again
}

type structure struct {
	order  [][]int32
	least  int64     // time of the main thread in the first operator; 0: not seen
	tried  [][]int32 // an implausible order, seen once
	kin    uint64
	own    bool // its kin's order does not fit
	alarms int
}

type knownShape struct {
	*structure
	def    *trace.Shape // until its order is known
	byAddr map[uint64]int32
}

// mainThread is a thread that graphs were begun on.
type mainThread struct {
	hits  []probe.Hit
	marks []probe.Mark
	open  []*graphRun
}

// graphRun is a graph under way.
type graphRun struct {
	shape uint64
	begin int64
	first int64 // begin of its first operator
	ended int64 // and end
	n     int   // arrivals of the main thread
	order [][]int32
	cur   []int32
	valid bool
}

func newLearner() *learner {
	return &learner{structures: make(map[uint64]*structure), kin: make(map[uint64]*structure), shapes: make(map[uint64]*knownShape),
		mains: make(map[int32]*mainThread), seed: maphash.MakeSeed()}
}

// shape takes a new definition and completes it with its order, where that is known.
func (l *learner) shape(s *trace.Shape) {
	if s.Incomplete != "" {
		return
	}
	if len(l.shapes) >= maxShapes {
		clear(l.shapes)
		clear(l.structures)
		clear(l.kin)
	}
	key, kin := l.structureOf(s)
	st := l.structures[key]
	if st == nil {
		st = &structure{kin: kin}
		l.structures[key] = st
	}
	if o := l.kin[kin]; st.order == nil && !st.own && o != nil {
		st.order, st.least = o.order, o.least
	}
	k := &knownShape{structure: st}
	l.shapes[s.ID] = k
	if st.order != nil {
		s.Order, s.First = st.order, st.least
		return
	}
	n := 0
	for _, o := range l.shapes {
		if o.def != nil {
			n++
		}
	}
	if n >= maxUnlearned {
		return
	}
	k.def = s
	k.byAddr = make(map[uint64]int32, s.NNodes)
	for i := range s.NNodes {
		k.byAddr[s.Nodes[i].Addr] = int32(i)
	}
}

// structureOf hashes what decides which of a graph's operators run, and which of them as one: with what
// matters of the dimensions, and without.
func (l *learner) structureOf(s *trace.Shape) (key, kin uint64) {
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

// forget drops the main thread's events: some were lost, so that counts say nothing.
func (l *learner) forget() {
	for _, m := range l.mains {
		m.hits, m.marks, m.open = m.hits[:0], m.marks[:0], nil
	}
}

// mark takes a graph's begin or end on the CPU.
func (l *learner) mark(m *probe.Mark) {
	t := l.mains[m.TID]
	if t == nil {
		if len(l.mains) >= 256 { // threads that came and went
			clear(l.mains)
		}
		t = &mainThread{}
		l.mains[m.TID] = t
	}
	t.marks = append(t.marks, *m)
}

// advance takes what the main threads did before limit: what is older than the drain before this
// one has all arrived. It returns the shapes whose order became known.
func (l *learner) advance(limit int64, mode probe.Mode, since int64) (learned []*trace.Shape) {
	for _, t := range l.mains {
		byTime := func(a, b probe.Hit) int { return cmp.Compare(a.Time, b.Time) }
		if !slices.IsSortedFunc(t.hits, byTime) {
			slices.SortStableFunc(t.hits, byTime)
		}
		slices.SortStableFunc(t.marks, func(a, b probe.Mark) int { return cmp.Compare(a.Time, b.Time) })
		h, k := 0, 0
		for k < len(t.marks) && t.marks[k].Time < limit {
			m := &t.marks[k]
			for h < len(t.hits) && t.hits[h].Time < m.Time {
				l.hit(t, &t.hits[h])
				h++
			}
			k++
			if m.Kind == probe.MarkGraphBegin {
				if len(t.open) > 8 {
					t.open = nil // ends were lost
				}
				t.open = append(t.open, &graphRun{shape: m.Shape, begin: m.Time, valid: true})
			} else if n := len(t.open); n > 0 {
				g := t.open[n-1]
				t.open = t.open[:n-1]
				learned = append(learned, l.done(g, mode, since)...)
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

func (l *learner) hit(t *mainThread, h *probe.Hit) {
	if len(t.open) == 0 {
		return
	}
	g := t.open[len(t.open)-1]
	if h.Kind == probe.HitOpEnd {
		g.n++
	}
	k := l.shapes[g.shape]
	if k == nil || k.def == nil || !g.valid {
		return
	}
	switch h.Kind {
	case probe.HitOpBegin, probe.HitOpFused:
		n, ok := k.byAddr[h.Arg]
		g.valid = ok
		g.cur = nil
		if ok && k.def.Nodes[n].Executes {
			g.cur = []int32{n}
		}
		if g.first == 0 {
			g.first = h.Time
		}
	case probe.HitFusedWith:
		n, ok := k.byAddr[h.Arg]
		g.valid = ok && g.cur != nil
		g.cur = append(g.cur, n)
	case probe.HitOpEnd:
		if g.ended == 0 {
			g.ended = h.Time
		}
		g.order = append(g.order, g.cur)
		g.cur = nil
	}
}

// done takes a graph that has ended. since is when the present mode began.
func (l *learner) done(g *graphRun, mode probe.Mode, since int64) (learned []*trace.Shape) {
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
	if l.idle {
		return nil
	}
	l.unlearned = time.Now()
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
		// what runs is not what was expected: the same again is believed
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
			o.structure.order, o.least = st.order, st.least
		}
	}
	for _, o := range l.shapes {
		if o.kin == st.kin && o.order != nil && o.def != nil {
			o.def.Order, o.def.First = o.order, o.least
			learned = append(learned, o.def)
			o.def, o.byAddr = nil, nil
		}
	}
	l.unlearned = time.Time{}
	return learned
}

// alarm gives up an order that did not fit. Its shapes are to be defined again, as their definitions are
// needed to learn it anew.
func (l *learner) alarm(st *structure) {
	st.order, st.own = nil, true
	st.alarms++
	l.alarmed = true
	l.unlearned = time.Now()
	for id, o := range l.shapes {
		if o.structure == st {
			l.again = append(l.again, id)
		}
	}
}

// plausible: every node that is to run does, once, in the order of the graph.
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

// follows tells whether arrivals are enough at the moment.
func (l *learner) follows(now time.Time) bool {
	if l.unlearned.IsZero() {
		for _, st := range l.structures {
			if st.order != nil {
				return true
			}
		}
		return false
	}
	return now.Sub(l.unlearned) > awaitFor
}
