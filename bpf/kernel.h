/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The little of the kernel's own types that is used, relocated to the running kernel. */
#ifndef PROFINFER_KERNEL_H
#define PROFINFER_KERNEL_H

#define __u8 u8
#define __u16 u16
#define __u32 u32
#define __u64 u64
#define __s32 s32
#define __s64 s64
#define __be16 u16
#define __be32 u32
#define __wsum u32

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERF_EVENT_ARRAY = 4,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_RINGBUF = 27,
};
enum { BPF_ANY = 0, BPF_NOEXIST = 1 };
enum { BPF_F_MMAPABLE = 1 << 10 };
enum { BPF_RB_NO_WAKEUP = 1 };

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

/* struct pt_regs as a uprobe program gets it (ABI) */
#if defined(__TARGET_ARCH_x86)
struct regs {
	u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di;
	u64 orig_ax, ip, cs, flags, sp, ss;
};
#define ARG0(c) ((c)->di)
#define ARG1(c) ((c)->si)
#define ARG2(c) ((c)->dx)
#define ARG3(c) ((c)->cx)
#define ARG4(c) ((c)->r8)
#define ARG5(c) ((c)->r9)
#define RET(c) ((c)->ax)
#elif defined(__TARGET_ARCH_arm64)
struct regs {
	u64 regs[31];
	u64 sp, pc, pstate;
};
#define ARG0(c) ((c)->regs[0])
#define ARG1(c) ((c)->regs[1])
#define ARG2(c) ((c)->regs[2])
#define ARG3(c) ((c)->regs[3])
#define ARG4(c) ((c)->regs[4])
#define ARG5(c) ((c)->regs[5])
#define RET(c) ((c)->regs[0])
#else
#error "no such architecture"
#endif

/* the offset into ctx has to be a constant, hence no array */
static __always_inline u64 get_arg(struct regs *ctx, struct arg *a)
{
	if (a->kind == ARG_STACK_ADDR)
		return ctx->sp + (s64)a->stack;
	if (a->kind != ARG_REG)
		return 0;
	switch (a->reg) {
	case 0: return ARG0(ctx);
	case 1: return ARG1(ctx);
	case 2: return ARG2(ctx);
	case 3: return ARG3(ctx);
	case 4: return ARG4(ctx);
	case 5: return ARG5(ctx);
	}
	return 0;
}

/*
 * Numbers in the process's memory; 0 where they cannot be read. Global functions: the verifier looks at each
 * once, and knows nothing of what it returns, so that paths which differ before a call are one behind it.
 */
__noinline u64 user_u64(u64 at)
{
	u64 v = 0;

	if (at)
		bpf_probe_read_user(&v, sizeof(v), (void *)at);
	return v;
}

/* at 0: none, and otherwise is returned */
__noinline u32 user_u32(u64 at, u32 otherwise)
{
	u32 v = otherwise;

	if (at)
		bpf_probe_read_user(&v, sizeof(v), (void *)at);
	return v;
}

__noinline u32 user_u8(u64 at, u32 otherwise)
{
	u8 v = otherwise;

	if (at)
		bpf_probe_read_user(&v, sizeof(v), (void *)at);
	return v;
}

struct sched_entity {
	u64 nr_migrations;
} __attribute__((preserve_access_index));

struct task_io_accounting {
	u64 read_bytes;
} __attribute__((preserve_access_index));

struct cpumask {
	unsigned long bits[1];
} __attribute__((preserve_access_index));

struct task_struct {
	int pid;
	int tgid;
	int prio;
	unsigned int __state;
	unsigned int flags;
	int on_cpu;
	struct cpumask cpus_mask;
	unsigned long nvcsw, nivcsw, min_flt, maj_flt;
	struct sched_entity se;
	struct task_io_accounting ioac;
	char comm[16];
} __attribute__((preserve_access_index));

/* before Linux 5.14 */
struct task_struct___old {
	long state;
} __attribute__((preserve_access_index));

#endif
