// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/profinfer/profinfer/internal/engines"
	"github.com/profinfer/profinfer/internal/testkit"
	"github.com/profinfer/profinfer/profile/slow"
	"github.com/profinfer/profinfer/profile/summary"
)

// memoryLimit makes a control group with so many bytes of memory. It returns the file that takes processes,
// and what lifts the limit.
func memoryLimit(t *testing.T, bytes int64) (procs string, lift func()) {
	t.Helper()
	dir, file, none := "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "-1"
	if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
		dir, file, none = "/sys/fs/cgroup", "memory.max", "max"
		os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+memory"), 0)
	}
	dir, err := os.MkdirTemp(dir, "profinfer-test")
	if err != nil {
		t.Skipf("no control group can be made: %v", err)
	}
	t.Cleanup(func() {
		for range 50 { // its last process may not be gone yet
			if os.Remove(dir) == nil {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	if err := os.WriteFile(filepath.Join(dir, file), fmt.Append(nil, bytes), 0); err != nil {
		t.Skipf("no memory can be limited here: %v", err)
	}
	return filepath.Join(dir, "cgroup.procs"), func() {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(none), 0); err != nil {
			t.Error(err)
		}
	}
}

// uncached copies a file, so that no page of the copy is in memory.
func uncached(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(to) })
	defer out.Close()
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Fadvise(int(out.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
}

// A run with less memory than the model has is bound by the disk, whether page faults were recorded or not:
// then its threads were blocked. What else runs on this machine takes its part.
func TestQuietVerdictDisk(t *testing.T) {
	if testkit.Quiet(t) {
		return
	}
	e := engines.Debian(t)
	path, inside := engines.Model(t, e, "llama-small")
	needBPF(t)
	for _, flags := range [][]string{{"--faults"}, nil} {
		file := filepath.Join(filepath.Dir(path), "verdict-disk-test.gguf")
		uncached(t, path, file)
		procs, _ := memoryLimit(t, 66<<20)
		command := e.Command("llama-bench", "-m",
			filepath.Join(filepath.Dir(inside),
				"verdict-disk-test.gguf"), "-t", "1", "-p", "0", "-n", "60", "-r", "1", "--repack", "0",
			"-lm", "mmap")
		trace := record(t, flags, append([]string{"sh", "-c", `echo $$ > "$0" && exec "$@"`, procs},
			command...)...)
		r := profinfer(t, "stat", "--json", "-i", trace)
		var s summary.Stat
		if err := json.Unmarshal([]byte(r.stdout), &s); err != nil || s.RunVerdict == nil ||
			len(s.Verdicts) != 1 {
			t.Fatalf("%v: %s", err, r.stderr)
		}
		v := s.Verdicts[0]
		share, others, evidence := 0.0, 0.0, false
		for _, c := range v.Causes {
			switch c.Bound {
			case summary.BoundDisk:
				share = c.Share
			case summary.BoundInterference:
				others = c.Share
			}
		}
		for _, x := range v.Evidence {
			evidence = evidence || x.Name == "disk" && x.Value != nil && *x.Value > 0
		}
		t.Logf("%v: %s (%s) %s", flags, v.Bound, v.Sure, v.Text)
		share /= 1 - min(others, 0.9)
		if others > 0.3 {
			t.Logf("others had the CPUs for %.2f of the time: of the rest %.2f are the disk's", others, share)
			if share < 0.1 || !evidence {
				t.Errorf("%v: the disk has %.2f, evidence %v", flags, share, evidence)
			}
			continue
		}
		named := v.Bound == summary.BoundDisk || v.Bound == summary.BoundMixed &&
			slices.Contains(v.Among, summary.BoundDisk)
		if !named || share < 0.2 || !evidence || !strings.Contains(v.Text, "disk") ||
			!strings.Contains(s.RunVerdict.Text, "disk") {
			t.Errorf("%v: %s among %v, the disk has %.2f, evidence %v: %s / %s", flags, v.Bound, v.Among,
				share, evidence, v.Text, s.RunVerdict.Text)
		}
		if i := slices.IndexFunc(s.Findings, func(f summary.Finding) bool {
			return f.Kind == "disk"
		}); i < 0 {
			t.Errorf("%v: no finding tells of it: %+v", flags, s.Findings)
		}
		if flags == nil && (v.Sure == summary.SureHigh || !strings.Contains(v.Why, "record --faults")) {
			t.Errorf("sure: %s, %s", v.Sure, v.Why)
		}
	}
}

// With less memory than the model has, weights are read again and again, until the limit is lifted: the steps
// before are slow, by the disk.
func TestQuietSlowDisk(t *testing.T) {
	if testkit.Quiet(t) {
		return
	}
	e := engines.Debian(t)
	path, inside := engines.Model(t, e, "llama-small")
	needBPF(t)
	uncached(t, path, filepath.Join(filepath.Dir(path), "slow-disk-test.gguf"))
	inside = filepath.Join(filepath.Dir(inside), "slow-disk-test.gguf")
	procs, lift := memoryLimit(t, 72<<20)
	time.AfterFunc(8*time.Second, lift)
	flags := []string{}
	faults := strings.Contains(profinfer(t, "record", "--help").stdout, "--faults")
	if faults {
		flags = append(flags, "--faults")
	}
	// Repacked weights would be copies, which are not read again.
	command := e.Command("llama-bench", "-m", inside, "-t", "1", "-p", "0", "-n", "500", "-r", "1",
		"--repack", "0", "-lm", "mmap")
	s := slowOf(t, record(t, flags,
		append([]string{"sh", "-c", `echo $$ > "$0" && exec "$@"`, procs}, command...)...))
	disk, _ := partOf(s.Causes, slow.SlowDisk)
	rest, _ := partOf(s.Causes, slow.SlowUnexplained)
	steps := 0
	for i := range s.Listed {
		if ns, _ := partOf(s.Listed[i].Parts, slow.SlowDisk); ns > s.Listed[i].Excess/10 {
			steps++
		}
	}
	share := float64(rest) / float64(max(1, s.Excess))
	t.Logf("%d of %d steps slow, %d ms beyond: disk %d ms, a tenth and more of %d steps; unexplained %.1f %%; page faults recorded: %v", s.Slow, s.Steps, s.Excess/1e6, disk/1e6, steps, share*100, faults)
	if disk < 5e7 || steps < 5 {
		t.Errorf("the disk is said to have taken %d ms, a tenth and more of %d steps", disk/1e6, steps)
	}
	if faults && share > 0.15 {
		t.Errorf("%.1f %% of %d ms is unexplained", share*100, s.Excess/1e6)
	}
}
