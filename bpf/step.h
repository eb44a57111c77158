/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A step's batch: how many tokens, of which sequences, and whose logits are asked for. */

static __always_inline void put_mark(struct mark *m)
{
	if (bpf_ringbuf_output(&marks, m, sizeof(*m), BPF_RB_NO_WAKEUP))
		count_lost(LOST_MARKS);
}

struct batch_walk {
	struct layout *l;
	struct mark *m;
	u64 pos, seq_id, logits;	/* arrays; for a vector pos is the first token */
	u32 kind, n;
	u32 most;	/* tokens of one sequence */
	struct seq run;
};

static __always_inline void put_run(struct batch_walk *w)
{
	if (w->run.n_tokens == 0)
		return;
	if (bpf_ringbuf_output(&marks, &w->run, sizeof(w->run), BPF_RB_NO_WAKEUP))
		count_lost(LOST_MARKS);
}

static __noinline long batch_token(u32 i, struct batch_walk *w)
{
	struct layout *l = w->l;
	s32 seq = 0, pos = -1;
	u64 p = 0;
	u8 out = 0;

	if (i >= w->n)
		return 1;
	if (w->kind == BATCH_VECTOR) {
		u64 token = w->pos + (u64)i * l->vec_stride;

		if (l->vec_seq_head != ABSENT) {
			bpf_probe_read_user(&p, 8, (void *)(token + l->vec_seq_head));
			if (p)
				bpf_probe_read_user(&seq, 4, (void *)(p + l->vec_seq_val));
		}
		if (l->vec_pos != ABSENT) {
			p = token + l->vec_pos;
			if (l->vec_pos_indirect)
				bpf_probe_read_user(&p, 8, (void *)p);
			if (p)
				bpf_probe_read_user(&pos, 4, (void *)p);
		}
		if (l->vec_output != ABSENT)
			bpf_probe_read_user(&out, 1, (void *)(token + l->vec_output));
	} else {
		if (w->seq_id) {
			bpf_probe_read_user(&p, 8, (void *)(w->seq_id + (u64)i * 8));
			if (p)
				bpf_probe_read_user(&seq, 4, (void *)p);
		}
		if (w->pos)
			bpf_probe_read_user(&pos, 4, (void *)(w->pos + (u64)i * 4));
		/* no flags: the last token's logits are asked for */
		if (w->logits)
			bpf_probe_read_user(&out, 1, (void *)(w->logits + i));
		else
			out = i + 1 == w->n;
	}
	if (w->run.n_tokens && w->run.seq != seq) {
		put_run(w);
		w->run.n_tokens = 0;
		w->run.outputs = 0;
	}
	if (w->run.n_tokens == 0) {
		w->run.seq = seq;
		w->run.pos = pos;
	}
	w->run.n_tokens++;
	if (w->run.n_tokens > (s32)w->most)
		w->most = w->run.n_tokens;
	w->run.outputs += out != 0;
	return 0;
}

/* Returns the most tokens in a row of one sequence. */
static __always_inline u32 read_batch(struct mark *m, struct layout *l, u32 kind, u64 batch)
{
	struct batch_walk w = { .l = l, .kind = kind };
	u64 end = 0;

	if (kind == BATCH_NONE || !batch)
		return 0;
	if (kind == BATCH_VECTOR) {
		if (l->vec_begin == ABSENT || !l->vec_stride ||
		    bpf_probe_read_user(&w.pos, 8, (void *)(batch + l->vec_begin)) ||
		    bpf_probe_read_user(&end, 8, (void *)(batch + l->vec_end)) || end < w.pos)
			return 0;
		m->n_tokens = (end - w.pos) / l->vec_stride;
	} else {
		if (l->batch_n_tokens == ABSENT ||
		    bpf_probe_read_user(&m->n_tokens, 4, (void *)(batch + l->batch_n_tokens)))
			return 0;
		if (l->batch_pos != ABSENT)
			bpf_probe_read_user(&w.pos, 8, (void *)(batch + l->batch_pos));
		if (l->batch_seq_id != ABSENT)
			bpf_probe_read_user(&w.seq_id, 8, (void *)(batch + l->batch_seq_id));
		if (l->batch_logits != ABSENT)
			bpf_probe_read_user(&w.logits, 8, (void *)(batch + l->batch_logits));
	}
	if (m->n_tokens <= 0)
		return 0;
	if (m->n_tokens > MAX_BATCH)
		count_lost(LOST_READS); /* the sequences of the others are not told */
	w.n = m->n_tokens;
	w.run.type = REC_SEQ;
	w.run.tid = m->tid;
	w.run.ts = m->ts;
	bpf_loop(MAX_BATCH, batch_token, &w, 0);
	put_run(&w);
	return w.most;
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
