// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/profinfer/profinfer/internal/engines"
)

// An older recording of the same name is there as long as nothing is recorded that could take its place,
// however the recording ends.
func TestOlderRecording(t *testing.T) {
	needBPF(t)
	e := engines.Debian(t)
	_, inside := engines.Model(t, e, "llama-tiny")
	dir := t.TempDir()
	path := filepath.Join(dir, "run.pinf")
	bench := e.Command("llama-bench", "-m", inside, "-t", "1", "-p", "0", "-n", "50", "-r", "1")
	if r := profinfer(t, append([]string{"record", "-o", path, "--"}, bench...)...); r.status != 0 {
		t.Fatalf("status %d: %s", r.status, r.stderr)
	}
	first, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	stays := func(t *testing.T, more ...string) {
		t.Helper()
		if b, err := os.ReadFile(path); err != nil || string(b) != string(first) {
			t.Errorf("the older recording is not what it was: %d bytes, were %d, %v", len(b), len(first), err)
		}
		es, err := os.ReadDir(dir)
		if err != nil || len(es) != 1+len(more) {
			t.Errorf("the folder holds %v, %v", es, err)
		}
	}
	for _, c := range []struct {
		name   string
		args   []string
		status int
	}{
		{"no such command", []string{"--", "frobnicate-it"}, 127},
		{"a command that cannot be run", []string{"--", path}, 126},
		{"no engine", []string{"--", "true"}, 4},
		{"no engine, in parts", []string{"--switch-output", "1M", "--", "true"}, 4},
		{"a process without one", []string{"-p", fmt.Sprint(os.Getpid())}, 4},
		{"an engine that computes nothing", append([]string{"--"}, e.Command("llama-bench", "--help")...), 4},
		{"events that no CPU has", []string{"-e", "frobnications", "--", "true"}, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := profinfer(t, append([]string{"record", "-o", path}, c.args...)...)
			if r.status != c.status && c.status != 4 || c.status == 4 && r.status == 0 {
				t.Errorf("status %d, want %d: %s", r.status, c.status, r.stderr)
			}
			stays(t)
		})
	}
	t.Run("interrupted before anything", func(t *testing.T) {
		cmd := exec.Command(program, "record", "-o", path, "--", "sleep", "60")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		launched(t, cmd.Process.Pid, "sleep")
		syscall.Kill(-cmd.Process.Pid, syscall.SIGINT)
		cmd.Wait()
		if st := cmd.ProcessState.ExitCode(); st != 130 {
			t.Errorf("status %d", st)
		}
		stays(t)
	})
	t.Run("killed before anything", func(t *testing.T) {
		cmd := exec.Command(program, "record", "-o", path, "--", "sleep", "5")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		launched(t, cmd.Process.Pid, "sleep")
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		cmd.Wait()
		stays(t)
	})
	t.Run("replaced", func(t *testing.T) {
		if r := profinfer(t, append([]string{"record", "-o", path, "--"}, bench...)...); r.status != 0 {
			t.Fatalf("status %d: %s", r.status, r.stderr)
		}
		b, err := os.ReadFile(path)
		if err != nil || string(b) == string(first) {
			t.Errorf("it was not replaced: %v", err)
		}
		if got := load(t, path); len(got.steps) < 50 {
			t.Errorf("%d steps", len(got.steps))
		}
		first = b
		stays(t)
	})
}

// What is no file is not written to, and the command is not begun.
func TestOutputIsAFile(t *testing.T) {
	needBPF(t)
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o644); err != nil {
		t.Fatal(err)
	}
	mark := filepath.Join(dir, "begun")
	for _, out := range []string{"/dev/null", "/dev/stdout", pipe, dir} {
		cmd := exec.Command(program, "record", "-o", out, "--", "touch", mark)
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		defer stdout.Close()
		var said strings.Builder
		cmd.Stderr = &said
		cmd.Run()
		if st := cmd.ProcessState.ExitCode(); st != 1 || !strings.Contains(said.String(), "-o") {
			t.Errorf("-o %s: status %d: %s", out, st, said.String())
		}
		if _, err := os.Stat(mark); err == nil {
			t.Errorf("-o %s: the command was begun", out)
			os.Remove(mark)
		}
	}
}
