// SPDX-License-Identifier: Apache-2.0

// Package profile is the model of a recorded run: steps, graphs, operators and threads,
// and what follows from them. It is pure: it reads a trace and computes.
package profile

import (
	"fmt"
	"github.com/profinfer/profinfer/trace"
)

// Phase of a step.
type Phase string

const (
	Prefill Phase = "prefill" // more than one token a sequence
	Decode  Phase = "decode"
	Encode  Phase = "encode"
	Unknown Phase = "" // the batch could not be read
)

// Step is one call of the engine that computes a batch.
type Step struct {
	ID      int64
	PID     int32
	TID     int32
	Ctx     uint64 // the engine context
	Entry   string // name of the entry point
	Phase   Phase
	Start   int64 // ns, boottime
	Dur     int64
	NTokens int32 // -1: unknown
	NSeqs   int32 // -1: unknown
	Outputs int32 // tokens whose logits are asked for; -1: unknown
	Seqs    []trace.StepSeq
	// Warmup is true of steps that are the engine's own warm-up, as far as it can be told.
	Graphs int   // graph executions in it
	OpsDur int64 // sum of its operators' durations
	Ops    int   // number of operators
	// Incomplete says what of the step was not seen (lost events), empty if all was.
	Incomplete string
	// Untraced says why its operators were not recorded although those of other steps were
	// ("throttled", "learning", "filtered"); empty if they were, or the level has none.
	Untraced string
	// Of page faults in it, where they were recorded (faults.go): major ones; thread time in these and in
	// others that read from disk; the time in which at least one thread was in one; bytes that they read.
	// Times are 0 where this kernel does not tell them. Complete when Sink.Step gets it.
	MajorFaults, FaultDur, FaultWall, DiskRead int64
	// HandedOver: a graph of it ran on a backend whose call can return before it is done. Done is when a
	// thread of the process knew that all of them were, ns, at least the call's end; 0: nobody was seen to
	// wait. Where only a later step waited it is the call's end: what was left is in that step's time.
	// Complete when Sink.Result gets it.
	HandedOver bool
	Done       int64
	Told       bool // Result got it
}

// Graph is one execution of a graph on one backend.
type Graph struct {
	ofEngine
	ID      int64
	Step    int64  // 0: in no step
	Ctx     uint64 // the engine context of its step; 0: in no step
	PID     int32
	TID     int32
	Split   int // its number in the scheduler's run, from 0
	Backend string
	Library string // path of the file that computes it, as the process names it; empty if not known
	Start   int64
	Dur     int64
	Shape   *Shape // nil: not known
	NNodes  int32
	Reused  bool // the same graph (identity) as the execution before it in this context
	Ops     int
	Aborted bool // ended before its last operator
	// Untraced says why its operators were not recorded, as [Step.Untraced].
	Untraced string
	// Caller is the graph of another process that was handed over to be computed as this one ([Remote]); nil:
	// none, or it was not seen. CallerStep is its step, complete only once Sink.Step got it.
	Caller     *Graph
	CallerStep *Step
}

// Shape is a graph's definition with what follows from it.
type Shape struct {
	ofEngine
	Index int64 // number in the run, from 1
	*trace.Shape
	ByAddr map[uint64]int32 // tensor address to node number
	// Executed[i]: node i was seen to run. FusedInto[i]: node whose row includes node i, -1 if none.
	Executed  []bool
	FusedInto []int32

	runs     int      // nodes that are to run
	orderOps []string // names of what the arrivals of Order end
	after    []int32  // by node: which ran after it last, -1 if none did
	fusions  []fusion // by node: the operator that it was joined to last
}

// fusion is an operator to which a further node was joined: its name before and with it, and all
// nodes joined so far.
type fusion struct {
	before, op string
	nodes      []int32
}

// Op is one executed operator.
type Op struct {
	ID      int64
	Step    *Step // nil: in no step
	Graph   *Graph
	Shape   *Shape
	Node    int32
	Fused   []int32 // further nodes that ran with it
	Op      string  // joined by + when fused
	Start   int64   // its first thread's begin
	Dur     int64   // to its last thread's arrival
	Busy    int64   // sums over threads
	Wait    int64
	OffCPU  int64
	Threads []OpThread
	// Probe is the part of Dur that its own probes took, an estimate: the cost of a hit as
	// measured when the recording started. It is in Busy too, once for each thread.
	Probe int64
	// Followed: it was seen by its threads' arrivals alone, and starts with the last arrival before.
	Followed bool
	// Incomplete: not all of its team's threads were seen.
	Incomplete bool
	// Counts are sums over its threads of the counters of Header.Meta.Counters, -1 where one is not known;
	// nil: none were recorded.
	Counts []int64
	// Scaled: one of its counters counted for a part of the time only; its value is an estimate.
	Scaled bool
	// Of page faults of its threads before their arrival: major ones; thread time in these and in others that
	// read from disk; how much later its last thread arrived for them. Times are 0 where this kernel does not
	// tell them.
	MajorFaults, FaultDur, FaultDelay int64
	// Choice is which experts its tokens use, nil where that was not recorded or it has none.
	Choice *Choice

	Team int // threads of its team
}

// Imbalance returns max busy / mean busy - 1 over the operator's threads, or -1 if it has none. What
// the probes took is left out, and a difference that is smaller than that is none: a hit does not
// cost each thread the same.
func (o *Op) Imbalance() float64 {
	if len(o.Threads) == 0 || o.Busy <= 0 {
		return -1
	}
	var m int64
	for i := range o.Threads {
		m = max(m, o.Threads[i].Busy)
	}
	if o.Probe > 0 {
		n := int64(len(o.Threads))
		busy := o.Busy - n*o.Probe
		if mean := busy / n; busy <= 0 || m-o.Probe-mean <= o.Probe {
			return 0
		}
		return float64(m-o.Probe)*float64(n)/float64(busy) - 1
	}
	return float64(m)*float64(len(o.Threads))/float64(o.Busy) - 1
}

// NodeDef returns the definition of the operator's (first) node.
func (o *Op) NodeDef() *trace.Node { return &o.Shape.Nodes[o.Node] }

// OpThread is one operator on one thread.
type OpThread struct {
	TID    int32
	Ith    uint16
	CPU    uint16 // where it began
	Start  int64
	Busy   int64 // on a CPU between begin and arrival
	OffCPU int64 // descheduled between begin and arrival
	// Blocked is the part of OffCPU in which it slept and could not be interrupted: reading from disk,
	// mostly.
	Blocked int64
	Wait    int64 // from its arrival to the last thread's
	// Counts are what the counters counted from its begin to its arrival while it was on a CPU, as Op.Counts.
	Counts []int64
}

// Thread is one thread of a profiled process.
type Thread struct {
	PID  int32
	TID  int32
	Comm string
	Role string // main, worker, other
}

// Header is what a run's beginning tells; it is complete when Replay returns.
type Header struct {
	Meta      trace.Meta
	Processes []trace.Process
	Exits     []trace.Exit
	Losses    []trace.Loss
	Threads   []Thread
	End       *trace.End // nil: the trace was cut
	Torn      string     // what is wrong at the trace's end, empty if nothing
	Problems  []string   // damage that was left out
	First     int64      // time of the first and last event
	Last      int64
}

// ParsePhase returns the phase of that name, as a person writes it.
func ParsePhase(s string) (Phase, error) {
	switch s {
	case "prefill", "decode", "encode":
		return Phase(s), nil
	case "unknown":
		return Unknown, nil
	}
	return "", fmt.Errorf("no phase is called %q: it is one of prefill, decode, encode, unknown", s)
}
