// SPDX-License-Identifier: Apache-2.0

package pmu

import (
	"fmt"
	"strings"
)

// Proof is how it is known that a CPU counts an event. It matters because a code that a CPU lacks is not an
// error: it can be opened and reads 0.
type Proof uint8

const (
	// Unproved: there is no evidence. A count of 0 is meaningless.
	Unproved Proof = iota
	// ByTable: the list of this kind of CPU has it (Kind). An emulator or a host may still not count it.
	ByTable
	// ByKernel: the kernel maps one of its own names to something the CPU has.
	ByKernel
	// BySysfs: the kernel lists it for this machine; on Arm the CPU itself says so.
	BySysfs
)

func (p Proof) String() string {
	return [...]string{"unproved", "by table", "by the kernel", "by sysfs"}[p]
}

// Event is an event of one unit, ready to be opened.
type Event struct {
	PMU                      *PMU // nil: counted by the kernel, on every CPU
	Type                     uint32
	Config, Config1, Config2 uint64
	OnlyUser, OnlyKernel     bool
	Proof                    Proof
	// Is is the event's name on this unit if the counter has another name: l1d_cache_refill, if cache-misses
	// was requested.
	Is string
	// Group is the same number above 0 for events of a unit that are counted at the same times; 0: alone.
	Group int
	// spare: omitted rather than making its group take turns with another.
	spare bool
}

func (e *Event) on() string {
	if e.PMU == nil {
		return "the kernel"
	}
	return e.PMU.String()
}

// Code is what is opened, in readable form and for recordings: armv8_cortex_a76/config=0x2a/, which -e also
// accepts; for the kernel's own events their type and number.
func (e *Event) Code() string {
	if e.PMU == nil || e.Type != e.PMU.Type {
		return fmt.Sprintf("type %d, config %#x", e.Type, e.Config)
	}
	s := fmt.Sprintf("%s/config=%#x", e.PMU.Name, e.Config)
	if e.Config1 != 0 {
		s += fmt.Sprintf(",config1=%#x", e.Config1)
	}
	if e.Config2 != 0 {
		s += fmt.Sprintf(",config2=%#x", e.Config2)
	}
	s += "/"
	if e.OnlyUser {
		s += "u"
	}
	if e.OnlyKernel {
		s += "k"
	}
	return s
}

// Source is the evidence that the CPU counts this.
func (e *Event) Source() string {
	switch {
	case e.PMU == nil:
		return "the kernel"
	case e.Proof == BySysfs:
		return "/" + sources + "/" + e.PMU.Name + "/events"
	case e.Proof == ByTable:
		return "Linux 6.12.117, tools/perf/pmu-events/arch/" + e.PMU.Kind.dir
	case e.Proof == ByKernel:
		return "the kernel's map of its own names"
	}
	return "nothing"
}

// Counter is one number per span of time, whatever kind of CPU counted it: a column.
type Counter struct {
	Name   string // as requested, with its modifiers: cycles, l3d_cache_refill:u
	Column string // the name in tables
	Role   Role   // its meaning; "" if the tables do not have it
	// Events has one for each unit that counts it, or a single one of the kernel. On a CPU whose unit has
	// none there is no count.
	Events []*Event
	Asked  bool // by name, not only by a preset
}

// Software reports whether the kernel counts it, not the CPU.
func (c *Counter) Software() bool { return len(c.Events) > 0 && c.Events[0].PMU == nil }

// Doubtful returns why a total of 0 over a whole recording is not a count; "" if 0 is credible. For the
// kernel's counters 0 is a valid result. A CPU that ran an engine without ever missing a cache or waiting
// does not count such events, whatever it lists: emulated ones list stalls and read 0.
func (c *Counter) Doubtful() string {
	if c.Software() || len(c.Events) == 0 {
		return ""
	}
	for _, e := range c.Events {
		if e.Proof == Unproved {
			return "nothing says that this CPU has the event: one that it lacks reads 0"
		}
	}
	return "the CPU lists the event but seems not to count it, as an emulated or filtered one does"
}

// Missing is a counter, or a part of one, that is not available, and why.
type Missing struct {
	Event string // as requested; "" if all of a kind
	On    string // the kind of CPU where it is missing; "" on all
	Why   string
	Do    string // remedy; "" if there is none
	Asked bool   // it was requested by name
}

// Error is all of it in one line.
func (m Missing) Error() string {
	var b strings.Builder
	if m.Event != "" {
		fmt.Fprintf(&b, "%s: ", m.Event)
	}
	b.WriteString(m.Why)
	if m.Do != "" {
		fmt.Fprintf(&b, "; %s", m.Do)
	}
	return b.String()
}
