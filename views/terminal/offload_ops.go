// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"fmt"
	"slices"
	"strings"

	"github.com/profinfer/profinfer/internal/format"
	"github.com/profinfer/profinfer/profile/offload"
)

// offloadOps draws operators by backend: the matmuls of each, then what the same operators take on two of
// them.
func (p *page) offloadOps(title string, x *offload.Offload) {
	if len(x.Backends) < 2 {
		return
	}
	p.offloadProducts(x)
	p.sameOps(title, x)
}

func (p *page) offloadProducts(x *offload.Offload) {
	if len(x.Products) == 0 {
		return
	}
	t := &table{}
	name := t.col(column{title: "matmuls, per step", left: true, keep: 100, min: 12})
	n := t.col(column{title: "matmuls", keep: 90})
	flop := t.col(column{title: "work", keep: 70})
	took := t.col(column{title: "took", keep: 95})
	rate := t.col(column{title: "GFLOP/s", keep: 85})
	gbps := t.col(column{title: "GB/s", keep: 80})
	how := t.col(column{title: "timed by", left: true, keep: 60})
	for i := range x.Products {
		b := &x.Products[i]
		name.add(p.o.clean(b.Backend))
		n.add(number1(b.Products))
		flop.add(format.Flops(b.Flops))
		took.add(p.o.durationOf(b.Dur))
		least := ""
		if overTimed(b.TimedBy) || b.Others > 0 { // that time covers more than the matmuls
			least = either(&p.o, "≥ ", ">= ")
		}
		rate.add(figure(least, b.GFlops))
		gbps.add(figure(least, b.GBps))
		s := timedBy(b.TimedBy)
		if b.Others > 0 {
			s += fmt.Sprintf(", with %s other operators", number1(b.Others))
		}
		if b.Part != nil && *b.Part < 1 && b.Dur != nil {
			s += fmt.Sprintf(", of %s of them", format.Percent(b.Part))
		}
		how.add(s)
	}
	p.table(t)
}

// figure formats a figure with three digits after its sign.
func figure(sign string, v *float64) string {
	if v == nil {
		return "-"
	}
	return sign + format.Table.Number(*v)
}

// timedBy describes the source of a time.
func timedBy(s string) string {
	switch s {
	case offload.TimedOps:
		return "operators"
	case offload.TimedCall:
		return "calls of graphs"
	case offload.TimedSpan:
		return "graphs, end to end"
	case offload.TimedBusy:
		return "graphs on the device's queue"
	}
	return "-"
}

// sameRow is the same work on two backends.
type sameRow struct {
	what, dims, other, otherTime, backend, time, ratio string
}

// sameOps draws operators whose time is known on two backends, and graphs beside what their operators take on
// another backend.
func (p *page) sameOps(title string, x *offload.Offload) {
	var rows []sameRow
	for i := range x.Operators {
		o := &x.Operators[i]
		var first *offload.OpTime
		for k := range o.PerBackend {
			b := &o.PerBackend[k]
			if b.Mean == nil {
				continue
			}
			if first == nil {
				first = b
				continue
			}
			r := sameRow{p.o.clean(o.Key), dims(o), p.o.clean(first.Backend), p.o.durationOf(first.Mean),
				p.o.clean(b.Backend), p.atMost(b.TimedBy) + p.o.durationOf(b.Mean), "-"}
			if *first.Mean > 0 {
				v := *b.Mean / *first.Mean
				r.ratio = figure(p.atMost(b.TimedBy), &v)
			}
			rows = append(rows, r)
		}
	}
	for i := range x.Graphs {
		g := &x.Graphs[i]
		if g.Mean == nil {
			continue
		}
		for _, o := range g.Others {
			sign := p.atMost(g.TimedBy)
			ratio := "-"
			if o.Ratio != nil && (o.Known == g.Nodes || o.Flops != nil && *o.Flops >= 0.5) {
				if o.Known < g.Nodes {
					sign = either(&p.o, "≤ ", "<= ")
				}
				ratio = figure(sign, o.Ratio)
			}
			what := p.o.clean(graphName(x, g))
			dims := ""
			if o.Known < g.Nodes {
				dims = fmt.Sprintf("%d of %d known there", o.Known, g.Nodes)
			}
			rows = append(rows, sameRow{what, dims, p.o.clean(o.Backend), p.o.duration(o.Dur),
				p.o.clean(g.Backend), p.atMost(g.TimedBy) + p.o.durationOf(g.Mean), ratio})
		}
	}
	if len(rows) == 0 {
		return
	}
	t := &table{}
	what := t.col(column{title: title + ", operators by backend", left: true, keep: 100, min: 12})
	dim := t.col(column{left: true, keep: 60})
	other := t.col(column{left: true, keep: 95})
	first := t.col(column{title: "mean", keep: 95})
	backend := t.col(column{left: true, keep: 95})
	second := t.col(column{title: "mean", keep: 95})
	ratio := t.col(column{title: "ratio", keep: 90})
	for _, r := range rows[:min(len(rows), maxSameRows)] {
		what.add(r.what)
		dim.add(r.dims)
		other.add(r.other)
		first.add(r.otherTime)
		backend.add(r.backend)
		second.add(r.time)
		ratio.add(r.ratio)
	}
	p.table(t)
}

// maxSameRows bounds the rows drawn; --json has all.
const maxSameRows = 24

// overTimed reports whether a time is an upper bound of the device's time.
func overTimed(by string) bool { return by == offload.TimedSpan || by == offload.TimedBusy }

// atMost marks a time that covers more than the operators.
func (p *page) atMost(timedBy string) string {
	if overTimed(timedBy) {
		return either(&p.o, "≤ ", "<= ")
	}
	return ""
}

// graphName describes briefly what a graph computes.
func graphName(x *offload.Offload, g *offload.BackendGraph) string {
	if g.Nodes <= 3 {
		var names []string
		for _, o := range g.Operators {
			names = append(names, slices.Repeat([]string{x.Operators[o.Op].Key}, o.Count)...)
		}
		return strings.Join(names, " + ")
	}
	s := fmt.Sprintf("graph of %d operators", g.Nodes)
	if l := g.Layers; l != nil {
		if l.First == l.Last {
			s += fmt.Sprintf(", layer %d", l.First)
		} else {
			s += fmt.Sprintf(", layers %d to %d", l.First, l.Last)
		}
	}
	return s
}

// dims formats a matmul's m x n x k, or the result's dimensions.
func dims(o *offload.BackendOp) string {
	n := 4
	for n > 1 && o.Ne[n-1] == 1 {
		n--
	}
	var s []string
	for _, v := range o.Ne[:n] {
		s = append(s, fmt.Sprint(v))
	}
	if o.K != nil {
		if n == 1 {
			s = append(s, "1")
		}
		s = append(s, fmt.Sprint(*o.K))
	}
	return strings.Join(s, " x ")
}
