// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The kernel side: it stamps, copies and counts, and decides nothing. It knows no engine:
 * sites and layouts are filled in by package probe.
 *
 * Operator hits and scheduler events go to one ring per CPU, so that threads which leave a
 * barrier together do not queue for one lock. Nobody is woken; every record that found no
 * room is counted.
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
	__uint(max_entries, MAX_LAYOUTS);
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

/* marks and sequences; definitions of graphs */
struct { __uint(type, BPF_MAP_TYPE_RINGBUF); __uint(max_entries, 1 << 22); } marks SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_RINGBUF); __uint(max_entries, 1 << 24); } defs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, NUM_LOST);
	__type(key, u32);
	__type(value, u64);
} lost SEC(".maps");

/* Another thread's program may run in between on the same CPU, so the increment is atomic. */
static __always_inline void count_lost(u32 what)
{
	u64 *n = bpf_map_lookup_elem(&lost, &what);

	if (n)
		__sync_fetch_and_add(n, 1);
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

static __always_inline void put_hit(u64 ts, u64 arg, u32 meta)
{
	void *ring = this_ring();
	struct hit *h;

	if (!ring)
		goto full;
	h = bpf_ringbuf_reserve(ring, sizeof(*h), 0);
	if (!h)
		goto full;
	h->ts = ts;
	h->arg = arg;
	h->tid = (u32)bpf_get_current_pid_tgid();
	h->meta = meta;
	bpf_ringbuf_submit(h, BPF_RB_NO_WAKEUP);
	return;
full:
	count_lost(LOST_HITS);
}

static __always_inline u32 meta(struct site *s, u32 kind, u32 ith, u32 nth)
{
	return (s->proc & 63) << 26 | kind << 22 | (ith & 2047) << 11 | (nth & 2047);
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

SEC("uprobe.multi")
int op_begin(struct regs *ctx)
{
	u64 ts = bpf_ktime_get_boot_ns();
	u32 i;
	struct site *s = site_of(ctx, &i);

	if (s)
		put_hit(ts, ARG1(ctx), team(s, ARG0(ctx), HIT_OP_BEGIN));
	return 0;
}

SEC("uprobe.multi")
int op_fused(struct regs *ctx)
{
	u64 ts = bpf_ktime_get_boot_ns();
	u32 i, m;
	struct site *s = site_of(ctx, &i);

	if (!s)
		return 0;
	m = team(s, ARG0(ctx), HIT_OP_FUSED);
	put_hit(ts, ARG1(ctx), m);
	put_hit(ts, ARG2(ctx), (m & ~(15U << 22)) | HIT_FUSED_WITH << 22);
	return 0;
}

SEC("uprobe.multi")
int op_end(struct regs *ctx)
{
	u64 ts = bpf_ktime_get_boot_ns();
	u32 i;
	struct site *s = site_of(ctx, &i);

	if (s)
		put_hit(ts, ARG0(ctx), meta(s, HIT_OP_END, 0, 0));
	return 0;
}

#include "graph.h"
#include "step.h"

SEC("uprobe.multi")
int mark_begin(struct regs *ctx)
{
	struct mark m = { .type = REC_MARK, .n_tokens = -1, .arg = -1 };
	struct layout *l;
	struct site *s;
	u64 a, b, c;

	m.ts = bpf_ktime_get_boot_ns();
	s = site_of(ctx, &m.site);
	if (!s)
		return 0;
	l = bpf_map_lookup_elem(&layouts, &s->layout);
	if (!l)
		return 0;
	m.tgid = s->tgid;
	m.tid = (u32)bpf_get_current_pid_tgid();
	m.kind = s->kind;
	m.cpu = bpf_get_smp_processor_id();
	a = get_arg(ctx, &s->a);
	b = get_arg(ctx, &s->b);
	c = get_arg(ctx, &s->c);
	switch (s->kind) {
	case MARK_STEP_BEGIN:
		m.ctx = a;
		if (s->c.kind != ARG_NONE)
			m.arg = (s32)c;
		read_batch(&m, l, s->batch, b);
		break;
	case MARK_SCHED_BEGIN:
		m.ctx = a;
		m.graph = b;
		break;
	case MARK_GRAPH_BEGIN:
		m.graph = a;
		m.ctx = c;
		if (b && l->plan_threads != ABSENT)
			bpf_probe_read_user(&m.threads, 4, (void *)(b + l->plan_threads));
		identify(&m, l);
		break;
	}
	put_mark(&m);
	return 0;
}

/* an end: of a function (return probe) or at a site on its way out */
SEC("uprobe.multi")
int mark_end(struct regs *ctx)
{
	struct mark m = { .type = REC_MARK, .n_tokens = -1, .arg = -1 };
	struct site *s;

	m.ts = bpf_ktime_get_boot_ns();
	s = site_of(ctx, &m.site);
	if (!s)
		return 0;
	m.tgid = s->tgid;
	m.tid = (u32)bpf_get_current_pid_tgid();
	m.kind = s->kind;
	m.cpu = bpf_get_smp_processor_id();
	put_mark(&m);
	return 0;
}

#include "sched.h"

/* keeps these types in the object's BTF, from which the Go side's are generated */
const struct hit *unused_hit __attribute__((unused));
const struct sched_event *unused_sched_event __attribute__((unused));
const struct mark *unused_mark __attribute__((unused));
const struct seq *unused_seq __attribute__((unused));
const struct def *unused_def __attribute__((unused));
const struct shape_end *unused_shape_end __attribute__((unused));
