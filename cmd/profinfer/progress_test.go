// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/profinfer/profinfer/docs/sample"
	"github.com/profinfer/profinfer/profile/profiletest"
)

// made writes a made-up recording.
func made(t *testing.T, name string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name+".pinf")
	for _, trial := range profiletest.Trials() {
		if trial.Name != name {
			continue
		}
		f, err := os.Create(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := trial.Write(f); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	return file
}

var shownProgress = regexp.MustCompile("\r\x1b\\[Kreading ([0-9]+) %")

// What takes long shows on a terminal how far it is, on one line, which is gone before anything else is
// written; nothing is shown where that is no terminal, or where the result goes there too.
func TestProgress(t *testing.T) {
	after, every := progressAfter, progressEvery
	defer func() { progressAfter, progressEvery = after, every }()
	progressAfter, progressEvery = time.Nanosecond, time.Millisecond
	t.Setenv("TERM", "xterm")
	file := made(t, "speculative")
	out := filepath.Join(t.TempDir(), "out")
	for _, c := range []struct {
		args string
		says string // first, once it is gone
	}{
		{"stat", file}, {"stat --json", "{"}, {"stat --slow", file}, {"report -o OUT", "profinfer: wrote"},
		{"export --format perfetto -o OUT", "profinfer: wrote"},
		{"export --format pprof -o OUT", "profinfer: wrote"},
		{"export --table op_threads --format ndjson -o OUT", "profinfer: wrote"},
	} {
		args := append(strings.Fields(strings.ReplaceAll(c.args, "OUT", out)), file)
		status, got := onTerminal(t, args...)
		shown := shownProgress.FindAllStringIndex(got, -1)
		if status != 0 || len(shown) == 0 {
			t.Errorf("%s: status %d, and no progress in %q", c.args, status, got[:min(len(got), 300)])
			continue
		}
		rest, removed := strings.CutPrefix(got[shown[len(shown)-1][1]:], "\r\x1b[K")
		if !removed || !strings.Contains(rest[:min(len(rest), 200)], c.says) {
			t.Errorf("%s: after the progress comes %q", c.args, rest[:min(len(rest), 100)])
		}
		if shown[0][0] != 0 {
			t.Errorf("%s: before the progress comes %q", c.args, got[:shown[0][0]])
		}
		if status, printed, errs := runs(t, args...); status != 0 || shownProgress.MatchString(printed+errs) {
			t.Errorf("%s: status %d; where there is no terminal, progress is shown", c.args, status)
		}
	}
	if _, got := onTerminal(t, "export", "--table", "steps", "--format", "csv", file); shownProgress.MatchString(got) {
		t.Error("progress is shown among the rows of a table")
	}
	progressAfter = after
	if _, got := onTerminal(t, "stat", filepath.Join(sampleDir, sample.Name+".pinf")); shownProgress.MatchString(got) {
		t.Error("progress of what takes no time is shown")
	}
}
