// SPDX-License-Identifier: Apache-2.0

package pmu

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// roleWords says once more, by the words of events' names, what they stand for. The first that fits counts.
var roleWords = []struct {
	words string
	role  Role
}{
	{`^task-clock$`, TaskClock}, {`^cpu-clock$`, CPUClock}, {`^page-faults$`, Faults}, {`^minor-faults$`,
		MinorFaults}, {`^major-faults$`, MajorFaults},
	{`^context-switches$`, Switches}, {`^cpu-migrations$`, Migrations},
	{`^ref-cycles$`, RefCycles},
	{`^(cycles|cpu[_-]cycles)$`, Cycles}, {`^(instructions|inst_retired)$`, Instructions},
	{`^slots$`, Slots}, {`topdown-mem-bound`, MemBound}, {`topdown-be-bound|no_dispatch_per_slot.backend`,
		BackendBound},
	{`topdown-fe-bound|no_dispatch_per_slot.no_ops_from_frontend`, FrontendBound}, {`topdown-bad-spec`,
		BadSpec}, {`topdown-retiring|ex_ret_ops`, Retiring},
	{`stall.*l3_miss|stall.*dram|stall.*llc_miss`, StallL3Miss}, {`stall.*l2_miss`, StallL2Miss},
	{`stall.*(_mem_any|_ild|_ld|load)|stall_backend_mem|bound_on_loads`,
		StallMemory}, {`bound_on_stores|stall_backend_st`, StallStore},
	{`stall_backend_.*(interlock|ilock)|interlock`, StallInterlock}, {`stalls_total|^stall$`, StallAny},
	{`stall.*frontend`, StallFrontend}, {`stall.*backend`, StallBackend},
	{`br.*mis.*pred|branch.*miss`, BranchMisses}, {`^br|^branch`, Branches},
	{`walk_active`, TLBCycles}, {`walk_completed|dtlb_walk`,
		TLBWalk}, {`^ls_l1_d_tlb_miss.all_l2_miss$|l2_dtlb_misses|l2d_tlb_refill`, TLBMiss},
	{`l1d_tlb_refill|stlb_hit|ls_l1_d_tlb_miss.all$|dtlb-load-misses`, TLBRefill}, {`l1d_tlb$|dtlb-loads`,
		TLBAccess},
	{`mem_access`, MemAccess}, {`bus_access`, BusAccess},
	{`l2_pf_miss_l2_l3`, LLCPrefetches}, {`dram_io|lcl_dram|mem_io`, MemFill},
	{`l3_miss|dram_hit`, L3Miss}, {`^ll_cache_miss|longest_lat_cache.miss|llc-load-misses`, LLCMiss},
	{`l3d_cache_refill`, L3Refill}, {`l3d_cache$|longest_lat_cache.reference|llc-loads`, L3Access},
	{`l2_miss|miss_in_l2`, L2Miss}, {`l2d_cache_refill|l2_lines_in`, L2Refill},
	{`l1_miss|l1d_cache_refill|l1d.replacement|l1-dcache-load-misses`,
		L1Refill}, {`l1d_cache$|l1-dcache-loads`, L1Access},
}

func roleOf(name string) Role {
	for _, r := range roleWords {
		if regexp.MustCompile(r.words).MatchString(strings.ToLower(name)) {
			return r.role
		}
	}
	return ""
}

// The analysis asks for roles: a wrong one is a wrong verdict. Each event's role is what the words of its
// name say.
func TestRoles(t *testing.T) {
	n := 0
	check := func(where, name string, role Role) {
		t.Helper()
		if role == "" {
			return // nothing is claimed
		}
		n++
		if want := roleOf(name); role != want {
			t.Errorf("%s: %s is said to be %q, its name says %q", where, name, role, want)
		}
	}
	for name, r := range armRoles {
		check("Arm", name, r)
	}
	for name, r := range cacheRoles {
		check("cache events", name, r)
	}
	for name, g := range genericEvents {
		check("perf's names", name, g.role)
	}
	for name, e := range softwareEvents {
		check("the kernel's", name, e.role)
	}
	for _, k := range x86Kinds {
		for _, l := range k.kind.lines {
			check(k.kind.Name, l.name, l.role)
		}
	}
	// and what is found on machines: also what the kernel lists there
	for _, m := range machines(t) {
		for _, p := range machine(t, m).PMUs {
			for _, name := range sortedKeys(p.Events) {
				if f, missing := p.find(Spec{Text: name, Name: name}); missing == nil &&
					!strings.HasPrefix(name, "cache-") {
					check(m+" "+p.String(), name, f.role)
				}
			}
		}
	}
	if n < 300 {
		t.Errorf("%d events compared only", n)
	}
}

// How wide AMD's cores are stands in perf's own formula of the slots. Intel's P cores count them themselves.
func TestSlots(t *testing.T) {
	s := readSource(t, "x86.txt")
	for _, k := range x86Kinds {
		want := 0
		for _, w := range s[archs+k.kind.dir+"/pipeline.json"] {
			if w[0] == "metric" && w[1] == "total_dispatch_slots" {
				if n, err := fmt.Sscanf(w[2], "%d*ls_not_halted_cyc", &want); n != 1 || err != nil {
					t.Errorf("%s: %v", k.kind.dir, w)
				}
			}
		}
		if k.kind.Slots != want {
			t.Errorf("%s: %d slots a cycle, the list says %d", k.kind.Name, k.kind.Slots, want)
		}
		counts := strings.Contains(fmt.Sprint(k.kind.lines), "no_dispatch_per_slot")
		if counts != (want > 0) {
			t.Errorf("%s: counts slots: %v, and their number is %d", k.kind.Name, counts, want)
		}
	}
}

// The numbers of perf's own events: enum perf_sw_ids and enum perf_hw_id in include/uapi/linux/perf_event.h,
// which are an interface and never change.
func TestNumbers(t *testing.T) {
	for i, name := range []string{"cpu-clock", "task-clock", "page-faults", "context-switches",
		"cpu-migrations", "minor-faults", "major-faults", "alignment-faults", "emulation-faults"} {
		if e, ok := softwareEvents[name]; !ok || e.id != uint64(i) {
			t.Errorf("%s is %d (%v), want %d", name, e.id, ok, i)
		}
	}
	for i, name := range []string{"cycles", "instructions", "cache-references", "cache-misses", "branches",
		"branch-misses", "bus-cycles",
		"stalled-cycles-frontend", "stalled-cycles-backend", "ref-cycles"} {
		if g, ok := genericEvents[name]; !ok || g.id != uint64(i) {
			t.Errorf("%s is %d (%v), want %d", name, g.id, ok, i)
		}
	}
	for i, name := range []string{"l1-dcache", "l1-icache", "llc", "dtlb", "itlb", "branch", "node"} {
		if caches[name] != uint64(i) {
			t.Errorf("%s is %d, want %d", name, caches[name], i)
		}
	}
}
