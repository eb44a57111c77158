/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A step's batch: how many tokens, of which sequences, and whose logits are asked for. */

static __always_inline void put_mark(struct mark *m)
{
	if (bpf_ringbuf_output(&marks, m, sizeof(*m), BPF_RB_NO_WAKEUP))
		count_lost(LOST_MARKS);
}

/* a batch that is read: no pointers, so that it can be handed to a global function */
struct batch {
	u64 pos, seq_id, logits;	/* arrays; for a vector pos is the first token */
	u32 kind, n;
	u32 most;	/* tokens of one sequence */
	u32 pad;	/* all of it is initialized: older verifiers ask for that */
	struct seq run;
};

struct batch_walk {
	struct layout *l;
	struct batch batch;
};

static __always_inline void put_run(struct batch *b)
{
	if (b->run.n_tokens == 0)
		return;
	if (bpf_ringbuf_output(&marks, &b->run, sizeof(b->run), BPF_RB_NO_WAKEUP))
		count_lost(LOST_MARKS);
}

/*
 * Reads one token. Global: the verifier looks at it once, and not as often as paths come together in the loop
 * that calls it.
 */
__noinline int read_token(struct batch *b, struct layout *l, u32 i)
{
	u64 token, at, at_seq = 0, at_pos = 0, at_out = 0;
	u32 out = 0;
	s32 seq, pos;

	if (!b || !l)
		return 0;
	if (b->kind == BATCH_VECTOR) {
		token = b->pos + (u64)i * l->vec_stride;
		if (l->vec_seq_head != ABSENT) {
			at = user_u64(token + l->vec_seq_head);
			if (at)
				at_seq = at + l->vec_seq_val;
		}
		if (l->vec_pos != ABSENT) {
			at_pos = token + l->vec_pos;
			if (l->vec_pos_indirect)
				at_pos = user_u64(at_pos);
		}
		if (l->vec_output != ABSENT)
			at_out = token + l->vec_output;
	} else {
		if (b->seq_id)
			at_seq = user_u64(b->seq_id + (u64)i * 8);
		if (b->pos)
			at_pos = b->pos + (u64)i * 4;
		/* no flags: the last token's logits are asked for */
		if (b->logits)
			at_out = b->logits + i;
		else
			out = i + 1 == b->n;
	}
	seq = user_u32(at_seq, 0);
	pos = user_u32(at_pos, -1);
	out = user_u8(at_out, out);
	if (b->run.n_tokens && b->run.seq != seq) {
		put_run(b);
		b->run.n_tokens = 0;
		b->run.outputs = 0;
	}
	if (b->run.n_tokens == 0) {
		b->run.seq = seq;
		b->run.pos = pos;
	}
	b->run.n_tokens++;
	if (b->run.n_tokens > (s32)b->most)
		b->most = b->run.n_tokens;
	b->run.outputs += out != 0;
	return 0;
}

static __noinline long batch_token(u32 i, struct batch_walk *w)
{
	if (i >= w->batch.n)
		return 1;
	return read_token(&w->batch, w->l, i);
}

/* Returns the most tokens in a row of one sequence. */
static __always_inline u32 read_batch(struct mark *m, struct layout *l, u32 kind, u64 batch)
{
	struct batch_walk w = { .l = l, .batch.kind = kind };
	struct batch *b = &w.batch;
	u64 end = 0;

	if (kind == BATCH_NONE || !batch)
		return 0;
	if (kind == BATCH_VECTOR) {
		if (l->vec_begin == ABSENT || !l->vec_stride ||
		    bpf_probe_read_user(&b->pos, 8, (void *)(batch + l->vec_begin)) ||
		    bpf_probe_read_user(&end, 8, (void *)(batch + l->vec_end)) || end < b->pos)
			return 0;
		m->n_tokens = (end - b->pos) / l->vec_stride;
	} else {
		if (l->batch_n_tokens == ABSENT ||
		    bpf_probe_read_user(&m->n_tokens, 4, (void *)(batch + l->batch_n_tokens)))
			return 0;
		if (l->batch_pos != ABSENT)
			b->pos = user_u64(batch + l->batch_pos);
		if (l->batch_seq_id != ABSENT)
			b->seq_id = user_u64(batch + l->batch_seq_id);
		if (l->batch_logits != ABSENT)
			b->logits = user_u64(batch + l->batch_logits);
	}
	if (m->n_tokens <= 0)
		return 0;
	if (m->n_tokens > MAX_BATCH)
		count_lost(LOST_READS); /* the sequences of the others are not told */
	b->n = m->n_tokens;
	b->run.type = REC_SEQ;
	b->run.tid = m->tid;
	b->run.ts = m->ts;
	bpf_loop(MAX_BATCH, batch_token, &w, 0);
	put_run(b);
	return b->most;
}

/* Notes the phase of the step that begins, for filters. */
static __always_inline void set_phase(struct site *s, struct mark *m, u32 most)
{
	u32 phase = PHASE_UNKNOWN;

	if (s->encodes || m->arg == 0)
		phase = PHASE_ENCODE;
	else if (m->n_tokens >= 0)
		phase = most > 1 ? PHASE_PREFILL : PHASE_DECODE;
	begin_phase(s, m->tid, phase);
}
