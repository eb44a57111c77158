// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"testing"

	"github.com/profinfer/profinfer/trace"
)

// A step whose graph is split over the CPU and other backends, of whose graphs no operator is seen.
func TestBackendGraphs(t *testing.T) {
	b := NewStat(StatOptions{})
	st := &Step{ID: 1, PID: 1, Ctx: 9, Phase: Prefill, Start: 1000, Dur: 1000, NTokens: 4, NSeqs: 1}
	on := func(backend string, from, to int64, ops int, sh *Shape) {
		t.Helper()
		if err := b.Graph(&Graph{PID: 1, Step: 1, Ctx: 9, Backend: backend, Start: from, Dur: to - from, Ops: ops, Shape: sh}); err != nil {
			t.Fatal(err)
		}
	}
	cpu := productShape(leafAt("token_embd.weight", 0x100))
	if err := b.Op(&Op{Step: st, Shape: cpu, Op: "MUL_MAT", Start: 1100, Dur: 100, Busy: 100, Threads: []OpThread{{TID: 7, Start: 1100, Busy: 100}}}); err != nil {
		t.Fatal(err)
	}
	on("CPU", 1090, 1210, 1, cpu)
	on("BLAS", 1300, 1500, 0, productShape(leafAt("blk.0.attn_q.weight", 0x200)))
	on("RPC", 1600, 1700, 0, nil)
	on("META", 1550, 1750, 0, nil) // the one before ran within it
	on("CPU", 1800, 1900, 0, nil)  // its operators were not recorded, that is another thing
	if err := b.Step(st); err != nil {
		t.Fatal(err)
	}
	s := b.Finish(&Header{})
	if len(s.Models) != 1 || s.Models[0].Layers != 1 {
		t.Errorf("the parts of one step's graph are of one model: %+v", s.Models)
	}
	if len(s.Phases) != 1 {
		t.Fatalf("%d phases", len(s.Phases))
	}
	f := &s.Phases[0]
	if f.BackendDur == nil || *f.BackendDur != 400 || !(*f.Backend == 0.4) {
		t.Errorf("backends: %v ns", f.BackendDur)
	}
	if *f.OpsDur != 100 || *f.Gap != 500 || *f.OpsDur-*f.Overlap+*f.BackendDur+*f.Gap != f.Dur {
		t.Errorf("operators %d + backends %d + gap %d is not the step's %d", *f.OpsDur, *f.BackendDur, *f.Gap, f.Dur)
	}
	want := []BackendStat{{Backend: "BLAS", Graphs: 1, Dur: 200}, {Backend: "META", Graphs: 1, Dur: 200}, {Backend: "RPC", Graphs: 1, Dur: 100}}
	if len(f.Backends) != len(want) {
		t.Fatalf("backends: %+v", f.Backends)
	}
	for i, w := range want {
		g := f.Backends[i]
		if g.Backend != w.Backend || g.Graphs != w.Graphs || g.Dur != w.Dur || *g.Share != float64(w.Dur)/1000 {
			t.Errorf("%+v, want %+v", g, w)
		}
	}
	if len(b.graphs) != 0 {
		t.Errorf("%d steps are still kept", len(b.graphs))
	}
}

// Steps that began before the other backends' graphs were watched lack them.
func TestBackendsWatchedLate(t *testing.T) {
	s := newScene(t)
	s.decode(1000)
	s.decode(3000)
	sites := append([]trace.Site(nil), s.p.procs[pid].info.Sites...)
	sites = append(sites, trace.Site{Role: "graph end", Backend: "Vulkan"}, trace.Site{Role: "graph begin", Backend: "Vulkan"})
	s.feed(trace.Block{Process: &trace.Process{PID: pid, Sites: sites, Attached: 2000}})
	// one more library of the CPU's: of backends, nothing is watched later for that
	sites = append(sites, trace.Site{Role: "operator begin"}, trace.Site{Role: "graph begin", Backend: "CPU"})
	s.feed(trace.Block{Process: &trace.Process{PID: pid, Sites: sites, Attached: 9000}})
	s.done()
	if len(s.c.steps) != 2 {
		t.Fatalf("%d steps", len(s.c.steps))
	}
	if s.c.steps[0].Incomplete == "" || s.c.steps[1].Incomplete != "" {
		t.Errorf("steps: %q, %q; want the first incomplete", s.c.steps[0].Incomplete, s.c.steps[1].Incomplete)
	}
}

// whisper.cpp names neither its weights nor most of what it computes.
func TestNamelessGraph(t *testing.T) {
	var nodes []trace.Node
	add := func(name, op string, leaf bool, src ...int32) int32 {
		n := tensor(name, op, "f32", 64, 64)
		n.Leaf, n.Src, n.Executes = leaf, src, !leaf
		nodes = append(nodes, n)
		return int32(len(nodes) - 1)
	}
	w, x := add("leaf_0", "", true), add("mel", "", true)
	norm := add("node_0", "NORM", false, x)
	q := add("node_1", "MUL_MAT", false, w, norm)
	fa := add("node_2", "FLASH_ATTN_EXT", false, q, q, q)
	out := add("node_3", "MUL_MAT", false, w, fa)
	gelu := add("node_4", "GELU", false, out)
	n := nameShape(nodes)
	for i, want := range map[int32]Block{norm: BlockNorm, q: BlockOther, fa: BlockAttention, out: BlockOther, gelu: BlockOther} {
		if n.block[i] != want {
			t.Errorf("%s %s: block %s, want %s", nodes[i].Name, nodes[i].Op, n.block[i], want)
		}
	}
	d := derive(nodes, n, out, nil)
	if k := kindOf(d, "MUL_MAT"); k != kindMatMul {
		t.Errorf("a product with a nameless weight is of kind %d", k)
	}
}
