// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/profile/profiletest"
)

// The tab of backends has the figures of stat --json, and stands hostile names, two runs and runs without
// other backends.
func TestOffload(t *testing.T) {
	tools(t)
	file := recorded(t, "offload")
	run := load(t, "offload.pinf", file)
	plain := load(t, "plain.pinf", recorded(t, "plain"))
	names := load(t, "names.pinf", recorded(t, "offload-names"))
	level := load(t, "level-step.pinf", recorded(t, "level-step"))
	got := suite(t, "offload", plan{Pages: []page{
		{Name: "one", URL: write(t, "one", run), Looks: [][3]int{light, smdrk, {560, 800, 0}},
			Tables: []tableOf{{Phase: "decode"}, {Phase: "prefill"}}},
		{Name: "two", URL: write(t, "two", plain, run), Looks: [][3]int{small}, Long: true},
		{Name: "names", URL: write(t, "names", names, run), Looks: [][3]int{light, smdrk}},
		{Name: "none", URL: write(t, "none", plain, level), Looks: [][3]int{dark}},
	}})
	var f map[string]map[string][]row
	if err := json.Unmarshal(got["one/figures"].Data, &f); err != nil {
		t.Fatal(err)
	}
	stat := statJSON(t, file, "weight")
	cells := 0
	for _, x := range list(stat["offload"]) {
		o := object(x)
		phase := o["phase"].(string)
		page := f[phase]
		compareRows := func(label string, want []any, id func(map[string]any) string, least int) {
			t.Helper()
			rows := page[label]
			if len(rows) != len(want) {
				t.Errorf("%s: %d rows in %q, stat --json has %d", phase, len(rows), label, len(want))
			}
			known := map[string]map[string]any{}
			for _, w := range want {
				known[id(object(w))] = object(w)
			}
			for _, r := range rows {
				w := known[r.ID]
				if w == nil {
					t.Errorf("%s: stat --json has no row %q", label, r.ID)
					continue
				}
				if len(r.Cells) < least {
					t.Errorf("%s %q: figures %v", label, r.ID, r.Cells)
				}
				for col, v := range r.Cells {
					if want, ok := w[col]; !ok || !same(v, want) {
						t.Errorf("%s: %s of %q is %q, stat --json says %v", label, col, r.ID, v, want)
					}
					cells++
				}
			}
		}
		text := func(m map[string]any, keys ...string) string {
			var s []string
			for _, k := range keys {
				s = append(s, fmt.Sprint(m[k]))
			}
			return strings.Join(s, " ")
		}
		compareRows("backends in "+phase, list(o["backends"]), func(m map[string]any) string {
			return text(m, "backend")
		}, 8)
		compareRows("copies", list(o["copies"]), func(m map[string]any) string {
			return text(m, "kind", "from", "to")
		}, 3)
		compareRows("matmuls in "+phase, list(o["products_by_backend"]),
			func(m map[string]any) string {
				return text(m, "backend")
			}, 6)

		// The first two sides are the CPU and the next by name: BLAS, or the GPU.
		other := "GPU"
		if phase == "prefill" {
			other = "BLAS"
		}
		want := map[string]map[string]any{}
		for _, x := range list(o["operators_by_backend"]) {
			m := object(x)
			on := map[string]map[string]any{}
			for _, b := range list(m["backends"]) {
				on[object(b)["backend"].(string)] = object(b)
			}
			if on["CPU"] != nil && on[other] != nil {
				k := []string{fmt.Sprint(m["key"]), fmt.Sprint(m["op"]), fmt.Sprint(m["type"])}
				for _, n := range list(m["ne"]) {
					k = append(k, fmt.Sprint(n))
				}
				if m["k"] != nil {
					k = append(k, fmt.Sprint(m["k"]))
				} else {
					k = append(k, "")
				}
				want[strings.Join(k, "\n")] = map[string]any{"mean_a": on["CPU"]["mean_ns"],
					"mean_b": on[other]["mean_ns"], "flops": m["flops"], "bytes": m["bytes"]}
			}
		}
		seen := 0
		for _, r := range page["operators by backend"] {
			w := want[r.ID]
			if w == nil {
				continue
			}
			seen++
			for col, v := range w {
				if !same(r.Cells[col], v) {
					t.Errorf("%s: %s of %q is %q, stat --json says %v", phase, col, r.ID, r.Cells[col], v)
				}
				cells++
			}
		}
		if seen != len(want) {
			t.Errorf("%s: %d operators by backend, stat --json has %d", phase, seen, len(want))
		}
	}
	if cells < 80 {
		t.Errorf("only %d figures were compared", cells)
	}
	// A graph of the GPU beside what its operators take on the CPU: on paper 128 µs, and at most 0.36 of its
	// work
	for _, r := range f["decode"]["operators by backend"] {
		if strings.HasPrefix(r.ID, "graph ") &&
			(r.Cells["mean_a"] != "128000" || r.Cells["mean_b"] != fmt.Sprint(profiletest.OffSpan) ||
				r.Cells["known"] != "5") {
			t.Errorf("the graph: %v", r.Cells)
		}
	}
	words := func(rows []row) string {
		var s []string
		for _, r := range rows {
			s = append(s, r.Cells["words"])
		}
		return strings.Join(s, "\n")
	}
	if got, want := words(f["prefill"]["splits"]), `split 0 on CPU, 1 node, layers –, call 4.00 µs
split 1 on BLAS, 2 nodes, layers 0, call 60.0 µs
split 2 on CPU, 1 node, layers 0, call 7.00 µs, idle before 80.0 µs
split 3 on BLAS, 1 node, layers 0, call 25.0 µs, idle before 27.0 µs
split 4 on CPU, 1 node, layers 0, call 5.00 µs, idle before 45.0 µs
split 5 on GPU, 6 nodes, layers 1, call 10.0 µs, until sync 100 µs`; got != want {
		t.Errorf("splits drawn\n%s\nwant\n%s", got, want)
	}
	if got, want := words(f["prefill"]["arrows"]),
		"host to CPU:\ninp_tokens 32 B\nCPU to GPU:\nGPU0#l_out-0#0 2.00 KiB, 4.00 µs\nGPU to host:\nresult_output 4.00 KiB"; got != want {
		t.Errorf("arrows drawn\n%s\nwant\n%s", got, want)
	}
}
