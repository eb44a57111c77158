// SPDX-License-Identifier: Apache-2.0

package sched

import "slices"

// Culprit is another thread's name and what it did.
type Culprit struct {
	Comm  string `json:"comm"`
	Own   bool   `json:"own"` // it is one of the computing threads
	Dur   int64  `json:"dur_ns,omitempty"`
	Count int64  `json:"count"`
	// PID of the process, if it was always the same.
	PID    int32 `json:"pid,omitempty"`
	Kernel bool  `json:"kernel,omitempty"` // a kernel thread
	// CPUs that it ran on meanwhile, as in "0-3,7".
	CPUs string `json:"cpus,omitempty"`
	// Elsewhere is the part of Dur in which one of the team had the CPU that a thread waited for, while this
	// culprit had another CPU that the thread may use: so the team had to share. Free, for a culprit of the
	// team, is the part in which another CPU was idle.
	Elsewhere int64 `json:"elsewhere_ns,omitempty"`
	Free      int64 `json:"free_ns,omitempty"`

	// From and To are when it first had, and last left, a CPU that a thread waited for, boottime. Held is how
	// long it was seen to have a CPU in the whole recording, whether or not a thread was runnable: at least
	// Dur for a process that ran on one CPU at a time. 0: unknown.
	From int64 `json:"from_ns,omitempty"`
	To   int64 `json:"to_ns,omitempty"`
	Held int64 `json:"held_ns,omitempty"`

	on CpuSet
}

// Unnamed reports whether it stands for something that is not a thread.
func (c *Culprit) Unnamed() bool {
	return !c.Own && slices.Contains([]string{"(idle)", "(not seen)", "(unknown)", "(others)"}, c.Comm)
}

// Direct reports whether it had the CPUs that threads waited for, for most of the time.
func (c *Culprit) Direct() bool { return c.Elsewhere*3 < c.Dur }

// CpuSet is the set of CPUs on which a step's threads began operators, up to the highest number it holds.
type CpuSet [4]uint64

func (s *CpuSet) Add(cpu uint16) {
	if int(cpu) < 64*len(s) {
		s[cpu/64] |= 1 << (cpu % 64)
	}
}
