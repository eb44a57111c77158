// SPDX-License-Identifier: Apache-2.0

package pmu

import (
	"fmt"
	"strings"
)

// Proof says how it is known that a CPU counts an event. It matters because a code that a CPU does not
// have is no error: it opens and reads 0.
type Proof uint8

const (
	// Unproved: nothing says so. A count of 0 says nothing.
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
	// Is what the event is on this unit where its counter has another name: l1d_cache_refill, where
	// cache-misses was asked for.
	Is string
	// Group is the same, above 0, for events of a unit that are to be counted at the same times; 0: alone.
	Group int
	// spare: left out rather than let its group take turns with another.
	spare bool
}

func (e *Event) on() string {
	if e.PMU == nil {
		return "the kernel"
	}
	return e.PMU.String()
}

// Code says for a person, or for a recording, what is opened: armv8_cortex_a76/config=0x2a/, which -e takes
// too; the kernel's own events by their type and number.
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

// Source says where it stands that the CPU counts this.
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

// Counter is one number per span of time, whatever kind of CPU it was counted on: a column.
type Counter struct {
	Name   string // as it was asked for, with its modifiers: cycles, l3d_cache_refill:u
	Column string // the same as a name in a table
	Role   Role   // what it stands for; "" if the tables do not say
	// Events has one for each unit that counts it, or a single one of the kernel. On a CPU whose unit has
	// none there is no count.
	Events []*Event
	Asked  bool // for by name, not by a question alone
}

// Software says that the kernel counts it, not the CPU.
func (c *Counter) Software() bool { return len(c.Events) > 0 && c.Events[0].PMU == nil }

// Doubtful says why a total of 0 over a whole recording is no count; "" where 0 is to be believed. Of what
// the kernel counts, 0 is an answer. A CPU that ran an engine and neither missed a cache nor waited once does
// not count such events, whatever it lists: emulated ones list stalls and read 0.
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

// Missing is a counter, or a part of one, that cannot be had, and why.
type Missing struct {
	Event string // as asked for; "" if all of a kind
	On    string // the kind of CPU where it is missing; "" on all
	Why   string
	Do    string // what a person can do; "" if nothing
	Asked bool   // it was asked for by name
}

// Error is the whole in one line.
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
