// SPDX-License-Identifier: Apache-2.0

package record

import (
	"fmt"
	"slices"
	"time"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/target"
	"github.com/profinfer/profinfer/target/watch"
)

// Maximum time for which a thread is held while its library is examined: a serving engine must hardly notice,
// one that profinfer itself started can wait.
const (
	holdServing = 200 * time.Millisecond
	holdOwn     = 2 * time.Second
)

// watched is an event of a process, whose thread may be held until the event is handled.
type watched struct {
	watch.Event
	held  *target.Held  // nil: the thread runs
	limit time.Duration // for holding it
}

// Holds counts how threads were held while their libraries were examined.
type Holds struct {
	Number  int
	Late    int           // released before that was done: what they computed until then was not seen
	Longest time.Duration // from the request to stop a thread
}

// holdLoaders holds every thread that maps a file not examined before, and passes the events on. A small
// model can be loaded and finished in less time than it takes to find out where to probe its engine; and
// while one process is examined, others continue. It ends with the watcher. own are the processes that
// profinfer started; their children count too.
func (r *recorder) holdLoaders(own map[int]bool) <-chan watched {
	out := make(chan watched, 256)
	go func() {
		defer close(out)
		var open []*target.Held
		var late int64
		for ev := range r.watch.Events() {
			w := watched{Event: ev}
			switch ev.Kind {
			case watch.EventFork:
				own[ev.PID] = own[ev.PPID]
			case watch.EventExit:
				delete(own, ev.PID)
			case watch.EventMmap:
				if ev.Inode == 0 || r.engine.Dull(ev.PID, ev.Mapping()) {
					break
				}
				// If the recorder has not reached an event in time, it will not be in time for this one
				// either.
				open = slices.DeleteFunc(open, func(h *target.Held) bool {
					over, l := h.Over()
					if l {
						late++
					}
					return over
				})
				if late > r.late.Load() {
					break
				}
				limit := holdServing
				if own[ev.PID] {
					limit = holdOwn
				}
				// Refused if another tracer traces it, or it is held for an earlier event.
				if held, err := target.Hold(ev.PID, ev.TID, ev.Time, limit); err == nil {
					w.held, w.limit = held, limit
					open = append(open, held)
				}
			}
			out <- w
		}
	}()
	return out
}

// release lets a held thread continue and counts it.
func (r *recorder) release(pid int, held *target.Held) {
	if held == nil {
		return
	}
	took, late := held.Release()
	r.holds.Number++
	r.holds.Longest = max(r.holds.Longest, took)
	if !late {
		return
	}
	r.late.Add(1)
	r.holds.Late++
	p := r.procs[pid]
	if p == nil {
		return
	}
	p.held, p.unheld = false, true
	if p.late {
		return
	}
	p.late = true
	w := fmt.Sprintf("a thread was let go after %v, before the library that it loaded was looked at: what it computed first was not seen", took.Round(10*time.Millisecond))
	p.lacks = append(p.lacks, engine.Warning{Text: w})
	r.note(p.name() + ": " + w)
}
