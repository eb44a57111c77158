// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/dag"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/trace"
)

// graphOf makes a graph of one chain of operators.
func graphOf(id int64, n int, op string) *profile.Shape {
	s := &profile.Shape{Index: id, Shape: &trace.Shape{ID: uint64(id), NNodes: n}}
	for i := range n {
		node := trace.Node{Name: fmt.Sprintf("n%d", i), Op: op, Type: "f32", Ne: [4]int64{8, 1, 1, 1},
			Nb:        [4]uint64{4, 32, 32, 32},
			BlockSize: 1, TypeSize: 4, ViewSrc: -1, Addr: uint64(id)<<20 + uint64(i), Executes: true}
		if i > 0 {
			node.Src = []int32{int32(i - 1)}
		}
		s.Nodes = append(s.Nodes, node)
	}
	return s
}

// feed plays one step of these graphs; those on a CPU have operators.
func feed(t *testing.T, sink profile.Sink, id int64, graphs ...*profile.Graph) {
	t.Helper()
	s := &profile.Step{ID: id, PID: 7, Ctx: 1, Phase: profile.Decode, Start: id * 1e6, Dur: 1e6, NTokens: 1,
		NSeqs: 1}
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	at := s.Start
	for i, g := range graphs {
		g.ID, g.Step, g.PID, g.Ctx, g.Start = id*1000+int64(i), id, 7, 1, at
		for n := range g.Shape.NNodes {
			if g.Backend != "CPU" {
				break
			}
			must(sink.Op(&profile.Op{Step: s, Graph: g, Shape: g.Shape, Node: int32(n),
				Op: g.Shape.Nodes[n].Op, Start: at, Dur: 100, Busy: 100,
				Threads: []profile.OpThread{{TID: 7, Start: at, Busy: 100}}}))
			at += 100
			g.Ops++
		}
		g.Dur = at - g.Start + 10
		must(sink.Graph(g))
	}
	must(sink.Step(s))
}

// TestDAGSplits plays one computation split over two backends, twice in each step.
func TestDAGSplits(t *testing.T) {
	b, st := dag.New(dag.Options{}), stat.New(stat.Options{})
	first, second, third := graphOf(1, 3, "MUL"), graphOf(2, 2, "ADD"), graphOf(3, 2, "SUB")
	leaf := func(s *profile.Shape, name string, addr uint64) {
		s.Nodes = append(s.Nodes, trace.Node{Name: name, Op: "NONE", Type: "f32", Ne: [4]int64{8, 1, 1, 1},
			BlockSize: 1, TypeSize: 4,
			Nb: [4]uint64{4, 32, 32, 32}, Leaf: true, ViewSrc: -1, Addr: addr})
		s.Nodes[0].Src = []int32{int32(len(s.Nodes) - 1)}
	}
	leaf(second, "Vulkan0#n2#0", 999)       // the scheduler's copy
	leaf(third, "n1", second.Nodes[1].Addr) // the same tensor
	sink := profile.Tee(b, st)
	for id := int64(1); id <= 3; id++ {
		var graphs []*profile.Graph
		for range 2 {
			graphs = append(graphs, &profile.Graph{Split: 0, Backend: "CPU", Shape: first},
				&profile.Graph{Split: 1, Backend: "Vulkan0", Shape: second},
				&profile.Graph{Split: 2, Backend: "CPU", Shape: third})
		}
		feed(t, sink, id, graphs...)
	}
	h := &profile.Header{End: &trace.End{}}
	d := b.Finish(h)
	agree(t, d, st.Finish(h))
	if len(d.DAGs) != 1 {
		t.Fatalf("%d DAGs", len(d.DAGs))
	}
	g := &d.DAGs[0]
	if g.Steps != 3 || g.Runs != 6 || g.Ops != 30 || len(g.Parts) != 3 || len(g.Nodes) != 9 {
		t.Fatalf("%d steps, %d runs, %d operators, %d nodes in %+v", g.Steps, g.Runs, g.Ops, len(g.Nodes),
			g.Parts)
	}
	if p := g.Parts[1]; p.Backend != "Vulkan0" || p.Seen || p.First != 3 || p.Count != 3 || p.Graphs != 6 ||
		p.Dur != 60 {
		t.Errorf("part %+v", p)
	}
	if n := &g.Nodes[3]; n.Kind != dag.NodeOp || n.Run != nil || n.Part != 1 {
		t.Errorf("a node of another backend: %+v", n)
	}
	edge(t, g, 2, 5, dag.EdgeCopy, 32)
	edge(t, g, 4, 8, dag.EdgeCopy, 32)
}

// TestDAGBounded plays more structures than are kept: the rest is counted.
func TestDAGBounded(t *testing.T) {
	b, st := dag.New(dag.Options{Most: 3}), stat.New(stat.Options{})
	sink := profile.Tee(b, st)
	id := int64(0)
	for n := range 100 {
		for range 1 + n%2 {
			id++
			feed(t, sink, id, &profile.Graph{Backend: "CPU", Shape: graphOf(int64(n+1), n+1, "MUL")})
		}
	}
	h := &profile.Header{End: &trace.End{}}
	d := b.Finish(h)
	agree(t, d, st.Finish(h))
	if len(d.DAGs) != 3 || len(d.Rest) != 1 || d.Rest[0].Structures != 61 || d.Rest[0].Runs != 150-6 {
		t.Fatalf("%d DAGs, rest %+v", len(d.DAGs), d.Rest)
	}
	for i, n := range []int{64, 62, 60} { // twice each, so more than 63 once
		if len(d.DAGs[i].Nodes) != n || d.DAGs[i].Rank != i {
			t.Errorf("DAG %d has %d nodes, want %d", i, len(d.DAGs[i].Nodes), n)
		}
	}
}

// TestDAGHostile takes definitions that no engine makes.
func TestDAGHostile(t *testing.T) {
	big := graphOf(1, 10_000, "MUL")
	loop := graphOf(2, 6, "SET_ROWS")
	loop.Nodes[0].Src = []int32{5, 5, -3, 1 << 30, 0}
	loop.Nodes[1].ViewSrc, loop.Nodes[2].ViewSrc = 2, 1
	loop.Nodes[3].Ne = [4]int64{math.MaxInt64, math.MaxInt64, -1, 0}
	loop.Nodes[4] = trace.Node{Name: "x-99999", Op: "GET_ROWS", Src: []int32{-1, 77}, Leaf: false,
		ViewSrc: 99}
	loop.Nodes[5].Name, loop.Nodes[5].Executes = "cache_k_l3 (view)", false
	empty := &profile.Shape{Index: 3, Shape: &trace.Shape{ID: 3, NNodes: 50}}
	b := dag.New(dag.Options{})
	step := &profile.Step{ID: 1, PID: 7, Phase: profile.Decode, Dur: 1000, NTokens: 1}
	for i, s := range []*profile.Shape{big, loop, empty} {
		g := &profile.Graph{ID: int64(i + 1), Step: 1, PID: 7, Backend: "CPU", Shape: s,
			NNodes: int32(s.NNodes)}
		for _, n := range []int32{0, 3, 5, int32(len(s.Nodes)), -1, 1 << 30} {
			if err := b.Op(&profile.Op{Step: step, Graph: g, Shape: s, Node: n, Op: "SET_ROWS", Dur: 10,
				Fused: []int32{n, -5, 1 << 29, 2}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Graph(g); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range []*profile.Op{{Step: step, Dur: 5}, {Step: step, Graph: &profile.Graph{}, Dur: 5},
		{Dur: 5}} {
		if err := b.Op(o); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Step(step); err != nil {
		t.Fatal(err)
	}
	d := b.Finish(&profile.Header{})
	if d.Outside != 1 || len(d.DAGs) != 3 {
		t.Fatalf("%d outside, %d DAGs", d.Outside, len(d.DAGs))
	}
	for i := range d.DAGs {
		g := &d.DAGs[i]
		for _, e := range g.Edges {
			if e.From < 0 || int(e.From) >= len(g.Nodes) || e.To < 0 || int(e.To) >= len(g.Nodes) {
				t.Fatalf("edge %+v of %d nodes", e, len(g.Nodes))
			}
		}
		var net int64
		for _, n := range g.Nodes {
			if n.Run != nil {
				net += n.Run.Dur
			}
			for _, f := range append(slices.Clone(n.Fused), max(0, n.FusedInto)) {
				if f < 0 || int(f) >= len(g.Nodes) {
					t.Fatalf("fused %v of %d nodes", n.Fused, len(g.Nodes))
				}
			}
		}
		if net+g.Unplaced != 60 {
			t.Errorf("%d ns in nodes, %d unplaced of 60", net, g.Unplaced)
		}
	}
	if _, err := json.Marshal(d); err != nil {
		t.Error(err)
	}
}

// TestDAGStructures tells structures apart, and not sizes.
func TestDAGStructures(t *testing.T) {
	sized := func(id int64, op string, ne int64) *profile.Graph {
		s := graphOf(id, 3, op)
		for i := range s.Nodes {
			s.Nodes[i].Ne[0] = ne
		}
		return &profile.Graph{Backend: "CPU", Shape: s}
	}
	b := dag.New(dag.Options{})
	for i, ne := range []int64{8, 16, 4} {
		feed(t, b, int64(i+1), sized(int64(i+1), "MUL", ne))
	}
	feed(t, b, 4, sized(4, "ADD", 8))
	// An operator of another definition than its graph's.
	other := sized(5, "MUL", 8)
	step := &profile.Step{ID: 5, PID: 7, Ctx: 1, Phase: profile.Decode, Start: 1, Dur: 1000, NTokens: 1}
	if err := b.Op(&profile.Op{Step: step, Graph: other, Shape: graphOf(6, 3, "DIV"), Op: "DIV",
		Dur: 70}); err != nil {
		t.Fatal(err)
	}
	// And one that leaves two of its nodes out.
	if err := b.Op(&profile.Op{Step: step, Graph: other, Shape: other.Shape, Op: "MUL",
		Dur: 80}); err != nil {
		t.Fatal(err)
	}
	if err := b.Step(step); err != nil {
		t.Fatal(err)
	}
	d := b.Finish(&profile.Header{})
	if len(d.DAGs) != 2 {
		t.Fatalf("%d DAGs", len(d.DAGs))
	}
	g := &d.DAGs[0]
	if g.Nodes[0].Op != "MUL" || g.Nodes[0].Ne[0] != 4 || g.Nodes[0].NeMax == nil ||
		g.Nodes[0].NeMax[0] != 16 || *g.Nodes[0].Bytes != 64 || g.Parts[0].Shapes != 4 {
		t.Errorf("node %+v of %+v", g.Nodes[0], g.Parts[0])
	}
	if g.Unplaced != 70 || g.OpsDur != 900+70+80 {
		t.Errorf("%d ns of %d unplaced", g.Unplaced, g.OpsDur)
	}
}

// TestDAGIdle tells what is defined and does not run from what cannot be seen.
func TestDAGIdle(t *testing.T) {
	b := dag.New(dag.Options{})
	s := graphOf(1, 3, "MUL")
	g := &profile.Graph{Step: 1, PID: 7, Backend: "CPU", Shape: s}
	step := &profile.Step{ID: 1, PID: 7, Phase: profile.Decode, Dur: 1000, NTokens: 1}
	for _, err := range []error{b.Op(&profile.Op{Step: step, Graph: g, Shape: s, Node: 1, Op: "MUL", Dur: 5}),
		b.Graph(g), b.Step(step)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var kinds []string
	for _, n := range b.Finish(&profile.Header{}).DAGs[0].Nodes {
		kinds = append(kinds, string(n.Kind))
	}
	if !slices.Equal(kinds, []string{"idle", "op", "idle"}) {
		t.Errorf("kinds %v", kinds)
	}
}

// TestDAGJoined runs two contexts of which only a third graph tells that they share their weights.
func TestDAGJoined(t *testing.T) {
	b, st := dag.New(dag.Options{}), stat.New(stat.Options{})
	sink := profile.Tee(b, st)
	with := func(id int64, weights ...string) *profile.Shape {
		s := graphOf(id, 3, "MUL")
		for i, w := range weights {
			s.Nodes = append(s.Nodes, trace.Node{Name: w + ".weight", Op: "NONE", Type: "f32",
				Ne: [4]int64{8, 1, 1, 1}, Nb: [4]uint64{4, 32, 32, 32},
				BlockSize: 1, TypeSize: 4, Leaf: true, ViewSrc: -1, Addr: uint64(100 +
					w[0]), Data: uint64(w[0])})
			s.Nodes[i].Src = append(s.Nodes[i].Src, int32(3+i))
		}
		return s
	}
	for i, ws := range [][]string{{"a"}, {"b"}, {"a", "b"}, {"b"}} {
		ctx := []uint64{1, 2, 1, 2}[i]
		tap := &ctxSink{Sink: sink, ctx: ctx}
		feed(t, tap, int64(i+1), &profile.Graph{Backend: "CPU",
			Shape: with(int64(len(ws)*10+int(ws[0][0])), ws...)})
		feed(t, tap, int64(i+10), &profile.Graph{Backend: "CPU", Shape: graphOf(99, 2, "ADD")})
	}
	h := &profile.Header{End: &trace.End{}}
	d, s := b.Finish(h), st.Finish(h)
	agree(t, d, s)
	if len(s.Phases) != 1 || len(d.DAGs) != 4 {
		t.Fatalf("%d phases, %d DAGs", len(s.Phases), len(d.DAGs))
	}
	var runs int64
	for i := range d.DAGs {
		runs += d.DAGs[i].Runs
	}
	if runs != 8 {
		t.Errorf("%d runs of 8", runs)
	}
}

// ctxSink gives what passes another engine context.
type ctxSink struct {
	profile.Sink
	ctx uint64
}

func (c *ctxSink) Op(o *profile.Op) error {
	o.Step.Ctx = c.ctx
	return c.Sink.Op(o)
}

func (c *ctxSink) Graph(g *profile.Graph) error {
	g.Ctx = c.ctx
	return c.Sink.Graph(g)
}

func TestDAGChoice(t *testing.T) {
	d, _ := dags(t, dag.Options{Phases: []profile.Phase{profile.Prefill}}, run)
	if len(d.DAGs) != 1 || d.DAGs[0].Phase != "prefill" {
		t.Errorf("%d DAGs of prefill alone", len(d.DAGs))
	}
	d, _ = dags(t, dag.Options{PID: 1}, run)
	if len(d.DAGs) != 0 {
		t.Errorf("%d DAGs of a process that is not there", len(d.DAGs))
	}
}
