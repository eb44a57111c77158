// SPDX-License-Identifier: Apache-2.0

package pmu

import (
	"strings"

	"golang.org/x/sys/unix"
)

// generic is an event that the kernel itself knows for CPUs of any make (PERF_TYPE_HARDWARE).
type generic struct {
	id   uint64
	role Role
	arm  []string // Arm: candidate events, of which the first that the CPU has is used
}

// genericEvents has perf's names. Their meaning on Arm: armv8_pmuv3_perf_map in drivers/perf/arm_pmuv3.c, for
// branches __armv8_pmuv3_map_event_id there. On Arm they are opened under their own code, so that sysfs shows
// whether the CPU has them, and on the right one of several units.
var genericEvents = map[string]generic{
	"cycles":           {unix.PERF_COUNT_HW_CPU_CYCLES, Cycles, []string{"cpu_cycles"}},
	"instructions":     {unix.PERF_COUNT_HW_INSTRUCTIONS, Instructions, []string{"inst_retired"}},
	"cache-references": {unix.PERF_COUNT_HW_CACHE_REFERENCES, "", []string{"l1d_cache"}},
	"cache-misses":     {unix.PERF_COUNT_HW_CACHE_MISSES, "", []string{"l1d_cache_refill"}},
	"branches": {unix.PERF_COUNT_HW_BRANCH_INSTRUCTIONS, Branches,
		[]string{"br_retired", "pc_write_retired"}},
	"branch-misses": {unix.PERF_COUNT_HW_BRANCH_MISSES, BranchMisses, []string{"br_mis_pred"}},
	"bus-cycles":    {unix.PERF_COUNT_HW_BUS_CYCLES, "", []string{"bus_cycles"}},
	"stalled-cycles-frontend": {unix.PERF_COUNT_HW_STALLED_CYCLES_FRONTEND, StallFrontend,
		[]string{"stall_frontend"}},
	"stalled-cycles-backend": {unix.PERF_COUNT_HW_STALLED_CYCLES_BACKEND, StallBackend,
		[]string{"stall_backend"}},
	"ref-cycles": {unix.PERF_COUNT_HW_REF_CPU_CYCLES, RefCycles, nil},
}

// alias are perf's alternative names.
var alias = map[string]string{
	"cpu-cycles":           "cycles",
	"branch-instructions":  "branches",
	"idle-cycles-frontend": "stalled-cycles-frontend",
	"idle-cycles-backend":  "stalled-cycles-backend",
	"faults":               "page-faults",
	"cs":                   "context-switches",
	"migrations":           "cpu-migrations",
}

// softwareEvents are counted by the kernel (PERF_TYPE_SOFTWARE).
var softwareEvents = map[string]struct {
	id   uint64
	role Role
}{
	"cpu-clock":        {unix.PERF_COUNT_SW_CPU_CLOCK, CPUClock},
	"task-clock":       {unix.PERF_COUNT_SW_TASK_CLOCK, TaskClock},
	"page-faults":      {unix.PERF_COUNT_SW_PAGE_FAULTS, Faults},
	"minor-faults":     {unix.PERF_COUNT_SW_PAGE_FAULTS_MIN, MinorFaults},
	"major-faults":     {unix.PERF_COUNT_SW_PAGE_FAULTS_MAJ, MajorFaults},
	"context-switches": {unix.PERF_COUNT_SW_CONTEXT_SWITCHES, Switches},
	"cpu-migrations":   {unix.PERF_COUNT_SW_CPU_MIGRATIONS, Migrations},
	"alignment-faults": {unix.PERF_COUNT_SW_ALIGNMENT_FAULTS, ""},
	"emulation-faults": {unix.PERF_COUNT_SW_EMULATION_FAULTS, ""},
}

// The three parts of a cache event's name, as perf writes them: L1-dcache-load-misses.
var (
	caches = map[string]uint64{
		"l1-dcache": unix.PERF_COUNT_HW_CACHE_L1D, "l1-icache": unix.PERF_COUNT_HW_CACHE_L1I,
		"llc":  unix.PERF_COUNT_HW_CACHE_LL,
		"dtlb": unix.PERF_COUNT_HW_CACHE_DTLB, "itlb": unix.PERF_COUNT_HW_CACHE_ITLB,
		"branch": unix.PERF_COUNT_HW_CACHE_BPU,
		"node":   unix.PERF_COUNT_HW_CACHE_NODE,
	}
	cacheOps = map[string]uint64{
		"loads":      unix.PERF_COUNT_HW_CACHE_OP_READ | unix.PERF_COUNT_HW_CACHE_RESULT_ACCESS<<8,
		"stores":     unix.PERF_COUNT_HW_CACHE_OP_WRITE | unix.PERF_COUNT_HW_CACHE_RESULT_ACCESS<<8,
		"prefetches": unix.PERF_COUNT_HW_CACHE_OP_PREFETCH | unix.PERF_COUNT_HW_CACHE_RESULT_ACCESS<<8,

		"load-misses":     unix.PERF_COUNT_HW_CACHE_OP_READ | unix.PERF_COUNT_HW_CACHE_RESULT_MISS<<8,
		"store-misses":    unix.PERF_COUNT_HW_CACHE_OP_WRITE | unix.PERF_COUNT_HW_CACHE_RESULT_MISS<<8,
		"prefetch-misses": unix.PERF_COUNT_HW_CACHE_OP_PREFETCH | unix.PERF_COUNT_HW_CACHE_RESULT_MISS<<8,
	}
)

// armCaches maps cache events to Arm's: armv8_pmuv3_perf_cache_map in drivers/perf/arm_pmuv3.c.
var armCaches = map[string]string{
	"l1-dcache-loads": "l1d_cache", "l1-dcache-load-misses": "l1d_cache_refill",
	"l1-icache-loads": "l1i_cache", "l1-icache-load-misses": "l1i_cache_refill",
	"dtlb-loads": "l1d_tlb", "dtlb-load-misses": "l1d_tlb_refill",
	"itlb-loads": "l1i_tlb", "itlb-load-misses": "l1i_tlb_refill",
	"llc-loads": "ll_cache_rd", "llc-load-misses": "ll_cache_miss_rd",
	"branch-loads": "br_pred", "branch-load-misses": "br_mis_pred",
}

// cacheRoles are the roles of those that the presets use.
var cacheRoles = map[string]Role{
	"l1-dcache-loads": L1Access, "l1-dcache-load-misses": L1Refill, "llc-loads": L3Access,
	"llc-load-misses": LLCMiss,
	"dtlb-loads":      TLBAccess, "dtlb-load-misses": TLBRefill,
}

// cacheEvent converts a name such as L1-dcache-load-misses to the number of a PERF_TYPE_HW_CACHE event.
func cacheEvent(name string) (id uint64, ok bool) {
	name = strings.ToLower(name)
	for c, n := range caches {
		if rest, found := strings.CutPrefix(name, c+"-"); found {
			if op, found := cacheOps[rest]; found {
				return n | op<<8, true
			}
		}
	}
	return 0, false
}
