// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"slices"
	"testing"

	"github.com/profinfer/profinfer/trace"
)

// A thread that cannot be interrupted is blocked until it is woken, or has a CPU again if that was not seen; both where its begin was
// probed and where its graph is followed.
func TestBlocked(t *testing.T) {
	for _, c := range []struct {
		name  string
		state uint32
		woken int64 // 0: not seen
		want  int64
	}{
		{"runnable", 0, 0, 0},
		{"asleep", 1, 1110, 0},
		{"blocked", uninterruptible, 1110, 10},
		{"blocked, the wake-up not seen", uninterruptible, 0, 30},
		{"blocked, no load", uninterruptible | 0x400, 1120, 20},
	} {
		for _, followed := range []bool{false, true} {
			s := newScene(t)
			if followed {
				opLevel(s)
				s.learned()
				s.watch(900, trace.WatchArrivals, "following")
				s.arrivals(1000)
			} else {
				s.decode(1000)
			}
			at := slices.IndexFunc(s.b.Sched, func(x trace.Sched) bool { return x.Time == 1100 })
			s.b.Sched[at].PrevState = c.state
			if c.woken != 0 {
				s.b.Sched = slices.Insert(s.b.Sched, at+1, trace.Sched{Time: c.woken, Kind: trace.SchedWakeup, NextTID: worker1, NextPID: pid})
			}
			s.done()
			var off, blocked int64
			for _, o := range s.c.ops {
				for i := range o.Threads {
					off += o.Threads[i].OffCPU
					blocked += o.Threads[i].Blocked
				}
			}
			if off != 30 || blocked != c.want {
				t.Errorf("%s, followed %v: off its CPU for %d, blocked for %d, want 30 and %d", c.name, followed, off, blocked, c.want)
			}
		}
	}
	// A wake-up of a thread that nobody has seen makes none.
	s := newScene(t)
	s.decode(1000)
	s.b.Sched = append(s.b.Sched, trace.Sched{Time: 1305, Kind: trace.SchedWakeup, NextTID: 555, NextPID: pid})
	if h := s.done(); len(h.Threads) != 2 {
		t.Errorf("threads: %+v", h.Threads)
	}
}
