// SPDX-License-Identifier: Apache-2.0

package summary

// Bound is what the time of a phase follows from. docs/verdict.md has the rule.
type Bound string

const (
	BoundMemory       Bound = "memory"       // reading: weights, the cache of keys and values
	BoundCompute      Bound = "compute"      // the cores' own work
	BoundWait         Bound = "wait"         // threads wait for each other, or sleep
	BoundDisk         Bound = "disk"         // pages of the model are read from disk: major faults
	BoundInterference Bound = "interference" // threads could run, and others ran on their CPUs
	BoundOutside      Bound = "outside"      // no operator runs
	BoundMixed        Bound = "mixed"        // several of these, none of which has half of the time
	BoundUnknown      Bound = "unknown"
)

// How sure a verdict is.
const (
	SureHigh   = "high"
	SureMedium = "medium"
	SureLow    = "low"
)

// Verdict says what bounds one phase of one model, with what it rests on. Names in its sentences come from
// files and processes: escape them.
type Verdict struct {
	Phase string `json:"phase"` // prefill, decode, encode, unknown
	Model *int   `json:"model"` // index in Stat.Models; nil: not known
	Bound Bound  `json:"bound"`
	// Among are the parts of a mixed bound, largest first, or the bounds between which an unknown one could
	// not be told. Empty else.
	Among    []Bound    `json:"among"`
	Sure     string     `json:"sure"` // high, medium, low; empty where the bound is unknown
	Text     string     `json:"text"` // the verdict as a sentence
	Why      string     `json:"why"`  // why it is no surer, in sentences; empty if nothing speaks against it
	Names    []string   `json:"names"`
	Causes   []Cause    `json:"causes"` // what the steps' time went to, largest first
	Evidence []Evidence `json:"evidence"`
}

// Cause is a part of a phase's time with what it follows from. Busy time of threads that ran at the
// same time counts once: it is their mean.
type Cause struct {
	Bound Bound `json:"bound"`
	// products, attention, other, wait, sleep, disk, interference, outside, backends, probes
	What    string  `json:"what"`
	Share   float64 `json:"share"`       // of the time of the phase's steps whose operators were recorded
	PerStep float64 `json:"per_step_ns"` // mean
}

// Evidence is a figure that a verdict or finding rests on.
type Evidence struct {
	Name  string   `json:"name"`
	Value *float64 `json:"value"` // nil: not known
	Unit  string   `json:"unit"`  // share, GB/s, GFLOP/s, flop/B, ns, B, count
	Text  string   `json:"text"`  // what it is
}

// Finding is something worth looking at. Names in its sentence come from files and processes: escape them.
type Finding struct {
	// Kind: slow_weight, slow_step, wait, disk, interference, attention_growth, gap, between_steps, layer,
	// backends, probes; heaviest and slow_class have no loss of their own.
	Kind  string   `json:"kind"`
	Phase string   `json:"phase"`
	Model *int     `json:"model"`
	Text  string   `json:"text"`
	Names []string `json:"names"`
	// Gain is the time that it could give back at most, a step of its phase; GainShare that of the phase's
	// time, GainAll over all steps of the phase. nil: it is no loss, or none that can be told.
	Gain      *float64   `json:"gain_ns_per_step"`
	GainShare *float64   `json:"gain_share"`
	GainAll   *float64   `json:"gain_ns"`
	Figures   []Evidence `json:"figures"`
	Target    Target     `json:"target"`
}

// RowVerdict says what bounds one row of operators: the rule of docs/verdict.md, asked of the row alone.
type RowVerdict struct {
	Bound Bound `json:"bound"`
	// Among are the parts of a mixed bound, largest first, or the bounds between which an unknown one could
	// not be told.
	Among []Bound `json:"among"`
	Sure  string  `json:"sure"` // high, medium, low; empty where the bound is unknown
	// OfPeakGBps and OfPeakFlops are the parts of the operators' work (their threads' mean busy time) in
	// which, at the machine's roof, their bytes could be read and their flops be computed. Above 1, bytes
	// came from a cache. nil: the roof is not known, or the bytes or flops are not.
	OfPeakGBps  *float64 `json:"of_peak_gbps"`
	OfPeakFlops *float64 `json:"of_peak_flops"`
	Why         string   `json:"why"` // what it rests on, in sentences
}

// Target is where a view shows a finding: the view's name and its parameters.
type Target struct {
	View   string            `json:"view"` // summary, dag, time, stat
	Params map[string]string `json:"params"`
}
