// SPDX-License-Identifier: Apache-2.0

package facts_test

import (
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/stat"
)

// stepper feeds steps of one operator.
type stepper struct {
	t  *testing.T
	b  *stat.Builder
	id int64
}

func (s *stepper) step(ctx uint64, sh *profile.Shape) {
	s.t.Helper()
	s.id++
	st := &profile.Step{ID: s.id, PID: 1, Ctx: ctx, Phase: profile.Decode, Start: s.id * 1000, Dur: 100,
		NTokens: 1, NSeqs: 1}
	o := &profile.Op{Step: st, Shape: sh, Op: "MUL_MAT", Start: st.Start, Dur: 80, Busy: 80,
		Threads: []profile.OpThread{{TID: 7, Start: st.Start, Busy: 80}}}
	if err := s.b.Op(o); err != nil {
		s.t.Fatal(err)
	}
	if err := s.b.Step(st); err != nil {
		s.t.Fatal(err)
	}
}

// Weights can be met in parts: what connects the parts makes one model of them, and their steps
// one phase.
func TestModelsJoin(t *testing.T) {
	s := &stepper{t: t, b: stat.New(stat.Options{})}
	a, b := facts.LeafAt("blk.0.attn_q.weight", 0x100), facts.LeafAt("blk.1.attn_q.weight", 0x200)
	first, second := facts.ProductShape(a), facts.ProductShape(b)
	s.step(1, first)
	s.step(2, second)
	s.step(1, facts.ProductShape(a, b))
	s.step(2, second)
	st := s.b.Finish(&profile.Header{})
	if len(st.Models) != 1 || st.Models[0].Layers != 2 || st.Models[0].Contexts != 2 ||
		st.Models[0].Params != 2048 {
		t.Fatalf("models: %+v", st.Models)
	}
	if len(st.Phases) != 1 || st.Phases[0].Steps != 4 || *st.Phases[0].OpsDur != 320 ||
		*st.Phases[0].Gap != 80 {
		t.Errorf("phases: %+v", st.Phases)
	}
	if len(st.Threads) != 1 || st.Threads[0].Steps != 400 || st.Threads[0].Busy != 320 ||
		st.Threads[0].Idle != 80 {
		t.Errorf("threads: %+v", st.Threads)
	}
}

// A graph split over devices: no weight is in both parts, but the context is the same.
func TestModelsSplit(t *testing.T) {
	s := &stepper{t: t, b: stat.New(stat.Options{})}
	s.step(1, facts.ProductShape(facts.LeafAt("blk.0.attn_q.weight", 0x100)))
	s.step(1, facts.ProductShape(facts.LeafAt("blk.1.attn_q.weight", 0x200)))
	if st := s.b.Finish(&profile.Header{}); len(st.Models) != 1 || st.Models[0].Layers != 2 {
		t.Errorf("models: %+v", st.Models)
	}
}

// Two models take turns at one address.
func TestModelsTakeTurns(t *testing.T) {
	s := &stepper{t: t, b: stat.New(stat.Options{})}
	one := facts.ProductShape(facts.LeafAt("blk.0.attn_q.weight", 0x100))
	two := facts.ProductShape(facts.LeafAt("blk.0.attn_q.weight", 0x900))
	for range 3 {
		s.step(1, one)
		s.step(1, two)
		s.step(1, two)
	}
	st := s.b.Finish(&profile.Header{})
	if len(st.Models) != 2 || len(st.Phases) != 2 || st.Phases[0].Steps+st.Phases[1].Steps != 9 ||
		st.Phases[0].Steps*st.Phases[1].Steps != 18 {
		t.Errorf("models: %+v, phases %+v", st.Models, st.Phases)
	}
}

// Heads show in the attention scores, whether the engine names them or not.
func TestModelHeads(t *testing.T) {
	for _, name := range []string{"kq-0", "node_7"} {
		b := stat.New(stat.Options{})
		sh := facts.ShapeOf(append(facts.Of(facts.Tensor(name, "MUL_MAT", "f32", 10, 1, 8),
			facts.Tensor("cache_k_l0 (view)", "VIEW", "f16", 16, 10, 2), facts.Tensor("Qcur-0 (permuted)",
				"PERMUTE", "f32", 16, 1, 8)),
			facts.LeafAt("blk.0.attn_q.weight", 0x100)))
		if err := b.Op(&profile.Op{Step: &profile.Step{ID: 1, PID: 1}, Shape: sh}); err != nil {
			t.Fatal(err)
		}
		m := b.Finish(&profile.Header{}).Models
		if len(m) != 1 || m[0].Heads == nil || *m[0].Heads != 8 || *m[0].HeadsKV != 2 || *m[0].HeadDim != 16 {
			t.Errorf("%s: %+v", name, m)
		}
	}
}

// Each backend has a copy of some weights: that makes no model of its own.
func TestModelsBackends(t *testing.T) {
	b := stat.New(stat.Options{})
	cpu := facts.ProductShape(facts.LeafAt("blk.0.attn_q.weight", 0x100),
		facts.LeafAt("rope_freqs.weight", 0x300))
	gpu := facts.ProductShape(facts.LeafAt("blk.1.attn_q.weight", 0x200),
		facts.LeafAt("rope_freqs.weight", 0x400))
	other := facts.ProductShape(facts.LeafAt("blk.0.attn_q.weight", 0x900))
	for id := int64(1); id <= 3; id++ {
		st := &profile.Step{ID: id, PID: 1, Ctx: 5, Phase: profile.Decode, Start: id * 1000, Dur: 100,
			NTokens: 1, NSeqs: 1}
		for i, sh := range []*profile.Shape{cpu, gpu} {
			g := &profile.Graph{ID: 2*id + int64(i), Step: id, PID: 1, Ctx: 5, Shape: sh,
				Backend: []string{"CPU", "Vulkan"}[i], Start: st.Start, Dur: 40}
			if err := b.Graph(g); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Step(st); err != nil {
			t.Fatal(err)
		}
	}
	// another model, of the same dimensions
	if err := b.Graph(&profile.Graph{ID: 100, PID: 1, Ctx: 6, Shape: other, Backend: "CUDA"}); err != nil {
		t.Fatal(err)
	}
	s := b.Finish(&profile.Header{})
	if len(s.Models) != 2 || s.Models[0].Layers != 2 || s.Models[0].Params != 3*1024 ||
		s.Models[1].Params != 1024 {
		t.Fatalf("models: %+v", s.Models)
	}
}
