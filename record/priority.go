// SPDX-License-Identifier: Apache-2.0

package record

import (
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// The recorder's own scheduling. On a machine with all cores busy it must examine a new library before the
// engine uses it, and later empty the rings before they are full. Threads that Go creates meanwhile must
// inherit it (so SCHED_RESET_ON_FORK is no use), but a command must not: it is started before, and any other
// command after everything was restored.
const (
	nice = -15
	// realTimeFor is how long real-time priority lasts after a thread was held.
	realTimeFor = 2 * time.Second
)

// scheduling is how this process was scheduled before a recording began.
type scheduling struct {
	mu       sync.Mutex
	before   unix.SchedAttr
	procs    int
	raised   bool // its threads have the recorder's nice value
	realTime bool
	ended    bool
	still    bool // restricted to the cores it needs
	looks    int  // examinations of processes in progress
	timer    *time.Timer
}

func newScheduling() *scheduling {
	s := &scheduling{procs: runtime.GOMAXPROCS(0)}
	pid := os.Getpid()
	if a, err := unix.SchedGetAttr(pid, 0); err == nil {
		s.before = unix.SchedAttr{Policy: a.Policy, Flags: a.Flags, Priority: a.Priority}
	}
	if n, err := unix.Getpriority(unix.PRIO_PROCESS, pid); err == nil {
		s.before.Nice = int32(20 - n) // the system call returns 1 to 40
	}
	return s
}

// raise gives profinfer's threads a nice value that puts them before the engine's. If that is not permitted,
// nothing changes.
func (s *scheduling) raise() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.raised = true
	s.lower()
}

// hurry makes them real-time threads for a while: a thread is held until they have done their work. Anything
// that takes longer must not delay the whole machine.
func (s *scheduling) hurry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.raised = true
	if s.timer != nil {
		s.timer.Reset(realTimeFor)
	}
	if s.realTime {
		return
	}
	s.realTime = true
	allThreads(unix.SchedAttr{Policy: unix.SCHED_RR, Priority: 1, Nice: nice})
	if s.timer == nil {
		s.timer = time.AfterFunc(realTimeFor, s.calm)
	}
}

// calm ends real-time priority.
func (s *scheduling) calm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.realTime && !s.ended {
		s.lower()
	}
}

func (s *scheduling) lower() {
	s.realTime = false
	if permitted() {
		allThreads(unix.SchedAttr{Policy: unix.SCHED_NORMAL, Nice: nice})
	}
}

// quiet keeps Go's runtime from using more than one core while an engine computes: the remaining work is one
// drain after another, and idle cores that look for work would take time from the engine.
func (s *scheduling) quiet() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.still = true
	s.cores()
}

// busy counts the start (1) or end (-1) of examining a process. One more core is used meanwhile: what
// releases held threads must not wait for it.
func (s *scheduling) busy(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks += n
	s.cores()
}

func (s *scheduling) cores() {
	want := 1
	if s.looks > 0 {
		want = min(2, s.procs)
	}
	if s.still && !s.ended && runtime.GOMAXPROCS(0) != want {
		runtime.GOMAXPROCS(want)
	}
}

// restore restores everything.
func (s *scheduling) restore() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.raised && permitted() {
		allThreads(s.before)
	}
	s.raised, s.realTime = false, false
	runtime.GOMAXPROCS(s.procs)
}

// permitted reports whether this process may raise its priority.
func permitted() bool {
	var hdr = unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&hdr, &data[0]) == nil && data[0].Effective&(1<<unix.CAP_SYS_NICE) != 0
}

// allThreads schedules all threads of this process alike, including those created meanwhile.
func allThreads(a unix.SchedAttr) {
	done := map[int]bool{}
	for range 8 {
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return
		}
		fresh := false
		for _, t := range tasks {
			tid, err := strconv.Atoi(t.Name())
			if err != nil || done[tid] {
				continue
			}
			done[tid], fresh = true, true
			_ = unix.SchedSetAttr(tid, &a, 0)
			// it does not affect a real-time thread
			_ = unix.Setpriority(unix.PRIO_PROCESS, tid, int(a.Nice))
		}
		if !fresh {
			return
		}
	}
}
