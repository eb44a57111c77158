// SPDX-License-Identifier: Apache-2.0

// Package watch notices processes that start and end, programs that they execute and code that they map,
// through perf's side-band events, or by looking at /proc where those are not permitted.
package watch

import (
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/profinfer/profinfer/target"
	"golang.org/x/sys/unix"
)

// EventKind says what happened to a process.
type EventKind uint8

// Kinds of event.
const (
	EventMmap       EventKind = iota + 1 // code was mapped: Path, Dev, Inode, Start, Len, Offset
	EventFork                            // PID was made by PPID; it is tracked from now on
	EventExec                            // PID became another program; all it had mapped is gone
	EventExit                            // the whole process ended
	EventComm                            // a thread changed its name: Comm
	EventThread                          // thread TID began
	EventThreadExit                      // thread TID ended
	EventLost                            // Lost events were not seen: look at every tracked process again
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
	Path    string // of an mmap event, as the process's mount namespace names it
	Deleted bool
	Dev     uint64 // as stat's st_dev
	Inode   uint64 // 0: anonymous memory
	Start   uint64 // address
	Len     uint64
	Offset  uint64 // in the file
	Lost    uint64 // how many events were lost; 0 if that is not known
}

// Mapping is what an mmap event mapped.
func (e Event) Mapping() target.Mapping {
	return target.Mapping{Start: e.Start, End: e.Start + e.Len, Offset: e.Offset, Dev: e.Dev, Inode: e.Inode,
		Path: e.Path, Perms: "r-xp", Deleted: e.Deleted}
}

// Watcher notices what tracked processes and their descendants do: programs executed,
// code mapped, processes and threads begun and ended.
//
// What happened before Track is not reported: call Track, then look at the [Maps] of the
// processes that it returns. Likewise on EventFork (a child has what its parent had mapped) and
// on EventLost. An event can tell what Maps showed already.
type Watcher struct {
	// Polling is empty where the kernel reports events as they happen; else it says that
	// /proc is looked at now and then, and why.
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

// Events delivers what happens to tracked processes, in order of time. It is closed
// after Close.
func (w *Watcher) Events() <-chan Event { return w.events }

// Close ends the watching.
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

// Track begins to report a process and all its descendants, those of now and those to
// come. It returns the ids of the processes that are newly tracked by this, pid among them.
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

// adopt tracks the descendants of tracked processes: those that /proc shows, and those of the forks seen
// lately, whose parent may be gone. Where an engine has started this process to have itself recorded, that is
// none of them, or the recording would wait for its own end. Processes in skip are not looked at; those found
// to be of no interest are added to it, unless it is nil.
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
		// Climb to a tracked ancestor; the bound ends a circle made of reused pids.
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
	for pid := range skip { // the numbers of those that are gone can be used again
		if _, ok := slices.BinarySearch(pids, pid); !ok {
			delete(skip, pid)
		}
	}
	slices.Sort(*added)
}

// handle takes one event of any process, in order of time, and appends what it means for
// tracked ones.
func (w *Watcher) handle(ev Event, out []Event) []Event {
	t := w.tracked[ev.PID]
	if t != nil && ev.Time < t.since && ev.Kind != EventThreadExit {
		return out // Maps, read after Track, shows what came of it
	}
	switch ev.Kind {
	case EventFork:
		if t != nil { // the number was used again: the end of the old process was missed
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
		for pid, t := range w.tracked { // their end may be among what was lost
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
			// The main thread can end before the others, and it is replaced where another
			// thread executes a program: only /proc knows whether the process is over.
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

// reap reports processes whose main thread ended and of which nothing runs any more.
// It says whether there are some yet to look at.
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
