// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"maps"
	"slices"
	"time"

	"github.com/profinfer/profinfer/target"
)

// How often /proc is read: often while something is going on, otherwise rarely.
const (
	pollBusy = 100 * time.Millisecond
	pollIdle = time.Second
	pollCalm = 10 * time.Second // without news for that long: idle
)

// pollSource finds out by polling what the kernel does not report.
type pollSource struct {
	w     *Watcher
	known map[int]*polled
	skip  map[int]bool // processes known not to be children of tracked ones
}

// polled is the state of a process at the last poll.
type polled struct {
	start   time.Duration
	exe     string
	comm    string
	threads []int
	stack   uint64 // end of the stack: it moves with every program executed
	files   map[mapKey]bool
}

type mapKey struct{ dev, inode, start uint64 }

// NewPolling starts a watcher that needs no privilege: it reads /proc, ten times per second while something
// happens. It misses what begins and ends between two polls, and times are those of the poll. why says why
// the kernel's events are not used.
func NewPolling(why string) *Watcher {
	w := newWatcher()
	w.Polling = why
	if why == "" {
		w.Polling = "looking at /proc"
	}
	w.stop = func() {}
	s := &pollSource{w: w, known: map[int]*polled{}, skip: map[int]bool{}}
	go s.run()
	return w
}

func (s *pollSource) run() {
	defer close(s.w.ended)
	defer close(s.w.events)
	last := time.Now()
	wait := pollBusy
	for {
		select {
		case <-s.w.done:
			return
		case <-time.After(wait):
		}
		out := s.look()
		if len(out) > 0 {
			last = time.Now()
		}
		if !s.w.deliver(out) {
			return
		}
		wait = pollBusy
		if time.Since(last) > pollCalm {
			wait = pollIdle
		}
	}
}

// look compares all tracked processes with their previous state.
func (s *pollSource) look() []Event {
	w := s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.tracked) == 0 {
		return nil
	}
	now := boottime()
	var out []Event
	for _, pid := range s.pids() {
		st, err := target.ReadStat(pid)
		if err != nil || st.Ended() {
			delete(w.tracked, pid)
			delete(s.known, pid)
			out = append(out, Event{Time: now, Kind: EventExit, PID: pid, TID: pid})
			continue
		}
		out = s.compare(pid, st, now, out)
	}
	var added []int
	w.adopt(s.skip, &added)
	for _, pid := range added {
		st, err := target.ReadStat(pid)
		if err != nil {
			delete(w.tracked, pid)
			continue
		}
		out = append(out, Event{Time: now, Kind: EventFork, PID: pid, TID: pid, PPID: st.Parent})
		out = s.compare(pid, st, now, out)
	}
	return out
}

func (s *pollSource) pids() []int {
	return slices.Sorted(maps.Keys(s.w.tracked))
}

// compare reports what is new about a process. The first poll only learns, except for mappings: those are
// reported, as a child may have mapped files before it was seen.
func (s *pollSource) compare(pid int, st target.Stat, now int64, out []Event) []Event {
	old := s.known[pid]
	if old != nil && old.start != st.StartTime { // the PID was reused
		out = append(out, Event{Time: now, Kind: EventExit, PID: pid, TID: pid})
		delete(s.w.tracked, pid)
		delete(s.known, pid)
		return out
	}
	exe, _ := target.Exe(pid) // not readable for another user's process: then execs are not seen
	cur := &polled{start: st.StartTime, exe: exe, comm: st.Comm, files: map[mapKey]bool{}}
	cur.threads, _ = target.Threads(pid)
	maps, err := target.Maps(pid)
	if err != nil {
		maps = nil
		if old != nil {
			cur.files, cur.stack = old.files, old.stack
		}
	}
	for _, m := range maps {
		if m.Path == "[stack]" {
			cur.stack = m.End
		}
	}
	exec := old != nil && (old.exe != exe || old.stack != cur.stack)
	switch {
	case exec:
		out = append(out, Event{Time: now, Kind: EventExec, PID: pid, TID: pid, Comm: st.Comm})
	case old != nil && old.comm != st.Comm:
		out = append(out, Event{Time: now, Kind: EventComm, PID: pid, TID: pid, Comm: st.Comm})
	}
	for _, m := range maps {
		k := mapKey{m.Dev, m.Inode, m.Start}
		if !m.Exec() || m.Inode == 0 {
			continue
		}
		cur.files[k] = true
		if old == nil || exec || !old.files[k] {
			out = append(out, Event{Time: now, Kind: EventMmap, PID: pid, TID: pid, Path: m.Path,
				Deleted: m.Deleted,
				Dev:     m.Dev, Inode: m.Inode, Start: m.Start, Len: m.End - m.Start, Offset: m.Offset})
		}
	}
	if old != nil && !exec {
		for _, tid := range cur.threads {
			if !slices.Contains(old.threads, tid) {
				out = append(out, Event{Time: now, Kind: EventThread, PID: pid, TID: tid})
			}
		}
		for _, tid := range old.threads {
			if !slices.Contains(cur.threads, tid) {
				out = append(out, Event{Time: now, Kind: EventThreadExit, PID: pid, TID: tid})
			}
		}
	}
	s.known[pid] = cur
	return out
}
