// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/profinfer/profinfer/internal/engines"
	"github.com/profinfer/profinfer/internal/recording"
	"github.com/profinfer/profinfer/internal/testkit"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/trace"
)

// watches are the changes of what was seen of operators.
func watches(t testing.TB, path string) (out []trace.Watch) {
	t.Helper()
	r, err := trace.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for {
		b, err := r.Next()
		if err != nil {
			return out
		}
		if w := b.Watch; w != nil && !slices.ContainsFunc(out, func(o trace.Watch) bool {
			return o.Time == w.Time && o.PID == w.PID
		}) {
			out = append(out, *w) // told again at the begin of segments
		}
	}
}

// ran is a step's operators as a line each: what ran, in which order, on how many threads.
func ran(r *run, s *profile.Step) string {
	var b strings.Builder
	for _, o := range r.opsOf(s) {
		fmt.Fprintf(&b, "%s %s %v %d\n", o.Op, o.NodeDef().Name, o.NodeDef().Ne, len(o.Threads))
	}
	return b.String()
}

// Graphs that are followed by arrivals alone show the same operators, with the same dimensions, in the
// same order, on the same number of threads as with begins, over several sizes of the KV cache; half
// of the hits are saved.
func TestFollow(t *testing.T) {
	e := engines.Debian(t)
	_, inside := engines.Model(t, e, "llama-tiny")
	for _, threads := range []int{1, 2} {
		t.Run(fmt.Sprint(threads, " threads"), func(t *testing.T) {
			if threads == 1 {
				testkit.Long(t)
			}
			repeat := 1
			if testkit.All() {
				repeat = 4
			}
			command := e.Command("llama-bench", "-m", inside, "-t", fmt.Sprint(threads), "-p", "0", "-n",
				"1200", "-r", fmt.Sprint(repeat), "--no-warmup")
			path, both := record(t, nil, command...), record(t, []string{"--two-hits"}, command...)
			changes := watches(t, path)
			if len(changes) == 0 || changes[0].Ops != trace.WatchArrivals {
				t.Fatalf("no graph was followed: %+v", changes)
			}
			for _, w := range watches(t, both) {
				if w.Ops != trace.WatchBoth || w.Why != "two hits" {
					t.Errorf("with --two-hits: %+v", w)
				}
			}
			r, o := load(t, path), load(t, both)
			r.lossless(t)
			o.lossless(t)
			if len(r.steps) != 1200*repeat || len(o.steps) != 1200*repeat {
				t.Fatalf("%d and %d steps", len(r.steps), len(o.steps))
			}
			if r.header.End.Hits > o.header.End.Hits*3/4 {
				t.Errorf("%d hits, with begins %d", r.header.End.Hits, o.header.End.Hits)
			}
			shapes := map[*profile.Shape]bool{}
			for i := range r.steps {
				if r.steps[i].Untraced != "" {
					t.Fatalf("step %d: %s", i, r.steps[i].Untraced)
				}
			}
			perStep := func(x *run) (out []string) {
				at := map[*profile.Step]*strings.Builder{}
				for _, op := range x.ops {
					b := at[op.Step]
					if b == nil {
						b = &strings.Builder{}
						at[op.Step] = b
					}
					fmt.Fprintf(b, "%s %s %v %d\n", op.Op, op.NodeDef().Name, op.NodeDef().Ne,
						len(op.Threads))
					shapes[op.Shape] = true
				}
				for _, s := range x.steps {
					out = append(out, at[s].String())
				}
				return out
			}
			a, b := perStep(r), perStep(o)
			for i := range a {
				if a[i] != b[i] {
					t.Fatalf("step %d ran\n%s\nand with begins\n%s", i, a[i], b[i])
				}
			}
			if len(shapes) < 8 {
				t.Errorf("%d shapes in both: the cache did not grow", len(shapes))
			}
			for _, s := range r.steps[100:110] {
				accounts(t, r, s)
			}
		})
	}
}

// Many threads on few cores: every operator on every thread.
func TestManyThreads(t *testing.T) {
	e := engines.Debian(t)
	_, inside := engines.Model(t, e, "llama-tiny")
	r := load(t, record(t, nil, e.Command("llama-bench", "-m", inside, "-t", "64", "-p", "0", "-n", "4", "-r",
		"1", "--no-warmup")...))
	r.lossless(t)
	one := load(t, record(t, nil, e.Command("llama-bench", "-m", inside, "-t", "1", "-p", "0", "-n", "4",
		"-r", "1", "--no-warmup")...))
	if len(r.steps) != 4 || len(one.steps) != 4 {
		t.Fatalf("%d and %d steps", len(r.steps), len(one.steps))
	}
	for i, s := range r.steps {
		want := strings.ReplaceAll(ran(one, one.steps[i])+"\n", " 1\n", " 64\n")
		if got := ran(r, s) + "\n"; got != want {
			t.Errorf("step %d ran\n%s\nwant\n%s", i, got, want)
		}
		accounts(t, r, s)
	}
}

// Filters leave out what was not asked for, keep the rest as it is, and tell how much it was.
func TestFilters(t *testing.T) {
	e := engines.Debian(t)
	_, inside := engines.Model(t, e, "llama-tiny")
	command := e.Command("llama-bench", "-m", inside, "-t", "2", "-pg", "16,16", "-p", "0", "-n", "0", "-r",
		"1", "--no-warmup")
	all := load(t, record(t, []string{"--two-hits"}, command...))
	count := func(r *run, keep func(*profile.Op) bool) (n int) {
		for _, o := range r.ops {
			if keep(o) {
				n++
			}
		}
		return n
	}
	for _, c := range []struct {
		flags []string
		keep  func(*profile.Op) bool
	}{
		{[]string{"--op", "MUL_MAT,ROPE"}, func(o *profile.Op) bool {
			return o.Op == "MUL_MAT" || o.Op == "ROPE"
		}},
		{[]string{"--phase", "decode"}, func(o *profile.Op) bool { return o.Step.Phase == profile.Decode }},
		{[]string{"--phase", "prefill", "--op", "MUL_MAT"}, func(o *profile.Op) bool {
			return o.Step.Phase == profile.Prefill && o.Op == "MUL_MAT"
		}},
	} {
		r := load(t, record(t, c.flags, command...))
		if got, want := len(r.ops), count(all, c.keep); got != want || count(r, c.keep) != got || want == 0 {
			t.Errorf("%v: %d operators, %d of them wanted, want %d", c.flags, got, count(r, c.keep), want)
		}
		for _, o := range r.ops {
			if o.Incomplete || len(o.Threads) != 2 {
				t.Errorf("%v: %+v", c.flags, o)
				break
			}
		}
		var filtered uint64
		for _, l := range recording.Losses(r.header) {
			if l.Why == "filtered" {
				filtered += l.Events
			} else {
				t.Errorf("%v: loss %+v", c.flags, l)
			}
		}
		if filtered == 0 {
			t.Errorf("%v: nothing is said to be left out", c.flags)
		}
	}
	if r := profinfer(t, append([]string{"record", "-o", filepath.Join(t.TempDir(), "x"), "--op", "NO_SUCH",
		"--"}, command...)...); !strings.Contains(r.stderr, "MUL_MAT") {
		t.Errorf("an operator that is none: status %d, %s", r.status, r.stderr)
	}
}

// running starts a llama-bench that decodes until the test ends, and returns its process.
func running(t testing.TB, model string, threads int) int {
	t.Helper()
	e := engines.Debian(t)
	_, inside := engines.Model(t, e, model)
	cmd := start(t, nil, e.Command("llama-bench", "-m", inside, "-t", fmt.Sprint(threads), "-p", "0", "-n",
		"512", "-r", "100000")...)
	decodes(t, cmd.Process.Pid)
	return cmd.Process.Pid
}

// decodes waits until a process has computed a step.
func decodes(t testing.TB, pid int) {
	t.Helper()
	needBPF(t)
	path := filepath.Join(t.TempDir(), "first.pinf")
	var r result
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if r = profinfer(t, "record", "-o", path, "-p", strconv.Itoa(pid), "--level", "step", "--steps",
			"1"); r.status == 0 {
			return
		}
	}
	t.Fatalf("process %d computes nothing: status %d\n%s", pid, r.status, r.stderr)
}

func TestThreadFilter(t *testing.T) {
	pid := running(t, "llama-tiny", 2)
	path := filepath.Join(t.TempDir(), "run.pinf")
	needBPF(t)
	if r := profinfer(t, "record", "-o", path, "-p", strconv.Itoa(pid), "--tid", strconv.Itoa(pid),
		"--duration", "1s"); r.status != 0 {
		t.Fatal(r.stderr)
	}
	r := load(t, path)
	if len(r.ops) == 0 {
		t.Fatal("no operators")
	}
	for _, o := range r.ops {
		if len(o.Threads) != 1 || o.Threads[0].TID != int32(pid) {
			t.Fatalf("operator on %+v", o.Threads)
		}
	}
}

// A budget spreads spans with operators over the run; steps are all there.
func TestQuietBudget(t *testing.T) {
	if testkit.Quiet(t) {
		return
	}
	pid := running(t, "llama-small", 1)
	path := filepath.Join(t.TempDir(), "run.pinf")
	needBPF(t)
	if r := profinfer(t, "record", "-o", path, "-p", strconv.Itoa(pid), "--overhead-budget", "0.2%",
		"--duration", "12s"); r.status != 0 {
		t.Fatal(r.stderr)
	}
	off, on := 0, 0
	for _, w := range watches(t, path) {
		switch {
		case w.Ops == trace.WatchOff && w.Why == "budget":
			off++
		case w.Ops == trace.WatchArrivals:
			on++
		}
	}
	r := load(t, path)
	traced, throttled := 0, 0
	for _, s := range r.steps {
		switch {
		case s.Untraced == "throttled":
			throttled++
		case s.Untraced == "" && s.Ops > 0:
			traced++
		}
	}
	if off == 0 || on == 0 || traced == 0 || throttled < traced {
		t.Errorf("%d times off, %d on; %d steps with operators, %d without", off, on, traced, throttled)
	}
	for _, l := range recording.Losses(r.header) {
		if l.Why != "throttled" && l.Why != "cut" && l.Why != "learning" {
			t.Errorf("loss %+v", l)
		}
	}
}

// Operators' probes go off while decode is slow, and come back. The engine is slow as it is stopped for most
// of the time: what else runs here makes much less of a difference.
func TestQuietFloor(t *testing.T) {
	if testkit.Quiet(t) {
		return
	}
	pid := running(t, "llama-small", 2)
	path := filepath.Join(t.TempDir(), "run.pinf")
	needBPF(t)
	if r := profinfer(t, "record", "-o", path, "-p", strconv.Itoa(pid), "--level", "step", "--duration",
		"3s"); r.status != 0 {
		t.Fatal(r.stderr)
	}
	steps := load(t, path).steps
	floor := 0.25 * float64(len(steps)) / 3
	path = filepath.Join(t.TempDir(), "run.pinf")
	cmd := exec.Command(program, "record", "-o", path, "-p", strconv.Itoa(pid), "--min-tps",
		fmt.Sprint(floor))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// The file can be read while it is written. How soon something is seen in it depends on what else runs
	// here.
	within := func(what func([]trace.Watch) bool) bool {
		deadline := time.Now().Add(90 * time.Second)
		for ; time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
			if _, err := os.Stat(path); err == nil && what(watches(t, path)) {
				return true
			}
		}
		return false
	}
	began := func(ws []trace.Watch) bool { return len(ws) > 0 }
	taken := func(ws []trace.Watch) int {
		return slices.IndexFunc(ws, func(w trace.Watch) bool {
			return w.Ops == trace.WatchOff && w.Why == "speed"
		})
	}
	off := func(ws []trace.Watch) bool { return taken(ws) >= 0 }
	back := func(ws []trace.Watch) bool {
		return off(ws) && slices.ContainsFunc(ws[taken(ws):], func(w trace.Watch) bool {
			return w.Ops == trace.WatchArrivals
		})
	}
	if !within(began) {
		t.Error("nothing is recorded")
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			syscall.Kill(pid, syscall.SIGSTOP)
			time.Sleep(300 * time.Millisecond)
			syscall.Kill(pid, syscall.SIGCONT)
			select {
			case <-stop:
				return
			case <-time.After(15 * time.Millisecond):
			}
		}
	}()
	if !within(off) {
		t.Errorf("the probes stayed: %+v", watches(t, path))
	}
	close(stop)
	<-stopped
	if !t.Failed() && !within(back) {
		t.Errorf("they did not come back: %+v", watches(t, path))
	}
	cmd.Process.Signal(os.Interrupt)
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}

func TestSteps(t *testing.T) {
	e := engines.Debian(t)
	_, inside := engines.Model(t, e, "llama-tiny")
	r := load(t, record(t, []string{"--steps", "10"},
		e.Command("llama-bench", "-m", inside, "-t", "1", "-p", "0", "-n", "300", "-r", "1",
			"--no-warmup")...))
	if len(r.steps) != 10 {
		t.Errorf("%d steps were asked for, %d recorded", 10, len(r.steps))
	}
}

// What is on disk stays below --max-size, each file reads alone, and they hold the end of the run without a
// gap.
func TestMaxSize(t *testing.T) {
	e := engines.Debian(t)
	_, inside := engines.Model(t, e, "llama-tiny")
	command := e.Command("llama-bench", "-m", inside, "-t", "1", "-p", "0", "-n", "2000", "-r", "6",
		"--no-warmup")
	path := record(t, []string{"--max-size", "4M", "--two-hits"}, command...)
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) != 2 {
		t.Fatalf("files %v, %v", files, err)
	}
	var size, ops int64
	var ends []int64
	var at []int32 // positions of the steps' tokens
	first := 0     // of the second file
	for _, f := range []string{path + ".1", path} {
		st, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		size += st.Size()
		r := load(t, f)
		ops += int64(len(r.ops))
		first = len(at)
		for _, s := range r.steps {
			ends = append(ends, s.Start)
			if len(s.Seqs) != 1 {
				t.Fatalf("%s: step %d has %d sequences", f, s.ID, len(s.Seqs))
			}
			at = append(at, s.Seqs[0].Pos)
		}
		for _, l := range recording.Losses(r.header) {
			if l.Why != "cut" && l.Why != "learning" {
				t.Errorf("%s: loss %+v", f, l)
			}
		}
	}
	if size > 4<<20 || size < 1<<19 {
		t.Errorf("%d bytes on disk", size)
	}
	if !slices.IsSorted(ends) || len(ends) < 100 || ops < 1000 {
		t.Errorf("%d steps, %d operators", len(ends), ops)
	}
	for i := 1; i < len(at); i++ {
		// a step in which a file ends can be in neither
		if at[i] != (at[i-1]+1)%2000 && (i != first || at[i] != (at[i-1]+2)%2000) {
			t.Errorf("a gap: after position %d comes %d", at[i-1], at[i])
		}
	}
}

// A server without an end set is recorded within a budget, and says so; with an end it is not.
func TestServerBudget(t *testing.T) {
	s := startServer(t, "llama-tiny-vocab")
	needBPF(t)
	path := filepath.Join(t.TempDir(), "run.pinf")
	cmd := exec.Command(program, "record", "-p", strconv.Itoa(s.pid), "-o", path)
	var out lockedBuffer
	cmd.Stderr = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	within(t, time.Minute, "a word of the budget", func() bool { return out.String() != "" })
	cmd.Process.Signal(syscall.SIGINT)
	cmd.Wait()
	if !strings.Contains(out.String(), "--overhead-budget 1%") {
		t.Errorf("said %q", out.String())
	}
	if r := profinfer(t, "record", "-p", strconv.Itoa(s.pid), "-o", path, "--duration",
		"1s"); strings.Contains(r.stderr, "budget") {
		t.Errorf("with a duration: %q", r.stderr)
	}
}
