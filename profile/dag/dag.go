// SPDX-License-Identifier: Apache-2.0

// Package dag builds the operator graph of a phase, with equal layers merged.
package dag

import (
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/ops"
	"github.com/profinfer/profinfer/profile/summary"
)

// DAGSchema is the version of [List]'s JSON form. Fields may be added without raising it.
const DAGSchema = 1

// Options choose what DAGs are built. The zero value is everything.
type Options struct {
	Phases []profile.Phase // none: all
	PID    int32           // 0: all processes
	Most   int             // structures kept per phase and model, those with most time; 0: 8
	Book   *facts.Book     // shared with other sinks of the replay; nil: none
}

// List holds the operator graphs that a run computed. Times are nanoseconds, sizes bytes, shares 0 to 1. A
// nil pointer is an unknown value: null in JSON, never 0.
type List struct {
	SchemaVersion int     `json:"schema_version"`
	DAGs          []DAG   `json:"dags"`              // by phase and model, those with most time first
	Rest          []Rest  `json:"rest"`              // the part of each phase that is in none of its DAGs
	Outside       int64   `json:"outside_operators"` // operators outside any step: they are in no DAG
	MaxError      float64 `json:"p95_max_error"`     // relative error of every p95 and median
	// Outlier is the rule by which layers are marked, in words; OutlierCalls is how many calls a layer's
	// median needs.
	Outlier      string `json:"outlier_rule"`
	OutlierCalls int    `json:"outlier_min_calls"`
	// Counters were read at operators, and come in the order of Run.Counts; absent if there were none.
	Counters []summary.Counter `json:"counters,omitempty"`
}

// DAG is one structure of graphs that steps of one phase computed: all executions of graphs with the same
// operators, names, types and sources, regardless of dimensions. Its parts are the graphs into which the
// scheduler split one computation for several backends.
type DAG struct {
	Phase string `json:"phase"`
	Model *int   `json:"model"` // index in Stat.Models; nil: unknown
	PID   int32  `json:"pid"`   // 0: of several processes
	// Rank of the structure within the phase, by time, from 0.
	Rank        int  `json:"rank"`
	OnlyPartial bool `json:"only_partial"` // from incomplete steps, because there are no others
	// Traced and TracedDur are those of [summary.Phase], to which shares and figures per step refer.
	Traced    int64 `json:"traced_steps"`
	TracedDur int64 `json:"traced_ns"`
	Steps     int64 `json:"steps"` // in which it ran
	Runs      int64 `json:"runs"`  // number of runs: a step can compute several micro-batches
	Ops       int64 `json:"operators"`
	// OpsDur is the sum of its operators' durations, Probe the estimated part of it that the probes took.
	OpsDur int64    `json:"operators_ns"`
	Probe  int64    `json:"probe_ns"`
	Share  *float64 `json:"share"` // of TracedDur, without probes
	// Unplaced is the part of OpsDur in operators that are not nodes of its definition: 0, except for damage.
	Unplaced int64  `json:"unplaced_ns"`
	Parts    []Part `json:"parts"`
	Nodes    []Node `json:"nodes"`
	Edges    []Edge `json:"edges"`
	Kinds    []Kind `json:"kinds"` // of layers, by their first layer
}

// Part is one graph that a backend computes. A DAG without splits has one.
type Part struct {
	Backend string `json:"backend"`
	First   int    `json:"first"` // index of its first node in DAG.Nodes
	Count   int    `json:"count"`
	Graphs  int64  `json:"graphs"` // executions
	Dur     int64  `json:"dur_ns"` // of the calls that ran it or handed it over
	Shapes  int    `json:"shapes"` // definitions that differ only in dimensions
	// Seen: its operators were seen. Otherwise its nodes have no times.
	Seen       bool   `json:"seen"`
	Incomplete string `json:"incomplete"` // what is missing from its definition, empty if nothing
}

// NodeKind is the kind of a node of a DAG.
type NodeKind string

const (
	// an operator that was executed, or that runs on a backend whose operators cannot be seen
	NodeOp     NodeKind = "op"
	NodeView   NodeKind = "view"   // another view of its source's memory: takes no time
	NodeIdle   NodeKind = "idle"   // defined, but never seen to run
	NodeWeight NodeKind = "weight" // of the model's file
	NodeCache  NodeKind = "cache"  // memory that outlives a step: the KV cache, a recurrent state
	NodeInput  NodeKind = "input"  // set by the engine before the graph runs
)

// Node is one tensor.
type Node struct {
	Name string `json:"name"`
	Base string `json:"base,omitempty"` // of a cache: its name without the layer
	Op   string `json:"op"`             // for an operator that ran: as it ran, joined by + when fused
	// OpKind is the operator's kind: an index in ops.Kinds.
	OpKind int      `json:"op_kind"`
	Type   string   `json:"type"`
	Kind   NodeKind `json:"kind"`
	Ne     [4]int64 `json:"ne"` // the smallest dimensions it had
	// NeMax are the largest dimensions; nil if they are the same. A KV cache's view grows.
	NeMax *[4]int64 `json:"ne_max,omitempty"`
	Bytes *int64    `json:"tensor_bytes"` // of the tensor itself, at its largest
	Layer *int      `json:"layer"`
	Block ops.Block `json:"block"`
	// Section is the block that a node is shown with: as Block, but norms and sums that only feed or only
	// finish attention, ffn or moe belong to that block. Empty: none.
	Section string `json:"section"`
	Part    int    `json:"part"`
	// Fused are the further nodes that ran with it; FusedInto is the node that it ran with, -1 if none.
	Fused     []int32 `json:"fused,omitempty"`
	FusedInto int32   `json:"fused_into"`
	// Weight is the node number of the weight that the operator uses, -1 if none.
	Weight int32 `json:"weight"`
	// OwnWeight: the weight says what the operator is for. (The factors of a position encoding do not: every
	// layer uses them.)
	OwnWeight bool   `json:"own_weight"`
	Key       string `json:"stat_key,omitempty"` // its row's key in a Stat by weight
	Run       *Run   `json:"run"`                // nil: not executed, or that could not be seen
}

// Run is what was measured of an operator. Except for Dur and Probe, figures exclude the probes.
type Run struct {
	Calls int64 `json:"calls"`
	Dur   int64 `json:"dur_ns"`   // sum over calls
	Probe int64 `json:"probe_ns"` // estimated part of Dur that the probes took

	PerStep   *float64 `json:"per_step_ns"` // Dur - Probe over the phase's traced steps
	Share     *float64 `json:"share"`       // of the phase's traced time
	Mean      float64  `json:"mean_ns"`     // per call
	Std       *float64 `json:"std_ns"`      // nil for fewer than 2 calls
	Min       int64    `json:"min_ns"`
	Max       int64    `json:"max_ns"`
	Median    float64  `json:"median_ns"`
	P95       float64  `json:"p95_ns"`
	Bytes     *float64 `json:"bytes"` // per call, on average
	AtMost    bool     `json:"bytes_at_most"`
	Flops     *float64 `json:"flops"` // per call, on average
	GBps      *float64 `json:"gb_per_s"`
	GFlops    *float64 `json:"gflop_per_s"`
	Intensity *float64 `json:"flop_per_byte"`
	Busy      int64    `json:"busy_ns"` // sums over threads and calls
	Wait      int64    `json:"wait_ns"`
	OffCPU    int64    `json:"off_cpu_ns"`
	WaitShare *float64 `json:"wait_share"` // of busy + wait + off-CPU
	OffShare  *float64 `json:"off_cpu_share"`
	Imbalance *float64 `json:"imbalance"`
	// Counts has one entry for each of List.Counters; absent where there are none.
	Counts []summary.Count `json:"counts,omitempty"`

	low float64 // lower bound of the median: see medianRank; 0: too few calls
}

// Kinds of edges.
const (
	EdgeData   = "data"
	EdgeView   = "view"   // to a view: nothing moves
	EdgeWeight = "weight" // from a weight
	EdgeCache  = "cache"  // from data that earlier steps left
	EdgeInput  = "input"
	EdgeWrite  = "write" // from a destination: the node writes into it
	EdgeCopy   = "copy"  // from one part to the next part
)

// Edge is one dependency.
type Edge struct {
	From  int32  `json:"from"`
	To    int32  `json:"to"`
	Kind  string `json:"kind"`
	Bytes *int64 `json:"bytes"` // of the tensor passed, at its largest
}

// Kind is layers of one structure: the same operators with the same roles, dimensions and inputs.
type Kind struct {
	Layers []int  `json:"layers"`
	Roles  []Role `json:"roles"`
	// LayerNs is the time of each layer's operators per run, by Layers: means, without probes; nil where none
	// was seen.
	LayerNs []*float64 `json:"layer_ns"`
	// LayerMedian is the same from its operators' medians: unaffected by a few delayed calls.
	LayerMedian []*float64 `json:"layer_median_ns"`
	Spread      *Spread    `json:"spread"` // of LayerMedian
}

// Role is the role of one node in each layer of a kind.
type Role struct {
	Name  string  `json:"name"`  // a weight's stem, or the node's name without layer, or its operator
	Nodes []int32 `json:"nodes"` // by Kind.Layers; -1: not in that layer
	// Spread of the nodes' median times; nil for nodes that do not run.
	Spread *Spread `json:"spread"`
}

// Spread is the variation of a time over layers, ns. Except for Mean, figures are of the layers' medians over
// calls.
type Spread struct {
	Mean     float64   `json:"mean_ns"` // over all calls: above Max where some were delayed
	Median   float64   `json:"median_ns"`
	Calls    int64     `json:"calls"` // the smallest number of calls behind a layer's median
	Min      float64   `json:"min_ns"`
	MinLayer int       `json:"min_layer"`
	Max      float64   `json:"max_ns"`
	MaxLayer int       `json:"max_layer"`
	Outliers []Outlier `json:"outliers"`
}

// Outlier is a layer that takes longer than the others.
type Outlier struct {
	Layer int      `json:"layer"`
	Calls int64    `json:"calls"` // number behind its median
	Over  float64  `json:"over"`  // its median / the layers' median - 1
	Z     *float64 `json:"z"`     // robust z-score; nil: the others do not differ at all
}

// Rest is the time of structures that were not kept.
type Rest struct {
	Phase string `json:"phase"`
	Model *int   `json:"model"`
	Runs  int64  `json:"runs"`
	// Structures that were dropped at the end; those dropped while reading are counted only in Runs.
	Structures int   `json:"structures"`
	Ops        int64 `json:"operators"`
	OpsDur     int64 `json:"operators_ns"`
	Probe      int64 `json:"probe_ns"`
}

// Builder computes DAGs while a run is replayed into it. Its memory grows with the number of structures and
// definitions, not with the run's length.
type Builder struct{ dagState }

// LeaveOut tells Finish which phases' disturbed steps are left out, as [summary.Stat.LeavesOut] says.
func (b *Builder) LeaveOut(of func(facts.ModelKey) bool) { b.leavesOut = of }

// New returns an empty builder.
func New(opts Options) *Builder {
	b := &Builder{}
	b.init(opts)
	return b
}
