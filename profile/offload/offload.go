// SPDX-License-Identifier: Apache-2.0

// Package offload describes how steps are split between backends: their graphs and copies, and what a device
// did meanwhile.
package offload

import (
	"cmp"
	"maps"
	"slices"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/internal/limits"
	"github.com/profinfer/profinfer/profile/internal/num"
	"github.com/profinfer/profinfer/profile/ops"
	"github.com/profinfer/profinfer/trace"
)

// Offload describes how the steps of one phase were split between backends, where one other than the CPU
// computed. Figures are means over the phase's complete steps in which such a graph ran.
type Offload struct {
	Phase    profile.Phase `json:"phase"`
	Steps    int64         `json:"steps"`
	Backends []Backend     `json:"backends"` // most time first
	Copies   []Copied      `json:"copies"`   // most bytes first
	// UntilDone is the mean time from a step's begin to when its results were there, Call the part of it in
	// the step's call, and TokensPerS the corresponding tokens per second, over steps that handed graphs to a
	// device and were seen to wait for them: the step's call can return long before. nil: there was none.
	UntilDone  *float64 `json:"step_end_to_end_ns"`
	Call       *float64 `json:"step_call_ns"`
	TokensPerS *float64 `json:"tokens_per_s"`
	BackendWork
}

// Backend is what one backend did per step.
type Backend struct {
	Backend string    `json:"backend"` // empty: unknown
	Graphs  float64   `json:"graphs_per_step"`
	Nodes   float64   `json:"nodes_per_step"`   // nodes that compute, not views and the like
	Weights float64   `json:"weights_per_step"` // bytes of the weights its matmuls read, of all experts
	Flops   float64   `json:"flops_per_step"`
	Host    float64   `json:"host_ns_per_step"` // time of the calls that compute or submit
	Layers  *LayerSet `json:"layers"`           // of its nodes; nil: none has a layer number
	Ops     []OpCount `json:"ops"`              // most often first

	// Device spans: from submission to when the host saw that the device was done.
	Spans    int64    `json:"device_spans"`
	Unwaited int64    `json:"unwaited"`           // graphs that were not waited for on their own
	Device   *float64 `json:"device_ns_per_step"` // nil: not seen
	Waited   *float64 `json:"waited_ns_per_step"` // part of it in which the host's threads waited
	// from the end of one span of the backend to the begin of the next; nil: fewer than two
	Idle *float64 `json:"idle_ns_per_step"`

	// From the device's own interface, for the spans whose submissions were seen; nil: there was none.
	QueueSpans int64 `json:"queue_spans"` // how many of device_spans
	// time in which the device had work of these graphs: an upper bound of its own time
	Busy        *float64 `json:"busy_ns_per_step"`
	Submissions *float64 `json:"submissions_per_step"`   // submitting calls
	Submitting  *float64 `json:"submitting_ns_per_step"` // host time in them
	// within graphs, while the host had not yet submitted more of them
	IdleInside *float64 `json:"idle_inside_ns_per_step"`
	IdleStep   *float64 `json:"idle_in_step_ns_per_step"` // between graphs of one step; nil: no step had two
	// from the last graph of a step to the first of the next of the phase; nil: not seen
	IdleBetween *float64 `json:"idle_between_ns_per_step"`
}

// LayerSet is the range of layer numbers.
type LayerSet struct {
	First int `json:"first"`
	Last  int `json:"last"`
	Count int `json:"count"`
}

// OpCount is how many operators of a kind a step has.
type OpCount struct {
	Op      string  `json:"op"`
	PerStep float64 `json:"per_step"`
}

// Copied sums up copies in one direction.
type Copied struct {
	Kind    string   `json:"kind"` // set, get, copy
	From    string   `json:"from"` // a backend, or host; empty: unknown
	To      string   `json:"to"`
	PerStep float64  `json:"per_step"`
	Bytes   *float64 `json:"bytes_per_step"`  // nil: some are unknown
	Dur     *float64 `json:"dur_ns_per_step"` // of the calls whose ends were seen; nil: none was
	Largest string   `json:"largest"`         // name of the tensor with most bytes
	most    int64
}

// Collector collects the data for Offload.
type Collector struct {
	Book   *facts.Book
	steps  map[int64]*offloadStep // in progress
	phases map[profile.Phase]*offloadSum
	shapes map[*profile.Shape]*shapeWork
	// graphs of finished steps for which a device span may still come
	pending map[int64]offloadGraph
	early   map[int64]*deviceSeen         // spans by graph, of unfinished steps
	latest  map[deviceKey]deviceEnd       // of each backend
	late    map[*profile.Step]*offloadSum // steps whose results are not there yet
	all     bool                          // steps of the CPU alone count too
}

type offloadStep struct {
	graphs []*profile.Graph
	copies []*profile.Copy
}

type offloadGraph struct {
	phase   profile.Phase
	backend string
}

// tailSum sums up steps that handed graphs to a device and whose results were seen to be there.
type tailSum struct {
	steps, until, call, tokens int64
	noTokens                   bool
}

// add adds such a step.
func (t *tailSum) add(s *profile.Step) {
	until, ok := s.EndToEnd()
	if !ok {
		return
	}
	t.steps++
	t.call += s.Dur
	t.until += until
	t.tokens += int64(max(0, s.NTokens))
	t.noTokens = t.noTokens || s.NTokens < 0
}

func (t *tailSum) finish(x *Offload) {
	if t.steps == 0 {
		return
	}
	x.UntilDone, x.Call = num.Ratio(float64(t.until), float64(t.steps)),
		num.Ratio(float64(t.call), float64(t.steps))
	if !t.noTokens {
		x.TokensPerS = num.Ratio(float64(t.tokens)*1e9, float64(t.until))
	}
}

type offloadSum struct {
	steps    int64
	backends map[string]*splitSum
	copies   map[[3]string]*copySum
	work     backendWork
	tail     tailSum
}

type splitSum struct {
	graphs, nodes, host        int64
	weights, flops             float64
	ops                        map[string]int64
	layers                     map[int]bool
	spans, unwaited, device, w int64
	idle, idles                int64
	queues                     queueSum
}

type copySum struct {
	n, bytes, timed, dur, most int64
	unknown                    bool
	largest                    string
}

// shapeWork sums up the work of a graph's nodes.
type shapeWork struct {
	nodes          int64
	weights, flops float64
	ops            map[string]int64
	layers         []int
}

// workOf sums up a graph definition's nodes, each on its own: it cannot be seen what a backend fuses.
func (o *Collector) workOf(s *profile.Shape) *shapeWork {
	if w := o.shapes[s]; w != nil {
		return w
	}
	w := &shapeWork{ops: map[string]int64{}}
	words := s.Vocabulary()
	seen := map[int32]bool{}
	layers := map[int]bool{}
	for i := range min(s.NNodes, len(s.Nodes)) {
		n := &s.Nodes[i]
		if !n.Executes {
			continue
		}
		w.nodes++
		w.ops[n.Op]++
		d := o.Book.Node(s, int32(i))
		if d.Flops != nil {
			w.flops += float64(*d.Flops)
		}
		if d.Layer != nil {
			layers[*d.Layer] = true
		}
		if k := words.WeightOf(s.Nodes, []int32{int32(i)}); k >= 0 && words.IsProduct(n.Op) && !seen[k] {
			seen[k] = true
			if b, ok := ops.Touched(&s.Nodes[k]); ok {
				w.weights += float64(b)
			}
		}
	}
	w.layers = slices.Sorted(maps.Keys(layers))
	if o.shapes == nil || len(o.shapes) >= limits.Pending {
		o.shapes = map[*profile.Shape]*shapeWork{}
	}
	o.shapes[s] = w
	return w
}

func (o *Collector) step(id int64) *offloadStep {
	if o.steps == nil || len(o.steps) >= limits.Pending { // of steps that never ended
		o.steps = map[int64]*offloadStep{}
	}
	s := o.steps[id]
	if s == nil {
		s = &offloadStep{}
		o.steps[id] = s
	}
	return s
}

func (o *Collector) Graph(g *profile.Graph) {
	if s := o.step(g.Step); g.Step != 0 && len(s.graphs) < limits.Pending {
		s.graphs = append(s.graphs, g)
	}
}

func (o *Collector) Copied(c *profile.Copy) {
	if c.Step == nil {
		return
	}
	if s := o.step(c.Step.ID); len(s.copies) < limits.Copies {
		s.copies = append(s.copies, c)
	}
}

// Done adds a step with its operators, if it is complete and a backend other than the CPU ran in it. It
// returns what it added, nil if nothing.
func (o *Collector) Done(s *profile.Step, wanted bool, ops []*profile.Op) *offloadStep {
	x := o.steps[s.ID]
	delete(o.steps, s.ID)
	if x == nil || !wanted || s.Incomplete != "" || !o.all && !slices.ContainsFunc(x.graphs, elsewhere) {
		return nil
	}
	if o.phases == nil {
		o.phases = map[profile.Phase]*offloadSum{}
	}
	sum := o.phases[s.Phase]
	if sum == nil {
		sum = &offloadSum{work: backendWork{book: o.Book}, backends: map[string]*splitSum{},
			copies: map[[3]string]*copySum{}}
		o.phases[s.Phase] = sum
	}
	sum.steps++
	sum.work.step(s, ops, x.graphs)
	if s.HandedOver {
		if o.late == nil || len(o.late) >= limits.Pending { // of recordings whose steps have no result
			o.late = map[*profile.Step]*offloadSum{}
		}
		o.late[s] = sum
	}
	for _, g := range x.graphs {
		b := sum.backends[g.Backend]
		if b == nil {
			b = &splitSum{ops: map[string]int64{}, layers: map[int]bool{}}
			sum.backends[g.Backend] = b
		}
		b.graphs++
		b.host += g.Dur
		if g.Backend != trace.BackendCPU {
			if o.pending == nil || len(o.pending) >= limits.Pending {
				o.pending = map[int64]offloadGraph{}
			}
			o.pending[g.ID] = offloadGraph{s.Phase, g.Backend}
			if d := o.early[g.ID]; d != nil {
				delete(o.early, g.ID)
				defer o.spent(d)
			}
		}
		if g.Shape == nil || g.Shape.Shape == nil {
			continue
		}
		w := o.workOf(g.Shape)
		b.nodes += w.nodes
		b.weights += w.weights
		b.flops += w.flops
		for op, n := range w.ops {
			b.ops[op] += n
		}
		for _, l := range w.layers {
			b.layers[l] = true
		}
	}
	for _, c := range x.copies {
		k := [3]string{c.Kind, c.From, c.To}
		t := sum.copies[k]
		if t == nil {
			t = &copySum{}
			sum.copies[k] = t
		}
		t.add(c)
	}
	return x
}

// elsewhere reports whether a graph ran on a backend other than the CPU.
func elsewhere(g *profile.Graph) bool { return trace.Elsewhere(g.Backend) }

func (t *copySum) add(c *profile.Copy) {
	t.n++
	if c.Bytes < 0 {
		t.unknown = true
	} else {
		t.bytes += c.Bytes
		if c.Bytes > t.most && c.Tensor != "" {
			t.most, t.largest = c.Bytes, c.Tensor
		}
	}
	if c.Dur >= 0 {
		t.timed++
		t.dur += c.Dur
	}
}

// Device takes a span, which ends within its graph's step or later.
func (o *Collector) Device(d *profile.DeviceSpan) {
	s := o.seen(d)
	if _, ok := o.pending[d.Graph.ID]; ok {
		o.spent(s)
		return
	}
	if o.early == nil || len(o.early) >= limits.Pending {
		o.early = map[int64]*deviceSeen{}
	}
	o.early[d.Graph.ID] = s
}

// Result takes a step that handed graphs over.
func (o *Collector) Result(s *profile.Step) {
	if sum := o.late[s]; sum != nil {
		delete(o.late, s)
		sum.tail.add(s)
	}
}

// spent adds a span whose step is finished.
func (o *Collector) spent(d *deviceSeen) {
	g := o.pending[d.Graph.ID]
	delete(o.pending, d.Graph.ID)
	o.phases[g.phase].work.device(d.DeviceSpan)
	b := o.phases[g.phase].backends[g.backend]
	b.spans++
	b.unwaited += int64(d.Before)
	b.device += d.alone
	b.w += d.Waited
	if d.gap >= 0 {
		b.idle += d.gap
		b.idles++
	}
	b.queues.add(d)
}

// Finish returns the phases in which a backend other than the CPU computed.
func (o *Collector) Finish() (out []Offload) {
	for _, p := range []profile.Phase{profile.Prefill, profile.Decode, profile.Encode, profile.Unknown} {
		sum := o.phases[p]
		if sum == nil {
			continue
		}
		steps := float64(sum.steps)
		x := Offload{Phase: p, Steps: sum.steps, Copies: []Copied{}, BackendWork: sum.work.finish(sum.steps)}
		sum.tail.finish(&x)
		for name, b := range sum.backends {
			y := Backend{Backend: name, Graphs: float64(b.graphs) / steps, Nodes: float64(b.nodes) / steps,
				Weights: b.weights / steps,
				Flops:   b.flops / steps, Host: float64(b.host) / steps, Ops: []OpCount{}, Spans: b.spans,
				Unwaited: b.unwaited}
			for op, n := range b.ops {
				y.Ops = append(y.Ops, OpCount{op, float64(n) / steps})
			}
			slices.SortFunc(y.Ops, func(a, b OpCount) int {
				return cmp.Or(cmp.Compare(b.PerStep, a.PerStep), cmp.Compare(a.Op, b.Op))
			})
			if ls := slices.Sorted(maps.Keys(b.layers)); len(ls) > 0 {
				y.Layers = &LayerSet{ls[0], ls[len(ls)-1], len(ls)}
			}
			if b.spans > 0 {
				y.Device, y.Waited = num.Ratio(float64(b.device), steps), num.Ratio(float64(b.w), steps)
			}
			if b.idles > 0 {
				y.Idle = num.Ratio(float64(b.idle), float64(b.idles)*steps/float64(b.spans))
			}
			b.queues.finish(&y, steps)
			x.Backends = append(x.Backends, y)
		}
		slices.SortFunc(x.Backends, func(a, b Backend) int {
			return cmp.Or(cmp.Compare(b.Host, a.Host), cmp.Compare(a.Backend, b.Backend))
		})
		for k, c := range sum.copies {
			y := Copied{Kind: k[0], From: k[1], To: k[2], PerStep: float64(c.n) / steps, Largest: c.largest,
				most: c.bytes}
			if !c.unknown {
				y.Bytes = num.Ratio(float64(c.bytes), steps)
			}
			if c.timed > 0 {
				y.Dur = num.Ratio(float64(c.dur), steps)
			}
			x.Copies = append(x.Copies, y)
		}
		slices.SortFunc(x.Copies, func(a, b Copied) int {
			return cmp.Or(cmp.Compare(b.most, a.most), cmp.Compare(a.Kind+a.From+a.To, b.Kind+b.From+b.To))
		})
		out = append(out, x)
	}
	return out
}

// Late reports that the results of the phase's steps were there notably later than their calls returned.
func (x *Offload) Late() bool { return x.UntilDone != nil && *x.UntilDone >= lateShare**x.Call }

// Has is how long per step the backend's device had work, ns; 0: unknown.
func (b *Backend) Has() float64 {
	switch {
	case b.Busy != nil && b.QueueSpans == b.Spans:
		return *b.Busy
	case b.Device != nil:
		return *b.Device
	}
	return 0
}

// lateShare is the ratio of end-to-end time to call time from which a phase counts as late.
const lateShare = 1.2
