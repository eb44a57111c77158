// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/demo"
	"github.com/profinfer/profinfer/internal/engines"
	"github.com/profinfer/profinfer/internal/oracle"
	"github.com/profinfer/profinfer/profile"
)

// printed records a program that prints each node it computes, and returns what it said it computed beside
// the recording.
func printed(t testing.TB, e demo.Engine, name string, args ...string) (string, []oracle.Graph) {
	t.Helper()
	needBPF(t)
	t.Setenv("GGML_SCHED_DEBUG", "2")
	t.Setenv("LC_ALL", "C")
	path := filepath.Join(t.TempDir(), "run.pinf")
	argv := append([]string{"record", "-o", path, "--"},
		e.Command(name, append(args, "-v", "-t", "2", "-c", "256",
			"--log-colors", "off", "--no-log-prefix", "--no-log-timestamps")...)...)
	for range 20 { // it ends without waiting for its own log
		out, err := exec.Command(program, argv...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out[max(0, len(out)-2000):])
		}
		gs, err := oracle.Graphs(string(out))
		if err == nil {
			return path, gs
		}
		if !errors.Is(err, oracle.ErrCut) {
			os.WriteFile(filepath.Join(t.ArtifactDir(), "log.txt"), bytes.TrimSpace(out), 0o644)
			t.Fatal(err)
		}
	}
	t.Fatalf("%s: its log is cut every time", name)
	return "", nil
}

// A program that looks at every node has each computed as a graph of its own: every one is new at first, and
// none has an operator before the one that is timed. All operators are recorded all the same, with what both
// threads did from begin to arrival: in the first step and later ones, in the first graphs of a step and in
// those that come back with each token.
func TestCallbackSteps(t *testing.T) {
	e := engines.Debian(t)
	models := map[string]string{}
	_, models["olmoe"] = engines.Model(t, e, "moe-tiny-vocab")
	_, models["qwen3moe"] = engines.Model(t, e, "moe-small-vocab")
	if m := os.Getenv("PROFINFER_CALLBACK_MODEL"); m != "" { // a larger one, as the engine sees it
		models = map[string]string{"given": m}
	}
	for arch, model := range models {
		for _, run := range []struct {
			name, program string
			tokens        int
			args          []string
			graphs, steps int
		}{
			{"prompt", "llama-eval-callback", 200, nil, 1, 1},
			{"token by token", "llama-eval-callback", 8, []string{"-ub", "1"}, 8, 1},
			{"after a warm-up", "llama-debug", 9, nil, 2, 2},
		} {
			if arch == "qwen3moe" && run.tokens < 200 {
				continue // the small model tells as much of these, sooner
			}
			t.Run(arch+"/"+run.name, func(t *testing.T) {
				path, said := printed(t, e, run.program,
					append([]string{"-m", model, "-p", varied(model, run.tokens)}, run.args...)...)
				r := load(t, path)
				r.lossless(t)
				if len(said) != run.graphs || len(r.steps) != run.steps {
					t.Fatalf("%d graphs in %d steps, want %d in %d", len(said), len(r.steps), run.graphs,
						run.steps)
				}
				for i, s := range r.steps {
					if s.Untraced != "" {
						t.Errorf("step %d: its operators were not recorded (%s)", i, s.Untraced)
					}
					mine := said[i*len(said)/len(r.steps) : (i+1)*len(said)/len(r.steps)]
					var nodes []oracle.Node
					for _, g := range mine {
						nodes = append(nodes, g.Nodes...)
					}
					for _, w := range oracle.Differ(r.opsOf(s), nil, nodes) {
						t.Errorf("step %d: %s", i, w)
					}
					if graphs := r.graphsOf(s); len(graphs) != len(nodes) {
						t.Errorf("step %d: %d graphs, want one for each of %d nodes", i, len(graphs),
							len(nodes))
					}
				}
				timed(t, r)
				shared(t, r)
			})
		}
	}
}

// timed checks that operators of graphs of one node were seen from begin to end on both threads.
func timed(t *testing.T, r *run) {
	t.Helper()
	followed, short, outside, both := 0, 0, 0, 0
	for _, o := range r.ops {
		if o.Followed {
			followed++
		}
		if o.Incomplete {
			short++
		}
		if len(o.Threads) == 2 { // of some operators the engine makes no parts
			both++
		}
		if g := o.Graph; o.Start < g.Start || o.Start+o.Dur > g.Start+g.Dur || o.Dur <= 0 || o.Busy <= 0 {
			outside++
		}
	}
	if followed+short+outside > 0 {
		t.Errorf("of %d operators %d are timed by arrivals alone, %d lack a thread, %d do not lie in their graph", len(r.ops), followed, short, outside)
	}
	if both < len(r.ops)*3/4 {
		t.Errorf("of %d operators %d ran on both threads", len(r.ops), both)
	}
	t.Logf("%d operators (%d of both threads) of %d graphs in %d steps", len(r.ops), both, len(r.graphs),
		len(r.steps))
}

// shared checks that the three products of a layer's experts, each a graph of its own, have one choice, and
// each token's graph another.
func shared(t *testing.T, r *run) {
	t.Helper()
	users := map[*profile.Choice]int{}
	products := 0
	for _, o := range r.ops {
		if o.NodeDef().Op != "MUL_MAT_ID" {
			continue
		}
		products++
		if !o.Choice.Whole() {
			t.Fatalf("%s of step %d: %+v", o.NodeDef().Name, o.Step.ID, o.Choice)
		}
		users[o.Choice]++
	}
	for c, n := range users {
		if n != 3 {
			t.Errorf("the choice of layer %d at %d has %d products, want 3", c.Layer, c.Time, n)
		}
	}
	if len(r.choices) != products/3 || len(users) != products/3 {
		t.Errorf("%d choices were told and %d used, of %d products", len(r.choices), len(users), products)
	}
}
