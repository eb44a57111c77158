// SPDX-License-Identifier: Apache-2.0

package pmu

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Request is what is to be counted: events by name, a preset, or both.
type Request struct {
	Events   string   // in the format of -e; "": none
	Question Question // "": none
	// Software adds the kernel's counters to any preset but Off. If the CPU counts nothing, a preset uses
	// them in any case.
	Software bool
	// OnlyUser excludes the kernel's share from what a CPU counts for the preset, as :u does. Events
	// requested by name are counted as written, as in perf. What both request but count differently has two
	// counters: cycles, and cycles:u of the preset.
	OnlyUser bool
}

// Plan is what can be counted, before anything is opened.
type Plan struct {
	Machine  *Machine
	Counters []*Counter
	Missing  []Missing
	// Notes are messages for the user that do not prevent counting.
	Notes []string
}

// NewPlan finds events for a request. The error is one in the list's syntax. What the machine lacks is in
// Missing (see Refused).
func NewPlan(m *Machine, r Request) (*Plan, error) {
	p := &Plan{Machine: m}
	if r.Question == Off {
		if r.Events != "" {
			return nil, errors.New("counters are off, and events are asked for: take one of the two")
		}
		return p, nil
	}
	var specs []Spec
	if r.Events != "" {
		var err error
		if specs, err = ParseEvents(r.Events); err != nil {
			return nil, err
		}
	}
	b := builder{Plan: p, request: r, byText: map[string]*Counter{}}
	hardware := b.specs(specs)
	b.question(&hardware)
	if len(m.PMUs) == 0 && len(hardware) > 0 {
		why, do := m.noCounters()
		b.Missing = append(b.Missing, Missing{Event: strings.Join(hardware, ", "), Why: why, Do: do,
			Asked: true})
	}
	b.columns()
	b.notes()
	return p, nil
}

// Refused is what was requested by name and no CPU has.
func (p *Plan) Refused() []Missing {
	var out []Missing
	for _, m := range p.Missing {
		if m.Asked && !slices.ContainsFunc(p.Counters, func(c *Counter) bool { return c.Name == m.Event }) {
			out = append(out, m)
		}
	}
	return out
}

type builder struct {
	*Plan
	request Request
	byText  map[string]*Counter
	groups  int
}

// specs finds the events requested by name. It returns those that need a CPU's counters if there are none.
func (b *builder) specs(specs []Spec) (hardware []string) {
	for _, s := range specs {
		if b.byText[s.Text] != nil {
			continue // requested twice
		}
		if f := software(s); f != nil {
			b.add(s, f, 0)
			b.byText[s.Text].Asked = true
			continue
		}
		b.groups = max(b.groups, s.Group)
		if len(b.Machine.PMUs) == 0 && s.PMU == "" {
			hardware = append(hardware, s.Text)
			continue
		}
		units := b.Machine.PMUs
		if s.PMU != "" {
			units = nil
			for _, p := range b.Machine.PMUs {
				if p.Name == s.PMU {
					units = []*PMU{p}
				}
			}
			if units == nil {
				why, do := b.Machine.noUnit(s.PMU)
				b.Missing = append(b.Missing, Missing{Event: s.Text, Why: why, Do: do, Asked: true})
				continue
			}
		}
		for _, p := range units {
			f, missing := p.find(s)
			if missing != nil {
				missing.Asked = true
				b.Missing = append(b.Missing, *missing)
				continue
			}
			b.add(s, f, s.Group)
			b.byText[s.Text].Asked = true
		}
	}
	return hardware
}

// question finds the events of a preset on each unit.
func (b *builder) question(hardware *[]string) {
	q := b.request.Question
	if q == "" {
		return
	}
	if q != Software {
		for _, p := range b.Machine.PMUs {
			var lacks []string
			for _, group := range p.groups(q) {
				b.groups++
				for _, name := range group {
					if !b.named(p, name) {
						lacks = append(lacks, name)
					}
				}
			}
			if len(lacks) > 0 {
				b.Missing = append(b.Missing, p.lacking(lacks))
			}
		}
	}
	none := len(b.Machine.PMUs) == 0
	if none && q != Software && len(*hardware) == 0 {
		why, do := b.Machine.noCounters()
		b.Missing = append(b.Missing, Missing{Why: why, Do: do})
		b.Notes = append(b.Notes, "what the kernel counts is taken instead: "+strings.Join(softwareSet, ", "))
	}
	if q == Software || b.request.Software || none {
		for _, name := range softwareSet {
			s := Spec{Text: name, Name: name}
			if b.byText[name] == nil {
				b.add(s, software(s), 0) // these are exact, and mostly the kernel's: OnlyUser does not apply
			}
		}
	}
}

// named adds one event of a preset on one unit; it returns false if the unit does not have it.
func (b *builder) named(p *PMU, name string) bool {
	s := Spec{Text: name, Name: name, User: b.request.OnlyUser}
	for _, text := range []string{name, name + ":u"} { // also requested by name
		c := b.byText[text]
		switch {
		case c == nil || text != name && !s.User:
		case !s.User || c.onlyUser():
			if c.on(p) {
				return true
			}
			s.Text = text
		case text == name:
			s.Text = name + ":u"
		}
	}
	f, missing := p.find(s)
	if missing != nil {
		return false
	}
	f.event.spare = b.request.Question == Auto
	b.add(s, f, b.groups)
	return true
}

// lacking describes in one sentence which part of a preset a unit lacks.
func (p *PMU) lacking(names []string) Missing {
	why := fmt.Sprintf("this CPU (%s) does not have it", p)
	if len(names) > 1 {
		why = fmt.Sprintf("this CPU (%s) does not have them", p)
	}
	switch {
	case !p.Genuine:
		why = fmt.Sprintf("the counters here are not those of a %s, which it says to be: an emulator's, or a host filters them", p)
	case p.Kind == nil:
		why += ", or the kernel does not list it"
	}
	return Missing{Event: strings.Join(names, ", "), On: p.String(), Why: why}
}

func (c *Counter) on(p *PMU) bool {
	return slices.ContainsFunc(c.Events, func(e *Event) bool { return e.PMU == p })
}

// onlyUser reports whether it is counted in user mode only, on every unit.
func (c *Counter) onlyUser() bool {
	return !slices.ContainsFunc(c.Events, func(e *Event) bool { return !e.OnlyUser })
}

func (b *builder) add(s Spec, f *found, group int) {
	e := f.event
	e.Group = group
	if !s.both() {
		e.OnlyUser, e.OnlyKernel = s.User, s.Kernel
	}
	c := b.byText[s.Text]
	if c == nil {
		c = &Counter{Name: s.Text, Role: f.role}
		b.byText[s.Text] = c
		b.Counters = append(b.Counters, c)
	}
	if c.Role != f.role {
		c.Role = "" // a different meaning on each kind of CPU
	}
	if strings.EqualFold(e.Is, s.Name) {
		e.Is = ""
	}
	c.Events = append(c.Events, &e)
}

// columns gives each counter a unique name.
func (b *builder) columns() {
	seen := map[string]bool{}
	for _, c := range b.Counters {
		name := Column(c.Name)
		if name == "" {
			name = "event"
		}
		c.Column = name
		for n := 2; seen[c.Column]; n++ {
			c.Column = fmt.Sprintf("%s_%d", name, n)
		}
		seen[c.Column] = true
	}
}

func (b *builder) notes() {
	hardware := slices.ContainsFunc(b.Counters, func(c *Counter) bool { return !c.Software() })
	if hardware && b.Machine.NMIWatchdog && !b.Machine.PMUs[0].Arm() {
		b.Notes = append(b.Notes, "the kernel's NMI watchdog holds one counter of every CPU; sysctl kernel.nmi_watchdog=0 gives it back")
	}
	for _, c := range b.Counters {
		for _, e := range c.Events {
			if e.Proof == Unproved {
				b.Notes = append(b.Notes, fmt.Sprintf("%s: nothing says that this CPU (%s) has it, and one that lacks it reads 0: a total of 0 is taken for not known", c.Name, e.on()))
			}
			if e.Is != "" {
				name, _, _ := strings.Cut(c.Name, ":") // without its modifiers
				if r := genericEvents[canonical(name)].role; r == "" {
					b.Notes = append(b.Notes, fmt.Sprintf("%s is %s on %s", c.Name, e.Is, e.on()))
				}
			}
		}
	}
}

// noCounters returns why no CPU of the machine counts, and what helps.
func (m *Machine) noCounters() (why, do string) {
	why = "this machine shows no counters of its CPUs"
	if m.Hidden {
		return "this process may not look at what the machine counts (/" + sources + ")", "run as root"
	}
	if m.Guest {
		return why + ": it is a virtual machine, and its host does not pass them on",
			"ask its provider for a type with hardware counters (a virtual PMU; bare metal has them), or record on the host"
	}
	return why + " (/" + sources +
			" lists none): a virtual machine whose host does not pass them on, or a kernel or device tree without a driver for them",
		"in a virtual machine give it a PMU; else see dmesg | grep -i -e pmu -e perf"
}

// noUnit returns why there is no unit of a name.
func (m *Machine) noUnit(name string) (why, do string) {
	if slices.Contains(m.Elsewhere, name) {
		return name + " counts for a whole socket or the machine, or is the kernel's own: what it counts cannot be charged to a thread", ""
	}
	var units []string
	for _, p := range m.PMUs {
		units = append(units, p.Name)
	}
	if len(units) == 0 {
		return m.noCounters()
	}
	return fmt.Sprintf("no unit here is called %s", clip(name)), "the units are " + join(units)
}
