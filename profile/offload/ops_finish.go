// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"cmp"
	"maps"
	"slices"

	"github.com/profinfer/profinfer/profile/internal/num"
	"github.com/profinfer/profinfer/trace"
)

// byBackend orders backends by name, the CPU first.
func byBackend(a, b string) int {
	if (a == trace.BackendCPU) != (b == trace.BackendCPU) {
		if a == trace.BackendCPU {
			return -1
		}
		return 1
	}
	return cmp.Compare(a, b)
}

func layerSet(layers map[int]bool) *LayerSet {
	ls := slices.Sorted(maps.Keys(layers))
	if len(ls) == 0 {
		return nil
	}
	return &LayerSet{ls[0], ls[len(ls)-1], len(ls)}
}

// graphOps is a graph while it is finished.
type graphOps struct {
	*graphWork
	ops    []fused
	ids    []sameOp
	flops  float64
	known  bool // the flops of all operators are known
	joined bool // it has more than one operator
}

// finish returns what was collected in that many steps.
func (w *backendWork) finish(steps int64) BackendWork {
	out := BackendWork{Products: []BackendProducts{}, Operators: []BackendOp{}, Graphs: []BackendGraph{},
		Dropped: w.dropped}
	if steps <= 0 {
		return out
	}
	graphs := w.expand(float64(steps))
	at := map[sameOp]int{}
	for _, id := range w.order() {
		at[id] = len(out.Operators)
		out.Operators = append(out.Operators, w.operator(id))
	}
	for i := range graphs {
		if graphs[i].joined {
			out.Graphs = append(out.Graphs, w.comparison(&graphs[i], at, steps))
		}
	}
	slices.SortStableFunc(out.Graphs, func(a, b BackendGraph) int {
		return cmp.Or(cmp.Compare(times(b.Mean, b.Calls), times(a.Mean, a.Calls)),
			cmp.Compare(b.Calls*float64(b.Nodes), a.Calls*float64(a.Nodes)), byBackend(a.Backend, b.Backend))
	})
	out.Products = w.allProducts(graphs, steps)
	return out
}

func times(v *float64, n float64) float64 {
	if v == nil {
		return 0
	}
	return *v * n
}

// expand adds the operators of graphs to the rows, with a time where a graph has only one. Graphs come in a
// fixed order.
func (w *backendWork) expand(steps float64) (out []graphOps) {
	for _, r := range w.rows {
		for _, c := range r.on {
			c.perStep = safeDiv(float64(c.calls), float64(w.traced))
		}
	}
	keys := slices.SortedFunc(maps.Keys(w.graphs), func(a, b graphID) int {
		return cmp.Or(byBackend(a.backend, b.backend), cmp.Compare(a.content, b.content))
	})
	for _, k := range keys {
		x := graphOps{graphWork: w.graphs[k], known: true}
		x.ops = w.operators(x.shape)
		x.joined = len(x.ops) > 1
		for _, f := range x.ops {
			id := sameOpOf(x.shape, f.d, f.node, f.op)
			x.ids = append(x.ids, id)
			if f.d.Flops != nil {
				x.flops += float64(*f.d.Flops)
			} else {
				x.known = false
			}
			r := w.row(id)
			if r == nil {
				w.dropped += x.calls
				continue
			}
			r.count(f.d, float64(x.calls))
			c := r.backend(x.backend)
			c.calls += x.calls
			c.perStep += float64(x.calls) / steps
			for _, p := range f.place {
				maps.Copy(c.layers, x.at[p])
			}
			if !x.joined {
				if c.timed += x.timed; x.timed > 0 {
					c.dur += float64(x.dur)
					c.by = x.by
				}
			}
		}
		out = append(out, x)
	}
	return out
}

func safeDiv(a, b float64) float64 {
	if b <= 0 {
		return 0
	}
	return a / b
}

// order returns the operators, most time first.
func (w *backendWork) order() []sameOp {
	time := func(id sameOp) (t float64) {
		for _, c := range w.rows[id].on {
			t += safeDiv(c.dur, float64(c.timed)) * c.perStep
		}
		return t
	}
	ids := slices.Collect(maps.Keys(w.rows))
	slices.SortFunc(ids, func(a, b sameOp) int {
		return cmp.Or(cmp.Compare(time(b), time(a)), cmp.Compare(w.rows[b].flops, w.rows[a].flops),
			cmp.Compare(a.key, b.key), cmp.Compare(a.op, b.op),
			cmp.Compare(a.typ, b.typ), slices.Compare(a.ne[:], b.ne[:]), cmp.Compare(a.k, b.k))
	})
	return ids
}

func (w *backendWork) operator(id sameOp) BackendOp {
	r := w.rows[id]
	o := BackendOp{Key: id.key, Weight: id.weight, Op: id.op, Type: id.typ, Ne: id.ne, AtMost: r.atMost,
		PerBackend: []OpTime{},
		Flops:      num.Ratio(r.flops, float64(r.withFlops)), Bytes: num.Ratio(r.bytes, float64(r.withB))}
	if id.k >= 0 {
		o.K = &id.k
	}
	for _, name := range slices.SortedFunc(maps.Keys(r.on), byBackend) {
		c := r.on[name]
		t := OpTime{Backend: name, Calls: c.perStep, Layers: layerSet(c.layers), Timed: c.timed}
		if c.timed > 0 {
			t.Mean, t.TimedBy = num.Ratio(c.dur, float64(c.timed)), c.by
			if o.Flops != nil && *o.Flops > 0 {
				t.GFlops = num.Ratio(*o.Flops, *t.Mean)
			}
			if o.Bytes != nil {
				t.GBps = num.Ratio(*o.Bytes, *t.Mean)
			}
		}
		o.PerBackend = append(o.PerBackend, t)
	}
	return o
}

// comparison computes what a graph's operators take on other backends.
func (w *backendWork) comparison(x *graphOps, at map[sameOp]int, steps int64) BackendGraph {
	g := BackendGraph{Backend: x.backend, Operators: []GraphOp{}, Nodes: len(x.ops),
		Layers: layerSet(x.layers), Calls: float64(x.calls) / float64(steps),
		Timed: x.timed, Mean: num.Ratio(float64(x.dur), float64(x.timed)), Others: []OtherTime{}}
	if x.timed > 0 {
		g.TimedBy = x.by
	}
	if x.known {
		g.Flops = &x.flops
	}
	place := map[int]int{}
	type other struct {
		dur, flops float64
		known      int
	}
	others := map[string]*other{}
	for i, id := range x.ids {
		k, ok := at[id]
		if !ok {
			continue
		}
		if j, ok := place[k]; ok {
			g.Operators[j].Count++
		} else {
			place[k] = len(g.Operators)
			g.Operators = append(g.Operators, GraphOp{k, 1})
		}
		for name, c := range w.rows[id].on {
			if name == x.backend || c.timed == 0 {
				continue
			}
			o := others[name]
			if o == nil {
				o = &other{}
				others[name] = o
			}
			o.known++
			o.dur += c.dur / float64(c.timed)
			if f := x.ops[i].d.Flops; f != nil {
				o.flops += float64(*f)
			}
		}
	}
	for _, name := range slices.SortedFunc(maps.Keys(others), byBackend) {
		o := others[name]
		t := OtherTime{Backend: name, Dur: o.dur, Known: o.known}
		if g.Mean != nil {
			t.Ratio = num.Ratio(*g.Mean, o.dur)
		}
		if x.known && x.flops > 0 {
			t.Flops = num.Ratio(o.flops, x.flops)
		}
		g.Others = append(g.Others, t)
	}
	return g
}

// productSums sums up a backend's matmuls.
type productSums struct {
	n, timed, others   float64 // per step
	flops, bytes       float64
	noFlops, noBytes   bool
	tFlops, tBytes     float64 // of the timed ones
	dur                float64
	by                 string
	noTFlops, noTBytes bool
}

// allProducts sums up matmuls by backend, per step.
func (w *backendWork) allProducts(graphs []graphOps, steps int64) []BackendProducts {
	sums := map[string]*productSums{}
	of := func(backend string) *productSums {
		s := sums[backend]
		if s == nil {
			s = &productSums{}
			sums[backend] = s
		}
		return s
	}
	for _, id := range w.order() { // floating-point sums depend on the order
		r := w.rows[id]
		for _, name := range slices.SortedFunc(maps.Keys(r.on), byBackend) {
			c := r.on[name]
			if id.k < 0 || c.by != TimedOps || c.timed == 0 || w.traced == 0 {
				continue
			}
			// on backends whose operators are timed, all calls are
			s := of(name)
			n := float64(c.calls) / float64(w.traced)
			s.n += n
			s.timed += float64(c.timed) / float64(w.traced)
			s.dur += c.dur / float64(w.traced)
			s.by = TimedOps
			s.work(num.Ratio(r.flops, float64(r.withFlops)), num.Ratio(r.bytes, float64(r.withB)), n,
				float64(c.timed)/float64(w.traced))
		}
	}
	for i := range graphs {
		x := &graphs[i]
		n, timed := float64(x.calls)/float64(steps), float64(x.timed)/float64(steps)
		products := 0
		for j, f := range x.ops {
			if x.ids[j].k < 0 {
				continue
			}
			products++
			of(x.backend).work(asFloat(f.d.Flops), asFloat(f.d.Bytes), n, timed)
		}
		if products == 0 {
			continue
		}
		s := of(x.backend)
		s.n += n * float64(products)
		s.timed += timed * float64(products)
		s.others += timed * float64(len(x.ops)-products)
		if x.timed > 0 {
			s.dur += float64(x.dur) / float64(steps)
			s.by = x.by
		}
	}
	out := []BackendProducts{}
	for name, s := range sums {
		p := BackendProducts{Backend: name, Products: s.n, Others: s.others, TimedBy: s.by,
			Part: num.Ratio(s.timed, s.n)}
		if !s.noFlops {
			p.Flops = &s.flops
		}
		if !s.noBytes {
			p.Bytes = &s.bytes
		}
		if s.timed > 0 && s.dur > 0 {
			p.Dur = &s.dur
			if !s.noTFlops {
				p.GFlops = num.Ratio(s.tFlops, s.dur)
			}
			if !s.noTBytes {
				p.GBps = num.Ratio(s.tBytes, s.dur)
			}
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b BackendProducts) int {
		return cmp.Or(cmp.Compare(times(b.Flops, 1), times(a.Flops, 1)), byBackend(a.Backend, b.Backend))
	})
	return out
}

func asFloat(v *int64) *float64 {
	if v == nil {
		return nil
	}
	f := float64(*v)
	return &f
}

// work adds n calls per step of a matmul, of which timed were timed.
func (s *productSums) work(flops, bytes *float64, n, timed float64) {
	if flops == nil {
		s.noFlops = true
		s.noTFlops = s.noTFlops || timed > 0
	} else {
		s.flops += n * *flops
		s.tFlops += timed * *flops
	}
	if bytes == nil {
		s.noBytes = true
		s.noTBytes = s.noTBytes || timed > 0
	} else {
		s.bytes += n * *bytes
		s.tBytes += timed * *bytes
	}
}
