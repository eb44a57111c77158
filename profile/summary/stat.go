// SPDX-License-Identifier: Apache-2.0

// Package summary is the document of `stat --json`: its types, the sums behind a row, and no analysis.
// Package stat fills it, package verdict judges it, views draw it.
package summary

import (
	"github.com/profinfer/profinfer/profile/experts"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/internal/num"
	"github.com/profinfer/profinfer/profile/memory"
	"github.com/profinfer/profinfer/profile/offload"
	"github.com/profinfer/profinfer/profile/ops"
	"github.com/profinfer/profinfer/profile/requests"
	"github.com/profinfer/profinfer/profile/roof"
	"github.com/profinfer/profinfer/profile/sched"
)

// Schema is the version of Stat's JSON form. Fields may be added without raising it.
const Schema = 1

// Stat is the statistics of a run. Times are nanoseconds, sizes bytes, shares 0 to 1.
// A nil pointer is a figure that is not known: null in JSON, never 0.
type Stat struct {
	SchemaVersion int           `json:"schema_version"`
	By            facts.By      `json:"by"`
	Run           Run           `json:"run"`
	Models        []facts.Model `json:"models"`
	Phases        []Phase       `json:"phases"`
	// Outside sums up operators that ran in no step; nil if there were none.
	Outside   *Outside            `json:"outside_steps"`
	TTFT      TTFT                `json:"ttft"`
	Sequences *requests.Sequences `json:"sequences"` // the requests, sequence by sequence; nil: none was seen
	Threads   []Thread            `json:"threads"`
	Lost      Lost                `json:"lost"`
	// scheduling was recorded: off-CPU figures have their evidence
	HasSched bool `json:"has_sched"`
	// false: busy holds the time a thread was descheduled
	HasOffCPU bool    `json:"has_off_cpu"`
	MaxError  float64 `json:"p95_max_error"` // relative error of every p95
	// Counters that were read at operators, in the order of every row's Counts; absent if there were none.
	Counters []Counter `json:"counters,omitempty"`
	// ByThreads sums counters up by the number of threads that computed; absent where none tells anything
	// beside another.
	ByThreads []ByThreads `json:"counts_by_threads,omitempty"`
	// Peaks are what the verdicts compare with; nil where none were asked for.
	Peaks *roof.Used `json:"peaks"`
	// Offload says how phases were split over backends; absent where only the CPU computed.
	Offload []offload.Offload `json:"offload,omitempty"`
	// Remote says what other processes on this machine computed for the steps; absent where none was seen to.
	Remote []Remote `json:"remote,omitempty"`
	// RunVerdict sums up those of the phases, by their time in steps; nil where there are none.
	RunVerdict *Verdict `json:"run_verdict"`
	// Faults are page faults, where they were recorded.
	Faults *memory.Stat `json:"faults,omitempty"`
	// Verdicts say what bounds each phase, decode first; Findings what is most worth looking at: first what
	// could give back most time.
	Verdicts []Verdict `json:"verdicts"`
	Findings []Finding `json:"findings"`
}

// Run is the recording and what was recorded.
type Run struct {
	Tool      string    `json:"tool"`
	Command   []string  `json:"command"`
	Host      string    `json:"host"`
	Kernel    string    `json:"kernel"`
	Arch      string    `json:"arch"`
	CPU       string    `json:"cpu"`
	Cores     int       `json:"cores"`
	Level     string    `json:"level"`
	Recorded  *int64    `json:"recorded_ns"` // when the recording began, since 1970; nil: not known
	Processes []Process `json:"processes"`
	// Dur is the time from the first to the last event.
	Dur        int64    `json:"dur_ns"`
	Steps      int64    `json:"steps"`
	Operators  int64    `json:"operators"`
	ProbeShare *float64 `json:"probe_share"` // estimate: hits of operators * measured cost / thread time
	Notes      []string `json:"notes"`
	Filter     string   `json:"filter"`          // operators asked for, as flags; empty: all
	Budget     string   `json:"overhead_budget"` // 0.005 is 0.5 %; empty: none
	MinTPS     string   `json:"min_tps"`
}

// Process is one profiled process.
type Process struct {
	PID           int32  `json:"pid"`
	Comm          string `json:"comm"`
	Engine        string `json:"engine"`
	EngineVersion string `json:"engine_version"`
	GGMLVersion   string `json:"ggml_version"`
	CPUVariant    string `json:"cpu_variant"` // of the library's name: "haswell"; empty if it has none
	// of the largest team that ran an operator; 0 if none was seen
	Threads  int      `json:"threads"`
	Steps    int64    `json:"steps"`
	Command  []string `json:"command"` // its arguments
	Warnings []string `json:"warnings"`
}

// Phase is what the steps of one phase did. Operators, graphs of backends whose operators
// cannot be seen, and gap make up the time of the steps: OpsDur - Overlap + BackendDur + Gap = TracedDur.
type Phase struct {
	Phase string `json:"phase"` // prefill, decode, encode, unknown
	// Model is the index in Stat.Models of the model computed; nil if it is not known. Steps of
	// different models (a draft and its target) are phases of their own.
	Model *int  `json:"model"`
	Steps int64 `json:"steps"`
	// Partial counts steps that were not wholly seen. They are left out of every figure of the
	// phase, unless OnlyPartial: then there are no others, and figures can be too low.
	Partial     int64  `json:"partial_steps"`
	OnlyPartial bool   `json:"only_partial"`
	Tokens      *int64 `json:"tokens"`
	Dur         int64  `json:"dur_ns"` // of the steps' calls
	// The steps' time until their results were there: a step's call can hand graphs to a device, or to
	// another process, and return before these are done ([profile.Step.HandedOver]). Where it was not seen
	// when, nil.
	TokensPerS  *float64 `json:"tokens_per_s"`     // over the time in steps
	PerToken    *float64 `json:"per_token_ns"`     // of one sequence; TPOT in decode
	PerTokenP95 *float64 `json:"per_token_p95_ns"` // over steps; nil for fewer than 2
	StepMax     int64    `json:"step_max_ns"`      // of the call where nothing else is known
	StepMaxID   int64    `json:"step_max"`
	// Who ran meanwhile on CPUs that threads of the slowest step were ready to run on, longest
	// first. Empty without scheduling events.
	StepMaxInstead []sched.Culprit `json:"step_max_ran_instead"`
	// Absent where no step handed anything over. Async counts those that did, Unseen those of them whose
	// results nobody was seen to wait for, which the times above leave out. EndToEnd is the sum of these
	// times; the calls alone have the rest.
	Async           int64    `json:"async_steps,omitempty"`
	Unseen          int64    `json:"unseen_results,omitempty"`
	EndToEnd        *int64   `json:"end_to_end_ns,omitempty"`
	CallTokensPerS  *float64 `json:"call_tokens_per_s,omitempty"`
	CallPerToken    *float64 `json:"call_per_token_ns,omitempty"`
	CallPerTokenP95 *float64 `json:"call_per_token_p95_ns,omitempty"`

	// Traced steps are those whose operators were recorded, TracedDur their time. All that is said of
	// operators is of these: shares and figures a step are the whole's as far as those stand for all.
	Traced    int64  `json:"traced_steps"`
	TracedDur int64  `json:"traced_ns"`
	Ops       int64  `json:"operators"`
	OpsDur    *int64 `json:"operators_ns"` // nil: operators were not recorded
	// Probe is the part of OpsDur that the probes took, an estimate; shares and rates are without it.
	Probe   *int64 `json:"probe_ns"`
	Overlap *int64 `json:"overlap_ns"` // operators that ran at the same time count twice in OpsDur
	Gap     *int64 `json:"gap_ns"`     // time in the steps outside operators and such graphs
	// BackendDur is the time in which such a graph ran and no operator; nil if there was none.
	// Backends are its parts, the longest first.
	BackendDur *int64    `json:"backends_ns"`
	Backends   []Backend `json:"backends"`
	// Shares of TracedDur.
	MatMul     *float64 `json:"matmul_share"` // products with weights
	Attn       *float64 `json:"attn_share"`   // attention itself: scores, softmax, values
	Other      *float64 `json:"other_share"`
	GapShare   *float64 `json:"gap_share"`
	ProbeShare *float64 `json:"probe_share"`
	Backend    *float64 `json:"backends_share"`
	// Shares of the threads' time in operators.
	Wait       *float64 `json:"wait_share"`
	OffCPU     *float64 `json:"off_cpu_share"`
	GBps       *float64 `json:"gb_per_s"`        // bytes of all operators / their time
	MatMulGBps *float64 `json:"matmul_gb_per_s"` // of the products with weights alone
	Rows       []Row    `json:"rows"`
	Rest       *Row     `json:"rest"`      // what Top left out
	RestRows   int      `json:"rest_rows"` // how many rows that is
	// Experts is what tokens chose, absent where that was not recorded or the model has none.
	Experts *experts.Stat `json:"experts,omitempty"`
}

// Backend sums up one backend's graphs, of which no operator was seen. The time of a graph is that
// of the call that runs it or hands it over: a device can compute on after it.
type Backend struct {
	Backend string   `json:"backend"` // "Vulkan", "BLAS", "RPC"
	Graphs  int64    `json:"graphs"`
	Dur     int64    `json:"dur_ns"`
	Share   *float64 `json:"share"` // of the phase's time in steps
	Submits bool     `json:"-"`     // its calls can return before a graph is done
}

// Outside are operators that ran in no step.
type Outside struct {
	Ops    int64 `json:"operators"`
	OpsDur int64 `json:"operators_ns"`
	Rows   []Row `json:"rows"`
}

// Row is a group of operators of one phase.
type Row struct {
	Key          string    `json:"key"`    // what it is grouped by: "ffn_down", "MUL_MAT", "12", ...
	Weight       bool      `json:"weight"` // the key is a weight's
	Type         string    `json:"type"`   // of the weights; empty if they differ or there is none
	Op           string    `json:"op"`     // the operators' op; empty if they differ
	Block        ops.Block `json:"block"`  // empty if they differ
	Step         int64     `json:"step,omitempty"`
	Tokens       *int64    `json:"tokens,omitempty"` // of the step
	TID          int32     `json:"tid,omitempty"`
	Calls        int64     `json:"calls"`
	CallsPerStep float64   `json:"calls_per_step"`
	// sum of the operators' durations; by thread: of the thread's time in them
	Dur int64 `json:"dur_ns"`
	// Probe is the part of Dur that the probes took, an estimate. What follows is of Dur - Probe.
	Probe       int64    `json:"probe_ns"`
	DurPerStep  float64  `json:"dur_per_step_ns"`
	Share       *float64 `json:"share"`         // of the phase's time in steps
	Mean        float64  `json:"mean_ns"`       // a call
	P95         float64  `json:"p95_ns"`        // a call
	Bytes       *int64   `json:"bytes"`         // nil: of no operator known
	BytesAtMost bool     `json:"bytes_at_most"` // of some operators only an upper estimate is known
	Flops       *int64   `json:"flops"`
	GBps        *float64 `json:"gb_per_s"` // over operators whose bytes are known
	GFlops      *float64 `json:"gflop_per_s"`
	Intensity   *float64 `json:"flop_per_byte"`
	Busy        int64    `json:"busy_ns"` // sums over threads
	Wait        int64    `json:"wait_ns"`
	OffCPU      int64    `json:"off_cpu_ns"`
	WaitShare   *float64 `json:"wait_share"` // of busy + wait + off-CPU
	OffShare    *float64 `json:"off_cpu_share"`
	Imbalance   *float64 `json:"imbalance"`  // max busy / mean busy - 1 of each operator, weighted by time
	Incomplete  int64    `json:"incomplete"` // operators of which not all threads were seen
	// Bound is what the row's time follows from; nil by thread and by step, and where not all of its
	// operators are known.
	Bound *RowVerdict `json:"bound"`
	// Counts has one for each of Stat.Counters; absent where there are none.
	Counts []Count `json:"counts,omitempty"`
}

// TTFT is the time to the first token: from the start of a sequence's first step to the end of
// the first step that asks for its logits.
type TTFT struct {
	Sequences int64    `json:"sequences"` // whose prompt was seen from its start
	Unknown   int64    `json:"unknown"`   // whose prompt was not
	Pending   int64    `json:"pending"`   // whose logits were not asked for before the trace ended
	Mean      *float64 `json:"mean_ns"`
	P95       *float64 `json:"p95_ns"`
	Max       *int64   `json:"max_ns"`
}

// Thread is one thread over all steps that were wholly seen.
type Thread struct {
	PID       int32    `json:"pid"`
	TID       int32    `json:"tid"`
	Comm      string   `json:"comm"`
	Role      string   `json:"role"`
	Ops       int64    `json:"operators"`
	Busy      int64    `json:"busy_ns"`
	Wait      int64    `json:"wait_ns"`
	OffCPU    int64    `json:"off_cpu_ns"`
	Idle      int64    `json:"idle_ns"`     // of the steps' time, in no operator
	Steps     int64    `json:"steps_ns"`    // time of the steps it took part in
	Util      *float64 `json:"utilisation"` // busy / steps
	Imbalance *float64 `json:"imbalance"`   // its utilisation / that of all the process's threads - 1
	// From scheduling events, over the whole recording; nil and empty where none were recorded.
	Preempted *int64          `json:"preempted"`   // times it was taken off a CPU while it could run
	Slept     *int64          `json:"slept"`       // times it gave up its CPU
	Runnable  *int64          `json:"runnable_ns"` // time it could run, and another ran
	Instead   []sched.Culprit `json:"ran_instead"` // who ran then on the CPU it wanted, longest first
	WokenBy   []sched.Culprit `json:"woken_by"`    // most often first
}

// Lost is what the recording did not see.
type Lost struct {
	Events        uint64          `json:"events"` // of reason "lost": written by nobody
	ThrottledNs   int64           `json:"throttled_ns"`
	Spans         int             `json:"spans"`
	ByWhy         []LostBy        `json:"by_why"`
	Untraced      []UntracedSteps `json:"untraced_steps"`
	Steps         int64           `json:"partial_steps"`
	IncompleteOps int64           `json:"incomplete_operators"`
	UnknownShapes int64           `json:"unknown_shapes"` // graph executions without a definition
	PartShapes    int64           `json:"part_shapes"`    // graph executions whose definition has holes
	Aborted       int64           `json:"aborted_graphs"`
	Torn          string          `json:"torn"`              // what is wrong with the file, empty if nothing
	Cut           bool            `json:"cut"`               // the recording did not end in good order
	StepRows      int64           `json:"step_rows_dropped"` // by step: rows not kept, the shortest steps
}

// UntracedSteps are steps whose operators were not recorded, though the level has them.
type UntracedSteps struct {
	Why   string `json:"why"` // throttled, learning, filtered, unmatched
	Steps int64  `json:"steps"`
}

// LostBy sums up losses of one kind.
type LostBy struct {
	Why    string `json:"why"`
	What   string `json:"what"`
	Spans  int    `json:"spans"`
	Events uint64 `json:"events"`
	Dur    int64  `json:"dur_ns"`
}

// EndToEndStep is the mean time from a step's begin to when its results were there, over the steps of which
// that is known, ns, and how many these are; 0 of none.
func (ps *Phase) EndToEndStep() (mean float64, steps int64) {
	switch {
	case ps.Async == 0:
		return num.SafeRatio(ps.Dur, ps.Steps), ps.Steps
	case ps.EndToEnd == nil:
		return 0, 0
	}
	steps = ps.Steps - ps.Unseen
	return num.SafeRatio(*ps.EndToEnd, steps), steps
}

// Late tells that the results of the phase's steps were there notably later than their calls returned, or
// that it was not seen when.
func (ps *Phase) Late() bool {
	mean, _ := ps.EndToEndStep()
	return ps.Async > 0 && (mean == 0 || ps.Longer() > notablyLate)
}

// Longer is how many times as long as its call a step lasts until its results are there; 1 where that is not
// known.
func (ps *Phase) Longer() float64 {
	mean, _ := ps.EndToEndStep()
	if call := num.SafeRatio(ps.Dur, ps.Steps); mean > 0 && call > 0 {
		return mean / call
	}
	return 1
}

// ByThreads is what the steps of one phase did that were computed by one number of threads, and what their
// operators counted.
type ByThreads struct {
	Phase string `json:"phase"`
	// Model is the index in Stat.Models; nil if it is not known.
	Model      *int     `json:"model"`
	Threads    int      `json:"threads"` // of the largest team that ran an operator of the step
	Steps      int64    `json:"steps"`   // that were wholly seen, with their operators
	TokensPerS *float64 `json:"tokens_per_s"`
	// Counts has one for each of Stat.Counters.
	Counts []Count `json:"counts"`
	CountRatios
}

// notablyLate is how much longer than its call a step lasts until its results are there, for the two to be
// told apart.
const notablyLate = 1.02
