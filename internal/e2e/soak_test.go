// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/profinfer/profinfer/internal/engines"
	"github.com/profinfer/profinfer/internal/testkit"
)

// maxAnon is what the recorder may have of its own memory, KiB.
const maxAnon = 150 << 10

// soak records a script that starts engines, prints the process number of each, and returns what became of
// them.
func soak(t *testing.T, script string) (recorded, told, steps int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.pinf")
	cmd := exec.Command(program, "record", "-o", path, "--", "sh", "-c", script)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	anon, status := 0, error(nil)
	for busy := true; busy; {
		select {
		case status = <-done:
			busy = false
		case <-time.After(200 * time.Millisecond):
			anon = max(anon, rssAnon(cmd.Process.Pid))
		}
	}
	if status != nil {
		t.Fatalf("%v\n%s", status, last(errs.String(), 2000))
	}
	t.Log(last(strings.TrimSpace(errs.String()), 200))
	if t.Logf("the recorder's own memory: %d KiB at most", anon); anon > maxAnon {
		t.Errorf("the recorder has %d KiB of memory of its own", anon)
	}
	r := load(t, path)
	if r.header.End == nil {
		t.Error("the recording has no end")
	}
	seen := map[string]string{}
	for _, l := range r.header.Losses {
		if l.What == "processes" {
			_, pid, _ := strings.Cut(l.Of, "(")
			pid, _, _ = strings.Cut(pid, ")")
			seen[pid] = "told"
		}
	}
	for _, p := range r.header.Processes {
		seen[strconv.Itoa(int(p.PID))] = "recorded"
	}
	lines := bufio.NewScanner(&out)
	for lines.Scan() {
		switch seen[lines.Text()] {
		case "recorded":
			recorded++
		case "told":
			told++
		default:
			t.Errorf("process %s is neither recorded nor told", lines.Text())
		}
	}
	t.Logf("%d processes recorded, %d told, %d steps", recorded, told, len(r.steps))
	return recorded, told, len(r.steps)
}

func last(s string, n int) string { return s[max(0, len(s)-n):] }

func rssAnon(pid int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, s, _ := strings.Cut(string(b), "RssAnon:")
	f := strings.Fields(s)
	if len(f) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(f[0])
	return n
}

// engine is a shell command that prints its process's number and becomes llama-bench.
func engineCommand(t *testing.T, args ...string) string {
	t.Helper()
	e := engines.Debian(t)
	_, inside := engines.Model(t, e, "llama-tiny")
	c := e.Command("llama-bench", append([]string{"-m", inside, "-r", "1", "-t", "1", "--no-warmup"},
		args...)...)
	return fmt.Sprintf("sh -c 'echo $$; exec %s >/dev/null 2>&1'", strings.Join(c, " "))
}

// More engines at once than a hit's record once had numbers for: they all wait until the last of them is
// there.
func TestManyEngines(t *testing.T) {
	testkit.Long(t)
	needBPF(t)
	const n = 80
	// llama-bench waits where its engine is loaded
	one := engineCommand(t, "-p", "1", "-n", "0", "--delay", "25")
	recorded, told, steps := soak(t,
		fmt.Sprintf("i=0; while [ $i -lt %d ]; do %s & i=$((i+1)); sleep 0.05; done; wait", n, one))
	if recorded+told != n || recorded <= 64 {
		t.Errorf("%d engines at once: %d recorded, %d told", n, recorded, told)
	}
	if steps < recorded {
		t.Errorf("%d steps of %d engines", steps, recorded)
	}
}

// Engines one after the other, and many that start at once: each is recorded, or named as one that was not.
// PROFINFER_SOAK says how many (make soak: 5,000).
func TestSoak(t *testing.T) {
	needBPF(t)
	n := 6
	if testkit.All() {
		n = 20
	}
	if s := os.Getenv("PROFINFER_SOAK"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil || n < 1 {
			t.Fatalf("PROFINFER_SOAK=%q is no number", s)
		}
	}
	one := engineCommand(t, "-p", "1", "-n", "1")
	t.Run("one after the other", func(t *testing.T) {
		recorded, told, _ := soak(t, fmt.Sprintf("i=0; while [ $i -lt %d ]; do %s; i=$((i+1)); done", n, one))
		if recorded+told != n || recorded < n/2 {
			t.Errorf("%d engines: %d recorded, %d told", n, recorded, told)
		}
	})
	t.Run("at once", func(t *testing.T) {
		n := min(max(n/25, min(n, 20)), 200)
		if recorded, told, _ := soak(t,
			fmt.Sprintf("i=0; while [ $i -lt %d ]; do %s & i=$((i+1)); done; wait", n, one)); recorded+
			told != n {
			t.Errorf("%d engines at once: %d recorded, %d told", n, recorded, told)
		}
	})
}
