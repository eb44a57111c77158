/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Work that is handed to a device's queue, and waits for it. What the handles are is the engine's matter:
 * here they are numbers, which are compared later.
 */

#define MAX_DONE 8	/* handles of one call that says they are done */

/*
 * the registers that arguments are in, loaded once: chosen among by a pointer into ctx, the verifier would
 * refuse them
 */
struct args {
	u64 reg[8];
	u64 sp;
};

static __always_inline u64 value_of(struct args *r, struct arg *a)
{
	u64 v = 0, at = 0;

	switch (a->kind) {
	case ARG_CONST:
		return (s64)a->stack;
	case ARG_REG:
		return r->reg[a->reg & 7];
	case ARG_AT:
		at = r->reg[a->reg & 7];
		break;
	case ARG_STACK_AT:
		at = r->sp;
		break;
	}
	if (at && bpf_probe_read_user(&v, 8, (void *)(at + (s64)a->stack)))
		count_lost(LOST_READS);
	return v;
}

/* batches: of a wait or of what is done, how many fences; -1: not told */
static __always_inline void queue_mark(struct regs *ctx, struct site *s, struct mark *m)
{
	struct args r = { .reg = { ARG0(ctx), ARG1(ctx), ARG2(ctx), ARG3(ctx), ARG4(ctx), ARG5(ctx) },
			  .sp = ctx->sp };
	u64 array;
	int i;

	m->queue = value_of(&r, &s->a);
	m->device = value_of(&r, &s->c);
	m->batches = s->d.kind == ARG_NONE ? -1 : (s32)value_of(&r, &s->d);
	if (s->kind != MARK_DONE) {
		m->fence = value_of(&r, &s->b);
		put_mark(m);
		return;
	}
	/* an array of handles: a mark each */
	array = value_of(&r, &s->b);
	for (i = 0; i < MAX_DONE; i++) {
		if (i >= m->batches)
			break;
		if (bpf_probe_read_user(&m->fence, 8, (void *)(array + (u64)i * 8))) {
			count_lost(LOST_READS);
			break;
		}
		put_mark(m);
	}
}
