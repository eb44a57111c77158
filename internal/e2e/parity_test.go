// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/internal/engines"
	"github.com/profinfer/profinfer/internal/oracle"
	"github.com/profinfer/profinfer/internal/recording"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/trace"
)

// differ compares what profinfer saw of a step with what the engine says it runs. It returns
// what is wrong, nothing if they agree.
func differ(r *run, s *profile.Step, want []oracle.Node) []string {
	graphs := r.graphsOf(s)
	if len(graphs) != 1 || graphs[0].Shape == nil {
		return []string{fmt.Sprintf("%d graphs in the step", len(graphs))}
	}
	return oracle.Differ(r.opsOf(s), graphs[0].Shape, want)
}

// eval asks the engine.
func eval(t testing.TB, model string, tokens int) []oracle.Node {
	t.Helper()
	g, err := oracle.Eval(context.Background(), engines.Debian(t), model, "-c", "256", "-p",
		oracle.TinyPrompt(tokens), "-n", "1")
	if err != nil {
		t.Fatal(err)
	}
	return g.Nodes
}

// The operators of a step are those that the engine says it computes, for several
// architectures, prefill and decode, one thread, two, and more threads than CPUs.
func TestParity(t *testing.T) {
	e := engines.Debian(t)
	for _, model := range []string{"llama-dense", "llama-moe", "qwen2-dense", "gemma2-dense", "qwen2moe-moe",
		"deepseek2-moe"} {
		t.Run(model, func(t *testing.T) {
			_, inside, err := oracle.TinyModel(context.Background(), e, model)
			if err != nil {
				t.Fatal(err)
			}
			prefill, decode := eval(t, inside, 5), eval(t, inside, 1)
			for _, threads := range []string{"1", "2", "5"} {
				if threads == "5" && model != "llama-dense" {
					continue // three spare threads on two CPUs take long
				}
				path := record(t, nil, e.Command("llama-completion", "-m", inside, "-t", threads, "-n", "4",
					"-c", "256",
					"--no-warmup", "-no-cnv", "--temp", "0", "-p", oracle.TinyPrompt(5))...)
				r := load(t, path)
				r.lossless(t)
				if len(r.steps) < 4 {
					t.Fatalf("%d steps", len(r.steps))
				}
				for i, s := range r.steps {
					want, phase := decode, profile.Decode
					if i == 0 {
						want, phase = prefill, profile.Prefill
					}
					if s.Phase != phase {
						t.Errorf("%s threads: step %d is %q, want %q", threads, i, s.Phase, phase)
					}
					for _, w := range differ(r, s, want) {
						t.Errorf("%s threads, step %d: %s", threads, i, w)
					}
				}
			}
		})
	}
}

// A check counts if it fails when it should: the same recording, damaged in one way at a time.
func TestParityNoticesMutations(t *testing.T) {
	e := engines.Debian(t)
	_, inside, err := oracle.TinyModel(context.Background(), e, "llama-dense")
	if err != nil {
		t.Fatal(err)
	}
	prefill, decode := eval(t, inside, 5), eval(t, inside, 1)
	// Of both hits of every operator: where a graph is followed, a begin is not needed to know it.
	path := record(t, []string{"--two-hits"},
		e.Command("llama-completion", "-m", inside, "-t", "2", "-n", "4", "-c", "256",
			"--no-warmup", "-no-cnv", "--temp", "0", "-p", oracle.TinyPrompt(5))...)
	check := func(r *run) (wrong []string) {
		for i, s := range r.steps {
			want := decode
			if i == 0 {
				want = prefill
			}
			wrong = append(wrong, differ(r, s, want)...)
		}
		if len(r.steps) < 4 {
			wrong = append(wrong, "steps are missing")
		}
		return wrong
	}
	if wrong := check(mutated(t, path, func(*trace.Block) {})); len(wrong) > 0 {
		t.Fatalf("unchanged: %s", strings.Join(wrong, "\n"))
	}
	var first *trace.Shape
	var victim int32
	for name, change := range map[string]func(*trace.Block){
		"a node shifted by one": func(b *trace.Block) {
			if s := b.Shape; s != nil {
				for i := s.NNodes - 1; i > 0; i-- {
					s.Nodes[i].Addr = s.Nodes[i-1].Addr
				}
			}
		},
		"a thread's hits dropped": func(b *trace.Block) {
			var kept []trace.Hit
			for _, h := range b.Hits {
				if victim == 0 && h.Ith == 1 {
					victim = h.TID
				}
				if h.TID != victim || victim == 0 {
					kept = append(kept, h)
				}
			}
			b.Hits = kept
		},
		"dimensions frozen": func(b *trace.Block) {
			s := b.Shape
			if s == nil {
				return
			}
			if first == nil || len(first.Nodes) != len(s.Nodes) {
				first = s
				return
			}
			for i := range s.Nodes {
				s.Nodes[i].Ne = first.Nodes[i].Ne
			}
		},
		"an operator's begin lost": func(b *trace.Block) {
			for i, h := range b.Hits {
				if h.Kind == trace.HitOpBegin {
					b.Hits = append(b.Hits[:i:i], b.Hits[i+1:]...)
					return
				}
			}
		},
		"names of another graph": func(b *trace.Block) {
			if s := b.Shape; s != nil {
				for i := range s.Nodes {
					s.Nodes[i].Name = strings.Replace(s.Nodes[i].Name, "-0", "-1", 1)
				}
			}
		},
	} {
		if wrong := check(mutated(t, path, change)); len(wrong) == 0 {
			t.Errorf("%s: nobody noticed", name)
		} else {
			t.Logf("%s: %s", name, wrong[0])
		}
	}
}

// mutated replays a trace with its blocks changed.
func mutated(t testing.TB, path string, change func(*trace.Block)) *run {
	t.Helper()
	r, err := recording.Changed(path, change)
	if err != nil {
		t.Fatal(err)
	}
	return &run{ops: r.Ops, graphs: r.Graphs, steps: r.Steps, sched: r.Scheds, header: r.Header}
}

// Where the KV cache's used part grows, the graph is built anew with larger views.
func TestGrownViews(t *testing.T) {
	e := engines.Debian(t)
	_, inside, err := oracle.TinyModel(context.Background(), e, "llama-dense")
	if err != nil {
		t.Fatal(err)
	}
	path := record(t, nil, e.Command("llama-bench", "-m", inside, "-t", "1", "-p", "0", "-n", "600", "-r",
		"1", "--no-warmup")...)
	r := load(t, path)
	r.lossless(t)
	if len(r.steps) != 600 {
		t.Fatalf("%d steps", len(r.steps))
	}
	for i, s := range r.steps {
		if g := r.graphsOf(s); len(g) != 1 || g[0].Shape == nil {
			t.Fatalf("step %d has %d graphs", i, len(g))
		} else if want, got := int64(i/256+1)*256, kvCells(g[0].Shape); got != want {
			t.Fatalf("step %d attends to %d cells, want %d", i, got, want)
		}
		if i > 100 && os.Getenv("CI") == "" && testing.Short() {
			break
		}
	}
}

// kvCells returns the largest dimension of the views of the first layer's keys.
func kvCells(s *profile.Shape) (n int64) {
	for i := range s.Nodes {
		d := &s.Nodes[i]
		if strings.HasPrefix(d.Name, "cache_k_l0 (view)") && d.Op == "PERMUTE" || d.Op == "FLASH_ATTN_EXT" &&
			len(d.Src) > 1 {
			src := d
			if d.Op == "FLASH_ATTN_EXT" {
				src = &s.Nodes[d.Src[1]]
			}
			n = max(n, src.Ne[1])
		}
	}
	return n
}
