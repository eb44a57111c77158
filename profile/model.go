// SPDX-License-Identifier: Apache-2.0

// Package profile is the model of a recorded run: steps, graphs, operators and threads, and what is derived
// from them. It is pure: it reads a trace and computes.
package profile

import (
	"fmt"

	"github.com/profinfer/profinfer/trace"
)

// Phase is the kind of work a step does.
type Phase string

const (
	Prefill Phase = "prefill" // more than one token per sequence
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
	Outputs int32 // tokens whose logits are requested; -1: unknown
	Seqs    []trace.StepSeq
	// Warmup marks the engine's own warm-up steps, as far as they can be recognised.
	Graphs int   // graph executions in it
	OpsDur int64 // sum of the durations of its operators
	Ops    int   // number of operators
	// Incomplete says what part of the step was not seen (lost events); empty if it is complete.
	Incomplete string
	// Untraced says why its operators were not recorded although those of other steps were ("throttled",
	// "learning", "filtered"). It is empty if they were recorded, or the level records none.
	Untraced string
	// Page faults in the step, where they were recorded (faults.go): number of major faults; thread time in
	// major faults and in others that read from disk; time in which at least one thread was in such a fault;
	// bytes they read. Times are 0 where this kernel does not report them. Complete when Sink.Step gets it.
	MajorFaults, FaultDur, FaultWall, DiskRead int64
	// HandedOver: one of its graphs ran on a backend whose call can return before the graph is done. Done is
	// when a thread of the process knew that all of them were done, ns, at least the call's end; 0: no thread
	// was seen to wait. Where only a later step waited, Done is the call's end: the rest is in that step's
	// time. Complete when Sink.Result gets it.
	HandedOver bool
	Done       int64
	Told       bool // Result has got it
}

// Graph is one execution of a graph on one backend.
type Graph struct {
	ofEngine
	ID      int64
	Step    int64  // 0: outside any step
	Ctx     uint64 // the engine context of its step; 0: outside any step
	PID     int32
	TID     int32
	Split   int // its index in the scheduler's run, from 0
	Backend string
	Library string // path of the file that computes it, as the process names it; empty: unknown
	Start   int64
	Dur     int64
	Shape   *Shape // nil: unknown
	NNodes  int32
	Reused  bool // same graph (identity) as the previous execution in this context
	Ops     int
	Aborted bool // ended before its last operator
	// Untraced says why its operators were not recorded, as in [Step.Untraced].
	Untraced string
	// Caller is the graph of another process that was handed over to be computed as this one ([Remote]); nil:
	// none, or not seen. CallerStep is its step, complete only once Sink.Step got it.
	Caller     *Graph
	CallerStep *Step
}

// Shape is a graph's definition with what is derived from it.
type Shape struct {
	ofEngine
	Index int64 // number in the run, from 1
	*trace.Shape
	ByAddr map[uint64]int32 // tensor address to node number
	// Executed[i]: node i was seen to run. FusedInto[i]: the node whose row includes node i, -1 if none.
	Executed  []bool
	FusedInto []int32

	runs     int      // nodes that will run
	orderOps []string // names of the operators that the arrivals of Order end
	after    []int32  // by node: the node that ran after it last, -1: none
	fusions  []fusion // by node: the operator that it was last fused with
}

// fusion is an operator that a further node was fused with: its name before and after, and all nodes fused so
// far.
type fusion struct {
	before, op string
	nodes      []int32
}

// Op is one executed operator.
type Op struct {
	ID      int64
	Step    *Step // nil: outside any step
	Graph   *Graph
	Shape   *Shape
	Node    int32
	Fused   []int32 // further nodes that ran with it
	Op      string  // joined by + when fused
	Start   int64   // when its first thread began
	Dur     int64   // until its last thread arrived
	Busy    int64   // sums over threads
	Wait    int64
	OffCPU  int64
	Threads []OpThread
	// Probe is the estimated part of Dur that its own probes took, from the cost of a hit measured when the
	// recording started. It is included in Busy too, once per thread.
	Probe int64
	// Followed: it is known from its threads' arrivals alone, and starts at the last arrival before.
	Followed bool
	// Incomplete: not all threads of its team were seen.
	Incomplete bool
	// Counts are sums over its threads of the counters of Header.Meta.Counters; -1: unknown. It is nil if
	// none were recorded.
	Counts []int64
	// Scaled: one of its counters counted for only a part of the time, so its value is an estimate.
	Scaled bool
	// Page faults of its threads before their arrival: number of major faults; thread time in major faults
	// and in others that read from disk; how much they delayed its last arrival. Times are 0 where this
	// kernel does not report them.
	MajorFaults, FaultDur, FaultDelay int64
	// Choice is which experts its tokens use; nil if it was not recorded or there is none.
	Choice *Choice

	Team int // number of threads in its team
}

// Imbalance returns max busy / mean busy - 1 over the operator's threads, or -1 if it has none. It leaves out
// the time of the probes, and is 0 where the difference is smaller than that: a hit does not cost each thread
// the same.
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
	// Blocked is the part of OffCPU in uninterruptible sleep: mostly reads from disk.
	Blocked int64
	Wait    int64 // barrier wait: from its arrival to the last thread's
	// Counts are the counter values from its begin to its arrival while it was on a CPU, as Op.Counts.
	Counts []int64
}

// Thread is one thread of a profiled process.
type Thread struct {
	PID  int32
	TID  int32
	Comm string
	Role string // main, worker, other
}

// Header is what a run's beginning records; it is complete when Replay returns.
type Header struct {
	Meta      trace.Meta
	Processes []trace.Process
	Exits     []trace.Exit
	Losses    []trace.Loss
	Threads   []Thread
	End       *trace.End // nil: the trace is truncated
	Torn      string     // what is wrong at the trace's end; empty: nothing
	Problems  []string   // damage that was skipped
	// First and Last are the times of the first and last event. Where only a part is replayed, First is still
	// the recording's, as times are told relative to it, and Last the part's.
	First, Last int64
	Part        *Chosen // what is shown of the recording; nil: all
}

// Shown returns when what is shown begins and ends.
func (h *Header) Shown() (from, to int64) {
	if h.Part != nil {
		return h.Part.From, h.Part.To
	}
	return h.First, h.Last
}

// ParsePhase returns the phase of that name, as a user writes it.
func ParsePhase(s string) (Phase, error) {
	switch s {
	case "prefill", "decode", "encode":
		return Phase(s), nil
	case "unknown":
		return Unknown, nil
	}
	return "", fmt.Errorf("no phase is called %q: it is one of prefill, decode, encode, unknown", s)
}
