/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Counters: read at operators' hits, and where a thread leaves or gets a CPU, as an event of the
 * CPU counts on for whoever runs there next. Values stand in the slots behind the hit's own, so
 * that they are whole when it is.
 */
#define MAX_EVENTS 16
#define NO_VALUE (~0ULL)

const volatile u32 events = 0;		/* of the CPU: counters[event][cpu] */
const volatile u32 events_scaled = 0;	/* they share counters: their times are read too */
const volatile u32 task_fields = 0;	/* what the kernel counts for each thread */

struct event_array {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, 4);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, MAX_EVENTS);
	__type(key, u32);
	__array(values, struct event_array);
} counters SEC(".maps");

struct event_value {
	u64 counter, enabled, running;
};

#define EVENT_WORDS (events * (events_scaled ? 3 : 1))

static __always_inline void put_word(struct buffer *b, u32 at, u32 word, u64 v)
{
	struct slot *s = slot_at(b, at + (word >> 1));

	if (word & 1)
		*(u64 *)&s->tid = v;
	else
		s->ts = v;
}

/* A function of its own, called for each event: a loop makes the verifier of 6.12 fail. */
static __noinline u32 put_event(struct buffer *b, u32 at, u32 word, u32 event)
{
	struct event_value v = {};
	void *of_cpus = bpf_map_lookup_elem(&counters, &event);

	if (!of_cpus || bpf_perf_event_read_value(of_cpus, bpf_get_smp_processor_id(), (void *)&v, sizeof(v)))
		v.counter = NO_VALUE;
	put_word(b, at, word, v.counter);
	if (events_scaled) {
		put_word(b, at, word + 1, v.enabled);
		put_word(b, at, word + 2, v.running);
	}
	return 0;
}

static __always_inline u32 put_events(struct buffer *b, u32 at, u32 word)
{
	u32 i;

#pragma unroll
	for (i = 0; i < MAX_EVENTS; i++)
		if (i < events)
			put_event(b, at, word + i * (events_scaled ? 3 : 1), i);
	return word + EVENT_WORDS;
}

static __always_inline u32 put_task(struct buffer *b, u32 at, u32 word)
{
	struct task_struct *t = (void *)bpf_get_current_task();

	put_word(b, at, word++, BPF_CORE_READ(t, min_flt));
	put_word(b, at, word++, BPF_CORE_READ(t, maj_flt));
	put_word(b, at, word++, BPF_CORE_READ(t, nvcsw) + BPF_CORE_READ(t, nivcsw));
	put_word(b, at, word++, BPF_CORE_READ(t, se.nr_migrations));
	return word;
}

static __always_inline u64 switches(void)
{
	struct task_struct *t = (void *)bpf_get_current_task();

	return BPF_CORE_READ(t, nvcsw) + BPF_CORE_READ(t, nivcsw);
}

/*
 * The sample of a hit: bit 0 says that the thread lost its CPU meanwhile, so that values can be
 * another's; then the values. Behind them nothing is done any more at a begin, before them
 * nothing at an end: what the probe itself costs stays out as far as it can.
 */
#define SAMPLE_SLOTS ((1 + EVENT_WORDS + (task_fields ? 4 : 0) + 1) / 2)

static __always_inline void put_sample(struct buffer *b, u32 at)
{
	u64 before = switches();
	u32 word = put_events(b, at, 1);

	if (task_fields)
		put_task(b, at, word);
	put_word(b, at, 0, switches() != before);
}

/* a thread leaves its CPU, or gets one */
static __always_inline void put_switch(u64 ts, u32 kind, u32 proc, u32 tid)
{
	u32 i;
	struct buffer *b = reserve(1 + (EVENT_WORDS + 1) / 2, &i);
	struct slot *s;

	if (!b)
		return;
	put_events(b, i + 1, 0);
	s = slot_at(b, i);
	s->tid = tid;
	s->meta = proc << 24 | kind << 21;
	commit(s, ts);
}
