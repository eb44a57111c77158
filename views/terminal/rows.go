// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/profinfer/profinfer/internal/format"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/summary"
)

// rows draws a phase's operators.
func (p *page) rows(s *summary.Stat, f *summary.Phase) {
	if l := s.Run.Level; f.Ops == 0 && (l == "step" || l == "graph") {
		if f == &s.Phases[0] {
			p.blank()
			p.line("Operators were not recorded: this is level "+l+", --level op shows them.", dim)
		}
		return
	}
	p.blank()
	if f.Ops == 0 {
		text := "no operators were seen in " + phaseName(s, f)
		if f.Traced == 0 && f.Steps > 0 {
			text = "no operators of " + phaseName(s, f) + " were recorded" + whyUntraced(s)
		}
		p.line(text, dim)
		return
	}
	title := phaseName(s, f) + ", by " + string(s.By)
	if f.Traced < f.Steps {
		part := float64(f.Traced) / float64(f.Steps)
		stands := "what follows stands for all of them"
		if s.Run.MinTPS != "" || s.Lost.Untraced == nil || len(s.Lost.Untraced) > 0 &&
			s.Lost.Untraced[0].Why != "throttled" {
			stands = "what follows is of these" // the others were slower, or of other graphs
		}
		p.line(fmt.Sprintf("operators of %s of %s %s steps (%s)%s: %s", format.Count(f.Traced),
			format.Count(f.Steps),
			phaseName(s, f), format.Percent(&part), whyUntraced(s), stands), bold)
	}
	t := p.rowTable(s, title, f.Rows, f.Rest, f.RestRows, f.Traced)
	p.backends(s, f, t)
	if s.By != facts.ByThread && s.By != facts.ByStep && f.TracedDur > 0 {
		foot := func(name string, ns *int64, least float64) {
			if ns != nil && float64(*ns) >= least*float64(f.TracedDur) {
				t.foot(name, float64(*ns)/float64(f.Traced), float64(*ns)/float64(f.TracedDur))
			}
		}
		if s.By == facts.ByWeight || s.By == facts.ByOp || s.By == facts.ByLayer || s.By == facts.ByBlock {
			foot("(probes)", f.Probe, 0.0005)
		}
		foot("(between operators)", f.Gap, -1)
	}
	p.table(&t.table)
	if f.Overlap != nil && f.TracedDur > 0 && float64(*f.Overlap) > 0.005*float64(f.TracedDur) {
		part := float64(*f.Overlap) / float64(f.TracedDur)
		p.line(fmt.Sprintf("operators ran at the same time for %s of the steps' time: shares add up to more than 100 %%", format.Percent(&part)), dim)
	}
	p.counters(s, f)
}

// whyUntraced says why operators of some steps were not recorded.
func whyUntraced(s *summary.Stat) string {
	if len(s.Lost.Untraced) == 0 {
		return ""
	}
	switch s.Lost.Untraced[0].Why {
	case "throttled":
		var why []string
		if s.Run.Budget != "" {
			if b, err := strconv.ParseFloat(s.Run.Budget, 64); err == nil {
				why = append(why, fmt.Sprintf("the overhead budget of %.3g %%", 100*b))
			}
		}
		if s.Run.MinTPS != "" {
			why = append(why, "the floor of "+s.Run.MinTPS+" tokens a second")
		}
		if len(why) > 0 {
			return ", by " + strings.Join(why, " and ")
		}
		return ", the others were throttled"
	case "learning":
		return ", the order of the others' was being learned"
	case "filtered":
		return ", by the filter " + s.Run.Filter
	}
	return ", arrivals in the others did not fit"
}

// rowTable is the table of operators with direct access to its columns.
type rowTable struct {
	table
	name, typ, calls, per, share, bar *column
	u                                 format.Unit
}

// foot adds a row that is not an operator.
func (t *rowTable) foot(name string, ns, part float64) {
	for len(t.name.style) < len(t.name.cells) {
		t.name.style = append(t.name.style, plain)
	}
	for _, c := range []*column{t.typ, t.calls} {
		for len(c.cells) < len(t.name.cells) {
			c.add("")
		}
	}
	for len(t.bar.cells) < len(t.name.cells) {
		t.bar.add("")
	}
	t.name.add(name)
	t.name.style = append(t.name.style, dim)
	t.typ.add("")
	t.calls.add("")
	t.per.add(t.u.Of(ns))
	t.share.add(format.Percent1(&part))
	t.bar.add("")
}

func (p *page) rowTable(s *summary.Stat, title string, rows []summary.Row, rest *summary.Row, restRows int,
	steps int64) *rowTable {
	var largest, mostShare, meanMost float64
	for i := range rows {
		largest = max(largest, rows[i].DurPerStep)
		meanMost = max(meanMost, rows[i].Mean)
		if rows[i].Share != nil {
			mostShare = max(mostShare, *rows[i].Share)
		}
	}
	t := &rowTable{u: p.o.unitFor(largest)}
	mu := p.o.unitFor(meanMost)
	per := t.u.Name + "/step"
	byStep := s.By == facts.ByStep
	alone := len(s.Threads) == 1
	if byStep || steps == 0 {
		per = t.u.Name
	}
	t.name = t.col(column{title: title, left: true, keep: 100, min: 20})
	t.typ = t.col(column{left: true, keep: 45})
	tokens := t.col(column{title: "tokens", keep: 42})
	t.calls = t.col(column{title: "calls", keep: 50})
	t.per = t.col(column{title: per, keep: 95})
	t.share = t.col(column{title: "share", keep: 90})
	t.bar = t.col(column{left: true, keep: 40, tight: true})
	mean := t.col(column{title: "mean " + mu.Name, keep: 35})
	p95 := t.col(column{title: "p95 " + mu.Name, keep: 34})
	gbps := t.col(column{title: "GB/s", keep: 85})
	inten := t.col(column{title: "flop/B", keep: 55})
	gflops := t.col(column{title: "GFLOP/s", keep: 30})
	bound := t.col(column{title: "bound", left: true, keep: 83})
	ofPeak := t.col(column{title: "of roof", keep: 48})
	wait := t.col(column{title: "wait", keep: 80})
	off := t.col(column{title: "off-CPU", keep: 60})
	imb := t.col(column{title: "imbalance", keep: 70})
	add := func(r *summary.Row, name, style string) {
		t.name.add(name)
		t.name.style = append(t.name.style, style)
		typ := p.o.clean(r.Type)
		switch {
		case s.By == facts.ByOp || s.By == facts.ByWeight && !r.Weight:
			typ = ""
		case s.By == facts.ByThread || s.By == facts.ByStep || s.By == facts.ByLayer || s.By == facts.ByBlock:
			typ = ""
		}
		t.typ.add(typ)
		if r.Tokens != nil {
			tokens.add(format.Count(*r.Tokens))
		} else {
			tokens.add("")
		}
		switch {
		case byStep || steps == 0:
			t.calls.add(format.Count(r.Calls))
			t.per.add(t.u.Of(float64(r.Dur)))
		default:
			t.calls.add(format.Calls(r.CallsPerStep))
			t.per.add(t.u.Of(r.DurPerStep))
		}
		t.share.add(format.Percent1(r.Share))
		if r.Share != nil {
			t.bar.add(p.o.bar(*r.Share, mostShare, 7))
		} else {
			t.bar.add("")
		}
		t.bar.style = append(t.bar.style, blue)
		if byStep { // the mean of unlike operators is not informative
			mean.add("")
			p95.add("")
		} else {
			mean.add(mu.Of(r.Mean))
			p95.add(mu.Of(r.P95))
		}
		if r.BytesAtMost && r.GBps != nil {
			gbps.add(p.o.atMost() + format.Decimal(r.GBps))
		} else {
			gbps.add(format.Decimal(r.GBps))
		}
		inten.add(format.Decimal(r.Intensity))
		gflops.add(format.Decimal(r.GFlops))
		bound.add(boundWord(r.Bound))
		ofPeak.add(roofShare(r.Bound))
		off.add(format.Percent(r.OffShare))
		if alone { // a single thread waits for no other
			wait.add("")
			imb.add("")
		} else {
			wait.add(format.Percent(r.WaitShare))
			imb.add(format.Percent(r.Imbalance))
		}
	}
	if byStep {
		largest = 0
		for i := range rows {
			largest = max(largest, float64(rows[i].Dur))
		}
		t.u = p.o.unitFor(largest)
		t.per.title = t.u.Name
	}
	for i := range rows {
		add(&rows[i], p.rowName(s, &rows[i]), plain)
	}
	if rest != nil {
		add(rest, fmt.Sprintf("other (%s)", format.Plural(int64(restRows), "row")), dim)
	}
	return t
}

// rowName is a row's name in the first column.
func (p *page) rowName(s *summary.Stat, r *summary.Row) string {
	switch s.By {
	case facts.ByThread:
		for i := range s.Threads {
			if s.Threads[i].TID == r.TID && s.Threads[i].Comm != "" {
				return p.o.clean(s.Threads[i].Comm) + " " + r.Key
			}
		}
	case facts.ByLayer:
		if r.Key == "none" {
			return "no layer"
		}
		return "layer " + r.Key
	case facts.ByStep:
		return "step " + r.Key
	case facts.ByWeight:
		if !r.Weight && r.Op != "" && r.Op != r.Key {
			return p.o.clean(r.Key) + " " + p.o.clean(r.Op)
		}
	}
	return p.o.clean(r.Key)
}
