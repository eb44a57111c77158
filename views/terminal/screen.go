// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"fmt"
	"slices"
	"strings"

	"github.com/profinfer/profinfer/internal/format"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/summary"
)

// The screen's limits.
const (
	screenLines = 30
	screenRows  = 8 // operators
)

// amount is how much the screen shows of what can be many.
type amount struct {
	rows, findings, phases, notes, models, next int
}

// amounts are tried in turn until the screen has few enough lines.
func amounts() []amount {
	a := amount{rows: screenRows, findings: 3, phases: 3, notes: 3, models: 3, next: mostNext}
	out := []amount{a}
	less := func(n *int, to int) {
		for *n > to {
			*n--
			out = append(out, a)
		}
	}
	less(&a.rows, 6)
	less(&a.models, 1)
	less(&a.notes, 2)
	less(&a.findings, 2)
	less(&a.rows, 5)
	less(&a.phases, 2)
	less(&a.next, 2)
	less(&a.findings, 1)
	less(&a.notes, 1)
	less(&a.rows, 3)
	less(&a.phases, 1)
	less(&a.rows, 1)
	less(&a.findings, 0)
	return out
}

// screen draws what matters most of a recording on one screen.
func (p *page) screen(s *summary.Stat) {
	fits := func(a amount) bool {
		p.b.Reset()
		p.screenOf(s, a)
		return strings.Count(p.b.String(), "\n") <= screenLines
	}
	list := amounts()
	at := slices.IndexFunc(list, fits)
	if at < 0 {
		return // a terminal that is too narrow: the least of all stands
	}
	a, most := list[at], list[0]
	for _, n := range []struct{ of, to *int }{{&a.phases, &most.phases}, {&a.findings, &most.findings},
		{&a.rows, &most.rows},
		{&a.next, &most.next}, {&a.notes, &most.notes}, {&a.models, &most.models}} {
		for *n.of < *n.to { // what one had to leave can have room for another
			if *n.of++; !fits(a) {
				*n.of--
				break
			}
		}
	}
	fits(a)
}

func (p *page) screenOf(s *summary.Stat, a amount) {
	p.head(s, a.models)
	p.troubles(s, a.notes)
	if len(s.Phases) == 0 {
		p.blank()
		p.line(emptyText(s), plain)
		p.outside(s, a.rows)
	} else {
		p.blank()
		p.phaseBlocks(s, a.phases)
		p.topFindings(s, a.findings)
		p.blank()
		p.split(s)
		p.topOps(s, a.rows)
		p.threadLines(s)
	}
	p.next(s, a.next)
}

// head says what was recorded: the program, its engine, how it ran, and the model.
func (p *page) head(s *summary.Stat, models int) {
	var facts []string
	list := p.active(s)
	for i, q := range list {
		if i == mostNamed && len(list) > mostNamed+1 {
			facts = append(facts, fmt.Sprintf("+%s more processes", format.Count(len(list)-i)))
			break
		}
		facts = append(facts, p.program(s, q, len(list) > 1))
	}
	if s.Run.Dur > 0 {
		facts = append(facts, fmt.Sprintf("%s in %s", format.Plural(s.Run.Steps, "step"),
			p.o.duration(float64(s.Run.Dur))))
	}
	p.parts(facts)
	facts = nil
	if p.o.File != "" {
		facts = append(facts, p.path(p.o.File))
	}
	facts = append(facts, "dropped "+format.Count(s.Lost.Events))
	if s.Run.ProbeShare != nil {
		facts = append(facts, "probe overhead ~"+format.Percent1(s.Run.ProbeShare))
	}
	if s.Run.Filter != "" {
		facts = append(facts, "only "+p.o.clean(s.Run.Filter))
	}
	p.parts(append(facts, p.command(commandOf(s, list), facts)))
	p.models(s, models)
}

// mostNamed is how many processes the head names.
const mostNamed = 2

// program describes one process: "llama-bench, llama.cpp 0.7.0 (ggml 0.27.0, cpu zen4), 2 threads on 2 CPUs".
func (p *page) program(s *summary.Stat, q *summary.Process, pid bool) string {
	name := p.o.clean(q.Comm)
	if name == "" {
		name = fmt.Sprintf("process %d", q.PID)
	} else if pid {
		name += fmt.Sprintf(" %d", q.PID)
	}
	if e := strings.TrimSpace(p.o.clean(q.Engine) + " " + p.o.clean(q.EngineVersion)); e != "" {
		name += ", " + e
	}
	var in []string
	if q.GGMLVersion != "" {
		in = append(in, "ggml "+p.o.clean(q.GGMLVersion))
	}
	if q.CPUVariant != "" {
		in = append(in, "cpu "+p.o.clean(q.CPUVariant))
	}
	if len(in) > 0 {
		name += " (" + strings.Join(in, ", ") + ")"
	}
	if q.Threads > 0 {
		name += ", " + format.Plural(int64(q.Threads), "thread")
		if s.Run.Cores > 0 {
			name += " on " + format.Plural(int64(s.Run.Cores), "CPU")
		}
	}
	return name
}

// commandOf is the engine's command if there is one, else the recorder's.
func commandOf(s *summary.Stat, list []*summary.Process) []string {
	if len(list) == 1 && len(list[0].Command) > 0 {
		return list[0].Command
	}
	return s.Run.Command
}

// command is a command: as many whole arguments as fit on a line behind other facts, or on one of its own.
func (p *page) command(args, before []string) string {
	if len(args) == 0 {
		return ""
	}
	room := p.o.Width - textWidth(strings.Join(before, "   ")) - 3
	if first := p.arguments(args, room); first != "" {
		return first
	}
	return p.arguments(args, p.o.Width-2)
}

// arguments returns as many whole arguments as fit; empty: less than half of them.
func (p *page) arguments(args []string, room int) string {
	text := "$"
	for i, a := range args {
		more := fmt.Sprintf(" +%d more", len(args)-i-1)
		a = " " + p.o.clean(a)
		if i == len(args)-1 {
			more = ""
		}
		if p.o.Width > 0 && textWidth(text+a+more) > room {
			if i*2 < len(args) && room < p.o.Width-2 {
				return ""
			}
			return text + fmt.Sprintf(" +%d more", len(args)-i)
		}
		text += a
	}
	return text
}

// models describes the models, each on a line.
func (p *page) models(s *summary.Stat, most int) {
	if most < len(s.Models) {
		most = max(most, 1)
	}
	for i := range s.Models {
		if i == most {
			p.line("+"+format.Plural(len(s.Models)-i, "more model"), plain)
			break
		}
		of := p.model(&s.Models[i])
		for len(of) > 2 && p.o.Width > 0 && textWidth(strings.Join(of, ", ")) > p.o.Width {
			of = of[:len(of)-1] // what distinguishes models least
		}
		p.line(strings.Join(of, ", "), plain)
	}
}

// model describes one model: "llama 1.24 B q4_0, 663 MiB, 16 layers, n_embd 2048, 32 heads (8 KV)".
func (p *page) model(m *facts.Model) []string {
	name := m.Family
	if name == "" {
		name = "model"
	}
	name += " " + format.Table.Parameters(m.Params)
	if t := p.typeMix(m); t != "" {
		name += " " + t
	}
	of := []string{name}
	if m.Bytes != nil {
		of = append(of, format.Bytes(*m.Bytes))
	}
	if m.Layers > 0 {
		of = append(of, format.Plural(int64(m.Layers), "layer"))
	}
	if m.Width != nil {
		of = append(of, fmt.Sprintf("n_embd %d", *m.Width))
	}
	if m.Heads != nil {
		h := fmt.Sprintf("%d heads", *m.Heads)
		if m.HeadsKV != nil {
			h += fmt.Sprintf(" (%d KV)", *m.HeadsKV)
		}
		of = append(of, h)
	}
	if m.Experts != nil {
		e := fmt.Sprintf("%d experts", *m.Experts)
		if m.Used != nil {
			e += fmt.Sprintf(" (%d used)", *m.Used)
		}
		of = append(of, e)
	}
	if m.Vocab != nil {
		of = append(of, "vocab "+format.Count(*m.Vocab))
	}
	if m.HeadDim != nil {
		of = append(of, fmt.Sprintf("head_dim %d", *m.HeadDim))
	}
	return of
}

// troubles says what makes the figures below unreliable, the worst first.
func (p *page) troubles(s *summary.Stat, most int) {
	lines := p.caveatLines(s)
	if n := len(notesOf(s)); n > 0 {
		lines = append(lines, format.Plural(n, "note")+" of the recorder: profinfer stat --full"+p.fileArg())
	}
	for i, t := range lines {
		if i == most {
			p.line(fmt.Sprintf("+%d more warnings: profinfer stat --full%s", len(lines)-i, p.fileArg()), warn)
			break
		}
		p.line(t, warn)
	}
}
