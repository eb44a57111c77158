/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the kernel side and package probe agree on. Everything that is particular to an
 * engine comes in as numbers: offsets, argument places, kinds of sites.
 */
#ifndef PROFINFER_H
#define PROFINFER_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;

/*
 * what the reader has to know too: package probe has these, all enums and structs here as they are
 * generated from them
 */
enum limit {
	MAX_PROCS = 256,	/* at a time; each has a layout */
	BUFFER_HEAD = 4096,	/* bytes of struct buffer before its slots: a page */
};

#define MAX_SITES   32768
#define MAX_CPUS    1024
#define TENSOR_MAX  384	/* bytes copied of a tensor, a multiple of 4 */
#define TENSOR_WORDS (TENSOR_MAX / 4)
#define MAX_NODES   65536	/* nodes of a graph that are walked */
#define MAX_TOKENS  8192	/* of a routing that are looked at */
#define MAX_BATCH   (1 << 18)	/* tokens of a batch that are looked at */
#define ABSENT      0xffff

/* kinds of hits and marks, as the trace has them */
enum hit_kind {
	HIT_OP_BEGIN = 1, HIT_OP_FUSED = 2, HIT_FUSED_WITH = 3, HIT_OP_END = 4,
	HIT_OFF = 5, HIT_ON = 6,	/* a thread leaves its CPU, gets one: for counters */
};
enum mark_kind {
	MARK_STEP_BEGIN = 1, MARK_STEP_END = 2, MARK_SCHED_BEGIN = 3,
	MARK_SCHED_END = 4, MARK_GRAPH_BEGIN = 5, MARK_GRAPH_END = 6,
	MARK_COPY_BEGIN = 7, MARK_COPY_END = 8, MARK_SYNC_BEGIN = 9, MARK_SYNC_END = 10,
	/* queues of a device: queue.h */
	MARK_SUBMIT_BEGIN = 11, MARK_SUBMIT_END = 12, MARK_WAIT_BEGIN = 13, MARK_WAIT_END = 14, MARK_DONE = 15,
};
/*
 * Where a value is: in a register; the stack pointer + stack; in memory at register + stack or at the stack
 * pointer + stack, 8 bytes; or the number stack itself.
 */
enum arg_kind { ARG_NONE, ARG_REG, ARG_STACK_ADDR, ARG_AT, ARG_STACK_AT, ARG_CONST };
enum batch_kind { BATCH_NONE, BATCH_BY_VALUE, BATCH_POINTER, BATCH_VECTOR };
enum lost_kind { LOST_HITS, LOST_MARKS, LOST_DEFS, LOST_SCHED, LOST_READS, LOST_FILTERED, LOST_FAULTS,
	LOST_ROUTING, LOST_OTHERS, NUM_LOST };

struct arg {
	u8 kind;
	u8 reg;
	u16 pad;
	s32 stack;
};

/*
 * One probe site of one process; the attach cookie is its index. Indices are used again once no probe of the
 * site stands and all that it wrote was read.
 */
struct site {
	u32 tgid;
	/* the number of the process, below MAX_PROCS, which is used again; above it which of those that had it */
	u32 owner;
	u32 layout;
	u16 kind;	/* enum mark_kind or hit_kind */
	u8 batch;	/* enum batch_kind */
	u8 encodes;	/* step begin: of an encoder */
	struct arg a, b, c, d;
};

/* offsets in bytes, ABSENT where the engine has no such thing */
struct layout {
	u16 graph_n_nodes, graph_nodes, graph_uid;
	u16 tensor_size, tensor_src, max_src, tensor_view_src;
	u16 params_ith, params_nth, plan_threads;
	u16 batch_n_tokens, batch_pos, batch_seq_id, batch_logits;
	u16 vec_begin, vec_end, vec_stride, vec_seq_head, vec_seq_val, vec_pos, vec_output;
	u16 vec_pos_indirect;
	u16 tensor_op;
	u16 tensor_ne, tensor_nb, tensor_data;	/* 4 u64 each, a pointer */
	u16 tensor_flags;	/* u32 */
	u16 routing_op, routing_src;	/* experts.h */
	u16 pad[3];
	/* which 4-byte words of a tensor make a graph's identity: of every tensor, and of those
	 * that are no view */
	u64 always[2], own[2];
};

/*
 * What one thread did, 16 bytes. A begin takes two slots: of the second, ts is the tensor's
 * address and (tid, meta) that of a tensor fused with it, or 0. ts is written last and cleared
 * by the reader: 0 is a slot that is not written yet. With counters more slots follow, of two
 * values each: counters.h.
 */
struct slot {
	u64 ts;
	u32 tid;
	u32 meta;	/* proc 24..31, kind 21..23; of a begin ith 11..20, nth 0..10; of an end the pool */
};

/*
 * The hits of one CPU, mapped by the reader. One line of the cache says how full it is; slots
 * follow after a page.
 */
struct buffer {
	u64 head;	/* slots reserved so far */
	u64 tail;	/* slots the reader has cleared */
	u64 lost[NUM_LOST];	/* what found no room on this CPU */
	u8 pad[BUFFER_HEAD - 16 - 8 * NUM_LOST];
	struct slot slots[1];
};

struct sched_event {
	u64 ts;
	u32 prev_tid, prev_tgid;
	u32 next_tid, next_tgid;
	u32 prev_state;
	s32 prev_prio, next_prio;
	u32 kind;	/* enum sched_kind and sched_flag; CPU in the upper 16 bits */
	char prev_comm[16];
	char next_comm[16];
	/* how long prev has had the CPU (a switch), next has it (a look): 0 if the record before tells it */
	u64 held;
};

/* SCHED_LOOK: next runs on the CPU, seen from another one */
enum sched_kind { SCHED_SWITCH = 1, SCHED_WAKEUP = 2, SCHED_LOOK = 3 };
enum sched_flag { SCHED_PREV_KERNEL = 1 << 8, SCHED_NEXT_KERNEL = 1 << 9 };	/* a thread of the kernel */

/* what is left out, in the kernel already */
enum filter_what { FILTER_OPS = 1, FILTER_PHASES = 2, FILTER_TIDS = 4 };
enum phase_bit { PHASE_PREFILL = 1, PHASE_DECODE = 2, PHASE_ENCODE = 4, PHASE_UNKNOWN = 8 };

struct filter {
	u64 ops[4];	/* a bit for each of the engine's operator numbers */
	u32 phases;	/* enum phase_bit */
	u32 pad;
};

/* a page fault of a profiled thread: bpf/faults.h */
/* FAULT_COUNTS: of a thread that ends, counts only */
enum fault_kind { FAULT_MAJOR = 1, FAULT_MINOR = 2, FAULT_COUNTS = 3 };

struct fault {
	u64 ts;		/* when it was done */
	u64 addr;
	u64 dur;	/* 0: not seen */
	u64 read;	/* bytes that it had read from disk; of counts all the thread's; all ones: not known */
	u64 major, minor;	/* the thread's counts so far, this one included */
	u32 tid, tgid;
	u32 kind, cpu;
};

enum record_type { REC_MARK = 1, REC_SEQ = 2, REC_NODE = 3, REC_LEAF = 4, REC_SHAPE_END = 5 };

struct mark {
	u32 type;	/* REC_MARK */
	u32 site;
	u64 ts;
	u32 tid, tgid;
	u16 kind, cpu;
	union { s32 n_nodes, batches; };	/* of a wait: how many fences */
	/* by kind; trace.Mark has methods of these names */
	union { u64 ctx, scheduler, backend, copied_from, queue; };
	union { u64 graph, copied, fence; };
	u64 shape;
	union { u64 uid, copied_bytes, device; };
	s32 threads, n_tokens;
	union { s32 arg, returned; };
	s32 pad;
};

/* one run of tokens of one sequence in the batch of the step that began at ts */
struct seq {
	u32 type;	/* REC_SEQ */
	u32 tid;
	u64 ts;
	s32 seq, n_tokens, pos, outputs;
};

/* what is known of a shape: that it was sent, which tensors of it were copied, its sequence of operators */
struct shape_key {
	u64 shape;
	u64 addr;	/* 0: the shape itself is known; else the tensor was copied for it */
	u32 owner;	/* struct site's: another program of the same process knows nothing of it */
	u32 pass;	/* of a copied tensor: which definition of the shape it was copied for */
};

/* a tensor as it lies in the process */
struct def {
	u32 type;	/* REC_NODE, REC_LEAF */
	u32 tgid;
	u64 shape;
	u64 addr;
	u32 index;
	u32 size;
	u8 raw[TENSOR_MAX];
};

struct shape_end {
	u32 type;	/* REC_SHAPE_END */
	u32 tgid;
	u64 shape;
	u64 ts;
	u32 n_nodes, n_defs;
	u32 failed;	/* reads that failed */
	u32 claimed;	/* nodes the graph claims to have */
	u64 op_sequence;	/* a hash of the operators in their order; 0: not asked for */
};

/*
 * Which experts some tokens are routed to: rows of the matrix that says so, as it was while the operator
 * that reads it ran. See experts.h.
 */
#define MAX_USED    128	/* experts of a token; where there are more it counts as a read that failed */
#define MAX_NUMBERS 1024	/* of a record */
#define ROUTING_HEAD 56
struct routing {
	u64 ts;
	u64 node, source;	/* addresses of the tensors: of the operator, of the matrix */
	u32 tgid, tid;
	u32 used, tokens;	/* experts of a token, tokens: the matrix's size */
	u32 first, rows;	/* rows that are here */
	u32 n, pad;		/* numbers that are here */
	s32 expert[MAX_NUMBERS];
};

/*
 * where graphs with the same sequence of operators have routing operators: after how many arrivals of a
 * thread, at which node
 */
#define MAX_PLACES 1024
struct routing_place {
	u32 arrival, node;
};
struct routing_places {
	u32 n, pad;
	struct routing_place at[MAX_PLACES];
};

#endif
