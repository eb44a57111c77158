// SPDX-License-Identifier: Apache-2.0

package profile

import "github.com/profinfer/profinfer/trace"

// blocking keeps account of the time a thread slept and could not be interrupted.
type blocking struct {
	since int64 // 0: it does not
	to    int64 // the end of the last one; 0: none since it left its CPU
	sum   int64
}

// left takes a thread's leaving its CPU.
func (b *blocking) left(s *trace.Sched) {
	b.since, b.to = 0, 0
	if s.PrevState&Uninterruptible != 0 {
		b.since = s.Time
	}
}

// end takes its wake-up, or that it has a CPU again. It returns when it could go on; 0: it was not blocked.
func (b *blocking) end(at int64) int64 {
	if b.since != 0 && at > b.since {
		b.sum += at - b.since
		b.to = at
	}
	b.since = 0
	return b.to
}

// offTime is a time that a thread was off its CPU, blocked until a time of it; 0: not.
type offTime struct {
	Span
	blocked int64
}

// Uninterruptible is the kernel's TASK_UNINTERRUPTIBLE (include/linux/sched.h).
const Uninterruptible = 2
