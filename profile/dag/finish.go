// SPDX-License-Identifier: Apache-2.0

package dag

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/internal/num"
	"github.com/profinfer/profinfer/profile/internal/sketch"
	"github.com/profinfer/profinfer/profile/ops"
	"github.com/profinfer/profinfer/profile/summary"
	"github.com/profinfer/profinfer/trace"
)

// Finish computes the graphs. The builder must not be used afterwards.
func (b *Builder) Finish(h *profile.Header) *List {
	b.book.List() // sorts them, as in Stat
	out := &List{SchemaVersion: DAGSchema, DAGs: []DAG{}, Rest: []Rest{}, Outside: b.outside,
		MaxError: sketch.HistogramError,
		Outlier:  outlierRule, OutlierCalls: outlierCalls}
	if h != nil {
		out.Counters = summary.CountersOf(h.Meta.Counters)
		b.counters = len(out.Counters)
	}
	whole, part := b.merged(b.whole), b.merged(b.part)
	for k, d := range b.merged(b.disturbed) {
		switch {
		case b.leavesOut != nil && b.leavesOut(k):
		case whole[k] == nil:
			whole[k] = d
		default:
			whole[k].merge(d)
		}
	}
	for _, p := range []profile.Phase{profile.Prefill, profile.Decode, profile.Encode, profile.Unknown} {
		for m := -1; m < b.book.Count(); m++ {
			k := facts.ModelKey{Phase: p, Model: m}
			g, only := whole[k], false
			if g == nil || g.steps == 0 {
				g, only = part[k], true
			}
			if g != nil && g.steps > 0 {
				b.finishGroup(out, k, g, only)
			}
		}
	}
	return out
}

// merged merges groups whose models turned out to be one.
func (b *Builder) merged(groups map[facts.PhaseKey]*dagGroup) map[facts.ModelKey]*dagGroup {
	out := map[facts.ModelKey]*dagGroup{}
	keys := slices.SortedFunc(maps.Keys(groups), func(x, y facts.PhaseKey) int {
		return cmp.Compare(groups[x].number, groups[y].number)
	})
	for _, k := range keys {
		m := facts.ModelKey{Phase: k.Phase, Model: b.book.Index(k.Model)}
		if out[m] == nil {
			out[m] = groups[k]
		} else {
			out[m].merge(groups[k])
		}
	}
	return out
}

func (b *Builder) finishGroup(out *List, k facts.ModelKey, g *dagGroup, only bool) {
	sums := slices.SortedFunc(maps.Values(g.sums), func(x, y *dagSum) int {
		return cmp.Or(cmp.Compare(y.time(), x.time()), cmp.Compare(y.runs, x.runs),
			cmp.Compare(x.number, y.number))
	})
	phase := string(k.Phase)
	if k.Phase == profile.Unknown {
		phase = "unknown"
	}
	var model *int
	if k.Model >= 0 {
		model = &k.Model
	}
	rest := g.dropped
	for i, d := range sums {
		if i >= b.opts.Most {
			rest.Structures++
			rest.Runs += d.runs
			rest.Ops += d.ops
			rest.OpsDur += d.dur
			rest.Probe += d.probe
			continue
		}
		v := b.dag(d, g)
		v.Phase, v.Model, v.Rank, v.OnlyPartial = phase, model, i, only
		out.DAGs = append(out.DAGs, v)
	}
	if rest.Runs > 0 || rest.Ops > 0 {
		rest.Phase, rest.Model = phase, model
		out.Rest = append(out.Rest, rest)
	}
}

// time is the sort key of structures: the time of operators, or else of the graphs.
func (d *dagSum) time() int64 {
	if d.ops > 0 {
		return d.dur
	}
	var sum int64
	for _, p := range d.parts {
		sum += p.dur
	}
	return sum
}

// dag builds one DAG from its sums.
func (b *Builder) dag(d *dagSum, g *dagGroup) DAG {
	v := DAG{PID: d.pid, Traced: g.traced, TracedDur: g.tracedDur, Steps: d.steps, Runs: d.runs, Ops: d.ops,
		OpsDur: d.dur, Probe: d.probe,
		Share: num.Share(d.dur-d.probe,
			g.tracedDur), Unplaced: d.unplaced, Parts: []Part{}, Nodes: []Node{}, Edges: []Edge{},
		Kinds: []Kind{}}
	if d.manyPIDs {
		v.PID = 0
	}
	var layers []layerNode // of all parts
	for i, p := range d.parts {
		if p.last == nil {
			continue
		}
		first := len(v.Nodes)
		v.Parts = append(v.Parts, Part{Backend: p.backend, First: first, Count: len(p.sums), Graphs: p.graphs,
			Dur: p.dur, Shapes: len(p.shapes),
			Seen: p.seen, Incomplete: p.incomplete})
		layers = append(layers, b.nodesOf(&v, p, i, g)...)
	}
	v.Edges = append(v.Edges, copies(&v, d.parts)...)
	v.Kinds = kinds(&v, layers)
	return v
}

// nodesOf adds the nodes and edges of a part. It returns what is needed to find equal layers.
func (b *Builder) nodesOf(v *DAG, p *partSum, part int, g *dagGroup) []layerNode {
	base := int32(len(v.Nodes))
	defs := p.largest()
	words := p.last.Vocabulary()
	names := words.NameShape(defs)
	sections := sectionsOf(defs, names)
	written := destinations(words, defs)
	for i := range defs {
		def := &defs[i]
		n := Node{Name: def.Name, Op: def.Op, Type: def.Type, Ne: p.low[i], Block: names.Block[i],
			Section: string(sections[i]), Part: part, FusedInto: -1, Weight: -1}
		if p.low[i] != p.high[i] {
			n.NeMax = &p.high[i]
		}
		if bytes, ok := ops.Touched(def); ok {
			n.Bytes = &bytes
		}
		if l := names.Layer[i]; l >= 0 {
			n.Layer = &l
		}
		switch r := p.sums[i]; {
		case def.Leaf && words.IsWeight(def.Name):
			n.Kind = NodeWeight
		case def.Leaf && (written[i] || words.IsCache(def.Name)):
			n.Kind = NodeCache
			if words.IsCache(n.Name) {
				n.Base, _ = words.SplitName(n.Name)
			}
		case def.Leaf:
			n.Kind = NodeInput
		case r != nil:
			n.Kind, n.Op, n.Key = NodeOp, r.op, r.key
			n.Run = b.runOf(r, g)
		case !def.Executes:
			n.Kind = NodeView
		case p.seen:
			n.Kind = NodeIdle
		default:
			n.Kind = NodeOp
		}
		if n.Kind == NodeOp {
			members := []int32{int32(i)}
			if r := p.sums[i]; r != nil {
				for _, f := range r.fused {
					if f >= 0 && int(f) < len(defs) && int(f) != i {
						members = append(members, f)
						n.Fused = append(n.Fused, base+f)
					}
				}
			}
			if w := words.WeightOf(defs, members); w >= 0 {
				n.Weight, n.OwnWeight = base+w, words.ReadsWeight(def.Op, defs[w].Name)
			}
		}
		n.OpKind = words.Kind(n.Op, n.Block, n.Weight >= 0)
		v.Nodes = append(v.Nodes, n)
		for j, src := range def.Src {
			if src < 0 || int(src) >= len(defs) {
				continue
			}
			e := Edge{From: base + src, To: base + int32(i), Kind: edgeKind(words, defs, written, def, j)}
			if n, ok := ops.Touched(&defs[src]); ok {
				e.Bytes = &n
			}
			v.Edges = append(v.Edges, e)
		}
	}
	for i := range defs {
		n := &v.Nodes[base+int32(i)]
		for _, f := range n.Fused {
			if m := &v.Nodes[f]; m.Run == nil && m.FusedInto < 0 && f != base+int32(i) {
				m.FusedInto, m.Kind = base+int32(i), NodeOp
			}
		}
	}
	return layerNodes(words, defs, names, base)
}

// largest returns the part's definitions with the largest dimensions they had.
func (p *partSum) largest() []trace.Node {
	if len(p.shapes) < 2 {
		return p.last.Nodes
	}
	// From the definition with the most elements: dimensions grow together.
	best, most := p.last, -1.0
	for s := range p.shapes {
		sum := 0.0
		for i := range s.Nodes {
			ne := &s.Nodes[i].Ne
			sum += float64(ne[0]) * float64(ne[1]) * float64(ne[2]) * float64(ne[3])
		}
		if sum > most || sum == most && s.Index < best.Index {
			best, most = s, sum
		}
	}
	return best.Nodes
}

// destinations returns which leaves operators write into.
func destinations(words ops.Vocabulary, nodes []trace.Node) []bool {
	out := make([]bool, len(nodes))
	for i := range nodes {
		n := &nodes[i]
		if n.Leaf || !n.Executes {
			continue
		}
		for j := range n.Src {
			if !words.Writes(n, j) {
				continue
			}
			if l := ops.LeafOf(nodes, n.Src[j]); l >= 0 && !words.IsWeight(nodes[l].Name) {
				out[l] = true
			}
		}
	}
	return out
}

func edgeKind(words ops.Vocabulary, nodes []trace.Node, written []bool, n *trace.Node, j int) string {
	src := n.Src[j]
	s := &nodes[src]
	switch {
	case words.Writes(n, j):
		return EdgeWrite
	case s.Leaf && words.IsWeight(s.Name):
		return EdgeWeight
	case s.Leaf && (written[src] || words.IsCache(s.Name)):
		return EdgeCache
	case s.Leaf:
		return EdgeInput
	case !n.Executes:
		return EdgeView
	}
	return EdgeData
}

// copies connects the parts of a DAG: a part's input is a node of an earlier part, at the same address or as
// the scheduler's copy "backend#name#number" (ggml-backend.cpp).
func copies(v *DAG, parts []*partSum) (out []Edge) {
	if len(v.Parts) < 2 {
		return nil
	}
	byName, byAddr := map[string]int32{}, map[uint64]int32{}
	for i := range v.Parts {
		p, sum := &v.Parts[i], parts[i]
		defs := sum.largest()
		for k := range defs {
			if !defs[k].Leaf {
				continue
			}
			name := sum.last.Vocabulary().CopyOf(defs[k].Name)
			from, ok := byAddr[defs[k].Addr]
			if !ok || defs[k].Addr == 0 {
				if from, ok = byName[name]; !ok || name == defs[k].Name {
					continue
				}
			}
			out = append(out, Edge{From: from, To: int32(p.First + k), Kind: EdgeCopy,
				Bytes: v.Nodes[p.First+k].Bytes})
		}
		for k := range defs {
			if !defs[k].Leaf {
				byName[defs[k].Name], byAddr[defs[k].Addr] = int32(p.First+k), int32(p.First+k)
			}
		}
	}
	return out
}

// runOf computes an operator's figures from its sums, with the formulas of a row of Stat.
func (b *Builder) runOf(r *nodeSum, g *dagGroup) *Run {
	row := &r.Row
	net, calls := row.Dur-row.Probe, float64(row.Calls)
	v := &Run{Calls: row.Calls, Dur: row.Dur, Probe: row.Probe, Mean: float64(net) / calls, Min: r.min,
		Max: r.max,
		Median: min(max(r.Hist.Quantile(0.5), float64(max(0, r.min))),
			float64(max(0, r.max))), P95: min(r.Hist.Quantile(0.95), float64(max(0, r.max))), Busy: row.Busy,
		Wait: row.Wait, OffCPU: row.OffCPU,
		PerStep: num.Share(net, g.traced), Share: num.Share(net,
			g.tracedDur), Counts: r.StatCounts(b.counters)}
	if k := medianRank(row.Calls); k > 0 {
		v.low = min(r.Hist.Quantile((float64(k)-0.5)/calls), v.Median)
	}
	if row.Calls > 1 {
		std := math.Sqrt(max(0, (r.squares-float64(net)*float64(net)/calls)/(calls-1)))
		v.Std = &std
	}
	if r.HasBytes {
		v.Bytes, v.GBps, v.AtMost = num.Ratio(float64(r.Bytes), calls), num.PerSecond(r.Bytes, r.BytesDur),
			r.AtMost
	}
	if r.HasFlop {
		v.Flops, v.GFlops = num.Ratio(float64(r.Flops), calls), num.PerSecond(r.Flops, r.FlopsDur)
	}
	if r.HasBoth {
		v.Intensity = num.Share(r.Both, r.BothBytes)
	}
	all := row.Busy + row.Wait + row.OffCPU
	v.WaitShare = num.Share(row.Wait, all)
	if b.offCPU {
		v.OffShare = num.Share(row.OffCPU, all)
	}
	if r.AllBusy > 0 {
		im := max(0, r.MaxBusy/float64(r.AllBusy)-1)
		v.Imbalance = &im
	}
	return v
}

// merge adds the steps of another context.
func (g *dagGroup) merge(o *dagGroup) {
	g.steps += o.steps
	g.traced += o.traced
	g.tracedDur += o.tracedDur
	g.dropped.Runs += o.dropped.Runs
	g.dropped.Ops += o.dropped.Ops
	g.dropped.OpsDur += o.dropped.OpsDur
	g.dropped.Probe += o.dropped.Probe
	for key, d := range o.sums {
		to := g.sums[key]
		if to == nil {
			d.number += len(g.sums)
			g.sums[key] = d
			continue
		}
		to.manyPIDs = to.manyPIDs || d.manyPIDs || to.pid != d.pid
		to.steps += d.steps
		to.runs += d.runs
		to.ops += d.ops
		to.dur += d.dur
		to.probe += d.probe
		to.unplaced += d.unplaced
		for i, p := range d.parts {
			to.parts[i].merge(p)
		}
	}
}

func (p *partSum) merge(o *partSum) {
	p.graphs += o.graphs
	p.dur += o.dur
	p.seen = p.seen || o.seen
	p.incomplete = cmp.Or(p.incomplete, o.incomplete)
	if p.last == nil {
		p.last = o.last
		copy(p.low, o.low)
		copy(p.high, o.high)
	}
	for s := range o.shapes {
		p.shapes[s] = true
		p.widen(s.Nodes)
	}
	for i, r := range o.sums {
		to := p.sums[i]
		if r == nil || to == nil {
			if to == nil {
				p.sums[i] = r
			}
			continue
		}
		to.min, to.max = min(to.min, r.min), max(to.max, r.max)
		to.squares += r.squares
		if len(r.fused) > len(to.fused) {
			to.fused, to.op = r.fused, r.op
		}
		to.RowSum.Merge(&r.RowSum)
	}
}
