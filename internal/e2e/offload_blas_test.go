// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/internal/engines"
	"github.com/profinfer/profinfer/internal/testkit"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/offload"
	"github.com/profinfer/profinfer/profile/summary"
)

// BLAS takes matrix products of many tokens: in prefill the splits are those that the scheduler prints, all
// nodes of BLAS are products, and the time of a product that has a graph of its own is the mean of these
// graphs. In decode it takes none.
func TestOffloadBLAS(t *testing.T) {
	e := engines.BLAS(t)
	t.Setenv("GGML_SCHED_DEBUG", "2")
	// unpacked packages have no alternatives: the library that implements BLAS lies beside the others
	dirs, err := filepath.Glob(e.Root + "/usr/lib/*/blas")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no BLAS library in %s", e.Root)
	}
	t.Setenv("LD_LIBRARY_PATH", strings.TrimPrefix(dirs[0], e.Root))
	_, inside := engines.Model(t, e, "llama-tiny")
	repeat := "20"
	if testkit.All() {
		repeat = "60"
	}
	// products with weights that are stored anew for the CPU stay there
	path := recordLog(t, e.Command("llama-bench", "-m", inside, "-dev", "none", "--repack", "0", "-p", "64",
		"-n", "8", "-r", repeat, "-t", "2", "--no-warmup", "-v")...)
	graphs := splitsSaid(path.log)
	r := load(t, path.file)
	prefill, compared := 0, 0
	durs := map[string][]float64{} // of BLAS's graphs of one node, by node
	for _, s := range r.steps {
		if s.Incomplete != "" {
			continue
		}
		got := splitsSeen(r, s)
		products := 0
		for i, g := range r.graphsOf(s) {
			if g.Backend != "BLAS" {
				continue
			}
			for _, n := range got[i].nodes {
				products++
				if !strings.HasPrefix(n, "MUL_MAT ") {
					t.Errorf("step %d: node %q on BLAS", s.ID, n)
				}
			}
			if len(got[i].nodes) == 1 && s.Phase == profile.Prefill {
				durs[got[i].nodes[0]] = append(durs[got[i].nodes[0]], float64(g.Dur))
			}
		}
		if s.Phase == profile.Decode {
			if products > 0 || len(got) != 1 {
				t.Errorf("decode step %d has %d splits, %d products on BLAS", s.ID, len(got), products)
			}
			continue
		}
		prefill++
		if products < 4*4 {
			t.Errorf("prefill step %d has %d products on BLAS", s.ID, products)
		}
		for _, want := range graphs {
			if len(want) != len(got) {
				continue
			}
			for i := range want {
				want[i].inputs = nil
			}
			if reflect.DeepEqual(got, want) {
				compared++
				break
			}
		}
	}
	if prefill < 2 || compared != prefill {
		t.Fatalf("%d whole prefill steps, of which %d are split as the scheduler printed one of its %d graphs", prefill, compared, len(graphs))
	}

	out := profinfer(t, "stat", "-i", path.file, "--json")
	var s summary.Stat
	if err := json.Unmarshal([]byte(out.stdout), &s); err != nil {
		t.Fatal(err)
	}
	if len(s.Offload) != 1 || s.Offload[0].Phase != profile.Prefill || s.Offload[0].Steps != int64(prefill) {
		t.Fatalf("offload: %+v", s.Offload)
	}
	timed := 0
	for _, o := range s.Offload[0].Operators {
		for _, b := range o.PerBackend {
			if b.Backend != "BLAS" {
				continue
			}
			if b.Mean == nil {
				continue
			}
			// what a product with these weights computes is called so
			tensor, ok := map[string]string{"ffn_down": "ffn_out-", "attn_output": "attn_out-",
				"attn_q": "Qcur-"}[o.Key]
			if !ok {
				t.Errorf("%s has a time on BLAS, though it shares its graphs", o.Key)
				continue
			}
			var sum, n float64
			for name, d := range durs {
				if strings.HasPrefix(name, "MUL_MAT "+tensor) {
					for _, v := range d {
						sum += v
						n++
					}
				}
			}
			timed++
			if b.TimedBy != offload.TimedCall || float64(b.Timed) != n || math.Abs(*b.Mean-sum/n) > 1 ||
				b.GFlops == nil {
				t.Errorf("%s: %+v, its graphs take %g on average, of %g", o.Key, b, sum/n, n)
			}
		}
	}
	if timed < 2 {
		t.Errorf("%d products with a time on BLAS", timed)
	}
	// The table of graphs says the same.
	sum := 0.0
	for _, g := range table(t, path.file, "graphs") {
		if g["backend"] == "BLAS" {
			v, err := strconv.ParseFloat(g["dur_ns"], 64)
			if err != nil {
				t.Fatal(err)
			}
			for _, st := range r.steps {
				if st.Incomplete == "" && fmt.Sprint(st.ID) == g["step"] {
					sum += v
				}
			}
		}
	}
	for _, p := range s.Offload[0].Products {
		if p.Backend == "BLAS" && (p.Dur == nil || math.Abs(*p.Dur*float64(prefill)-sum) > 10 ||
			p.Others != 0) {
			t.Errorf("BLAS: %+v, its graphs take %g in %d steps", p, sum, prefill)
		}
	}
	t.Logf("%d whole prefill steps, %d products timed on BLAS", prefill, timed)
	if w := s.Run.Processes[0].Warnings; len(w) > 0 {
		t.Errorf("it warns of %q", w)
	}
}

// A BLAS backend that is loaded and computes nothing is no reason to warn: not of its probes, and not where a
// scheduler, whose backends were to be looked up, is gone by then.
func TestUnusedBLAS(t *testing.T) {
	needBPF(t)
	e := engines.BLAS(t)
	dirs, err := filepath.Glob(e.Root + "/usr/lib/*/blas")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no BLAS library in %s", e.Root)
	}
	t.Setenv("LD_LIBRARY_PATH", strings.TrimPrefix(dirs[0], e.Root))
	_, inside := engines.Model(t, e, "llama-tiny")
	for _, args := range [][]string{
		{"-p", "16", "-n", "4", "-r", "1", "--no-warmup"}, // over before anything was looked up
		{"-p", "64,16,64", "-n", "300,100", "-r", "3"},    // a scheduler each
	} {
		path := filepath.Join(t.TempDir(), "run.pinf")
		r := profinfer(t, append([]string{"record", "-o", path, "--"},
			e.Command("llama-bench", append([]string{"-m", inside, "-t", "1", "-dev", "none"},
				args...)...)...)...)
		if r.status != 0 || !strings.Contains(r.stderr, "libggml-blas.so") {
			t.Fatalf("status %d, or BLAS is not loaded:\n%s", r.status, r.stderr)
		}
		if strings.Contains(r.stderr, "warning") {
			t.Errorf("%q: it warns:\n%s", args, r.stderr)
		}
		out := profinfer(t, "stat", "-v", path)
		if strings.Contains(out.stdout, "Note: ") {
			t.Errorf("%q: stat has notes:\n%s", args, out.stdout)
		}
		for _, g := range load(t, path).graphs {
			if g.Backend != "CPU" {
				t.Fatalf("a graph ran on %s", g.Backend)
			}
		}
	}
}
