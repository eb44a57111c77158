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

// The recorder's own scheduling. On a machine whose cores are all taken it has to look at a new library
// before the engine uses it, and later to empty the rings before they are full. Threads that Go makes
// meanwhile have to inherit it (so SCHED_RESET_ON_FORK is no use); a command must not, so it is started
// before, and another one after all was given back.
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
	raised   bool // its threads have a nice value of the recorder's
	realTime bool
	ended    bool
	still    bool // no more cores than are needed
	looks    int  // at processes, under way
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

// raise gives profinfer's threads a nice value that lets them come before the engine's. Where it is not
// permitted, nothing changes.
func (s *scheduling) raise() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.raised = true
	s.lower()
}

// hurry makes them real-time ones for a while: a thread is held until they have done their work. Something
// that takes longer is not worth that the machine waits for it.
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

// quiet keeps Go's runtime from using more than one core while an engine computes: what is left to
// do is one drain after the other, and idle cores that look for work would take it from the engine.
func (s *scheduling) quiet() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.still = true
	s.cores()
}

// busy says that a process begins to be looked at (1), or that this is done (-1). A core more is used
// meanwhile: what lets held threads go on is not to wait for it.
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

// restore gives everything back.
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

// permitted tells whether this process may raise its priority.
func permitted() bool {
	var hdr = unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&hdr, &data[0]) == nil && data[0].Effective&(1<<unix.CAP_SYS_NICE) != 0
}

// allThreads schedules all threads of this process alike, also those that one of them makes meanwhile.
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
			// of a real-time thread the other leaves it alone
			_ = unix.Setpriority(unix.PRIO_PROCESS, tid, int(a.Nice))
		}
		if !fresh {
			return
		}
	}
}
