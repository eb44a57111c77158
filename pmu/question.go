// SPDX-License-Identifier: Apache-2.0

package pmu

import (
	"fmt"
	"slices"
	"strings"
)

// Question is a preset: what a set of counters is to answer.
type Question string

// The questions.
const (
	Auto     Question = "auto"     // what limits an operator, with counters that run simultaneously
	Memory   Question = "memory"   // traffic beyond each cache, finally to memory
	Stall    Question = "stall"    // what the CPU waits for
	Cache    Question = "cache"    // which cache holds the data that is read
	Branch   Question = "branch"   // branches and mispredictions
	TLB      Question = "tlb"      // address translation
	Software Question = "software" // the kernel's own counters: faults, switches, migrations
	Off      Question = "off"      // nothing
)

// Questions lists them in display order.
func Questions() []Question {
	return []Question{Auto, Memory, Stall, Cache, Branch, TLB, Software, Off}
}

// ParseQuestion parses user input.
func ParseQuestion(s string) (Question, error) {
	q := Question(strings.ToLower(strings.TrimSpace(s)))
	if slices.Contains(Questions(), q) {
		return q, nil
	}
	var all []string
	for _, q := range Questions() {
		all = append(all, string(q))
	}
	return "", fmt.Errorf("counters: there is no %q: there are %s", clip(s), strings.Join(all, ", "))
}

// Role is the meaning of a count, whatever its name on a CPU: the analysis requests roles. Two events with
// one role on two kinds of CPU need not count exactly the same: see the CPU's documentation.
type Role string

// The roles. Cycles and stalls are in CPU cycles, misses in cache lines (see the CPU's documentation for the
// accesses included), slots in instructions that could have been issued.
const (
	Cycles         Role = "cycles"
	Instructions   Role = "instructions"
	RefCycles      Role = "ref-cycles"
	StallFrontend  Role = "stall-frontend" // nothing arrives to be issued
	StallBackend   Role = "stall-backend"  // nothing can be issued
	StallAny       Role = "stall"          // nothing was issued
	StallMemory    Role = "stall-memory"   // waiting for loads, from any level
	StallStore     Role = "stall-store"
	StallInterlock Role = "stall-interlock" // waiting for a result that is being computed
	StallL2Miss    Role = "stall-l2-miss"   // with a load beyond the second level outstanding
	StallL3Miss    Role = "stall-l3-miss"   // with a load beyond the third level outstanding
	MemAccess      Role = "mem-access"      // loads and stores issued
	BusAccess      Role = "bus-access"      // transfers of the CPU's interface to the rest of the chip
	L1Access       Role = "l1-access"
	L1Refill       Role = "l1-refill"
	L2Refill       Role = "l2-refill"
	L2Miss         Role = "l2-miss" // of retired loads or requests; may exclude prefetching
	L3Access       Role = "l3-access"
	L3Refill       Role = "l3-refill"
	L3Miss         Role = "l3-miss"           // of retired loads
	LLCMiss        Role = "llc-miss"          // beyond the last level of cache, to memory
	LLCPrefetches  Role = "llc-prefetch-miss" // the same, for the second level's prefetches only
	MemFill        Role = "mem-fill"          // lines that came from memory
	Branches       Role = "branches"
	BranchMisses   Role = "branch-misses"
	TLBAccess      Role = "tlb-access"
	TLBRefill      Role = "tlb-refill"  // beyond the first level
	TLBMiss        Role = "tlb-miss"    // beyond the last level
	TLBWalk        Role = "tlb-walk"    // page table walks
	TLBCycles      Role = "tlb-cycles"  // cycles in such walks
	Slots          Role = "slots"       // top-down: all
	Retiring       Role = "retiring"    // top-down: useful
	BadSpec        Role = "bad-spec"    // top-down: discarded
	FrontendBound  Role = "fe-bound"    // top-down: nothing arrived
	BackendBound   Role = "be-bound"    // top-down: nothing could be issued
	MemBound       Role = "mem-bound"   // top-down: those due to memory
	TaskClock      Role = "task-clock"  // ns
	CPUClock       Role = "cpu-clock"   // ns, of a CPU
	Faults         Role = "page-faults" // minor and major
	MinorFaults    Role = "minor-faults"
	MajorFaults    Role = "major-faults"
	Switches       Role = "context-switches"
	Migrations     Role = "cpu-migrations"
)

// softwareSet is what the kernel itself counts on every machine.
var softwareSet = []string{"task-clock", "minor-faults", "major-faults", "context-switches", "cpu-migrations"}

// genericGroups is for a CPU in no table: perf's own names, as far as the kernel maps them for it.
var genericGroups = map[Question]string{
	Auto:   "cycles instructions cache-misses stalled-cycles-backend stalled-cycles-frontend",
	Memory: "cycles instructions cache-references cache-misses LLC-load-misses",
	Stall:  "cycles instructions stalled-cycles-frontend stalled-cycles-backend",
	Cache:  "cycles instructions L1-dcache-loads L1-dcache-load-misses LLC-loads LLC-load-misses",
	Branch: "cycles instructions branches branch-misses",
	TLB:    "cycles instructions dTLB-loads dTLB-load-misses",
}

// groups returns what a unit counts for a preset: groups of names, each counted at the same times.
func (p *PMU) groups(q Question) [][]string {
	table := genericGroups
	switch {
	case p.Kind != nil && p.Kind.groups != nil:
		table = p.Kind.groups
	case p.Arm():
		table = armGroups
	}
	var out [][]string
	for g := range strings.SplitSeq(table[q], "|") {
		if f := strings.Fields(g); len(f) > 0 {
			out = append(out, f)
		}
	}
	return out
}
