// SPDX-License-Identifier: Apache-2.0

package pmu

import (
	"fmt"
	"slices"
	"strings"
)

// Question names what a set of counters is to answer.
type Question string

// The questions.
const (
	Auto     Question = "auto"     // what bounds an operator, with what can be counted at once
	Memory   Question = "memory"   // how much goes past each cache, to memory at last
	Stall    Question = "stall"    // what the CPU waits for
	Cache    Question = "cache"    // which cache holds what is read
	Branch   Question = "branch"   // branches, and those guessed wrong
	TLB      Question = "tlb"      // looking up addresses
	Software Question = "software" // the kernel's own counters: faults, switches, migrations
	Off      Question = "off"      // nothing
)

// Questions lists them in the order in which a person is told.
func Questions() []Question {
	return []Question{Auto, Memory, Stall, Cache, Branch, TLB, Software, Off}
}

// ParseQuestion reads what a person wrote.
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

// Role says what a count stands for whatever it is called on a CPU: what the analysis asks for. Two events
// with one role on two kinds of CPU need not count exactly the same: the CPU's document says.
type Role string

// The roles. Cycles and stalls are in CPU cycles, misses in cache lines (see the CPU's document for
// which accesses are meant), slots in instructions that could have been issued.
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
	StallL2Miss    Role = "stall-l2-miss"   // with a load past the second level under way
	StallL3Miss    Role = "stall-l3-miss"   // with a load past the third level under way
	MemAccess      Role = "mem-access"      // loads and stores issued
	BusAccess      Role = "bus-access"      // transfers of the CPU's port to the rest of the chip
	L1Access       Role = "l1-access"
	L1Refill       Role = "l1-refill"
	L2Refill       Role = "l2-refill"
	L2Miss         Role = "l2-miss" // of retired loads or requests; prefetching may not be in it
	L3Access       Role = "l3-access"
	L3Refill       Role = "l3-refill"
	L3Miss         Role = "l3-miss"           // of retired loads
	LLCMiss        Role = "llc-miss"          // past the last level of cache, to memory
	LLCPrefetches  Role = "llc-prefetch-miss" // the same, of the second level's prefetching alone
	MemFill        Role = "mem-fill"          // lines that came from memory
	Branches       Role = "branches"
	BranchMisses   Role = "branch-misses"
	TLBAccess      Role = "tlb-access"
	TLBRefill      Role = "tlb-refill"  // past the first level
	TLBMiss        Role = "tlb-miss"    // past the last level
	TLBWalk        Role = "tlb-walk"    // walks through the page table
	TLBCycles      Role = "tlb-cycles"  // cycles in such walks
	Slots          Role = "slots"       // top-down: all
	Retiring       Role = "retiring"    // top-down: useful
	BadSpec        Role = "bad-spec"    // top-down: thrown away
	FrontendBound  Role = "fe-bound"    // top-down: nothing arrived
	BackendBound   Role = "be-bound"    // top-down: nothing could be issued
	MemBound       Role = "mem-bound"   // top-down: of those, because of memory
	TaskClock      Role = "task-clock"  // ns
	CPUClock       Role = "cpu-clock"   // ns, of a CPU
	Faults         Role = "page-faults" // minor and major
	MinorFaults    Role = "minor-faults"
	MajorFaults    Role = "major-faults"
	Switches       Role = "context-switches"
	Migrations     Role = "cpu-migrations"
)

// softwareSet is what the kernel counts itself on every machine.
var softwareSet = []string{"task-clock", "minor-faults", "major-faults", "context-switches", "cpu-migrations"}

// genericGroups is for a CPU that no table knows: what perf's own names give, as far as the kernel
// maps them for it.
var genericGroups = map[Question]string{
	Auto:   "cycles instructions cache-misses stalled-cycles-backend stalled-cycles-frontend",
	Memory: "cycles instructions cache-references cache-misses LLC-load-misses",
	Stall:  "cycles instructions stalled-cycles-frontend stalled-cycles-backend",
	Cache:  "cycles instructions L1-dcache-loads L1-dcache-load-misses LLC-loads LLC-load-misses",
	Branch: "cycles instructions branches branch-misses",
	TLB:    "cycles instructions dTLB-loads dTLB-load-misses",
}

// groups is what a unit counts for a question: groups of names, each to be counted at the same times.
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
