// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"slices"
	"testing"

	"github.com/profinfer/profinfer/trace"
)

// A thread that cannot be interrupted is blocked until it is woken, or has a CPU again if that was not seen;
// both where its begin was probed and where its graph is followed.
func TestBlocked(t *testing.T) {
	const blocked = 2 // TASK_UNINTERRUPTIBLE
	for _, c := range []struct {
		name  string
		state uint32
		woken int64 // 0: not seen
		want  int64
	}{
		{"runnable", 0, 0, 0},
		{"asleep", 1, 1110, 0},
		{"blocked", blocked, 1110, 10},
		{"blocked, the wake-up not seen", blocked, 0, 30},
		{"blocked, no load", blocked | 0x400, 1120, 20},
	} {
		for _, followed := range []bool{false, true} {
			s := NewScene(t)
			if followed {
				OpLevel(s)
				s.Learned()
				s.Watch(900, trace.WatchArrivals, "following")
				s.Arrivals(1000)
			} else {
				s.Decode(1000)
			}
			at := slices.IndexFunc(s.B.Sched, func(x trace.Sched) bool { return x.Time == 1100 })
			s.B.Sched[at].PrevState = c.state
			if c.woken != 0 {
				s.B.Sched = slices.Insert(s.B.Sched, at+1,
					trace.Sched{Time: c.woken, Kind: trace.SchedWakeup, NextTID: worker1, NextPID: Pid})
			}
			s.Done()
			var off, stuck int64
			for _, o := range s.c.ops {
				for i := range o.Threads {
					off += o.Threads[i].OffCPU
					stuck += o.Threads[i].Blocked
				}
			}
			if off != 30 || stuck != c.want {
				t.Errorf("%s, followed %v: off its CPU for %d, blocked for %d, want 30 and %d", c.name,
					followed, off, stuck, c.want)
			}
		}
	}
	// A wake-up of a thread that nobody has seen makes none.
	s := NewScene(t)
	s.Decode(1000)
	s.B.Sched = append(s.B.Sched, trace.Sched{Time: 1305, Kind: trace.SchedWakeup, NextTID: 555,
		NextPID: Pid})
	if h := s.Done(); len(h.Threads) != 2 {
		t.Errorf("threads: %+v", h.Threads)
	}
}
