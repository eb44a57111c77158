// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/profinfer/profinfer/internal/engines"
	"github.com/profinfer/profinfer/target"
)

// As many processes as $(pidof NAME) gives are recorded, each whole, and what stands behind them is read:
// flags, and a command, which is never taken for a process.
func TestSeveralProcesses(t *testing.T) {
	needBPF(t)
	e := engines.Debian(t)
	_, inside := engines.Model(t, e, "llama-tiny")
	command := e.Command("llama-bench", "-m", inside, "-t", "1", "-p", "0", "-n", "256", "-r", "100000",
		"--no-warmup")
	a, b := start(t, io.Discard, command...).Process.Pid, start(t, io.Discard, command...).Process.Pid
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		computes := func(pid int) bool {
			maps, err := target.Maps(pid)
			return err == nil && strings.Contains(fmt.Sprint(maps), "libggml-cpu")
		}
		if computes(a) && computes(b) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the engines have not loaded their CPU library after a minute")
		}
	}
	dir := t.TempDir()
	ran := filepath.Join(dir, "ran")
	if err := os.WriteFile(filepath.Join(dir, "34"),
		[]byte("#!/bin/sh\necho \"$@\" >"+ran+"\nexec sleep 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	one, two := strconv.Itoa(a), strconv.Itoa(b)
	for _, c := range []struct {
		args   []string
		reason string
	}{
		{[]string{"-p", one, two, "--duration", "1s"}, "the time is over"},
		{[]string{"--duration", "1s", "-p", one + "," + two}, "the time is over"},
		{[]string{"-p", one, "--duration", "1s", "-p", two}, "the time is over"},
		{[]string{"-p", one, two, "--", "34", "-p", "56"}, "the command ended"},
	} {
		t.Run(strings.NewReplacer(one, "A", two, "B").Replace(strings.Join(c.args, " ")), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.pinf")
			r := profinfer(t, append([]string{"record", "-o", path}, c.args...)...)
			if r.status != 0 {
				t.Fatalf("status %d: %s", r.status, r.stderr)
			}
			got := load(t, path)
			steps := map[int32]int{}
			for _, s := range got.steps {
				steps[s.PID]++
			}
			if len(steps) != 2 || steps[int32(a)] == 0 || steps[int32(b)] == 0 {
				t.Errorf("steps by process: %v, want some of %d and of %d", steps, a, b)
			}
			if got.header.End == nil || got.header.End.Reason != c.reason {
				t.Errorf("end %+v, want %q", got.header.End, c.reason)
			}
			whole(t, got)
		})
	}
	if args, err := os.ReadFile(ran); err != nil || string(args) != "-p 56\n" {
		t.Errorf("the command behind -- got %q: %v", args, err)
	}
}

// The machine's first process is not recorded, as all others are its children, nor is profinfer by itself. An
// engine that starts profinfer is.
func TestProcessesThatAreNotRecorded(t *testing.T) {
	needBPF(t)
	path := filepath.Join(t.TempDir(), "run.pinf")
	for _, args := range [][]string{{"record", "-o", path, "-p", "1"},
		{"record", "-o", path, "--duration", "1s", "-p", strconv.Itoa(os.Getpid()) + ",1"}, {"overhead", "-p",
			"1"}} {
		if r := profinfer(t, args...); r.status != 2 ||
			!strings.Contains(r.stderr, "-p 1 is the first process of this machine (") ||
			!strings.Contains(r.stderr, "docker inspect") {
			t.Errorf("%v: status %d: %s", args, r.status, r.stderr)
		}
	}
	out, err := exec.Command("sh", "-c", `exec "$0" record -o "$1" -p $$`, program, path).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "is profinfer itself") {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a recording was begun")
	}
	e := engines.Debian(t)
	_, inside := engines.Model(t, e, "llama-tiny")
	engine := e.Command("llama-bench", "-m", inside, "-t", "1", "-p", "0", "-n", "64", "-r", "100",
		"--no-warmup")
	var said lockedBuffer
	cmd := start(t, &said, append([]string{"sh", "-c",
		`"$0" record -o "$1" -p $$ & shift; exec "$@" >/dev/null`, program, path}, engine...)...)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, said.String())
	}
	within(t, 20*time.Second, "the end of its recording", func() bool {
		return strings.Contains(said.String(), "next: ")
	})
	if r := load(t, path); len(r.steps) == 0 || int(r.steps[0].PID) != cmd.Process.Pid {
		t.Errorf("%d steps of the engine that started profinfer; %s", len(r.steps), said.String())
	}
}
