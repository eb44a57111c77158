// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"cmp"
	"slices"
	"strings"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/internal/num"
	"github.com/profinfer/profinfer/profile/internal/steps"
	"github.com/profinfer/profinfer/profile/ops"
)

// OffloadSchema is the version of a [Detail]'s JSON form. Fields may be added without raising it.
const OffloadSchema = 1

// Detail describes in more detail than Stat how steps are split between backends: for each phase a typical
// step with its splits, and copies by tensor. Times are nanoseconds, sizes bytes; a nil pointer is an unknown
// value.
type Detail struct {
	SchemaVersion int     `json:"schema_version"`
	Phases        []Phase `json:"phases"`
}

// Phase is one phase. Where a backend other than the CPU computed, its Offload is that of a Stat. Otherwise
// it describes what the CPU did alone, so that another run can be compared with it.
type Phase struct {
	Offload
	Split   bool     `json:"split"`   // a backend other than the CPU computed
	Tensors []Tensor `json:"tensors"` // copied tensors, most bytes first
	// TensorsLeftOut counts tensors that are not in the list.
	TensorsLeftOut int        `json:"tensors_left_out"`
	Step           *SplitStep `json:"step"` // nil: none was split
}

// Tensor sums up the copies of tensors of one name in one direction. The layer, which is the number after a
// name's last -, is left out.
type Tensor struct {
	Kind    string   `json:"kind"`
	From    string   `json:"from"`
	To      string   `json:"to"`
	Tensor  string   `json:"tensor"` // N stands for layers; empty: unknown
	Type    string   `json:"type"`   // empty: unknown, or several
	PerStep float64  `json:"per_step"`
	Bytes   *float64 `json:"bytes_per_step"`  // nil: some are unknown
	Dur     *float64 `json:"dur_ns_per_step"` // of the calls whose ends were seen; nil: none was
}

// SplitStep is a typical step: among the steps split in the most frequent way, the one with the median
// duration. Times are from its start.
type SplitStep struct {
	ID     int64       `json:"step"`
	PID    int32       `json:"pid"`
	Start  int64       `json:"start_ns"` // from the run's first event
	Dur    int64       `json:"dur_ns"`
	Of     int         `json:"of_steps"` // number of steps it was chosen from
	Splits []StepSplit `json:"splits"`
	Copies []StepCopy  `json:"copies"`
	// Lists are nodes of splits; splits with the same nodes share one list.
	Lists [][]SplitNode `json:"lists"`
	// What is beyond the limits.
	SplitsLeftOut int `json:"splits_left_out"`
	CopiesLeftOut int `json:"copies_left_out"`
	NodesLeftOut  int `json:"nodes_left_out"`
}

// StepSplit is one graph of a step.
type StepSplit struct {
	Split   int    `json:"split"` // its index in the scheduler's run
	Graph   int64  `json:"graph"`
	Backend string `json:"backend"`
	Start   int64  `json:"start_ns"`
	Dur     int64  `json:"dur_ns"`    // of the host's call that computes or submits it
	Done    *int64 `json:"done_ns"`   // when the host had waited for it; nil: not seen
	Waited  *int64 `json:"waited_ns"` // the part of that time in which the host's thread waited at the end
	// when the device could begin, as its queue shows; Busy: the time it had work of it; nil: not seen
	Begin  *int64 `json:"begin_ns"`
	Busy   *int64 `json:"busy_ns"`
	Before int    `json:"before"` // earlier graphs in progress that were not waited for on their own
	// since the end of the backend's previous split in this step; nil: it is the first
	Idle    *int64    `json:"idle_ns"`
	Nodes   int64     `json:"nodes"` // nodes that compute
	Layers  *LayerSet `json:"layers"`
	Weights float64   `json:"weights"` // bytes of the weights that its matmuls read
	Flops   float64   `json:"flops"`
	OpsDur  *int64    `json:"operators_ns"` // without probes; nil: its operators were not seen
	List    int       `json:"list"`         // index in Lists; -1: unknown
}

// StepCopy is a copy of a step. At is the index in Splits of the next split, or their number if none follows.
type StepCopy struct {
	At     int    `json:"at"`
	Kind   string `json:"kind"`
	From   string `json:"from"`
	To     string `json:"to"`
	Tensor string `json:"tensor"`
	Type   string `json:"type"`
	Bytes  *int64 `json:"bytes"`
	Start  int64  `json:"start_ns"`
	Dur    *int64 `json:"dur_ns"`
	Async  bool   `json:"async"`
}

// SplitNode is a node of a split that computes.
type SplitNode struct {
	Node       int32     `json:"node"`
	Name       string    `json:"name"`
	Op         string    `json:"op"`
	Type       string    `json:"type"`
	Ne         [4]int64  `json:"ne"`
	Layer      *int      `json:"layer"`
	Block      ops.Block `json:"block"`
	Weight     string    `json:"weight"`
	WeightType string    `json:"weight_type"`
	Flops      *int64    `json:"flops"`
	Bytes      *int64    `json:"bytes"`
	Dur        *int64    `json:"dur_ns"` // in this step, without probes; nil: not seen
	Into       int32     `json:"into"`   // the node that it was fused with, -1 if none
}

const (
	maxSplitSteps   = 64 // kept per phase to choose from
	maxKeptTimes    = 1 << 18
	maxStepSplits   = 1 << 10
	maxStepCopies   = 1 << 12
	maxListNodes    = 1 << 14
	maxTensorSums   = 1 << 12
	maxTensorsShown = 200
)

// Builder computes a [Detail] while a run is replayed into it. Its memory does not grow with the run's
// length.
type Builder struct {
	profile.BaseSink
	book         *facts.Book
	split, alone Collector
	open         steps.Collector
	kept         map[profile.Phase]*keptSteps
	graphs       map[int64]bool // of kept steps
	spans        map[int64]*profile.DeviceSpan
	tensors      map[profile.Phase]map[tensorWay]*copySum
}

type tensorWay struct{ kind, from, to, tensor, typ string }

// keptSteps is a regular sample of a phase's steps.
type keptSteps struct {
	every, seen, times int
	steps              []*keptStep
}

type keptStep struct {
	s      *profile.Step
	graphs []*profile.Graph
	copies []*profile.Copy
	times  []opTime
}

// opTime is an operator that was timed.
type opTime struct {
	graph *profile.Graph
	node  int32
	fused []int32
	dur   int64
}

// New returns an empty builder. book is shared with other sinks of the replay; nil: not shared.
func New(book *facts.Book) *Builder {
	book = facts.BookOf(book)
	b := &Builder{book: book, split: Collector{Book: book}, alone: Collector{Book: book, all: true},
		kept: map[profile.Phase]*keptSteps{}, graphs: map[int64]bool{},
		spans:   map[int64]*profile.DeviceSpan{},
		tensors: map[profile.Phase]map[tensorWay]*copySum{}}
	return b
}

// Op takes one operator.
func (b *Builder) Op(o *profile.Op) error {
	if o.Step != nil {
		b.open.Op(o)
	}
	return nil
}

// Graph takes one graph execution.
func (b *Builder) Graph(g *profile.Graph) error {
	b.split.Graph(g)
	return nil
}

// Copy takes a copy.
func (b *Builder) Copy(c *profile.Copy) error {
	b.split.Copied(c)
	return nil
}

// Device takes a span of a device.
func (b *Builder) Device(d *profile.DeviceSpan) error {
	if b.split.steps[d.Graph.Step] != nil || b.graphs[d.Graph.ID] {
		b.spans[d.Graph.ID] = d
	}
	b.split.Device(d)
	return nil
}

// Result takes a step that handed graphs over.
func (b *Builder) Result(s *profile.Step) error {
	b.split.Result(s)
	return nil
}

// Step takes a step, after its operators and graphs.
func (b *Builder) Step(s *profile.Step) error {
	ops, _, _ := b.open.Take(s)
	defer b.open.Done(ops)
	x := b.split.steps[s.ID]
	if x != nil && !slices.ContainsFunc(x.graphs, elsewhere) {
		delete(b.split.steps, s.ID)
		*b.alone.step(s.ID) = *x
		b.alone.Done(s, true, ops)
		return nil
	}
	if b.split.Done(s, true, ops) == nil {
		b.forget(x)
		return nil
	}
	for _, c := range x.copies {
		b.tensor(s.Phase, c)
	}
	b.keep(s, x, ops)
	return nil
}

func (b *Builder) forget(x *offloadStep) {
	if x == nil {
		return
	}
	for _, g := range x.graphs {
		delete(b.spans, g.ID)
		delete(b.graphs, g.ID)
	}
}

// keep keeps a step to choose from, if it is part of the sample.
func (b *Builder) keep(s *profile.Step, x *offloadStep, ops []*profile.Op) {
	k := b.kept[s.Phase]
	if k == nil {
		k = &keptSteps{every: 1}
		b.kept[s.Phase] = k
	}
	k.seen++
	if (k.seen-1)%k.every != 0 {
		b.forget(x)
		return
	}
	y := &keptStep{s: s, graphs: x.graphs, copies: x.copies}
	for _, o := range ops {
		if o.Graph != nil && o.Node >= 0 {
			y.times = append(y.times, opTime{o.Graph, o.Node, o.Fused, max(0, o.Dur-o.Probe)})
		}
	}
	for _, g := range x.graphs {
		b.graphs[g.ID] = true
	}
	k.steps = append(k.steps, y)
	k.times += len(y.times)
	for len(k.steps) > 1 && (len(k.steps) >= maxSplitSteps || k.times > maxKeptTimes) {
		k.every *= 2
		rest := k.steps[:0:0]
		k.times = 0
		for i, z := range k.steps {
			if i%2 == 1 {
				b.forget(&offloadStep{graphs: z.graphs})
				continue
			}
			rest = append(rest, z)
			k.times += len(z.times)
		}
		k.steps = rest
	}
}

// tensor adds a copy to those of the same name.
func (b *Builder) tensor(p profile.Phase, c *profile.Copy) {
	all := b.tensors[p]
	if all == nil {
		all = map[tensorWay]*copySum{}
		b.tensors[p] = all
	}
	k := tensorWay{c.Kind, c.From, c.To, withoutLayer(c.Tensor), c.Type}
	t := all[k]
	if t == nil {
		if len(all) >= maxTensorSums {
			k.tensor, k.typ = "(more names than are kept)", ""
			t = all[k]
		}
		if t == nil {
			t = &copySum{}
			all[k] = t
		}
	}
	t.add(c)
}

// withoutLayer replaces the layer in a name by N: Vulkan0#ffn_out-2#0 becomes Vulkan0#ffn_out-N#0.
func withoutLayer(name string) string {
	at := strings.LastIndexByte(name, '-')
	if at < 0 {
		return name
	}
	n := at + 1
	for n < len(name) && name[n] >= '0' && name[n] <= '9' {
		n++
	}
	if n == at+1 {
		return name
	}
	return name[:at+1] + "N" + name[n:]
}

// Finish returns the detail. h is what the replay returned.
func (b *Builder) Finish(h *profile.Header) *Detail {
	d := &Detail{SchemaVersion: OffloadSchema, Phases: []Phase{}}
	split, alone := b.split.Finish(), b.alone.Finish()
	for _, p := range []profile.Phase{profile.Prefill, profile.Decode, profile.Encode, profile.Unknown} {
		is := func(o Offload) bool { return o.Phase == p }
		if i := slices.IndexFunc(split, is); i >= 0 {
			x := Phase{Offload: split[i], Split: true, Step: b.typical(p, h.First)}
			x.Tensors, x.TensorsLeftOut = b.copied(p, float64(split[i].Steps))
			d.Phases = append(d.Phases, x)
		} else if i := slices.IndexFunc(alone, is); i >= 0 {
			d.Phases = append(d.Phases, Phase{Offload: alone[i], Tensors: []Tensor{}})
		}
	}
	return d
}

// copied returns the copies by tensor.
func (b *Builder) copied(p profile.Phase, steps float64) (out []Tensor, left int) {
	out = []Tensor{}
	for k, c := range b.tensors[p] {
		t := Tensor{Kind: k.kind, From: k.from, To: k.to, Tensor: k.tensor, Type: k.typ,
			PerStep: float64(c.n) / steps}
		if !c.unknown {
			t.Bytes = num.Ratio(float64(c.bytes), steps)
		}
		if c.timed > 0 {
			t.Dur = num.Ratio(float64(c.dur), steps)
		}
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b Tensor) int {
		return cmp.Or(cmp.Compare(times(b.Bytes, 1), times(a.Bytes, 1)), cmp.Compare(b.PerStep, a.PerStep),
			cmp.Compare(a.Tensor, b.Tensor), cmp.Compare(a.Kind+"\x00"+a.From+"\x00"+a.To+"\x00"+a.Type,
				b.Kind+"\x00"+b.From+"\x00"+b.To+"\x00"+b.Type))
	})
	if left = len(out) - maxTensorsShown; left > 0 {
		return out[:maxTensorsShown], left
	}
	return out, 0
}
