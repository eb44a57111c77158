// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/internal/engines"
)

// foreign makes a folder with the engine's backends in which the one for Vulkan is called libggml-npu.so, a
// name that profinfer knows nothing of, and returns a command before which it is mounted where the engine
// looks for backends.
func foreign(t *testing.T, root string) (library string, before []string) {
	t.Helper()
	dirs, _ := filepath.Glob(filepath.Join(root, "usr/lib/*/ggml/backends0"))
	if len(dirs) != 1 {
		t.Fatalf("backends lie in %v", dirs)
	}
	entries, err := os.ReadDir(dirs[0])
	if err != nil {
		t.Fatal(err)
	}
	scratch := t.TempDir()
	renamed := false
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dirs[0], e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		name := e.Name()
		if name == "libggml-vulkan.so" {
			name, renamed = "libggml-npu.so", true
		}
		if err := os.WriteFile(filepath.Join(scratch, name), b, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if !renamed {
		t.Fatalf("no backend for Vulkan in %s", dirs[0])
	}
	inside := strings.TrimPrefix(dirs[0], filepath.Clean(root))
	return inside + "/libggml-npu.so", []string{"unshare", "-m", "--propagation", "private",
		"sh", "-c", `mount --bind "$1" "$2" && shift 2 && exec "$@"`, "sh", scratch, dirs[0]}
}

// A backend that nobody has seen before: its graphs have its library's name, the nodes that the scheduler
// gave it, and times.
func TestForeignBackend(t *testing.T) {
	e := engines.Offload(t)
	root, err := filepath.EvalSymlinks(e.Root)
	if err != nil {
		t.Fatal(err)
	}
	e.Root = root
	library, before := foreign(t, root)
	t.Setenv("GGML_BACKEND_PATH", library) // the engine loads those by name that it knows, and this one
	t.Setenv("GGML_SCHED_DEBUG", "2")
	t.Setenv("GGML_VK_VISIBLE_DEVICES", "0")
	_, inside := engines.Model(t, e, "llama-tiny")
	path := recordLog(t, append(before,
		e.Command("llama-bench", "-m", inside, "-p", "0", "-n", "600", "-r", "1", "-t", "1", "--no-warmup",
			"-dev", "Vulkan0", "-ngl", "2", "-v")...)...)
	graphs := splitsSaid(path.log)
	if len(graphs) == 0 {
		t.Fatalf("the scheduler printed no splits:\n%s", tailOf(path.log, 30))
	}
	want := graphs[len(graphs)-1]
	r := load(t, path.file)
	last := r.steps[len(r.steps)-1]
	got := splitsSeen(r, last)
	if len(want) != 2 || len(got) != 2 || last.Incomplete != "" {
		t.Fatalf("%d splits, the scheduler printed %d; %q", len(got), len(want), last.Incomplete)
	}
	for i, name := range []string{"CPU", "npu"} {
		slices.Sort(got[i].nodes)
		slices.Sort(want[i].nodes)
		if got[i].backend != name || !slices.Equal(got[i].nodes, want[i].nodes) {
			t.Errorf("split %d on %q has\n%s\nthe scheduler printed\n%s", i, got[i].backend,
				strings.Join(got[i].nodes, "\n"), strings.Join(want[i].nodes, "\n"))
		}
	}
	g := r.graphsOf(last)[1]
	if g.Dur <= 0 || !strings.HasSuffix(g.Library, library) {
		t.Errorf("%+v", g)
	}
	spans := 0
	for _, s := range table(t, path.file, "device_spans") {
		if s["backend"] != "npu" || s["dur_ns"] == "" || s["busy_ns"] == "" {
			t.Errorf("%v", s)
		}
		spans++
	}
	if spans < 20 {
		t.Errorf("%d spans of the device in %d steps", spans, len(r.steps))
	}
	copies := 0
	for _, c := range table(t, path.file, "copies") {
		if c["to"] == "npu" {
			copies++
		}
	}
	if copies == 0 {
		t.Error("no copies to it")
	}
	t.Logf("%d nodes on %s, %d spans, %d copies to it", len(got[1].nodes), g.Backend, spans, copies)
}
