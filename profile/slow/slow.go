// SPDX-License-Identifier: Apache-2.0

// Package slow finds steps that took longer than others of their kind, and attributes the excess to causes.
package slow

import (
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/summary"
)

// SlowSchema is the version of Slow's JSON form. Fields may be added without raising it.
const SlowSchema = 2

// Cause is what a part of a slow step's excess is attributed to.
type Cause string

const (
	SlowOther   Cause = "other_process" // a thread was runnable, and another process had its CPU
	SlowOwn     Cause = "own_threads"   // the same, but a thread of its own process had it
	SlowNotSeen Cause = "cpu_not_seen"  // the same, but it was not seen who had it
	// a thread was in uninterruptible sleep, or in a page fault that read from disk
	SlowDisk   Cause = "disk"
	SlowSleep  Cause = "sleep"  // a thread slept: a lock, a late wake-up
	SlowFaults Cause = "faults" // page faults whose durations were measured
	// more experts were new than usual: the previous step did not use them
	SlowExperts   Cause = "experts"
	SlowImbalance Cause = "imbalance" // threads waited for one that was late although it had its CPU
	// attention reads more of the KV cache than at the neighbours' positions
	SlowKV      Cause = "kv_growth"
	SlowRebuilt Cause = "graph_rebuilt" // the engine built a new graph for this step
	SlowBackend Cause = "backend"       // graphs of backends whose operators are not seen
	// time between the graphs of a split step: copies between backends
	SlowCopies    Cause = "copies"
	SlowRecording Cause = "recording" // the recorder's probes copied a new graph's definition
	// the hypervisor ran something else: an estimate, from the kernel's totals
	SlowSteal       Cause = "steal"
	SlowUnexplained Cause = "unattributed" // the rest
)

// The rule's thresholds; docs/slow.md explains them.
const (
	slowShare      = 0.2     // of the neighbours' time
	slowLeast      = 100_000 // ns
	slowWindow     = 10e9    // ns before and after within which steps are neighbours
	slowNear       = 64      // this many on each side are neighbours at any distance
	slowFar        = 1024    // at most this many on each side are neighbours
	slowSample     = 512     // this many of them are sampled
	slowFewest     = 4
	slowListed     = 10
	slowMostListed = 1000
	slowNames      = 8  // names of other threads kept with a step
	slowOps        = 6  // operators kept with a step
	slowBlock      = 16 // steps that share one sample of neighbours, where there are many
)

// Options select what is analysed. The zero value selects every step.
type Options struct {
	Phases []profile.Phase // none: all
	PID    int32           // 0: all processes
	Top    int             // steps listed; 0: ten
	Book   *facts.Book     // shared with other sinks of the replay; nil: none
	// keep bounds the number of steps kept; 0: maxSlowSteps.
	keep int
}

// Slow lists the steps that took longer than their neighbours, with the causes. Times are nanoseconds, shares
// 0 to 1. A nil pointer is an unknown value: null in JSON, never 0.
type Slow struct {
	SchemaVersion int          `json:"schema_version"`
	Run           *summary.Run `json:"run,omitempty"` // as Stat's, where the caller sets it
	// A step is slow if it took longer than its neighbours by more than this share of their time, and by more
	// than this time.
	OverShare float64 `json:"over_share"`
	OverNs    int64   `json:"over_ns"`
	Steps     int64   `json:"steps"`  // judged
	Dur       int64   `json:"dur_ns"` // their total time
	// Steps that were not judged: incomplete, or with fewer than four neighbours.
	Partial int64 `json:"partial_steps"`
	Alone   int64 `json:"steps_without_baseline"`

	Slow    int64  `json:"slow_steps"`
	SlowDur int64  `json:"slow_ns"`   // their total time
	Excess  int64  `json:"excess_ns"` // the part of it beyond their neighbours' time
	Causes  []Part `json:"causes"`    // its parts, the longest first
	Listed  []Step `json:"listed"`    // the steps with the largest excess, largest first

	// Slowest judged step among those that are not slow: how much longer than its neighbours it took.
	NextShare *float64 `json:"next_share"`

	HasSched bool `json:"has_sched"` // scheduling was recorded
	HasOps   bool `json:"has_operators"`
	// Interference sums up who ran in place of computing threads, over all steps, slow or not.
	Interference Interference `json:"contention"`
}

// Step is one slow step. Its parts add up to Excess, in nanoseconds.
type Step struct {
	Step     int64  `json:"step"`
	PID      int32  `json:"pid"`
	Phase    string `json:"phase"`
	Position *int64 `json:"position"` // after its last token
	Tokens   *int64 `json:"tokens"`
	Start    int64  `json:"start_ns"`
	Dur      int64  `json:"dur_ns"`
	// mean over the Typical neighbours, those nearest to the median
	Baseline int64   `json:"baseline_ns"`
	Excess   int64   `json:"excess_ns"` // Dur - Baseline
	Over     float64 `json:"excess_share"`
	// Neighbours counts the steps of its kind that it was compared with, Typical those that make the
	// baseline.
	Neighbours int    `json:"compared_with"`
	Typical    int    `json:"typical"`
	Parts      []Part `json:"parts"` // the longest first
	Ops        []Op   `json:"operators"`
	Migrations *int64 `json:"migrations"` // how often its threads moved to another CPU
	Rebuilt    bool   `json:"graph_rebuilt"`
	// NewExperts counts experts that tokens chose and the previous step of its kind did not use, over all
	// layers; UsualNewExperts is the mean over the baseline's steps.
	NewExperts      *int64   `json:"new_experts"`
	UsualNewExperts *float64 `json:"baseline_new_experts"`
	// KHz is the mean frequency of its CPUs around its time, UsualKHz the median of these CPUs over the run,
	// where the kernel reports frequencies.
	KHz      *float64 `json:"khz"`
	UsualKHz *float64 `json:"median_khz"`
	// Doubts lists what is unknown about the step, in sentences.
	Doubts []string `json:"doubts"`
}

// Part is a part of an excess. It can be negative: then there was less of it than usual.
type Part struct {
	Cause Cause   `json:"cause"`
	Ns    int64   `json:"ns"`
	Share float64 `json:"share"` // of the excess
	// Who ran on the CPU; the entries add up to Ns.
	Who []Who `json:"who,omitempty"`
	// Estimate: it is derived from sums over a time longer than the step.
	Estimate bool `json:"estimate,omitempty"`
}

// Who is what one that took a CPU cost.
type Who struct {
	Comm string `json:"comm"` // empty: the rest of them
	Ns   int64  `json:"ns"`   // by how much the step took longer
	Ran  int64  `json:"ran_ns"`
	// PID of the process, if it was always the same; otherwise 0.
	PID int32 `json:"pid,omitempty"`
}

// Op is an operator that took longer than usual.
type Op struct {
	Name  string `json:"name"`
	Layer *int   `json:"layer"`
	Op    string `json:"op"`
	Dur   int64  `json:"dur_ns"`
	Usual int64  `json:"median_ns"` // a running estimate of its median
	Most  Cause  `json:"most"`      // the cause of most of the difference
}

// Interference sums up who ran on CPUs in place of computing threads.
type Interference struct {
	By []Interferer `json:"by"` // by cost, highest first
	// Cost is by how much all of them delayed operators and steps.
	Cost       int64         `json:"cost_ns"`
	Ran        int64         `json:"ran_ns"` // while a computing thread was runnable there
	Disk       int64         `json:"disk_ns"`
	Sleep      int64         `json:"sleep_ns"`
	Migrations *int64        `json:"migrations"`
	Threads    []MovedThread `json:"threads"`
	CPUs       []CPUState    `json:"cpus"`
}

// Interferer is who took CPUs, by name.
type Interferer struct {
	Comm string `json:"comm"`
	Own  bool   `json:"own"` // of the computing process
	PID  int32  `json:"pid,omitempty"`
	// Ran is how long it ran while a computing thread was runnable there, Times how often.
	Ran   int64 `json:"ran_ns"`
	Times int64 `json:"times"`
	// Held is the total time that it was seen to have a CPU, whether or not a thread was runnable then.
	// Others are seen while a thread is runnable, or for a while after one was pushed off. nil for own
	// threads.
	Held *int64 `json:"held_ns,omitempty"`
	// Elsewhere is the part of Ran in which one of the thread's own process had the CPU that the thread
	// waited for, and this one had another CPU that the thread may use.
	Elsewhere int64 `json:"elsewhere_ns,omitempty"`
	Kernel    bool  `json:"kernel,omitempty"` // a kernel thread
	// Cost is by how much it delayed steps.
	Cost int64 `json:"cost_ns"`
	CPUs []int `json:"cpus"`
	// Ops are the delayed operators, Displaced the threads whose CPU it took, and Waited the threads that
	// waited for them at the operator's end.
	Ops       []PaidBy `json:"operators"`
	Displaced []PaidBy `json:"preempted_threads"`
	Waited    []PaidBy `json:"waiting_threads"`
}

// PaidBy is what something lost.
type PaidBy struct {
	Name string `json:"name"`
	TID  int32  `json:"tid,omitempty"`
	Ns   int64  `json:"ns"`
}

// MovedThread is how often a thread moved to another CPU.
type MovedThread struct {
	TID        int32 `json:"tid"`
	Migrations int64 `json:"migrations"`
	Preempted  int64 `json:"preempted"`
}

// CPUState is what the kernel reported of a CPU over the recording.
type CPUState struct {
	CPU    int    `json:"cpu"`
	Steal  *int64 `json:"steal_ns"` // time in which the hypervisor ran something else
	MinKHz *int64 `json:"min_khz"`
	MaxKHz *int64 `json:"max_khz"`
}

// Builder finds slow steps while a run is replayed into it. Its memory does not grow with the run's length.
type Builder struct{ slowState }

// New returns an empty builder.
func New(opts Options) *Builder {
	b := &Builder{}
	b.init(opts)
	return b
}

// faultSpan records that a thread was in a page fault between two times; reads: it caused a read from disk.
// It must be called before the step ends in which that was.
func (b *Builder) faultSpan(pid, tid int32, from, to int64, reads bool) {
	b.track.Fault(pid, tid, from, to, reads)
}
