// SPDX-License-Identifier: Apache-2.0

package pmu

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Kind is a kind of CPU in a table.
type Kind struct {
	Name string
	// dir is the directory below tools/perf/pmu-events/arch of the kernel that lists its events; "" if there
	// is none, so that a table cannot show what it lacks.
	dir    string
	part   uint16              // Arm: bits 4 to 15 of the MIDR
	codes  [][2]uint16         // Arm: codes in the list
	extra  map[string]uint16   // Arm: events of this kind that Arm's architecture does not name
	lines  []line              // x86: events with their terms
	groups map[Question]string // names; | between groups
	// Slots is how many instructions per cycle can issue, for events that count slots where the CPU does not
	// count all slots itself (Role Slots); 0: not needed or unknown.
	Slots int
}

// line is one event of an x86 table.
type line struct {
	name string // as in the list, in lower case
	code string // terms: event=0xd1,umask=0x20
	role Role
}

const armImplementer = 0x41

// kindOf finds the table of a CPU. pmu is the name of its unit, which distinguishes the two kinds of a hybrid
// and is used if the CPU's own number is unknown.
func kindOf(id CPUID, pmu string) *Kind {
	if id.MIDR != 0 {
		if id.MIDR>>24&0xff != armImplementer {
			return nil
		}
		return armPart(uint16(id.MIDR >> 4 & 0xfff))
	}
	if id.Vendor != "" {
		return x86Kind(id, pmu)
	}
	// armv8_cortex_a76
	if _, name, ok := strings.Cut(pmu, "_"); ok && strings.HasPrefix(pmu, "armv") {
		for i := range armKinds {
			if strings.ReplaceAll(strings.ToLower(armKinds[i].Name), "-", "_") == name {
				return &armKinds[i]
			}
		}
	}
	return nil
}

func armPart(part uint16) *Kind {
	for i := range armKinds {
		if armKinds[i].part == part {
			return &armKinds[i]
		}
	}
	return nil
}

// has reports whether the kind's list has an Arm event.
func (k *Kind) has(code uint64) bool {
	return slices.ContainsFunc(k.codes, func(r [2]uint16) bool {
		return code >= uint64(r[0]) && code <= uint64(r[1])
	})
}

// line finds an x86 event by name.
func (k *Kind) line(name string) *line {
	for i := range k.lines {
		if k.lines[i].name == name {
			return &k.lines[i]
		}
	}
	return nil
}

// armCovered reports whether the CPU itself shows if it has an event: the common events, in the registers
// PMCEID0_EL0 and PMCEID1_EL0, from which the kernel fills sysfs (drivers/perf/arm_pmuv3.c,
// armv8pmu_event_attr_is_visible).
func armCovered(code uint64) bool {
	return code < 0x40 || code >= 0x4000 && code < 0x4040
}

// ranges parses "0-5 8-b 400b"; it is used for constants only.
func ranges(s string) [][2]uint16 {
	var out [][2]uint16
	for f := range strings.FieldsSeq(s) {
		a, b, ok := strings.Cut(f, "-")
		if !ok {
			b = a
		}
		lo, err1 := strconv.ParseUint(a, 16, 16)
		hi, err2 := strconv.ParseUint(b, 16, 16)
		if err1 != nil || err2 != nil {
			panic(fmt.Sprintf("pmu: %q is no range of codes", f))
		}
		out = append(out, [2]uint16{uint16(lo), uint16(hi)})
	}
	return out
}
