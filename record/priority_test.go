// SPDX-License-Identifier: Apache-2.0

package record

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/engine/ggml"
	"github.com/profinfer/profinfer/probe"
)

// scheduledAs reads nice value and policy (0: normal, 2: round robin) of a thread.
func scheduledAs(t *testing.T, path string) (nice, policy int) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		return 99, 99 // it has ended
	}
	// from field 3 on, see proc_pid_stat(5)
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	nice, err1 := strconv.Atoi(f[19-3])
	policy, err2 := strconv.Atoi(f[41-3])
	if err1 != nil || err2 != nil {
		t.Fatalf("%q", b)
	}
	return nice, policy
}

// ownThreads tells how this process's threads are scheduled.
func ownThreads(t *testing.T) map[string]int {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	for _, x := range tasks {
		nice, policy := scheduledAs(t, "/proc/self/task/"+x.Name()+"/stat")
		if nice != 99 {
			out[fmt.Sprintf("nice %d, policy %d", nice, policy)]++
		}
	}
	return out
}

// Real-time priority ends by itself, everything is given back at the end, and what is started afterwards
// inherits nothing.
func TestPriority(t *testing.T) {
	if !permitted() {
		t.Skip("needs CAP_SYS_NICE")
	}
	before, procs := ownThreads(t), runtime.GOMAXPROCS(0)
	if len(before) != 1 {
		t.Fatalf("at first: %v", before)
	}
	child := func(when string) {
		t.Helper()
		c := exec.Command("sleep", "60")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		defer c.Wait()
		defer c.Process.Kill()
		if nice, policy := scheduledAs(t,
			fmt.Sprintf("/proc/%d/stat", c.Process.Pid)); before[fmt.Sprintf("nice %d, policy %d", nice,
			policy)] == 0 {
			t.Errorf("what was started %s has nice %d, policy %d; this process %v", when, nice, policy,
				before)
		}
	}
	s := newScheduling()
	s.hurry()
	if got := ownThreads(t); got["nice -15, policy 2"] == 0 {
		t.Skipf("no real-time priority is to be had here: %v", got)
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		got := ownThreads(t)
		rr := 0
		for k, n := range got {
			if strings.HasSuffix(k, "policy 2") {
				rr += n
			}
		}
		if rr == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("real-time priority does not end: %v", got)
		}
	}
	if got := ownThreads(t); got["nice -15, policy 0"] == 0 {
		t.Errorf("after it: %v", got)
	}
	s.quiet()
	s.restore()
	if got := ownThreads(t); len(got) != 1 || got[first(before)] == 0 {
		t.Errorf("at the end %v, at first %v", got, before)
	}
	if n := runtime.GOMAXPROCS(0); n != procs {
		t.Errorf("GOMAXPROCS is %d, was %d", n, procs)
	}
	child("afterwards")
	s.hurry() // by an event that came late
	s.raise()
	if got := ownThreads(t); len(got) != 1 || got[first(before)] == 0 {
		t.Errorf("after the end: %v", got)
	}
}

func first(m map[string]int) string {
	for k := range m {
		return k
	}
	return ""
}

// A command that is launched has nothing of the recorder's priority, nor has a second one in the same
// process.
func TestCommandPriority(t *testing.T) {
	if err := probe.Check(); err != nil {
		t.Skip(err)
	}
	before := ownThreads(t)
	for i := range 2 {
		out := filepath.Join(t.TempDir(), "stat")
		_, err := Run(context.Background(), ggml.New(),
			Options{Output: filepath.Join(t.TempDir(), "run.pinf"), Level: engine.LevelOp,
				Command: []string{"sh", "-c", "sleep 0.3; cat /proc/self/stat > " + out}})
		var none *NoEngine
		if !errors.As(err, &none) {
			t.Fatal(err)
		}
		if nice, policy := scheduledAs(t, out); before[fmt.Sprintf("nice %d, policy %d", nice, policy)] == 0 {
			t.Errorf("command %d has nice %d, policy %d; this process %v", i, nice, policy, before)
		}
		if got := ownThreads(t); len(got) != 1 || got[first(before)] == 0 {
			t.Errorf("after command %d: %v, at first %v", i, got, before)
		}
	}
}
