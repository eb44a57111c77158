// SPDX-License-Identifier: Apache-2.0

package summary

// Bound is what bounds the time of a phase. docs/verdict.md has the rule.
type Bound string

const (
	BoundMemory       Bound = "memory"     // reading weights and the KV cache
	BoundCompute      Bound = "compute"    // the cores' own work
	BoundWait         Bound = "wait"       // threads wait for each other, or sleep
	BoundDisk         Bound = "disk"       // pages of the model are read from disk: major faults
	BoundInterference Bound = "contention" // threads were runnable, and others ran on their CPUs
	BoundOutside      Bound = "outside"    // no operator runs
	BoundMixed        Bound = "mixed"      // several of these, none of which has half of the time
	BoundUnknown      Bound = "unknown"
)

// Confidence of a verdict.
const (
	SureHigh   = "high"
	SureMedium = "medium"
	SureLow    = "low"
)

// Verdict says what bounds one phase of one model, with its evidence. Names in its sentences come from files
// and processes: escape them.
type Verdict struct {
	Phase string `json:"phase"` // prefill, decode, encode, unknown
	Model *int   `json:"model"` // index in Stat.Models; nil: unknown
	Bound Bound  `json:"bound"`
	// Among lists the parts of a mixed bound, largest first, or for an unknown bound the candidates that
	// could not be distinguished. Otherwise it is empty.
	Among    []Bound    `json:"among"`
	Sure     string     `json:"confidence"` // high, medium, low; empty where the bound is unknown
	Text     string     `json:"text"`       // the verdict as a sentence
	Why      string     `json:"why"`        // why confidence is not higher, in sentences; empty if it is high
	Names    []string   `json:"names"`
	Causes   []Cause    `json:"causes"` // what the steps' time went to, largest first
	Evidence []Evidence `json:"evidence"`
}

// Cause is a part of a phase's time with its reason. Busy time of threads that ran in parallel counts once:
// as their mean.
type Cause struct {
	Bound Bound `json:"bound"`
	// weight_matmul, attention, other, wait, sleep, disk, contention, outside, backends, probes
	What    string  `json:"what"`
	Share   float64 `json:"share"`       // of the time of the phase's steps whose operators were recorded
	PerStep float64 `json:"per_step_ns"` // mean
}

// Evidence is a figure that a verdict or finding is based on.
type Evidence struct {
	Name  string   `json:"name"`
	Value *float64 `json:"value"` // nil: unknown
	Unit  string   `json:"unit"`  // share, GB/s, GFLOP/s, FLOP/byte, ns, B, count
	Text  string   `json:"text"`  // description
}

// Finding is something worth looking at. Names in its sentence come from files and processes: escape them.
type Finding struct {
	// Kind: slow_weight, slow_step, wait, disk, contention, attention_growth, outside_operators,
	// between_steps, layer, backends, probes. The kinds heaviest and slow_class have no gain.
	Kind  string   `json:"kind"`
	Phase string   `json:"phase"`
	Model *int     `json:"model"`
	Text  string   `json:"text"`
	Names []string `json:"names"`
	// Gain is an upper bound of the time to be gained, per step of its phase; GainShare is its share of the
	// phase's time, GainAll its sum over all steps of the phase. nil: there is nothing to gain, or it is
	// unknown.
	Gain      *float64   `json:"gain_ns_per_step"`
	GainShare *float64   `json:"gain_share"`
	GainAll   *float64   `json:"gain_ns"`
	Figures   []Evidence `json:"figures"`
	Target    Target     `json:"target"`
}

// RowVerdict says what bounds one row of operators: the rule of docs/verdict.md, applied to the row alone.
type RowVerdict struct {
	Bound Bound `json:"bound"`
	// Among lists the parts of a mixed bound, largest first, or for an unknown bound the candidates that
	// could not be distinguished.
	Among []Bound `json:"among"`
	Sure  string  `json:"confidence"` // high, medium, low; empty where the bound is unknown
	// OfPeakGBps and OfPeakFlops are the fractions of the operators' work (their threads' mean busy time) in
	// which, at the machine's roof, their bytes could be read and their flops computed. Above 1, bytes came
	// from a cache. nil: the roof is unknown, or the bytes or flops are.
	OfPeakGBps  *float64 `json:"of_peak_gbps"`
	OfPeakFlops *float64 `json:"of_peak_flops"`
	Why         string   `json:"why"` // its evidence, in sentences
}

// Target says which view shows a finding: the view's name and its parameters.
type Target struct {
	View   string            `json:"view"` // summary, dag, time, stat
	Params map[string]string `json:"params"`
}
