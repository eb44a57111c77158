// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/profinfer/profinfer/internal/engines"
	"github.com/profinfer/profinfer/internal/hungfs"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/target"
	"github.com/profinfer/profinfer/trace"
)

// serving is an engine that computes until it is told to map a file.
type serving struct {
	cmd  *exec.Cmd
	out  bytes.Buffer
	tell string // the file that lets it
	done chan error
}

// serveUntilTold starts one, in Debian's root, which maps a file given as the root names it.
func serveUntilTold(t *testing.T, file func(root string) string) *serving {
	t.Helper()
	e := engines.Debian(t)
	needBPF(t)
	dir, err := os.MkdirTemp(filepath.Join(e.Root, "tmp"), "holds")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	throwing(t, filepath.Join(dir, "engine"))
	_, inside := engines.Model(t, e, "llama-tiny")
	in := strings.TrimPrefix(dir, e.Root)
	s := &serving{tell: filepath.Join(dir, "go"), done: make(chan error, 1)}
	path := file(dir)
	s.cmd = exec.Command("chroot", e.Root, in+"/engine", inside, "libggml-base.so.0", "libggml.so.0",
		"libllama.so.0")
	s.cmd.Env = append(os.Environ(), "THROWS_MAP="+strings.TrimPrefix(path, e.Root), "THROWS_GO="+in+"/go")
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { s.done <- s.cmd.Wait() }()
	t.Cleanup(func() { s.cmd.Process.Kill() })
	return s
}

func (s *serving) pid() int { return s.cmd.Process.Pid }

// ended waits for it and returns how long its thread was held.
func (s *serving) ended(t *testing.T) (held time.Duration) {
	t.Helper()
	select {
	case err := <-s.done:
		if err != nil {
			t.Fatalf("the engine did not run on: %v\n%s", err, &s.out)
		}
	case <-time.After(time.Minute):
		t.Fatalf("the engine does not go on\n%s", &s.out)
	}
	var ms float64
	var n int
	if _, err := fmt.Sscanf(s.out.String(), "mapped, longest pause %f ms, computed %d", &ms, &n); err != nil {
		t.Fatalf("%v: %s", err, &s.out)
	}
	return time.Duration(ms * float64(time.Millisecond))
}

// recorder is profinfer at work.
type recorder struct {
	cmd  *exec.Cmd
	errs bytes.Buffer
	done chan error
}

func attach(t *testing.T, path string, pid int, flags ...string) *recorder {
	t.Helper()
	r := &recorder{cmd: exec.Command("env",
		append([]string{"--default-signal=TSTP,INT", program, "record", "-o", path, "-p", fmt.Sprint(pid)},
			flags...)...), done: make(chan error, 1)}
	r.cmd.Stderr = &r.errs
	// as a shell does: else a terminal's stop does not stop it
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { r.done <- r.cmd.Wait() }()
	t.Cleanup(func() { r.cmd.Process.Kill() })
	return r
}

func (r *recorder) ends(t *testing.T, within time.Duration) error {
	t.Helper()
	select {
	case err := <-r.done:
		return err
	case <-time.After(within):
		t.Fatalf("the recorder does not end\n%s", &r.errs)
		return nil
	}
}

// recorded waits until some steps can be read in a recording that is being written.
func recorded(t testing.TB, path string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for ; time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		rd, err := trace.Open(path)
		if err != nil {
			continue
		}
		r := &run{}
		profile.Replay(rd, r) // it may be torn
		rd.Close()
		if len(r.steps) > 10 {
			return
		}
	}
	t.Fatal("nothing is recorded")
}

// hung gives a library whose contents never come.
func hung(t *testing.T, out **hungfs.FS) func(root string) string {
	return func(root string) string {
		dir, err := hungfs.Folder(root)
		if err != nil {
			t.Fatal(err)
		}
		fs, err := hungfs.Mount(dir)
		if err != nil {
			t.Skip(err)
		}
		t.Cleanup(func() { fs.Close() })
		if out != nil {
			*out = fs
		}
		return fs.Path()
	}
}

// A library that lies where nobody answers holds the engine for 200 ms at most; the recording goes on, tells
// it, and ends by ctrl-C.
func TestHoldHung(t *testing.T) {
	var fs *hungfs.FS
	s := serveUntilTold(t, hung(t, &fs))
	path := filepath.Join(t.TempDir(), "run.pinf")
	r := attach(t, path, s.pid())
	recorded(t, path)
	if err := os.WriteFile(s.tell, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	held := s.ended(t)
	if fs.Waiting() == 0 {
		t.Error("the library was not read")
	}
	if err := r.ends(t, 30*time.Second); err != nil { // as its process has ended
		t.Errorf("%v\n%s", err, &r.errs)
	}
	run := load(t, path)
	last := run.steps[len(run.steps)-1]
	if len(run.steps) < 60 || last.Incomplete != "" {
		t.Errorf("%d steps, the last %q", len(run.steps), last.Incomplete)
	}
	holds := run.header.Meta.Extra["holds"]
	if !strings.Contains(holds, "1 of them late") {
		t.Errorf("the recording tells of holds: %q", holds)
	}
	var notes strings.Builder
	notes.WriteString(strings.Join(run.header.Meta.Notes, "\n"))
	for _, p := range run.header.Processes {
		notes.WriteString("\n" + strings.Join(p.Warnings, "\n"))
	}
	if !strings.Contains(notes.String(), "was let go after") {
		t.Errorf("notes %q", notes.String())
	}
	t.Logf("held for %v; %s", held, holds)
}

// With a read that hangs, ctrl-C ends the recording, in good order.
func TestHoldHungInterrupted(t *testing.T) {
	var fs *hungfs.FS
	s := serveUntilTold(t, hung(t, &fs))
	path := filepath.Join(t.TempDir(), "run.pinf")
	r := attach(t, path, s.pid())
	recorded(t, path)
	if err := os.WriteFile(s.tell, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); fs.Waiting() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the library was not read")
		}
	}
	r.cmd.Process.Signal(syscall.SIGINT)
	if err := r.ends(t, 20*time.Second); err != nil {
		t.Errorf("%v\n%s", err, &r.errs)
	}
	s.ended(t)
	if n := len(load(t, path).steps); n < 5 {
		t.Errorf("%d steps", n)
	}
}

// ctrl-Z stops the recorder, the engine goes on, and so does the recording when it is continued.
func TestSuspend(t *testing.T) {
	s := serveUntilTold(t, func(root string) string { return filepath.Join(root, "engine") })
	path := filepath.Join(t.TempDir(), "run.pinf")
	r := attach(t, path, s.pid())
	recorded(t, path)
	r.cmd.Process.Signal(syscall.SIGTSTP)
	await := func(want byte) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			st, err := target.ReadStat(r.cmd.Process.Pid)
			if err == nil && (st.State == 'T') == (want == 'T') {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("state %c, %v", st.State, err)
			}
		}
	}
	await('T')
	for _, tid := range []int{s.pid()} {
		if st, _ := target.ReadStat(tid); st.State == 't' {
			t.Error("a thread is held by a recorder that is stopped")
		}
	}
	r.cmd.Process.Signal(syscall.SIGCONT)
	await('S')
	r.cmd.Process.Signal(syscall.SIGINT)
	if err := r.ends(t, 20*time.Second); err != nil {
		t.Errorf("%v\n%s", err, &r.errs)
	}
	if n := len(load(t, path).steps); n < 5 {
		t.Errorf("%d steps", n)
	}
}

// Where nobody reads what it writes to the terminal, the first ctrl-C is in vain, the second ends the
// recorder at once, and the engine goes on.
func TestStalledOutput(t *testing.T) {
	s := serveUntilTold(t, hung(t, nil))
	path := filepath.Join(t.TempDir(), "run.pinf")
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pipe[0])
	for full := make([]byte, 1); ; {
		if _, err := unix.Write(pipe[1], full); err != nil {
			break
		}
	}
	if err := unix.SetNonblock(pipe[1], false); err != nil {
		t.Fatal(err)
	}
	stderr := os.NewFile(uintptr(pipe[1]), "stderr")
	defer stderr.Close()
	r := &recorder{cmd: exec.Command("env", "--default-signal=INT", program, "record", "-o", path, "-p",
		fmt.Sprint(s.pid())), done: make(chan error, 1)}
	r.cmd.Stderr = stderr
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { r.done <- r.cmd.Wait() }()
	t.Cleanup(func() { r.cmd.Process.Kill() })
	recorded(t, path)
	if err := os.WriteFile(s.tell, nil, 0o644); err != nil { // it will have something to say
		t.Fatal(err)
	}
	stuck := func() bool {
		tids, _ := target.Threads(r.cmd.Process.Pid)
		for _, tid := range tids {
			c, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/syscall", r.cmd.Process.Pid, tid))
			if strings.HasPrefix(string(c), fmt.Sprintf("%d 0x2 ", unix.SYS_WRITE)) {
				return true
			}
		}
		return false
	}
	for deadline := time.Now().Add(40 * time.Second); !stuck(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it has nothing to say")
		}
	}
	r.cmd.Process.Signal(syscall.SIGINT)
	select {
	case err := <-r.done:
		t.Fatalf("it did not wait for its output: %v", err)
	case <-time.After(500 * time.Millisecond):
	}
	r.cmd.Process.Signal(syscall.SIGINT)
	err := r.ends(t, 10*time.Second)
	if st, ok := r.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !st.Signaled() ||
		st.Signal() != syscall.SIGINT {
		t.Errorf("%v", err)
	}
	s.ended(t)
}

// limits that a thread may be held for, with what a busy machine adds.
const (
	servingLimit = 250 * time.Millisecond
	ownLimit     = 2100 * time.Millisecond
)

var longestHold = regexp.MustCompile(`^(\d+), (\d+) of them late, the longest ([0-9.]+) ms$`)

// holdOf reads what a recording tells of its holds.
func holdOf(t *testing.T, path string) (number int, longest time.Duration) {
	t.Helper()
	m := longestHold.FindStringSubmatch(load(t, path).header.Meta.Extra["holds"])
	if m == nil {
		t.Fatalf("no holds are told of: %q", load(t, path).header.Meta.Extra["holds"])
	}
	n, _ := strconv.Atoi(m[1])
	ms, _ := strconv.ParseFloat(m[3], 64)
	return n, time.Duration(ms * float64(time.Millisecond))
}

// No launch of llama-bench is held longer than is allowed: PROFINFER_HOLD_LAUNCHES of them, else 3.
func TestHoldLaunches(t *testing.T) {
	e := engines.Debian(t)
	_, inside := engines.Model(t, e, "llama-tiny")
	n, _ := strconv.Atoi(os.Getenv("PROFINFER_HOLD_LAUNCHES"))
	var longest time.Duration
	for range max(n, 3) {
		path := record(t, nil, e.Command("llama-bench", "-m", inside, "-p", "8", "-n", "8", "-r", "1", "-t",
			"1")...)
		_, l := holdOf(t, path)
		longest = max(longest, l)
	}
	t.Logf("%d launches: a thread was held for %v at most", max(n, 3), longest)
	if longest > ownLimit {
		t.Errorf("held for %v", longest)
	}
}

// No library that is made to take long holds an engine that serves longer than is allowed: those of the
// folder PROFINFER_HOLD_LIBRARIES, else one that is large.
func TestHoldCrafted(t *testing.T) {
	dir := os.Getenv("PROFINFER_HOLD_LIBRARIES")
	if dir == "" {
		dir = t.TempDir()
		b := make([]byte, 64<<20) // no ELF file, but one has to look
		copy(b, "\x7fELF\x02\x01\x01")
		if err := os.WriteFile(filepath.Join(dir, "large"), b, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		t.Run(f.Name(), func(t *testing.T) {
			s := serveUntilTold(t, func(root string) string {
				if b, err := exec.Command("cp", "--sparse=always", filepath.Join(dir, f.Name()),
					root).CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, b)
				}
				return filepath.Join(root, f.Name())
			})
			path := filepath.Join(t.TempDir(), "run.pinf")
			r := attach(t, path, s.pid())
			recorded(t, path)
			if err := os.WriteFile(s.tell, nil, 0o644); err != nil {
				t.Fatal(err)
			}
			felt := s.ended(t)
			if err := r.ends(t, time.Minute); err != nil {
				t.Errorf("%v\n%s", err, &r.errs)
			}
			n, longest := holdOf(t, path)
			t.Logf("held for %v (%d holds); the thread felt %v", longest, n, felt)
			if longest > servingLimit {
				t.Errorf("held for %v", longest)
			}
		})
	}
}
