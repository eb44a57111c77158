/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * When a thread of a profiled process left its CPU, who ran there instead and who woke it.
 * Events of other threads are kept only on a CPU that a profiled thread was pushed from, and
 * only for as long as OWED_NS.
 */
#define OWED_NS 200000000ULL

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, u32);
	__type(value, u16);	/* number of the process + 1 */
} targets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} owed SEC(".maps");

static __always_inline u32 state_of(struct task_struct *p)
{
	struct task_struct___old *o = (void *)p;

	if (bpf_core_field_exists(p->__state))
		return BPF_CORE_READ(p, __state);
	return BPF_CORE_READ(o, state);
}

static __always_inline void put_sched(u64 ts, u32 kind, u32 cpu, struct task_struct *prev,
				      struct task_struct *next, u32 state)
{
	void *ring = this_ring();
	struct sched_event *e = ring ? bpf_ringbuf_reserve(ring, sizeof(*e), 0) : 0;

	if (!e) {
		count_lost(LOST_SCHED);
		return;
	}
	e->ts = ts;
	e->kind = kind | cpu << 16;
	e->prev_state = state;
	e->prev_tid = BPF_CORE_READ(prev, pid);
	e->prev_tgid = BPF_CORE_READ(prev, tgid);
	e->prev_prio = BPF_CORE_READ(prev, prio);
	e->next_tid = BPF_CORE_READ(next, pid);
	e->next_tgid = BPF_CORE_READ(next, tgid);
	e->next_prio = BPF_CORE_READ(next, prio);
	BPF_CORE_READ_INTO(&e->prev_comm, prev, comm);
	BPF_CORE_READ_INTO(&e->next_comm, next, comm);
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
}

static __always_inline u32 is_target(u32 tgid)
{
	u16 *t = bpf_map_lookup_elem(&targets, &tgid);

	return t ? *t : 0;
}

SEC("tp_btf/sched_switch")
int sched_switch(u64 *ctx)
{
	int preempt = (int)ctx[0];
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	u32 zero = 0, prev_tgid = BPF_CORE_READ(prev, tgid), next_tgid = BPF_CORE_READ(next, tgid), state;
	u64 *until = bpf_map_lookup_elem(&owed, &zero);
	u32 from = is_target(prev_tgid), to = is_target(next_tgid);
	u64 ts;

	if (!until || (!from && !to && !*until))
		return 0;
	ts = bpf_ktime_get_boot_ns();
	if (!from && !to && ts > *until) {
		*until = 0;
		return 0;
	}
	state = preempt ? 0 : state_of(prev);
	if (from && !state && !to)
		*until = ts + OWED_NS;
	else if (to)
		*until = 0;
	put_sched(ts, 1, bpf_get_smp_processor_id(), prev, next, state);
	if (events && from)
		put_switch(ts, HIT_OFF, from - 1, BPF_CORE_READ(prev, pid));
	if (events && to)
		put_switch(ts, HIT_ON, to - 1, BPF_CORE_READ(next, pid));
	return 0;
}

static __always_inline int wakeup(struct task_struct *p)
{
	u32 tgid = BPF_CORE_READ(p, tgid);

	if (!is_target(tgid))
		return 0;
	put_sched(bpf_ktime_get_boot_ns(), 2, bpf_get_smp_processor_id(),
		  (void *)bpf_get_current_task(), p, 0);
	return 0;
}

SEC("tp_btf/sched_wakeup")
int sched_wakeup(u64 *ctx)
{
	return wakeup((void *)ctx[0]);
}

SEC("tp_btf/sched_wakeup_new")
int sched_wakeup_new(u64 *ctx)
{
	return wakeup((void *)ctx[0]);
}
