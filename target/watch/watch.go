// SPDX-License-Identifier: Apache-2.0

// Package watch reports when processes start and end, execute programs and map code, using perf's side-band
// events, or by polling /proc where those are not permitted.
package watch

import (
	"fmt"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/profinfer/profinfer/target"
)

// EventKind is what happened to a process.
type EventKind uint8

// Kinds of event.
const (
	EventMmap       EventKind = iota + 1 // code was mapped: Path, Dev, Inode, Start, Len, Offset
	EventFork                            // PPID made PID, which is tracked from now on
	EventExec                            // PID became another program; all its mappings are gone
	EventExit                            // the whole process ended
	EventComm                            // a thread changed its name: Comm
	EventThread                          // thread TID began
	EventThreadExit                      // thread TID ended
	EventLost                            // Lost events were missed: check every tracked process again
)

func (k EventKind) String() string {
	names := [...]string{"", "mmap", "fork", "exec", "exit", "comm", "thread", "thread exit", "lost"}
	if int(k) < len(names) {
		return names[k]
	}
	return "unknown event"
}

// Event is something that happened to a tracked process.
type Event struct {
	Time    int64 // ns, CLOCK_BOOTTIME
	Kind    EventKind
	PID     int
	TID     int
	PPID    int    // of a fork
	Comm    string // of an exec or comm event
	Path    string // of an mmap event, as in the process's mount namespace
	Deleted bool
	Dev     uint64 // as stat's st_dev
	Inode   uint64 // 0: anonymous memory
	Start   uint64 // address
	Len     uint64
	Offset  uint64 // in the file
	Lost    uint64 // number of events lost; 0 if unknown
}

// Mapping is the mapping of an mmap event.
func (e Event) Mapping() target.Mapping {
	return target.Mapping{Start: e.Start, End: e.Start + e.Len, Offset: e.Offset, Dev: e.Dev, Inode: e.Inode,
		Path: e.Path, Perms: "r-xp", Deleted: e.Deleted}
}

// Watcher reports what tracked processes and their descendants do: programs executed, code mapped, processes
// and threads started and ended.
//
// Nothing before Track is reported: call Track, then read the [Maps] of the processes that it returns. Do the
// same on EventFork (a child has its parent's mappings) and on EventLost. An event may repeat what Maps
// already showed.
type Watcher struct {
	// Polling is empty if the kernel reports events as they happen; otherwise it says that /proc is polled,
	// and why.
	Polling string

	events chan Event
	done   chan struct{}
	ended  chan struct{} // the source's goroutine has returned
	stop   func()
	once   sync.Once

	mu      sync.Mutex
	tracked map[int]*trackedProcess
	recent  []forked // forks of untracked processes, oldest first, bounded
}

type trackedProcess struct {
	since      int64 // ns: events before this may be older than Track
	leaderGone bool  // the main thread ended: has the process?
	leaderTime int64
}

type forked struct{ pid, parent int }

const maxRecentForks = 4096

func newWatcher() *Watcher {
	return &Watcher{events: make(chan Event, 1<<14), done: make(chan struct{}), ended: make(chan struct{}),
		tracked: map[int]*trackedProcess{}}
}

// Events delivers what happens to tracked processes, in order of time. Close closes it.
func (w *Watcher) Events() <-chan Event { return w.events }

// Close stops watching.
func (w *Watcher) Close() error {
	w.once.Do(func() {
		close(w.done)
		w.stop()
		<-w.ended
	})
	return nil
}

func boottime() int64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return 0
	}
	return ts.Nano()
}

// Track starts tracking a process and all its descendants, present and future. It returns the IDs of the
// processes that are newly tracked, including pid.
func (w *Watcher) Track(pid int) ([]int, error) {
	st, err := target.ReadStat(pid)
	if err != nil {
		return nil, err
	}
	if st.Ended() {
		return nil, fmt.Errorf("process %d: it has ended already: %w", pid, target.ErrNoProcess)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var added []int
	w.add(pid, boottime(), &added)
	w.adopt(nil, &added)
	return added, nil
}

func (w *Watcher) add(pid int, now int64, added *[]int) {
	if w.tracked[pid] == nil {
		w.tracked[pid] = &trackedProcess{since: now}
		*added = append(*added, pid)
	}
}

// adopt tracks the descendants of tracked processes: those in /proc, and those of recent forks, whose parent
// may be gone. If an engine started this process to have itself recorded, this process is not adopted, or the
// recording would wait for its own end. Processes in skip are ignored; those found irrelevant are added to
// it, unless it is nil.
func (w *Watcher) adopt(skip map[int]bool, added *[]int) {
	now, self := boottime(), os.Getpid()
	parent := map[int]int{}
	for _, f := range w.recent {
		parent[f.pid] = f.parent
	}
	pids, err := target.Processes()
	if err != nil {
		pids = nil
	}
	live := map[int]bool{}
	for _, pid := range pids {
		if skip[pid] {
			continue
		}
		if st, err := target.ReadStat(pid); err == nil && !st.Ended() {
			live[pid] = true
			if _, ok := parent[pid]; !ok {
				parent[pid] = st.Parent
			}
		}
	}
	for pid := range live {
		// Climb to a tracked ancestor; the bound breaks a cycle of reused PIDs.
		for p, n := pid, 0; p > 0 && p != self && n < 1000; p, n = parent[p], n+1 {
			if w.tracked[p] != nil {
				w.add(pid, now, added)
				break
			}
		}
		if skip != nil && w.tracked[pid] == nil {
			skip[pid] = true
		}
	}
	for pid := range skip { // PIDs that are gone can be reused
		if _, ok := slices.BinarySearch(pids, pid); !ok {
			delete(skip, pid)
		}
	}
	slices.Sort(*added)
}

// handle takes one event of any process, in order of time, and appends what it means for tracked ones.
func (w *Watcher) handle(ev Event, out []Event) []Event {
	t := w.tracked[ev.PID]
	if t != nil && ev.Time < t.since && ev.Kind != EventThreadExit {
		return out // Maps, read after Track, shows the result
	}
	switch ev.Kind {
	case EventFork:
		if t != nil { // the PID was reused: the end of the old process was missed
			out = append(out, Event{Time: ev.Time, Kind: EventExit, PID: ev.PID, TID: ev.PID})
			delete(w.tracked, ev.PID)
		}
		if w.tracked[ev.PPID] != nil {
			w.tracked[ev.PID] = &trackedProcess{since: ev.Time}
			return append(out, ev)
		}
		if len(w.recent) >= maxRecentForks {
			w.recent = slices.Delete(w.recent, 0, maxRecentForks/2)
		}
		w.recent = append(w.recent, forked{ev.PID, ev.PPID})
	case EventLost:
		out = append(out, ev)
		for pid, t := range w.tracked { // their end may be among the lost events
			if st, err := target.ReadStat(pid); err != nil || st.Ended() {
				t.leaderGone, t.leaderTime = true, ev.Time
			}
		}
		var added []int
		w.adopt(nil, &added)
		for _, pid := range added {
			st, err := target.ReadStat(pid)
			if err == nil {
				out = append(out, Event{Time: ev.Time, Kind: EventFork, PID: pid, TID: pid, PPID: st.Parent})
			}
		}
	case EventThreadExit:
		if t == nil {
			return out
		}
		out = append(out, ev)
		if ev.TID == ev.PID {
			// The main thread can end before the others, and it is replaced if another thread executes a
			// program: only /proc shows whether the process has ended.
			t.leaderGone, t.leaderTime = true, ev.Time
		}
	case EventExec:
		if t != nil {
			t.leaderGone = false
			out = append(out, ev)
		}
	default:
		if t != nil {
			out = append(out, ev)
		}
	}
	return out
}

// reap reports processes whose main thread ended and of which nothing runs any more. It reports whether there
// are more to check.
func (w *Watcher) reap(out []Event) ([]Event, bool) {
	again := false
	for pid, t := range w.tracked {
		if !t.leaderGone {
			continue
		}
		st, err := target.ReadStat(pid)
		if err == nil && !st.Ended() {
			again = true
			continue
		}
		delete(w.tracked, pid)
		out = append(out, Event{Time: t.leaderTime, Kind: EventExit, PID: pid, TID: pid})
	}
	return out, again
}

// deliver hands events over; false once the watcher is closed.
func (w *Watcher) deliver(list []Event) bool {
	for _, ev := range list {
		select {
		case w.events <- ev:
		case <-w.done:
			return false
		}
	}
	return true
}
