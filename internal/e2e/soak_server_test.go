// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/profinfer/profinfer/internal/engines"
	"github.com/profinfer/profinfer/internal/testkit"
)

// soakRounds is a part of the number that PROFINFER_SOAK gives (make soak: 5,000), else few.
func soakRounds(t *testing.T, part, few int) int {
	t.Helper()
	n := 0
	if s := os.Getenv("PROFINFER_SOAK"); s != "" {
		if _, err := fmt.Sscan(s, &n); err != nil || n < 1 {
			t.Fatalf("PROFINFER_SOAK=%q is no number", s)
		}
	}
	return max(n/part, few)
}

// clients ask a server for tokens until they are stopped, and compare what it answers with what it answered
// at first.
type clients struct {
	answers atomic.Int64
	stop    func()
}

func askOn(t *testing.T, s *server) *clients {
	t.Helper()
	const seeds, tokens = 3, 30
	var want [seeds][]int
	for i := range want {
		var err error
		if want[i], err = s.complete(context.Background(), i, tokens); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	c := &clients{}
	go func() {
		defer close(done)
		for i := 0; ctx.Err() == nil; i++ {
			got, err := s.complete(ctx, i%seeds, tokens)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				t.Errorf("the server does not answer: %v", err)
				return
			}
			if !reflect.DeepEqual(got, want[i%seeds]) {
				t.Errorf("answer %d is %v, without probes %v", i, got, want[i%seeds])
				return
			}
			c.answers.Add(1)
		}
	}()
	c.stop = func() { cancel(); <-done }
	return c
}

// untouched fails the test where something of a recorder is left: probes and links, a stopped thread of the
// process, files in a folder of recordings but the recording.
func untouched(t *testing.T, pid int, dir string) {
	t.Helper()
	left := ""
	for range 250 { // the kernel takes the links of a process that was killed away by itself
		if left = probesLeft(t, pid); left == "" {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if left != "" {
		t.Errorf("left behind: %s", left)
	}
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, f := range tasks {
		b, _ := os.ReadFile(f)
		_, rest, _ := strings.Cut(string(b), ") ")
		if strings.HasPrefix(rest, "t") || strings.HasPrefix(rest, "T") {
			t.Errorf("a thread is stopped: %s", b)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.Name() != "run.pinf" {
			t.Errorf("left behind: %s", f.Name())
		}
	}
}

// sane fails the test where a recorder ended by a panic, or without a word.
func sane(t *testing.T, what string, cmd *exec.Cmd, said string) {
	t.Helper()
	status := cmd.ProcessState.ExitCode()
	if status == 0 {
		return
	}
	if status != 1 && status != 4 || strings.Contains(said, "goroutine ") || strings.TrimSpace(said) == "" {
		t.Errorf("%s: status %d: %s", what, status, said)
	}
}

// recorderInto starts a recording into a folder.
func recorderInto(t *testing.T, dir string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	said := &bytes.Buffer{}
	cmd := exec.Command(program, append([]string{"record", "-o", filepath.Join(dir, "run.pinf")}, args...)...)
	cmd.Stderr = said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, said
}

// A server that is attached to over and over, at any load and however the recorder ends, answers as without
// it, and nothing is left.
func TestSoakServer(t *testing.T) {
	testkit.Long(t)
	needBPF(t)
	random := testkit.Rand(t)
	s := startServer(t, "llama-tiny-vocab", "-t", "1")
	c := askOn(t, s)
	pid := fmt.Sprint(s.pid)
	t.Run("attaches", func(t *testing.T) {
		n, dir := soakRounds(t, 5, 3), t.TempDir()
		for i := range n {
			cmd, said := recorderInto(t, dir, "-p", pid, "--steps", fmt.Sprint(1+random.IntN(20)))
			if err := cmd.Wait(); err != nil {
				t.Fatalf("attach %d: %v\n%s", i, err, said)
			}
		}
		untouched(t, s.pid, dir)
		t.Logf("%d attaches", n)
	})
	t.Run("killed", func(t *testing.T) {
		n, dir := soakRounds(t, 100, 3), t.TempDir()
		for range n {
			cmd, _ := recorderInto(t, dir, "-p", pid)
			time.Sleep(time.Duration(random.IntN(1200)) * time.Millisecond)
			cmd.Process.Kill()
			cmd.Wait()
		}
		untouched(t, s.pid, dir)
		t.Logf("%d recorders killed", n)
	})
	t.Run("disk full", func(t *testing.T) {
		n, dir := soakRounds(t, 500, 1), t.TempDir()
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
			t.Skip("no tmpfs, and so no full disk: ", err)
		}
		t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
		for range n {
			cmd, said := recorderInto(t, dir, "-p", pid, "--two-hits")
			if cmd.Wait(); cmd.ProcessState.ExitCode() != 1 ||
				!strings.Contains(said.String(), "no space left") {
				t.Errorf("status %d: %s", cmd.ProcessState.ExitCode(), said)
			}
			load(t, filepath.Join(dir, "run.pinf"))
		}
		untouched(t, s.pid, dir)
		t.Logf("%d disks full", n)
	})
	t.Run("memory limit", func(t *testing.T) {
		n, dir := soakRounds(t, 250, 1), t.TempDir()
		ended := map[int]int{}
		for i := range n {
			group := limited(t, int64(8+8*(i%8))<<20)
			cmd := exec.Command("sh", "-c", `echo $$ > "$0" && exec "$@"`, group, program, "record", "-o",
				filepath.Join(dir, "run.pinf"), "-p", pid, "--steps", "20")
			said := &bytes.Buffer{}
			cmd.Stderr = said
			// below: the kernel killed it
			if err := cmd.Run(); err != nil && cmd.ProcessState.ExitCode() >= 0 {
				sane(t, "with little memory", cmd, said.String())
			}
			ended[cmd.ProcessState.ExitCode()]++
		}
		untouched(t, s.pid, dir)
		t.Logf("%d recorders with 8 to 64 MiB; by status: %v", n, ended)
	})
	c.stop()
	t.Logf("%d answers, each as without probes", c.answers.Load())
	if c.answers.Load() == 0 {
		t.Error("the server was not asked")
	}
}

// An engine that dies in every phase of being attached to: while it is looked at, probed, recorded. The
// recorder ends in good order.
func TestSoakDying(t *testing.T) {
	testkit.Long(t)
	needBPF(t)
	random := testkit.Rand(t)
	e := engines.Debian(t)
	_, inside := engines.Model(t, e, "llama-tiny")
	n, dir := soakRounds(t, 100, 4), t.TempDir()
	ended := map[int]int{}
	for i := range n {
		target := start(t, nil, e.Command("llama-bench", "-m", inside, "-t", "1", "-p", "0", "-n", "512",
			"-r", "100000")...)
		time.Sleep(time.Duration(random.IntN(400)) * time.Millisecond) // it loads, or computes
		cmd, said := recorderInto(t, dir, "-p", fmt.Sprint(target.Process.Pid))
		// attaching takes some 300 ms: over all of it, and a while of recording
		time.Sleep(time.Duration(600*i/n+random.IntN(50)) * time.Millisecond)
		syscall.Kill(-target.Process.Pid, syscall.SIGKILL)
		target.Wait()
		cmd.Wait()
		sane(t, fmt.Sprintf("round %d", i), cmd, said.String())
		ended[cmd.ProcessState.ExitCode()]++
	}
	untouched(t, os.Getpid(), dir)
	t.Logf("%d engines killed; recorders by status: %v", n, ended)
}
