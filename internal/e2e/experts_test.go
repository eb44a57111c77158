// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/demo"
	"github.com/profinfer/profinfer/demo/gguf"
	"github.com/profinfer/profinfer/internal/engines"
	"github.com/profinfer/profinfer/internal/oracle"
	"github.com/profinfer/profinfer/internal/recording"
	"github.com/profinfer/profinfer/internal/testkit"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/summary"
	"github.com/profinfer/profinfer/trace"
)

// choosers are mixtures of at least 16 experts of which tokens choose some: of four architectures.
func choosers(t testing.TB, e demo.Engine) map[string]string {
	t.Helper()
	models := map[string]string{}
	_, models["olmoe"] = engines.Model(t, e, "moe-tiny-vocab")     // 16 experts, 4 used
	_, models["qwen3moe"] = engines.Model(t, e, "moe-small-vocab") // 32, 4 used
	// with an expert that every token uses
	_, models["qwen2moe"] = engines.Made(t, e,
		demo.Spec{Name: "moe-shared", Arch: "qwen2moe", Layers: 3, Embd: 256, Heads: 4, KV: 2, Head: 64,
			Tokens: 512, Experts: 24, Used: 5, ExpertFF: 96, SharedFF: 128, Type: gguf.Q8_0, Context: 4096,
			Vocabulary: true})
	_, inside, err := oracle.TinyModel(context.Background(), e, "deepseek2-moe") // 64 experts
	if err != nil {
		t.Fatal(err)
	}
	models["deepseek2"] = inside
	return models
}

// varied is a prompt of n tokens that differ.
func varied(model string, n int) string {
	letters := "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	if strings.Contains(model, "/tiny/") {
		n *= 5 // its tokenizer makes a token of every five characters
	}
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[r.IntN(len(letters))]
	}
	return string(b)
}

// Choice takes what a run's graphs chose, in their order.
func (r *run) Choice(c *profile.Choice) error { r.choices = append(r.choices, c); return nil }

// chose compares the choices of a run with what the engine says. Choices without tokens are none.
func chose(r *run, want []oracle.Choice) (wrong []string) {
	complain := func(format string, a ...any) {
		if len(wrong) < 8 {
			wrong = append(wrong, fmt.Sprintf(format, a...))
		}
	}
	type place struct{ graph, layer int }
	got := map[place]*profile.Choice{}
	graphs := map[int64]int{}
	for i, g := range r.graphs {
		graphs[g.ID] = i
	}
	for _, c := range r.choices {
		got[place{graphs[c.Graph.ID], c.Layer}] = c
	}
	graph := -1
	for _, w := range want {
		if w.Layer == want[0].Layer {
			graph++
		}
		if w.Tokens == 0 {
			continue // nobody asks for its logits: it does not come to the last layer
		}
		i, c := graph, got[place{graph, w.Layer}]
		if c == nil {
			complain("layer %d, graph %d: no choice", w.Layer, i)
			continue
		}
		if c.Tokens != w.Tokens || c.Used != w.Used || !c.Whole() {
			complain("layer %d, graph %d: %d tokens (%d seen) choose %d experts (slots %v), want %d choosing %d", w.Layer, i, c.Tokens, c.Seen, c.Used, c.Slots, w.Tokens, w.Used)
			continue
		}
		row := func(t int) []int32 { return c.Chosen[t*c.Used : (t+1)*c.Used] }
		for t, f := range w.First {
			if !slices.Equal(row(t), f) {
				complain("layer %d, graph %d, token %d chose %v, want %v", w.Layer, i, t, row(t), f)
			}
		}
		for t, f := range w.Last {
			if t = w.Tokens - len(w.Last) + t; !slices.Equal(row(t), f) {
				complain("layer %d, graph %d, token %d chose %v, want %v", w.Layer, i, t, row(t), f)
			}
		}
		sum := 0.0
		for _, v := range c.Chosen {
			sum += float64(v)
		}
		if sum != w.Sum {
			complain("layer %d, graph %d: experts' numbers sum up to %g, want %g", w.Layer, i, sum, w.Sum)
		}
	}
	return wrong
}

// The experts that tokens chose are those that the engine says: each token of a prompt by itself, as in
// decode; a prefill of 200 tokens at once, of which the engine tells six and the sum; and the same in graphs
// of six, of which it tells all.
func TestExperts(t *testing.T) {
	e := engines.Debian(t)
	const n = 200
	for arch, model := range choosers(t, e) {
		t.Run(arch, func(t *testing.T) {
			if arch != "qwen2moe" {
				testkit.Long(t)
			}
			for _, batch := range []struct{ b, ub string }{{"1", "1"}, {"256", "256"}, {"256", "6"}} {
				prompt := varied(model, n)
				if batch.b == "1" {
					prompt = varied(model, 60)
				}
				want, err := oracle.Choices(context.Background(), e, model, "-c", "256", "-b", "256", "-ub",
					batch.ub, "-p", prompt)
				if err != nil {
					t.Fatal(err)
				}
				path := record(t, nil, e.Command("llama-completion", "-m", model, "-t", "2", "-n", "1", "-c",
					"256",
					"-b", batch.b, "-ub", batch.ub, "--no-warmup", "-no-cnv", "--temp", "0", "-p", prompt)...)
				r := load(t, path)
				r.lossless(t)
				for _, w := range chose(r, want) {
					t.Errorf("batches of %s: %s", batch.ub, w)
				}
				used, followed := 0, 0
				for _, o := range r.ops {
					if o.NodeDef().Op != "MUL_MAT_ID" {
						continue
					}
					if o.Choice == nil {
						t.Fatalf("%s of step %d has no choice", o.NodeDef().Name, o.Step.ID)
					}
					used++
					if o.Followed {
						followed++
					}
				}
				t.Logf("batches of %s: %d steps, %d choices, %d products that use them, %d of them followed",
					batch.ub, len(r.steps), len(r.choices), used, followed)
				if wrong := chose(mutated(t, path, func(b *trace.Block) {
					for i := range b.Experts {
						x := &b.Experts[i]
						for k := range x.Chosen {
							x.Chosen[k] = int32(k) % x.Used
						}
					}
				}), want); len(wrong) == 0 {
					t.Errorf("batches of %s: nobody noticed that every token has the first experts", batch.ub)
				}
			}
		})
	}
}

// Choices are seen in graphs that are followed by arrivals alone, decode and prefill, from the first graph of
// a new size on: it is told from others by its operators.
func TestExpertsFollowed(t *testing.T) {
	e := engines.Debian(t)
	_, model := engines.Model(t, e, "moe-tiny-vocab")
	// the second prompt is computed in graphs of another size, when decode is followed already
	r := load(t, record(t, nil, e.Command("llama-bench", "-m", model, "-t", "2", "-p", "200", "-n", "400",
		"-r", "1", "--no-warmup", "-ub", "200,100")...))
	prefill, decode := 0, 0
	for _, o := range r.ops {
		switch c := o.Choice; {
		case o.NodeDef().Op != "MUL_MAT_ID":
		case !c.Whole():
			t.Fatalf("%s of step %d: %+v", o.NodeDef().Name, o.Step.ID, c)
		case o.Followed && c.Tokens >= 100:
			prefill++
		case o.Followed:
			decode++
		}
	}
	if prefill == 0 || decode < 100*3 {
		t.Errorf("%d products of prefill and %d of decode were followed", prefill, decode)
	}
	for _, l := range recording.Losses(r.header) {
		if l.Why != "learning" && l.Why != "cut" {
			t.Errorf("loss: %+v", l)
		}
	}
}

// Builds of two years choose, and are seen to choose, of the same layers' experts.
func TestExpertsNPM(t *testing.T) {
	e := engines.Debian(t)
	path, _ := engines.Model(t, e, "moe-tiny-vocab")
	for i, version := range engines.Versions {
		if 0 < i && i+1 < len(engines.Versions) && !testkit.All() {
			continue // the oldest and the newest differ most
		}
		n := engines.NPM(t, version)
		r := load(t, record(t, nil, n.Command(path, 16, 20, 2, "--repeat", "2")...))
		used := 0
		for _, o := range r.ops {
			if o.NodeDef().Op == "MUL_MAT_ID" {
				if used++; !o.Choice.Whole() || o.Choice.Used != 4 || o.Choice.Total != 16 {
					t.Errorf("%s: %s of step %d: %+v", version, o.NodeDef().Name, o.Step.ID, o.Choice)
				}
			}
		}
		if used == 0 || used != 3*len(r.choices) {
			t.Errorf("%s: %d products, %d choices", version, used, len(r.choices))
		}
	}
}

// Experts of a model that was made unequal are used unequally, and the same ones again and again.
func TestExpertsSkew(t *testing.T) {
	e := engines.Debian(t)
	spec, err := demo.Model("moe-tiny")
	if err != nil {
		t.Fatal(err)
	}
	spec.Name, spec.Experts = "moe-many", 64
	of := func(skew float64) (busiest, again float64) {
		spec.Skew = skew
		_, model := engines.Made(t, e, spec)
		path := record(t, nil, e.Command("llama-bench", "-m", model, "-t", "1", "-p", "0", "-n", "300", "-r",
			"1", "--no-warmup")...)
		s := &summary.Stat{}
		if err := json.Unmarshal([]byte(profinfer(t, "stat", "--json", "-i", path).stdout), s); err != nil {
			t.Fatal(err)
		}
		for _, p := range s.Phases {
			if p.Phase == string(profile.Decode) && p.Experts != nil && len(p.Experts.Layers) == 3 &&
				p.Experts.Again != nil {
				return p.Experts.Layers[0].Imbalance + 1, *p.Experts.Again
			}
		}
		t.Fatalf("nothing is said of the experts: %+v", s.Phases)
		return 0, 0
	}
	evenBusiest, evenAgain := of(0)
	busiest, again := of(2)
	t.Logf("even: the busiest expert of layer 0 has %.2f times the mean, %.0f %% are used again; uneven: %.2f, %.0f %%", evenBusiest, evenAgain*100, busiest, again*100)
	if evenBusiest > 2.5 || busiest < 1.5*evenBusiest || again < evenAgain+0.1 {
		t.Error("a skew makes no difference, or not enough")
	}
}
