// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"fmt"
	"io"
	"strings"

	"github.com/profinfer/profinfer/internal/format"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/summary"
)

// Stat draws the statistics: one screen of them, or all if Options.Full. It returns w's errors.
func Stat(w io.Writer, s *summary.Stat, o Options) error {
	p := &page{o: o}
	switch {
	case o.Full || o.Verbose:
		p.full(s)
	case o.Rows || s.By != facts.ByWeight:
		p.asked(s)
	default:
		p.screen(s)
	}
	_, err := io.WriteString(w, p.b.String())
	return err
}

// full draws all: what was recorded, what stands out, the phases, their operators, requests, threads, and
// what was not seen.
func (p *page) full(s *summary.Stat) {
	p.head(s, mostPhases)
	p.headline(s)
	p.caveats(s)
	if len(s.Phases) == 0 {
		p.blank()
		p.line(emptyText(s), plain)
	} else {
		p.phases(s)
		p.sequences(s)
		p.batches(s)
		p.tables(s)
		p.byThreads(s)
	}
	p.faults(s)
	p.outside(s, len(outsideRows(s)))
	p.offload(s)
	p.remote(s)
	p.threads(s)
	p.cpus(s)
	p.roof(s)
	p.lost(s)
	p.next(s, mostNext)
}

// asked draws the rows that were asked for, below the verdicts.
func (p *page) asked(s *summary.Stat) {
	p.head(s, mostPhases)
	p.caveats(s)
	p.blank()
	if len(s.Phases) == 0 {
		p.line(emptyText(s), plain)
	} else {
		p.phaseBlocks(s, mostPhases)
		p.tables(s)
	}
	p.outside(s, len(outsideRows(s)))
	p.lost(s)
	p.next(s, mostNext)
}

// tables draws the phases' operators, or the experts that tokens chose.
func (p *page) tables(s *summary.Stat) {
	if s.By != facts.ByExpert {
		p.rows(s)
		return
	}
	for _, f := range p.shownPhases(s) {
		p.experts(s, f)
	}
}

// page collects lines.
type page struct {
	o Options
	b strings.Builder
}

func (p *page) blank() { p.b.WriteByte('\n') }

// line writes text, wrapped where the terminal is narrower.
func (p *page) line(text, style string) {
	for _, l := range wrap(text, p.o.Width, 2) {
		p.b.WriteString(p.o.style(l, style))
		p.b.WriteByte('\n')
	}
}

// parts writes facts separated by three spaces; only those longer than a line are wrapped.
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
		if p.o.Width > 0 && n+w > p.o.Width { // n is 0 or 2: it has its own line, and is longer
			lines := wrap(f, p.o.Width-2, 0)
			f = strings.Join(lines, "\n  ")
			n, w = 2, textWidth(lines[len(lines)-1])
		}
		p.b.WriteString(f)
		n += w
	}
	if n > 0 {
		p.blank()
	}
}

// table draws a table, its groups separated by blank lines.
func (p *page) table(t *table) {
	for i, lines := range t.parts(&p.o) {
		if i > 0 {
			p.blank()
		}
		for _, l := range lines {
			p.b.WriteString(l)
			p.b.WriteByte('\n')
		}
		for _, n := range t.groups[i].notes {
			p.line(n.text, n.style)
		}
	}
}

// active returns the processes that computed something, all if none did.
func (p *page) active(s *summary.Stat) []*summary.Process {
	var some, all []*summary.Process
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

// typeMix names the types that make up a notable part of a model: "q4_0", "q4_K 78 % q6_K 22 %".
func (p *page) typeMix(m *facts.Model) string {
	var names []string
	more := 0
	for _, t := range m.Types {
		if t.Bytes == nil || m.Bytes == nil || *m.Bytes == 0 {
			if len(names) < 4 {
				names = append(names, p.o.clean(t.Type))
			} else {
				more++
			}
			continue
		}
		part := float64(*t.Bytes) / float64(*m.Bytes)
		switch {
		case part > 0.985:
			return p.o.clean(t.Type)
		case part >= 0.015 && len(names) < 4:
			names = append(names, p.o.clean(t.Type)+" "+format.Percent(&part))
		case part >= 0.015:
			more++
		}
	}
	if more > 0 {
		names = append(names, fmt.Sprintf("+%d more", more))
	}
	return strings.Join(names, " ")
}

func emptyText(s *summary.Stat) string {
	switch {
	case s.Lost.Cut && s.Run.Dur == 0:
		return "Nothing was recorded before this recording was truncated."
	case s.Run.Steps > 0:
		return "No step of the phase asked for was seen."
	case s.Outside != nil:
		return "No step was seen: these operators ran outside any call that computes a batch."
	}
	return "No step was seen: the engine computed nothing while it was recorded. Record while it answers a request."
}

// phaseName is the phase's name, with its model's size where there are several.
func phaseName(s *summary.Stat, f *summary.Phase) string {
	if len(s.Models) < 2 || f.Model == nil || *f.Model < 0 || *f.Model >= len(s.Models) {
		return f.Phase
	}
	return f.Phase + role(s, *f.Model) + " " + format.Table.Parameters(s.Models[*f.Model].Params)
}

// phases draws how fast the phases were, then where their steps' time went, and their threads'.
func (p *page) phases(s *summary.Stat) {
	var speed, split, threads table
	name := speed.col(column{title: "phases", left: true, keep: 100})
	steps := speed.col(column{title: "steps", keep: 60})
	tokens := speed.col(column{title: "tokens", keep: 50})
	tps := speed.col(column{title: "t/s", keep: 95})
	per := speed.col(column{title: "TPOT/step p50", keep: 90})
	p95 := speed.col(column{title: "p95", keep: 70})
	p99 := speed.col(column{title: "p99", keep: 66})
	slowest := speed.col(column{title: "max", keep: 68})
	gbps := speed.col(column{title: "GB/s", keep: 45})
	gflops := speed.col(column{title: "GFLOP/s", keep: 44})
	peak := speed.col(column{title: "of peak", keep: 46})
	mbu := speed.col(column{title: "MBU", keep: 47})

	name2 := split.col(column{title: "step time", left: true, keep: 100})
	dur := split.col(column{title: "mean", keep: 81})
	matmul := split.col(column{title: "weight matmul", keep: 85})
	attn := split.col(column{title: "attention", keep: 65})
	other := split.col(column{title: "other", keep: 64})
	elsewhere := split.col(column{title: p.name(backendTitle(s)), keep: 82})
	gap := split.col(column{title: "outside operators", keep: 62})
	name3 := threads.col(column{title: "thread time", left: true, keep: 100})
	busy := threads.col(column{title: "busy", keep: 78})
	wait := threads.col(column{title: "barrier wait", keep: 80})
	off := threads.col(column{title: "off-CPU", keep: 79})
	for _, f := range p.shownPhases(s) {
		name.add(phaseName(s, f))
		steps.add(format.Count(f.Steps))
		tokens.add(countOf(f.Tokens))
		tps.add(format.Rate(endToEnd(f)))
		d := f.TPOT
		if d == nil {
			d = f.StepTime
		}
		switch {
		case d == nil:
			for _, c := range []*column{per, p95, p99, slowest} {
				c.add("-")
			}
		default:
			per.add("-")
			if d.N >= fewestValues {
				per.cells[len(per.cells)-1] = p.o.duration(d.P50)
			}
			p95.add(p.o.durationOf(d.P95))
			p99.add(p.o.durationOf(d.P99))
			slowest.add(p.o.duration(d.Max))
		}
		gbps.add(achievedRate(f.Bandwidth))
		gflops.add(achievedRate(f.Compute))
		peak.add(nearPeak(f))
		mbu.add(format.Percent(f.MBU))
		if f.Ops == 0 {
			continue
		}
		name2.add(phaseName(s, f))
		name3.add(phaseName(s, f))
		dur.add(p.o.duration(float64(f.TracedDur) / float64(max(1, f.Traced))))
		matmul.add(format.Percent(f.MatMul))
		attn.add(format.Percent(f.Attn))
		other.add(format.Percent(f.Other))
		if len(f.Backends) > 0 {
			elsewhere.add(format.Percent(f.Backend))
		} else {
			elsewhere.add("")
		}
		gap.add(format.Percent(f.GapShare))
		busy.add(format.Percent(busyShare(f)))
		wait.add(format.Percent(f.Wait))
		off.add(format.Percent(f.OffCPU))
	}
	p.blank()
	p.table(&speed)
	if n := len(s.Phases) - len(p.shownPhases(s)); n > 0 {
		p.line("+"+format.Plural(n, "more phase")+": -v shows them, and --pid those of one process", dim)
	}
	p.calls(s)
	if len(name2.cells) == 0 {
		return
	}
	p.blank()
	p.table(&split)
	p.blank()
	p.table(&threads)
	if backendTitle(s) != "" {
		p.line("operators on other backends than the CPU cannot be timed; the time of a graph there is that of its call, the device can compute on after it", dim)
	}
}

// endToEnd is tokens per second with the time between steps, or where that is unknown without it.
func endToEnd(f *summary.Phase) *float64 {
	if f.EndToEndTPS != nil {
		return f.EndToEndTPS
	}
	return f.TokensPerS
}

func achievedRate(r *summary.Rate) string {
	if r == nil {
		return "-"
	}
	return format.Decimal(&r.Achieved)
}

// nearPeak is how near a phase is to the nearer of its peaks.
func nearPeak(f *summary.Phase) string {
	v := summary.RowVerdict{}
	if f.Bandwidth != nil {
		v.OfPeakGBps = f.Bandwidth.OfPeak
	}
	if f.Compute != nil {
		v.OfPeakFlops = f.Compute.OfPeak
	}
	return ofPeak(&v)
}

// busyShare is the part of the threads' time in operators in which they were on a CPU and did not wait.
func busyShare(f *summary.Phase) *float64 {
	if f.Wait == nil {
		return nil
	}
	v := 1 - *f.Wait
	if f.OffCPU != nil {
		v -= *f.OffCPU
	}
	return &v
}

func outsideRows(s *summary.Stat) []summary.Row {
	if s.Outside == nil {
		return nil
	}
	return s.Outside.Rows
}

// outside draws operators that ran outside any step.
func (p *page) outside(s *summary.Stat, most int) {
	rows := outsideRows(s)
	if len(rows) == 0 {
		return
	}
	p.blank()
	t := newOpTable(p, s, p.o.Full, false, rows)
	t.group("outside steps, by " + string(s.By))
	for i := range rows {
		if i == most {
			break
		}
		t.row(p, s, &rows[i], p.rowName(s, &rows[i]), plain)
	}
	if n := len(rows) - most; n > 0 {
		t.note(fmt.Sprintf("+%s more", format.Count(n)), dim)
	}
	p.table(&t.table)
}
