/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * When a thread of a profiled process left its CPU, who ran there instead and who woke it; and while
 * such a thread can run and has no CPU, who has the CPUs that it may use.
 *
 * Events of other threads are kept on a CPU that a profiled thread was pushed from, for as long as
 * OWED_NS, and on CPUs that one may use while one waits. Who runs on a CPU is noted at every switch,
 * without a record; where one that waited gets its CPU, what no record tells yet of the others is
 * told (a look). So nothing is written while nobody waits.
 */
#define OWED_NS 200000000ULL
#define BRIEF_NS 50000ULL	/* waits that are shorter ask for nothing: a wake-up takes as long */
#define NEAR_NS 1000000000ULL	/* a CPU that was looked at is one that may be used, for as long */
#define LOOK_NS 250000ULL	/* between two looks from one CPU */
#define WINDOW_NS 64000000ULL
#define WINDOW_MOST 128		/* records of others on a CPU in a window */
#define OF_KERNEL 0x00200000	/* PF_KTHREAD */

const volatile u32 possible_cpus = 1;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, u32);
	__type(value, u16);	/* number of the process + 1 */
} targets SEC(".maps");

/* who runs on a CPU: written there, read from others */
struct seat {
	u64 since;	/* it began; 0: not known, or about to change */
	u64 owed;	/* events of others are kept until then */
	u64 near;	/* a thread that waited may use this CPU: when that was */
	u64 looked;	/* from here at others */
	u64 window;	/* its begin */
	u32 kept;	/* records in it */
	u32 told;	/* a record says who runs here */
	u32 tid, tgid;
	s32 prio;
	u32 flags;	/* the task's */
	char comm[16];
	u8 pad[32];	/* two lines of the cache */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_CPUS);
	__type(key, u32);
	__type(value, struct seat);
} seats SEC(".maps");

/* profiled threads that can run and have no CPU, since when */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, u32);
	__type(value, u64);
} waiters SEC(".maps");

/* how many these are, and since when there are any */
struct waiting {
	s64 n;
	u64 since;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct waiting);
} waiting SEC(".maps");

struct task_struct___byte {
	u8 on_cpu;
} __attribute__((preserve_access_index));

/* whether a task has a CPU: an int, a byte since Linux 7 */
static __always_inline int runs(struct task_struct *p)
{
	struct task_struct___byte *b = (void *)p;

	return bpf_core_field_size(p->on_cpu) == 1 ? b->on_cpu : p->on_cpu;
}

static __always_inline u32 state_of(struct task_struct *p)
{
	struct task_struct___old *o = (void *)p;

	if (bpf_core_field_exists(p->__state))
		return BPF_CORE_READ(p, __state);
	return BPF_CORE_READ(o, state);
}

static __always_inline struct sched_event *new_sched(void)
{
	void *ring = this_ring();
	struct sched_event *e = ring ? bpf_ringbuf_reserve(ring, sizeof(*e), 0) : 0;

	if (!e)
		count_lost(LOST_SCHED);
	return e;
}

static __always_inline int put_sched(u64 ts, u32 kind, u32 cpu, struct task_struct *prev,
				     struct task_struct *next, u32 state, u64 held)
{
	struct sched_event *e = new_sched();

	if (!e)
		return 0;
	if (prev->flags & OF_KERNEL)
		kind |= SCHED_PREV_KERNEL;
	if (next->flags & OF_KERNEL)
		kind |= SCHED_NEXT_KERNEL;
	e->ts = ts;
	e->kind = kind | cpu << 16;
	e->prev_state = state;
	e->prev_tid = prev->pid;
	e->prev_tgid = prev->tgid;
	e->prev_prio = prev->prio;
	e->next_tid = next->pid;
	e->next_tgid = next->tgid;
	e->next_prio = next->prio;
	BPF_CORE_READ_INTO(&e->prev_comm, prev, comm);
	BPF_CORE_READ_INTO(&e->next_comm, next, comm);
	e->held = held;
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	return 1;
}

static __always_inline u32 is_target(u32 tgid)
{
	u16 *t = bpf_map_lookup_elem(&targets, &tgid);

	return t ? *t : 0;
}

static __always_inline void begin_wait(struct waiting *w, u32 tid, u64 ts)
{
	if (bpf_map_update_elem(&waiters, &tid, &ts, BPF_NOEXIST))
		return;
	if (w->n <= 0)
		w->since = ts;
	__sync_fetch_and_add(&w->n, 1);
}

/* Returns since when it waited, 0 if it did not. */
static __always_inline u64 end_wait(struct waiting *w, u32 tid)
{
	u64 *since = bpf_map_lookup_elem(&waiters, &tid), was = since ? *since : 0;

	if (!since || bpf_map_delete_elem(&waiters, &tid))
		return 0;
	__sync_fetch_and_add(&w->n, -1);
	return was;
}

/*
 * Whether a CPU may have one more record of others; one that may not is counted. Who had it for as long as
 * makes no more records is told in any case.
 */
static __always_inline int allowed(struct seat *s, u64 since, u64 ts)
{
	if (since && ts - since >= WINDOW_NS / WINDOW_MOST)
		return 1;
	if (ts - s->window >= WINDOW_NS) {
		s->window = ts;
		s->kept = 0;
	}
	if (s->kept < WINDOW_MOST) {
		s->kept++;
		return 1;
	}
	count_lost(LOST_OTHERS);
	return 0;
}

struct look {
	u64 ts, word;
	const void *mask;	/* CPUs that the thread may use */
	u32 cpu, pad;
};

/* Tells who runs on a CPU, if no record does. */
static long look_at(u32 i, struct look *l)
{
	struct sched_event *e;
	struct seat *s;
	u64 since;

	if (!(i & 63))
		bpf_probe_read_kernel(&l->word, sizeof(l->word), l->mask + i / 8);
	if (i == l->cpu || !(l->word >> (i & 63) & 1))
		return 0;
	s = bpf_map_lookup_elem(&seats, &i);
	if (!s)
		return 1;
	s->near = l->ts;
	since = *(volatile u64 *)&s->since;
	if (s->told || !since || since >= l->ts || !allowed(s, since, l->ts))
		return 0;
	e = new_sched();
	if (!e)
		return 1;
	__builtin_memset(e, 0, sizeof(*e));
	e->ts = l->ts;
	e->held = l->ts - since;
	e->kind = SCHED_LOOK | i << 16;
	if (s->flags & OF_KERNEL)
		e->kind |= SCHED_PREV_KERNEL | SCHED_NEXT_KERNEL;
	e->prev_tid = e->next_tid = s->tid;
	e->prev_tgid = e->next_tgid = s->tgid;
	e->prev_prio = e->next_prio = s->prio;
	__builtin_memcpy(e->prev_comm, s->comm, sizeof(s->comm));
	__builtin_memcpy(e->next_comm, s->comm, sizeof(s->comm));
	if (*(volatile u64 *)&s->since != since) {	/* it changed meanwhile: its own switch tells */
		bpf_ringbuf_discard(e, BPF_RB_NO_WAKEUP);
		return 0;
	}
	s->told = 1;
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("tp_btf/sched_switch")
int sched_switch(u64 *ctx)
{
	int preempt = (int)ctx[0];
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	u32 zero = 0, cpu = bpf_get_smp_processor_id(), state, told;
	u32 from = is_target(prev->tgid), to = is_target(next->tgid);
	u32 prev_tid = prev->pid, next_tid = next->pid;
	struct seat *s = bpf_map_lookup_elem(&seats, &cpu);
	struct waiting *w = bpf_map_lookup_elem(&waiting, &zero);
	u64 ts, since, waited = 0;
	int keep;

	if (!s || !w)
		return 0;
	ts = bpf_ktime_get_boot_ns();
	state = preempt ? 0 : state_of(prev);
	if (from) {
		if (state)
			end_wait(w, prev_tid);	/* it was woken while it ran */
		else
			begin_wait(w, prev_tid, ts);
	}
	if (w->n > 0)
		waited = end_wait(w, next_tid);	/* also of a process that is profiled no more */
	keep = from || to;
	if (!keep && s->owed) {
		if (ts <= s->owed)
			keep = 1;
		else
			s->owed = 0;
	}
	if (!keep && w->n > 0 && ts - w->since > BRIEF_NS && ts - s->near < NEAR_NS)
		keep = allowed(s, s->since, ts);
	if (from && !state && !to)
		s->owed = ts + OWED_NS;
	else if (to)
		s->owed = 0;
	since = s->since;
	told = s->told;
	*(volatile u64 *)&s->since = 0;
	s->tid = next_tid;
	s->tgid = next->tgid;
	s->prio = next->prio;
	s->flags = next->flags;
	BPF_CORE_READ_INTO(&s->comm, next, comm);
	s->told = 0;
	*(volatile u64 *)&s->since = ts;
	if (!keep)
		return 0;
	if (to && waited && ts - waited >= BRIEF_NS && ts - s->looked >= LOOK_NS) {
		struct look l = {.ts = ts, .mask = &next->cpus_mask, .cpu = cpu};

		s->looked = ts;
		bpf_loop(possible_cpus, look_at, &l, 0);
	}
	s->told = put_sched(ts, SCHED_SWITCH, cpu, prev, next, state, told || !since ? 0 : ts - since);
	if (events && from)
		put_switch(ts, HIT_OFF, from - 1, prev_tid);
	if (events && to)
		put_switch(ts, HIT_ON, to - 1, next_tid);
	return 0;
}

static __always_inline int wakeup(struct task_struct *p)
{
	u32 zero = 0;
	struct waiting *w;
	u64 ts;

	if (!is_target(p->tgid))
		return 0;
	ts = bpf_ktime_get_boot_ns();
	w = bpf_map_lookup_elem(&waiting, &zero);
	if (w && !runs(p))
		begin_wait(w, p->pid, ts);
	put_sched(ts, SCHED_WAKEUP, bpf_get_smp_processor_id(), (void *)bpf_get_current_task_btf(), p, 0, 0);
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
