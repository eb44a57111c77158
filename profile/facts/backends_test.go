// SPDX-License-Identifier: Apache-2.0

package facts_test

import (
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/profile/summary"
)

// A step whose graph is split over the CPU and other backends, of whose graphs no operator is seen.
func TestBackendGraphs(t *testing.T) {
	b := stat.New(stat.Options{})
	st := &profile.Step{ID: 1, PID: 1, Ctx: 9, Phase: profile.Prefill, Start: 1000, Dur: 1000, NTokens: 4,
		NSeqs: 1}
	on := func(backend string, from, to int64, ops int, sh *profile.Shape) {
		t.Helper()
		if err := b.Graph(&profile.Graph{PID: 1, Step: 1, Ctx: 9, Backend: backend, Start: from,
			Dur: to - from, Ops: ops, Shape: sh}); err != nil {
			t.Fatal(err)
		}
	}
	cpu := facts.ProductShape(facts.LeafAt("token_embd.weight", 0x100))
	if err := b.Op(&profile.Op{Step: st, Shape: cpu, Op: "MUL_MAT", Start: 1100, Dur: 100, Busy: 100,
		Threads: []profile.OpThread{{TID: 7, Start: 1100, Busy: 100}}}); err != nil {
		t.Fatal(err)
	}
	on("CPU", 1090, 1210, 1, cpu)
	on("BLAS", 1300, 1500, 0, facts.ProductShape(facts.LeafAt("blk.0.attn_q.weight", 0x200)))
	on("RPC", 1600, 1700, 0, nil)
	on("META", 1550, 1750, 0, nil) // the one before ran within it
	on("CPU", 1800, 1900, 0, nil)  // its operators were not recorded, that is another thing
	if err := b.Step(st); err != nil {
		t.Fatal(err)
	}
	s := b.Finish(&profile.Header{})
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
		t.Errorf("operators %d + backends %d + gap %d is not the step's %d", *f.OpsDur, *f.BackendDur, *f.Gap,
			f.Dur)
	}
	want := []summary.Backend{{Backend: "BLAS", Graphs: 1, Dur: 200}, {Backend: "META", Graphs: 1, Dur: 200},
		{Backend: "RPC", Graphs: 1, Dur: 100}}
	if len(f.Backends) != len(want) {
		t.Fatalf("backends: %+v", f.Backends)
	}
	for i, w := range want {
		g := f.Backends[i]
		if g.Backend != w.Backend || g.Graphs != w.Graphs || g.Dur != w.Dur ||
			*g.Share != float64(w.Dur)/1000 {
			t.Errorf("%+v, want %+v", g, w)
		}
	}
}
