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

// Stat draws the statistics: what was recorded, what stands out, the phases, their operators, the threads and
// what was not seen. It returns w's errors.
func Stat(w io.Writer, s *summary.Stat, o Options) error {
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
		p.sequences(s)
		for i := range s.Phases {
			if s.By == facts.ByExpert {
				p.experts(s, &s.Phases[i])
				continue
			}
			p.rows(s, &s.Phases[i])
			p.expertLine(s, &s.Phases[i])
		}
		p.byThreads(s)
	}
	p.faults(s)
	p.outside(s)
	p.offload(s)
	p.remote(s)
	p.threads(s)
	p.roof(s)
	p.lost(s)
	_, err := io.WriteString(w, p.b.String())
	return err
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
	p.blank()
}

func (p *page) table(t *table) {
	for _, l := range t.lines(&p.o) {
		p.b.WriteString(l)
		p.b.WriteByte('\n')
	}
}

func (p *page) title(s *summary.Stat) {
	facts := []string{p.path(p.o.File)}
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
			in = append(in, format.Plural(int64(q.Threads), "thread"))
		}
		if len(in) > 0 {
			name += " (" + strings.Join(in, ", ") + ")"
		}
		facts = append(facts, name)
	}
	if s.Run.Dur > 0 {
		facts = append(facts, fmt.Sprintf("%s in %s", format.Plural(s.Run.Steps, "step"),
			p.o.duration(float64(s.Run.Dur))))
	}
	facts = append(facts, "lost "+format.Count(s.Lost.Events))
	if s.Run.ProbeShare != nil {
		facts = append(facts, "probes "+format.Percent1(s.Run.ProbeShare))
	}
	if s.Run.Filter != "" {
		facts = append(facts, "only "+p.o.clean(s.Run.Filter))
	}
	p.parts(facts)
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

func (p *page) models(s *summary.Stat) {
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
			facts = append(facts, format.Plural(int64(m.Layers), "layer"))
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
			facts = append(facts, fmt.Sprintf("%s tokens", format.Count(*m.Vocab)))
		}
		facts = append(facts, p.typeMix(m), format.Table.Parameters(m.Params)+" parameters")
		if m.Bytes != nil {
			facts = append(facts, format.Bytes(*m.Bytes))
		}
		p.parts(facts)
	}
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
		return "Nothing was recorded before this trace was cut."
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

func (p *page) phases(s *summary.Stat) {
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
	elsewhere := t.col(column{title: p.name(backendTitle(s)), keep: 82})
	gap := t.col(column{title: "gaps", keep: 62})
	wait := t.col(column{title: "wait", keep: 80})
	off := t.col(column{title: "off-CPU", keep: 75})
	for i := range s.Phases {
		f := &s.Phases[i]
		name.add(phaseName(s, f))
		steps.add(format.Count(f.Steps))
		if f.Tokens != nil {
			tokens.add(format.Count(*f.Tokens))
		} else {
			tokens.add("-")
		}
		tps.add(format.Rate(f.TokensPerS))
		per.add(p.o.durationOf(f.PerToken))
		p95.add(p.o.durationOf(f.PerTokenP95))
		matmul.add(format.Percent(f.MatMul))
		attn.add(format.Percent(f.Attn))
		other.add(format.Percent(f.Other))
		if len(f.Backends) > 0 {
			elsewhere.add(format.Percent(f.Backend))
		} else {
			elsewhere.add("")
		}
		gap.add(format.Percent(f.GapShare))
		wait.add(format.Percent(f.Wait))
		off.add(format.Percent(f.OffCPU))
	}
	p.blank()
	p.table(&t)
	if backendTitle(s) != "" {
		p.line("single operators on other backends than the CPU cannot be timed; the time of a graph there is that of the call, a device can compute on after it", dim)
	}
	p.calls(s)
	if q := s.TTFT; q.Sequences > 0 {
		text := "first token after " + p.o.durationOf(q.Mean)
		if q.Sequences > 1 {
			text = fmt.Sprintf("first token after %s on average, p95 %s, at most %s (%s)",
				p.o.durationOf(q.Mean), p.o.durationOf(q.P95), p.o.duration(float64(*q.Max)),
				format.Plural(q.Sequences, "request"))
		}
		if q.Unknown > 0 {
			text += fmt.Sprintf("; unknown for %d whose prompt was not seen from its start", q.Unknown)
		}
		p.line(text, dim)
	}
}

func (p *page) outside(s *summary.Stat) {
	if s.Outside == nil {
		return
	}
	p.blank()
	t := p.rowTable(s, "outside steps, by "+string(s.By), s.Outside.Rows, nil, 0, 0)
	p.table(&t.table)
}
