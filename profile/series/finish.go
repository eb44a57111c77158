// SPDX-License-Identifier: Apache-2.0

package series

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/internal/num"
	"github.com/profinfer/profinfer/profile/internal/sketch"
	"github.com/profinfer/profinfer/profile/ops"
	"github.com/profinfer/profinfer/profile/stat"
)

// Finish computes the series. h is what Replay returned; the builder must not be used afterwards.
func (b *Builder) Finish(h *profile.Header) *Series {
	s := &Series{SchemaVersion: Schema, Phases: []Phase{}, MaxError: sketch.HistogramError}
	b.book.List() // sorts them
	// If operators were filtered, missing time is not time outside operators.
	f := h.Meta.Filter()
	filtered := f.PartOfSteps()
	whole, part := b.byModel(b.whole), b.byModel(b.part)
	for k, d := range b.byModel(b.disturbed) {
		switch g := whole[k]; {
		case g == nil:
		case b.leavesOut != nil && b.leavesOut(k):
			g.Group.Merge(&stat.Group{Threads: d.Threads})
		default:
			g.merge(d)
		}
	}
	for _, p := range []profile.Phase{profile.Prefill, profile.Decode, profile.Encode, profile.Unknown} {
		for m := -1; m < b.book.Count(); m++ {
			k := facts.ModelKey{Phase: p, Model: m}
			g, rest, only := whole[k], part[k], false
			if g == nil || g.Steps == 0 {
				g, rest, only = rest, nil, true
			}
			if g == nil || g.Steps == 0 {
				continue
			}
			ps := g.phase(p, filtered)
			ps.OnlyPartial = only
			if m >= 0 {
				ps.Model = &m
			}
			if rest != nil {
				ps.Partial = finishPoints(rest.points.points, filtered)
			}
			b.roofline = append(b.roofline, g.rooflineGroups(&ps, len(h.Meta.Counters))...)
			s.Phases = append(s.Phases, ps)
		}
	}
	q := b.requests.Summary(h, b.book)
	if t := &b.requests.First.Ttft; t.Hist.N > 0 {
		d := t.Dist()
		s.TTFT = &d
	}
	s.Requests = b.requests.RequestSeries(q)
	return s
}

// byModel merges groups whose models turned out to be one.
func (b *seriesState) byModel(groups map[facts.PhaseKey]*seriesGroup) map[facts.ModelKey]*seriesGroup {
	out := map[facts.ModelKey]*seriesGroup{}
	keys := slices.SortedFunc(maps.Keys(groups), func(a, b facts.PhaseKey) int {
		return cmp.Compare(groups[a].Number, groups[b].Number)
	})
	for _, k := range keys {
		m := facts.ModelKey{Phase: k.Phase, Model: b.book.Index(k.Model)}
		if out[m] == nil {
			out[m] = &seriesGroup{}
		}
		out[m].merge(groups[k])
	}
	return out
}

// merge adds the steps of another context.
func (g *seriesGroup) merge(o *seriesGroup) {
	g.Group.Merge(&o.Group)
	g.points.merge(&o.points)
	g.mergeTeams(o)
	g.tokenTime.Merge(&o.tokenTime)
	for _, p := range o.slow {
		g.slow.add(p)
	}
	for i := range o.rows {
		for _, r := range o.rows[i] {
			to := g.seriesRow(i, r.key, r.typ, r.weight)
			if to == nil {
				g.rowsDropped += r.time.Hist.N
				continue
			}
			to.merge(r)
		}
	}
	for k, p := range o.products {
		if g.products == nil {
			g.products = map[productKey]*productSum{}
		}
		to := g.products[k]
		switch {
		case to != nil:
			to.merge(p)
		case len(g.products) >= maxProducts:
			g.productsDropped += p.time.Hist.N
		default:
			g.products[k] = p
		}
	}
	g.rowsDropped += o.rowsDropped
	g.productsDropped += o.productsDropped
}

func (r *seriesRow) merge(o *seriesRow) {
	r.time.Merge(&o.time)
	for len(r.layers) < len(o.layers) {
		r.layers = append(r.layers, LayerPart{Layer: len(r.layers)})
	}
	for i, l := range o.layers {
		e := &r.layers[i]
		e.Calls += l.Calls
		e.Dur += l.Dur
		e.Max = max(e.Max, l.Max)
	}
	r.noLayer += o.noLayer
	for _, t := range o.threads {
		at := slices.IndexFunc(r.threads, func(e ThreadPart) bool { return e.TID == t.TID && e.PID == t.PID })
		switch {
		case at >= 0:
			e := &r.threads[at]
			e.Ops += t.Ops
			e.Busy += t.Busy
			e.Wait += t.Wait
			e.OffCPU += t.OffCPU
		case len(r.threads) < maxSeriesThreads:
			r.threads = append(r.threads, t)
		}
	}
}

func (p *productSum) merge(o *productSum) {
	p.time.Merge(&o.time)
	p.bytes, p.bytesDur, p.bytesN = p.bytes+o.bytes, p.bytesDur+o.bytesDur, p.bytesN+o.bytesN
	p.flops, p.flopsDur, p.flopsN = p.flops+o.flops, p.flopsDur+o.flopsDur, p.flopsN+o.flopsN
	p.atMost = p.atMost || o.atMost
	p.threads = max(p.threads, o.threads)
	maps.Copy(p.layers, o.layers)
}

// finishPoints computes the figures that follow from a point's sums.
func finishPoints(points []StepPoint, filtered bool) []StepPoint {
	out := make([]StepPoint, len(points))
	for i, p := range points {
		p.Pos = num.Ratio(p.posSum, float64(p.posN))
		if filtered {
			p.Gap, p.Other = nil, nil
		}
		out[i] = p
	}
	return out
}

// phase returns a phase's series.
func (g *seriesGroup) phase(p profile.Phase, filtered bool) Phase {
	g.slow.cut()
	ps := Phase{Phase: string(p), StepsPerPoint: max(1, g.points.every), Partial: []StepPoint{},
		Steps: finishPoints(g.points.points, filtered), Slowest: finishPoints(g.slow, filtered),
		RowsDropped: g.rowsDropped, ProductsDropped: g.productsDropped, Threads: []ThreadPart{},
		Products: []Product{}}
	if p == profile.Unknown {
		ps.Phase = "unknown"
	}
	for i, to := range []*[]Row{&ps.ByWeight, &ps.ByOp, &ps.ByLayer, &ps.ByBlock} {
		*to = finishRows(g.rows[i], seriesBy[i])
	}
	for tid, t := range g.Threads {
		ps.Threads = append(ps.Threads,
			ThreadPart{PID: t.Pid, TID: tid, Ops: t.Ops, Busy: t.Busy, Wait: t.Wait, OffCPU: t.Off,
				Steps: t.Steps})
	}
	slices.SortFunc(ps.Threads, func(a, b ThreadPart) int {
		return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.TID, b.TID))
	})
	for k, v := range g.products {
		ps.Products = append(ps.Products, v.finish(k))
	}
	slices.SortFunc(ps.Products, func(a, b Product) int {
		return cmp.Or(cmp.Compare(b.Sum, a.Sum), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Type, b.Type),
			cmp.Compare(a.M, b.M), cmp.Compare(a.N, b.N), cmp.Compare(a.K, b.K))
	})
	if !g.NoPerToken && g.tokenTime.Hist.N > 0 {
		v := g.tokenTime.Dist()
		ps.PerToken = &v
	}
	return ps
}

// finishRows returns rows in Stat's order.
func finishRows(rows map[string]*seriesRow, by facts.By) []Row {
	all := slices.SortedFunc(maps.Values(rows), func(a, b *seriesRow) int {
		if x, err := strconv.Atoi(a.key); by == facts.ByLayer && err == nil {
			if y, err := strconv.Atoi(b.key); err == nil {
				return cmp.Compare(x, y)
			}
		}
		if by == facts.ByLayer {
			return cmp.Compare(a.key, b.key) // "none" comes last
		}
		return cmp.Or(cmp.Compare(b.time.Sum, a.time.Sum), cmp.Compare(a.key, b.key),
			cmp.Compare(a.typ, b.typ))
	})
	out := []Row{}
	for _, r := range all {
		v := Row{Key: r.key, Weight: r.weight, Type: r.typ, Time: r.time.Dist(), NoLayer: r.noLayer,
			Threads: r.threads,
			Layers:  slices.DeleteFunc(r.layers, func(l LayerPart) bool { return l.Calls == 0 })}
		slices.SortFunc(v.Threads, func(a, b ThreadPart) int {
			return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.TID, b.TID))
		})
		out = append(out, v)
	}
	return out
}

func (p *productSum) finish(k productKey) Product {
	v := Product{Key: k.name, Weight: k.weight, Attn: k.attn, Type: k.typ, M: k.m, N: k.n, K: k.k,
		Calls: p.time.Hist.N, Sum: p.time.Sum, P5: p.time.Hist.Quantile(0.05),
		P95:  p.time.Hist.Quantile(0.95),
		Mean: float64(p.time.Sum) / float64(max(1, p.time.Hist.N)), Flops: num.Share(p.flops,
			p.flopsN), Bytes: num.Share(p.bytes, p.bytesN),
		BytesAtMost: p.atMost, Threads: p.threads, Layers: len(p.layers)}
	if p.bytesN > 0 {
		v.GBps = num.PerSecond(p.bytes, p.bytesDur)
	}
	if p.flopsN > 0 {
		v.GFlops = num.PerSecond(p.flops, p.flopsDur)
	}
	if w, ok := ops.Product(k.m, k.n, k.k); ok {
		v.Work = &w
	}
	return v
}
