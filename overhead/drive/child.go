// SPDX-License-Identifier: Apache-2.0

package drive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// child is a recorder or another program that attaches to the engine.
type child struct {
	cmd    *exec.Cmd
	out    tail
	errs   tail
	done   chan struct{}
	status int
	began  time.Time
	cpu    []sample
}

// sample is the CPU time that a process had used at some time, both in ns.
type sample struct{ at, cpu int64 }

// start starts a child in its own process group: an interrupt from the terminal is handled here, which then
// ends the children in order. The child dies with the calling thread, which the caller must lock.
func start(argv []string) (*child, error) {
	c := &child{cmd: exec.Command(argv[0], argv[1:]...), done: make(chan struct{}), began: time.Now()}
	c.cmd.Stdout, c.cmd.Stderr = &c.out, &c.errs
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	c.cmd.WaitDelay = time.Second // a grandchild may hold the pipes
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", argv[0], err)
	}
	go func() {
		defer close(c.done)
		err := c.cmd.Wait()
		c.status = c.cmd.ProcessState.ExitCode()
		if c.status == 0 && err != nil && !errors.Is(err, exec.ErrWaitDelay) {
			c.status = 1
		}
	}()
	return c, nil
}

// sample records the CPU time used so far.
func (c *child) sample(now int64) {
	if ns, ok := cpuTime(c.cmd.Process.Pid); ok {
		c.cpu = append(c.cpu, sample{now, ns})
	}
}

// end ends the child and waits for it; if it does not respond, it is killed. It does not use an interrupt: in
// a background job of a script interrupts are ignored, by children too.
func (c *child) end() {
	for _, s := range []struct {
		sig  syscall.Signal
		wait time.Duration
	}{{syscall.SIGTERM, 15 * time.Second}, {syscall.SIGKILL, 10 * time.Second}} {
		c.cmd.Process.Signal(s.sig)
		select {
		case <-c.done:
			return
		case <-time.After(s.wait):
		}
	}
}

func (c *child) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// failure is the child's output before it failed, nil if it succeeded.
func (c *child) failure() *RecorderError {
	if c.status == 0 {
		return nil
	}
	text := strings.TrimSpace(c.errs.String())
	text = strings.TrimPrefix(text, "profinfer: ")
	if text == "" {
		text = fmt.Sprintf("%s ended with status %d", c.cmd.Path, c.status)
		if ws, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			text = fmt.Sprintf("%s was ended by signal %d (%v)", c.cmd.Path, ws.Signal(), ws.Signal())
		}
	}
	return &RecorderError{Status: c.status, Text: text}
}

// cpuIn is the CPU time used between two times, ns, from the samples around them; -1 if unknown.
func (c *child) cpuIn(from, to int64) int64 {
	a, b := at(c.cpu, from), at(c.cpu, to)
	if a < 0 || b < a || to <= from {
		return -1
	}
	return b - a
}

// at interpolates; it returns -1 outside the samples.
func at(s []sample, t int64) int64 {
	for i := 1; i < len(s); i++ {
		p, q := s[i-1], s[i]
		if t >= p.at && t <= q.at && q.at > p.at {
			return p.cpu + int64(float64(q.cpu-p.cpu)*float64(t-p.at)/float64(q.at-p.at))
		}
	}
	return -1
}

// cpuTime is the CPU time used by all threads of a process, ns: its CPU clock, whose ID is derived from the
// PID (clock_getcpuclockid, include/linux/posix-timers_types.h: ~pid << 3 | CPUCLOCK_SCHED).
func cpuTime(pid int) (int64, bool) {
	const schedClock = 2
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|schedClock), &ts); err != nil {
		return 0, false
	}
	return ts.Nano(), true
}

// now is CLOCK_BOOTTIME, the clock of traces.
func now() int64 {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts)
	return ts.Nano()
}

// tail keeps the end of what is written to it. It is read after the writer has ended.
type tail struct{ b []byte }

const maxTail = 64 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if n := len(t.b) - maxTail; n > 0 {
		t.b = append(t.b[:0], t.b[n:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return string(bytes.ToValidUTF8(t.b, []byte("?"))) }

// sampleEvery is the sampling interval in all spans, with and without a recorder, so that its cost is the
// same.
const sampleEvery = 100 * time.Millisecond

// hold waits for d, sampling c (nil: none). It returns early, with false, when ctx is done or one of the
// others ends.
func hold(ctx context.Context, d time.Duration, c *child, ends ...<-chan struct{}) bool {
	var done [2]<-chan struct{}
	copy(done[:], ends)
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	over := time.NewTimer(d)
	defer over.Stop()
	var own <-chan struct{}
	if c != nil {
		own = c.done
	}
	for {
		select {
		case <-over.C:
			return true
		case <-own:
			return true
		case <-ctx.Done():
			return false
		case <-done[0]:
			return false
		case <-done[1]:
			return false
		case <-tick.C:
			if t := now(); c != nil {
				c.sample(t)
			}
		}
	}
}
