// SPDX-License-Identifier: Apache-2.0

package pmu

import "slices"

// x86's CPUs. Assignment of models: Linux 6.12.117, tools/perf/pmu-events/arch/x86/mapfile.csv. Events: the
// JSON files in the directories listed with each kind. The lines are in testdata/sources/x86.txt, and a test
// compares each. A name without a line in a table below is one of perf's own names, which the kernel maps
// (arch/x86/events/intel/core.c, amd/core.c), or one that it lists itself (slots, topdown-...).

// x86Kinds has a list of CPUs for each table.
var x86Kinds = []struct {
	vendor string
	family int
	models []int
	pmu    string // for a hybrid; "": any
	steps  [2]int // first and last stepping; 0, 0: any
	kind   *Kind
}{
	{intel, 6, []int{0x4e, 0x5e, 0x8e, 0x9e, 0xa5, 0xa6}, "", [2]int{},
		&Kind{Name: "Skylake", dir: "x86/skylake", lines: skylake, groups: skylakeGroups}},
	{intel, 6, []int{0x55}, "", [2]int{0, 4},
		&Kind{Name: "Skylake-X", dir: "x86/skylakex", lines: skylake, groups: skylakeGroups}},
	{intel, 6, []int{0x55}, "", [2]int{5, 15},
		&Kind{Name: "Cascade Lake-X", dir: "x86/cascadelakex", lines: skylake, groups: skylakeGroups}},
	{intel, 6, []int{0x7d, 0x7e}, "", [2]int{},
		&Kind{Name: "Ice Lake", dir: "x86/icelake", lines: skylake, groups: iceLakeGroups}},
	{intel, 6, []int{0x6a, 0x6c}, "", [2]int{},
		&Kind{Name: "Ice Lake-X", dir: "x86/icelakex", lines: skylake, groups: iceLakeGroups}},
	{intel, 6, []int{0x8c, 0x8d}, "", [2]int{},
		&Kind{Name: "Tiger Lake", dir: "x86/tigerlake", lines: skylake, groups: iceLakeGroups}},
	{intel, 6, []int{0xa7}, "", [2]int{},
		&Kind{Name: "Rocket Lake", dir: "x86/rocketlake", lines: skylake, groups: iceLakeGroups}},
	{intel, 6, []int{0x8f}, "", [2]int{},
		&Kind{Name: "Sapphire Rapids", dir: "x86/sapphirerapids", lines: goldenCove,
			groups: goldenCoveGroups}},
	{intel, 6, []int{0xcf}, "", [2]int{},
		&Kind{Name: "Emerald Rapids", dir: "x86/emeraldrapids", lines: goldenCove, groups: goldenCoveGroups}},
	{intel, 6, []int{0xad, 0xae}, "", [2]int{},
		&Kind{Name: "Granite Rapids", dir: "x86/graniterapids", lines: goldenCove, groups: goldenCoveGroups}},
	{intel, 6, []int{0x97, 0x9a, 0xb7, 0xba, 0xbf}, "cpu_core", [2]int{},
		&Kind{Name: "Alder Lake P", dir: "x86/alderlake", lines: goldenCove, groups: goldenCoveGroups}},
	{intel, 6, []int{0x97, 0x9a, 0xb7, 0xba, 0xbf}, "cpu_atom", [2]int{},
		&Kind{Name: "Alder Lake E", dir: "x86/alderlake", lines: gracemont, groups: gracemontGroups}},
	{intel, 6, []int{0xaa, 0xac}, "cpu_core", [2]int{},
		&Kind{Name: "Meteor Lake P", dir: "x86/meteorlake", lines: goldenCove, groups: goldenCoveGroups}},
	{intel, 6, []int{0xaa, 0xac}, "cpu_atom", [2]int{},
		&Kind{Name: "Meteor Lake E", dir: "x86/meteorlake", lines: crestmont, groups: crestmontGroups}},
	{amd, 23, span(0x00, 0x2f), "", [2]int{},
		&Kind{Name: "Zen", dir: "x86/amdzen1", lines: zen1, groups: zen1Groups}},
	{amd, 23, span(0x30, 0xff), "", [2]int{},
		&Kind{Name: "Zen 2", dir: "x86/amdzen2", lines: zen2, groups: zen2Groups}},
	{amd, 25, slices.Concat(span(0x00, 0x0f), span(0x20, 0x2f), span(0x40, 0x5f)), "", [2]int{},
		&Kind{Name: "Zen 3", dir: "x86/amdzen3", lines: zen3, groups: zen3Groups}},
	{amd, 25, slices.Concat(span(0x10, 0x1f), span(0x30, 0x3f), span(0x60, 0xff)), "", [2]int{},
		&Kind{Name: "Zen 4", dir: "x86/amdzen4", lines: zen4, groups: zen4Groups, Slots: 6}},
	{amd, 26, span(0x00, 0xff), "", [2]int{},
		&Kind{Name: "Zen 5", dir: "x86/amdzen5", lines: zen5, groups: zen4Groups, Slots: 8}},
}

const (
	intel = "GenuineIntel"
	amd   = "AuthenticAMD"
)

func x86Kind(id CPUID, pmu string) *Kind {
	for _, k := range x86Kinds {
		if k.vendor == id.Vendor && k.family == id.Family && slices.Contains(k.models, id.Model) &&
			(k.pmu == "" || k.pmu == pmu) &&
			(k.steps == [2]int{} || id.Stepping >= k.steps[0] && id.Stepping <= k.steps[1]) {
			return k.kind
		}
	}
	return nil
}

func span(first, last int) (out []int) {
	for i := first; i <= last; i++ {
		out = append(out, i)
	}
	return out
}

// skylake: Skylake, Cascade Lake, Ice Lake, Tiger Lake, Rocket Lake. Four counters per thread if two threads
// share a core (eight on the last three), and one each for cycles, instructions and reference cycles.
var skylake = []line{
	{"longest_lat_cache.miss", "event=0x2e,umask=0x41", LLCMiss},
	{"mem_load_retired.l1_miss", "event=0xd1,umask=0x8", L1Refill},
	{"mem_load_retired.l2_miss", "event=0xd1,umask=0x10", L2Miss},
	{"mem_load_retired.l3_miss", "event=0xd1,umask=0x20", L3Miss},
	{"l1d.replacement", "event=0x51,umask=0x1", L1Refill},
	{"l2_lines_in.all", "event=0xf1,umask=0x1f", L2Refill},
	{"cycle_activity.stalls_total", "event=0xa3,umask=0x4,cmask=0x4", StallAny},
	{"cycle_activity.stalls_mem_any", "event=0xa3,umask=0x14,cmask=0x14", StallMemory},
	{"cycle_activity.stalls_l2_miss", "event=0xa3,umask=0x5,cmask=0x5", StallL2Miss},
	{"cycle_activity.stalls_l3_miss", "event=0xa3,umask=0x6,cmask=0x6", StallL3Miss},
	{"dtlb_load_misses.stlb_hit", "event=0x8,umask=0x20", TLBRefill},
	{"dtlb_load_misses.walk_completed", "event=0x8,umask=0xe", TLBWalk},
	{"dtlb_load_misses.walk_active", "event=0x8,umask=0x10,cmask=0x1", TLBCycles},
}

var skylakeGroups = map[Question]string{
	Auto:   "cycles instructions cycle_activity.stalls_mem_any cycle_activity.stalls_l3_miss longest_lat_cache.miss l2_lines_in.all",
	Memory: "cycles instructions longest_lat_cache.miss mem_load_retired.l3_miss mem_load_retired.l2_miss l2_lines_in.all",
	Stall:  "cycles instructions cycle_activity.stalls_total cycle_activity.stalls_mem_any cycle_activity.stalls_l2_miss cycle_activity.stalls_l3_miss",
	Cache:  "cycles instructions l1d.replacement l2_lines_in.all cache-references longest_lat_cache.miss",
	Branch: genericGroups[Branch],
	TLB:    "cycles instructions dtlb_load_misses.stlb_hit dtlb_load_misses.walk_completed dtlb_load_misses.walk_active",
}

// topDown is what Intel's CPUs since Ice Lake count in a separate register and the kernel offers under these
// names; slots must lead its group (intel_pmu_hw_config in arch/x86/events/intel/core.c).
const topDown = "slots topdown-retiring topdown-bad-spec topdown-fe-bound topdown-be-bound"

var iceLakeGroups = map[Question]string{
	Auto:   skylakeGroups[Auto],
	Memory: skylakeGroups[Memory],
	Stall:  topDown + " | " + skylakeGroups[Stall],
	Cache:  skylakeGroups[Cache],
	Branch: skylakeGroups[Branch],
	TLB:    skylakeGroups[TLB],
}

// goldenCove: the P cores of Alder Lake, Raptor Lake and Meteor Lake; Sapphire, Emerald and Granite Rapids.
var goldenCove = []line{
	{"longest_lat_cache.miss", "event=0x2e,umask=0x41", LLCMiss},
	{"mem_load_retired.l1_miss", "event=0xd1,umask=0x8", L1Refill},
	{"mem_load_retired.l2_miss", "event=0xd1,umask=0x10", L2Miss},
	{"mem_load_retired.l3_miss", "event=0xd1,umask=0x20", L3Miss},
	{"l1d.replacement", "event=0x51,umask=0x1", L1Refill},
	{"l2_lines_in.all", "event=0x25,umask=0x1f", L2Refill},
	{"cycle_activity.stalls_total", "event=0xa3,umask=0x4,cmask=0x4", StallAny},
	{"exe_activity.bound_on_loads", "event=0xa6,umask=0x21,cmask=0x5", StallMemory},
	{"exe_activity.bound_on_stores", "event=0xa6,umask=0x40,cmask=0x2", StallStore},
	{"memory_activity.stalls_l2_miss", "event=0x47,umask=0x5,cmask=0x5", StallL2Miss},
	{"memory_activity.stalls_l3_miss", "event=0x47,umask=0x9,cmask=0x9", StallL3Miss},
	{"dtlb_load_misses.stlb_hit", "event=0x12,umask=0x20", TLBRefill},
	{"dtlb_load_misses.walk_completed", "event=0x12,umask=0xe", TLBWalk},
	{"dtlb_load_misses.walk_active", "event=0x12,umask=0x10,cmask=0x1", TLBCycles},
}

var goldenCoveGroups = map[Question]string{
	Auto:   "cycles instructions exe_activity.bound_on_loads memory_activity.stalls_l3_miss longest_lat_cache.miss l2_lines_in.all",
	Memory: skylakeGroups[Memory],
	Stall:  topDown + " topdown-mem-bound | cycles instructions cycle_activity.stalls_total exe_activity.bound_on_loads memory_activity.stalls_l2_miss memory_activity.stalls_l3_miss",
	Cache:  skylakeGroups[Cache],
	Branch: genericGroups[Branch],
	TLB:    skylakeGroups[TLB],
}

// gracemont: the E cores of Alder Lake and Raptor Lake. Six counters, all of which one preset uses.
var gracemont = []line{
	{"longest_lat_cache.reference", "event=0x2e,umask=0x4f", L3Access},
	{"longest_lat_cache.miss", "event=0x2e,umask=0x41", LLCMiss},
	{"mem_bound_stalls.load", "event=0x34,umask=0x7", StallMemory},
	{"mem_bound_stalls.load_dram_hit", "event=0x34,umask=0x4", StallL3Miss},
	{"mem_load_uops_retired.dram_hit", "event=0xd1,umask=0x80", L3Miss},
	{"dtlb_load_misses.walk_completed", "event=0x8,umask=0xe", TLBWalk},
}

var gracemontGroups = map[Question]string{
	Auto:   "cycles instructions mem_bound_stalls.load mem_bound_stalls.load_dram_hit longest_lat_cache.miss longest_lat_cache.reference",
	Memory: "cycles instructions longest_lat_cache.reference longest_lat_cache.miss mem_load_uops_retired.dram_hit mem_bound_stalls.load_dram_hit",
	Stall:  "cycles instructions topdown-be-bound topdown-fe-bound topdown-retiring topdown-bad-spec mem_bound_stalls.load mem_bound_stalls.load_dram_hit",
	Cache:  "cycles instructions longest_lat_cache.reference longest_lat_cache.miss mem_load_uops_retired.dram_hit",
	Branch: genericGroups[Branch],
	TLB:    "cycles instructions dtlb_load_misses.walk_completed",
}

// crestmont: the E cores of Meteor Lake.
var crestmont = []line{
	{"longest_lat_cache.reference", "event=0x2e,umask=0x4f", L3Access},
	{"longest_lat_cache.miss", "event=0x2e,umask=0x41", LLCMiss},
	{"mem_bound_stalls_load.all", "event=0x34,umask=0x7f", StallMemory},
	{"mem_bound_stalls_load.llc_miss", "event=0x34,umask=0x78", StallL3Miss},
	{"dtlb_load_misses.walk_completed", "event=0x8,umask=0xe", TLBWalk},
}

var crestmontGroups = map[Question]string{
	Auto:   "cycles instructions mem_bound_stalls_load.all mem_bound_stalls_load.llc_miss longest_lat_cache.miss longest_lat_cache.reference",
	Memory: "cycles instructions longest_lat_cache.reference longest_lat_cache.miss mem_bound_stalls_load.llc_miss",
	Stall:  "cycles instructions topdown-be-bound topdown-fe-bound topdown-retiring topdown-bad-spec mem_bound_stalls_load.all mem_bound_stalls_load.llc_miss",
	Cache:  "cycles instructions longest_lat_cache.reference longest_lat_cache.miss",
	Branch: genericGroups[Branch],
	TLB:    gracemontGroups[TLB],
}
