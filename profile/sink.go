// SPDX-License-Identifier: Apache-2.0

package profile

import "github.com/profinfer/profinfer/trace"

// Sink receives a run as it is replayed, in order of completion: operators of a graph before the graph,
// graphs before their step. Pointers stay valid after the call, except for operators of a replay that reuses
// them ([ReplayReusing]). An operator's step is complete only once Step got it. A sink embeds [BaseSink] and
// implements the methods it needs.
type Sink interface {
	// Needs says what extra work the replay has to do for the sink. It is called once, before the run.
	Needs() Needs
	// Meta takes the trace's metadata, such as its counters, before the first operator, and again when it
	// changes.
	Meta(*trace.Meta)
	Op(*Op) error
	Graph(*Graph) error
	Step(*Step) error
	// Result takes each step that handed graphs over ([Step.HandedOver]) once it is known when they were
	// done, or that no thread was seen to wait for them: right after Step, or later.
	Result(*Step) error
	// Choice takes which experts tokens chose: before the first operator that used it, and after those that
	// precede it.
	Choice(*Choice) error
	// Copy takes a copy when its step is complete or, outside any step, at once.
	Copy(*Copy) error
	// Device takes the span of a device when it ends: often after the graph's step.
	Device(*DeviceSpan) error
	// Submission takes what was submitted to a device's queue when it is done, or when the trace ends.
	Submission(*Submission) error
	// Remote takes a graph that another process computed, once both have ended and the client has waited, or
	// it is known that no wait was seen. That is often after the client's step.
	Remote(*Remote) error
	// Fault takes a page fault, if the sink has [NeedFaults]. A step's faults come before the step, and those
	// outside any step before a later step. Records that count faults (trace.FaultCounts) come here as well,
	// in time order.
	Fault(*Fault) error
	// Memory takes a process's mappings as recorded, if the sink has [NeedFaults].
	Memory(*trace.Memory) error
	Sched(*trace.Sched) error
	// CPU takes what the kernel reported of the machine's CPUs, and Thread what it reported of a thread. They
	// come in trace order: within a second or so of the steps of their time, before or after them.
	CPU(*trace.CPUState) error
	Thread(*trace.Thread) error
}

// Needs is the work that a replay does only for sinks that ask for it, because it is expensive.
type Needs uint8

// NeedFaults: page faults are joined with the operators and steps in which they completed. Without it Fault
// and Memory are not called, and the fault fields of [Op] and [Step] are 0.
const NeedFaults Needs = 1 << 0

// BaseSink is a [Sink] that takes nothing and needs nothing. It is meant to be embedded.
type BaseSink struct{}

func (BaseSink) Needs() Needs                 { return 0 }
func (BaseSink) Meta(*trace.Meta)             {}
func (BaseSink) Op(*Op) error                 { return nil }
func (BaseSink) Graph(*Graph) error           { return nil }
func (BaseSink) Step(*Step) error             { return nil }
func (BaseSink) Result(*Step) error           { return nil }
func (BaseSink) Choice(*Choice) error         { return nil }
func (BaseSink) Copy(*Copy) error             { return nil }
func (BaseSink) Device(*DeviceSpan) error     { return nil }
func (BaseSink) Submission(*Submission) error { return nil }
func (BaseSink) Remote(*Remote) error         { return nil }
func (BaseSink) Fault(*Fault) error           { return nil }
func (BaseSink) Memory(*trace.Memory) error   { return nil }
func (BaseSink) Sched(*trace.Sched) error     { return nil }
func (BaseSink) CPU(*trace.CPUState) error    { return nil }
func (BaseSink) Thread(*trace.Thread) error   { return nil }
