// SPDX-License-Identifier: Apache-2.0

package record

import "github.com/profinfer/profinfer/target"

// watched is an event of a process, whose thread may be held until the event was handled.
type watched struct {
	target.Event
	release func() // nil: it runs on
}

// holdLoaders holds every thread that maps a file which was not looked at before, and passes the
// events on. A small model is loaded and done in less time than it takes to find out where its
// engine is to be probed; and while one process is looked at, others go on. It ends with the watcher.
func (r *recorder) holdLoaders() <-chan watched {
	out := make(chan watched, 256)
	go func() {
		defer close(out)
		for ev := range r.watch.Events() {
			w := watched{Event: ev}
			if ev.Kind == target.EventMmap && ev.Inode != 0 && !r.engine.Dull(ev.PID, ev.Mapping()) {
				// Refused where another traces it, or it is held for an earlier event.
				if release, err := target.Hold(ev.TID); err == nil {
					w.release = release
				}
			}
			out <- w
		}
	}()
	return out
}
