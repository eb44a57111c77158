// SPDX-License-Identifier: Apache-2.0

package profile

import "github.com/profinfer/profinfer/trace"

// Sink receives a run as it is replayed, in order of completion: operators of a graph before the graph,
// graphs before their step. Pointers stay valid after the call, but for operators of a replay that uses them
// again ([ReplayReusing]). An operator's step is complete only once Step got it. A sink embeds [BaseSink] and
// has methods of its own for what it takes.
type Sink interface {
	// Needs says what the replay has to do for the sink beyond what it does for all. It is asked once, before
	// the run.
	Needs() Needs
	// Meta takes what the trace says at its head, such as which counters there are, before the first
	// operator, and again where that changes.
	Meta(*trace.Meta)
	Op(*Op) error
	Graph(*Graph) error
	Step(*Step) error
	// Result takes each step that handed graphs over ([Step.HandedOver]) once it is known when they were
	// done, or that nobody was seen to wait for them: right after Step, or later.
	Result(*Step) error
	// Choice takes which experts tokens chose: before the first operator that used it, after those before
	// that one.
	Choice(*Choice) error
	// Copy takes a copy when its step is complete or, of those outside of steps, at once.
	Copy(*Copy) error
	// Device takes the span of a device when it ends: often after the graph's step.
	Device(*DeviceSpan) error
	// Submission takes what was handed to a device's queue when it is done, or when the trace ends.
	Submission(*Submission) error
	// Remote takes a graph that another process computed when both have ended and the client has waited, or
	// is known not to have been seen to: often after the client's step.
	Remote(*Remote) error
	// Fault takes a page fault, if the sink has [NeedFaults]. A step's come before the step, those in no step
	// before a later one. Records that are none (trace.FaultCounts) are handed on as well, in order of time.
	Fault(*Fault) error
	// Memory takes what a process has mapped, as it stands in the trace, if the sink has [NeedFaults].
	Memory(*trace.Memory) error
	Sched(*trace.Sched) error
	// CPU takes what the kernel told of the machine's CPUs, Thread what is told of a thread. They come as
	// they stand in the trace: within a second or so of the steps of their time, before or after them.
	CPU(*trace.CPUState) error
	Thread(*trace.Thread) error
}

// Needs are what a replay does only for sinks that ask for it, because it costs.
type Needs uint8

// NeedFaults: page faults are joined with the operators and steps in which they were done. Without it there
// are no calls of Fault and Memory, and what [Op] and [Step] tell of faults is 0.
const NeedFaults Needs = 1 << 0

// BaseSink is a [Sink] that takes nothing and needs nothing, to embed.
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
