// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/profinfer/profinfer/internal/engines"
	"github.com/profinfer/profinfer/internal/testkit"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/slow"
	"github.com/profinfer/profinfer/trace"
)

// slowOf asks the program for slow steps, and tests that all parts add up.
func slowOf(t *testing.T, path string, args ...string) *slow.Slow {
	t.Helper()
	r := profinfer(t, append([]string{"stat", "--slow", "--json", "--top", "1000", "-i", path}, args...)...)
	var s slow.Slow
	if err := json.Unmarshal([]byte(r.stdout), &s); err != nil || r.status != 0 {
		t.Fatalf("stat --slow: status %d, %v\n%s", r.status, err, r.stderr)
	}
	sum := func(parts []slow.Part) (sum int64) {
		for _, p := range parts {
			sum += p.Ns
		}
		return sum
	}
	if got := sum(s.Causes); got != s.Excess {
		t.Errorf("causes add up to %d, the excess is %d", got, s.Excess)
	}
	for i := range s.Listed {
		x := &s.Listed[i]
		if got := sum(x.Parts); got != x.Excess || x.Dur-x.Baseline != x.Excess {
			t.Errorf("step %d: parts add up to %d, the excess is %d, of %d beyond %d", x.Step, got, x.Excess,
				x.Dur, x.Baseline)
		}
	}
	if s.Run == nil || s.SchemaVersion != slow.SlowSchema {
		t.Errorf("run %v, version %d", s.Run, s.SchemaVersion)
	}
	return &s
}

func partOf(parts []slow.Part, c slow.Cause) (ns int64, who []slow.Who) {
	for _, p := range parts {
		if p.Cause == c {
			return p.Ns, p.Who
		}
	}
	return 0, nil
}

// during returns what is unexplained, and the excess, of the slow steps from the first to the last one that
// names a process.
func during(s *slow.Slow, comm string) (unexplained, excess int64) {
	first, last := int64(math.MaxInt64), int64(0)
	for i := range s.Listed {
		x := &s.Listed[i]
		_, who := partOf(x.Parts, slow.SlowOther)
		if slices.ContainsFunc(who, func(w slow.Who) bool { return w.Comm == comm }) {
			first, last = min(first, x.Step), max(last, x.Step)
		}
	}
	for i := range s.Listed {
		if x := &s.Listed[i]; first <= x.Step && x.Step <= last {
			ns, _ := partOf(x.Parts, slow.SlowUnexplained)
			unexplained += ns
			excess += x.Excess
		}
	}
	return unexplained, excess
}

// spin keeps a CPU busy for d, under a name of its own, and returns for how long it computed.
func spin(t *testing.T, name string, cpu int, d time.Duration) time.Duration {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Error(err)
		return 0
	}
	link := filepath.Join(t.TempDir(), name)
	if err := syscall.Symlink(sh, link); err != nil {
		t.Error(err)
		return 0
	}
	hog := start(t, nil, link, "-c", "while :; do :; done")
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(hog.Process.Pid, &set); err != nil {
		t.Error(err)
	}
	time.Sleep(d)
	used := cpuTime(hog.Process.Pid)
	syscall.Kill(-hog.Process.Pid, syscall.SIGKILL)
	return used
}

// Another process takes a core for three seconds in the middle: it is named, with what it took. This machine
// may have others at work, which are interference too.
func TestQuietIntruder(t *testing.T) {
	if testkit.Quiet(t) {
		return
	}
	e := engines.Debian(t)
	_, inside := engines.Model(t, e, "llama-small")
	needBPF(t)
	cpu := runtime.NumCPU() - 1
	const d = 3 * time.Second
	done := make(chan bool)
	go func() {
		defer close(done)
		time.Sleep(2 * time.Second)
		spin(t, "intruder", cpu, d)
	}()
	threads := min(runtime.NumCPU(), 8)
	path := record(t, nil, e.Command("llama-bench", "-m", inside, "-t", fmt.Sprint(threads), "-p", "0", "-n",
		"1500", "-r", "1")...)
	<-done
	s := slowOf(t, path)
	if s.Slow == 0 {
		t.Fatal("no step is slow")
	}
	others, who := partOf(s.Causes, slow.SlowOther)
	own, _ := partOf(s.Causes, slow.SlowOwn)
	i := slices.IndexFunc(s.Interference.By, func(x slow.Interferer) bool { return x.Comm == "intruder" })
	if i < 0 {
		t.Fatalf("it is not named: %+v", s.Interference.By)
	}
	x := s.Interference.By[i]
	// While it ran: what this machine's host does to steps before and after, nobody here can tell.
	rest, excess := during(s, "intruder")
	share := float64(rest) / float64(excess)
	t.Logf("%d of %d steps slow, %d ms beyond, of it %d ms between the first and the last step that name the intruder; others %d ms %v, own threads %d ms, unexplained in these %.1f %%; the intruder %+v",
		s.Slow, s.Steps, s.Excess/1e6, excess/1e6, others/1e6, who, own/1e6, share*100, x)
	if x.Own || x.PID == 0 || !slices.Contains(x.CPUs, cpu) { // it is put there after it began
		t.Errorf("the intruder: %+v", x)
	}
	// It cannot have taken more than it ran, from each of the threads.
	if x.Ran < 2e8 || x.Ran > int64(threads)*int64(d+d/10) || x.Cost <= 0 || x.Cost > int64(d+d/10) {
		t.Errorf("it ran for %d ms in place of threads, and cost %d ms", x.Ran/1e6, x.Cost/1e6)
	}
	if len(x.Ops) == 0 || len(x.Displaced) == 0 || threads > 1 && len(x.Waited) == 0 {
		t.Errorf("nobody paid: %+v", x)
	}
	if excess == 0 {
		t.Fatal("no step names it")
	}
	// Usually 0 to 10 %: what a shared cache and a host's other machines cost is attributed to nobody.
	if others <= 0 || share > 0.3 {
		t.Errorf("of %d ms beyond, others took %d ms, %.1f %% is unexplained", excess/1e6, others/1e6,
			share*100)
	}

	// Without the scheduler's events nobody can be named.
	rd, err := trace.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer rd.Close()
	b := slow.New(slow.Options{})
	h, err := profile.Replay(rd, blind{b})
	if err != nil {
		t.Fatal(err)
	}
	s = b.Finish(h)
	for _, p := range s.Causes {
		switch p.Cause {
		case slow.SlowOther, slow.SlowOwn, slow.SlowDisk, slow.SlowSleep, slow.SlowImbalance:
			if p.Ns != 0 {
				t.Errorf("without scheduling events %s is %d ns", p.Cause, p.Ns)
			}
		}
	}
}

// blind sees no scheduling.
type blind struct{ profile.Sink }

func (blind) Sched(*trace.Sched) error { return nil }

// The cache's view grows every 256 tokens: the engine makes a new graph, and the step says so.
func TestQuietRebuilt(t *testing.T) {
	if testkit.Quiet(t) {
		return
	}
	e := engines.Debian(t)
	_, inside := engines.Model(t, e, "llama-tiny")
	path := record(t, nil, e.Command("llama-bench", "-m", inside, "-t", "1", "-p", "0", "-n", "1200", "-r",
		"1")...)
	s := slowOf(t, path)
	found := 0
	for i := range s.Listed {
		x := &s.Listed[i]
		if !x.Rebuilt || x.Position == nil || *x.Position <= 256 {
			continue
		}
		if *x.Position%256 != 1 {
			t.Errorf("step %d at position %d has a new graph", x.Step, *x.Position)
			continue
		}
		if ns, _ := partOf(x.Parts, slow.SlowRebuilt); ns > 0 {
			found++
			t.Logf("step %d at position %d: %d of %d us beyond are the new graph's", x.Step, *x.Position,
				ns/1000, x.Excess/1000)
		}
	}
	if found < 3 {
		t.Errorf("%d of the 4 steps with a new graph are found", found)
	}
}
