// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/profinfer/profinfer/profile"
)

// Stat draws the statistics: what was recorded, what stands out, the phases, their operators,
// the threads and what was not seen. An error is w's.
func Stat(w io.Writer, s *profile.Stat, o Options) error {
	p := &page{o: o}
	p.title(s)
	p.models(s)
	p.headline(s)
	p.caveats(s)
	if len(s.Phases) == 0 {
		p.blank()
		p.line(emptyText(s), plain)
	} else {
		p.phases(s)
		for i := range s.Phases {
			p.rows(s, &s.Phases[i])
		}
	}
	p.outside(s)
	p.threads(s)
	p.lost(s)
	_, err := io.WriteString(w, p.b.String())
	return err
}

// StatJSON writes the statistics as JSON: every figure of the table, unrounded, null where it
// is not known. An error is w's.
func StatJSON(w io.Writer, s *profile.Stat) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(s)
}

// page collects lines.
type page struct {
	o Options
	b strings.Builder
}

func (p *page) blank() { p.b.WriteByte('\n') }

// line writes text, broken into lines where the terminal is narrower.
func (p *page) line(text, style string) {
	for _, l := range wrap(text, p.o.Width, 2) {
		p.b.WriteString(p.o.style(l, style))
		p.b.WriteByte('\n')
	}
}

// parts writes facts separated by three spaces, none of them broken.
func (p *page) parts(facts []string) {
	n := 0
	for _, f := range facts {
		if f == "" {
			continue
		}
		w := textWidth(f)
		switch {
		case n == 0:
		case p.o.Width > 0 && n+3+w > p.o.Width:
			p.b.WriteString("\n  ")
			n = 2
		default:
			p.b.WriteString("   ")
			n += 3
		}
		if p.o.Width > 0 && n+w > p.o.Width {
			f = cutMiddle(f, max(1, p.o.Width-n), p.o.ellipsis())
			w = textWidth(f)
		}
		p.b.WriteString(f)
		n += w
	}
	p.blank()
}

func (p *page) table(t *table) {
	for _, l := range t.lines(&p.o) {
		p.b.WriteString(l)
		p.b.WriteByte('\n')
	}
}

func (p *page) title(s *profile.Stat) {
	facts := []string{p.o.clean(p.o.File)}
	list := p.active(s)
	for i, q := range list {
		if i == 3 {
			facts = append(facts, fmt.Sprintf("and %d more processes", len(list)-i))
			break
		}
		name := p.o.clean(q.Comm)
		if name == "" {
			name = fmt.Sprintf("process %d", q.PID)
		}
		if len(list) > 1 {
			name += fmt.Sprintf(" [%d]", q.PID)
		}
		var in []string
		if e := strings.TrimSpace(p.o.clean(q.Engine) + " " + p.o.clean(q.EngineVersion)); e != "" {
			in = append(in, e)
		}
		if q.GGMLVersion != "" {
			in = append(in, "ggml "+p.o.clean(q.GGMLVersion))
		}
		if q.CPUVariant != "" {
			in = append(in, "cpu "+p.o.clean(q.CPUVariant))
		}
		if q.Threads > 0 {
			in = append(in, plural(int64(q.Threads), "thread"))
		}
		if len(in) > 0 {
			name += " (" + strings.Join(in, ", ") + ")"
		}
		facts = append(facts, name)
	}
	if s.Run.Dur > 0 {
		facts = append(facts, fmt.Sprintf("%s in %s", plural(s.Run.Steps, "step"), p.o.duration(float64(s.Run.Dur))))
	}
	facts = append(facts, "lost "+count(s.Lost.Events))
	if s.Run.ProbeShare != nil {
		facts = append(facts, "probes "+percent1(s.Run.ProbeShare))
	}
	if s.Run.Filter != "" {
		facts = append(facts, "only "+p.o.clean(s.Run.Filter))
	}
	p.parts(facts)
}

// active returns the processes that computed something, all if none did.
func (p *page) active(s *profile.Stat) []*profile.StatProcess {
	var some, all []*profile.StatProcess
	for i := range s.Run.Processes {
		q := &s.Run.Processes[i]
		all = append(all, q)
		if q.Steps > 0 || q.Threads > 0 {
			some = append(some, q)
		}
	}
	if len(some) > 0 {
		return some
	}
	return all
}

func (p *page) models(s *profile.Stat) {
	for i := range s.Models {
		if i == 4 {
			p.line(fmt.Sprintf("and %d more models", len(s.Models)-i), plain)
			break
		}
		m := &s.Models[i]
		facts := []string{m.Family}
		if m.Family == "" {
			facts[0] = "model"
		}
		if m.Layers > 0 {
			facts = append(facts, plural(int64(m.Layers), "layer"))
		}
		if m.Width != nil {
			facts = append(facts, fmt.Sprintf("%d wide", *m.Width))
		}
		if m.Heads != nil && m.HeadsKV != nil && m.HeadDim != nil {
			facts = append(facts, fmt.Sprintf("%d/%d heads of %d", *m.Heads, *m.HeadsKV, *m.HeadDim))
		}
		if m.Experts != nil {
			e := fmt.Sprintf("%d experts", *m.Experts)
			if m.Used != nil {
				e += fmt.Sprintf(", %d used", *m.Used)
			}
			facts = append(facts, e)
		}
		if m.Vocab != nil {
			facts = append(facts, fmt.Sprintf("%s tokens", count(*m.Vocab)))
		}
		facts = append(facts, p.typeMix(m), parameters(m.Params)+" parameters")
		if m.Bytes != nil {
			facts = append(facts, size(*m.Bytes))
		}
		p.parts(facts)
	}
}

// typeMix names the types that hold a notable part of a model: "q4_0", "q4_K 78 % q6_K 22 %".
func (p *page) typeMix(m *profile.Model) string {
	var names []string
	for _, t := range m.Types {
		if t.Bytes == nil || m.Bytes == nil || *m.Bytes == 0 {
			names = append(names, p.o.clean(t.Type))
			continue
		}
		part := float64(*t.Bytes) / float64(*m.Bytes)
		switch {
		case part > 0.985:
			return p.o.clean(t.Type)
		case part >= 0.015 && len(names) < 4:
			names = append(names, p.o.clean(t.Type)+" "+percent(&part))
		}
	}
	if len(names) > 4 {
		names = append(names[:4], p.o.ellipsis())
	}
	return strings.Join(names, " ")
}

func emptyText(s *profile.Stat) string {
	switch {
	case s.Lost.Cut && s.Run.Dur == 0:
		return "Nothing was recorded before this trace was cut."
	case s.Run.Steps > 0:
		return "No step of the phase asked for was seen."
	case s.Outside != nil:
		return "No step was seen: these operators ran outside any call that computes a batch."
	}
	return "No step was seen: the engine computed nothing while it was recorded. Record while it answers a request."
}

// phaseName is the phase's name, with its model's size where there are several.
func phaseName(s *profile.Stat, f *profile.PhaseStat) string {
	if len(s.Models) < 2 || f.Model == nil || *f.Model < 0 || *f.Model >= len(s.Models) {
		return f.Phase
	}
	return f.Phase + " " + parameters(s.Models[*f.Model].Params)
}

func (p *page) phases(s *profile.Stat) {
	var t table
	name := t.col(column{left: true, keep: 100})
	steps := t.col(column{title: "steps", keep: 60})
	tokens := t.col(column{title: "tokens", keep: 50})
	tps := t.col(column{title: "t/s", keep: 95})
	per := t.col(column{title: "per token", keep: 90})
	p95 := t.col(column{title: "p95", keep: 70})
	matmul := t.col(column{title: "matmul", keep: 85})
	attn := t.col(column{title: "attn", keep: 65})
	other := t.col(column{title: "other", keep: 64})
	elsewhere := t.col(column{title: p.o.clean(backendTitle(s)), keep: 82})
	gap := t.col(column{title: "gaps", keep: 62})
	wait := t.col(column{title: "wait", keep: 80})
	off := t.col(column{title: "off-CPU", keep: 75})
	for i := range s.Phases {
		f := &s.Phases[i]
		name.add(phaseName(s, f))
		steps.add(count(f.Steps))
		if f.Tokens != nil {
			tokens.add(count(*f.Tokens))
		} else {
			tokens.add("-")
		}
		tps.add(rate(f.TokensPerS))
		per.add(p.o.durationOf(f.PerToken))
		p95.add(p.o.durationOf(f.PerTokenP95))
		matmul.add(percent(f.MatMul))
		attn.add(percent(f.Attn))
		other.add(percent(f.Other))
		if len(f.Backends) > 0 {
			elsewhere.add(percent(f.Backend))
		} else {
			elsewhere.add("")
		}
		gap.add(percent(f.GapShare))
		wait.add(percent(f.Wait))
		off.add(percent(f.OffCPU))
	}
	p.blank()
	p.table(&t)
	if backendTitle(s) != "" {
		p.line("operators on other backends than the CPU cannot be seen; the time of a graph there is that of the call, a device can compute on after it", dim)
	}
	if q := s.TTFT; q.Sequences > 0 {
		text := "first token after " + p.o.durationOf(q.Mean)
		if q.Sequences > 1 {
			text = fmt.Sprintf("first token after %s on average, p95 %s, at most %s (%s)",
				p.o.durationOf(q.Mean), p.o.durationOf(q.P95), p.o.duration(float64(*q.Max)), plural(q.Sequences, "sequence"))
		}
		if q.Unknown > 0 {
			text += fmt.Sprintf("; unknown for %d whose prompt was not seen from its start", q.Unknown)
		}
		p.line(text, dim)
	}
}

// rows draws a phase's operators.
func (p *page) rows(s *profile.Stat, f *profile.PhaseStat) {
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
		if s.Run.MinTPS != "" || s.Lost.Untraced == nil || len(s.Lost.Untraced) > 0 && s.Lost.Untraced[0].Why != "throttled" {
			stands = "what follows is of these" // the others were slower, or of other graphs
		}
		p.line(fmt.Sprintf("operators of %s of %s %s steps (%s)%s: %s", count(f.Traced), count(f.Steps),
			phaseName(s, f), percent(&part), whyUntraced(s), stands), bold)
	}
	t := p.rowTable(s, title, f.Rows, f.Rest, f.RestRows, f.Traced)
	p.backends(s, f, t)
	if s.By != profile.ByThread && s.By != profile.ByStep && f.TracedDur > 0 {
		foot := func(name string, ns *int64, least float64) {
			if ns != nil && float64(*ns) >= least*float64(f.TracedDur) {
				t.foot(name, float64(*ns)/float64(f.Traced), float64(*ns)/float64(f.TracedDur))
			}
		}
		if s.By == profile.ByWeight || s.By == profile.ByOp || s.By == profile.ByLayer || s.By == profile.ByBlock {
			foot("(probes)", f.Probe, 0.0005)
		}
		foot("(between operators)", f.Gap, -1)
	}
	p.table(&t.table)
	if f.Overlap != nil && f.TracedDur > 0 && float64(*f.Overlap) > 0.005*float64(f.TracedDur) {
		part := float64(*f.Overlap) / float64(f.TracedDur)
		p.line(fmt.Sprintf("operators ran at the same time for %s of the steps' time: shares add up to more than 100 %%", percent(&part)), dim)
	}
	p.counters(s, f)
}

// whyUntraced says why operators of some steps were not recorded.
func whyUntraced(s *profile.Stat) string {
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

// rowTable is the table of operators with its columns at hand.
type rowTable struct {
	table
	name, typ, calls, per, share, bar *column
	u                                 unit
}

// foot adds a row that is no operator.
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
	t.per.add(t.u.in(ns))
	t.share.add(percent1(&part))
	t.bar.add("")
}

func (p *page) rowTable(s *profile.Stat, title string, rows []profile.StatRow, rest *profile.StatRow, restRows int, steps int64) *rowTable {
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
	per := t.u.name + "/step"
	byStep := s.By == profile.ByStep
	alone := len(s.Threads) == 1
	if byStep || steps == 0 {
		per = t.u.name
	}
	t.name = t.col(column{title: title, left: true, keep: 100, min: 12})
	t.typ = t.col(column{left: true, keep: 45})
	tokens := t.col(column{title: "tokens", keep: 42})
	t.calls = t.col(column{title: "calls", keep: 50})
	t.per = t.col(column{title: per, keep: 95})
	t.share = t.col(column{title: "share", keep: 90})
	t.bar = t.col(column{left: true, keep: 40, tight: true})
	mean := t.col(column{title: "mean " + mu.name, keep: 35})
	p95 := t.col(column{title: "p95 " + mu.name, keep: 34})
	gbps := t.col(column{title: "GB/s", keep: 85})
	inten := t.col(column{title: "flop/B", keep: 55})
	gflops := t.col(column{title: "GFLOP/s", keep: 30})
	wait := t.col(column{title: "wait", keep: 80})
	off := t.col(column{title: "off-CPU", keep: 60})
	imb := t.col(column{title: "imbalance", keep: 70})
	add := func(r *profile.StatRow, name, style string) {
		t.name.add(name)
		t.name.style = append(t.name.style, style)
		typ := p.o.clean(r.Type)
		switch {
		case s.By == profile.ByOp || s.By == profile.ByWeight && !r.Weight:
			typ = ""
		case s.By == profile.ByThread || s.By == profile.ByStep || s.By == profile.ByLayer || s.By == profile.ByBlock:
			typ = ""
		}
		t.typ.add(typ)
		if r.Tokens != nil {
			tokens.add(count(*r.Tokens))
		} else {
			tokens.add("")
		}
		switch {
		case byStep || steps == 0:
			t.calls.add(count(r.Calls))
			t.per.add(t.u.in(float64(r.Dur)))
		default:
			t.calls.add(perStep(r.CallsPerStep))
			t.per.add(t.u.in(r.DurPerStep))
		}
		t.share.add(percent1(r.Share))
		if r.Share != nil {
			t.bar.add(p.o.bar(*r.Share, mostShare, 7))
		} else {
			t.bar.add("")
		}
		t.bar.style = append(t.bar.style, blue)
		if byStep { // the mean of unlike operators says little
			mean.add("")
			p95.add("")
		} else {
			mean.add(mu.in(r.Mean))
			p95.add(mu.in(r.P95))
		}
		if r.BytesAtMost && r.GBps != nil {
			gbps.add(p.o.atMost() + number(r.GBps))
		} else {
			gbps.add(number(r.GBps))
		}
		inten.add(number(r.Intensity))
		gflops.add(number(r.GFlops))
		off.add(percent(r.OffShare))
		if alone { // one thread waits for nobody
			wait.add("")
			imb.add("")
		} else {
			wait.add(percent(r.WaitShare))
			imb.add(percent(r.Imbalance))
		}
	}
	if byStep {
		largest = 0
		for i := range rows {
			largest = max(largest, float64(rows[i].Dur))
		}
		t.u = p.o.unitFor(largest)
		t.per.title = t.u.name
	}
	for i := range rows {
		add(&rows[i], p.rowName(s, &rows[i]), plain)
	}
	if rest != nil {
		add(rest, fmt.Sprintf("other (%s)", plural(int64(restRows), "row")), dim)
	}
	return t
}

// rowName is what a row is called in the first column.
func (p *page) rowName(s *profile.Stat, r *profile.StatRow) string {
	switch s.By {
	case profile.ByThread:
		for i := range s.Threads {
			if s.Threads[i].TID == r.TID && s.Threads[i].Comm != "" {
				return p.o.clean(s.Threads[i].Comm) + " " + r.Key
			}
		}
	case profile.ByLayer:
		if r.Key == "none" {
			return "no layer"
		}
		return "layer " + r.Key
	case profile.ByStep:
		return "step " + r.Key
	case profile.ByWeight:
		if !r.Weight && r.Op != "" && r.Op != r.Key {
			return p.o.clean(r.Key) + " " + p.o.clean(r.Op)
		}
	}
	return p.o.clean(r.Key)
}

// perStep writes calls a step: whole ones without decimals.
func perStep(v float64) string {
	if d := v - float64(int64(v)); d < 0.005 || d > 0.995 {
		return count(int64(v + 0.5))
	}
	return fmt.Sprintf("%.1f", v)
}

func (p *page) outside(s *profile.Stat) {
	if s.Outside == nil {
		return
	}
	p.blank()
	t := p.rowTable(s, "outside steps, by "+string(s.By), s.Outside.Rows, nil, 0, 0)
	p.table(&t.table)
}

func plural(n int64, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(n) + " " + one + "s"
}
