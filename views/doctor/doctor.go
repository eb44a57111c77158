// SPDX-License-Identifier: Apache-2.0

// Package doctor renders package doctor's report as text for a terminal, and as JSON.
package doctor

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/profinfer/profinfer/doctor"
	"github.com/profinfer/profinfer/views/terminal"
)

// Text writes the report as text: the verdict, the checks, the engine, the verdict again.
func Text(w io.Writer, r *doctor.Report, o terminal.Options) error {
	p := &page{o: o}
	p.verdict(r)
	p.blank()
	m := &r.Machine
	p.line(fmt.Sprintf("Linux %s  %s  %d CPUs  uid %d  profinfer %s", m.Kernel, m.Arch, m.CPUs, m.UID,
		r.Version))
	p.checks(r.Checks)
	if r.Target != nil {
		p.target(r.Target)
	}
	if r.VerifierLog != "" && o.Verbose {
		p.blank()
		p.head("verifier's log")
		for l := range strings.Lines(r.VerifierLog) {
			p.b.WriteString(p.o.Clean(strings.TrimRight(l, "\n")) + "\n")
		}
	} else if o.Verbose {
		p.blank()
		p.line("There is no verifier log: no program was refused by the verifier.")
	}
	p.blank()
	p.verdict(r)
	p.next(r)
	_, err := io.WriteString(w, p.b.String())
	return err
}

type page struct {
	o terminal.Options
	b strings.Builder
}

func (p *page) blank() { p.b.WriteByte('\n') }

// line writes text, wrapped at the terminal's width.
func (p *page) line(text string) { p.styled(text, 0, nil) }

func (p *page) styled(text string, indent int, style func(string) string) {
	for i, l := range terminal.Wrap(p.o.Clean(text), p.o.Width, indent) {
		if style == nil {
			p.b.WriteString(l + "\n")
			continue
		}
		body := strings.TrimLeft(l, " ")
		if i == 0 {
			body = l
		}
		p.b.WriteString(l[:len(l)-len(body)] + style(body) + "\n")
	}
}

func (p *page) head(s string) { p.b.WriteString(p.o.Bold(s) + "\n") }

func (p *page) verdict(r *doctor.Report) {
	v := &r.Verdict
	if !v.OK {
		p.styled(v.Text, 2, func(s string) string { return p.o.Bold(p.o.Bad(s)) })
		if v.Remedy != "" {
			p.styled("  "+v.Remedy, 2, nil)
		}
		return
	}
	p.styled(v.Text, 2, p.o.Bold)
	if n := len(v.Degraded); n > 0 {
		text := "  degraded: " + v.Degraded[0]
		if n > 1 {
			text += fmt.Sprintf("; and %d more, below", n-1)
		}
		p.styled(text, 4, p.o.Warn)
	}
}

// next suggests the next command.
func (p *page) next(r *doctor.Report) {
	if !r.Verdict.OK {
		return
	}
	switch t := r.Target; {
	case t == nil:
		p.line("next: profinfer record -- COMMAND, or profinfer doctor -p PID for an engine that runs")
	case t.PID != 0:
		p.line(fmt.Sprintf("next: profinfer record -p %d", t.PID))
	}
}

const (
	stateWidth = 10
	nameWidth  = 20
	narrow     = 72 // below this width, the finding gets a line of its own
)

func (p *page) checks(checks []doctor.Check) {
	for i := range checks {
		c := &checks[i]
		state, style := string(c.State), func(s string) string { return s }
		switch c.State {
		case doctor.Degraded:
			style = p.o.Warn
		case doctor.Missing:
			style = p.o.Bad
		case doctor.Note:
			state, style = "-", p.o.Dim
		}
		text := []string{c.Found}
		if c.Means != "" {
			text = append(text, c.Means)
		}
		if c.Remedy != "" {
			text = append(text, "remedy: "+c.Remedy)
		}
		p.b.WriteString(style(pad(state, stateWidth)))
		p.hang(pad(c.Name, nameWidth), stateWidth, text, c.State == doctor.Note)
	}
}

// hang writes a name and texts beside it, each text on its own lines.
func (p *page) hang(name string, before int, texts []string, dim bool) {
	at := before + terminal.Columns(name)
	if p.o.Width > 0 && p.o.Width < narrow {
		p.b.WriteString(strings.TrimRight(name, " ") + "\n")
		at = 4
		name = ""
	}
	width := 0
	if p.o.Width > 0 {
		width = max(p.o.Width-at, 20)
	}
	if name != "" {
		p.b.WriteString(name)
	}
	for i, t := range texts {
		for k, l := range terminal.Wrap(p.o.Clean(t), width, 0) {
			if i+k > 0 || name == "" {
				p.b.WriteString(strings.Repeat(" ", at))
			}
			if dim {
				l = p.o.Dim(l)
			}
			p.b.WriteString(l + "\n")
		}
	}
}

func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(1, width-terminal.Columns(s)))
}

func (p *page) target(t *doctor.Target) {
	p.blank()
	p.head(p.o.Clean(t.Name()))
	if len(t.Command) > 0 {
		p.styled(strings.Join(t.Command, " "), 2, p.o.Dim)
	}
	if t.Engine == "" {
		p.none(t)
		return
	}
	text := "ggml " + version(t.GGMLVersion)
	if t.Engine != "ggml" {
		text = t.Engine + " " + version(t.EngineVersion) + ", " + text
	}
	if t.GGMLCommit != "" {
		text += " (" + t.GGMLCommit + ")"
	}
	p.line(text + ", " + t.Arch)
	p.parts(t.Parts)
	p.sites(t)
	p.findings(t)
	for _, w := range t.Warnings {
		p.hang(p.o.Warn("warning")+"  ", 0, []string{w}, false)
	}
	for _, n := range t.Notes {
		p.styled(n, 2, p.o.Dim)
	}
}

func version(s string) string {
	if s == "" {
		return "of unknown version"
	}
	return s
}

func (p *page) none(t *doctor.Target) {
	p.line(t.Problem)
	if len(t.Signs) > 0 {
		p.styled("looked for the functions "+strings.Join(t.Signs, ", "), 2, nil)
	}
	if len(t.Looked) > 0 {
		p.line("looked in")
		for _, f := range t.Looked {
			p.b.WriteString("  " + p.o.Clean(f) + "\n")
		}
	}
	if t.Remedy != "" {
		p.styled("remedy: "+t.Remedy, 2, nil)
	}
}

func (p *page) parts(parts []doctor.Part) {
	g := grid{head: []string{"role", "build id", "file"}}
	for _, f := range parts {
		g.rows = append(g.rows, []string{f.Role, f.BuildID[:min(12, len(f.BuildID))], p.o.Clean(f.Path)})
	}
	p.grid(&g)
}

func (p *page) sites(t *doctor.Target) {
	g := grid{head: []string{"probe site", "offset", "instruction", "cost", "role", "yields"}, blocks: true}
	file := ""
	for i := range t.Sites {
		s := &t.Sites[i]
		if s.File != file && len(t.Parts) > 1 {
			file = s.File
			g.rows = append(g.rows, []string{p.o.Clean(filepath.Base(file)) + ":"})
		}
		cost := s.Class
		if s.Here != "" {
			cost = s.Here
		}
		role := s.Role
		if s.Return {
			role += " (return)"
		}
		g.rows = append(g.rows, []string{p.o.Clean(s.Where), fmt.Sprintf("%#x", s.Offset), p.o.Clean(s.Insn),
			cost, role, p.o.Clean(s.Yields)})
	}
	p.grid(&g)
}

func (p *page) findings(t *doctor.Target) {
	g := grid{head: []string{"layout", "value", "how it was found"}}
	for _, f := range t.Findings {
		how := f.How
		if f.Differ != "" {
			how += "; DIFFERS: " + f.Differ
		}
		g.rows = append(g.rows, []string{p.o.Clean(f.What), p.o.Clean(f.Value), p.o.Clean(how)})
	}
	p.grid(&g)
}
