// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The kernel side: it stamps, copies and counts, and decides nothing. It knows no engine:
 * sites and layouts are filled in by package probe.
 *
 * Operator hits go to one buffer per CPU that the reader has mapped, so that threads which
 * leave a barrier together do not queue for one lock, and a hit touches few lines of a cache
 * that the engine has filled with weights. Scheduler events go to one ring per CPU. Nobody is
 * woken; every record that found no room is counted.
 */
#include "profinfer.h"
#include "kernel.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_SITES);
	__type(key, u32);
	__type(value, struct site);
} sites SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_PROCS);
	__type(key, u32);
	__type(value, struct layout);
} layouts SEC(".maps");

struct ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, MAX_CPUS);
	__type(key, u32);
	__array(values, struct ring);
} rings SEC(".maps");

/* one struct buffer per CPU; sizes are set before loading */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, BUFFER_HEAD + 256 * sizeof(struct slot));
} buffers SEC(".maps");

const volatile u32 slot_mask = 255;
const volatile u32 slack = 64;	/* slots that programs between looking and reserving can take */

/* marks and sequences; definitions of graphs */
struct { __uint(type, BPF_MAP_TYPE_RINGBUF); __uint(max_entries, 1 << 22); } marks SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_RINGBUF); __uint(max_entries, 1 << 24); } defs SEC(".maps");

/* Another thread's program may run in between on the same CPU, so the increment is atomic. */
static __always_inline void count_lost(u32 what)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct buffer *b = bpf_map_lookup_elem(&buffers, &cpu);

	if (b)
		__sync_fetch_and_add(&b->lost[what], 1);
}

static __always_inline void *this_ring(void)
{
	u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&rings, &cpu);
}

static __always_inline struct site *site_of(void *ctx, u32 *index)
{
	struct site *s;

	*index = (u32)bpf_get_attach_cookie(ctx);
	s = bpf_map_lookup_elem(&sites, index);
	/* some kernels' PID filter lets other processes pass */
	if (!s || s->tgid != (u32)(bpf_get_current_pid_tgid() >> 32))
		return 0;
	return s;
}

/*
 * Reserves n slots in this CPU's buffer. Programs can be preempted: others of this CPU may
 * reserve in between, hence the atomic addition and the slack.
 */
static __always_inline struct buffer *reserve(u32 n, u32 *first)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct buffer *b = bpf_map_lookup_elem(&buffers, &cpu);

	if (!b)
		return 0;
	if (b->head - *(volatile u64 *)&b->tail > slot_mask - slack) {
		count_lost(LOST_HITS);
		return 0;
	}
	*first = (u32)__sync_fetch_and_add(&b->head, n);
	return b;
}

static __always_inline struct slot *slot_at(struct buffer *b, u32 i)
{
	return (void *)b + BUFFER_HEAD + (u64)(i & slot_mask) * sizeof(struct slot);
}

/* ts last: it tells the reader that the record is whole */
static __always_inline void commit(struct slot *s, u64 ts)
{
#if defined(__TARGET_ARCH_arm64)
	__sync_lock_test_and_set(&s->ts, ts);
#else
	asm volatile("" ::: "memory");
	*(volatile u64 *)&s->ts = ts;
#endif
}

#include "counters.h"

static __always_inline void put_end(u64 ts, u32 meta, int counted)
{
	u32 i;
	struct buffer *b = reserve(1 + (counted ? SAMPLE_SLOTS : 0), &i);
	struct slot *s;

	if (!b)
		return;
	if (counted)
		put_sample(b, i + 1);
	s = slot_at(b, i);
	s->tid = (u32)bpf_get_current_pid_tgid();
	s->meta = meta;
	commit(s, ts);
}

static __always_inline void put_begin(u64 ts, u32 meta, u64 tensor, u64 fused, int counted)
{
	u32 i;
	struct buffer *b = reserve(2 + (counted ? SAMPLE_SLOTS : 0), &i);
	struct slot *s;

	if (!b) {
		if (fused) /* two hits to the reader */
			count_lost(LOST_HITS);
		return;
	}
	s = slot_at(b, i + 1);
	s->ts = tensor;
	s->tid = (u32)fused;
	s->meta = fused >> 32;
	s = slot_at(b, i);
	s->tid = (u32)bpf_get_current_pid_tgid();
	s->meta = meta;
	if (counted)
		put_sample(b, i + 2);
	commit(s, ts);
}

/* number of the process */
static __always_inline u32 proc_of(struct site *s)
{
	return s->owner & (MAX_PROCS - 1);
}

static __always_inline u32 meta(struct site *s, u32 kind, u32 ith, u32 nth)
{
	return proc_of(s) << 24 | kind << 21 | (ith & 1023) << 11 | (nth & 2047);
}

/* number of the thread in its team, from the compute parameters */
static __always_inline u32 team(struct site *s, u64 params, u32 kind)
{
	struct layout *l = bpf_map_lookup_elem(&layouts, &s->layout);
	u32 v[2] = {};

	if (!l)
		return meta(s, kind, 0, 0);
	if (l->params_nth == l->params_ith + 4) {
		bpf_probe_read_user(v, sizeof(v), (void *)(params + l->params_ith));
	} else {
		bpf_probe_read_user(&v[0], 4, (void *)(params + l->params_ith));
		bpf_probe_read_user(&v[1], 4, (void *)(params + l->params_nth));
	}
	return meta(s, kind, v[0], v[1]);
}

#include "filter.h"
#include "experts.h"

static __always_inline int begin(struct regs *ctx, u32 kind, int counted)
{
	u64 ts = bpf_ktime_get_boot_ns(), tensor;
	u32 i;
	struct site *s = site_of(ctx, &i);

	if (!s)
		return 0;
	tensor = get_arg(ctx, &s->b);
	if (filtering && !wanted(s, tensor))
		return 0;
	if (routing_wanted)
		operator_begins(ts, s, tensor);
	put_begin(ts, team(s, get_arg(ctx, &s->a), kind), tensor,
		  kind == HIT_OP_FUSED ? get_arg(ctx, &s->c) : 0, counted);
	return 0;
}

static __always_inline int end(struct regs *ctx, int counted)
{
	u64 ts = bpf_ktime_get_boot_ns();
	u32 i;
	struct site *s = site_of(ctx, &i);

	/* the pool tells which of several graphs under way it is; 0 where the site does not give it */
	if (s && (!filtering || begun(s)))
		put_end(ts, proc_of(s) << 24 | HIT_OP_END << 21 | ((u32)(get_arg(ctx, &s->a) >> 6) & 0x1fffff),
			counted);
	if (s && routing_wanted)
		operator_arrives(ts, s);
	return 0;
}

SEC("uprobe.multi")
int op_begin(struct regs *ctx)
{
	return begin(ctx, HIT_OP_BEGIN, 0);
}

SEC("uprobe.multi")
int op_fused(struct regs *ctx)
{
	return begin(ctx, HIT_OP_FUSED, 0);
}

SEC("uprobe.multi")
int op_end(struct regs *ctx)
{
	return end(ctx, 0);
}

/* the same with counters: programs of their own, as the others need no BTF */
SEC("uprobe.multi")
int op_begin_counted(struct regs *ctx)
{
	return begin(ctx, HIT_OP_BEGIN, 1);
}

SEC("uprobe.multi")
int op_fused_counted(struct regs *ctx)
{
	return begin(ctx, HIT_OP_FUSED, 1);
}

SEC("uprobe.multi")
int op_end_counted(struct regs *ctx)
{
	return end(ctx, 1);
}

#include "graph.h"
#include "step.h"
#include "queue.h"

/* Fills in what all marks have; 0: the site is not this process's. */
static __always_inline struct site *new_mark(struct regs *ctx, struct mark *m)
{
	struct site *s;

	m->ts = bpf_ktime_get_boot_ns();
	s = site_of(ctx, &m->site);
	if (!s)
		return 0;
	m->tgid = s->tgid;
	m->tid = (u32)bpf_get_current_pid_tgid();
	m->kind = s->kind;
	m->cpu = bpf_get_smp_processor_id();
	return s;
}

SEC("uprobe.multi")
int mark_begin(struct regs *ctx)
{
	struct mark m = { .type = REC_MARK, .n_tokens = -1, .arg = -1 };
	struct layout *l;
	struct site *s;
	u64 a, b, c;
	u32 most;

	s = new_mark(ctx, &m);
	if (!s)
		return 0;
	l = bpf_map_lookup_elem(&layouts, &s->layout);
	if (!l)
		return 0;
	a = get_arg(ctx, &s->a);
	b = get_arg(ctx, &s->b);
	c = get_arg(ctx, &s->c);
	switch (s->kind) {
	case MARK_STEP_BEGIN:
		m.ctx = a;
		if (s->c.kind != ARG_NONE)
			m.arg = (s32)c;
		most = read_batch(&m, l, s->batch, b);
		if (filtering)
			set_phase(s, &m, most);
		break;
	case MARK_SCHED_BEGIN:
		m.scheduler = a;
		m.graph = b;
		/* of all its splits: what runs in no graph that is seen shows */
		if (b)
			bpf_probe_read_user(&m.n_nodes, 4, (void *)(b + l->graph_n_nodes));
		break;
	case MARK_GRAPH_BEGIN:
		m.graph = a;
		m.backend = c;
		if (b && l->plan_threads != ABSENT)
			bpf_probe_read_user(&m.threads, 4, (void *)(b + l->plan_threads));
		identify(&m, l, s->owner);
		if (routing_wanted)
			graph_begins(&m, l, s->owner);
		break;
	case MARK_COPY_BEGIN:
		m.copied = a;
		m.copied_bytes = s->b.kind == ARG_NONE ? (u64)-1 : b;
		m.copied_from = c;
		break;
	case MARK_SYNC_BEGIN:
		m.backend = c;
		break;
	}
	put_mark(&m);
	return 0;
}

/* programs of their own: what they read, marks of every step need not */
SEC("uprobe.multi")
int queue_begin(struct regs *ctx)
{
	struct mark m = { .type = REC_MARK, .n_tokens = -1, .arg = -1 };
	struct site *s;

	s = new_mark(ctx, &m);
	if (!s)
		return 0;
	queue_mark(ctx, s, &m);
	return 0;
}

/* what the call returned: 0 is success, of a wait that it is done */
SEC("uprobe.multi")
int queue_end(struct regs *ctx)
{
	struct mark m = { .type = REC_MARK, .n_tokens = -1 };
	struct site *s;

	s = new_mark(ctx, &m);
	if (!s)
		return 0;
	m.returned = (s32)RET(ctx);
	put_mark(&m);
	return 0;
}

/* an end: of a function (return probe) or at a site on its way out */
SEC("uprobe.multi")
int mark_end(struct regs *ctx)
{
	struct mark m = { .type = REC_MARK, .n_tokens = -1, .arg = -1 };
	struct site *s;

	s = new_mark(ctx, &m);
	if (!s)
		return 0;
	if (routing_wanted && m.kind == MARK_GRAPH_END)
		graph_ends(m.tid);
	if (filtering && m.kind == MARK_STEP_END)
		end_phase(s, m.tid);
	put_mark(&m);
	return 0;
}

#include "sched.h"
#include "faults.h"

/* keeps these types in the object's BTF, from which the Go side's are generated */
const struct slot *unused_slot __attribute__((unused));
const struct filter *unused_filter __attribute__((unused));
const struct open_steps *unused_open_steps __attribute__((unused));
const struct sched_event *unused_sched_event __attribute__((unused));
const struct fault *unused_fault __attribute__((unused));
const struct mark *unused_mark __attribute__((unused));
const struct seq *unused_seq __attribute__((unused));
const struct def *unused_def __attribute__((unused));
const struct shape_key *unused_shape_key __attribute__((unused));
const struct shape_end *unused_shape_end __attribute__((unused));
const struct routing *unused_routing __attribute__((unused));
const struct routing_places *unused_routing_places __attribute__((unused));
const struct op_sequence_key *unused_op_sequence_key __attribute__((unused));
const enum hit_kind *unused_hit_kind __attribute__((unused));
const enum mark_kind *unused_mark_kind __attribute__((unused));
const enum arg_kind *unused_arg_kind __attribute__((unused));
const enum batch_kind *unused_batch_kind __attribute__((unused));
const enum lost_kind *unused_lost_kind __attribute__((unused));
const enum sched_kind *unused_sched_kind __attribute__((unused));
const enum sched_flag *unused_sched_flag __attribute__((unused));
const enum filter_what *unused_filter_what __attribute__((unused));
const enum phase_bit *unused_phase_bit __attribute__((unused));
const enum fault_kind *unused_fault_kind __attribute__((unused));
const enum record_type *unused_record_type __attribute__((unused));
const enum limit *unused_limit __attribute__((unused));
