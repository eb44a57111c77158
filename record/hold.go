// SPDX-License-Identifier: Apache-2.0

package record

import (
	"fmt"
	"slices"
	"sync/atomic"
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

// watched is an event of a process, whose thread may be held until the process was examined after it.
type watched struct {
	watch.Event
	held *hold // nil: the thread runs
}

// hold is a held thread.
type hold struct {
	*target.Held
	pid      int
	reached  atomic.Bool // the recorder has taken its event
	released atomic.Bool // and has let it continue
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
		var open []*hold
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
				// either; nor if it is still examining the same process for an earlier one.
				behind := false
				open = slices.DeleteFunc(open, func(h *hold) bool {
					over, late := h.Over()
					waits := late && !h.released.Load()
					behind = behind || waits && (h.pid == ev.PID || !h.reached.Load())
					return over && !waits
				})
				if behind {
					break
				}
				limit := holdServing
				if own[ev.PID] {
					limit = holdOwn
				}
				// Refused if another tracer traces it, or it is held for an earlier event.
				if held, err := target.Hold(ev.PID, ev.TID, ev.Time, limit); err == nil {
					w.held = &hold{Held: held, pid: ev.PID}
					open = append(open, w.held)
				}
			}
			out <- w
		}
	}()
	return out
}

// release lets held threads continue and counts them.
func (r *recorder) release(holds ...*hold) {
	for _, h := range holds {
		took, late := h.Release()
		h.released.Store(true)
		r.holds.Number++
		r.holds.Longest = max(r.holds.Longest, took)
		if late {
			r.holds.Late++
			r.tooLate(r.procs[h.pid], took)
		}
	}
}

// tooLate reports a process of which a thread continued before its library was examined.
func (r *recorder) tooLate(p *process, took time.Duration) {
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

// releaseAll lets all held threads of a process continue.
func (r *recorder) releaseAll(p *process) {
	r.release(p.holding...)
	r.release(p.holds...)
	p.holding, p.holds = nil, nil
}
