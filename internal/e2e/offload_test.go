// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/csv"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/internal/engines"
	"github.com/profinfer/profinfer/profile"
)

// said is a split as the scheduler prints it (GGML_SCHED_DEBUG=2).
type said struct {
	backend string
	inputs  []string // tensors that are copied before it
	nodes   []string // "OP name", both cut as printed
}

var (
	splitLine = regexp.MustCompile(`^## SPLIT #(\d+): (\S+) # (\d+) inputs:?(.*)$`)
	inputName = regexp.MustCompile(`\[(.*?) \(`)
	nodeLine  = regexp.MustCompile(`^node #\s*\d+ \(\s*(\S+)\):\s+(\S.*?) \(\s*\S+\) \[`)
)

// splitsSaid returns the splits of every graph that a run printed, in order.
func splitsSaid(text string) (graphs [][]said) {
	for l := range strings.SplitSeq(text, "\n") {
		if m := splitLine.FindStringSubmatch(l); m != nil {
			if m[1] == "0" {
				graphs = append(graphs, nil)
			}
			s := said{backend: m[2]}
			for _, n := range inputName.FindAllStringSubmatch(m[4], -1) {
				s.inputs = append(s.inputs, n[1])
			}
			if len(graphs) > 0 {
				graphs[len(graphs)-1] = append(graphs[len(graphs)-1], s)
			}
		} else if m := nodeLine.FindStringSubmatch(l); m != nil && len(graphs) > 0 {
			g := graphs[len(graphs)-1]
			if len(g) > 0 {
				g[len(g)-1].nodes = append(g[len(g)-1].nodes, m[1]+" "+m[2])
			}
		}
	}
	return graphs
}

// splitsSeen returns the same of a step as it was recorded.
func splitsSeen(r *run, s *profile.Step) (out []said) {
	cut := func(s string, n int) string { return s[:min(n, len(s))] }
	for _, g := range r.graphsOf(s) {
		x := said{backend: g.Backend}
		if g.Shape == nil {
			continue
		}
		for i := range g.Shape.NNodes {
			// the scheduler cuts operators to ten characters, and leaves views out
			n := &g.Shape.Nodes[i]
			if slices.Contains([]string{"NONE", "VIEW", "RESHAPE", "PERMUTE", "TRANSPOSE"}, n.Op) {
				continue
			}
			x.nodes = append(x.nodes, cut(n.Op, 10)+" "+strings.TrimSpace(cut(n.Name, 20)))
		}
		out = append(out, x)
	}
	return out
}

// A step that is split over two backends: the same splits with the same nodes as the scheduler prints, every
// input that it copies, and a time for the device.
func TestOffload(t *testing.T) {
	e := engines.Offload(t)
	t.Setenv("GGML_SCHED_DEBUG", "2")
	t.Setenv("GGML_VK_VISIBLE_DEVICES", "0")
	_, inside := engines.Model(t, e, "llama-tiny")
	path := recordLog(t, e.Command("llama-bench", "-m", inside, "-p", "0", "-n", "200", "-r", "1", "-t", "1",
		"--no-warmup", "-dev", "Vulkan0", "-ngl", "2", "-v")...)
	graphs := splitsSaid(path.log)
	if len(graphs) == 0 {
		t.Fatalf("the scheduler printed no splits:\n%s", tailOf(path.log, 30))
	}
	want := graphs[len(graphs)-1]
	if len(want) < 2 {
		t.Fatalf("one split only: nothing was offloaded")
	}
	r := load(t, path.file)
	if len(r.steps) != 200 {
		t.Fatalf("%d steps", len(r.steps))
	}
	// what the backend's functions are is known only once its scheduler ran
	last, whole := r.steps[len(r.steps)-1], 0
	for _, s := range r.steps {
		if s.Incomplete == "" {
			whole++
		}
	}
	if whole == 0 || last.Incomplete != "" {
		t.Fatalf("%d whole steps; the last: %q", whole, last.Incomplete)
	}
	got := splitsSeen(r, last)
	if len(got) != len(want) {
		t.Fatalf("%d splits, the scheduler printed %d", len(got), len(want))
	}
	for i := range want {
		// the scheduler names a device, Vulkan0
		if !strings.HasPrefix(want[i].backend, got[i].backend) {
			t.Errorf("split %d ran on %q, the scheduler says %q", i, got[i].backend, want[i].backend)
		}
		// a backend may change the order of its nodes after the scheduler printed them (graph_optimize)
		if i > 0 {
			slices.Sort(got[i].nodes)
			slices.Sort(want[i].nodes)
		}
		if g, w := strings.Join(got[i].nodes, "\n"), strings.Join(want[i].nodes, "\n"); g != w {
			t.Errorf("split %d has\n%s\nthe scheduler printed\n%s", i, g, w)
		}
	}

	copies := table(t, path.file, "copies")
	for i := 1; i < len(want); i++ {
		var names []string
		for _, c := range copies {
			if c["step"] == fmt.Sprint(last.ID) && c["split"] == fmt.Sprint(i) && c["kind"] == "copy" {
				_, name, _ := strings.Cut(c["tensor"], "#")
				name, _, _ = strings.Cut(name, "#")
				names = append(names, name)
				if c["bytes"] == "" || c["bytes"] == "0" || c["to"] != got[i].backend {
					t.Errorf("copy of %s: %v", name, c)
				}
			}
		}
		if g, w := strings.Join(names, " "), strings.Join(want[i].inputs, " "); g != w {
			t.Errorf("before split %d were copied\n%s\nthe scheduler names its inputs\n%s", i, g, w)
		}
	}
	spans := table(t, path.file, "device_spans")
	if len(spans) < whole-1 {
		t.Errorf("%d spans of the device in %d whole steps", len(spans), whole)
	}
	if t.Failed() {
		return
	}
	t.Logf("%d splits, %d and %d nodes, inputs %v, %d device spans", len(want), len(want[0].nodes),
		len(want[1].nodes), want[1].inputs, len(spans))
}

// logged is a recording and what the command wrote.
type logged struct{ file, log string }

func recordLog(t testing.TB, command ...string) logged {
	t.Helper()
	needBPF(t)
	file := t.TempDir() + "/run.pinf"
	r := profinfer(t, append([]string{"record", "-o", file, "--"}, command...)...)
	if r.status != 0 {
		t.Fatalf("record: status %d\n%s%s", r.status, tailOf(r.stdout, 20), tailOf(r.stderr, 20))
	}
	return logged{file, r.stdout + r.stderr}
}

func tailOf(s string, lines int) string {
	l := strings.Split(s, "\n")
	return strings.Join(l[max(0, len(l)-lines):], "\n")
}

// table exports a table and returns its rows by column.
func table(t testing.TB, file, name string) (rows []map[string]string) {
	t.Helper()
	r := profinfer(t, "export", "-i", file, "--table", name, "--format", "csv")
	if r.status != 0 {
		t.Fatal(r.stderr)
	}
	all, err := csv.NewReader(strings.NewReader(r.stdout)).ReadAll()
	if err != nil || len(all) == 0 {
		t.Fatalf("table %s: %v", name, err)
	}
	for _, l := range all[1:] {
		row := map[string]string{}
		for i, v := range l {
			row[all[0][i]] = v
		}
		rows = append(rows, row)
	}
	return rows
}
