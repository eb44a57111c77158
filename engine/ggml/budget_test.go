// SPDX-License-Identifier: Apache-2.0

package ggml

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/target"
)

// TestBudgetOfEngines reads every library of every real build at hand, as a process that has them all mapped
// would have them read: none needs more than a quarter of what a file may cost, all together not more than
// one of what a process may.
func TestBudgetOfEngines(t *testing.T) {
	installs(t) // skips, or fails, where there are none
	var largest, all target.Limits
	var dearest, longest string
	n := 0
	add := func(path string, s target.Limits) {
		n++
		all.Bytes, all.Steps = all.Bytes+s.Bytes, all.Steps+s.Steps
		if s.Steps > largest.Steps {
			largest.Steps, dearest = s.Steps, path
		}
		if s.Bytes > largest.Bytes {
			largest.Bytes, longest = s.Bytes, path
		}
		if s.Bytes > target.FileLimits.Bytes/4 || s.Steps > target.FileLimits.Steps/4 {
			t.Errorf("%s: %d bytes and %d steps, of %+v", path, s.Bytes, s.Steps, target.FileLimits)
		}
	}
	for _, in := range installs(t) {
		for _, cpu := range in.cpus {
			files := []engine.OpenedFile{openFile(t, in.base), openFile(t, in.llama[0])}
			if cpu != in.base {
				files = append(files, openFile(t, cpu))
			}
			if _, err := New().PlanFiles(files); err != nil {
				t.Fatal(err)
			}
			for _, f := range files {
				if err := f.ELF.Trouble(); err != nil {
					t.Error(err)
				}
				add(f.Path, f.ELF.Spent())
			}
		}
	}
	t.Logf("%d readings of engines' files: at most %.1f %% of a file's bytes (%s), %.1f %% of its steps (%s)",
		n,
		100*float64(largest.Bytes)/float64(target.FileLimits.Bytes), longest,
		100*float64(largest.Steps)/float64(target.FileLimits.Steps), dearest)

	// Other libraries that lie beside: those of backends are read to the end, those of drivers only by name.
	all, largest, n = target.Limits{}, target.Limits{}, 0
	err := filepath.WalkDir(os.Getenv("PROFINFER_ENGINES"), func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || !strings.Contains(d.Name(), ".so") &&
			!strings.HasSuffix(d.Name(), ".node") {
			return nil
		}
		f, err := os.Open(p)
		if err != nil {
			return nil
		}
		defer f.Close()
		e, err := target.OpenELF(f, p)
		if err != nil {
			return nil
		}
		if Parts(e) != 0 {
			_, _ = e.Functions()
			_, _ = e.Calls("ggml_graph_compute")
			for _, c := range vulkanCalls(false) {
				newLib(e).fn(c.name)
			}
		}
		if err := e.Trouble(); err != nil {
			t.Error(err)
		}
		add(p, e.Spent())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d libraries: at most %.1f %% of a file's bytes (%s), %.1f %% of its steps (%s)", n,
		100*float64(largest.Bytes)/float64(target.FileLimits.Bytes), longest,
		100*float64(largest.Steps)/float64(target.FileLimits.Steps), dearest)
	of := target.FileLimits.Times(processFiles)
	t.Logf("all of them in one process: %.0f %% of its bytes, %.0f %% of its steps",
		100*float64(all.Bytes)/float64(of.Bytes), 100*float64(all.Steps)/float64(of.Steps))
}
