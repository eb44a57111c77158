/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Who is this graph? Its definition is copied when its shape is new, else only its identity
 * is told: a hash over the words of its tensors that the layout names. Where the engine
 * numbers its graphs (uid), the hash of a number is remembered and the walk left out.
 */

struct uid_key {
	u64 uid, graph;
	u32 owner, n_nodes;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct uid_key);
	__type(value, u64);
} uids SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct shape_key);
	__type(value, u8);
} known SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct shape_key);
	__type(value, u8);
} copied SEC(".maps");

struct words {
	u32 w[TENSOR_WORDS];
};

/* Room for one tensor by thread: programs can be preempted, so it cannot be by CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, u32);
	__type(value, struct words);
} scratch SEC(".maps");

static struct words zero_words;

struct walk {
	struct layout *l;
	struct words *room;
	u64 nodes;
	u64 shape;
	u64 op_sequence;	/* so far: experts.h */
	u32 tgid;
	u32 n;	/* in the upper half of 8 bytes: see below */
	u32 n_defs;
	u32 failed;
	u32 full;
	u32 pass;
	u32 owner;
};

/*
 * All loops run to a constant and end themselves: a count that lies on the stack makes the
 * verifier of Linux 6.18 end with EFAULT when it tracks where the number came from, which it does
 * of the lower half of 8 bytes.
 */

static __always_inline u64 mix(u64 h, u64 v)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15ULL;
	return h ^ (h >> 29);
}

static __always_inline u32 word_at(struct words *t, u32 off)
{
	u32 i = off >> 2;

	/* else the offset is compared, of which the verifier does not know that it is a multiple */
	asm volatile("" : "+r"(i));
	return i < TENSOR_WORDS ? t->w[i] : 0; /* one that is absent lies behind the end */
}

static long hash_node(u32 i, struct walk *w)
{
	struct layout *l = w->l;
	struct words *t = w->room;
	u64 addr = 0, view = 0, h = w->shape, m0, m1;
	u32 size = l->tensor_size;
	int k;

	if (i >= w->n)
		return 1;
	if (size > TENSOR_MAX)
		size = TENSOR_MAX;
	if (bpf_probe_read_user(&addr, 8, (void *)(w->nodes + (u64)i * 8)) ||
	    bpf_probe_read_user(t, size, (void *)addr)) {
		w->failed++;
		return w->failed > 64;
	}
	bpf_probe_read_user(&view, 8, (void *)(addr + l->tensor_view_src));
	m0 = l->always[0];
	m1 = l->always[1];
	if (!view) {
		m0 |= l->own[0];
		m1 |= l->own[1];
	}
	h = mix(h, addr);
	/* masked, not branched upon: the verifier would follow every combination of bits */
	for (k = 0; k < 64; k++)
		h = mix(h, t->w[k] & -((m0 >> k) & 1));
	for (k = 0; k < TENSOR_WORDS - 64; k++)
		h = mix(h, t->w[64 + k] & -((m1 >> k) & 1));
	w->shape = h;
	if (routing_wanted)
		w->op_sequence = mix(mix(w->op_sequence, word_at(t, l->tensor_op)), word_at(t, l->tensor_flags));
	return 0;
}

/* Copies one tensor into the ring of definitions. Returns 0 if it is there. */
static __always_inline int copy_tensor(struct walk *w, u32 type, u32 index, u64 addr)
{
	struct shape_key key = { .shape = w->shape, .addr = addr, .owner = w->owner, .pass = w->pass };
	u32 size = w->l->tensor_size;
	struct def *d;
	u8 one = 1;

	if (type == REC_LEAF && bpf_map_lookup_elem(&copied, &key))
		return 0;
	d = bpf_ringbuf_reserve(&defs, sizeof(*d), 0);
	if (!d) {
		w->full = 1;
		return -1;
	}
	if (size > TENSOR_MAX)
		size = TENSOR_MAX;
	d->type = type;
	d->tgid = w->tgid;
	d->shape = w->shape;
	d->addr = addr;
	d->index = index;
	d->size = size;
	if (bpf_probe_read_user(d->raw, size, (void *)addr)) {
		d->size = 0;
		w->failed++;
	}
	bpf_ringbuf_submit(d, BPF_RB_NO_WAKEUP);
	bpf_map_update_elem(&copied, &key, &one, BPF_ANY);
	w->n_defs++;
	return 0;
}

static long copy_node(u32 i, struct walk *w)
{
	struct layout *l = w->l;
	u64 addr = 0, src;
	int k;

	if (i >= w->n)
		return 1;
	if (bpf_probe_read_user(&addr, 8, (void *)(w->nodes + (u64)i * 8))) {
		w->failed++;
		return w->failed > 64;
	}
	if (copy_tensor(w, REC_NODE, i, addr))
		return 1;
	/* its sources: what is no node before it is a leaf */
	for (k = 0; k < 16; k++) {
		if (k >= l->max_src)
			break;
		src = 0;
		bpf_probe_read_user(&src, 8, (void *)(addr + l->tensor_src + (u64)k * 8));
		if (src && copy_tensor(w, REC_LEAF, i, src))
			return 1;
	}
	src = 0;
	bpf_probe_read_user(&src, 8, (void *)(addr + l->tensor_view_src));
	if (src && copy_tensor(w, REC_LEAF, i, src))
		return 1;
	return 0;
}

static __always_inline int define(struct mark *m, struct walk *w)
{
	struct shape_key key = { .shape = w->shape, .owner = w->owner };
	struct shape_end *e;
	u8 one = 1;

	w->pass = m->ts;
	w->n_defs = 0;
	w->failed = 0;
	w->full = 0;
	bpf_loop(MAX_NODES, copy_node, w, 0);
	if (!w->full) {
		e = bpf_ringbuf_reserve(&defs, sizeof(*e), 0);
		if (e) {
			e->type = REC_SHAPE_END;
			e->tgid = w->tgid;
			e->shape = w->shape;
			e->ts = m->ts;
			e->n_nodes = w->n;
			e->n_defs = w->n_defs;
			e->failed = w->failed;
			e->claimed = m->n_nodes;
			e->op_sequence = w->op_sequence;
			bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
			bpf_map_update_elem(&known, &key, &one, BPF_ANY);
			return 0;
		}
	}
	/* not known, so that it is tried again at the graph's next run */
	count_lost(LOST_DEFS);
	return 0;
}

static __always_inline void identify(struct mark *m, struct layout *l, u32 owner)
{
	struct walk w = { .l = l, .tgid = m->tgid, .owner = owner };
	struct uid_key uk = { .graph = m->graph, .owner = owner };
	struct shape_key sk = { .owner = owner };
	u64 *hash;
	u32 n, tid = m->tid;

	if (bpf_probe_read_user(&m->n_nodes, 4, (void *)(m->graph + l->graph_n_nodes)) ||
	    bpf_probe_read_user(&w.nodes, 8, (void *)(m->graph + l->graph_nodes))) {
		count_lost(LOST_READS);
		return;
	}
	if (l->graph_uid != ABSENT)
		bpf_probe_read_user(&m->uid, 8, (void *)(m->graph + l->graph_uid));
	if (m->n_nodes <= 0 || m->n_nodes > MAX_NODES) {
		count_lost(LOST_READS);
		return;
	}
	w.n = n = m->n_nodes;
	if (m->uid) {
		uk.uid = m->uid;
		uk.n_nodes = n;
		hash = bpf_map_lookup_elem(&uids, &uk);
		if (hash) {
			m->shape = *hash;
			sk.shape = *hash;
			if (bpf_map_lookup_elem(&known, &sk))
				return;
		}
	}
	w.room = bpf_map_lookup_elem(&scratch, &tid);
	if (!w.room) {
		bpf_map_update_elem(&scratch, &tid, &zero_words, BPF_ANY);
		w.room = bpf_map_lookup_elem(&scratch, &tid);
		if (!w.room) {
			count_lost(LOST_READS);
			return;
		}
	}
	w.shape = mix(0x70726f66696e6665ULL, n);
	bpf_loop(MAX_NODES, hash_node, &w, 0);
	if (!w.shape)
		w.shape = 1;
	m->shape = w.shape;
	if (m->uid)
		bpf_map_update_elem(&uids, &uk, &w.shape, BPF_ANY);
	sk.shape = w.shape;
	if (routing_wanted)
		bpf_map_update_elem(&op_sequence_of, &sk, &w.op_sequence, BPF_ANY);
	if (!bpf_map_lookup_elem(&known, &sk))
		define(m, &w);
}
