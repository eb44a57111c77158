// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/profinfer/profinfer/internal/format"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/requests"
	"github.com/profinfer/profinfer/profile/summary"
)

// rows draws all phases' operators, in tables whose columns and units agree.
func (p *page) rows(s *summary.Stat) {
	order := p.shownPhases(s)
	var seen []*summary.Phase
	said := false
	for _, f := range order {
		if f.Ops > 0 {
			seen = append(seen, f)
			continue
		}
		if l := s.Run.Level; l == "step" || l == "graph" {
			if !said {
				p.blank()
				p.line(levelText(l), dim)
			}
			said = true
			continue
		}
		if !said {
			p.blank()
		}
		said = true
		text := "no operators were seen in " + phaseName(s, f)
		if f.Traced == 0 && f.Steps > 0 {
			text = "no operators of " + phaseName(s, f) + " were recorded" + whyUntraced(s)
		}
		p.line(text, dim)
	}
	if len(seen) == 0 {
		return
	}
	var lists [][]summary.Row
	for _, f := range seen {
		lists = append(lists, f.Rows)
	}
	t := newOpTable(p, s, true, seen[0].Traced > 0, lists...)
	for _, f := range seen {
		p.phaseRows(s, f, t)
	}
	p.blank()
	p.table(&t.table)
	for _, f := range seen {
		p.counters(s, f)
	}
}

// levelText says why there are no operators.
func levelText(level string) string {
	return "Operators were not recorded: this is level " + level + "; --level op records them."
}

func (p *page) phaseRows(s *summary.Stat, f *summary.Phase, t *opTable) {
	t.group(p.opsTitle(s, f))
	for i := range f.Rows {
		t.row(p, s, &f.Rows[i], p.rowName(s, &f.Rows[i]), plain)
	}
	if f.Rest != nil {
		t.row(p, s, f.Rest, fmt.Sprintf("%s more", format.Count(f.RestRows)), dim)
	}
	if s.By != facts.ByThread && s.By != facts.ByStep && f.TracedDur > 0 {
		for i := range f.Backends {
			if b := &f.Backends[i]; b.Share != nil {
				t.sum("(graphs on "+p.o.clean(b.Backend)+")", float64(b.Dur)/float64(f.Steps), b.Share)
			}
		}
		foot := func(name string, ns *int64, least float64) {
			if ns != nil && float64(*ns) >= least*float64(f.TracedDur) {
				part := float64(*ns) / float64(f.TracedDur)
				t.sum(name, float64(*ns)/float64(f.Traced), &part)
			}
		}
		foot("(probes)", f.Probe, 0.0005)
		foot("(outside operators)", f.Gap, -1)
	}
	if f.Overlap != nil && f.TracedDur > 0 && float64(*f.Overlap) > 0.005*float64(f.TracedDur) {
		part := float64(*f.Overlap) / float64(f.TracedDur)
		t.note(fmt.Sprintf("operators ran in parallel for %s of the steps' time: shares add up to more than 100 %%",
			format.Percent(&part)), dim)
	}
	steps, _ := f.Judged()
	if n := f.Steps - steps; n > 0 && s.By != facts.ByStep {
		t.note(fmt.Sprintf("figures of %s: %s left out", format.Plural(steps, "undisturbed step"),
			format.Plural(n, "disturbed step")), dim)
	}
	if f.Traced < steps {
		part := float64(f.Traced) / float64(steps)
		stands := "they stand for all steps"
		if s.Run.MinTPS != "" || s.Lost.Untraced == nil || len(s.Lost.Untraced) > 0 &&
			s.Lost.Untraced[0].Why != "throttled" {
			stands = "the figures are of these steps" // the others were slower, or of other graphs
		}
		t.note(fmt.Sprintf("operators of %s of %s %s steps were recorded (%s)%s: %s", format.Count(f.Traced),
			format.Count(steps), phaseName(s, f), format.Percent(&part), whyUntraced(s), stands), bold)
	}
	p.expertLine(s, f, t)
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
			why = append(why, "--min-tps "+s.Run.MinTPS)
		}
		if len(why) > 0 {
			return ", by " + strings.Join(why, " and ")
		}
		return ", the others were throttled"
	case "learning":
		return "; graph tracking warmed up in the others"
	case "filtered":
		return ", by the filter " + s.Run.Filter
	}
	return "; barrier arrivals of the others did not match"
}

// opTable is a table of operators. Its units hold for all groups.
type opTable struct {
	table
	name, typ, tokens, calls, per, share, bar, p50, p95, gbps, inten, gflops, peak, wait, off, imb *column

	unit   format.Unit // of per
	most   float64     // share
	byStep bool
	alone  bool // a single thread waits for no other
	whole  bool // times are not per step
}

// newOpTable returns an empty table for these rows. full: with columns that the screen has no room for.
// perStep: times are per step.
func newOpTable(p *page, s *summary.Stat, full, perStep bool, lists ...[]summary.Row) *opTable {
	t := &opTable{byStep: s.By == facts.ByStep, alone: len(s.Threads) == 1}
	t.whole = t.byStep || !perStep
	var largest float64
	for _, rows := range lists {
		for i := range rows {
			r := &rows[i]
			if t.whole {
				largest = max(largest, float64(r.Dur))
			} else {
				largest = max(largest, r.DurPerStep)
			}
			if r.Share != nil {
				t.most = max(t.most, *r.Share)
			}
		}
	}
	t.unit = p.o.unitFor(largest)
	per := t.unit.Name + "/step"
	if t.whole {
		per = t.unit.Name
	}
	t.name = t.col(column{left: true, keep: 100, min: 20})
	t.typ = t.col(column{left: true, keep: 72, tight: true})
	t.tokens = t.col(column{title: "tokens", keep: 42})
	t.calls = t.col(column{title: "calls", keep: 50})
	t.per = t.col(column{title: per, keep: 95})
	t.share = t.col(column{title: "share", keep: 90})
	t.bar = t.col(column{left: true, keep: 40, tight: true})
	t.p50 = t.col(column{title: "p50", keep: 75})
	t.p95 = t.col(column{title: "p95", keep: 74})
	t.gbps = t.col(column{title: "GB/s", keep: 85})
	t.inten = t.col(column{title: "FLOP/byte", keep: 31})
	t.gflops = t.col(column{title: "GFLOP/s", keep: 30})
	t.peak = t.col(column{title: "of peak", keep: 83})
	t.wait = t.col(column{title: "barrier wait", keep: 80})
	t.off = t.col(column{title: "off-CPU", keep: 60})
	t.imb = t.col(column{title: "imbalance", keep: 70})
	if s.Peaks == nil || len(s.Peaks.Roofs) == 0 {
		t.peak.title = "bound"
	}
	if !full {
		t.cols = slices.DeleteFunc(t.cols, func(c *column) bool { return c == t.inten || c == t.gflops })
	}
	return t
}

// pad fills columns up to a row.
func (t *opTable) pad() {
	n := len(t.name.cells)
	for _, c := range t.cols {
		for len(c.cells) < n {
			c.add("")
		}
		for len(c.style) < n {
			c.style = append(c.style, plain)
		}
	}
}

// sum adds a row that is not a row of operators: only a time and its share.
func (t *opTable) sum(name string, ns float64, share *float64) {
	t.pad()
	t.name.add(name)
	t.name.style = append(t.name.style, dim)
	t.per.add(t.unit.Of(ns))
	t.share.add(format.Percent1(share))
	t.pad()
}

func (t *opTable) row(p *page, s *summary.Stat, r *summary.Row, name, style string) {
	t.pad()
	t.name.add(name)
	t.name.style = append(t.name.style, style)
	if s.By == facts.ByWeight && r.Weight {
		t.typ.add(p.o.clean(r.Type))
	}
	if r.Tokens != nil {
		t.tokens.add(format.Count(*r.Tokens))
	}
	if t.whole {
		t.calls.add(format.Count(r.Calls))
		t.per.add(t.unit.Of(float64(r.Dur)))
	} else {
		t.calls.add(format.Calls(r.CallsPerStep))
		t.per.add(t.unit.Of(r.DurPerStep))
	}
	t.share.add(format.Percent1(r.Share))
	if r.Share != nil {
		t.bar.add(p.o.bar(*r.Share, t.most, 7))
		t.bar.style = append(t.bar.style, blue)
	}
	if !t.byStep { // percentiles of unlike operators are not informative
		t.p50.add(p.o.duration(r.P50))
		if r.Calls >= requests.P95From {
			t.p95.add(p.o.duration(r.P95))
		} else {
			t.p95.add("-")
		}
	}
	if r.BytesAtMost && r.GBps != nil {
		t.gbps.add(p.o.atMost() + format.Decimal(r.GBps))
	} else {
		t.gbps.add(format.Decimal(r.GBps))
	}
	t.inten.add(format.Decimal(r.Intensity))
	t.gflops.add(format.Decimal(r.GFlops))
	t.peak.add(ofPeak(r.Bound))
	t.off.add(format.Percent(r.OffShare))
	if !t.alone {
		t.wait.add(format.Percent(r.WaitShare))
		t.imb.add(format.Percent(r.Imbalance))
	}
	t.pad()
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
