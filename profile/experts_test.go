// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/experts"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/profile/summary"
	"github.com/profinfer/profinfer/trace"
)

// chosenRun is all that a replay hands over of choices.
type chosenRun struct {
	profile.BaseSink
	choices []*profile.Choice
	ops     []*profile.Op
	graphs  int
}

func (r *chosenRun) Op(o *profile.Op) error         { r.ops = append(r.ops, o); return nil }
func (r *chosenRun) Graph(*profile.Graph) error     { r.graphs++; return nil }
func (r *chosenRun) Choice(c *profile.Choice) error { r.choices = append(r.choices, c); return nil }

// moe is a prompt of 200 tokens and 20 more, of two layers of 16 experts of which a token uses 4.
var moe = profiletest.Run{Model: profiletest.MoE, PID: 10, Ctx: 1, Threads: 2, Prefill: 200, Decode: 20,
	Start: 1000, Gap: 500}

func replayChosen(t *testing.T, change func(*profiletest.Recorder), run profiletest.Run) (*chosenRun,
	*summary.Stat, *profile.Header) {
	t.Helper()
	var buf bytes.Buffer
	err := profiletest.Record(&buf, change, func(_ *profiletest.Recorder, p *profiletest.Player) error {
		return p.Play(run)
	})
	if err != nil {
		t.Fatal(err)
	}
	rd, err := trace.NewReader(&buf)
	if err != nil {
		t.Fatal(err)
	}
	r, b := &chosenRun{}, stat.New(stat.Options{})
	h, err := profile.Replay(rd, profile.Tee(r, b))
	if err != nil {
		t.Fatal(err)
	}
	return r, b.Finish(h), h
}

func expertPhase(t *testing.T, s *summary.Stat, phase string) *summary.Phase {
	t.Helper()
	for i := range s.Phases {
		if s.Phases[i].Phase == phase {
			return &s.Phases[i]
		}
	}
	t.Fatalf("no %s", phase)
	return nil
}

// What was recorded comes out again: each layer's choice of each step once, with the products that share it.
func TestChoicesReplayed(t *testing.T) {
	r, _, h := replayChosen(t, nil, moe)
	if len(h.Losses) > 0 {
		t.Errorf("losses: %+v", h.Losses)
	}
	if len(r.choices) != 21*2 || r.graphs != 21 {
		t.Fatalf("%d choices in %d graphs", len(r.choices), r.graphs)
	}
	users := map[*profile.Choice]int{}
	for _, o := range r.ops {
		if (o.Op == "MUL_MAT_ID") != (o.Choice != nil) {
			t.Fatalf("%s has the choice %v", o.NodeDef().Name, o.Choice)
		}
		if o.Choice != nil {
			users[o.Choice]++
		}
	}
	pos := 0
	for i, c := range r.choices {
		layer, tokens := i%2, 1
		if i < 2 {
			tokens = 200
		}
		if c.Layer != layer || c.Tokens != tokens || c.Used != 4 || c.Total != 16 || !c.Whole() || c.Slots ||
			users[c] != 3 || c.Step == nil ||
			c.Shape.Nodes[c.Node].Op != "MUL_MAT_ID" ||
			c.Shape.Nodes[c.IDs].Name != []string{"ffn_moe_topk-0", "ffn_moe_topk-1"}[layer] {
			t.Fatalf("choice %d: %+v, %d users", i, c, users[c])
		}
		for k, e := range c.Chosen {
			if want := (layer + pos + k/4 + k%4) % 16; int(e) != want {
				t.Fatalf("choice %d, token %d, rank %d is %d, want %d", i, k/4, k%4, e, want)
			}
		}
		if want := min(16, tokens+3); c.Distinct() != want {
			t.Errorf("choice %d: %d different experts, want %d", i, c.Distinct(), want)
		}
		pos += layer * tokens
	}
}

// The statistics, as they follow from the rule by which tokens choose: in decode three of four experts are
// those of the step before.
func TestExpertStat(t *testing.T) {
	_, s, _ := replayChosen(t, nil, moe)
	near := func(what string, got *float64, want float64) {
		t.Helper()
		if got == nil || math.Abs(*got-want) > 1e-9*math.Abs(want) {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	d := expertPhase(t, s, "decode").Experts
	if d == nil || len(d.Layers) != 2 || d.NotSeen+d.Slots+d.Dropped != 0 {
		t.Fatalf("decode: %+v", d)
	}
	near("again", d.Again, 0.75)
	near("by chance", d.ByChance, 4.0/16)
	// three products a layer; an expert has 64*192 elements in blocks of 32, of 18 bytes
	const plane = 64 * 192 / 32 * 18
	near("bytes", d.Bytes, 2*3*4*plane)
	near("bytes of all", d.BytesAll, 2*3*16*plane)
	for i, l := range d.Layers {
		// position 200 to 219: expert (layer+pos+rank) % 16
		load := make([]int64, 16)
		for pos := 200; pos < 220; pos++ {
			for rank := range 4 {
				load[(i+pos+rank)%16]++
			}
		}
		most := slices.Max(load)
		if l.Layer == nil || *l.Layer != i || l.Experts != 16 || l.Used != 4 || l.Batches != 20 ||
			l.Tokens != 20 || !slices.Equal(l.Load, load) || l.Unused != 0 {
			t.Errorf("layer %d: %+v, want load %v", i, l, load)
		}
		if want := float64(most)*16/80 - 1; math.Abs(l.Imbalance-want) > 1e-12 || l.Distinct != 4 {
			t.Errorf("layer %d: imbalance %g, want %g; %g distinct", i, l.Imbalance, want, l.Distinct)
		}
		near("again", l.Again, 0.75)
	}
	// Each step takes three of the four used last, and the one that was used longest ago: of the 16 it is the
	// last. A cache of three holds nothing that order tells (the three are ranks 0 to 2 of the last step's
	// set: places 1 to 3), one of four three quarters.
	want := map[int]float64{1: 0, 2: 0.25, 4: 0.75, 8: 0.75, 16: 1}
	// the first decode step comes after a prefill of all experts, whose order is that of their first use
	for _, c := range d.Cache {
		if math.Abs(c.Hits-want[c.Experts]) > 0.06 {
			t.Errorf("a cache of %d holds %.3f, want about %.3f", c.Experts, c.Hits, want[c.Experts])
		}
	}
	if len(d.Cache) != 5 {
		t.Errorf("caches: %+v", d.Cache)
	}
	for _, p := range d.Products {
		// of each weight: 19 steps by 2 layers, of which the step before is known
		if len(p.New) != 1 || p.New[0].New != 1 || p.New[0].Calls != 19*2 || p.PerNew != nil {
			t.Errorf("%s: %+v", p.Weight, p)
		}
	}
	if len(d.Products) != 3 {
		t.Errorf("products: %+v", d.Products)
	}
	pre := expertPhase(t, s, "prefill").Experts
	near("prefill's bytes: every expert once", pre.Bytes, 2*3*16*plane)
	if pre.Again != nil || len(pre.Products) != 0 || pre.Layers[0].Tokens != 200 ||
		pre.Layers[0].Distinct != 16 {
		t.Errorf("prefill: %+v", pre)
	}
}

// The time of products follows the number of new experts where it does.
func TestNewExpertsCost(t *testing.T) {
	run := moe
	run.Prefill, run.Pos, run.Decode = 0, 300, 60
	// every third step takes four new experts, the others none
	group := func(pos int64) int64 { return (pos - 300) / 3 * 4 }
	run.Choose = func(_, pos, rank int64) int32 { return int32((group(pos) + rank) % 16) }
	r := &chosenRun{}
	b := stat.New(stat.Options{})
	// a product takes 1 ms and 250 us more for each new expert; the player sets the time of all, so the
	// sink in front of it changes that of products.
	last := map[int][]int32{}
	p := &profiletest.Player{Sink: slower{profile.Tee(r, b), func(o *profile.Op) {
		c := o.Choice
		if c == nil {
			return
		}
		if l := last[c.Layer]; l != nil && !slices.Equal(l, c.Chosen) {
			o.Dur = 1_000_000 + 4*250_000
		} else {
			o.Dur = 1_000_000
		}
		if o.NodeDef().Name == "ffn_moe_down-0" || o.NodeDef().Name == "ffn_moe_down-1" {
			last[c.Layer] = c.Chosen
		}
	}}}
	if err := p.Play(run); err != nil {
		t.Fatal(err)
	}
	d := expertPhase(t, b.Finish(p.Header("op")), "decode").Experts
	if d == nil || len(d.Products) != 3 {
		t.Fatalf("%+v", d)
	}
	for _, w := range d.Products {
		// 59 of 60 steps have one before; 19 of them begin a new group
		if len(w.New) != 2 || w.New[0].New != 0 || w.New[0].Calls != 40*2 || w.New[1].New != 4 ||
			w.New[1].Calls != 19*2 {
			t.Fatalf("%s: %+v", w.Weight, w.New)
		}
		if w.New[0].Mean != 1e6 || w.New[1].Mean != 2e6 || w.PerNew == nil ||
			math.Abs(*w.PerNew-250_000) > 0.02*250_000 {
			t.Errorf("%s: %+v, %v a new one", w.Weight, w.New, *w.PerNew)
		}
	}
	if d.Again == nil || math.Abs(*d.Again-40.0/59) > 1e-9 {
		t.Errorf("again %v, want 40 of 59", *d.Again)
	}
}

// slower changes operators on their way.
type slower struct {
	profile.Sink
	change func(*profile.Op)
}

func (s slower) Op(o *profile.Op) error { s.change(o); return s.Sink.Op(o) }

// The bytes of a product with several tokens' experts are those of the experts that were chosen.
func TestChosenBytes(t *testing.T) {
	run := moe
	run.Prefill, run.Decode = 2, 0
	for _, recorded := range []bool{true, false} {
		r, _, _ := replayChosen(t, func(r *profiletest.Recorder) { r.NoExperts = !recorded }, run)
		n := 0
		for _, o := range r.ops {
			if o.Op != "MUL_MAT_ID" || o.NodeDef().Name == "ffn_moe_down-0" ||
				o.NodeDef().Name == "ffn_moe_down-1" {
				continue
			}
			n++
			// two tokens choose 4 each, five different ones: 0 to 3 and 1 to 4; not known it is taken for
			// eight.
			experts := int64(5)
			if !recorded {
				experts = 8
			}
			d := facts.Derive(o)
			const plane = 64 * 192 / 32 * 18
			// weights, the activations (64 f32 by 2), the numbers (a view of rows of 16 by 2 that shows 4),
			// the output
			want := experts*plane + 64*4*2 + 4*4*2 + 192*4*4*2
			if d.Bytes == nil || *d.Bytes != want || d.BytesAtMost == recorded {
				t.Errorf("recorded %v: %s has %v bytes (at most %v), want %d", recorded, o.NodeDef().Name,
					*d.Bytes, d.BytesAtMost, want)
			}
		}
		if n != 4 {
			t.Errorf("%d products", n)
		}
	}
}

// What is not whole is left out and counted; slots of a cache are no experts; numbers that no expert has
// are no choice.
func TestChoicesNotWhole(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*profiletest.Recorder)
		want   func(*experts.Stat) bool
	}{
		"a part is lost": {func(r *profiletest.Recorder) {
			r.Experts = func(x *trace.Experts) {
				if x.First == 64 {
					x.First, x.Chosen = 0, nil
				}
			}
		}, func(e *experts.Stat) bool { return e.NotSeen == 2 && e.Slots == 0 && len(e.Layers) == 0 }},
		"slots": {func(r *profiletest.Recorder) {
			r.Shape = func(s *trace.Shape) {
				for i := range s.Nodes {
					if s.Nodes[i].Name == "ffn_moe_topk-0" {
						s.Nodes[i].Name = "ffn_moe_slots-0"
					}
				}
			}
		}, func(e *experts.Stat) bool { return e.Slots == 1 && e.NotSeen == 0 && len(e.Layers) == 1 }},
		"nonsense": {func(r *profiletest.Recorder) {
			r.Experts = func(x *trace.Experts) { x.Chosen = append([]int32{1 << 30}, x.Chosen[1:]...) }
		}, func(e *experts.Stat) bool { return e.NotSeen == 2 && len(e.Layers) == 0 }},
	} {
		run := moe
		run.Decode = 0
		r, s, _ := replayChosen(t, c.change, run)
		if r.choices[0].Whole() {
			t.Errorf("%s: the first is whole", name)
		}
		if e := expertPhase(t, s, "prefill").Experts; e == nil || !c.want(e) {
			t.Errorf("%s: %+v", name, e)
		}
	}
	// of a tensor that is no node of the graph, of a thread that runs none, of impossible sizes
	for name, change := range map[string]func(*trace.Experts){
		"node":   func(x *trace.Experts) { x.Node++ },
		"thread": func(x *trace.Experts) { x.TID++ },
		"size":   func(x *trace.Experts) { x.Tokens = math.MaxInt32 },
		"rows":   func(x *trace.Experts) { x.First = -1 },
		"none":   func(x *trace.Experts) { x.Used = 0 },
	} {
		run := moe
		run.Prefill, run.Decode = 3, 0
		r, _, h := replayChosen(t, func(r *profiletest.Recorder) { r.Experts = change }, run)
		if len(r.choices) != 0 || len(h.Losses) != 1 || h.Losses[0].What != "experts" ||
			h.Losses[0].Events != 2 {
			t.Errorf("%s: %d choices, %+v", name, len(r.choices), h.Losses)
		}
	}
}
