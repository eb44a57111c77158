// SPDX-License-Identifier: Apache-2.0

// Package series computes what plots need beyond the statistics: steps over the run, distributions, variation
// over layers and threads, the roofline.
package series

import (
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/requests"
)

// Schema is the version of Series' JSON form. Fields may be added without raising it.
const Schema = 2

const (
	// maxSlowest is how many of a phase's slowest steps are kept individually.
	maxSlowest = 100
	// maxSeriesRows bounds the rows of a grouping, maxLayers the layers kept separately, maxSeriesThreads the
	// threads of a row, maxProducts the matmuls of a phase. What is beyond is counted.
	maxSeriesRows    = 4096
	maxLayers        = 512
	maxSeriesThreads = 512
	maxProducts      = 4096
)

// Series is what plots need beyond Stat: steps over the run, distributions, variation over layers and
// threads, matmuls. Its sums equal those of Stat. Times are nanoseconds, sizes bytes. A nil pointer is an
// unknown value.
type Series struct {
	SchemaVersion int     `json:"schema_version"`
	Phases        []Phase `json:"phases"` // the phases of Stat, in its order
	// TTFT is the distribution of the time to first token, over requests; nil if there was none.
	TTFT *requests.Dist `json:"ttft"`
	// Requests complements Stat.Sequences, which lists the requests individually.
	Requests *requests.Series `json:"requests"`
	MaxError float64          `json:"quantile_max_error"` // relative error of every quantile
}

// Phase is one phase of one model, as in [summary.Phase].
type Phase struct {
	Phase string `json:"phase"`
	Model *int   `json:"model"`
	// Steps are the complete steps in time order. Partial are the others, which are in no other figure,
	// unless OnlyPartial: then all steps are incomplete and Partial is empty.
	Steps       []StepPoint `json:"steps"`
	Partial     []StepPoint `json:"partial"`
	OnlyPartial bool        `json:"only_partial"`
	Slowest     []StepPoint `json:"slowest"` // individually, the slowest first
	// StepsPerPoint is the most steps that a point stands for.
	StepsPerPoint int64 `json:"steps_per_point"`

	ByWeight []Row `json:"weight"`
	ByOp     []Row `json:"op"`
	ByLayer  []Row `json:"layer"`
	ByBlock  []Row `json:"block"`
	// RowsDropped counts operators (in each grouping) of rows beyond the limit.
	RowsDropped int64 `json:"rows_dropped"`

	Threads  []ThreadPart `json:"threads"`
	Products []Product    `json:"products"`
	// ProductsDropped counts matmuls of kinds beyond the limit.
	ProductsDropped int64 `json:"products_dropped"`
	// PerToken is the distribution over steps of the time per token of one sequence: TPOT in decode. nil if
	// the batches are unknown.
	PerToken *requests.Dist `json:"per_token"`
}

// StepPoint is one step, or N consecutive ones. Times are sums over them. Operator times are of the Traced
// steps, whose time is TracedDur: MatMul + Attn + Other + Probe - Overlap + Backends + Gap.
type StepPoint struct {
	ID      int64 `json:"id"` // of the first
	N       int64 `json:"n"`
	Slowest int64 `json:"slowest"` // the longest one's ID
	PID     int32 `json:"pid"`
	Start   int64 `json:"start_ns"` // of the first, boottime
	Dur     int64 `json:"dur_ns"`
	Min     int64 `json:"min_ns"`
	Max     int64 `json:"max_ns"`
	// Late is the part of the end-to-end time after the calls' ends, which Dur to Max do not include; 0:
	// none. nil: not seen.
	Late   *int64 `json:"late_ns"`
	Tokens *int64 `json:"tokens"`
	Seqs   int32  `json:"seqs"` // most sequences of a step; -1: unknown
	// Pos is the number of tokens of a sequence so far, including this step, as the batch reports it: of the
	// longest sequence of the step, as a mean over the steps. Cells is the largest number of KV cache cells
	// that attention read, from its operator's dimensions: the engine rounds it up.
	Pos   *float64 `json:"pos"`
	Cells *int64   `json:"cells"`

	Traced    int64  `json:"traced"`
	TracedDur int64  `json:"traced_ns"`
	Ops       int64  `json:"operators"`
	MatMul    *int64 `json:"matmul_ns"` // weight matmuls
	Attn      *int64 `json:"attn_ns"`   // attention: scores, softmax, values
	Other     *int64 `json:"other_ns"`
	Backends  *int64 `json:"backends_ns"` // graphs of backends whose operators cannot be seen
	Gap       *int64 `json:"outside_operators_ns"`
	Probe     *int64 `json:"probe_ns"` // an estimate, excluded from the three kinds
	Overlap   *int64 `json:"overlap_ns"`
	// Sums over threads, in operators.
	Busy   *int64 `json:"busy_ns"`
	Wait   *int64 `json:"wait_ns"`
	OffCPU *int64 `json:"off_cpu_ns"`
	// Bytes is over operators whose bytes are known, BytesDur is their time without probes.
	Bytes    *int64 `json:"bytes"`
	BytesDur int64  `json:"bytes_dur_ns"`
	// Untraced says why operators of some steps were not recorded, Incomplete what was not seen.
	Untraced   string `json:"untraced,omitempty"`
	Incomplete string `json:"incomplete,omitempty"`

	posSum float64
	posN   int64
}

// Row complements the [summary.Row] of the same Key and Type.
type Row struct {
	Key    string `json:"key"`
	Weight bool   `json:"weight"`
	Type   string `json:"type"` // of the weights, for rows of a weight; otherwise empty
	// Time is the distribution of a call's time without that of its probes.
	Time requests.Dist `json:"time"`
	// Layers that the row's operators belong to, ascending; for rows by weight and by op.
	Layers []LayerPart `json:"layers,omitempty"`
	// NoLayer counts operators of no layer, or of one beyond the limit.
	NoLayer int64 `json:"no_layer,omitempty"`
	// Threads that ran it; for rows by weight and by op.
	Threads []ThreadPart `json:"threads,omitempty"`
}

// LayerPart is a row's part in one layer.
type LayerPart struct {
	Layer int   `json:"layer"`
	Calls int64 `json:"calls"`
	Dur   int64 `json:"dur_ns"` // without the time of the probes
	Max   int64 `json:"max_ns"` // longest call
}

// ThreadPart is one thread's part in a row's operators, or in a phase's.
type ThreadPart struct {
	PID    int32 `json:"pid"`
	TID    int32 `json:"tid"`
	Ops    int64 `json:"operators"`
	Busy   int64 `json:"busy_ns"`
	Wait   int64 `json:"wait_ns"`
	OffCPU int64 `json:"off_cpu_ns"`
	// Steps is the time of the steps it took part in; only for a phase's threads.
	Steps int64 `json:"steps_ns,omitempty"`
}

// Product is a kind of matmul: an M x K matrix times K x N. In a matmul with chosen experts N is tokens times
// experts used.
type Product struct {
	Key         string   `json:"key"` // as by weight
	Weight      bool     `json:"weight"`
	Attn        bool     `json:"attention"` // a matmul of attention: no weight
	Type        string   `json:"type"`      // of the matrix that is the weight, or the first factor
	M           int64    `json:"m"`
	N           int64    `json:"n"`
	K           int64    `json:"k"`
	Calls       int64    `json:"calls"`
	Sum         int64    `json:"sum_ns"` // without the time of the probes
	Mean        float64  `json:"mean_ns"`
	P5          float64  `json:"p5_ns"`
	P95         float64  `json:"p95_ns"`
	Work        *int64   `json:"work"`             // M*N*K
	Flops       *float64 `json:"flops"`            // per call, on average
	Bytes       *float64 `json:"bytes"`            // per call, on average
	BytesAtMost bool     `json:"bytes_at_most"`    // an upper bound
	GBps        *float64 `json:"gb_per_s"`         // of calls whose bytes are known
	GFlops      *float64 `json:"gflop_per_s"`      // of calls whose flops are known
	Threads     int      `json:"threads"`          // most that took part
	Layers      int      `json:"layers,omitempty"` // in how many layers it was seen
}

// Builder computes a Series while a run is replayed into it. Its memory does not grow with the run's length.
type Builder struct{ seriesState }

// LeaveOut tells Finish of which phases operators of disturbed steps are left out, as [summary.Stat.LeavesOut]
// says. The steps themselves are in the series.
func (b *Builder) LeaveOut(of func(facts.ModelKey) bool) { b.leavesOut = of }

// New returns an empty builder. book is shared with other sinks of the replay; nil: not shared.
func New(book *facts.Book) *Builder {
	b := &Builder{}
	b.init(book)
	return b
}
