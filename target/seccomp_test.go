// SPDX-License-Identifier: Apache-2.0

package target

import (
	"os"
	"os/exec"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A filter of any one thread counts, also of one that is not the first.
func TestSeccomp(t *testing.T) {
	if os.Getenv("PROFINFER_TEST_FILTERED") != "" {
		filtered() // of one thread
		return
	}
	c := exec.Command("sleep", "60")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Wait()
	defer c.Process.Kill()
	own, _, err := seccompMode(os.Getpid(), os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Seccomp(c.Process.Pid); err != nil || got != (own != "0") {
		t.Errorf("a process without a filter of its own: %v, %v; this one's mode is %q", got, err, own)
	}
	f := exec.Command(os.Args[0], "-test.run", "^TestSeccomp$")
	f.Env = append(os.Environ(), "PROFINFER_TEST_FILTERED=1")
	in, _ := f.StdinPipe()
	out, _ := f.StdoutPipe()
	if err := f.Start(); err != nil {
		t.Fatal(err)
	}
	defer f.Wait()
	defer in.Close()
	var b [1]byte
	if _, err := out.Read(b[:]); err != nil || b[0] != '+' {
		t.Skipf("no filter could be set here: %q, %v", b[:], err)
	}
	if got, err := Seccomp(f.Process.Pid); err != nil || !got {
		t.Errorf("a process with a filter on one of its threads: %v, %v", got, err)
	}
	if _, err := Seccomp(1 << 22); err == nil {
		t.Error("a process that does not exist")
	}
}

// filtered sets a filter that allows everything, on a thread other than the first, and waits for standard
// input to end.
func filtered() {
	done := make(chan bool)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			go func() { runtime.LockOSThread(); done <- allowAll(); select {} }()
			select {}
		}
		done <- allowAll()
		select {}
	}()
	if <-done {
		os.Stdout.WriteString("+")
	} else {
		os.Stdout.WriteString("-")
	}
	var b [1]byte
	os.Stdin.Read(b[:])
	os.Exit(0)
}

func allowAll() bool {
	filter := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}}
	prog := unix.SockFprog{Len: 1, Filter: &filter[0]}
	if unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != nil {
		return false
	}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)), 0,
		0) == nil
}
