// SPDX-License-Identifier: Apache-2.0

package target

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// toStop is how long to wait for a thread that does not stop at once because it waits for a disk or a CPU.
const toStop = 200 * time.Millisecond

// Held is a stopped thread: the one that has just loaded a library, while probes are being set in it.
type Held struct {
	let   chan struct{} // closed: the thread is to continue
	once  sync.Once
	ended chan struct{} // closed: the thread continues
	since time.Time     // when it was asked to stop
	took  time.Duration // set when it continues
	late  bool
}

// holds are all holds of this process. While they are suspended there are none.
var holds struct {
	sync.Mutex
	all       map[*Held]bool
	suspended int
}

var errSuspended = errors.New("threads are not held now")

// Hold stops one thread of a process until it is released, at most for limit, whatever its caller does
// meanwhile. It uses ptrace rather than a signal: parents do not see it, and if profinfer is killed, the
// kernel lets the thread continue. born is a time since boot (ns) at which the process already existed, 0 if
// unknown.
//
// A thread that cannot be held is an error and keeps running: it is traced by another tracer, permission is
// missing, it has ended, or its ID has been reused.
func Hold(pid, tid int, born int64, limit time.Duration) (*Held, error) {
	h := &Held{let: make(chan struct{}), ended: make(chan struct{}), since: time.Now()}
	holds.Lock()
	if holds.suspended > 0 {
		holds.Unlock()
		return nil, errSuspended
	}
	if holds.all == nil {
		holds.all = make(map[*Held]bool)
	}
	holds.all[h] = true
	holds.Unlock()
	stopped := make(chan error, 1)
	// The tracer is an OS thread that is never unlocked: if the held thread is not detached below, the kernel
	// detaches it when the tracer ends.
	trace := func() {
		defer close(h.ended)
		runtime.LockOSThread()
		// Real-time priority where permitted, for this thread alone, which ends with the hold: it must not be
		// late on a busy machine.
		_ = unix.SchedSetAttr(0, &unix.SchedAttr{Policy: unix.SCHED_RR, Flags: unix.SCHED_FLAG_RESET_ON_FORK,
			Priority: 1}, 0)
		err := h.stop(pid, tid, born, min(limit, toStop))
		stopped <- err
		if err == nil {
			t := time.NewTimer(limit - time.Since(h.since))
			select {
			case <-h.let:
			case <-t.C:
				h.late = true
			}
			t.Stop()
		}
		detach(tid)
		h.took = time.Since(h.since)
		holds.Lock()
		delete(holds.all, h)
		holds.Unlock()
	}
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			trace()
			return
		}
		// The process's first thread never ends, so it would hold what it traces for ever. While it is kept
		// busy here, another one does the tracing.
		go trace()
		<-h.ended
		runtime.UnlockOSThread()
	}()
	if err := <-stopped; err != nil {
		<-h.ended
		return nil, fmt.Errorf("holding thread %d: %w", tid, err)
	}
	return h, nil
}

// Release lets the thread continue. It returns how long it was held, counted from the request to stop, and
// whether it had already continued by itself.
func (h *Held) Release() (took time.Duration, late bool) {
	h.once.Do(func() { close(h.let) })
	<-h.ended
	return h.took, h.late
}

// Over reports whether the thread has already continued, and whether by itself because the limit was reached.
func (h *Held) Over() (over, late bool) {
	select {
	case <-h.ended:
		return true, h.late
	default:
		return false, false
	}
}

// SuspendHolds releases all held threads and allows no holds until resume is called: this process is about to
// be stopped itself.
func SuspendHolds() (resume func()) {
	holds.Lock()
	holds.suspended++
	var all []*Held
	for h := range holds.all {
		all = append(all, h)
	}
	holds.Unlock()
	for _, h := range all {
		h.Release()
	}
	return sync.OnceFunc(func() {
		holds.Lock()
		holds.suspended--
		holds.Unlock()
	})
}

func (h *Held) stop(pid, tid int, born int64, within time.Duration) error {
	// These follow immediately after one another: between them a thread of a user without CAP_SYS_PTRACE
	// could execute a setuid program, which a traced process does without its privileges. After the second it
	// stops before it executes anything.
	if _, _, e := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(tid), 0, 0, 0, 0); e != 0 {
		return e
	}
	if _, _, e := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_INTERRUPT, uintptr(tid), 0, 0, 0, 0); e != 0 {
		return e
	}
	h.since = time.Now()
	// from here on its ID cannot be reused
	if _, err := os.Stat(fmt.Sprintf("/proc/%d/task/%d", pid, tid)); err != nil {
		return fmt.Errorf("it is no thread of process %d", pid)
	}
	if born != 0 {
		if at, err := StartTime(pid); err != nil || int64(at) > born {
			return fmt.Errorf("process %d is another one by now", pid)
		}
	}
	for time.Since(h.since) < within {
		if _, _, ok := stopOf(tid, unix.WNOHANG|unix.WNOWAIT); ok {
			return nil
		}
		select {
		case <-h.let:
			return errSuspended
		case <-time.After(50 * time.Microsecond):
		}
	}
	return errors.New("it did not stop")
}

// stopOf returns the ptrace stop of a thread: its signal and event. It never consumes an exit, which belongs
// to whoever waits for the process.
func stopOf(tid, flags int) (sig, event int, ok bool) {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, tid, &info, unix.WSTOPPED|unix.WALL|flags, nil)
	b := (*[unsafe.Sizeof(info)]byte)(unsafe.Pointer(&info))
	pid := *(*int32)(unsafe.Pointer(&b[16])) // si_pid, si_uid, si_status: include/uapi/asm-generic/siginfo.h
	if err != nil || pid == 0 {
		return 0, 0, false
	}
	st := *(*int32)(unsafe.Pointer(&b[24]))
	return int(st & 0xff), int(st >> 8), true
}

func detach(tid int) {
	sig, event, ok := stopOf(tid, unix.WNOHANG)
	if !ok {
		return // this thread's end detaches it
	}
	if event != 0 {
		sig = 0 // ptrace's own; any other stop is a signal that is being delivered, SIGTRAP among them
	}
	// PTRACE_DETACH with a signal, which the library function does not offer
	unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_DETACH, uintptr(tid), 0, uintptr(sig), 0, 0)
}
