// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"fmt"
	"slices"
	"testing"

	"github.com/profinfer/profinfer/trace"
)

// collected is a sink that keeps everything.
type collected struct {
	BaseSink
	ops    []*Op
	graphs []*Graph
	steps  []*Step
}

func (c *collected) Op(o *Op) error       { c.ops = append(c.ops, o); return nil }
func (c *collected) Graph(g *Graph) error { c.graphs = append(c.graphs, g); return nil }
func (c *collected) Step(s *Step) error   { c.steps = append(c.steps, s); return nil }

const (
	Pid     = 100
	Main0   = 100
	worker1 = 101
	Pool    = 0x9000
)

// scene plays an engine of two threads by hand.
type scene struct {
	t *testing.T
	p *replayer
	c *collected
	B trace.Block
}

func NewScene(t *testing.T) *scene {
	c := &collected{}
	s := &scene{t: t, p: newReplayer(c), c: c}
	s.feed(trace.Block{Process: &trace.Process{PID: Pid, Sites: []trace.Site{
		{Role: trace.RoleStepBegin, Entry: "llama_process"},
		{Role: trace.RoleStepBegin, Entry: "llama_decode"},
		{Role: trace.RoleSchedBegin, Entry: "ggml_backend_sched_graph_compute_async"},
		{Role: trace.RoleGraphBegin, Backend: "CPU"},
		{Role: trace.RoleOpEnd},
	}}})
	shape := &trace.Shape{PID: Pid, ID: 7, NNodes: 5}
	for i, op := range []string{"RMS_NORM", "MUL", "VIEW", "MUL_MAT", "ADD"} {
		shape.Nodes = append(shape.Nodes,
			trace.Node{Name: fmt.Sprintf("n%d", i), Op: op, Addr: Addr(i), Executes: op != "VIEW"})
	}
	shape.Nodes = append(shape.Nodes, trace.Node{Name: "blk.0.attn_q.weight", Leaf: true, Addr: 0x77})
	s.feed(trace.Block{Shape: shape})
	return s
}

// Into hands the run to another sink.
func (s *scene) Into(k Sink) { s.p.sink = k }

// Extra sets what the recording's head says beside its fields.
func (s *scene) Extra(name, value string) { s.p.h.Meta.Extra = map[string]string{name: value} }

func Addr(i int) uint64 { return 0x1000 + uint64(i)*0x150 }

func (s *scene) feed(b trace.Block) {
	s.t.Helper()
	if err := s.p.block(b); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) begin(t int64, tid int32, node int) {
	s.B.Hits = append(s.B.Hits, trace.Hit{Time: t, PID: Pid, TID: tid, Ith: uint16(tid - Main0), Nth: 2,
		Kind: trace.HitOpBegin, Arg: Addr(node)})
}

func (s *scene) fused(t int64, tid int32, a, b int) {
	s.begin(t, tid, a)
	s.B.Hits[len(s.B.Hits)-1].Kind = trace.HitOpFused
	s.begin(t, tid, b)
	s.B.Hits[len(s.B.Hits)-1].Kind = trace.HitFusedWith
}

func (s *scene) end(t int64, tid int32) {
	s.B.Hits = append(s.B.Hits, trace.Hit{Time: t, PID: Pid, TID: tid, Kind: trace.HitOpEnd, Arg: Pool})
}

func (s *scene) mark(t int64, k trace.MarkKind, site uint32) *trace.Mark {
	m := trace.Mark{Time: t, PID: Pid, TID: Main0, Kind: k, Site: site, NTokens: -1, Type: -1}
	if k == trace.MarkGraphBegin {
		m.Shape, m.NNodes, m.UID = 7, 5, 1
	}
	s.B.Marks = append(s.B.Marks, m)
	return &s.B.Marks[len(s.B.Marks)-1]
}

func (s *scene) off(t int64, tid int32)  { s.switched(t, tid, 0) }
func (s *scene) back(t int64, tid int32) { s.switched(t, 0, tid) }

func (s *scene) switched(t int64, prev, next int32) {
	of := func(tid int32) int32 {
		if tid != 0 {
			return Pid
		}
		return 0
	}
	s.B.Sched = append(s.B.Sched, trace.Sched{Time: t, Kind: trace.SchedSwitch, PrevTID: prev,
		PrevPID: of(prev), NextTID: next, NextPID: of(next)})
}

func (s *scene) Done() *Header {
	s.t.Helper()
	s.feed(s.B)
	if err := s.p.finish(); err != nil {
		s.t.Fatal(err)
	}
	return &s.p.h
}

// Decode plays one whole step from t on: RMS_NORM+MUL, MUL_MAT (thread 1 late, and off its
// CPU for 30), ADD, then the closing barrier.
func (s *scene) Decode(t int64) {
	s.mark(t, trace.MarkStepBegin, 0).NTokens = 1
	s.B.StepSeqs = append(s.B.StepSeqs,
		trace.StepSeq{Time: t, TID: Main0, Seq: 0, NTokens: 1, Pos: 5, Outputs: 1})
	s.mark(t+5, trace.MarkSchedBegin, 2).Ctx = 0x5
	s.mark(t+10, trace.MarkGraphBegin, 3)
	s.fused(t+20, Main0, 0, 1)
	s.fused(t+25, worker1, 0, 1)
	s.end(t+40, Main0)
	s.end(t+50, worker1)
	s.begin(t+60, Main0, 3)
	s.begin(t+61, worker1, 3)
	s.off(t+100, worker1)
	s.back(t+130, worker1)
	s.end(t+160, Main0)
	s.end(t+200, worker1)
	s.begin(t+210, Main0, 4)
	s.begin(t+210, worker1, 4)
	s.end(t+220, Main0)
	s.end(t+221, worker1)
	s.end(t+225, Main0) // the closing barrier, where the last node is a view
	s.mark(t+300, trace.MarkGraphEnd, 3)
	s.mark(t+310, trace.MarkStepEnd, 0)
}

func TestStep(t *testing.T) {
	s := NewScene(t)
	s.Decode(1000)
	h := s.Done()
	if len(s.c.steps) != 1 || len(s.c.graphs) != 1 || len(s.c.ops) != 3 {
		t.Fatalf("%d steps, %d graphs, %d operators", len(s.c.steps), len(s.c.graphs), len(s.c.ops))
	}
	st := s.c.steps[0]
	if st.Phase != Decode || st.Dur != 310 || st.Ops != 3 || st.NSeqs != 1 || st.Outputs != 1 ||
		st.Incomplete != "" || st.Entry != "llama_process" {
		t.Errorf("step: %+v", st)
	}
	g := s.c.graphs[0]
	if g.Backend != "CPU" || g.Dur != 290 || g.Ops != 3 || g.Aborted || g.Step != st.ID || g.Reused {
		t.Errorf("graph: %+v", g)
	}
	norm, mm, add := s.c.ops[0], s.c.ops[1], s.c.ops[2]
	if norm.Op != "RMS_NORM+MUL" || norm.Node != 0 || len(norm.Fused) != 1 || norm.Fused[0] != 1 ||
		norm.Shape.FusedInto[1] != 0 {
		t.Errorf("fused: %+v", norm)
	}
	if norm.Start != 1020 || norm.Dur != 30 || norm.Busy != 20+25 || norm.Wait != 10 {
		t.Errorf("fused times: start %d dur %d busy %d wait %d", norm.Start, norm.Dur, norm.Busy, norm.Wait)
	}
	if mm.Op != "MUL_MAT" || mm.Dur != 140 || mm.Busy != 100+109 || mm.OffCPU != 30 || mm.Wait != 40 ||
		len(mm.Threads) != 2 {
		t.Errorf("matrix product: %+v", mm)
	}
	if th := mm.Threads[1]; th.TID != worker1 || th.Ith != 1 || th.Busy != 109 || th.OffCPU != 30 ||
		th.Wait != 0 {
		t.Errorf("late thread: %+v", th)
	}
	if got := mm.Imbalance(); got < 0.043 || got > 0.0431 { // 109 / 104.5 - 1
		t.Errorf("imbalance %f", got)
	}
	if add.Node != 4 || add.Dur != 11 || !mm.Shape.Executed[3] || mm.Shape.Executed[2] {
		t.Errorf("last: %+v", add)
	}
	if len(h.Losses) != 0 {
		t.Errorf("losses: %v", h.Losses)
	}
	if len(h.Threads) != 2 || h.Threads[0].Role != "main" || h.Threads[1].Role != "worker" {
		t.Errorf("threads: %v", h.Threads)
	}
}

func TestNestedEntriesAreOneStep(t *testing.T) {
	s := NewScene(t)
	s.mark(990, trace.MarkStepBegin, 1).NTokens = 1 // llama_decode calls llama_process
	s.Decode(1000)
	s.mark(1400, trace.MarkStepEnd, 1)
	s.Done()
	if len(s.c.steps) != 1 || s.c.steps[0].Dur != 410 || s.c.steps[0].Entry != "llama_decode" ||
		s.c.steps[0].Ops != 3 {
		t.Fatalf("steps: %+v", s.c.steps)
	}
}

func TestReuse(t *testing.T) {
	s := NewScene(t)
	s.Decode(1000)
	s.Decode(2000)
	s.Done()
	if len(s.c.graphs) != 2 || s.c.graphs[0].Reused || !s.c.graphs[1].Reused {
		t.Fatalf("graphs: %+v %+v", s.c.graphs[0], s.c.graphs[1])
	}
	for i, g := range s.c.graphs {
		if g.Ops != 3 || s.c.ops[i*3].Graph != g {
			t.Errorf("graph %d has %d operators", i, g.Ops)
		}
	}
}

// What the recording began or ended in the middle of is left out and counted.
func TestCut(t *testing.T) {
	s := NewScene(t)
	s.begin(10, Main0, 3)
	s.end(20, Main0)
	s.fused(22, Main0, 0, 1)
	s.end(25, Main0)
	s.mark(30, trace.MarkGraphEnd, 3)
	s.mark(40, trace.MarkStepEnd, 0)
	s.Decode(1000)
	s.mark(5000, trace.MarkStepBegin, 0).NTokens = 1
	s.mark(5010, trace.MarkGraphBegin, 3)
	s.begin(5020, Main0, 3)
	h := s.Done()
	if len(s.c.steps) != 1 || len(s.c.ops) != 3 {
		t.Fatalf("%d steps, %d operators", len(s.c.steps), len(s.c.ops))
	}
	n := map[string]uint64{}
	for _, l := range h.Losses {
		if l.Why != "cut" {
			t.Errorf("loss %+v", l)
		}
		n[l.What] += l.Events
	}
	if n["hits"] != 3 || n["marks"] != 3 {
		t.Errorf("cut: %v", n)
	}
}

func TestAborted(t *testing.T) {
	s := NewScene(t)
	s.mark(1000, trace.MarkStepBegin, 0).NTokens = 1
	s.mark(1010, trace.MarkGraphBegin, 3)
	s.fused(1020, Main0, 0, 1)
	s.end(1030, Main0)
	s.mark(1040, trace.MarkGraphEnd, 3)
	s.mark(1050, trace.MarkStepEnd, 0)
	s.Done()
	if len(s.c.graphs) != 1 || !s.c.graphs[0].Aborted {
		t.Fatal("the graph ended before its last operator")
	}
	if !s.c.ops[0].Incomplete || s.c.steps[0].Incomplete == "" {
		t.Error("one thread of two was seen, and nobody says so")
	}
}

// A team whose second thread's hits were lost must not look whole.
func TestLostThread(t *testing.T) {
	s := NewScene(t)
	s.Decode(1000)
	var kept []trace.Hit
	for _, h := range s.B.Hits {
		if h.TID != worker1 {
			kept = append(kept, h)
		}
	}
	s.B.Hits = kept
	s.Done()
	for _, o := range s.c.ops {
		if !o.Incomplete {
			t.Errorf("%s is said to be whole", o.Op)
		}
	}
}

// Events reach the trace CPU by CPU; replay must put them in order, also across drains.
func TestMergeAcrossDrains(t *testing.T) {
	s := NewScene(t)
	s.Decode(1000)
	all := s.B
	s.B = trace.Block{}
	for _, w := range []int32{worker1, Main0} {
		for _, h := range all.Hits {
			if h.TID == w && h.Time < 1150 {
				s.B.Hits = append(s.B.Hits, h)
			}
		}
	}
	s.B.Marks, s.B.StepSeqs, s.B.Sched = all.Marks, all.StepSeqs, all.Sched
	s.B.Watermark = 1150
	s.feed(s.B)
	s.B = trace.Block{Watermark: 1300}
	for _, w := range []int32{worker1, Main0} {
		for _, h := range all.Hits {
			if h.TID == w && h.Time >= 1150 {
				s.B.Hits = append(s.B.Hits, h)
			}
		}
	}
	s.Done()
	if len(s.c.ops) != 3 || s.c.ops[1].Busy != 209 || len(s.c.steps) != 1 {
		t.Fatalf("%d operators, %d steps", len(s.c.ops), len(s.c.steps))
	}
}

func TestUnknownTensorIsAnAlarm(t *testing.T) {
	s := NewScene(t)
	s.mark(1000, trace.MarkStepBegin, 0).NTokens = 1
	s.mark(1010, trace.MarkGraphBegin, 3)
	s.B.Hits = append(s.B.Hits, trace.Hit{Time: 1020, PID: Pid, TID: Main0, Nth: 1, Kind: trace.HitOpBegin,
		Arg: 0xdead})
	s.mark(1040, trace.MarkGraphEnd, 3)
	s.mark(1050, trace.MarkStepEnd, 0)
	h := s.Done()
	if len(h.Losses) != 1 || h.Losses[0].Why != "unmatched" || h.Losses[0].Events != 1 {
		t.Fatalf("losses: %+v", h.Losses)
	}
}

// Recording begins inside a call: the scheduler's run in it is no step.
func TestCutIsNoStep(t *testing.T) {
	s := NewScene(t)
	s.mark(1000, trace.MarkSchedBegin, 2).Ctx = 3
	s.mark(1010, trace.MarkGraphBegin, 3)
	s.mark(1040, trace.MarkGraphEnd, 3)
	s.mark(1050, trace.MarkSchedEnd, 2)
	s.mark(1060, trace.MarkStepEnd, 0)
	s.Decode(2000)
	// but one between steps is (an image's encoder, say)
	s.mark(3000, trace.MarkSchedBegin, 2).Ctx = 3
	s.mark(3010, trace.MarkGraphBegin, 3)
	s.mark(3040, trace.MarkGraphEnd, 3)
	s.mark(3050, trace.MarkSchedEnd, 2)
	s.Decode(4000)
	s.Done()
	if len(s.c.steps) != 3 || s.c.steps[0].Start != 2000 || s.c.steps[1].Start != 3000 {
		t.Fatalf("%d steps", len(s.c.steps))
	}
}

// A lost end must not swallow the steps after it.
func TestLostEnd(t *testing.T) {
	s := NewScene(t)
	s.Decode(1000)
	s.B.Marks = s.B.Marks[:len(s.B.Marks)-2] // of the graph and of the step
	s.Decode(2000)
	s.Decode(3000)
	h := s.Done()
	if len(s.c.steps) != 2 || s.c.steps[0].Start != 2000 || s.c.steps[1].Start != 3000 ||
		s.c.steps[1].Ops != 3 || s.c.steps[0].Ops != 3 {
		t.Fatalf("%d steps", len(s.c.steps))
	}
	if len(s.c.graphs) != 2 || len(h.Losses) == 0 {
		t.Errorf("%d graphs, losses %+v", len(s.c.graphs), h.Losses)
	}
}

// The return of a call that had begun before its probes cannot be seen.
func TestCutWithoutReturn(t *testing.T) {
	s := NewScene(t)
	s.p.procs[Pid].attached = []int64{900}
	s.mark(1000, trace.MarkSchedBegin, 2).Ctx = 3
	s.mark(1010, trace.MarkGraphBegin, 3)
	s.mark(1040, trace.MarkGraphEnd, 3)
	s.mark(1050, trace.MarkSchedEnd, 2)
	s.Decode(2000)
	s.Done()
	if len(s.c.steps) != 1 || s.c.steps[0].Start != 2000 {
		t.Fatalf("%d steps", len(s.c.steps))
	}
}

// Where no arrival can be probed, an operator lasts until the next one begins.
func TestInlinedBarrier(t *testing.T) {
	s := NewScene(t)
	s.Decode(1000)
	var kept []trace.Hit
	for _, h := range s.B.Hits {
		if h.Kind != trace.HitOpEnd {
			kept = append(kept, h)
		}
	}
	s.B.Hits = kept
	s.p.procs[Pid].ends = false
	s.Done()
	if len(s.c.ops) != 3 || s.c.ops[0].Dur != 40 || s.c.ops[2].Dur != 90 {
		t.Fatalf("%d operators", len(s.c.ops))
	}
}

// whisper.cpp has no entry point that is known: the scheduler's run is the step.
func TestSchedulerStep(t *testing.T) {
	s := NewScene(t)
	s.mark(1000, trace.MarkSchedBegin, 2).Ctx = 3
	s.mark(1010, trace.MarkGraphBegin, 3)
	s.fused(1020, Main0, 0, 1)
	s.end(1030, Main0)
	s.mark(1040, trace.MarkGraphEnd, 3)
	s.mark(2000, trace.MarkSchedBegin, 2).Ctx = 3
	s.mark(2010, trace.MarkGraphBegin, 3)
	s.mark(2040, trace.MarkGraphEnd, 3)
	s.Done()
	if len(s.c.steps) != 2 || s.c.steps[0].Dur != 40 || s.c.steps[1].Dur != 40 ||
		s.c.steps[0].Phase != Unknown {
		t.Fatalf("steps: %+v", s.c.steps)
	}
}

func TestPhases(t *testing.T) {
	seq := func(id, n int32) trace.StepSeq { return trace.StepSeq{Seq: id, NTokens: n} }
	for _, c := range []struct {
		n     int32
		seqs  []trace.StepSeq
		fixed string
		typ   int32
		want  Phase
	}{
		{1, []trace.StepSeq{seq(0, 1)}, "", -1, Decode},
		{4, []trace.StepSeq{seq(0, 1), seq(1, 1), seq(2, 1), seq(3, 1)}, "", 1, Decode}, // four slots
		{5, []trace.StepSeq{seq(0, 1), seq(1, 4)}, "", 1, Prefill},
		{2, []trace.StepSeq{seq(0, 1), seq(1, 1), seq(0, 1)}, "", 1, Prefill}, // runs of one sequence
		{7, nil, "", -1, Prefill},
		{1, nil, "", -1, Decode},
		{-1, nil, "", -1, Unknown},
		{9, nil, "encode", -1, Encode},
		{9, nil, "", 0, Encode},
	} {
		if got := phaseOf(&Step{NTokens: c.n, Seqs: c.seqs}, c.fixed, c.typ); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// Steps that began before the other backends' graphs were watched lack them.
func TestBackendsWatchedLate(t *testing.T) {
	s := NewScene(t)
	s.Decode(1000)
	s.Decode(3000)
	sites := append([]trace.Site(nil), s.p.procs[Pid].info.Sites...)
	sites = append(sites, trace.Site{Role: trace.RoleGraphEnd, Backend: "Vulkan"},
		trace.Site{Role: trace.RoleGraphBegin, Backend: "Vulkan"})
	s.feed(trace.Block{Process: &trace.Process{PID: Pid, Sites: sites, Attached: 2000}})
	// one more library of the CPU's: of backends, nothing is watched later for that
	sites = append(sites, trace.Site{Role: trace.RoleOpBegin},
		trace.Site{Role: trace.RoleGraphBegin, Backend: "CPU"})
	s.feed(trace.Block{Process: &trace.Process{PID: Pid, Sites: sites, Attached: 9000}})
	s.Done()
	if len(s.c.steps) != 2 {
		t.Fatalf("%d steps", len(s.c.steps))
	}
	if s.c.steps[0].Incomplete == "" || s.c.steps[1].Incomplete != "" {
		t.Errorf("steps: %q, %q; want the first incomplete", s.c.steps[0].Incomplete, s.c.steps[1].Incomplete)
	}
}

// TestSameOperatorTwice: a thread that begins an operator anew begins another one, whoever was meanwhile.
func TestSameOperatorTwice(t *testing.T) {
	s := NewScene(t)
	s.mark(1000, trace.MarkStepBegin, 0)
	s.mark(1010, trace.MarkGraphBegin, 3)
	for k := range int64(3) {
		for th := range int32(2) {
			s.begin(1020+100*k+int64(th), Main0+th, 4)
			s.end(1050+100*k+int64(th), Main0+th)
		}
	}
	s.mark(1400, trace.MarkGraphEnd, 3)
	s.mark(1410, trace.MarkStepEnd, 0)
	s.Done()
	if len(s.c.ops) != 3 {
		t.Fatalf("%d operators", len(s.c.ops))
	}
	for i, o := range s.c.ops {
		if len(o.Threads) != 2 || o.Dur != 31 || o.Start != 1020+100*int64(i) {
			t.Errorf("%+v", o)
		}
	}
}

// TestOperatorsInAnotherOrder: which operator ran is told by its address alone, not by what ran before.
func TestOperatorsInAnotherOrder(t *testing.T) {
	s := NewScene(t)
	at := int64(1000)
	var want []int32
	for _, nodes := range [][]int{{0, 1, 3, 4}, {0, 3, 1, 4}, {4, 0, 4, 3}, {0, 1, 3, 4}, {1}, {3, 0}} {
		s.mark(at, trace.MarkStepBegin, 0)
		s.mark(at+5, trace.MarkGraphBegin, 3)
		for _, n := range nodes {
			at += 100
			want = append(want, int32(n))
			for th := range int32(2) {
				s.begin(at+int64(th), Main0+th, n)
				s.end(at+50+int64(th), Main0+th)
			}
		}
		s.mark(at+80, trace.MarkGraphEnd, 3)
		s.mark(at+90, trace.MarkStepEnd, 0)
		at += 200
	}
	s.Done()
	var got []int32
	for _, o := range s.c.ops {
		got = append(got, o.Node)
	}
	if !slices.Equal(got, want) {
		t.Errorf("ran %v, want %v", got, want)
	}
}
