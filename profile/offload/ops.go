// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"slices"
	"strings"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/internal/limits"
	"github.com/profinfer/profinfer/trace"
)

// Comparison of one operator on several backends. The CPU's operators are timed one by one. On other backends
// only graphs are timed, so an operator's time is known where a graph holds nothing else, as is often the
// case for BLAS.

// Sources of a time on a backend.
const (
	TimedOps  = "operators" // each operator was timed
	TimedCall = "call"      // the host's call that computes the graph
	// from the graph's submission to when the host had waited for it: an upper bound of the device's time
	TimedSpan = "span"
	// when the device had work of the graph, as its queue shows: the same, without the host's earlier time
	TimedBusy = "busy"
)

const (
	// Limits on distinct operators in a phase, and on graphs of backends whose operators are not seen.
	// Further ones are counted.
	maxBackendOps    = 1 << 12
	maxBackendGraphs = 1 << 10
	// maxGraphNodes bounds the total nodes of all distinct graphs.
	maxGraphNodes = 1 << 18
)

// BackendOp is one operator, over all layers, with its known times on each backend that it ran on.
type BackendOp struct {
	Key        string   `json:"key"`    // as a row's by weight: "ffn_up", "ROPE"
	Weight     bool     `json:"weight"` // the key is a weight's
	Op         string   `json:"op"`
	Type       string   `json:"type"` // of the weight, or of the result where there is none
	Ne         [4]int64 `json:"ne"`   // of the result
	K          *int64   `json:"k"`    // of a matmul: the length of each sum; nil: not a matmul
	Flops      *float64 `json:"flops"`
	Bytes      *float64 `json:"bytes"` // per call, as Flops: means; nil: unknown
	AtMost     bool     `json:"bytes_at_most"`
	PerBackend []OpTime `json:"backends"` // by name, the CPU first
}

// OpTime is an operator on one backend.
type OpTime struct {
	Backend string    `json:"backend"`
	Calls   float64   `json:"calls_per_step"`
	Layers  *LayerSet `json:"layers"`
	Timed   int64     `json:"timed_calls"`
	Mean    *float64  `json:"mean_ns"`  // per call, without probes; nil: unknown
	TimedBy string    `json:"timed_by"` // source of Mean; empty: unknown
	GFlops  *float64  `json:"gflop_per_s"`
	GBps    *float64  `json:"gb_per_s"`
}

// BackendGraph is the graphs with the same operators on a backend whose operators are not seen: their joint
// time, and what the same operators take elsewhere.
type BackendGraph struct {
	Backend   string      `json:"backend"`
	Operators []GraphOp   `json:"operators"` // in order of first appearance
	Nodes     int         `json:"nodes"`     // total number of operators
	Layers    *LayerSet   `json:"layers"`
	Calls     float64     `json:"calls_per_step"`
	Timed     int64       `json:"timed_calls"`
	Mean      *float64    `json:"mean_ns"` // nil: unknown
	TimedBy   string      `json:"timed_by"`
	Flops     *float64    `json:"flops"` // per call
	Others    []OtherTime `json:"others"`
}

// GraphOp is an operator of a graph: its index in the phase's list of operators, and how often the graph has
// it.
type GraphOp struct {
	Op    int `json:"operator"`
	Count int `json:"count"`
}

// OtherTime is what the operators of a graph take on another backend: the sum of their means there.
type OtherTime struct {
	Backend string  `json:"backend"`
	Dur     float64 `json:"ns"`
	Known   int     `json:"operators"` // number of operators in the sum: those whose time there is known
	// Ratio is the graph's time divided by Dur. It is exact where all operators are known and the graph is
	// timed by its call; otherwise it is an upper bound. nil: unknown.
	Ratio *float64 `json:"ratio"`
	Flops *float64 `json:"flops_share"` // their part of the graph's flops
}

// BackendProducts sums up a backend's matmuls.
type BackendProducts struct {
	Backend  string   `json:"backend"`
	Products float64  `json:"products_per_step"`
	Flops    *float64 `json:"flops_per_step"` // nil: some are unknown, as for Bytes
	Bytes    *float64 `json:"bytes_per_step"`
	// The figures below are of those whose time is known: on their own, or as the graph that they are in.
	Dur     *float64 `json:"timed_ns_per_step"`
	TimedBy string   `json:"timed_by"`
	Part    *float64 `json:"timed_share"` // of the matmuls
	// Others is how many further operators per step are in that time: rates are lower bounds.
	Others float64  `json:"other_operators_per_step"`
	GFlops *float64 `json:"gflop_per_s"`
	GBps   *float64 `json:"gb_per_s"`
}

// BackendWork is what is known of operators by backend in the steps of one phase.
type BackendWork struct {
	Products  []BackendProducts `json:"products_by_backend"`  // most flops first
	Operators []BackendOp       `json:"operators_by_backend"` // most time first
	Graphs    []BackendGraph    `json:"graphs_by_backend"`    // most time first
	Dropped   int64             `json:"operators_left_out"`   // calls beyond the limits, graphs too
}

// sameOp identifies operators by content, independent of where they run.
type sameOp struct {
	key, op, typ string
	weight       bool
	ne           [4]int64
	k            int64 // -1: not a matmul
}

func sameOpOf(sh *profile.Shape, d *facts.Derived, n int32, op string) sameOp {
	nodes, words := sh.Nodes, sh.Vocabulary()
	id := sameOp{op: op, typ: d.WeightType, ne: nodes[n].Ne, k: -1}
	id.key, id.weight = facts.RowKey(facts.ByWeight, d, op)
	if id.typ == "" {
		id.typ = nodes[n].Type
	}
	if x, ok := words.Product(nodes, &nodes[n]); ok && words.IsProduct(op) {
		id.k = x.K
	}
	return id
}

// backendWork collects a BackendWork.
type backendWork struct {
	book    *facts.Book
	traced  int64 // steps whose operators were recorded
	rows    map[sameOp]*workRow
	seen    map[opSeen]*opWork
	fusions map[string]bool // those seen: RMS_NORM+MUL
	graphs  map[graphID]*graphWork
	byShape map[shapeOn]*graphWork
	spans   map[int64]*graphWork // by graph: those that can still get one
	nodes   int                  // of all distinct graphs
	dropped int64
}

type opSeen struct {
	d       *facts.Derived
	op      string
	backend string
}

type shapeOn struct {
	s       *profile.Shape
	backend string
}

type graphID struct{ backend, content string }

type workRow struct {
	flops, bytes     float64 // sums over calls for which they are known
	withFlops, withB int64
	atMost           bool
	on               map[string]*opWork
}

// opWork is an operator on one backend.
type opWork struct {
	row          *workRow
	calls, timed int64
	dur          float64
	by           string
	layers       map[int]bool
	perStep      float64 // of graphs, filled at the end
}

// graphWork is the graphs with the same operators on one backend.
type graphWork struct {
	backend      string
	shape        *profile.Shape
	calls, timed int64
	dur          int64
	by           string
	layers       map[int]bool
	at           []map[int]bool // layers of each computing node, in order
}

// layerOf is an operator's layer, -1 if it has none.
func layerOf(d *facts.Derived) int {
	if d.Layer == nil {
		return -1
	}
	return *d.Layer
}

func (w *backendWork) row(id sameOp) *workRow {
	r := w.rows[id]
	if r == nil {
		if len(w.rows) >= maxBackendOps {
			return nil
		}
		if w.rows == nil {
			w.rows = map[sameOp]*workRow{}
		}
		r = &workRow{on: map[string]*opWork{}}
		w.rows[id] = r
	}
	return r
}

func (r *workRow) backend(name string) *opWork {
	c := r.on[name]
	if c == nil {
		c = &opWork{row: r, layers: map[int]bool{}}
		r.on[name] = c
	}
	return c
}

// count adds the work of some calls of an operator.
func (r *workRow) count(d *facts.Derived, calls float64) {
	if d.Flops != nil {
		r.flops += calls * float64(*d.Flops)
		r.withFlops += int64(calls)
	}
	if d.Bytes != nil {
		r.bytes += calls * float64(*d.Bytes)
		r.withB += int64(calls)
		r.atMost = r.atMost || d.BytesAtMost
	}
}

// op adds an operator that was timed.
func (w *backendWork) op(o *profile.Op) {
	if o.Graph == nil || o.Shape == nil || o.Shape.Shape == nil || o.Node < 0 ||
		int(o.Node) >= len(o.Shape.Nodes) {
		return
	}
	d := w.book.Derive(o)
	k := opSeen{d, o.Op, o.Graph.Backend}
	c, ok := w.seen[k]
	if !ok {
		if r := w.row(sameOpOf(o.Shape, d, o.Node, o.Op)); r != nil {
			c = r.backend(o.Graph.Backend)
			c.by = TimedOps
			if d.Layer != nil {
				c.layers[*d.Layer] = true
			}
		}
		if len(o.Fused) > 0 && len(w.fusions) < maxBackendOps {
			if w.fusions == nil {
				w.fusions = map[string]bool{}
			}
			w.fusions[o.Op] = true
		}
		if w.seen == nil || len(w.seen) >= limits.Pending {
			w.seen = map[opSeen]*opWork{}
		}
		w.seen[k] = c
	}
	if c == nil {
		w.dropped++
		return
	}
	c.calls++
	if !o.Incomplete {
		c.timed++
		c.dur += float64(max(0, o.Dur-o.Probe))
	}
	c.row.count(d, 1)
}

// graph adds an execution whose operators were not timed.
func (w *backendWork) graph(g *profile.Graph) {
	if g.Shape == nil || g.Shape.Shape == nil {
		return
	}
	k := shapeOn{g.Shape, g.Backend}
	x, ok := w.byShape[k]
	if !ok {
		x = w.alike(g)
		if w.byShape == nil || len(w.byShape) >= limits.Pending {
			w.byShape = map[shapeOn]*graphWork{}
		}
		w.byShape[k] = x
	}
	if x == nil {
		w.dropped++
		return
	}
	x.calls++
	if g.Vocabulary().CallComputes(g.Backend) {
		x.timed++
		x.dur += g.Dur
		x.by = TimedCall
	} else {
		if w.spans == nil || len(w.spans) >= limits.Pending {
			w.spans = map[int64]*graphWork{}
		}
		w.spans[g.ID] = x
	}
}

// alike returns the entry of graphs with the same operators as g; nil: there are too many different ones.
func (w *backendWork) alike(g *profile.Graph) *graphWork {
	nodes := g.Shape.Nodes
	var b strings.Builder
	var layers []int // -1: none
	executing(g.Shape, func(i int32) {
		d := w.book.Node(g.Shape, i)
		id := sameOpOf(g.Shape, d, i, nodes[i].Op)
		b.WriteString(id.key + "\x00" + id.op + "\x00" + id.typ)
		for _, v := range append(id.ne[:], id.k) {
			for ; v != 0; v = int64(uint64(v) >> 8) {
				b.WriteByte(byte(v))
			}
			b.WriteByte(0)
		}
		layers = append(layers, layerOf(d))
	})
	id := graphID{g.Backend, b.String()}
	x := w.graphs[id]
	if x == nil {
		if len(w.graphs) >= maxBackendGraphs || w.nodes+len(nodes) > maxGraphNodes {
			return nil
		}
		if w.graphs == nil {
			w.graphs = map[graphID]*graphWork{}
		}
		w.nodes += len(nodes)
		x = &graphWork{backend: g.Backend, shape: g.Shape, layers: map[int]bool{},
			at: make([]map[int]bool, len(layers))}
		w.graphs[id] = x
	}
	for i, l := range layers {
		if l < 0 {
			continue
		}
		x.layers[l] = true
		if x.at[i] == nil {
			x.at[i] = map[int]bool{}
		}
		x.at[i][l] = true
	}
	return x
}

// executing calls f for each computing node of a graph definition, in order.
func executing(s *profile.Shape, f func(int32)) {
	for i := range min(s.NNodes, len(s.Nodes)) {
		if s.Nodes[i].Executes {
			f(int32(i))
		}
	}
}

// device adds the span of a graph that was added before. If other graphs were in progress before it, the span
// includes their time too, so it says nothing about one graph.
func (w *backendWork) device(d *profile.DeviceSpan) {
	x := w.spans[d.Graph.ID]
	if x == nil {
		return
	}
	delete(w.spans, d.Graph.ID)
	if d.Before > 0 || d.Shared {
		return
	}
	x.timed++
	if d.Queue != nil {
		x.dur += d.Busy
		if x.by == "" {
			x.by = TimedBusy
		}
		return
	}
	x.dur += d.Dur()
	x.by = TimedSpan
}

// step adds the operators and graphs of a complete step.
func (w *backendWork) step(s *profile.Step, ops []*profile.Op, graphs []*profile.Graph) {
	if s.Untraced == "" && len(ops) > 0 {
		w.traced++
		for _, o := range ops {
			w.op(o)
		}
	}
	for _, g := range graphs {
		if g.Ops == 0 && !(g.Backend == trace.BackendCPU && g.Untraced != "") {
			w.graph(g)
		}
	}
}

// fused is an operator of a graph as the CPU would run it, with the nodes that it fuses.
type fused struct {
	node  int32
	d     *facts.Derived
	op    string
	place []int // indices of its nodes among those that compute
}

// operators returns a graph's operators, fused like those that were seen, so that one backend's fused
// operator can be compared with another's separate ones.
func (w *backendWork) operators(s *profile.Shape) (out []fused) {
	nodes := s.Nodes
	taken := map[int32]bool{}
	place := map[int32]int{}
	executing(s, func(i int32) { place[i] = len(place) })
	executing(s, func(i int32) {
		if taken[i] {
			return
		}
		op, last := nodes[i].Op, i
		var with []int32
		for {
			next := w.consumer(s, last, taken)
			if next < 0 || !w.begins(op+"+"+nodes[next].Op) {
				break
			}
			op += "+" + nodes[next].Op
			with = append(with, next)
			last = next
		}
		for len(with) > 0 && !w.fusions[op] { // the beginning of a fusion
			op = op[:strings.LastIndexByte(op, '+')]
			with = with[:len(with)-1]
		}
		at := []int{place[i]}
		for _, n := range with {
			taken[n] = true
			at = append(at, place[n])
		}
		out = append(out, fused{i, w.book.Node(s, i, with...), op, at})
	})
	return out
}

func (w *backendWork) begins(op string) bool {
	for f := range w.fusions {
		if f == op || strings.HasPrefix(f, op+"+") {
			return true
		}
	}
	return false
}

// consumer returns the first computing node that reads n, -1 if there is none.
func (w *backendWork) consumer(s *profile.Shape, n int32, taken map[int32]bool) int32 {
	if len(w.fusions) == 0 {
		return -1
	}
	for i := int(n) + 1; i < min(s.NNodes, len(s.Nodes), int(n)+64); i++ {
		if s.Nodes[i].Executes && !taken[int32(i)] && slices.Contains(s.Nodes[i].Src, n) {
			return int32(i)
		}
	}
	return -1
}
