// SPDX-License-Identifier: Apache-2.0

// Package summary is the document of `stat --json`: its types and the sums behind a row, without analysis.
// Package stat fills it, package verdict judges it, and views draw it.
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
const Schema = 2

// Stat is the statistics of a run. Times are nanoseconds, sizes bytes, shares 0 to 1. A nil pointer is an
// unknown value: null in JSON, never 0.
type Stat struct {
	SchemaVersion int           `json:"schema_version"`
	By            facts.By      `json:"by"`
	Run           Run           `json:"run"`
	Models        []facts.Model `json:"models"`
	Phases        []Phase       `json:"phases"`
	// Outside sums up operators that ran outside any step; nil if there were none.
	Outside   *Outside            `json:"outside_steps"`
	TTFT      TTFT                `json:"ttft"`
	Sequences *requests.Sequences `json:"sequences"` // the requests, by sequence; nil: none was seen
	Threads   []Thread            `json:"threads"`
	Lost      Lost                `json:"lost"`
	// scheduling was recorded, so off-CPU times can be attributed
	HasSched bool `json:"has_sched"`
	// false: busy includes the time a thread was descheduled
	HasOffCPU bool    `json:"has_off_cpu"`
	MaxError  float64 `json:"p95_max_error"` // relative error of every p95
	// Counters were read at operators, and come in the order of every row's Counts; absent if there were
	// none.
	Counters []Counter `json:"counters,omitempty"`
	// ByThreads sums counters up by the number of computing threads; absent where no pair of counters gives a
	// ratio.
	ByThreads []ByThreads `json:"counts_by_threads,omitempty"`
	// Peaks are what the verdicts compare with; nil if none were requested.
	Peaks *roof.Used `json:"peaks"`
	// Offload says how phases were split between backends; absent where only the CPU computed.
	Offload []offload.Offload `json:"offload,omitempty"`
	// Remote says what other processes on this machine computed for the steps; absent where none was seen.
	Remote []Remote `json:"remote,omitempty"`
	// RunVerdict sums up the phases' verdicts, weighted by their time in steps; nil where there are none.
	RunVerdict *Verdict `json:"run_verdict"`
	// CPUUse is the utilisation of the CPUs during steps; nil where operators or scheduling were not
	// recorded.
	CPUUse *CPUUse `json:"cpu_use"`
	// Batches describes batches over time and step times by their size; nil where no batch was read.
	Batches *Batches `json:"batches"`
	// Faults are page faults, where they were recorded.
	Faults *memory.Stat `json:"faults,omitempty"`
	// Verdicts say what bounds each phase, decode first. Findings are what is most worth looking at, the
	// largest possible gain first.
	Verdicts []Verdict `json:"verdicts"`
	Findings []Finding `json:"findings"`
}

// Run describes the recording and what was recorded.
type Run struct {
	Tool      string    `json:"tool"`
	Command   []string  `json:"command"`
	Host      string    `json:"host"`
	Kernel    string    `json:"kernel"`
	Arch      string    `json:"arch"`
	CPU       string    `json:"cpu"`
	Cores     int       `json:"cores"`
	Level     string    `json:"level"`
	Recorded  *int64    `json:"recorded_ns"` // when the recording began, since 1970; nil: unknown
	Processes []Process `json:"processes"`
	// Dur is the time from the first to the last event.
	Dur        int64    `json:"dur_ns"`
	Steps      int64    `json:"steps"`
	Operators  int64    `json:"operators"`
	ProbeShare *float64 `json:"probe_share"` // estimate: hits of operators * measured cost / thread time
	Notes      []string `json:"notes"`
	Filter     string   `json:"filter"`          // requested operators, as flags; empty: all
	Part       string   `json:"part,omitempty"`  // what is shown of the recording; empty: all
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
	CPUVariant    string `json:"cpu_variant"` // from the library's name: "haswell"; empty if it has none
	// of the largest team that ran an operator; 0 if none was seen
	Threads  int      `json:"threads"`
	Steps    int64    `json:"steps"`
	Command  []string `json:"command"` // its arguments
	Warnings []string `json:"warnings"`
}

// Phase is what the steps of one phase did. Their time is made up of operators, graphs of backends whose
// operators cannot be seen, and gap: OpsDur - Overlap + BackendDur + Gap = TracedDur.
type Phase struct {
	Phase string `json:"phase"` // prefill, decode, encode, unknown
	// Model is the index in Stat.Models of the model computed; nil if unknown. Steps of different models (a
	// draft and its target) form separate phases.
	Model *int  `json:"model"`
	Steps int64 `json:"steps"`
	// Partial counts incomplete steps. They are left out of every figure of the phase, unless OnlyPartial:
	// then there are no others, and figures can be too low.
	Partial     int64  `json:"partial_steps"`
	OnlyPartial bool   `json:"only_partial"`
	Tokens      *int64 `json:"tokens"`
	Dur         int64  `json:"dur_ns"` // of the steps' calls
	// The steps' time until their results were there: a step's call can hand graphs to a device, or to
	// another process, and return before these are done ([profile.Step.HandedOver]). nil where that time was
	// not seen.
	TokensPerS  *float64 `json:"tokens_per_s"`     // over the time in steps
	PerToken    *float64 `json:"per_token_ns"`     // of one sequence; TPOT in decode
	PerTokenP95 *float64 `json:"per_token_p95_ns"` // over steps; nil for fewer than 20
	StepMax     int64    `json:"step_max_ns"`      // of the call where nothing else is known
	StepMaxID   int64    `json:"step_max"`
	// Who ran meanwhile on CPUs for which threads of the slowest step were runnable, longest first. Empty
	// without scheduling events.
	StepMaxInstead []sched.Culprit `json:"step_max_preempted_by"`
	// Absent where no step handed anything over. Async counts the steps that did. Unseen counts those whose
	// results no thread was seen to wait for, which the times above leave out. EndToEnd is the sum of these
	// times; for the other steps only the calls' times are known.
	Async           int64    `json:"async_steps,omitempty"`
	Unseen          int64    `json:"unseen_results,omitempty"`
	EndToEnd        *int64   `json:"end_to_end_ns,omitempty"`
	CallTokensPerS  *float64 `json:"call_tokens_per_s,omitempty"`
	CallPerToken    *float64 `json:"call_per_token_ns,omitempty"`
	CallPerTokenP95 *float64 `json:"call_per_token_p95_ns,omitempty"`

	// StepTime is the distribution of the steps' times, TPOT that of the time per output token of one
	// sequence, in decode; both until the results were there, where that was seen.
	StepTime *requests.Spread `json:"step_time"`
	TPOT     *requests.Spread `json:"tpot"`
	// EndToEndTPS is tokens per second including the time between steps of one answer, in which the engine
	// samples; TokensPerS is over the time in steps alone. nil: unknown, or not decode.
	EndToEndTPS *float64 `json:"end_to_end_tokens_per_s"`
	// Bandwidth and Compute are what operators must read and write, and compute at least, per time of the
	// steps. MBU is the model bandwidth utilisation: the same of the bytes of weights and of the KV cache
	// alone, divided by the machine's peak. nil: unknown.
	Bandwidth *Rate    `json:"bandwidth"`
	Compute   *Rate    `json:"compute"`
	MBU       *float64 `json:"mbu"`
	// Disturbed are the steps that lost much of their time to other processes or the disk; nil: none did.
	// UndisturbedTPS and UndisturbedStep are the tokens per second and the mean time of the other steps; nil
	// where there is none, or where results came later than calls returned.
	Disturbed       *Disturbed `json:"disturbed"`
	UndisturbedTPS  *float64   `json:"undisturbed_tokens_per_s"`
	UndisturbedStep *float64   `json:"undisturbed_step_ns"`

	// Traced counts the steps whose operators were recorded, TracedDur is their time. All operator figures
	// are of these steps: shares and figures per step hold for all steps only as far as these are
	// representative.
	Traced    int64  `json:"traced_steps"`
	TracedDur int64  `json:"traced_ns"`
	Ops       int64  `json:"operators"`
	OpsDur    *int64 `json:"operators_ns"` // nil: operators were not recorded
	// Probe is the estimated part of OpsDur that the probes took; shares and rates exclude it.
	Probe   *int64 `json:"probe_ns"`
	Overlap *int64 `json:"overlap_ns"`           // operators that ran in parallel count twice in OpsDur
	Gap     *int64 `json:"outside_operators_ns"` // time in the steps outside operators and such graphs
	// BackendDur is the time in which such a graph ran and no operator; nil if there was none. Backends are
	// its parts, the longest first.
	BackendDur *int64    `json:"backends_ns"`
	Backends   []Backend `json:"backends"`
	// Shares of TracedDur.
	MatMul     *float64 `json:"matmul_share"` // weight matmuls
	Attn       *float64 `json:"attn_share"`   // attention: scores, softmax, values
	Other      *float64 `json:"other_share"`
	GapShare   *float64 `json:"outside_operators_share"`
	ProbeShare *float64 `json:"probe_share"`
	Backend    *float64 `json:"backends_share"`
	// Shares of the threads' time in operators.
	Wait       *float64 `json:"wait_share"`
	OffCPU     *float64 `json:"off_cpu_share"`
	GBps       *float64 `json:"gb_per_s"`        // bytes of all operators / their time
	MatMulGBps *float64 `json:"matmul_gb_per_s"` // of the weight matmuls alone
	Rows       []Row    `json:"rows"`
	Rest       *Row     `json:"rest"`      // sum of the rows that Top left out
	RestRows   int      `json:"rest_rows"` // number of rows left out
	// Experts is what tokens chose; absent where that was not recorded or the model has no experts.
	Experts *experts.Stat `json:"experts,omitempty"`
}

// Backend sums up the graphs of one backend, of which no operators were seen. A graph's time is that of the
// call that runs it or hands it over: a device can compute beyond it.
type Backend struct {
	Backend string   `json:"backend"` // "Vulkan", "BLAS", "RPC"
	Graphs  int64    `json:"graphs"`
	Dur     int64    `json:"dur_ns"`
	Share   *float64 `json:"share"` // of the phase's time in steps
	Submits bool     `json:"-"`     // its calls can return before a graph is done
}

// Outside sums up operators that ran outside any step.
type Outside struct {
	Ops    int64 `json:"operators"`
	OpsDur int64 `json:"operators_ns"`
	Rows   []Row `json:"rows"`
}

// Row is a group of operators of one phase.
type Row struct {
	Key          string    `json:"key"`    // the group's key: "ffn_down", "MUL_MAT", "12", ...
	Weight       bool      `json:"weight"` // the key is a weight's name
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
	// Probe is the estimated part of Dur that the probes took. The figures below are of Dur - Probe.
	Probe       int64    `json:"probe_ns"`
	DurPerStep  float64  `json:"dur_per_step_ns"`
	Share       *float64 `json:"share"`         // of the phase's time in steps
	Mean        float64  `json:"mean_ns"`       // per call
	P50         float64  `json:"p50_ns"`        // per call
	P95         float64  `json:"p95_ns"`        // per call
	Bytes       *int64   `json:"bytes"`         // nil: unknown for all operators
	BytesAtMost bool     `json:"bytes_at_most"` // an upper bound: for some operators only that is known
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
	Incomplete  int64    `json:"incomplete"` // operators of which some threads were not seen
	// Bound is what bounds the row's time; nil by thread and by step, and where not all of its operators are
	// known.
	Bound *RowVerdict `json:"bound"`
	// Counts has one entry for each of Stat.Counters; absent where there are none.
	Counts []Count `json:"counts,omitempty"`
}

// TTFT is the time to the first token: from the start of a sequence's first step to the end of the first step
// that requests its logits.
type TTFT struct {
	Sequences int64    `json:"sequences"` // whose prompt was seen from its start
	Unknown   int64    `json:"unknown"`   // whose prompt was not seen from its start
	Pending   int64    `json:"pending"`   // whose logits were not requested before the trace ended
	Mean      *float64 `json:"mean_ns"`   // nil as in [requests.Spread]
	P50       *float64 `json:"p50_ns"`
	P95       *float64 `json:"p95_ns"` // nil for fewer than 20
	P99       *float64 `json:"p99_ns"` // nil for fewer than 100
	Max       *int64   `json:"max_ns"`
}

// Thread is one thread over all complete steps.
type Thread struct {
	PID       int32    `json:"pid"`
	TID       int32    `json:"tid"`
	Comm      string   `json:"comm"`
	Role      string   `json:"role"`
	Ops       int64    `json:"operators"`
	Busy      int64    `json:"busy_ns"`
	Wait      int64    `json:"wait_ns"`
	OffCPU    int64    `json:"off_cpu_ns"`
	Idle      int64    `json:"idle_ns"`     // part of the steps' time outside operators
	Steps     int64    `json:"steps_ns"`    // time of the steps it took part in
	Util      *float64 `json:"utilisation"` // busy / steps
	Imbalance *float64 `json:"imbalance"`   // its utilisation / that of all the process's threads - 1
	// From scheduling events, over the whole recording; nil and empty where none were recorded.
	Preempted *int64          `json:"preempted"`    // times it was taken off a CPU while runnable
	Slept     *int64          `json:"slept"`        // times it gave up its CPU
	Runnable  *int64          `json:"runnable_ns"`  // time it was runnable while another ran
	Instead   []sched.Culprit `json:"preempted_by"` // who then ran on the CPU it wanted, longest first
	WokenBy   []sched.Culprit `json:"woken_by"`     // most often first
}

// Lost is what the recording did not capture.
type Lost struct {
	Events        uint64          `json:"events"` // of reason "lost": never written
	ThrottledNs   int64           `json:"throttled_ns"`
	Spans         int             `json:"spans"`
	ByWhy         []LostBy        `json:"by_why"`
	Untraced      []UntracedSteps `json:"untraced_steps"`
	Steps         int64           `json:"partial_steps"`
	IncompleteOps int64           `json:"incomplete_operators"`
	UnknownShapes int64           `json:"unknown_shapes"` // graph executions without a definition
	PartShapes    int64           `json:"part_shapes"`    // graph executions whose definition is incomplete
	Aborted       int64           `json:"aborted_graphs"`
	Torn          string          `json:"damage"`            // what is wrong with the file, empty if nothing
	Cut           bool            `json:"truncated"`         // the recording did not end cleanly
	StepRows      int64           `json:"step_rows_dropped"` // by step: rows not kept, the shortest steps
}

// UntracedSteps counts steps whose operators were not recorded although the level records them.
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

// EndToEndStep returns the mean time from a step's begin to when its results were there, ns, over the steps
// for which that is known, and how many these are; 0 if there are none.
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

// Late reports whether the results of the phase's steps were there notably later than their calls returned,
// or whether that time was not seen.
func (ps *Phase) Late() bool {
	mean, _ := ps.EndToEndStep()
	return ps.Async > 0 && (mean == 0 || ps.Longer() > notablyLate)
}

// Longer is the ratio of a step's end-to-end time to its call's time; 1 where that is unknown.
func (ps *Phase) Longer() float64 {
	mean, _ := ps.EndToEndStep()
	if call := num.SafeRatio(ps.Dur, ps.Steps); mean > 0 && call > 0 {
		return mean / call
	}
	return 1
}

// ByThreads sums up the steps of one phase that were computed by one number of threads, with their operators'
// counters.
type ByThreads struct {
	Phase string `json:"phase"`
	// Model is the index in Stat.Models; nil if unknown.
	Model      *int     `json:"model"`
	Threads    int      `json:"threads"` // of the largest team that ran an operator of the step
	Steps      int64    `json:"steps"`   // complete steps, with their operators
	TokensPerS *float64 `json:"tokens_per_s"`
	// Counts has one entry for each of Stat.Counters.
	Counts []Count `json:"counts"`
	CountRatios
}

// notablyLate is the ratio of end-to-end time to call time from which the two are reported separately.
const notablyLate = 1.02
