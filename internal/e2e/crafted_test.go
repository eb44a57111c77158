// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/profinfer/profinfer/internal/crafted"
	"github.com/profinfer/profinfer/internal/engines"
)

// mapsFiles names files which this program, started again, maps executable for a while: mapsFor, or two
// seconds. namesItself is what it calls itself.
const (
	mapsFiles   = "PROFINFER_TEST_MAPS"
	mapsFor     = "PROFINFER_TEST_MAPS_FOR"
	namesItself = "PROFINFER_TEST_NAME"
)

func mapFiles(paths []string) int {
	for _, p := range paths {
		f, err := os.Open(p)
		if err == nil {
			_, err = syscall.Mmap(int(f.Fd()), 0, 4096, syscall.PROT_READ|syscall.PROT_EXEC,
				syscall.MAP_PRIVATE)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, p, err)
			return 1
		}
	}
	if name := os.Getenv(namesItself); name != "" {
		// of the process's first thread, whichever this one is
		if err := os.WriteFile("/proc/self/comm", []byte(name), 0); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	long, err := time.ParseDuration(os.Getenv(mapsFor))
	if err != nil {
		long = 2 * time.Second
	}
	time.Sleep(long)
	return 0
}

// Beside an engine, a process maps files that ask for hours and gigabytes: the engine is recorded, and each
// of the files is named with what there is too much of. What is launched is as likely to be ended for want of
// memory as before.
func TestCraftedFiles(t *testing.T) {
	needBPF(t)
	e := engines.Debian(t)
	_, model := engines.Model(t, e, "llama-tiny")
	base, err := filepath.Glob(filepath.Join(e.Root, "usr/lib/*/libggml-base.so*"))
	if err != nil || len(base) == 0 {
		t.Fatal("no base library below ", e.Root, err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	maps, want := base[:1], []string{}
	for _, f := range crafted.Rows() {
		if f.Dense() > 64<<20 {
			continue
		}
		path := filepath.Join(dir, f.Name+".so")
		if err := f.Write(path); err != nil {
			t.Fatal(err)
		}
		maps = append(maps, path)
		switch f.Name {
		case "exits", "join", "sections", "full": // are read to the end
		default:
			want = append(want, path)
		}
	}
	score, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		t.Fatal(err)
	}
	run := strings.Join(e.Command("llama-bench", "-m", model, "-p", "16", "-n", "8", "-r", "1", "-t", "1"),
		" ")
	script := fmt.Sprintf("%s=8s %s=%s %s & cat /proc/self/oom_score_adj; %s >/dev/null; wait", mapsFor,
		mapsFiles, strings.Join(maps, string(filepath.ListSeparator)), self, run)
	path := filepath.Join(t.TempDir(), "run.pinf")
	r := profinfer(t, "record", "-o", path, "--", "sh", "-c", script)
	if r.status != 0 {
		t.Fatalf("status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	for _, p := range want {
		if n := strings.Count(r.stderr, p+": it is not looked at any further: more than "); n != 1 {
			t.Errorf("%s is named %d times", p, n)
		}
	}
	if n := strings.Count(r.stderr, "not looked at any further"); n != len(want) {
		t.Errorf("%d files are named, want %d:\n%s", n, len(want), r.stderr)
	}
	if r.stdout != string(score) {
		t.Errorf("the command's oom_score_adj: %q, want %q", r.stdout, score)
	}
	if rec := load(t, path); len(rec.steps) == 0 || len(rec.ops) == 0 {
		t.Errorf("%d steps, %d operators of the engine beside:\n%s", len(rec.steps), len(rec.ops), r.stderr)
	}
}
