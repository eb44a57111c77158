// SPDX-License-Identifier: Apache-2.0

package record

import (
	"os"
	"runtime"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The recorder's own scheduling. On a machine whose cores are all taken it has to look at a new
// library before the engine uses it, and later to empty the rings before they are full.
const (
	nice       = -15
	schedOther = 0
	schedRR    = 2
)

// raise gives profinfer's threads priority: of real time while a command is starting and its
// libraries are looked at as they come, else a nice value. It is called after the command was
// started, which would inherit it; where it is not permitted, nothing changes.
func raise(starting bool) {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return
	}
	policy, param := schedOther, struct{ priority int32 }{0}
	if starting {
		policy, param.priority = schedRR, 1
	}
	for _, t := range tasks {
		if tid, err := strconv.Atoi(t.Name()); err == nil {
			_, _, _ = unix.RawSyscall(unix.SYS_SCHED_SETSCHEDULER, uintptr(tid), uintptr(policy), uintptr(unsafe.Pointer(&param)))
			_ = unix.Setpriority(unix.PRIO_PROCESS, tid, nice)
		}
	}
}

// quiet keeps Go's runtime from using more than one core while an engine computes: what is left to
// do is one drain after the other, and idle cores that look for work would take it from the engine.
func quiet() { runtime.GOMAXPROCS(1) }
