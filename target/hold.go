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

// toStop is how long a thread is waited for that does not stop at once: one that waits for a disk, or for a
// CPU.
const toStop = 200 * time.Millisecond

// Held is a thread that is stopped: the one that has just loaded a library, while its probes are set.
type Held struct {
	let   chan struct{} // closed: it is to go on
	once  sync.Once
	ended chan struct{} // closed: it goes on
	since time.Time     // when it was asked to stop
	took  time.Duration // set when it goes on
	late  bool
}

// holds are all of this process. While they are suspended there are none.
var holds struct {
	sync.Mutex
	all       map[*Held]bool
	suspended int
}

var errSuspended = errors.New("threads are not held now")

// Hold stops one thread of a process until it is released, at most for limit, whatever its caller does
// meanwhile. It is done with ptrace rather than a signal: parents do not see it, and should profinfer be
// killed, the kernel lets the thread go on. born is a time since boot (ns) at which the process was there
// already, 0 if none is known.
//
// A thread that cannot be held (it is being traced by another, it is not permitted, it has ended, its number
// is another's by now) is an error and runs on.
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
	// The tracer is a thread. It is not given back: should the thread not be detached below, the kernel
	// does it at the tracer's end.
	trace := func() {
		defer close(h.ended)
		runtime.LockOSThread()
		// Where it is permitted, and for this thread alone, which ends with the hold: on a busy machine it is
		// not to come late.
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
		// The process's first thread never ends, so what it traces it would hold for ever. While
		// it is kept busy here, another one does it.
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

// Release lets the thread go on. It returns how long it was held, from when it was asked to stop, and whether
// it went on before, by itself.
func (h *Held) Release() (took time.Duration, late bool) {
	h.once.Do(func() { close(h.let) })
	<-h.ended
	return h.took, h.late
}

// Over tells that the thread goes on already, and whether by itself, as the limit was reached.
func (h *Held) Over() (over, late bool) {
	select {
	case <-h.ended:
		return true, h.late
	default:
		return false, false
	}
}

// SuspendHolds lets all threads that are held go on and holds none until resume is called: this process is
// about to be stopped itself.
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
	// One right after the other: between them a thread of a user without CAP_SYS_PTRACE could execute a
	// setuid program, which a traced one does without its privileges. From the second on it stops before it
	// executes anything.
	if _, _, e := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(tid), 0, 0, 0, 0); e != 0 {
		return e
	}
	if _, _, e := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_INTERRUPT, uintptr(tid), 0, 0, 0, 0); e != 0 {
		return e
	}
	h.since = time.Now()
	// its number cannot be used again from here on
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

// stopOf returns the ptrace stop of a thread: its signal and event. It never takes an exit, which
// belongs to the one who waits for the process.
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
		return // the end of this thread detaches it
	}
	if event != 0 {
		sig = 0 // ptrace's own; any other stop is a signal that is being delivered, SIGTRAP among them
	}
	// PTRACE_DETACH with a signal, which the library's call does not offer
	unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_DETACH, uintptr(tid), 0, uintptr(sig), 0, 0)
}
