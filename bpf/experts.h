/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Choices: one operator of the engine (of the layout's number choose_op) has a source, choose_src,
 * that says which planes of its weights each token uses: a matrix of 32-bit numbers, a row a token. It
 * lies in memory that the graph uses again, so it is copied while the operator runs: by the
 * thread that the graph was begun on, at the operator's begin or, where only arrivals are
 * probed, at its arrival, before that thread passes the barrier. Which arrival that is user space says, by
 * graphs of one kin: those that have the same operators. Operators that share the matrix are one
 * choice: it is copied once.
 */
const volatile u32 choosing = 0;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} choices SEC(".maps");

/* room for a record on its way to the ring, of each CPU; taken while it is in use, as programs can be preempted */
struct chosen_room {
	struct chosen c;
	s32 spill[MAX_USED];	/* for the verifier: behind the last value a row fits */
	u64 taken;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct chosen_room);
} chosen_rooms SEC(".maps");

/* the graph that a thread runs, at its number modulo the size */
struct runner {
	u32 tid;	/* 0: none */
	u32 arrivals;	/* so far */
	u32 next;	/* arrival at which an operator that chooses ends */
	u32 at;		/* its place in the kin's list */
	u32 told;	/* kin_changes when that was looked up */
	u32 pad;
	u64 kin;	/* 0: not known */
	u64 nodes;	/* the graph's */
	u64 source;	/* that was copied last */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct runner);
} runners SEC(".maps");

const volatile u32 runner_mask = 0;

struct kin_key {
	u64 kin;
	u32 owner;
	u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, struct kin_key);
	__type(value, struct kin);
} kins SEC(".maps");

/* how often what kins hold has changed */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} kin_changes SEC(".maps");

/* the kin of a shape */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct shape_key);
	__type(value, u64);
} kin_of SEC(".maps");

static __always_inline struct runner *runner_of(u32 tid)
{
	u32 i = tid & runner_mask;

	return bpf_map_lookup_elem(&runners, &i);
}

struct choice_walk {
	struct chosen_room *r;
	u64 row;	/* the next one's address */
	u64 stride;
	u32 used, left;
	u32 failed;
};

static __always_inline void put_chosen(struct chosen_room *r)
{
	u32 n = r->c.n;

	if (n > MAX_CHOSEN)
		return;
	if (n && bpf_ringbuf_output(&choices, &r->c, CHOSEN_HEAD + n * 4, BPF_RB_NO_WAKEUP))
		count_lost(LOST_CHOSEN);
	r->c.first += r->c.rows;
	r->c.rows = 0;
	r->c.n = 0;
}

static __noinline long choice_row(u32 i, struct choice_walk *w)
{
	struct chosen_room *r = w->r;
	u32 used = w->used, n;

	if (!w->left)
		return 1;
	if (used > MAX_USED)
		return 1;
	if (r->c.n + used > MAX_CHOSEN)
		put_chosen(r);
	n = r->c.n;
	if (n >= MAX_CHOSEN)
		return 1;
	if (bpf_probe_read_user((void *)&r->c.expert + n * 4, used * 4, (void *)w->row)) {
		w->failed = 1;
		return 1;
	}
	r->c.n = n + used;
	r->c.rows++;
	w->row += w->stride;
	w->left--;
	return 0;
}

/* Copies the choice of the operator whose tensor is at addr, unless it was the last one copied. */
static __noinline int choose(u64 ts, struct site *s, struct runner *ru, u64 addr)
{
	struct layout *l;
	struct choice_walk w = {};
	u64 src = 0, ne[4], nb[4];
	u32 cpu = bpf_get_smp_processor_id(), index, op = ABSENT;
	struct chosen_room *r;

	if (!s || !ru)
		return 0;
	index = s->layout;
	l = bpf_map_lookup_elem(&layouts, &index);
	if (!l || l->choose_op == ABSENT || !addr)
		return 0;
	bpf_probe_read_user(&op, 4, (void *)(addr + l->tensor_op));
	if (op != l->choose_op)
		return 0;
	if (bpf_probe_read_user(&src, 8, (void *)(addr + l->tensor_src + 8 * (u64)l->choose_src)) || !src)
		goto unread;
	if (src == ru->source)
		return 0;
	ru->source = src;
	if (bpf_probe_read_user(ne, sizeof(ne), (void *)(src + l->tensor_ne)) ||
	    bpf_probe_read_user(nb, sizeof(nb), (void *)(src + l->tensor_nb)) ||
	    bpf_probe_read_user(&w.row, 8, (void *)(src + l->tensor_data)) || !w.row)
		goto unread;
	if (!ne[0] || !ne[1])
		return 0; /* no token of the batch comes here */
	if (nb[0] != 4 || ne[0] > MAX_USED || ne[1] > MAX_TOKENS || ne[2] != 1 || ne[3] != 1)
		goto unread;
	r = bpf_map_lookup_elem(&chosen_rooms, &cpu);
	if (!r)
		return 0;
	if (__sync_lock_test_and_set(&r->taken, 1)) {
		count_lost(LOST_CHOSEN); /* of the thread that was preempted here */
		return 0;
	}
	w.r = r;
	w.used = ne[0];
	w.left = ne[1];
	w.stride = nb[1];
	r->c.ts = ts;
	r->c.tgid = s->tgid;
	r->c.tid = (u32)bpf_get_current_pid_tgid();
	r->c.node = addr;
	r->c.source = src;
	r->c.used = ne[0];
	r->c.tokens = ne[1];
	r->c.first = 0;
	r->c.rows = 0;
	r->c.n = 0;
	bpf_loop(MAX_TOKENS, choice_row, &w, 0);
	put_chosen(r);
	__sync_lock_test_and_set(&r->taken, 0);
	if (!w.failed)
		return 0;
unread:
	count_lost(LOST_READS);
	return 0;
}

static __always_inline u32 changes(void)
{
	u32 zero = 0, *n = bpf_map_lookup_elem(&kin_changes, &zero);

	return n ? *(volatile u32 *)n : 0;
}

struct kin_walk {
	struct kin *k;
	u32 arrivals, at;
};

static long kin_place(u32 i, struct kin_walk *w)
{
	struct kin *k = w->k;

	if (i >= k->n)
		return 1;
	asm volatile("" : "+r"(i)); /* what is compared next is what is used */
	if (i >= MAX_KIN || k->at[i].arrival >= w->arrivals)
		return 1;
	w->at = i + 1;
	return 0;
}

/* Looks up where the thread's graph chooses next. That can become known while it runs. */
static __noinline int ask_kin(struct runner *ru, u32 owner)
{
	struct kin_key kk = { .owner = owner };
	struct kin_walk w = {};

	if (!ru)
		return 0;
	ru->told = changes();
	ru->next = ~0u;
	kk.kin = ru->kin;
	w.k = bpf_map_lookup_elem(&kins, &kk);
	if (!w.k)
		return 0;
	w.arrivals = ru->arrivals;
	bpf_loop(MAX_KIN, kin_place, &w, 0);
	ru->at = w.at;
	if (w.at < w.k->n && w.at < MAX_KIN)
		ru->next = w.k->at[w.at].arrival;
	return 0;
}

/* A thread begins a graph. */
static __always_inline void run_graph(struct mark *m, struct layout *l, u32 owner)
{
	struct shape_key sk = { .shape = m->shape, .owner = owner };
	struct runner *ru = runner_of(m->tid);
	u64 *kin;

	if (!ru)
		return;
	if (ru->tid && ru->tid != m->tid)
		count_lost(LOST_CHOSEN); /* of a thread whose number ends alike: what its graph chooses from here on */
	kin = m->shape ? bpf_map_lookup_elem(&kin_of, &sk) : 0;
	ru->arrivals = 0;
	ru->source = 0;
	ru->kin = kin ? *kin : 0;
	ru->nodes = 0;
	bpf_probe_read_user(&ru->nodes, 8, (void *)(m->graph + l->graph_nodes));
	ask_kin(ru, owner);
	ru->tid = m->tid;
}

static __always_inline void ran_graph(u32 tid)
{
	struct runner *ru = runner_of(tid);

	if (ru && ru->tid == tid)
		ru->tid = 0;
}

/* An operator begins. */
static __always_inline void begins_choice(u64 ts, struct site *s, u64 tensor)
{
	u32 tid = (u32)bpf_get_current_pid_tgid();
	struct runner *ru = runner_of(tid);

	if (ru && ru->tid == tid)
		choose(ts, s, ru, tensor);
}

static __noinline int ends_choice(u64 ts, struct site *s, struct runner *ru)
{
	struct kin_key kk = {};
	struct kin *k;
	u64 addr = 0;
	u32 at;

	if (!s || !ru)
		return 0;
	kk.owner = s->owner;
	kk.kin = ru->kin;
	k = bpf_map_lookup_elem(&kins, &kk);
	at = ru->at;
	ru->next = ~0u;
	if (!k || at >= MAX_KIN - 1) /* a list has one less */
		return 0;
	if (at + 1 < k->n) {
		ru->at = at + 1;
		ru->next = k->at[at + 1].arrival;
	}
	if (bpf_probe_read_user(&addr, 8, (void *)(ru->nodes + 8 * (u64)k->at[at].node)))
		count_lost(LOST_READS);
	else
		choose(ts, s, ru, addr);
	return 0;
}

/* A thread arrives at the barrier that ends an operator. */
static __always_inline void arrives_choice(u64 ts, struct site *s)
{
	u32 tid = (u32)bpf_get_current_pid_tgid();
	struct runner *ru = runner_of(tid);

	if (!ru || ru->tid != tid)
		return;
	if (ru->told != changes())
		ask_kin(ru, s->owner);
	if (ru->arrivals++ == ru->next)
		ends_choice(ts, s, ru);
}
