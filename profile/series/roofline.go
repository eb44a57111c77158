// SPDX-License-Identifier: Apache-2.0

package series

import (
	"github.com/profinfer/profinfer/profile/ops"
	"github.com/profinfer/profinfer/profile/roof"
	"github.com/profinfer/profinfer/profile/summary"
)

// RooflineSchema is the version of Roofline's JSON form. Fields may be added without raising it.
const RooflineSchema = 2

// maxRooflinePoints bounds the points of a group, maxRooflineTeams the numbers of threads distinguished in a
// phase. What is beyond is counted.
const (
	maxRooflinePoints = 4096
	maxRooflineTeams  = 64
)

// Roofline places the operators of a run by arithmetic intensity and rate, compared with what the machine can
// do: Williams, Waterman, Patterson, "Roofline: an insightful visual performance model for multicore
// architectures", CACM 52 (2009). Steps are grouped by their number of threads, because each number has its
// own roof. Times are nanoseconds, sizes bytes. A nil pointer is an unknown value.
type Roofline struct {
	SchemaVersion int `json:"schema_version"`
	// Peaks are the machine's, with a roof for each number of threads and type of weights in the run.
	Peaks  roof.Used       `json:"peaks"`
	Groups []RooflineGroup `json:"groups"` // by phase, model and threads
	// Counters were read at operators, and come in the order of Counts; absent if there were none.
	Counters []summary.Counter `json:"counters,omitempty"`
}

// RooflineGroup is the steps of one phase of one model that one number of threads computed.
type RooflineGroup struct {
	Phase string `json:"phase"`
	Model *int   `json:"model"`
	// Threads is the size of the largest team of the step.
	Threads     int    `json:"threads"`
	OnlyPartial bool   `json:"only_partial"` // as in Phase.OnlyPartial
	Steps       int64  `json:"steps"`        // whose operators were recorded
	Dur         int64  `json:"dur_ns"`       // of these steps
	Tokens      *int64 `json:"tokens"`       // of these steps; nil where a batch could not be read
	// Points by weight, as the rows of [summary.Stat] by weight; and by operator and type of its weights.
	ByWeight []RooflinePoint `json:"weight"`
	ByOp     []RooflinePoint `json:"op"`
	// Dropped counts operators (in each grouping) of points beyond the limit.
	Dropped int64 `json:"dropped"`
	// Counts are over all its operators, one entry for each of Roofline.Counters.
	Counts []summary.Count `json:"counts,omitempty"`
}

// RooflinePoint is the operators of one kind.
type RooflinePoint struct {
	Key    string    `json:"key"` // as by weight or by op
	Weight bool      `json:"weight"`
	Type   string    `json:"type"` // of the weights; empty if there is none
	Block  ops.Block `json:"block"`
	Calls  int64     `json:"calls"`
	Dur    int64     `json:"dur_ns"` // sum, without the time of the probes
	Share  *float64  `json:"share"`  // of the group's time in steps
	Bytes  *int64    `json:"bytes"`  // sum over operators whose bytes are known
	// BytesAtMost: the bytes are an upper bound, so the intensity is a lower bound.
	BytesAtMost bool   `json:"bytes_at_most"`
	Flops       *int64 `json:"flops"`
	// The point's position, over operators for which both bytes and flops are known. nil: there are none.
	Intensity *float64 `json:"flop_per_byte"`
	GFlops    *float64 `json:"gflop_per_s"`
	// GBps is over operators whose bytes are known, so that operators without flops have it too.
	GBps *float64 `json:"gb_per_s"`
	// Limit is the lower roof at this intensity, "memory" or "compute"; empty where one of them is unknown.
	// OfRoof is the rate as a fraction of it. It can be above 1: data in a cache is read faster than from
	// memory.
	Limit  string   `json:"limit"`
	OfRoof *float64 `json:"of_peak"`

	Counts []summary.Count `json:"counts,omitempty"`
}
