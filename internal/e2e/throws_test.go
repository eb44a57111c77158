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
	if b, err := exec.Command(cxx, "-O1", "-o", path, "testdata/throws.cpp", "-ldl").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
}

// A C++ exception leaves a graph, the scheduler and llama_decode, and is caught behind them: the engine lives and computes on, whole steps are
// recorded, those that were broken off are counted.
func TestThrows(t *testing.T) {
	e := engines.Debian(t)
	needBPF(t)
	bin := filepath.Join(e.Root, "tmp", "profinfer-throws")
	throwing(t, bin)
	t.Cleanup(func() { os.Remove(bin) })
	_, inside := engines.Model(t, e, "llama-tiny")
	path := filepath.Join(t.TempDir(), "run.pinf")
	res := profinfer(t, "record", "-o", path, "--", "chroot", e.Root, "/tmp/profinfer-throws", inside, "libggml-base.so.0", "libggml.so.0", "libllama.so.0")
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
	if whole != 54 || len(r.steps) != 54 || cut < 6 {
		t.Errorf("%d steps, %d of them whole, %d cut; want 54 whole ones and 6 cut", len(r.steps), whole, cut)
	}
}
