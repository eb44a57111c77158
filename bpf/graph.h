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

/* what copying a tensor needs and counts: no pointers, so that it can be handed to a global function */
struct copying {
	u64 shape;
	u32 tgid;
	u32 owner;
	u32 pass;
	u32 size;	/* of a tensor */
	u32 n_defs;
	u32 failed;
	u32 full;
	u32 pad;	/* all of it is initialized: older verifiers ask for that */
};

struct walk {
	struct layout *l;
	struct words *room;
	u64 nodes;
	u64 shape;
	u64 op_sequence;	/* so far: experts.h */
	u32 tgid;
	u32 n;	/* in the upper half of 8 bytes: see below */
	u32 failed;
	u32 owner;
	struct copying copying;
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

/* Mixes the words of a tensor that the masks name into a hash. Global: as copy_tensor. */
__noinline u64 hash_words(struct words *t, u64 h, u64 m0, u64 m1)
{
	int k;

	if (!t)
		return h;
	/* masked, not branched upon: the verifier would follow every combination of bits */
	for (k = 0; k < 64; k++)
		h = mix(h, t->w[k] & -((m0 >> k) & 1));
	for (k = 0; k < TENSOR_WORDS - 64; k++)
		h = mix(h, t->w[64 + k] & -((m1 >> k) & 1));
	return h;
}

static long hash_node(u32 i, struct walk *w)
{
	struct layout *l = w->l;
	struct words *t = w->room;
	u64 addr = 0, m0, m1;
	u32 size = l->tensor_size;

	if (i >= w->n)
		return 1;
	if (size > TENSOR_MAX)
		size = TENSOR_MAX;
	if (bpf_probe_read_user(&addr, 8, (void *)(w->nodes + (u64)i * 8)) ||
	    bpf_probe_read_user(t, size, (void *)addr)) {
		w->failed++;
		return w->failed > 64;
	}
	m0 = l->always[0];
	m1 = l->always[1];
	if (!user_u64(addr + l->tensor_view_src)) {
		m0 |= l->own[0];
		m1 |= l->own[1];
	}
	w->shape = hash_words(t, mix(w->shape, addr), m0, m1);
	if (routing_wanted)
		w->op_sequence = mix(mix(w->op_sequence, word_at(t, l->tensor_op)), word_at(t, l->tensor_flags));
	return 0;
}

/*
 * Copies one tensor into the ring of definitions. Returns 0 if it is there. Global: the verifier looks at it
 * once, and not on each of the paths that lead to its calls.
 */
__noinline int copy_tensor(struct copying *c, u32 type, u32 index, u64 addr)
{
	struct shape_key key = {};
	struct def *d;
	u32 size;
	u8 one = 1;

	if (!c)
		return -1;
	key.shape = c->shape;
	key.addr = addr;
	key.owner = c->owner;
	key.pass = c->pass;
	if (type == REC_LEAF && bpf_map_lookup_elem(&copied, &key))
		return 0;
	d = bpf_ringbuf_reserve(&defs, sizeof(*d), 0);
	if (!d) {
		c->full = 1;
		return -1;
	}
	size = c->size;
	if (size > TENSOR_MAX)
		size = TENSOR_MAX;
	d->type = type;
	d->tgid = c->tgid;
	d->shape = c->shape;
	d->addr = addr;
	d->index = index;
	d->size = size;
	if (bpf_probe_read_user(d->raw, size, (void *)addr)) {
		d->size = 0;
		c->failed++;
	}
	bpf_ringbuf_submit(d, BPF_RB_NO_WAKEUP);
	bpf_map_update_elem(&copied, &key, &one, BPF_ANY);
	c->n_defs++;
	return 0;
}

/* Copies what a node is computed from: what is no node before it is a leaf. Global: as copy_tensor. */
__noinline int copy_sources(struct copying *c, struct layout *l, u32 index, u64 addr)
{
	u64 src;
	int k;

	if (!c || !l)
		return -1;
	for (k = 0; k < 16; k++) {
		if (k >= l->max_src)
			break;
		src = user_u64(addr + l->tensor_src + (u64)k * 8);
		if (src && copy_tensor(c, REC_LEAF, index, src))
			return -1;
	}
	src = user_u64(addr + l->tensor_view_src);
	if (src && copy_tensor(c, REC_LEAF, index, src))
		return -1;
	return 0;
}

static long copy_node(u32 i, struct walk *w)
{
	u64 addr = 0;

	if (i >= w->n)
		return 1;
	if (bpf_probe_read_user(&addr, 8, (void *)(w->nodes + (u64)i * 8))) {
		w->copying.failed++;
		return w->copying.failed > 64;
	}
	return copy_tensor(&w->copying, REC_NODE, i, addr) || copy_sources(&w->copying, w->l, i, addr);
}

static __always_inline int define(struct mark *m, struct walk *w)
{
	struct shape_key key = { .shape = w->shape, .owner = w->owner };
	struct copying *c = &w->copying;
	struct shape_end *e;
	u8 one = 1;

	c->shape = w->shape;
	c->tgid = w->tgid;
	c->owner = w->owner;
	c->pass = m->ts;
	c->size = w->l->tensor_size;
	bpf_loop(MAX_NODES, copy_node, w, 0);
	if (!c->full) {
		e = bpf_ringbuf_reserve(&defs, sizeof(*e), 0);
		if (e) {
			e->type = REC_SHAPE_END;
			e->tgid = w->tgid;
			e->shape = w->shape;
			e->ts = m->ts;
			e->n_nodes = w->n;
			e->n_defs = c->n_defs;
			e->failed = c->failed;
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
