// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/target"
)

// A page of a process's arguments whose server never answers: reading its memory waits for ever, so it is
// done aside; of its command line the kernel gives what is there (what is mapped from a file it does not read
// since 4.17, and it does not wait for userfaultfd), and should one wait, it is left after a while.
func TestLostPage(t *testing.T) {
	if os.Getenv("PROFINFER_TEST_HUNG") != "" {
		if page, err := loseArguments(); err != nil {
			fmt.Println("-", err)
		} else {
			fmt.Println("+", page)
		}
		time.Sleep(time.Minute)
		os.Exit(0)
	}
	c := exec.Command(os.Args[0], "-test.run", "^TestLostPage$", strings.Repeat("x", 20000))
	c.Env = append(os.Environ(), "PROFINFER_TEST_HUNG=1")
	out, _ := c.StdoutPipe()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Wait()
	defer c.Process.Kill()
	line, err := bufio.NewReader(out).ReadString('\n')
	var page uint64
	if _, serr := fmt.Sscanf(line, "+ %d", &page); serr != nil {
		t.Skipf("userfaultfd cannot be used here: %q, %v", line, err)
	}
	mute := false
	words, err := cmdline(c.Process.Pid, &mute)
	if (len(words) != 4 || err != nil) && !errors.Is(err, errHangs) {
		t.Errorf("command line: %d words, %v", len(words), err)
	}
	mute = true
	if _, err := cmdline(c.Process.Pid, &mute); !errors.Is(err, errHangs) {
		t.Errorf("asked again: %v", err)
	}
	read := make(chan error, 1)
	go func() { read <- target.ReadMem(c.Process.Pid, page, make([]byte, 8)) }()
	select {
	case err := <-read:
		t.Errorf("reading the page does not wait here: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	c.Process.Kill()
	<-read
}

// loseArguments leaves a page of this process's arguments to a server of memory that never answers.
func loseArguments() (page uintptr, err error) {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0, err
	}
	f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	start, _ := strconv.ParseUint(f[48-3], 10, 64) // arg_start, see proc_pid_stat(5)
	page = (uintptr(start) + 2*4096) &^ 4095       // behind what else lies in the first one
	fd, _, e := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC, 0, 0)
	if e != 0 {
		return 0, e
	}
	api := [3]uint64{0xaa}
	register := [4]uint64{uint64(page), 4096, 1} // of missing pages
	const uffdioAPI, uffdioRegister = 0xc018aa3f, 0xc020aa00
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, fd, uffdioAPI, uintptr(unsafe.Pointer(&api))); e != 0 {
		return 0, e
	}
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, fd, uffdioRegister,
		uintptr(unsafe.Pointer(&register))); e != 0 {
		return 0, e
	}
	if _, _, e := unix.Syscall(unix.SYS_MADVISE, page, 4096, unix.MADV_DONTNEED); e != 0 {
		return 0, e
	}
	return page, nil
}

// hanging is an engine whose processes cannot be looked at until they are let.
type hanging struct{ let chan bool }

func (h hanging) Plan(int, []target.Mapping) (*engine.Plan, error) {
	<-h.let
	return nil, errors.New("no engine")
}
func (h hanging) Dull(int, target.Mapping) bool { return false }
func (h hanging) Backends(int, *engine.Plan, uint64) ([]engine.File, []engine.Site, error) {
	return nil, nil, nil
}

// What takes long is taken up when it is done; of what never is, a bounded number is waited for.
func TestAside(t *testing.T) {
	h := hanging{make(chan bool)}
	r := &recorder{engine: h, ctx: context.Background(), later: make(chan func() error),
		closed: make(chan struct{}), schedules: newScheduling(),
		procs: map[int]*process{}, dirty: map[int]bool{}, soon: time.Millisecond}
	defer close(r.closed)
	taken := 0
	for pid := 1; pid <= maxAside+10; pid++ {
		p := newProcess(pid)
		r.procs[pid] = p
		if err := r.look(p, func(*engine.Plan, error) error { taken++; return nil }); err != nil {
			t.Fatal(err)
		}
		if p.lookup != errHangs {
			t.Fatalf("process %d: %v", pid, p.lookup)
		}
	}
	if taken != 0 || r.waiting != maxAside {
		t.Errorf("%d are done, %d waited for", taken, r.waiting)
	}
	delete(r.procs, 1) // it has ended meanwhile
	r.procs[2].again = true
	*r.procs[3] = *newProcess(3) // it has executed another program
	r.procs[4].failed = errors.New("it is not recorded any more")
	close(h.let)
	for range maxAside {
		if err := (<-r.later)(); err != nil {
			t.Fatal(err)
		}
	}
	if taken != maxAside-3 || r.waiting != 0 {
		t.Errorf("%d are done, %d waited for", taken, r.waiting)
	}
	// and those for which there were too many
	if !r.dirty[2] || len(r.dirty) != 11 || r.dirty[3] || !r.dirty[maxAside+1] {
		t.Errorf("%v are to be looked at again", r.dirty)
	}
}
