/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What is not asked for is left out here already: by the operator's number, by the phase of
 * the step under way, by thread. What was left out is counted. Without filters the verifier
 * takes this out of the programs.
 */
const volatile u32 filtering = 0;	/* enum filter_what */

/* of each process */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 64);
	__type(key, u32);
	__type(value, struct filter);
} filters SEC(".maps");

/* the phase of each process's latest step */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 64);
	__type(key, u32);
	__type(value, u32);
} phases SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, u8);
} tids SEC(".maps");

/* the thread whose begin was written last, at its number modulo the size */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << 16);
	__type(key, u32);
	__type(value, u32);
} begins SEC(".maps");

static __always_inline int kept(struct site *s, struct filter *f)
{
	u32 tid = (u32)bpf_get_current_pid_tgid(), proc = s->proc & 63, *phase;

	if ((filtering & FILTER_TIDS) && !bpf_map_lookup_elem(&tids, &tid))
		return 0;
	if (filtering & FILTER_PHASES) {
		phase = bpf_map_lookup_elem(&phases, &proc);
		/* 0: its step began before the probes stood */
		if (phase && *phase && !(*phase & f->phases))
			return 0;
	}
	return 1;
}

/* Is the operator that this thread begins wanted? Its end is then awaited. */
static __always_inline int wanted(struct site *s, u64 tensor)
{
	struct layout *l = bpf_map_lookup_elem(&layouts, &s->layout);
	u32 proc = s->proc & 63, op = 0, tid = (u32)bpf_get_current_pid_tgid(), slot = tid & 0xffff, *begin;
	struct filter *f = bpf_map_lookup_elem(&filters, &proc);
	int keep;

	if (!f || !l)
		return 1;
	keep = kept(s, f);
	if (keep && (filtering & FILTER_OPS) && l->tensor_op != ABSENT) {
		bpf_probe_read_user(&op, 4, (void *)(tensor + l->tensor_op));
		keep = (f->ops[(op >> 6) & 3] >> (op & 63)) & 1;
	}
	begin = bpf_map_lookup_elem(&begins, &slot);
	if (begin)
		*begin = keep ? tid : 0;
	if (!keep)
		count_lost(LOST_FILTERED);
	return keep;
}

/*
 * Was the begin of what this thread ends written? With filters by operator that is known from
 * the begin; else begins may not be probed at all.
 */
static __always_inline int begun(struct site *s)
{
	u32 proc = s->proc & 63, tid = (u32)bpf_get_current_pid_tgid(), slot = tid & 0xffff, *begin;
	struct filter *f;

	if (filtering & FILTER_OPS) {
		begin = bpf_map_lookup_elem(&begins, &slot);
		if (!begin || *begin != tid)
			return 0;
		*begin = 0;
		return 1;
	}
	f = bpf_map_lookup_elem(&filters, &proc);
	if (f && !kept(s, f)) {
		count_lost(LOST_FILTERED);
		return 0;
	}
	return 1;
}
