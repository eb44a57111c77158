// SPDX-License-Identifier: Apache-2.0

package target

import (
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ptraceEventStop is PTRACE_EVENT_STOP: the stop that PTRACE_INTERRUPT asked for.
const ptraceEventStop = 128

// Hold stops one thread until release is called: the thread that has just loaded a library,
// while its probes are set. It is done with ptrace rather than a signal: parents do not see it, and
// should profinfer be killed meanwhile, the kernel lets the thread go on.
//
// A thread that cannot be held (it is being traced by another, it is not permitted, it has ended) is an error
// and runs on.
func Hold(tid int) (release func(), err error) {
	stopped := make(chan error, 1)
	done := make(chan struct{})
	ended := make(chan struct{})
	// The tracer is a thread. It is not given back: should the thread not be detached below, the kernel
	// does it at the tracer's end.
	trace := func() {
		defer close(ended)
		runtime.LockOSThread()
		stopped <- holdThread(tid)
		<-done
		detach(tid)
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
		<-ended
		runtime.UnlockOSThread()
	}()
	release = func() {
		close(done)
		<-ended
	}
	if err := <-stopped; err != nil {
		release()
		return nil, fmt.Errorf("holding thread %d: %w", tid, err)
	}
	return release, nil
}

func holdThread(tid int) error {
	if err := unix.PtraceSeize(tid); err != nil {
		return err
	}
	if err := unix.PtraceInterrupt(tid); err != nil {
		return err
	}
	// A thread that waits for a disk, or for a CPU on a busy machine, does not stop at once.
	for deadline := time.Now().Add(time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Microsecond) {
		if _, _, ok := stopOf(tid, unix.WNOHANG|unix.WNOWAIT); ok {
			return nil
		}
	}
	return fmt.Errorf("it did not stop")
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
	if event == ptraceEventStop || sig == int(unix.SIGTRAP) {
		sig = 0
	}
	// PTRACE_DETACH with a signal, which the library's call does not offer
	unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_DETACH, uintptr(tid), 0, uintptr(sig), 0, 0)
}
