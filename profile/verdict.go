// SPDX-License-Identifier: Apache-2.0

package profile

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
	Bound   Bound   `json:"bound"`
	What    string  `json:"what"`        // products, attention, other, wait, sleep, disk, interference, outside, backends, probes
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

// The rule's thresholds; docs/verdict.md gives their reasons.
const (
	mostShare  = 0.5  // a cause with this part of the time is the bound
	partShare  = 0.2  // one with this part is named in a mixed bound
	ruledOut   = 0.5  // a resource that is needed for no more than this part of the time does not bound
	atLimit    = 0.8  // one that is needed for this part of the time may
	atPeak     = 0.7  // of a measured peak: what real programs reach
	farBelow   = 0.25 // needed for no more than this part: far from bounding
	manyFlops  = 50.0 // flop/B above which no machine's memory comes before its cores
	fewFlops   = 8.0  // flop/B below which no machine's cores come before its memory, if all compute
	minRefDur  = 1e6  // ns of work that a rate must stand for to be one that the machine reached
	cacheBytes = 128 << 20
	sameRate   = 1.1    // rates within this factor are the same
	otherRate  = 1.25   // rates apart by this factor are not
	shortOp    = 10_000 // ns: operators that last less on average are mostly begin and end
	muchProbe  = 0.1    // of the phase's time: figures are doubtful
	fewSteps   = 3
)
