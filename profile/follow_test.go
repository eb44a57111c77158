// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"slices"
	"testing"

	"github.com/profinfer/profinfer/trace"
)

// Learned makes the scene's graph one whose order is known.
func (s *scene) Learned() {
	sh := *s.p.procs[Pid].Shapes[7].Shape
	sh.Order, sh.First = [][]int32{{0, 1}, {3}, {4}, nil}, 15
	s.feed(trace.Block{Shape: &sh})
}

func (s *scene) Watch(t int64, ops, why string) {
	s.feed(trace.Block{Watch: &trace.Watch{PID: Pid, Time: t, Ops: ops, Why: why}})
}

// Arrivals plays the step of decode as it is seen without begins.
func (s *scene) Arrivals(t int64) {
	s.Decode(t)
	n := 0
	for _, h := range s.B.Hits {
		if h.Time < t || h.Kind == trace.HitOpEnd {
			s.B.Hits[n] = h
			n++
		}
	}
	s.B.Hits = s.B.Hits[:n]
	s.end(t+226, worker1) // the closing barrier, which a begin would not tell
}

func OpLevel(s *scene) { s.p.h.Meta.Level = "op" }

func TestFollow(t *testing.T) {
	s := NewScene(t)
	OpLevel(s)
	s.Learned()
	s.Watch(900, trace.WatchArrivals, "following")
	s.Arrivals(1000)
	h := s.Done()
	if len(s.c.steps) != 1 || len(s.c.ops) != 3 || s.c.steps[0].Ops != 3 || s.c.steps[0].Untraced != "" ||
		s.c.steps[0].Incomplete != "" {
		t.Fatalf("%d steps, %d operators, losses %v: %+v", len(s.c.steps), len(s.c.ops), h.Losses, s.c.steps)
	}
	norm, mm, add := s.c.ops[0], s.c.ops[1], s.c.ops[2]
	// from the first arrival (1040) less what it was learned to take to the last arrival; a thread that
	// was started late was not busy before
	if norm.Op != "RMS_NORM+MUL" || norm.Start != 1025 || norm.Dur != 25 || norm.Busy != 15+15 ||
		norm.Wait != 10 || norm.Threads[1].Start != 1035 {
		t.Errorf("fused: %+v", norm)
	}
	// from the last arrival before (1050)
	if mm.Op != "MUL_MAT" || mm.Start != 1050 || mm.Dur != 150 || mm.Busy != 110+120 || mm.OffCPU != 30 ||
		mm.Wait != 40 {
		t.Errorf("matrix product: %+v", mm)
	}
	if th := mm.Threads[1]; th.TID != worker1 || th.Busy != 120 || th.OffCPU != 30 || th.Wait != 0 ||
		th.Ith != UnknownIth {
		t.Errorf("late thread: %+v", th)
	}
	if add.Node != 4 || add.Start != 1200 || add.Dur != 21 {
		t.Errorf("last: %+v", add)
	}
	if len(h.Losses) != 0 {
		t.Errorf("losses: %v", h.Losses)
	}
}

// A number of arrivals that does not fit is told, and nothing is guessed from it.
func TestFollowAlarm(t *testing.T) {
	for what, tid := range map[string]int32{"the main thread": Main0, "a worker": worker1} {
		for _, extra := range []bool{true, false} {
			s := NewScene(t)
			OpLevel(s)
			s.Learned()
			s.Watch(900, trace.WatchArrivals, "following")
			s.Arrivals(1000)
			if extra {
				s.end(1228, tid)
			} else {
				for i := range s.B.Hits {
					if s.B.Hits[i].TID == tid {
						s.B.Hits = append(s.B.Hits[:i], s.B.Hits[i+1:]...)
						break
					}
				}
			}
			h := s.Done()
			if len(s.c.ops) != 0 || len(s.c.steps) != 1 || s.c.steps[0].Untraced != "unmatched" {
				t.Errorf("%s, one more %v: %d operators, steps %+v", what, extra, len(s.c.ops), s.c.steps)
			}
			if len(h.Losses) != 1 || h.Losses[0].Why != "unmatched" || h.Losses[0].Events < 7 {
				t.Errorf("%s, one more %v: losses %v", what, extra, h.Losses)
			}
		}
	}
}

// TestFollowAfterLostEnd: where a step's end and its graph's are lost, the steps after it are followed with
// all their threads, as those before it.
func TestFollowAfterLostEnd(t *testing.T) {
	s := NewScene(t)
	OpLevel(s)
	s.Learned()
	s.Watch(900, trace.WatchArrivals, "following")
	s.Arrivals(1000)
	s.B.Marks = slices.DeleteFunc(s.B.Marks, func(m trace.Mark) bool {
		return m.Kind == trace.MarkGraphEnd || m.Kind == trace.MarkStepEnd
	})
	s.Arrivals(2000)
	s.Arrivals(3000)
	s.Done()
	if len(s.c.steps) != 2 || len(s.c.ops) != 6 {
		t.Fatalf("%d steps, %d operators", len(s.c.steps), len(s.c.ops))
	}
	for _, o := range s.c.ops {
		if len(o.Threads) != 2 || o.Incomplete {
			t.Errorf("%s at %d: %d threads, incomplete %v", o.Op, o.Start, len(o.Threads), o.Incomplete)
		}
	}
}

// Spans without operators: the step is there, its operators are not, and the loss is told.
func TestThrottled(t *testing.T) {
	s := NewScene(t)
	OpLevel(s)
	s.Learned()
	s.Watch(900, trace.WatchOff, "budget")
	s.Decode(1000)
	s.B.Hits = nil
	s.Watch(1400, trace.WatchArrivals, "following")
	s.Arrivals(1500)
	s.Watch(2150, trace.WatchOff, "budget") // in the middle of the next
	s.Arrivals(2000)
	h := s.Done()
	if len(s.c.steps) != 3 || len(s.c.ops) != 3 {
		t.Fatalf("%d steps, %d operators", len(s.c.steps), len(s.c.ops))
	}
	for i, want := range []string{"throttled", "", "throttled"} {
		if got := s.c.steps[i].Untraced; got != want || s.c.steps[i].Incomplete != "" {
			t.Errorf("step %d: %q, want %q (%+v)", i, got, want, s.c.steps[i])
		}
	}
	var spans [][2]int64
	for _, l := range h.Losses {
		if l.Why != "throttled" || l.Events != 1 {
			t.Errorf("loss %+v", l)
		}
		spans = append(spans, [2]int64{l.Start, l.End})
	}
	if len(spans) != 2 || spans[0] != [2]int64{900, 1400} || spans[1][0] != 2150 {
		t.Errorf("throttled in %v", spans)
	}
}

// A change in the middle of a graph: one that lost begins is not whole, one that gained them is.
func TestChangeInGraph(t *testing.T) {
	for _, c := range []struct {
		from, to, want string
		ops            int
	}{
		{trace.WatchArrivals, trace.WatchBoth, "", 3},
		{trace.WatchArrivals, trace.WatchOff, "throttled", 0},
		{trace.WatchOff, trace.WatchArrivals, "throttled", 0},
	} {
		s := NewScene(t)
		OpLevel(s)
		s.Learned()
		s.Watch(900, c.from, "x")
		s.Watch(1150, c.to, "x")
		s.Arrivals(1000)
		s.Done()
		if len(s.c.steps) != 1 || s.c.steps[0].Untraced != c.want || len(s.c.ops) != c.ops {
			t.Errorf("%s to %s: %d operators, %+v", c.from, c.to, len(s.c.ops), s.c.steps)
		}
	}
	// off and on again
	two := NewScene(t)
	OpLevel(two)
	two.Learned()
	two.Watch(900, trace.WatchArrivals, "x")
	two.Watch(1060, trace.WatchOff, "x")
	two.Watch(1150, trace.WatchArrivals, "x")
	two.Arrivals(1000)
	two.Done()
	if len(two.c.steps) != 1 || two.c.steps[0].Untraced != "throttled" || len(two.c.ops) != 0 {
		t.Errorf("off and on: %d operators, %+v", len(two.c.ops), two.c.steps)
	}
	// begins went away before the order was known
	s := NewScene(t)
	OpLevel(s)
	s.Watch(1150, trace.WatchArrivals, "x")
	s.Decode(1000)
	s.Done()
	if len(s.c.steps) != 1 || s.c.steps[0].Untraced != "learning" {
		t.Errorf("%+v", s.c.steps)
	}
}

// Two graphs at a time: whose arrival it is tells the pool, of a worker that comes before its main
// thread too.
func TestFollowTwo(t *testing.T) {
	const main2, worker2, pool2 = 200, 201, 0x77
	s := NewScene(t)
	OpLevel(s)
	s.Learned()
	s.Watch(900, trace.WatchArrivals, "following")
	s.Arrivals(1000)
	other := NewScene(t)
	other.Arrivals(1003)
	for _, h := range other.B.Hits {
		h.TID += main2 - Main0
		h.Arg = pool2
		if h.TID == worker2 {
			h.Time -= 14 // before its main thread's first
		}
		s.B.Hits = append(s.B.Hits, h)
	}
	for _, m := range other.B.Marks {
		m.TID = main2
		s.B.Marks = append(s.B.Marks, m)
	}
	h := s.Done()
	if len(s.c.steps) != 2 || len(s.c.ops) != 6 || len(h.Losses) != 0 {
		t.Fatalf("%d steps, %d operators, %v", len(s.c.steps), len(s.c.ops), h.Losses)
	}
	for _, o := range s.c.ops {
		if len(o.Threads) != 2 || o.Threads[1].TID != o.Threads[0].TID+1 || o.Graph.TID != o.Threads[0].TID {
			t.Errorf("threads of two graphs are mixed: graph of %d, %+v", o.Graph.TID, o.Threads)
		}
	}
}

// What the probes took is left out of the imbalance, and a difference below that is none.
func TestImbalanceWithoutProbes(t *testing.T) {
	for _, c := range []struct {
		a, b, probe int64
		want        float64
	}{
		{1000, 1000, 0, 0}, {1500, 500, 0, 0.5}, {1100, 1000, 200, 0}, {1500, 500, 100, 500.0 / 900}, {150,
			50, 100, 0}, {90, 60, 100, 0},
	} {
		o := Op{Probe: c.probe, Busy: c.a + c.b, Threads: []OpThread{{Busy: c.a}, {Busy: c.b}}}
		if got := o.Imbalance(); got < c.want-1e-9 || got > c.want+1e-9 {
			t.Errorf("%+v: %f", c, got)
		}
	}
}

// A graph of one operator: where begins are seen they tell when it began; where arrivals alone are, the time
// that it was learned to take does, or its graph's begin. One of which nothing is to run has nothing that
// could be missed.
func TestFollowSingle(t *testing.T) {
	for what, c := range map[string]struct {
		watch        string
		order, runs  bool
		first        int64
		start        int64 // of the operator; 0: none is seen
		begin        int64 // of the worker's part
		untraced     string
		followed     bool
		beginsProbed bool
	}{
		"begins": {order: true, runs: true, first: 15, beginsProbed: true, start: 1030,
			begin: 1035},
		"arrivals": {watch: trace.WatchArrivals, order: true, runs: true, first: 15, start: 1085,
			begin: 1105, followed: true},
		"never timed": {watch: trace.WatchArrivals, order: true, runs: true, start: 1010, begin: 1010,
			followed: true},
		"order not known":   {watch: trace.WatchArrivals, runs: true, untraced: "learning"},
		"nothing is to run": {watch: trace.WatchArrivals},
	} {
		s := NewScene(t)
		OpLevel(s)
		sh := &trace.Shape{PID: Pid, ID: 8, NNodes: 2, First: c.first, Nodes: []trace.Node{
			{Op: "VIEW", Addr: Addr(20), ViewSrc: -1}, {Name: "one", Op: "MUL_MAT", Addr: Addr(21),
				Executes: c.runs, ViewSrc: -1}}}
		if c.order {
			sh.Order = [][]int32{{1}}
		}
		s.feed(trace.Block{Shape: sh})
		if c.watch != "" {
			s.Watch(900, c.watch, "following")
		}
		s.mark(1000, trace.MarkStepBegin, 0).NTokens = 1
		m := s.mark(1010, trace.MarkGraphBegin, 3)
		m.Shape, m.NNodes = 8, 2
		if c.beginsProbed {
			s.begin(1030, Main0, 21)
			s.begin(1035, worker1, 21)
		}
		s.end(1100, Main0)
		s.end(1120, worker1)
		s.mark(1130, trace.MarkGraphEnd, 3)
		s.mark(1140, trace.MarkStepEnd, 0)
		s.Done()
		if got := s.c.graphs[0].Untraced; got != c.untraced || s.c.steps[0].Untraced != c.untraced {
			t.Errorf("%s: the graph is untraced for %q, the step for %q, want %q", what, got,
				s.c.steps[0].Untraced, c.untraced)
		}
		if c.start == 0 {
			if len(s.c.ops) != 0 {
				t.Errorf("%s: %d operators", what, len(s.c.ops))
			}
			continue
		}
		if len(s.c.ops) != 1 {
			t.Errorf("%s: %d operators", what, len(s.c.ops))
			continue
		}
		o := s.c.ops[0]
		if o.Start != c.start || o.Start+o.Dur != 1120 || o.Followed != c.followed || len(o.Threads) != 2 ||
			o.Threads[1].Start != c.begin {
			t.Errorf("%s: %+v", what, o)
		}
	}
}
