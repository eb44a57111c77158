// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"fmt"
	"strings"

	"github.com/profinfer/profinfer/internal/format"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/memory"
	"github.com/profinfer/profinfer/profile/summary"
)

const (
	maxFaultRows  = 8 // of names, without -v
	maxFaultFiles = 4
)

// className describes what pages of a class are used for.
func className(c profile.MemoryClass) string {
	switch c {
	case profile.MemExpert:
		return "experts"
	case profile.MemWeight:
		return "other weights"
	case profile.MemCache:
		return "KV cache"
	case profile.MemCompute:
		return "compute buffer"
	case profile.MemFile:
		return "files, in no tensor"
	case profile.MemProgram:
		return "program, libraries"
	case profile.MemStack:
		return "stack"
	}
	return "elsewhere"
}

// faults draws page faults: how many, what they hit, which phases waited for them, how much is in memory.
func (p *page) faults(s *summary.Stat) {
	f := s.Faults
	if f == nil {
		return
	}
	p.blank()
	p.line(p.faultLine(f), bold)
	if f.Own != nil && f.Before != nil && f.Major != nil && *f.Own != *f.Before+*f.Major {
		p.line(fmt.Sprintf("/proc says %s major faults of the whole process; %s of them were before the recording.", format.Count(*f.Own), format.Count(*f.Before)), dim)
	}
	p.faultClasses(f)
	p.faultPhases(f)
	p.faultNames(f)
	p.faultSteps(f)
	p.files(f)
}

func (p *page) faultLine(f *memory.Stat) string {
	var b strings.Builder
	if f.Major != nil {
		fmt.Fprintf(&b, "page faults: %s major", format.Count(*f.Major))
	} else {
		fmt.Fprintf(&b, "page faults: %s major seen", format.Count(f.Seen))
	}
	if f.Minor != nil {
		fmt.Fprintf(&b, ", %s minor", format.Count(*f.Minor))
	}
	switch {
	case len(f.Classes) == 0: // nothing took any time
	case f.Wait != nil:
		fmt.Fprintf(&b, "; %s of thread time in the faults below", p.o.duration(float64(*f.Wait)))
	default:
		b.WriteString("; this kernel does not tell how long they took")
	}
	if f.Read != nil {
		fmt.Fprintf(&b, "; %s read from disk", format.Bytes(*f.Read))
		if *f.Read > f.ReadFaults {
			fmt.Fprintf(&b, ", of which page faults read %s", format.Bytes(f.ReadFaults))
		}
	} else if f.ReadFaults > 0 {
		fmt.Fprintf(&b, "; faults read %s from disk", format.Bytes(f.ReadFaults))
	}
	if f.NoAddress != nil && *f.NoAddress > 0 {
		fmt.Fprintf(&b, "; %s major faults of system calls have no address",
			format.Count(*f.NoAddress))
	}
	return b.String()
}

func (p *page) faultClasses(f *memory.Stat) {
	if len(f.Classes) == 0 {
		return
	}
	t := &table{}
	p.sums(t, "page faults, by memory", f.Classes, func(c *memory.FaultSum) string {
		return className(c.Class)
	}, f.Which)
	p.blank()
	p.table(t)
}

// sums adds columns of sums to a table.
func (p *page) sums(t *table, title string, rows []memory.FaultSum, name func(*memory.FaultSum) string,
	which string) {
	first := t.col(column{title: title, left: true, keep: 100, min: 32})
	major := t.col(column{title: "major", keep: 90})
	title = "minor (slow)"
	if which == "all" {
		title = "minor"
	}
	minor := t.col(column{title: title, keep: 60})
	wait := t.col(column{title: "thread time", keep: 95})
	read := t.col(column{title: "read", keep: 80})
	for i := range rows {
		r := &rows[i]
		first.add(name(r))
		major.add(format.Count(r.Major))
		minor.add(format.Count(r.Minor))
		wait.add(p.o.durationOf(float(r.Wait)))
		read.add(bytesOrNone(r.Read))
	}
}

func float(v *int64) *float64 {
	if v == nil {
		return nil
	}
	x := float64(*v)
	return &x
}

func bytesOrNone(n int64) string {
	if n == 0 {
		return "-"
	}
	return format.Bytes(n)
}

func (p *page) faultPhases(f *memory.Stat) {
	if len(f.Classes) == 0 {
		return
	}
	t := &table{}
	name := t.col(column{title: "page faults in", left: true, keep: 100, min: 10})
	steps := t.col(column{title: "steps", keep: 50})
	with := t.col(column{title: "with major", keep: 50})
	major := t.col(column{title: "major", keep: 80})
	wait := t.col(column{title: "thread time", keep: 60})
	wall := t.col(column{title: "a thread in one", keep: 70})
	part := t.col(column{title: "of the steps", keep: 95})
	read := t.col(column{title: "read", keep: 90})
	for i := range f.Phases {
		r := &f.Phases[i]
		if !r.InStep {
			name.add("no step")
			steps.add("")
			with.add("")
		} else {
			title := r.Phase
			if title == "" {
				title = "steps of no known phase"
			}
			name.add(title)
			steps.add(format.Count(r.Steps))
			with.add(format.Count(r.Faulted))
		}
		major.add(format.Count(r.Major))
		wait.add(p.o.durationOf(float(r.Wait)))
		wall.add(p.o.durationOf(float(r.Wall)))
		part.add(format.Percent1(r.Share))
		read.add(bytesOrNone(r.Read))
	}
	p.blank()
	p.table(t)
}

func (p *page) faultNames(f *memory.Stat) {
	rows := f.Names
	if !p.o.Verbose {
		rows = rows[:min(len(rows), maxFaultRows)]
	}
	if len(rows) == 0 {
		return
	}
	t := &table{}
	p.sums(t, "page faults, by tensor", rows, func(r *memory.FaultSum) string {
		n := p.o.clean(r.Name)
		if n == "" {
			n = "(" + className(r.Class) + ")"
		}
		if r.Type != "" {
			n += " " + p.o.clean(r.Type)
		}
		return n
	}, f.Which)
	p.blank()
	p.table(t)
	if n := len(f.Names) - len(rows); n > 0 {
		p.line(fmt.Sprintf("and %d more (-v)", n), dim)
	}
}

func (p *page) faultSteps(f *memory.Stat) {
	if len(f.Steps) == 0 {
		return
	}
	var parts []string
	for i := range f.Steps[:min(len(f.Steps), 4)] {
		s := &f.Steps[i]
		text := fmt.Sprintf("step %d (%s)", s.Step, s.Phase)
		if s.Wall != nil {
			text += fmt.Sprintf(" %s of %s", p.o.duration(float64(*s.Wall)), p.o.duration(float64(s.Dur)))
		}
		parts = append(parts, text+", "+bytesOrNone(s.Read)+" read")
	}
	p.line("Most in faults: "+strings.Join(parts, "; ")+".", plain)
}

// files describes how much of the model is in memory.
func (p *page) files(f *memory.Stat) {
	told := 0
	for i := range f.Files {
		m := &f.Files[i]
		if !m.Mapped && !strings.HasSuffix(m.Path, ".gguf") && !p.o.Verbose {
			continue // not a file of the model
		}
		if told++; told > maxFaultFiles && !p.o.Verbose {
			p.line("and more files (-v)", dim)
			return
		}
		if told == 1 {
			p.blank()
		}
		p.line(p.file(m), plain)
	}
}

func (p *page) file(m *memory.FileMemory) string {
	text := fmt.Sprintf("%s (%s)", p.o.clean(m.Path), format.Bytes(m.Bytes))
	if m.Failed != "" {
		return text + ": residency not known: " + p.o.clean(m.Failed)
	}
	text += " resident: " + part(m.InStart, m.Bytes) + " at the start, " + part(m.InEnd, m.Bytes) +
		" at the end"
	var parts []string
	for i := range m.Classes {
		c := &m.Classes[i]
		parts = append(parts, fmt.Sprintf("%s %s of %s", className(c.Class), part(c.InEnd, c.Bytes),
			format.Bytes(c.Bytes)))
	}
	switch {
	case !m.Graphs:
	case !m.Mapped:
		return text + ". No tensor is computed with where it is mapped: its weights were copied when it was loaded."
	case len(parts) > 0:
		text += " (" + strings.Join(parts, ", ") + ")"
	}
	return text + "."
}

func part(in *int64, of int64) string {
	if in == nil || of <= 0 {
		return "not known"
	}
	v := float64(*in) / float64(of)
	if v > 0.9995 && *in < of {
		return "99.9 %"
	}
	return fmt.Sprintf("%.0f %%", 100*v)
}
