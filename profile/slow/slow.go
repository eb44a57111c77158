// SPDX-License-Identifier: Apache-2.0

// Package slow finds the steps that took longer than others of their kind, and says where their time went.
package slow

import (
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/summary"
)

// SlowSchema is the version of Slow's JSON form. Fields may be added without raising it.
const SlowSchema = 1

// Cause is what a part of a slow step's excess went to.
type Cause string

const (
	SlowOther   Cause = "other_process" // a thread could run, and another process's had its CPU
	SlowOwn     Cause = "own_threads"   // the same, a thread of its own process had it
	SlowNotSeen Cause = "cpu_not_seen"  // the same, who had it was not seen
	// a thread was blocked and could not be interrupted, or was in a page fault that read
	SlowDisk   Cause = "disk"
	SlowSleep  Cause = "sleep"  // a thread slept: a lock, a wake-up that came late
	SlowFaults Cause = "faults" // page faults, as far as they were measured
	// more experts were new than usual: the step before did not use them
	SlowExperts   Cause = "experts"
	SlowImbalance Cause = "imbalance" // threads waited for one that was late although it had its CPU
	// attention reads more of the KV cache than at the neighbours' positions
	SlowKV      Cause = "kv_growth"
	SlowRebuilt Cause = "graph_rebuilt" // the engine made a new graph for this step
	SlowBackend Cause = "backend"       // graphs of backends whose operators are not seen
	// time between the graphs of a step that is split: copies from backend to backend
	SlowCopies    Cause = "copies"
	SlowRecording Cause = "recording" // the recorder's probes copied a new graph's definition
	// the hypervisor ran something else: an estimate, from the kernel's sums
	SlowSteal       Cause = "steal"
	SlowUnexplained Cause = "unexplained" // the rest
)

// The rule's thresholds; docs/slow.md gives their reasons.
const (
	slowShare      = 0.2     // of the neighbours' time
	slowLeast      = 100_000 // ns
	slowWindow     = 10e9    // ns on both sides in which steps are neighbours
	slowNear       = 64      // so many on both sides are, however far
	slowFar        = 1024    // no more than so many are, however near
	slowSample     = 512     // as many of them are looked at
	slowFewest     = 4
	slowListed     = 10
	slowMostListed = 1000
	slowNames      = 8  // others' names that are kept with a step
	slowOps        = 6  // operators that are kept with a step
	slowBlock      = 16 // steps that share one sample of neighbours, where there are many
)

// Options choose what is looked at. The zero value is every step.
type Options struct {
	Phases []profile.Phase // none: all
	PID    int32           // 0: all processes
	Top    int             // steps listed; 0: ten
	Book   *facts.Book     // shared with other sinks of the replay; nil: none
	// keep bounds the steps that are kept; 0: maxSlowSteps.
	keep int
}

// Slow are the steps that took longer than their neighbours, and what that went to. Times are
// nanoseconds, shares 0 to 1. A nil pointer is a figure that is not known: null in JSON, never 0.
type Slow struct {
	SchemaVersion int          `json:"schema_version"`
	Run           *summary.Run `json:"run,omitempty"` // as Stat's, where the caller sets it
	// A step is slow if it took longer than its neighbours by more than this share of their time, and by more
	// than this time.
	OverShare float64 `json:"over_share"`
	OverNs    int64   `json:"over_ns"`
	Steps     int64   `json:"steps"`  // judged
	Dur       int64   `json:"dur_ns"` // their time
	// Steps that were not judged: not wholly seen, or with fewer than four neighbours.
	Partial int64 `json:"partial_steps"`
	Alone   int64 `json:"steps_without_neighbours"`

	Slow    int64  `json:"slow_steps"`
	SlowDur int64  `json:"slow_ns"`   // their time
	Excess  int64  `json:"excess_ns"` // of it beyond their neighbours'
	Causes  []Part `json:"causes"`    // its parts, the longest first
	Listed  []Step `json:"listed"`    // the steps that lost most, the worst first

	// Slowest judged step of those that are not slow: how far it was beyond its neighbours.
	NextShare *float64 `json:"next_share"`

	HasSched bool `json:"has_sched"` // scheduling was recorded
	HasOps   bool `json:"has_operators"`
	// Interference sums up who ran in place of threads that compute, in all steps, slow or not.
	Interference Interference `json:"interference"`
}

// Step is one slow step. Its parts add up to Excess, in nanoseconds.
type Step struct {
	Step     int64  `json:"step"`
	PID      int32  `json:"pid"`
	Phase    string `json:"phase"`
	Position *int64 `json:"position"` // behind its last token
	Tokens   *int64 `json:"tokens"`
	Start    int64  `json:"start_ns"`
	Dur      int64  `json:"dur_ns"`
	// the mean of Typical of its neighbours, those nearest to their median
	Baseline int64   `json:"baseline_ns"`
	Excess   int64   `json:"excess_ns"` // Dur - Baseline
	Over     float64 `json:"excess_share"`
	// Neighbours are the steps of its kind that it was compared with, Typical those that make the baseline.
	Neighbours int    `json:"neighbours"`
	Typical    int    `json:"typical"`
	Parts      []Part `json:"parts"` // the longest first
	Ops        []Op   `json:"operators"`
	Migrations *int64 `json:"migrations"` // times its threads went on on another CPU
	Rebuilt    bool   `json:"graph_rebuilt"`
	// NewExperts are those that tokens chose and the step before of its kind did not use, over all layers;
	// UsualNewExperts the mean of the baseline's steps.
	NewExperts      *int64   `json:"new_experts"`
	UsualNewExperts *float64 `json:"usual_new_experts"`
	// KHz is the mean frequency of its CPUs about its time, UsualKHz the median of these over the run, where
	// the kernel tells them.
	KHz      *float64 `json:"khz"`
	UsualKHz *float64 `json:"usual_khz"`
	// Doubts say what of the step is not known, in sentences.
	Doubts []string `json:"doubts"`
}

// Part is a part of an excess. A part can be negative: then there was less of it than usual.
type Part struct {
	Cause Cause   `json:"cause"`
	Ns    int64   `json:"ns"`
	Share float64 `json:"share"` // of the excess
	// Who ran on the CPU; their parts add up to Ns.
	Who []Who `json:"who,omitempty"`
	// Estimate: it follows from sums over a time longer than the step.
	Estimate bool `json:"estimate,omitempty"`
}

// Who is what one of those that took a CPU cost.
type Who struct {
	Comm string `json:"comm"` // empty: the rest of them
	Ns   int64  `json:"ns"`   // that the step lasted longer
	Ran  int64  `json:"ran_ns"`
	// PID of the process, if it was always the same one; 0 if not.
	PID int32 `json:"pid,omitempty"`
}

// Op is an operator that took longer than it used to.
type Op struct {
	Name  string `json:"name"`
	Layer *int   `json:"layer"`
	Op    string `json:"op"`
	Dur   int64  `json:"dur_ns"`
	Usual int64  `json:"usual_ns"` // a running estimate of its median
	Most  Cause  `json:"most"`     // what most of it is
}

// Interference says who ran on CPUs in place of threads that compute.
type Interference struct {
	By []Interferer `json:"by"` // by what they cost, the dearest first
	// Cost is what operators and steps lasted longer by all of them.
	Cost       int64         `json:"cost_ns"`
	Ran        int64         `json:"ran_ns"` // while a thread could have run there
	Disk       int64         `json:"disk_ns"`
	Sleep      int64         `json:"sleep_ns"`
	Migrations *int64        `json:"migrations"`
	Threads    []MovedThread `json:"threads"`
	CPUs       []CPUState    `json:"cpus"`
}

// Interferer is who took CPUs, by name.
type Interferer struct {
	Comm string `json:"comm"`
	Own  bool   `json:"own"` // of the process that computes
	PID  int32  `json:"pid,omitempty"`
	// Ran is how long it ran while a thread that computes could run there, Times how often.
	Ran   int64 `json:"ran_ns"`
	Times int64 `json:"times"`
	// Held is how long it was seen to have a CPU in all, whether or not a thread was ready then: others are
	// seen while one is, or for a while after one was pushed off. nil of own threads.
	Held *int64 `json:"held_ns,omitempty"`
	// Elsewhere is the part of Ran in which it had not the CPU that a thread waited for, as one of its own
	// process had that, but another one that the thread may use.
	Elsewhere int64 `json:"elsewhere_ns,omitempty"`
	Kernel    bool  `json:"kernel,omitempty"` // a thread of the kernel
	// Cost is what steps lasted longer by it.
	Cost int64 `json:"cost_ns"`
	CPUs []int `json:"cpus"`
	// Ops are the operators that lasted longer, Displaced the threads whose CPU it took, Waited those that
	// waited for them at the operator's end.
	Ops       []PaidBy `json:"operators"`
	Displaced []PaidBy `json:"displaced"`
	Waited    []PaidBy `json:"waited"`
}

// PaidBy is what something lost.
type PaidBy struct {
	Name string `json:"name"`
	TID  int32  `json:"tid,omitempty"`
	Ns   int64  `json:"ns"`
}

// MovedThread is how often a thread went on on another CPU.
type MovedThread struct {
	TID        int32 `json:"tid"`
	Migrations int64 `json:"migrations"`
	Preempted  int64 `json:"preempted"`
}

// CPUState is what the kernel told of a CPU over the recording.
type CPUState struct {
	CPU    int    `json:"cpu"`
	Steal  *int64 `json:"steal_ns"` // time that the hypervisor ran something else
	MinKHz *int64 `json:"min_khz"`
	MaxKHz *int64 `json:"max_khz"`
}

// Builder finds slow steps while a run is replayed into it. Its memory is bounded in the length of the run.
type Builder struct{ slowState }

// New returns an empty builder.
func New(opts Options) *Builder {
	b := &Builder{}
	b.init(opts)
	return b
}

// faultSpan tells that a thread was in a page fault from one time to another; reads: something was read from
// disk for it. It has to come before the step ends in which that was.
func (b *Builder) faultSpan(pid, tid int32, from, to int64, reads bool) {
	b.track.Fault(pid, tid, from, to, reads)
}
