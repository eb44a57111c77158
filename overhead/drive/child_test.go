// SPDX-License-Identifier: Apache-2.0

package drive

import (
	"context"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/profinfer/profinfer/engine"
)

func begin(t *testing.T, script string) *child {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	c, err := start([]string{"/bin/sh", "-c", script})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.cmd.Process.Kill(); <-c.done })
	return c
}

func TestFailureIsTheChildsOwnText(t *testing.T) {
	c := begin(t, "echo out; echo 'profinfer: it did not work' >&2; exit 4")
	<-c.done
	if f := c.failure(); f == nil || f.Status != 4 || f.Text != "it did not work" ||
		c.out.String() != "out\n" {
		t.Errorf("%+v %q", f, c.out.String())
	}
	c = begin(t, "kill -SEGV $$")
	<-c.done
	if f := c.failure(); f == nil || f.Status == 0 || !strings.Contains(f.Text, "signal 11") {
		t.Errorf("a child that crashed: %+v", f)
	}
	c = begin(t, "true")
	<-c.done
	if f := c.failure(); f != nil {
		t.Error(f)
	}
}

func TestEnd(t *testing.T) {
	c := begin(t, "trap 'exit 0' TERM; while :; do sleep 0.05; done")
	time.Sleep(100 * time.Millisecond)
	c.end()
	if !c.ended() || c.status != 0 {
		t.Errorf("ended %v, status %d", c.ended(), c.status)
	}
}

// A child that computes uses its CPU; one that sleeps does not. How much of a CPU the first gets is up to
// what else runs.
func TestCPUTime(t *testing.T) {
	for script, want := range map[string]func(used int64, share float64) bool{
		"while :; do :; done": func(used int64, share float64) bool { return used >= 20e6 && share < 1.1 },
		"sleep 50":            func(_ int64, share float64) bool { return share >= 0 && share < 0.05 },
	} {
		c := begin(t, script)
		time.Sleep(50 * time.Millisecond)
		c.sample(now())
		var from, to, used int64
		for range 40 {
			hold(context.Background(), 500*time.Millisecond, c)
			from, to = c.cpu[0].at, c.cpu[len(c.cpu)-1].at
			if used = c.cpuIn(from+1e6, to-1e6); used >= 20e6 || script == "sleep 50" {
				break
			}
		}
		if s := float64(used) / float64(to-from-2e6); !want(used, s) {
			t.Errorf("%s: %d ns, %.2f of a CPU", script, used, s)
		}
		if c.cpuIn(from-1e9, to) != -1 || c.cpuIn(from, to+1e9) != -1 || c.cpuIn(to, from) != -1 {
			t.Error("CPU time is told of a time without samples")
		}
		c.cmd.Process.Kill()
	}
	if _, ok := cpuTime(1 << 22); ok {
		t.Error("CPU time of a process that there is not")
	}
	a, _ := cpuTime(os.Getpid())
	if a <= 0 {
		t.Error("no CPU time of this process")
	}
}

func TestAt(t *testing.T) {
	s := []sample{{100, 10}, {200, 30}, {300, 30}}
	for at0, want := range map[int64]int64{100: 10, 150: 20, 200: 30, 300: 30, 99: -1, 301: -1} {
		if v := at(s, at0); v != want {
			t.Errorf("at %d: %d, not %d", at0, v, want)
		}
	}
}

func TestHoldEndsEarly(t *testing.T) {
	ended := make(chan struct{})
	close(ended)
	ctx, cancel := context.WithCancel(context.Background())
	if hold(ctx, time.Minute, nil, ended) || hold(ctx, time.Minute, nil, nil, ended) {
		t.Error("the engine's end was missed")
	}
	if !hold(ctx, time.Millisecond, nil, nil, nil) {
		t.Error("ended early")
	}
	c := begin(t, "true")
	if !hold(ctx, time.Minute, c) {
		t.Error("a child's end is no interruption")
	}
	cancel()
	if hold(ctx, time.Minute, nil) {
		t.Error("the interrupt was missed")
	}
}

func TestTailIsBounded(t *testing.T) {
	var b tail
	for range 100 {
		b.Write([]byte(strings.Repeat("x", 5000) + "\n"))
	}
	if len(b.b) > maxTail || !strings.HasSuffix(b.String(), "x\n") {
		t.Errorf("%d bytes", len(b.b))
	}
}

func TestLevels(t *testing.T) {
	s, err := Levels([]string{"op", "step"})
	if err != nil || len(s) != 2 || s[0].Level != engine.LevelOp || s[1].Level != engine.LevelStep ||
		strings.Join(s[1].Flags, " ") != "--level step" {
		t.Errorf("%+v %v", s, err)
	}
	for _, bad := range [][]string{{"ops"}, {"op", "op"}, {""}} {
		if _, err := Levels(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
