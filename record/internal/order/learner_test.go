// SPDX-License-Identifier: Apache-2.0

package order

import (
	"slices"
	"testing"
	"time"

	"github.com/profinfer/profinfer/probe"
	"github.com/profinfer/profinfer/trace"
)

// graph of five nodes, of which one is a view and two run as one.
func testShape(id uint64, base uint64, n int64) *trace.Shape {
	s := &trace.Shape{PID: 1, ID: id, NNodes: 5}
	for i, op := range []string{"RMS_NORM", "MUL", "VIEW", "MUL_MAT", "ADD"} {
		s.Nodes = append(s.Nodes, trace.Node{Op: op, Type: "f32", Ne: [4]int64{n, 1, 1, 1},
			Nb:       [4]uint64{4, 4 * uint64(n), 4 * uint64(n), 4 * uint64(n)},
			TypeSize: 4, BlockSize: 1, Addr: base + uint64(i)*16, Executes: op != "VIEW", ViewSrc: -1})
	}
	return s
}

// play runs a graph on the main thread, with begins or without, arrivals short of those that fit by miss.
func play(l *Learner, shape, base uint64, at int64, begins bool, miss int) {
	l.Mark(&trace.Mark{Time: at, TID: 9, Kind: trace.MarkGraphBegin, Shape: shape})
	m := l.mains[9]
	hit := func(t int64, kind trace.HitKind, node int) {
		if begins || kind == trace.HitOpEnd {
			m.hits = append(m.hits, trace.Hit{Time: at + t, TID: 9, Kind: kind, Arg: base + uint64(node)*16})
		}
	}
	hit(5, trace.HitOpFused, 0)
	hit(5, trace.HitFusedWith, 1)
	hit(20, trace.HitOpEnd, 0)
	hit(21, trace.HitOpBegin, 3)
	hit(30, trace.HitOpEnd, 0)
	hit(31, trace.HitOpBegin, 4)
	if miss == 0 {
		hit(40, trace.HitOpEnd, 0)
	}
	l.Mark(&trace.Mark{Time: at + 50, TID: 9, Kind: trace.MarkGraphEnd})
}

func TestLearn(t *testing.T) {
	l := New()
	s := testShape(7, 0x1000, 64)
	l.Define(s)
	if s.Order != nil {
		t.Fatal("an order was known before anything ran")
	}
	var learned []*trace.Shape
	for i := range minRuns {
		play(l, 7, 0x1000, int64(1000*(i+1)), true, 0)
		if l.Follows(time.Now()) {
			t.Fatalf("followed after %d runs", i)
		}
		learned = append(learned, l.Advance(1<<40, probe.ModeBoth, 0)...)
	}
	want := [][]int32{{0, 1}, {3}, {4}}
	if len(learned) != 1 || !slices.EqualFunc(learned[0].Order, want, slices.Equal[[]int32]) ||
		learned[0].First != 15 {
		t.Fatalf("learned %+v, want %v and 15 ns for the first", learned, want)
	}
	if !l.Follows(time.Now()) {
		t.Error("a graph whose order is known is not followed")
	}

	// the same structure at other addresses, with other dimensions
	o := testShape(8, 0x9000, 128)
	l.Define(o)
	if !slices.EqualFunc(o.Order, want, slices.Equal[[]int32]) {
		t.Errorf("a graph of the same structure has order %v", o.Order)
	}
	// another structure: a dimension that was one
	kin := testShape(9, 0xa000, 64)
	kin.Nodes[3].Ne[1] = 2
	l.Define(kin)
	if !slices.EqualFunc(kin.Order, want, slices.Equal[[]int32]) {
		t.Errorf("a graph with other dimensions has order %v", kin.Order)
	}
	for what, change := range map[string]func(*trace.Node){
		"another operator":       func(n *trace.Node) { n.Op = "ADD1" },
		"another type":           func(n *trace.Node) { n.Type = "f16" },
		"another source":         func(n *trace.Node) { n.Src = []int32{0} },
		"nothing to be computed": func(n *trace.Node) { n.Executes = false },
		"a view of something":    func(n *trace.Node) { n.ViewSrc = 0 },
	} {
		p := testShape(10, 0xb000, 64)
		change(&p.Nodes[4])
		l.Define(p)
		if p.Order != nil {
			t.Errorf("%s: a graph of another structure took over an order", what)
		}
	}

	// what does not fit one whose order was taken over is learned anew, and leaves the other's alone
	play(l, 9, 0xa000, 30000, false, 1)
	l.Advance(1<<40, probe.ModeArrivals, 9000)
	if l.shapes[9].order != nil || !l.shapes[9].own || !slices.Contains(l.again, 9) {
		t.Errorf("after an alarm: %+v", l.shapes[9].structure)
	}
	if l.shapes[8].order == nil {
		t.Error("an alarm of prefill's took decode's order away")
	}
	l.unlearned, l.again = time.Time{}, nil

	// what fits is no alarm, what does not is
	play(l, 8, 0x9000, 10000, false, 0)
	l.Advance(1<<40, probe.ModeArrivals, 9000)
	if !l.Follows(time.Now()) {
		t.Error("a graph that fits raised an alarm")
	}
	play(l, 8, 0x9000, 20000, false, 1)
	l.Advance(1<<40, probe.ModeArrivals, 9000)
	if l.Follows(time.Now()) {
		t.Error("an arrival was missing and nobody noticed")
	}
}

// Nothing is learned from a graph that began before both sites were probed, whose node is not known,
// or in which a node that should run did not.
func TestLearnRefuses(t *testing.T) {
	for what, run := range map[string]func(l *Learner) []*trace.Shape{
		"begun before": func(l *Learner) []*trace.Shape {
			play(l, 7, 0x1000, 1000, true, 0)
			return l.Advance(1<<40, probe.ModeBoth, 1001)
		},
		"another address": func(l *Learner) []*trace.Shape {
			play(l, 7, 0x2000, 1000, true, 0)
			return l.Advance(1<<40, probe.ModeBoth, 0)
		},
		"a node that did not run": func(l *Learner) []*trace.Shape {
			play(l, 7, 0x1000, 1000, true, 1)
			return l.Advance(1<<40, probe.ModeBoth, 0)
		},
		"events lost": func(l *Learner) []*trace.Shape {
			play(l, 7, 0x1000, 1000, true, 0)
			l.Forget()
			return l.Advance(1<<40, probe.ModeBoth, 0)
		},
		"too early": func(l *Learner) []*trace.Shape {
			play(l, 7, 0x1000, 1000, true, 0)
			return l.Advance(1000, probe.ModeBoth, 0)
		},
	} {
		l := New()
		l.runs = minRuns
		l.Define(testShape(7, 0x1000, 64))
		if got := run(l); len(got) != 0 {
			t.Errorf("%s: learned %v", what, got[0].Order)
		}
	}
}

// single is a graph of one operator on a main thread, as programs run it that look at every node.
func single(l *Learner, id uint64, op string, n int64) *trace.Shape {
	s := &trace.Shape{PID: 1, ID: id, NNodes: 1,
		Nodes: []trace.Node{{Op: op, Type: "f32", Ne: [4]int64{n, 1, 1, 1},
			Nb: [4]uint64{4, 4 * uint64(n), 4 * uint64(n),
				4 * uint64(n)}, TypeSize: 4, BlockSize: 1, Addr: id * 16, Executes: op != "VIEW",
			ViewSrc: -1}}}
	l.Define(s)
	return s
}

func playNode(l *Learner, id uint64, at, lasts int64, begins bool) {
	l.Mark(&trace.Mark{Time: at, TID: 9, Kind: trace.MarkGraphBegin, Shape: id})
	m := l.mains[9]
	if begins {
		m.hits = append(m.hits, trace.Hit{Time: at + 1, TID: 9, Kind: trace.HitOpBegin, Arg: id * 16})
	}
	m.hits = append(m.hits, trace.Hit{Time: at + 1 + lasts, TID: 9, Kind: trace.HitOpEnd})
	l.Mark(&trace.Mark{Time: at + 2 + lasts, TID: 9, Kind: trace.MarkGraphEnd})
}

// round plays graphs of a run of the scheduler, after what came before it.
func playRound(l *Learner, at int64, graphs func()) {
	l.Mark(&trace.Mark{Time: at, TID: 9, Kind: trace.MarkSchedBegin})
	graphs()
	l.Mark(&trace.Mark{Time: at + 1000, TID: 9, Kind: trace.MarkSchedEnd})
}

// Graphs are followed once a whole run of the scheduler held none whose order is not known, not as soon as
// one order was learned: the next graph can be new. Each time that one is, which was missed then, twice as
// many runs are waited for.
func TestLearnRounds(t *testing.T) {
	l := New()
	now := time.Now()
	shape := func(id uint64, op string) {
		s := testShape(id, id<<16, 64)
		s.Nodes[4].Op = op // another structure
		l.Define(s)
	}
	at := int64(0)
	run := func(mode probe.Mode, ids ...uint64) {
		at += 10_000
		playRound(l, at, func() {
			for i, id := range ids {
				play(l, id, id<<16, at+int64(100*i)+1, mode == probe.ModeBoth, 0)
			}
		})
		l.Advance(1<<40, mode, 0)
	}
	for i := range uint64(6) {
		shape(i+1, string(rune('A'+i)))
	}
	run(probe.ModeBoth, 1, 2)
	run(probe.ModeBoth, 1, 3)
	if l.Follows(now) {
		t.Error("followed though a graph was new in the latest run")
	}
	run(probe.ModeBoth, 2, 3)
	if !l.Follows(now) {
		t.Error("not followed though the orders of a whole run are known")
	}
	for missed, id := range []uint64{4, 5, 6} {
		run(probe.ModeArrivals, 1, id)
		for n := range 1 << (missed + 1) {
			if l.Follows(now) {
				t.Fatalf("followed %d runs after a graph was missed, the %d. one", n, missed+1)
			}
			run(probe.ModeBoth, 1, id)
		}
		if !l.Follows(now) {
			t.Fatalf("not followed %d runs after a graph was missed", 1<<(missed+1))
		}
	}
	// nothing is to run in it: nothing can be missed
	single(l, 50, "VIEW", 8)
	run(probe.ModeArrivals, 1)
	playNode(l, 50, at+5000, 10, false)
	l.Advance(1<<40, probe.ModeArrivals, 0)
	if !l.Follows(now) {
		t.Error("a graph of which nothing is to run is waited for")
	}
}

// How long the only operator of a graph lasts is told of that one alone, and not of another with other
// dimensions. Where most graphs are such, begins stay; one among large graphs changes nothing.
func TestLearnSingle(t *testing.T) {
	l := New()
	at := int64(0)
	for range minRuns {
		single(l, 1, "MUL_MAT", 64)
		at += 10_000
		playRound(l, at, func() { playNode(l, 1, at+1, 15, true) })
		l.Advance(1<<40, probe.ModeBoth, 0)
	}
	if s := single(l, 1, "MUL_MAT", 64); s.Order == nil || s.First != 15 {
		t.Errorf("the graph that was watched has order %v, first %d", s.Order, s.First)
	}
	if s := single(l, 2, "MUL_MAT", 4096); s.Order == nil || s.First != 0 {
		t.Errorf("one of another size has order %v, first %d", s.Order, s.First)
	}
	if !l.Few() {
		t.Error("graphs of one operator do not need their begins")
	}
	l.Define(testShape(7, 0x1000, 64))
	for range 20 {
		at += 10_000
		playRound(l, at, func() {
			playNode(l, 1, at+1, 15, true)
			for i := range int64(9) {
				play(l, 7, 0x1000, at+100*(i+1), true, 0)
			}
		})
		l.Advance(1<<40, probe.ModeBoth, 0)
	}
	if got := l.ops / l.graphs; l.Few() != (got < fewOps) {
		t.Errorf("%d operators of %d graphs: few is %t", l.ops, l.graphs, l.Few())
	}
}

// Shapes that came while nothing was to be learned, or for which there was no room, are asked for again once
// their order is wanted.
func TestLearnAgain(t *testing.T) {
	l := New()
	l.Idle, l.runs = true, minRuns
	l.Define(testShape(7, 0x1000, 64))
	play(l, 7, 0x1000, 1000, true, 0)
	l.Advance(1<<40, probe.ModeBoth, 0)
	if len(l.again) > 0 || l.defs > 0 {
		t.Errorf("%v is asked for, %d kept, though nothing is learned", l.again, l.defs)
	}
	l.Idle = false
	play(l, 7, 0x1000, 2000, true, 0)
	l.Advance(1<<40, probe.ModeBoth, 0)
	if !slices.Equal(l.again, []uint64{7}) {
		t.Fatalf("%v is asked for, want shape 7", l.again)
	}
	l.Define(testShape(7, 0x1000, 64))
	play(l, 7, 0x1000, 3000, true, 0)
	if learned := l.Advance(1<<40, probe.ModeBoth, 0); len(learned) != 1 || l.defs != 0 {
		t.Errorf("learned %d orders, %d definitions are kept", len(learned), l.defs)
	}
	for i := range uint64(2 * maxUnlearned) {
		single(l, 100+i, "OP"+string(rune('A'+i)), 8)
	}
	if l.defs != maxUnlearned {
		t.Errorf("%d definitions are kept, at most %d should be", l.defs, maxUnlearned)
	}
	for i := range uint64(2 * maxUnlearned) {
		l.Drop(100 + i)
	}
	if l.defs != 0 {
		t.Errorf("%d definitions are kept of shapes that are forgotten", l.defs)
	}
}
