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
	__uint(max_entries, MAX_PROCS);
	__type(key, u32);
	__type(value, struct filter);
} filters SEC(".maps");

/*
 * The phases of each process's steps under way. An operator's thread need not be the step's, so where steps
 * of several contexts run at once an operator can be of any of them, and is kept if one of them is wanted.
 */
#define MAX_OPEN 8
struct open_steps {
	u64 tid[MAX_OPEN];	/* of the thread that began the step; 0: free */
	u32 phase[MAX_OPEN];
	u32 last;	/* phase of the latest step, for what runs between steps; 0: none began yet */
	u32 more;	/* there were more at once: nothing is left out for its phase any more */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_PROCS);
	__type(key, u32);
	__type(value, struct open_steps);
} phases SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, u8);
} tids SEC(".maps");

/*
 * whether a thread's latest begin was written, at its number: as many as the kernel gives out, so no two
 * share one
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u8);
} begins SEC(".maps");

static __always_inline u8 *begin_at(u32 tid)
{
	return bpf_map_lookup_elem(&begins, &tid);
}

static __always_inline struct open_steps *steps_of(struct site *s)
{
	u32 proc = proc_of(s);

	return bpf_map_lookup_elem(&phases, &proc);
}

/* A step begins. One that its thread began before and did not end, by an exception, is over. */
static __noinline int begin_phase(struct site *s, u32 tid, u32 phase)
{
	struct open_steps *o;
	u32 i;

	if (!s)
		return 0;
	o = steps_of(s);
	if (!o)
		return 0;
	o->last = phase;
#pragma unroll
	for (i = 0; i < MAX_OPEN; i++)
		if (o->tid[i] == tid) {
			o->phase[i] = phase;
			return 0;
		}
#pragma unroll
	for (i = 0; i < MAX_OPEN; i++)
		if (!__sync_val_compare_and_swap(&o->tid[i], 0, (u64)tid)) {
			o->phase[i] = phase;
			return 0;
		}
	o->more = 1;
	return 0;
}

static __always_inline void end_phase(struct site *s, u32 tid)
{
	struct open_steps *o = steps_of(s);
	u32 i;

	if (!o)
		return;
#pragma unroll
	for (i = 0; i < MAX_OPEN; i++)
		if (o->tid[i] == tid) {
			o->phase[i] = 0;
			o->tid[i] = 0;
		}
}

/* the phases that an operator can be of; 0: its step began before the probes stood, or that is not known */
static __always_inline u32 phases_now(struct site *s)
{
	struct open_steps *o = steps_of(s);
	u32 i, open = 0;

	if (!o || o->more)
		return 0;
#pragma unroll
	for (i = 0; i < MAX_OPEN; i++)
		open |= o->phase[i];
	return open ? open : o->last;
}

static __always_inline int kept(struct site *s, struct filter *f)
{
	u32 tid = (u32)bpf_get_current_pid_tgid(), phase;

	if ((filtering & FILTER_TIDS) && !bpf_map_lookup_elem(&tids, &tid))
		return 0;
	if (filtering & FILTER_PHASES) {
		phase = phases_now(s);
		if (phase && !(phase & f->phases))
			return 0;
	}
	return 1;
}

/* Is the operator that this thread begins wanted? Its end is then awaited. */
static __always_inline int wanted(struct site *s, u64 tensor)
{
	struct layout *l = bpf_map_lookup_elem(&layouts, &s->layout);
	u32 proc = proc_of(s), op = 0;
	struct filter *f = bpf_map_lookup_elem(&filters, &proc);
	u8 *begin;
	int keep;

	if (!f || !l)
		return 1;
	keep = kept(s, f);
	if (keep && (filtering & FILTER_OPS) && l->tensor_op != ABSENT) {
		bpf_probe_read_user(&op, 4, (void *)(tensor + l->tensor_op));
		keep = (f->ops[(op >> 6) & 3] >> (op & 63)) & 1;
	}
	if (filtering & FILTER_OPS) {
		begin = begin_at((u32)bpf_get_current_pid_tgid());
		if (begin)
			*begin = keep;
	}
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
	u32 proc = proc_of(s);
	struct filter *f;
	u8 *begin;

	if (filtering & FILTER_OPS) {
		begin = begin_at((u32)bpf_get_current_pid_tgid());
		if (!begin) {
			count_lost(LOST_HITS);
			return 0;
		}
		if (!*begin)
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
