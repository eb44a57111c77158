// SPDX-License-Identifier: Apache-2.0

package record

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
		s.Nodes = append(s.Nodes, trace.Node{Op: op, Type: "f32", Ne: [4]int64{n, 1, 1, 1}, Nb: [4]uint64{4, 4 * uint64(n), 4 * uint64(n), 4 * uint64(n)},
			TypeSize: 4, BlockSize: 1, Addr: base + uint64(i)*16, Executes: op != "VIEW", ViewSrc: -1})
	}
	return s
}

// play runs a graph on the main thread, with begins or without, arrivals short of those that fit by miss.
func play(l *learner, shape, base uint64, at int64, begins bool, miss int) {
	l.mark(&probe.Mark{Time: at, TID: 9, Kind: probe.MarkGraphBegin, Shape: shape})
	m := l.mains[9]
	hit := func(t int64, kind uint8, node int) {
		if begins || kind == probe.HitOpEnd {
			m.hits = append(m.hits, probe.Hit{Time: at + t, TID: 9, Kind: kind, Arg: base + uint64(node)*16})
		}
	}
	hit(5, probe.HitOpFused, 0)
	hit(5, probe.HitFusedWith, 1)
	hit(20, probe.HitOpEnd, 0)
	hit(21, probe.HitOpBegin, 3)
	hit(30, probe.HitOpEnd, 0)
	hit(31, probe.HitOpBegin, 4)
	if miss == 0 {
		hit(40, probe.HitOpEnd, 0)
	}
	l.mark(&probe.Mark{Time: at + 50, TID: 9, Kind: probe.MarkGraphEnd})
}

func TestLearn(t *testing.T) {
	l := newLearner()
	s := testShape(7, 0x1000, 64)
	l.shape(s)
	if s.Order != nil {
		t.Fatal("an order was known before anything ran")
	}
	var learned []*trace.Shape
	for i := range minRuns {
		play(l, 7, 0x1000, int64(1000*(i+1)), true, 0)
		if l.follows(time.Now()) {
			t.Fatalf("followed after %d runs", i)
		}
		learned = append(learned, l.advance(1<<40, probe.ModeBoth, 0)...)
	}
	want := [][]int32{{0, 1}, {3}, {4}}
	if len(learned) != 1 || !slices.EqualFunc(learned[0].Order, want, slices.Equal[[]int32]) || learned[0].First != 15 {
		t.Fatalf("learned %+v, want %v and 15 ns for the first", learned, want)
	}
	if !l.follows(time.Now()) {
		t.Error("a graph whose order is known is not followed")
	}

	// the same structure at other addresses, with other dimensions
	o := testShape(8, 0x9000, 128)
	l.shape(o)
	if !slices.EqualFunc(o.Order, want, slices.Equal[[]int32]) {
		t.Errorf("a graph of the same structure has order %v", o.Order)
	}
	// another structure: a dimension that was one
	kin := testShape(9, 0xa000, 64)
	kin.Nodes[3].Ne[1] = 2
	l.shape(kin)
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
		l.shape(p)
		if p.Order != nil {
			t.Errorf("%s: a graph of another structure took over an order", what)
		}
	}

	// what does not fit one whose order was taken over is learned anew, and leaves the other's alone
	play(l, 9, 0xa000, 30000, false, 1)
	l.advance(1<<40, probe.ModeArrivals, 9000)
	if l.shapes[9].order != nil || !l.shapes[9].own || !slices.Contains(l.again, 9) {
		t.Errorf("after an alarm: %+v", l.shapes[9].structure)
	}
	if l.shapes[8].order == nil {
		t.Error("an alarm of prefill's took decode's order away")
	}
	l.unlearned, l.again = time.Time{}, nil

	// what fits is no alarm, what does not is
	play(l, 8, 0x9000, 10000, false, 0)
	l.advance(1<<40, probe.ModeArrivals, 9000)
	if !l.follows(time.Now()) {
		t.Error("a graph that fits raised an alarm")
	}
	play(l, 8, 0x9000, 20000, false, 1)
	l.advance(1<<40, probe.ModeArrivals, 9000)
	if l.follows(time.Now()) {
		t.Error("an arrival was missing and nobody noticed")
	}
}

// Nothing is learned from a graph that began before both sites were probed, whose node is not known,
// or in which a node that should run did not.
func TestLearnRefuses(t *testing.T) {
	for what, run := range map[string]func(l *learner) []*trace.Shape{
		"begun before": func(l *learner) []*trace.Shape {
			play(l, 7, 0x1000, 1000, true, 0)
			return l.advance(1<<40, probe.ModeBoth, 1001)
		},
		"another address": func(l *learner) []*trace.Shape {
			play(l, 7, 0x2000, 1000, true, 0)
			return l.advance(1<<40, probe.ModeBoth, 0)
		},
		"a node that did not run": func(l *learner) []*trace.Shape {
			play(l, 7, 0x1000, 1000, true, 1)
			return l.advance(1<<40, probe.ModeBoth, 0)
		},
		"events lost": func(l *learner) []*trace.Shape {
			play(l, 7, 0x1000, 1000, true, 0)
			l.forget()
			return l.advance(1<<40, probe.ModeBoth, 0)
		},
		"too early": func(l *learner) []*trace.Shape {
			play(l, 7, 0x1000, 1000, true, 0)
			return l.advance(1000, probe.ModeBoth, 0)
		},
	} {
		l := newLearner()
		l.runs = minRuns
		l.shape(testShape(7, 0x1000, 64))
		if got := run(l); len(got) != 0 {
			t.Errorf("%s: learned %v", what, got[0].Order)
		}
	}
}
