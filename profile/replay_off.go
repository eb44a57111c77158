// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"github.com/profinfer/profinfer/profile/internal/oncpu"
	"github.com/profinfer/profinfer/trace"
)

// offCPU sums up the time that a thread was off its CPU, and in uninterruptible sleep, ns.
type offCPU struct {
	oncpu.Thread
	sum, blocked int64
	until        int64 // the end of the latest sleep of this kind; 0: none since it left its CPU
}

func (c *offCPU) leave(s *trace.Sched) {
	c.Leave(s.Time, s.CPU, s.PrevState)
	c.until = 0
}

func (c *offCPU) wake(s *trace.Sched) {
	if was, ok := c.Wake(s.Time, s.CPU); ok {
		c.slept(&was, s.Time)
	}
}

// slept handles the end of a state.
func (c *offCPU) slept(was *oncpu.Thread, at int64) {
	if was.State == oncpu.Blocked && at > was.Since {
		c.blocked += at - was.Since
		c.until = at
	}
}

// enter handles that the thread has a CPU again. ok is false where it was not seen to leave one.
func (c *offCPU) enter(s *trace.Sched) (off offTime, ok bool) {
	was := c.Enter(s.Time, s.CPU)
	c.slept(&was, s.Time)
	if was.Left == 0 {
		return off, false
	}
	c.sum += s.Time - was.Left
	return offTime{Span{was.Left, s.Time}, c.until}, true
}

// offTime is an off-CPU interval of a thread and until when it was blocked in it; 0: not at all.
type offTime struct {
	Span
	blocked int64
}
