// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/profile/summary"
)

func finding(s *summary.Stat, kind, phase string) *summary.Finding {
	for i := range s.Findings {
		if f := &s.Findings[i]; f.Kind == kind && f.Phase == phase {
			return f
		}
	}
	return nil
}

func TestFindingsOfASteadyRun(t *testing.T) {
	s := statOf(t, stat.Options{}, nil, "op", made())
	if len(s.Findings) == 0 || len(s.Findings) > 5 {
		t.Fatalf("%d findings", len(s.Findings))
	}
	for i, f := range s.Findings {
		if f.Gain == nil && f.Kind != "heaviest" || f.Gain != nil && f.Kind == "heaviest" {
			t.Errorf("%+v", f)
		}
		if i > 0 && f.GainAll != nil &&
			(s.Findings[i-1].GainAll == nil || *s.Findings[i-1].GainAll < *f.GainAll) {
			t.Errorf("finding %d gives back more than the one before", i)
		}
	}
	for _, kind := range []string{"slow_step", "slow_weight", "contention", "wait", "layer", "outside_operators",
		"between_steps"} {
		for _, phase := range []string{"prefill", "decode"} {
			if f := finding(s, kind, phase); f != nil {
				t.Errorf("found what is not there: %s", f.Text)
			}
		}
	}
	// The output's weight is the largest.
	f := finding(s, "heaviest", "decode")
	if f == nil || f.Names[0] != "output (token_embd)" || f.Target.Params["sel"] != "output (token_embd)" ||
		f.Target.Params["phase"] != "decode" {
		t.Errorf("%+v", f)
	}
}

func TestFindingSlowWeight(t *testing.T) {
	r := made()
	r.Cost = func(d *facts.Derived) float64 {
		if strings.Contains(d.Weight, "ffn_down") {
			return 2 * roofline(d)
		}
		return roofline(d)
	}
	s := statOf(t, stat.Options{}, nil, "op", r)
	f := finding(s, "slow_weight", "decode")
	if f == nil {
		t.Fatalf("not found: %+v", s.Findings)
	}
	// Two layers of 2048*8192*18/32 bytes take 0.1 ns a byte, where half of that would do.
	want := 2 * 2048 * 8192 * 18.0 / 32 * 0.05
	if math.Abs(*f.Gain-want) > 0.02*want || f.Names[0] != "ffn_down" || f.Target.View != "dag" ||
		f.Target.Params["q"] != "ffn_down" || f.Target.Params["color"] != "gbps" {
		t.Errorf("%+v gives back %g, want %g", f, *f.Gain, want)
	}
	if !strings.Contains(f.Text, "10.0 GB/s") || !strings.Contains(f.Text, "20.0") {
		t.Errorf("%q", f.Text)
	}
	// Where computing bounds a phase, rates are of that.
	if f := finding(s, "slow_weight", "prefill"); f == nil || !strings.Contains(f.Text, "GFLOP/s") {
		t.Errorf("prefill: %+v", f)
	}
}

// A target names what the views know.
func TestFindingTargets(t *testing.T) {
	draft := made()
	draft.Ctx, draft.Model.Layers, draft.Model.Base, draft.Model.FF = 2, 1, 0x9000000, 4096
	slow := func(d *facts.Derived) float64 {
		if strings.Contains(d.Weight, "token_embd") {
			return 3 * roofline(d)
		}
		return roofline(d)
	}
	a, b := made(), draft
	a.Cost, b.Cost = slow, slow
	a.Model.Vocab, b.Model.Vocab = 16384, 16384
	s := statOf(t, stat.Options{}, nil, "op", a, b)
	for _, f := range s.Findings {
		if p := f.Target.Params; f.Target.View != "time" && p["phase"] != f.Phase ||
			p["model"] != strconv.Itoa(*f.Model) {
			t.Errorf("%s of %s of model %d leads to %+v", f.Kind, f.Phase, *f.Model, f.Target)
		}
	}
	// The output's row is called by what it is, its node found by its weight.
	f := finding(s, "slow_weight", "prefill")
	if f == nil || f.Names[0] != "output (token_embd)" || f.Target.Params["q"] != "token_embd" {
		t.Errorf("%+v", f)
	}
}

// What could give back most in the whole run comes first.
func TestFindingsOrder(t *testing.T) {
	r := made()
	r.Gap = 5_000
	r.Part = func(t int) float64 { return 1.2 - 0.4*float64(t) }
	s := statOf(t, stat.Options{}, nil, "op", r)
	if len(s.Findings) < 3 {
		t.Fatalf("%+v", s.Findings)
	}
	last := math.Inf(1)
	for _, f := range s.Findings {
		if f.GainAll == nil {
			last = 0
			continue
		}
		if *f.GainAll > last {
			t.Errorf("%s gives back %g, the one before %g", f.Kind, *f.GainAll, last)
		}
		last = *f.GainAll
	}
}

func TestFindingLayer(t *testing.T) {
	r := made()
	r.Model.Layers = 8
	r.Cost = func(d *facts.Derived) float64 {
		if d.Layer != nil && *d.Layer == 5 {
			return 1.5 * roofline(d)
		}
		return roofline(d)
	}
	f := finding(statOf(t, stat.Options{}, nil, "op", r), "layer", "decode")
	if f == nil || f.Target.Params["sel"] != "5" || !strings.HasPrefix(f.Text, "Layer 5 takes 50 % longer") &&
		!strings.HasPrefix(f.Text, "Layer 5 takes 49 % longer") {
		t.Errorf("%+v", f)
	}
}

func TestFindingGrowth(t *testing.T) {
	r := made()
	r.Model.Vocab, r.Model.FF = 1024, 1024
	r.Decode = 2048 // the cache's part that is read grows by 256 cells
	s := statOf(t, stat.Options{}, nil, "op", r)
	f := finding(s, "attention_growth", "decode")
	if f == nil {
		t.Fatalf("not found: %+v", s.Findings)
	}
	// A position adds 2 layers * 2 (keys, values) * 8 heads * 64 * 2 bytes, read at 20 GB/s; its mask too.
	want := 2 * 2 * 8 * 64 * 2 * 0.05
	if math.Abs(*f.Figures[0].Value-want) > 0.1*want {
		t.Errorf("a position costs %g ns, want %g", *f.Figures[0].Value, want)
	}
	if !strings.Contains(f.Text, "at position 129") || !strings.Contains(f.Text, "at 2,176") {
		t.Errorf("%q", f.Text)
	}
}

func TestFindingSlowStep(t *testing.T) {
	r := made()
	r.Decode, r.Preempt = 32, 20
	s := statOf(t, stat.Options{}, nil, "op", r)
	f := finding(s, "disturbed_steps", "decode")
	if f == nil {
		t.Fatalf("not found: %+v", s.Findings)
	}
	// Step 1 is the prompt's.
	if f.Target.View != "time" || f.Target.Params["step"] != "21" || math.Abs(*f.GainAll-5e6) > 1e3 ||
		!strings.Contains(f.Text, "apt-get (77) held CPU 1 for 5.00 ms") {
		t.Errorf("%+v, %g", f, *f.GainAll)
	}
}

func TestFindingGaps(t *testing.T) {
	r := made()
	r.Gap = 20_000
	f := finding(statOf(t, stat.Options{}, nil, "op", r), "outside_operators", "decode")
	if want := 37*20_000.0 + 30_000; f == nil || math.Abs(*f.Gain-want) > 1 ||
		!strings.Contains(f.Text, "30.0 µs of that outside any graph") {
		t.Errorf("%+v", f)
	}
	// Steps of 0.3 ms follow each other after 50 µs.
	r = made()
	r.Model.Vocab, r.Model.FF, r.Model.Width = 1024, 256, 256
	later := r // a second answer, after a pause in which nobody asked
	later.Start, later.Prefill, later.Pos = 60e9, 0, 200
	f = finding(statOf(t, stat.Options{}, nil, "op", r, later), "between_steps", "decode")
	if f == nil || math.Abs(*f.Figures[0].Value-50_000) > 1 || math.Abs(*f.GainAll-14*50_000) > 1 {
		t.Errorf("%+v", f)
	}
}
