// SPDX-License-Identifier: Apache-2.0

package pmu

// Arm's CPUs. Names and parts: Linux 6.12.117, arch/arm64/include/asm/cputype.h. Assignment of lists:
// tools/perf/pmu-events/arch/arm64/mapfile.csv. Codes: the files below the directory that dir names there.
// The lines are in testdata/sources/arm64.txt, and a test compares each.

// armGroups is for CPUs that count stalls but not their causes: up to Cortex-A77 and Neoverse-N1, and those
// in no table. What a CPU lacks according to its list in sysfs is left out. According to their manuals all of
// these count seven events at once: six counters and one for cycles.
var armGroups = map[Question]string{
	Auto:   "cycles instructions stall_backend stall_frontend l2d_cache_refill ll_cache_miss_rd bus_access",
	Memory: "cycles instructions mem_access bus_access l2d_cache_refill l3d_cache_refill ll_cache_miss_rd",
	Stall:  "cycles instructions stall_frontend stall_backend",
	Cache:  "cycles instructions l1d_cache l1d_cache_refill l2d_cache_refill l3d_cache l3d_cache_refill",
	Branch: "cycles instructions br_retired br_mis_pred_retired",
	TLB:    "cycles instructions l1d_tlb l1d_tlb_refill l2d_tlb_refill dtlb_walk",
}

// armStallMem is for CPUs that also count which stalls are due to memory: Cortex-A78, A710, X1, X2, Neoverse
// V1, N2, V2 and later ones.
var armStallMem = map[Question]string{
	Auto:   "cycles instructions stall_backend stall_backend_mem stall_frontend l2d_cache_refill ll_cache_miss_rd",
	Memory: "cycles instructions mem_access bus_access l2d_cache_refill ll_cache_miss_rd stall_backend_mem",
	Stall:  "cycles instructions stall stall_frontend stall_backend stall_backend_mem",
	Cache:  armGroups[Cache],
	Branch: armGroups[Branch],
	TLB:    armGroups[TLB],
}

// armInOrder is for Cortex-A55 and A510, which count what an in-order instruction waits for: loads, stores.
var armInOrder = map[Question]string{
	Auto:   "cycles instructions stall_backend stall_backend_ld stall_frontend l2d_cache_refill ll_cache_miss_rd",
	Memory: armGroups[Memory],
	Stall:  "cycles instructions stall_frontend stall_backend stall_backend_ld stall_backend_st stall_backend_ilock",
	Cache:  armGroups[Cache],
	Branch: armGroups[Branch],
	TLB:    armGroups[TLB],
}

// armInOrderEvents are those of its events that Arm's architecture does not name.
var armInOrderEvents = map[string]uint16{
	"stall_backend_ilock": 0xe4,
	"stall_backend_ld":    0xe7,
	"stall_backend_st":    0xe8,
}

// armRoles are the roles of the groups' events.
var armRoles = map[string]Role{
	"cpu_cycles":          Cycles,
	"inst_retired":        Instructions,
	"stall":               StallAny,
	"stall_frontend":      StallFrontend,
	"stall_backend":       StallBackend,
	"stall_backend_mem":   StallMemory,
	"stall_backend_ld":    StallMemory,
	"stall_backend_st":    StallStore,
	"stall_backend_ilock": StallInterlock,
	"mem_access":          MemAccess,
	"bus_access":          BusAccess,
	"l1d_cache":           L1Access,
	"l1d_cache_refill":    L1Refill,
	"l2d_cache_refill":    L2Refill,
	"l3d_cache":           L3Access,
	"l3d_cache_refill":    L3Refill,
	"ll_cache_miss_rd":    LLCMiss,
	"br_retired":          Branches,
	"br_mis_pred_retired": BranchMisses,
	"br_mis_pred":         BranchMisses,
	"l1d_tlb":             TLBAccess,
	"l1d_tlb_refill":      TLBRefill,
	"l2d_tlb_refill":      TLBMiss,
	"dtlb_walk":           TLBWalk,
}

// The codes in each list, as ranges of hexadecimal numbers.
var (
	codesA510   = ranges("1-e 10-1d 20-26 2b 2d 2f 34-45 50-53 60-61 66-67 70-7a 86-87 a0 a2 c1-c5 c7-d1 d4-d6 e1-ee 4005-4006 4009 400b-4013 4018-401b 4020-4022 4024-4026 8002 8006 8014 8018 801c 80e3 80e7 80eb 80ef")
	codesA53    = ranges("60-61 7a 86-87 c0-cc d0-d2 e0-e8")
	codesA55    = ranges("0-1d 20-26 29-2b 2d 2f 34-38 40-45 50-53 60-61 66-67 70-7a 86-87 a0 a2 c0-c7 c9-d6 e1-ec")
	codesA57A72 = ranges("0-5 8-b 10-1d 40-43 46-48 4c-4d 50-53 56-58 60-6a 6c-6e 70-7a 7c-7e 81-84 86-88 8a-91")
	codesA710   = ranges("0-5 8-b 10-1d 20-26 29-2b 2d 2f 31 34-37 39-48 4c-53 56-58 5c-61 66-6a 6c-71 73-7a 7c-7e 81-84 86-88 8a-91 a0 4004-4006 4009 400b-400c 4010-4013 4018-401b 4020-4022 4024-4026 8005-8006 8014 8018 801c 8074-8077 8079 80bc-80bd 80c0-80c1 80e3 80e7 80eb 80ef")
	codesA73    = ranges("0-5 8-e 10-19 1b-1d 40-41 50-51 56-58 62-67 6a 6c 6e 70-75 77 7a 7c-7e 8a c0-c4 d3 d8-da dc de-ec")
	codesA75    = ranges("0-5 8-e 10-19 1b-1d 1f-21 23-26 29-2b 2d 2f-30 34-38 40-41 46-48 50-51 56-58 60-61 66-67 6a 6c-75 77 7a 7c-7e 81 8a a0 a2 c0-c4 d3 d8-da dc de-ec")
	codesA76    = ranges("0-5 8-b 10-1d 20-26 29-2b 2d 2f 31 34-37 40-48 4c-53 56-58 5c-61 66-6a 6c-7a 7c-7e 81-84 86-88 8a-91 a0")
	codesA77    = ranges("0-5 8-b 10-1d 20-26 29-2b 2d 2f 31 34-37 40-48 4c-53 56-58 5c-61 66-6a 6c-7a 7c-7e 81-84 86-88 8a-91 a0")
	codesA78    = ranges("0-5 8-b 10-1d 20-26 29-2b 2d 2f 31 34-37 39-48 4c-53 56-58 5c-61 66-6a 6c-71 73-7a 7c-7e 81-84 86-88 8a-91 a0 4004-4006 4009 400b")
	codesX1     = ranges("0-5 8-b 10-1d 20-26 29-2b 2d 2f 31 34-37 39-48 4c-53 56-58 5c-61 66-6a 6c-71 73-7a 7c-7e 81-84 86-88 8a-91 a0 4004-4006 4009 400b")
	codesX2     = ranges("0-5 8-b 10-1d 20-26 29-2b 2d 2f 31 34-37 39-48 4c-53 56-58 5c-61 66-6a 6c-71 73-7a 7c-7e 81-84 86-88 8a-91 a0 4004-4006 4009 400b-400c 4010-4013 4018-401b 4020-4022 4024-4026 8005-8006 8014 8018 801c 8074-8077 8079 80bc-80bd 80c0-80c1 80e3 80e7 80eb 80ef")
	codesN1     = ranges("0-5 8-b 10-1d 20-26 29-2b 2d 2f 31 34-37 40-48 4c-53 56-58 5c-61 66-6a 6c-71 73-7a 7c-7e 81-84 86-88 8a-91 a0 4000-4003")
	codesN2V2   = ranges("0-5 8-b 10-1d 20-26 29-2b 2d 2f 31 34-37 39-48 4c-53 56-58 5c-61 66-6a 6c-71 73-7a 7c-7e 81-84 86-88 8a-91 a0 4000-4006 4009 400b-400c 4010-4013 4018-401b 4020-4022 4024-4026 8005-8006 8014 8018 801c 8074-8077 8079 80bc-80bd 80c0-80c1 80e3 80e7 80eb 80ef")
	codesV1     = ranges("0-5 8-b 10-1d 20-26 29-2b 2d 2f 31 34-37 39-48 4c-53 56-58 5c-61 66-6a 6c-71 73-7a 7c-7e 81-84 86-88 8a-91 a0 4000-4006 4009 400b 8005-8006 8074-8077 80bc-80bd 80c0-80c1")
)

var armKinds = []Kind{
	{Name: "Cortex-A53", part: 0xd03, dir: "arm64/arm/cortex-a53", codes: codesA53, groups: armGroups},
	{Name: "Cortex-A55", part: 0xd05, dir: "arm64/arm/cortex-a55", codes: codesA55, groups: armInOrder,
		extra: armInOrderEvents},
	{Name: "Cortex-A57", part: 0xd07, dir: "arm64/arm/cortex-a57-a72", codes: codesA57A72, groups: armGroups},
	{Name: "Cortex-A72", part: 0xd08, dir: "arm64/arm/cortex-a57-a72", codes: codesA57A72, groups: armGroups},
	{Name: "Cortex-A73", part: 0xd09, dir: "arm64/arm/cortex-a73", codes: codesA73, groups: armGroups},
	{Name: "Cortex-A75", part: 0xd0a, dir: "arm64/arm/cortex-a75", codes: codesA75, groups: armGroups},
	{Name: "Cortex-A76", part: 0xd0b, dir: "arm64/arm/cortex-a76", codes: codesA76, groups: armGroups},
	{Name: "Cortex-A76AE", part: 0xd0e, groups: armGroups},
	{Name: "Neoverse-N1", part: 0xd0c, dir: "arm64/arm/neoverse-n1", codes: codesN1, groups: armGroups},
	{Name: "Cortex-A77", part: 0xd0d, dir: "arm64/arm/cortex-a77", codes: codesA77, groups: armGroups},
	{Name: "Cortex-A78", part: 0xd41, dir: "arm64/arm/cortex-a78", codes: codesA78, groups: armStallMem},
	{Name: "Cortex-A78AE", part: 0xd42, groups: armStallMem},
	{Name: "Cortex-A78C", part: 0xd4b, dir: "arm64/arm/cortex-a78", codes: codesA78, groups: armStallMem},
	{Name: "Cortex-X1", part: 0xd44, dir: "arm64/arm/cortex-x1", codes: codesX1, groups: armStallMem},
	{Name: "Cortex-X1C", part: 0xd4c, dir: "arm64/arm/cortex-x1", codes: codesX1, groups: armStallMem},
	{Name: "Cortex-X2", part: 0xd48, dir: "arm64/arm/cortex-x2", codes: codesX2, groups: armStallMem},
	{Name: "Cortex-A510", part: 0xd46, dir: "arm64/arm/cortex-a510", codes: codesA510, groups: armInOrder,
		extra: armInOrderEvents},
	{Name: "Cortex-A710", part: 0xd47, dir: "arm64/arm/cortex-a710", codes: codesA710, groups: armStallMem},
	{Name: "Neoverse-V1", part: 0xd40, dir: "arm64/arm/neoverse-v1", codes: codesV1, groups: armStallMem},
	{Name: "Neoverse-N2", part: 0xd49, dir: "arm64/arm/neoverse-n2-v2", codes: codesN2V2,
		groups: armStallMem},
	{Name: "Neoverse-V2", part: 0xd4f, dir: "arm64/arm/neoverse-n2-v2", codes: codesN2V2,
		groups: armStallMem},
	{Name: "Cortex-A520", part: 0xd80, groups: armStallMem},
	{Name: "Cortex-A715", part: 0xd4d, groups: armStallMem},
	{Name: "Cortex-A720", part: 0xd81, groups: armStallMem},
	{Name: "Cortex-A725", part: 0xd87, groups: armStallMem},
	{Name: "Cortex-X3", part: 0xd4e, groups: armStallMem},
	{Name: "Cortex-X4", part: 0xd82, groups: armStallMem},
	{Name: "Cortex-X925", part: 0xd85, groups: armStallMem},
	{Name: "Neoverse-N3", part: 0xd8e, groups: armStallMem},
	{Name: "Neoverse-V3", part: 0xd84, groups: armStallMem},
}
