/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Which experts the tokens of a batch are routed to, in a mixture of experts.
 *
 * One operator of the engine, the layout's routing_op, uses a part of its weights only. Its source
 * routing_src says which: a matrix of 32-bit numbers, a row a token. It lies in memory that the graph uses
 * again, so it is copied while such an operator runs, by the thread that began the graph (struct
 * graph_thread).
 *   - Where begins of operators are probed, a begin names the operator's tensor: operator_begins.
 *   - Where only arrivals at the barrier behind each operator are, they are counted, and user space says at
 *     which of them such an operator ends and which node it is (struct routing_places): operator_arrives,
 *     before the thread passes the barrier. Graphs with the same operators in the same order share that.
 *     op_sequence, a hash of them, tells them apart.
 * Operators that share a matrix have one routing: it is copied once. It goes to user space in records of
 * some rows each.
 */
const volatile u32 routing_wanted = 0;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} routings SEC(".maps");

/* where a record is put together, of each CPU; taken while it is in use, as programs can be preempted */
struct routing_room {
	struct routing r;
	s32 row_behind[MAX_USED];	/* for the verifier: behind the last number a row fits */
	u64 taken;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct routing_room);
} routing_rooms SEC(".maps");

/* a thread that runs a graph, at its number modulo the size */
struct graph_thread {
	u32 tid;	/* 0: none */
	u32 arrivals;	/* so far */
	u32 next;	/* arrival at which a routing operator ends */
	u32 place;	/* its index in the sequence's places */
	u32 generation;	/* of the places when they were looked up */
	u32 pad;
	u64 op_sequence;	/* 0: not known */
	u64 nodes;	/* the graph's */
	u64 source;	/* that was copied last */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct graph_thread);
} graph_threads SEC(".maps");

const volatile u32 graph_thread_mask = 0;

struct op_sequence_key {
	u64 op_sequence;
	u32 owner;
	u32 pad;
};

/* where graphs with a sequence of operators have their routing operators: from user space */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, struct op_sequence_key);
	__type(value, struct routing_places);
} places_of SEC(".maps");

/* how often what places_of holds has changed */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} places_changed SEC(".maps");

/* the sequence of operators of a shape */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct shape_key);
	__type(value, u64);
} op_sequence_of SEC(".maps");

static __always_inline struct graph_thread *graph_thread_of(u32 tid)
{
	u32 i = tid & graph_thread_mask;

	return bpf_map_lookup_elem(&graph_threads, &i);
}

/* Copying a routing: its matrix, row by row, in records of as many rows as fit. */

struct row_walk {
	struct routing_room *room;
	u64 row;	/* the next one's address */
	u64 stride;
	u32 used, left;
	u32 failed;
};

static __always_inline void put_routing(struct routing_room *room)
{
	u32 n = room->r.n;

	if (n > MAX_NUMBERS)
		return;
	if (n && bpf_ringbuf_output(&routings, &room->r, ROUTING_HEAD + n * 4, BPF_RB_NO_WAKEUP))
		count_lost(LOST_ROUTING);
	room->r.first += room->r.rows;
	room->r.rows = 0;
	room->r.n = 0;
}

static __noinline long copy_row(u32 i, struct row_walk *w)
{
	struct routing_room *room = w->room;
	u32 used = w->used, n;

	if (!w->left)
		return 1;
	if (used > MAX_USED)
		return 1;
	if (room->r.n + used > MAX_NUMBERS)
		put_routing(room);
	n = room->r.n;
	if (n >= MAX_NUMBERS)
		return 1;
	if (bpf_probe_read_user((void *)&room->r.expert + n * 4, used * 4, (void *)w->row)) {
		w->failed = 1;
		return 1;
	}
	room->r.n = n + used;
	room->r.rows++;
	w->row += w->stride;
	w->left--;
	return 0;
}

/*
 * Finds the matrix of the operator whose tensor is at node, and its rows. 0: it is no routing operator, its
 * matrix was the last one copied, or no token of the batch comes here; -1: it could not be read.
 */
static __always_inline int find_matrix(struct layout *l, struct graph_thread *t, u64 node, struct row_walk *w)
{
	u64 ne[4], nb[4], src = 0;
	u32 op = ABSENT;

	bpf_probe_read_user(&op, 4, (void *)(node + l->tensor_op));
	if (op != l->routing_op)
		return 0;
	if (bpf_probe_read_user(&src, 8, (void *)(node + l->tensor_src + 8 * (u64)l->routing_src)) || !src)
		return -1;
	if (src == t->source)
		return 0;
	t->source = src;
	if (bpf_probe_read_user(ne, sizeof(ne), (void *)(src + l->tensor_ne)) ||
	    bpf_probe_read_user(nb, sizeof(nb), (void *)(src + l->tensor_nb)) ||
	    bpf_probe_read_user(&w->row, 8, (void *)(src + l->tensor_data)) || !w->row)
		return -1;
	if (!ne[0] || !ne[1])
		return 0;
	if (nb[0] != 4 || ne[0] > MAX_USED || ne[1] > MAX_TOKENS || ne[2] != 1 || ne[3] != 1)
		return -1;
	w->used = ne[0];
	w->left = ne[1];
	w->stride = nb[1];
	return 1;
}

/* Copies the routing of the operator whose tensor is at node, if it is one that has one. */
static __noinline int copy_routing(u64 ts, struct site *s, struct graph_thread *t, u64 node)
{
	struct layout *l;
	struct row_walk w = {};
	u32 cpu = bpf_get_smp_processor_id(), index;
	struct routing_room *room;
	int found;

	if (!s || !t)
		return 0;
	index = s->layout;
	l = bpf_map_lookup_elem(&layouts, &index);
	if (!l || l->routing_op == ABSENT || !node)
		return 0;
	found = find_matrix(l, t, node, &w);
	if (found < 0)
		count_lost(LOST_READS);
	if (found <= 0)
		return 0;
	room = bpf_map_lookup_elem(&routing_rooms, &cpu);
	if (!room)
		return 0;
	if (__sync_lock_test_and_set(&room->taken, 1)) {
		count_lost(LOST_ROUTING); /* of the thread that was preempted here */
		return 0;
	}
	w.room = room;
	room->r.ts = ts;
	room->r.tgid = s->tgid;
	room->r.tid = (u32)bpf_get_current_pid_tgid();
	room->r.node = node;
	room->r.source = t->source;
	room->r.used = w.used;
	room->r.tokens = w.left;
	room->r.first = 0;
	room->r.rows = 0;
	room->r.n = 0;
	bpf_loop(MAX_TOKENS, copy_row, &w, 0);
	put_routing(room);
	__sync_lock_test_and_set(&room->taken, 0);
	if (w.failed)
		count_lost(LOST_READS);
	return 0;
}

/* Counting arrivals: at which of them the thread's graph has its next routing operator. */

static __always_inline u32 places_generation(void)
{
	u32 zero = 0, *n = bpf_map_lookup_elem(&places_changed, &zero);

	return n ? *(volatile u32 *)n : 0;
}

struct place_walk {
	struct routing_places *places;
	u32 arrivals, place;
};

static long pass_place(u32 i, struct place_walk *w)
{
	struct routing_places *p = w->places;

	if (i >= p->n)
		return 1;
	asm volatile("" : "+r"(i)); /* what is compared next is what is used */
	if (i >= MAX_PLACES || p->at[i].arrival >= w->arrivals)
		return 1;
	w->place = i + 1;
	return 0;
}

/* Looks up the place that comes next. Places can become known while the graph runs. */
static __noinline int find_next_place(struct graph_thread *t, u32 owner)
{
	struct op_sequence_key key = { .owner = owner };
	struct place_walk w = {};

	if (!t)
		return 0;
	t->generation = places_generation();
	t->next = ~0u;
	key.op_sequence = t->op_sequence;
	w.places = bpf_map_lookup_elem(&places_of, &key);
	if (!w.places)
		return 0;
	w.arrivals = t->arrivals;
	bpf_loop(MAX_PLACES, pass_place, &w, 0);
	t->place = w.place;
	if (w.place < w.places->n && w.place < MAX_PLACES)
		t->next = w.places->at[w.place].arrival;
	return 0;
}

/* A routing operator ends at this arrival: copies its routing, and goes on to the place behind. */
static __noinline int take_place(u64 ts, struct site *s, struct graph_thread *t)
{
	struct op_sequence_key key = {};
	struct routing_places *p;
	u64 node = 0;
	u32 at;

	if (!s || !t)
		return 0;
	key.owner = s->owner;
	key.op_sequence = t->op_sequence;
	p = bpf_map_lookup_elem(&places_of, &key);
	at = t->place;
	t->next = ~0u;
	if (!p || at >= MAX_PLACES - 1) /* a list has one less */
		return 0;
	if (at + 1 < p->n) {
		t->place = at + 1;
		t->next = p->at[at + 1].arrival;
	}
	if (bpf_probe_read_user(&node, 8, (void *)(t->nodes + 8 * (u64)p->at[at].node)))
		count_lost(LOST_READS);
	else
		copy_routing(ts, s, t, node);
	return 0;
}

/* What the programs call. */

/* A thread begins a graph. */
static __always_inline void graph_begins(struct mark *m, struct layout *l, u32 owner)
{
	struct shape_key sk = { .shape = m->shape, .owner = owner };
	struct graph_thread *t = graph_thread_of(m->tid);
	u64 *op_sequence;

	if (!t)
		return;
	if (t->tid && t->tid != m->tid)
		count_lost(LOST_ROUTING); /* of a thread whose number ends alike: what its graph has from here on */
	op_sequence = m->shape ? bpf_map_lookup_elem(&op_sequence_of, &sk) : 0;
	t->arrivals = 0;
	t->source = 0;
	t->op_sequence = op_sequence ? *op_sequence : 0;
	t->nodes = 0;
	bpf_probe_read_user(&t->nodes, 8, (void *)(m->graph + l->graph_nodes));
	find_next_place(t, owner);
	t->tid = m->tid;
}

static __always_inline void graph_ends(u32 tid)
{
	struct graph_thread *t = graph_thread_of(tid);

	if (t && t->tid == tid)
		t->tid = 0;
}

/* A thread begins an operator. */
static __always_inline void operator_begins(u64 ts, struct site *s, u64 tensor)
{
	u32 tid = (u32)bpf_get_current_pid_tgid();
	struct graph_thread *t = graph_thread_of(tid);

	if (t && t->tid == tid)
		copy_routing(ts, s, t, tensor);
}

/* A thread arrives at the barrier that ends an operator. */
static __always_inline void operator_arrives(u64 ts, struct site *s)
{
	u32 tid = (u32)bpf_get_current_pid_tgid();
	struct graph_thread *t = graph_thread_of(tid);

	if (!t || t->tid != tid)
		return;
	if (t->generation != places_generation())
		find_next_place(t, s->owner);
	if (t->arrivals++ == t->next)
		take_place(ts, s, t);
}
