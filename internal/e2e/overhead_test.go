// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/profinfer/profinfer/internal/engines"
	"github.com/profinfer/profinfer/internal/testkit"
	"github.com/profinfer/profinfer/overhead"
)

// busy starts a llama-bench that decodes until the test ends.
func busy(t *testing.T) (pid int) {
	t.Helper()
	needBPF(t)
	e := engines.Debian(t)
	_, model := engines.Model(t, e, "llama-tiny")
	argv := e.Command("llama-bench", "-m", model, "-t", "1", "-p", "0", "-n", "128", "-r", "100000")
	cmd := exec.Command(argv[0], argv[1:]...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	decodes(t, cmd.Process.Pid)
	return cmd.Process.Pid
}

func measuredReport(t *testing.T, out string) *overhead.Report {
	t.Helper()
	r := &overhead.Report{}
	if err := json.Unmarshal([]byte(out), r); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	return r
}

// What it costs depends on the machine. That all states were recorded whole, and compared, does not.
func TestQuietOverhead(t *testing.T) {
	if testkit.Quiet(t) {
		return
	}
	pid := busy(t)
	r := profinfer(t, "overhead", "--json", "--levels", "graph,op", "--rounds", "5", "--span", "600ms", "-p",
		strconv.Itoa(pid))
	if r.status != 0 && r.status != 1 {
		t.Fatalf("status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	rep := measuredReport(t, r.stdout)
	if rep.Phase != "decode" || rep.StepNS == nil || rep.PID != pid || rep.Ended != "" {
		t.Errorf("%s", r.stdout)
	}
	answers := false
	for _, s := range rep.States {
		answers = answers || s.Answers()
		if s.Verdict == overhead.Failed || s.Verdict == overhead.Short || s.Spans != 5 || s.Failures != 0 {
			t.Errorf("%s: %s of %d spans: %s", s.Name, s.Verdict, s.Spans, s.Problem)
		}
		if s.Traced == nil || *s.Traced < 0.9 || s.ReaderCPU == nil || *s.ReaderCPU <= 0 {
			t.Errorf("%s: traced %v, reader %v", s.Name, s.Traced, s.ReaderCPU)
		}
		// 4 layers of some 17 operators
		if s.Name == "op" && (s.OpsStep == nil || *s.OpsStep < 50 || *s.OpsStep > 200) {
			t.Errorf("%v operators a step", s.OpsStep)
		}
	}
	if answers != (r.status == 0) {
		t.Errorf("status %d, although some level was told: %v", r.status, answers)
	}
}

func TestOverheadOfACommandThatEnds(t *testing.T) {
	needBPF(t)
	e := engines.Debian(t)
	_, model := engines.Model(t, e, "llama-small")
	r := profinfer(t, append([]string{"overhead", "--span", "500ms", "--"},
		e.Command("llama-bench", "-m", model, "-t", "1", "-p", "0", "-n", "128", "-r", "8")...)...)
	if r.status != 1 || !strings.Contains(r.stdout, "the command ended") ||
		!strings.Contains(r.stdout, "too short") || !strings.Contains(r.stdout, "tg128") {
		t.Errorf("status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
}

func TestOverheadInterrupted(t *testing.T) {
	pid := busy(t)
	cmd := exec.Command(program, "overhead", "--levels", "graph", "--span", "500ms", "--rounds", "1000", "-p",
		strconv.Itoa(pid))
	var out lockedBuffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// in the middle of it: some of its recorders have done their work
	seen := map[string]bool{}
	within(t, 2*time.Minute, "some recorders", func() bool {
		out, _ := exec.Command("pgrep", "-P", strconv.Itoa(cmd.Process.Pid)).Output()
		for p := range strings.FieldsSeq(string(out)) {
			seen[p] = true
		}
		return len(seen) > 4
	})
	cmd.Process.Signal(syscall.SIGINT)
	if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), "interrupted") {
		t.Errorf("%v\n%s", err, out.String())
	}
	if err := syscall.Kill(pid, 0); err != nil {
		t.Errorf("the engine: %v", err)
	}
	left, _ := exec.Command("pgrep", "-P", strconv.Itoa(cmd.Process.Pid)).Output()
	if len(left) > 0 {
		t.Errorf("recorders were left behind: %s", left)
	}
}

func TestOverheadWithoutAnEngine(t *testing.T) {
	needBPF(t)
	if r := profinfer(t, "overhead", "--", "sleep", "0.3"); r.status != 4 ||
		!strings.Contains(r.stderr, "the command ended before an engine was found") {
		t.Errorf("status %d: %s", r.status, r.stderr)
	}
	for _, args := range [][]string{{}, {"-p", "1", "--", "x"}, {"--levels", "ops", "-p", "1"},
		{"--rounds", "0", "-p", "1"}, {"--span", "1ms", "-p", "1"}, {"-p", "0"}} {
		if r := profinfer(t, append([]string{"overhead"}, args...)...); r.status != 2 {
			t.Errorf("%v: status %d: %s", args, r.status, r.stderr)
		}
	}
}
