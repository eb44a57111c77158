// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/profinfer/profinfer/target"
)

// untilSignal returns a context that ends with the first of the signals that are not ignored. The second one
// ends this process at once, whatever it waits for: the kernel then resumes stopped threads. If a terminal
// stops this process (ctrl-Z), they are resumed before.
func untilSignal(ends ...os.Signal) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	end := make(chan os.Signal, 1)
	if ends = heeded(ends); len(ends) > 0 { // an empty list would mean all
		signal.Notify(end, ends...)
	}
	pause := make(chan os.Signal, 1)
	// Of a shell without job control they are ignored: it would stop for good.
	if stops := heeded([]os.Signal{syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU}); len(stops) > 0 {
		signal.Notify(pause, stops...)
	}
	done := make(chan struct{})
	go func() {
		first := end
		for {
			select {
			case <-first:
				signal.Stop(end) // the next signal has its default effect
				first = nil
				cancel()
			case s := <-pause:
				suspend(s.(syscall.Signal))
			case <-done:
				return
			}
		}
	}()
	return ctx, sync.OnceFunc(func() {
		cancel()
		signal.Stop(end)
		signal.Stop(pause)
		close(done)
	})
}

// suspend stops this process as the signal requests, and returns when it continues. No thread is held
// meanwhile.
func suspend(s syscall.Signal) {
	resume := target.SuspendHolds()
	defer resume()
	on := make(chan os.Signal, 1)
	signal.Notify(on, syscall.SIGCONT)
	defer signal.Stop(on)
	// signal.Reset leaves Go's handler for these in place, which drops them. struct sigaction: handler,
	// flags, restorer, mask
	var was, byDefault [4]uintptr
	action := func(set, get *[4]uintptr) bool {
		_, _, e := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(set)),
			uintptr(unsafe.Pointer(get)), 8, 0, 0)
		return e == 0
	}
	if !action(&byDefault, &was) {
		return
	}
	defer action(&was, nil)
	if syscall.Kill(os.Getpid(), s) == nil {
		select {
		case <-on:
		case <-time.After(100 * time.Millisecond): // nothing could resume it, so the kernel did not stop it
		}
	}
}
