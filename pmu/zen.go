// SPDX-License-Identifier: Apache-2.0

package pmu

import "slices"

// AMD's CPUs since Zen: six counters per thread, none fixed. A thread's own counters do not show which misses
// go beyond the third level (that level counts for itself, in another unit). They show where a line that was
// filled into the first level came from: memory, another core's cache.

var zen1 = []line{
	{"l2_cache_req_stat.ic_dc_miss_in_l2", "event=0x64,umask=0x9", L2Miss},
	{"l2_pf_miss_l2_l3", "event=0x72,umask=0xff", LLCPrefetches},
	{"ls_l1_d_tlb_miss.all", "event=0x45,umask=0xff", TLBRefill},
	{"l2_dtlb_misses", "event=0x45,umask=0xf0", TLBMiss},
}

var zen1Groups = map[Question]string{
	Auto:   "cycles instructions stalled-cycles-backend stalled-cycles-frontend l2_cache_req_stat.ic_dc_miss_in_l2 l2_pf_miss_l2_l3",
	Memory: "cycles instructions l2_cache_req_stat.ic_dc_miss_in_l2 l2_pf_miss_l2_l3",
	Stall:  "cycles instructions stalled-cycles-backend stalled-cycles-frontend",
	Cache:  "cycles instructions L1-dcache-loads L1-dcache-load-misses l2_cache_req_stat.ic_dc_miss_in_l2 l2_pf_miss_l2_l3",
	Branch: genericGroups[Branch],
	TLB:    "cycles instructions ls_l1_d_tlb_miss.all l2_dtlb_misses",
}

var zen2 = slices.Concat(zen1, []line{
	{"ls_refills_from_sys.ls_mabresp_lcl_dram", "event=0x43,umask=0x8", MemFill},
})

var zen2Groups = map[Question]string{
	Auto:   "cycles instructions stalled-cycles-frontend l2_cache_req_stat.ic_dc_miss_in_l2 l2_pf_miss_l2_l3 ls_refills_from_sys.ls_mabresp_lcl_dram",
	Memory: "cycles instructions l2_cache_req_stat.ic_dc_miss_in_l2 l2_pf_miss_l2_l3 ls_refills_from_sys.ls_mabresp_lcl_dram",
	Stall:  "cycles instructions stalled-cycles-frontend",
	Cache:  zen1Groups[Cache],
	Branch: genericGroups[Branch],
	TLB:    zen1Groups[TLB],
}

var zen3 = slices.Concat(zen1, []line{
	{"ls_any_fills_from_sys.mem_io_local", "event=0x44,umask=0x8", MemFill},
	{"ls_any_fills_from_sys.mem_io_remote", "event=0x44,umask=0x40", MemFill},
})

var zen3Groups = map[Question]string{
	Auto:   "cycles instructions stalled-cycles-frontend l2_cache_req_stat.ic_dc_miss_in_l2 l2_pf_miss_l2_l3 ls_any_fills_from_sys.mem_io_local",
	Memory: "cycles instructions l2_cache_req_stat.ic_dc_miss_in_l2 l2_pf_miss_l2_l3 ls_any_fills_from_sys.mem_io_local ls_any_fills_from_sys.mem_io_remote",
	Stall:  zen2Groups[Stall],
	Cache:  zen1Groups[Cache],
	Branch: genericGroups[Branch],
	TLB:    zen1Groups[TLB],
}

var zen4 = []line{
	{"l2_cache_req_stat.ic_dc_miss_in_l2", "event=0x64,umask=0x9", L2Miss},
	{"l2_pf_miss_l2_l3.all", "event=0x72,umask=0xff", LLCPrefetches},
	{"ls_any_fills_from_sys.dram_io_all", "event=0x44,umask=0x48", MemFill},
	{"de_no_dispatch_per_slot.backend_stalls", "event=0x1a0,umask=0x1e", BackendBound},
	{"de_no_dispatch_per_slot.no_ops_from_frontend", "event=0x1a0,umask=0x1", FrontendBound},
	{"ex_ret_ops", "event=0xc1", Retiring},
	{"ls_l1_d_tlb_miss.all", "event=0x45,umask=0xff", TLBRefill},
	{"ls_l1_d_tlb_miss.all_l2_miss", "event=0x45,umask=0xf0", TLBMiss},
}

// zen5 is the same, except that its list does not sum up the second level's prefetches under this name.
var zen5 = slices.Concat(slices.DeleteFunc(slices.Clone(zen4), func(l line) bool {
	return l.name == "l2_pf_miss_l2_l3.all"
}), []line{
	{"l2_pf_miss_l2_l3.l1_dc_l2_hwpf", "event=0x72,umask=0xff", LLCPrefetches},
})

var zen4Groups = map[Question]string{
	Auto:   "cycles instructions de_no_dispatch_per_slot.backend_stalls de_no_dispatch_per_slot.no_ops_from_frontend ls_any_fills_from_sys.dram_io_all l2_cache_req_stat.ic_dc_miss_in_l2",
	Memory: "cycles instructions l2_cache_req_stat.ic_dc_miss_in_l2 ls_any_fills_from_sys.dram_io_all",
	Stall:  "cycles instructions de_no_dispatch_per_slot.backend_stalls de_no_dispatch_per_slot.no_ops_from_frontend ex_ret_ops",
	Cache:  "cycles instructions L1-dcache-loads L1-dcache-load-misses l2_cache_req_stat.ic_dc_miss_in_l2 ls_any_fills_from_sys.dram_io_all",
	Branch: genericGroups[Branch],
	TLB:    "cycles instructions ls_l1_d_tlb_miss.all ls_l1_d_tlb_miss.all_l2_miss",
}
