// SPDX-License-Identifier: Apache-2.0

package profile

import "github.com/profinfer/profinfer/trace"

// blocking tracks the time that a thread spent in uninterruptible sleep.
type blocking struct {
	since int64 // 0: not blocked
	to    int64 // the end of the latest; 0: none since it left its CPU
	sum   int64
}

// left handles that the thread leaves its CPU.
func (b *blocking) left(s *trace.Sched) {
	b.since, b.to = 0, 0
	if s.PrevState&Uninterruptible != 0 {
		b.since = s.Time
	}
}

// end handles its wake-up, or that it has a CPU again. It returns when the thread could continue; 0: it was
// not blocked.
func (b *blocking) end(at int64) int64 {
	if b.since != 0 && at > b.since {
		b.sum += at - b.since
		b.to = at
	}
	b.since = 0
	return b.to
}

// offTime is an off-CPU interval of a thread and until when it was blocked in it; 0: not at all.
type offTime struct {
	Span
	blocked int64
}

// Uninterruptible is the kernel's TASK_UNINTERRUPTIBLE (include/linux/sched.h).
const Uninterruptible = 2
