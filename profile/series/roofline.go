// SPDX-License-Identifier: Apache-2.0

package series

import (
	"github.com/profinfer/profinfer/profile/ops"
	"github.com/profinfer/profinfer/profile/roof"
	"github.com/profinfer/profinfer/profile/summary"
)

// RooflineSchema is the version of Roofline's JSON form. Fields may be added without raising it.
const RooflineSchema = 1

// maxRooflinePoints bounds the points of a group, maxRooflineTeams the numbers of threads that a phase is
// told apart by. What is beyond is counted.
const (
	maxRooflinePoints = 4096
	maxRooflineTeams  = 64
)

// Roofline places the operators of a run by intensity and rate, beside what the machine can do: Williams,
// Waterman, Patterson, "Roofline: an insightful visual performance model for multicore architectures", CACM
// 52 (2009). Steps are told apart by the number of their threads, as each number has a roof of its own. Times
// are nanoseconds, sizes bytes. A nil pointer is a figure that is not known.
type Roofline struct {
	SchemaVersion int `json:"schema_version"`
	// Peaks are the machine's, with a roof for each number of threads and type of weights that the run has.
	Peaks  roof.Used       `json:"peaks"`
	Groups []RooflineGroup `json:"groups"` // by phase, model and threads
	// Counters that were read at operators, in the order of Counts; absent if there were none.
	Counters []summary.Counter `json:"counters,omitempty"`
}

// RooflineGroup are the steps of one phase of one model that as many threads computed.
type RooflineGroup struct {
	Phase string `json:"phase"`
	Model *int   `json:"model"`
	// Threads of the largest team of the step.
	Threads     int    `json:"threads"`
	OnlyPartial bool   `json:"only_partial"` // as PhaseSeries.OnlyPartial
	Steps       int64  `json:"steps"`        // whose operators were recorded
	Dur         int64  `json:"dur_ns"`       // of these steps
	Tokens      *int64 `json:"tokens"`       // of these steps; nil where a batch could not be read
	// Points by weight, as rows of [summary.Stat] by weight; and by operator and type of its weights.
	ByWeight []RooflinePoint `json:"weight"`
	ByOp     []RooflinePoint `json:"op"`
	// Dropped counts operators (in each grouping) of points that were too many.
	Dropped int64 `json:"dropped"`
	// Counts over all its operators, one for each of Roofline.Counters.
	Counts []summary.Count `json:"counts,omitempty"`
}

// RooflinePoint are operators of one kind.
type RooflinePoint struct {
	Key    string    `json:"key"` // as by weight or by op
	Weight bool      `json:"weight"`
	Type   string    `json:"type"` // of the weights; empty if there is none
	Block  ops.Block `json:"block"`
	Calls  int64     `json:"calls"`
	Dur    int64     `json:"dur_ns"` // sum, without what the probes took
	Share  *float64  `json:"share"`  // of the group's time in steps
	Bytes  *int64    `json:"bytes"`  // sum over operators whose bytes are known
	// BytesAtMost: the bytes are an upper estimate, the intensity with it a lower one.
	BytesAtMost bool   `json:"bytes_at_most"`
	Flops       *int64 `json:"flops"`
	// Where the point lies: over operators of which both bytes and flops are known. Nil: of none.
	Intensity *float64 `json:"flop_per_byte"`
	GFlops    *float64 `json:"gflop_per_s"`
	// GBps is over operators whose bytes are known, so that those have it which compute nothing.
	GBps *float64 `json:"gb_per_s"`
	// Limit is the roof that is lower at this intensity, "memory" or "compute"; empty where one of them is
	// not known. OfRoof is the rate as a part of it. It can be above 1: what lies in a cache is read faster
	// than from memory.
	Limit  string   `json:"limit"`
	OfRoof *float64 `json:"of_roof"`

	Counts []summary.Count `json:"counts,omitempty"`
}
