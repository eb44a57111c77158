// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/internal/engines"
)

// throwing builds testdata/throws.cpp.
func throwing(t testing.TB, path string) {
	t.Helper()
	cxx, err := exec.LookPath("g++")
	if err != nil {
		t.Skip("no g++ here to build an engine that throws")
	}
	if b, err := exec.Command(cxx, "-O1", "-o", path, "testdata/throws.cpp",
		"-ldl").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
}

// A C++ exception leaves a graph, the scheduler and llama_decode, and is caught behind them: the engine lives
// and computes on, whole steps are recorded, those that were broken off are counted.
func TestThrows(t *testing.T) {
	e := engines.Debian(t)
	needBPF(t)
	// Libraries of its own: a return probe that another recorder on this machine sets in the same file, for
	// whatever process, acts on all.
	dir, err := os.MkdirTemp(filepath.Join(e.Root, "tmp"), "throws")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	throwing(t, filepath.Join(dir, "engine"))
	for _, pattern := range []string{"libggml*.so*", "libllama.so*", "ggml/*/*cpu*.so"} {
		files, err := filepath.Glob(filepath.Join(e.Root, "usr/lib/*", pattern))
		if err != nil || len(files) == 0 {
			t.Skipf("no %s in %s", pattern, e.Root)
		}
		if b, err := exec.Command("cp",
			append(append([]string{"-dt"}, dir), files...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, b)
		}
	}
	in := strings.TrimPrefix(dir, e.Root)
	t.Setenv("LD_LIBRARY_PATH", in)
	t.Setenv("THROWS_BACKENDS", in)
	_, inside := engines.Model(t, e, "llama-tiny")
	path := filepath.Join(t.TempDir(), "run.pinf")
	res := profinfer(t, "record", "-o", path, "--", "chroot", e.Root, in+"/engine", inside,
		"libggml-base.so.0", "libggml.so.0", "libllama.so.0")
	if res.status == 77 {
		t.Skip("this engine cannot be driven so: " + res.stderr)
	}
	if res.status != 0 || !strings.Contains(res.stdout, "computed 54, caught 6") {
		t.Fatalf("status %d: the engine did not live\n%s%s", res.status, res.stdout, res.stderr)
	}
	r := load(t, path)
	whole, cut := 0, uint64(0)
	for _, s := range r.steps {
		if s.Incomplete == "" && s.Graphs == 1 {
			whole++
		}
	}
	for _, l := range r.header.Losses {
		if l.Why == "cut" && l.What == "marks" {
			cut += l.Events
		}
	}
	// on a busy machine the first ones are over before all probes stand
	if whole < 48 || len(r.steps) > 54 || cut < 6 {
		t.Errorf("%d steps, %d of them whole, %d cut; want 54, nearly all whole, and 6 cut", len(r.steps),
			whole, cut)
	}
}
