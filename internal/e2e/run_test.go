// SPDX-License-Identifier: Apache-2.0

// Package e2e records real engines with real probes and compares what profinfer says with
// what the engines say themselves.
package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/profinfer/profinfer/internal/recording"
	"github.com/profinfer/profinfer/probe"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/trace"
)

// program is the profinfer under test, built from the tree.
var program string

func TestMain(m *testing.M) {
	if files := os.Getenv(mapsFiles); files != "" {
		os.Exit(mapFiles(filepath.SplitList(files)))
	}
	first()
	const built = "PROFINFER_E2E_PROGRAM" // for tests that run in a process of their own
	if program = os.Getenv(built); program != "" {
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "profinfer")
	if err != nil {
		panic(err)
	}
	program = filepath.Join(dir, "profinfer")
	if out, err := exec.Command("go", "build", "-o", program,
		"../../cmd/profinfer").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building profinfer: %v\n%s", err, out)
		os.Exit(1)
	}
	os.Setenv(built, program)
	status := m.Run()
	os.RemoveAll(dir)
	os.Exit(status)
}

// first lets this process and what it starts go before other work on this machine, as far as that is permitted:
// two threads of an engine that wait for each other at every operator hardly get on where they share CPUs.
func first() {
	if os.Getenv("PROFINFER_E2E_PROGRAM") != "" {
		return // its parent did
	}
	tids, _ := filepath.Glob("/proc/self/task/[0-9]*")
	for _, t := range tids {
		tid, _ := strconv.Atoi(filepath.Base(t))
		if is, err := syscall.Getpriority(syscall.PRIO_PROCESS, tid); err == nil { // 20 - nice
			syscall.Setpriority(syscall.PRIO_PROCESS, tid, 20-is-10)
		}
	}
}

// needBPF skips where probes cannot be had, unless they have to work.
func needBPF(t testing.TB) {
	t.Helper()
	if err := probe.Check(); err != nil {
		if os.Getenv("PROFINFER_REQUIRE_BPF") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

// result of a run of profinfer.
type result struct {
	status         int
	stdout, stderr string
}

// profinfer runs the program.
func profinfer(t testing.TB, args ...string) result {
	t.Helper()
	cmd := exec.Command(program, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var x *exec.ExitError
	if err != nil && !errors.As(err, &x) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// record runs a command under profinfer and returns the trace's path.
func record(t testing.TB, flags []string, command ...string) string {
	t.Helper()
	needBPF(t)
	path := filepath.Join(t.TempDir(), "run.pinf")
	r := profinfer(t, append(append([]string{"record", "-o", path}, flags...),
		append([]string{"--"}, command...)...)...)
	if r.status != 0 {
		t.Fatalf("record: status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	return path
}

// run is everything a trace holds.
type run struct {
	profile.BaseSink
	ops     []*profile.Op
	graphs  []*profile.Graph
	steps   []*profile.Step
	choices []*profile.Choice
	sched   int
	header  *profile.Header
}

func (r *run) Op(o *profile.Op) error       { r.ops = append(r.ops, o); return nil }
func (r *run) Graph(g *profile.Graph) error { r.graphs = append(r.graphs, g); return nil }
func (r *run) Step(s *profile.Step) error   { r.steps = append(r.steps, s); return nil }
func (r *run) Sched(s *trace.Sched) error   { r.sched++; return nil }
func (r *run) opsOf(s *profile.Step) (out []*profile.Op) {
	for _, o := range r.ops {
		if o.Step == s {
			out = append(out, o)
		}
	}
	return out
}

func (r *run) graphsOf(s *profile.Step) (out []*profile.Graph) {
	for _, g := range r.graphs {
		if g.Step == s.ID {
			out = append(out, g)
		}
	}
	return out
}

// load replays a trace.
func load(t testing.TB, path string) *run {
	t.Helper()
	rd, err := trace.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer rd.Close()
	r := &run{}
	if r.header, err = profile.Replay(rd, r); err != nil {
		t.Fatal(err)
	}
	return r
}

// lossless fails the test if anything was lost or cut.
func (r *run) lossless(t testing.TB) {
	t.Helper()
	for _, f := range r.flaws() {
		t.Error(f)
	}
}

// flaws are what the recording has not seen of the engine.
func (r *run) flaws() (out []string) {
	for _, l := range recording.Losses(r.header) {
		out = append(out, fmt.Sprintf("loss: %+v", l))
	}
	if r.header.Torn != "" {
		out = append(out, "torn: "+r.header.Torn)
	}
	for _, s := range r.steps {
		if s.Incomplete != "" {
			out = append(out, fmt.Sprintf("step %d: %s", s.ID, s.Incomplete))
		}
	}
	return out
}
