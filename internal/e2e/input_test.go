// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/profinfer/profinfer/internal/engines"
)

// manyEvents are more than can be read at a hit; every machine counts them.
func manyEvents() string {
	var all []string
	for _, e := range []string{"context-switches", "cpu-migrations", "page-faults", "minor-faults",
		"major-faults", "alignment-faults", "emulation-faults", "cpu-clock", "task-clock"} {
		all = append(all, e, e+":u", e+":k")
	}
	return strings.Join(all, ",")
}

// What goes wrong is told with the exit status as designed.
func TestStatuses(t *testing.T) {
	needBPF(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return p
	}
	out := filepath.Join(dir, "out.pinf")
	for _, c := range []struct {
		name   string
		args   []string
		status int
		says   string
	}{
		{"nothing to do", []string{"record"}, 2, "-- COMMAND or -p PID"},
		{"a wrong flag", []string{"stat", "--frobnicate"}, 2, "frobnicate"},
		{"an unknown verb", []string{"frobnicate"}, 2, "frobnicate"},
		{"more counters than can be read", []string{"record", "-o", out, "-e", manyEvents(), "--", "true"}, 2,
			"at most 16"},
		{"slow steps with a peak", []string{"stat", "--slow", "--peak-bandwidth", "20"}, 2,
			"--slow compares steps"},
		{"slow steps without peaks", []string{"stat", "--slow", "--no-peaks"}, 2, "--slow compares steps"},
		{"several recordings with a peak", []string{"stat", "-i", "a", "-i", "b", "--peak-flops", "250"}, 2,
			"several recordings"},
		{"a wrong level", []string{"record", "--level", "all", "--", "true"}, 2, "step, graph or op"},
		{"a wrong grouping", []string{"stat", "--by", "colour"}, 2, "colour"},
		{"no format", []string{"export"}, 2, "--format"},
		{"an unknown table", []string{"export", "--format", "csv", "--table", "chairs"}, 2, "chairs"},
		{"a table for pprof", []string{"export", "--format", "pprof", "--table", "ops"}, 2,
			"pprof takes the whole recording"},
		{"an unknown model", []string{"demo", "--model", "gpt-9"}, 2, "gemma2-2b"},
		{"a type that models are not made in", []string{"demo", "--model", "llama-tiny", "--type", "q4_1"}, 2,
			"f16, q8_0, q4_0, mixed"},
		{"a type of no model", []string{"demo", "--type", "f16"}, 2, "--model"},
		{"a colour of no graph", []string{"export", "--format", "pprof", "--color", "share"}, 2,
			"--format dot"},
		{"an unknown colour", []string{"export", "--format", "dot", "--color", "red"}, 2,
			"share, bandwidth, none"},
		{"a graph of no phase", []string{"export", "--format", "dot", "--phase", "dawn"}, 2, "dawn"},
		{"an export over the recording",
			[]string{"export", "--format", "pprof", "-i", write("same", "x"), "-o",
				dir + "/same"}, 2, "the recording itself"},
		{"no ggml in the command", []string{"record", "-o", out, "--", "sleep", "0.1"}, 4, "sleep"},
		{"no ggml in children", []string{"record", "-o", out, "--", "sh", "-c", "sleep 0.1; exit 7"}, 4,
			"status 7"},
		{"no ggml in a process", []string{"record", "-o", out, "-p", fmt.Sprint(os.Getpid())}, 4,
			"ggml_op_name"},
		{"no ggml in a process beside a command",
			[]string{"record", "-o", out, "-p", fmt.Sprint(os.Getpid()), "--", "touch",
				dir + "/started"}, 4, "ggml_op_name"},
		{"no such process beside a command",
			[]string{"record", "-o", out, "-p", "4194000", "--", "touch", dir + "/started"}, 1, "4194000"},
		{"no such process", []string{"record", "-o", out, "-p", "4194000"}, 1, "4194000"},
		{"no such command", []string{"record", "-o", out, "--", "frobnicate-it"}, 127, "not found"},
		{"nowhere to write", []string{"record", "-o", dir + "/none/out.pinf", "--", "true"}, 1,
			"none/out.pinf"},
		{"no trace there", []string{"stat", "-i", dir + "/none.pinf"}, 1, "none.pinf"},
		{"no trace but text", []string{"stat", "-i", write("text", "hello, world\n")}, 1,
			"not a profinfer trace"},
		{"an empty file", []string{"stat", "-i", write("empty", "")}, 1, "empty"},
		{"a folder", []string{"stat", "-i", dir}, 1, dir},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := profinfer(t, c.args...)
			if r.status != c.status || !strings.Contains(r.stderr, c.says) {
				t.Errorf("status %d, want %d; it says\n%swant it to say %q", r.status, c.status, r.stderr,
					c.says)
			}
			if strings.Contains(r.stderr, "goroutine") {
				t.Errorf("it panics:\n%s", r.stderr)
			}
			if _, err := os.Stat(out); err == nil {
				t.Error("it leaves a recording of nothing")
				os.Remove(out)
			}
			if _, err := os.Stat(dir + "/started"); err == nil {
				t.Error("it started the command for nothing")
			}
		})
	}
}

// The command's own status is passed on where something was recorded, and wrappers are seen through.
func TestWrappers(t *testing.T) {
	e := engines.Debian(t)
	_, inside := engines.Model(t, e, "llama-tiny")
	needBPF(t)
	bench := strings.Join(e.Command("llama-bench", "-m", inside, "-t", "1", "-p", "8", "-n", "8", "-r", "1"),
		" ")
	for name, argv := range map[string][]string{
		"sh":       {"sh", "-c", bench + "; exit 9"},
		"env":      {"env", "A=B", "sh", "-c", bench + " && exit 9"},
		"twice":    {"sh", "-c", "(" + bench + ") & " + bench + "; wait; exit 9"},
		"a detour": {"setsid", "-w", "sh", "-c", "sh -c '" + bench + "'; exit 9"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "run.pinf")
			var got *run
			for try := 1; ; try++ {
				r := profinfer(t, append([]string{"record", "-o", path, "--"}, argv...)...)
				// That a short engine computes before its probes stand happens now and then, and is told: not
				// what is asked here.
				if r.status == 1 && try < 3 {
					t.Logf("again: %s", r.stderr)
					continue
				}
				if r.status != 9 {
					t.Fatalf("status %d\n%s", r.status, r.stderr)
				}
				if got = load(t, path); len(got.flaws()) == 0 || try == 3 {
					break
				}
				t.Logf("again, as something was not seen: %s", got.flaws()[0])
			}
			pids := map[int32]int{}
			for _, s := range got.steps {
				pids[s.PID]++
			}
			want, told := 1, 0
			if name == "twice" {
				// Two begin at once: one can compute while the other's probes are set, and end before. What
				// is missed is told.
				want = 2
				for _, l := range got.header.Losses {
					if l.What == "processes" {
						told++
					}
				}
			} else {
				got.lossless(t)
			}
			if len(pids) == 0 || len(pids) > want || len(pids)+told < want {
				t.Errorf("steps by process: %v, want %d processes; %d are told of", pids, want, told)
			}
			for pid, n := range pids {
				// 8 tokens, prefill and warm-up of each; at most the first may be missed
				if n != 12 && n != 11 {
					t.Logf("process %d: %d steps", pid, n)
				}
			}
		})
	}
}

// launched waits until a recorder has begun its command.
func launched(t *testing.T, recorder int, comm string) {
	t.Helper()
	within(t, time.Minute, comm+" beside the recorder", func() bool {
		return exec.Command("pgrep", "-P", strconv.Itoa(recorder), "-x", comm).Run() == nil
	})
}

// An interrupt ends the recording in good order and reaches the command.
func TestInterrupt(t *testing.T) {
	needBPF(t)
	e := engines.Debian(t)
	_, inside := engines.Model(t, e, "llama-tiny")
	path := filepath.Join(t.TempDir(), "run.pinf")
	cmd := exec.Command(program, append([]string{"record", "-o", path, "--"},
		e.Command("llama-bench", "-m", inside, "-t", "1", "-p", "0", "-n", "4000", "-r", "50")...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	recorded(t, path)
	syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) // as from a terminal: the whole group
	cmd.Wait()
	r := load(t, path)
	// whichever the recorder hears of first: the interrupt, or that it ended the command
	ends := map[string]int{"interrupted": 0, "the command ended": 130}
	if r.header.End == nil || len(r.steps) < 10 {
		t.Errorf("end %+v, %d steps", r.header.End, len(r.steps))
	} else if want, ok := ends[r.header.End.Reason]; !ok || cmd.ProcessState.ExitCode() != want {
		t.Errorf("end %+v, status %d", r.header.End, cmd.ProcessState.ExitCode())
	}
	whole(t, r)

	cmd = exec.Command(program, "record", "-o", path, "--", "sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	launched(t, cmd.Process.Pid, "sleep")
	syscall.Kill(-cmd.Process.Pid, syscall.SIGINT)
	cmd.Wait()
	if st := cmd.ProcessState.ExitCode(); st != 130 {
		t.Errorf("interrupted before anything was recorded: status %d", st)
	}
}

// The target dies in the middle: what was recorded is there, and the status is the command's.
func TestTargetKilled(t *testing.T) {
	needBPF(t)
	s := startServer(t, "llama-tiny-vocab", "-t", "1")
	path := filepath.Join(t.TempDir(), "run.pinf")
	done := make(chan result)
	go func() {
		done <- profinfer(t, "record", "-p", fmt.Sprint(s.pid), "--overhead-budget", "none", "-o", path)
	}()
	go func() {
		for i := range 1000 {
			if _, err := s.complete(t.Context(), i, 100); err != nil {
				return
			}
		}
	}()
	recorded(t, path)
	syscall.Kill(s.pid, syscall.SIGKILL)
	r := <-done
	if r.status != 0 {
		t.Errorf("status %d: %s", r.status, r.stderr)
	}
	got := load(t, path)
	if len(got.steps) == 0 || got.header.End == nil || len(got.header.Exits) != 1 {
		t.Errorf("%d steps, end %+v, exits %v", len(got.steps), got.header.End, got.header.Exits)
	}
	whole(t, got)
}

// A full disk ends the recording, not the command; what was written is whole.
func TestFullDisk(t *testing.T) {
	needBPF(t)
	e := engines.Debian(t)
	_, inside := engines.Model(t, e, "llama-tiny")
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Fatal("no tmpfs, and so no full disk: ", err)
	}
	defer syscall.Unmount(dir, syscall.MNT_DETACH)
	path := filepath.Join(dir, "run.pinf")
	r := profinfer(t, append([]string{"record", "-o", path, "--"},
		e.Command("llama-bench", "-m", inside, "-t", "1", "-p", "0", "-n", "4000", "-r", "1")...)...)
	if r.status != 1 || !strings.Contains(r.stderr, "no space left") ||
		!strings.Contains(r.stderr, "status 0") {
		t.Errorf("status %d: %s", r.status, r.stderr)
	}
	if !strings.Contains(r.stdout, "tg4000") {
		t.Errorf("the command did not end by itself:\n%s", r.stdout)
	}
	if got := load(t, path); len(got.steps) == 0 {
		t.Error("nothing is readable")
	}
}
