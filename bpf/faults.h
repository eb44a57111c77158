/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Page faults of profiled processes' threads. The end of a fault is a software event of the kernel (major,
 * minor), which brings the address: where handle_mm_fault counts it, after all retries. Its begin is told
 * by a tracepoint where the architecture has one (x86), else by the entry of that function. Between them
 * the thread's own account of bytes read from disk grows by what the fault asked for, read ahead included.
 *
 * Faults that the kernel takes for a thread that waits in a system call (mmap's populate, mlock)
 * have no such event; the thread's counts hold them, so each record brings the counts along.
 */
#define SLOW_FAULT 100000	/* ns */

const volatile u32 faults_all = 0;	/* minor faults too that read nothing and were quick */
const volatile u32 faults_begun = 0;	/* begins are seen */

/*
 * A signal ends a fault before it is done; the kernel does not count that. When its handler, which
 * may fault itself, has returned, the same fault follows and finds the page: together they are one.
 */
#define FAULT_STALE 10000000000ULL	/* ns */

struct fault_begin {
	u64 ts;	/* 0: it was done */
	u64 addr;
	u64 read;
	u64 tid;
	u64 ended_ts, ended_addr, ended_read;	/* by a signal; 0: none */
};

/* at the thread's number modulo the size */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct fault_begin);
} fault_begins SEC(".maps");

struct { __uint(type, BPF_MAP_TYPE_RINGBUF); __uint(max_entries, 4096); } faults SEC(".maps");

const volatile u32 fault_mask = 0;

struct fault_data {	/* struct bpf_perf_event_data (ABI) */
	struct regs regs;
	u64 period;
	u64 addr;
};

static __always_inline u64 read_bytes(struct task_struct *t)
{
	if (!bpf_core_field_exists(t->ioac.read_bytes))
		return NO_VALUE;
	return BPF_CORE_READ(t, ioac.read_bytes);
}

static __always_inline struct fault_begin *begin_of(u32 tid)
{
	u32 i = tid & fault_mask;

	return bpf_map_lookup_elem(&fault_begins, &i);
}

static __always_inline int fault_begins_at(u64 addr)
{
	u64 id = bpf_get_current_pid_tgid(), ts;
	struct fault_begin *b;

	if (!is_target(id >> 32))
		return 0;
	b = begin_of((u32)id);
	if (!b)
		return 0;
	ts = bpf_ktime_get_boot_ns();
	if (b->tid != (u32)id) {
		b->tid = (u32)id;
		b->ended_ts = 0;
	} else if (b->ts && b->addr >> 12 == addr >> 12 && ts - b->ts < FAULT_STALE) {
		return 0;
	} else if (b->ts) {
		b->ended_ts = b->ts;
		b->ended_addr = b->addr;
		b->ended_read = b->read;
	}
	b->addr = addr;
	if (b->ended_ts && b->ended_addr >> 12 == addr >> 12 && ts - b->ended_ts < FAULT_STALE) {
		b->ts = b->ended_ts;
		b->read = b->ended_read;
		b->ended_ts = 0;
		return 0;
	}
	b->ts = ts;
	b->read = read_bytes((void *)bpf_get_current_task());
	return 0;
}

/* x86: no other architecture has these tracepoints */
SEC("tp_btf/page_fault_user")
int fault_user(u64 *ctx)
{
	return fault_begins_at(ctx[0]);
}

SEC("tp_btf/page_fault_kernel")
int fault_kernel(u64 *ctx)
{
	return fault_begins_at(ctx[0]);
}

/*
 * Elsewhere: where the kernel begins to handle a fault, once or, after it had to wait, again.
 * Without registers it is no thread's own fault.
 */
#define FAULT_TRIED (1 << 5)	/* FAULT_FLAG_TRIED of linux/mm_types.h */

SEC("fentry/handle_mm_fault")
int fault_enter(u64 *ctx)
{
	if (((u32)ctx[2] & FAULT_TRIED) || !ctx[3])
		return 0;
	return fault_begins_at(ctx[1]);
}

static __always_inline void put_fault(struct fault *f, struct task_struct *t)
{
	f->major = BPF_CORE_READ(t, maj_flt);
	f->minor = BPF_CORE_READ(t, min_flt);
	f->cpu = bpf_get_smp_processor_id();
	if (bpf_ringbuf_output(&faults, f, sizeof(*f), BPF_RB_NO_WAKEUP))
		count_lost(LOST_FAULTS);
}

static __always_inline int fault_done(struct fault_data *ctx, u32 kind)
{
	u64 id = bpf_get_current_pid_tgid();
	struct fault f = { .kind = kind };
	struct fault_begin *b;
	struct task_struct *t;
	u64 read;

	if (!is_target(id >> 32))
		return 0;
	f.ts = bpf_ktime_get_boot_ns();
	f.addr = ctx->addr;
	f.tid = (u32)id;
	f.tgid = id >> 32;
	t = (void *)bpf_get_current_task();
	read = read_bytes(t);
	f.read = NO_VALUE;
	b = begin_of(f.tid);
	if (b && b->tid == f.tid) {
		/* without begins: since the fault before */
		if (read != NO_VALUE && b->read != NO_VALUE)
			f.read = read - b->read;
		if (faults_begun && b->ts && b->addr >> 12 == f.addr >> 12)
			f.dur = f.ts - b->ts;
	}
	if (b) {
		if (b->tid != f.tid)
			b->ended_ts = 0;
		b->tid = f.tid;
		b->ts = 0;
		b->read = read;
	}
	if (kind == FAULT_MINOR && !faults_all && (f.read == 0 || f.read == NO_VALUE) && f.dur < SLOW_FAULT)
		return 0;
	put_fault(&f, t);
	return 0;
}

SEC("perf_event")
int fault_major(struct fault_data *ctx)
{
	return fault_done(ctx, FAULT_MAJOR);
}

SEC("perf_event")
int fault_minor(struct fault_data *ctx)
{
	return fault_done(ctx, FAULT_MINOR);
}

/* what the thread counted in all */
SEC("tp_btf/sched_process_exit")
int fault_exit(u64 *ctx)
{
	struct task_struct *t = (void *)ctx[0];
	struct fault f = { .kind = FAULT_COUNTS };

	f.tgid = BPF_CORE_READ(t, tgid);
	if (!is_target(f.tgid))
		return 0;
	f.ts = bpf_ktime_get_boot_ns();
	f.tid = BPF_CORE_READ(t, pid);
	f.read = read_bytes(t);
	put_fault(&f, t);
	return 0;
}
