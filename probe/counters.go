// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/profinfer/profinfer/trace"
)

// Counters selects the counters to read at operators' hits. The zero value reads none.
type Counters struct {
	// Events are open, running counters of CPUs: for each event a file descriptor per CPU that has it,
	// counting whatever runs there. A thread's share is the difference between its samples; samples are also
	// taken when it leaves or gets a CPU.
	Events []map[int]int
	// Scaled: the events share hardware counters. The times each was enabled and running are sampled too.
	Scaled bool
	// Task samples the kernel's counts for each thread: see TaskFields.
	Task bool
}

// TaskFields are the values that Counters.Task adds, in their order.
var TaskFields = []string{"minor-faults", "major-faults", "context-switches", "cpu-migrations"}

// maxEvents is MAX_EVENTS in bpf/counters.h.
const maxEvents = 16

// NoValue stands for a value that could not be read: its event does not count on that CPU.
const NoValue = ^uint64(0)

// Any reports whether any are selected.
func (c *Counters) Any() bool { return len(c.Events) > 0 || c.Task }

// eventWords is the number of event values in a sample.
func (c *Counters) eventWords() int {
	if c.Scaled {
		return 3 * len(c.Events)
	}
	return len(c.Events)
}

// words is the number of values in the sample of a hit.
func (c *Counters) words() int {
	if c.Task {
		return c.eventWords() + len(TaskFields)
	}
	return c.eventWords()
}

// slack is the maximum number of slots that programs can take between checking for room and reserving it, a
// power of two.
func (c *Counters) slack() int {
	if !c.Any() {
		return 64
	}
	return 64 << bits.Len(uint(1+(c.words()+2)/2))
}

// TooManyCounters reports that more counters were requested than can be read at a hit.
type TooManyCounters struct{ N int }

func (e *TooManyCounters) Error() string {
	return fmt.Sprintf("%d counters: at most %d can be read at a time; ask for fewer events", e.N, maxEvents)
}

// set configures the object before it is loaded.
func (c *Counters) set(spec *ebpf.CollectionSpec) error {
	counted := []string{"op_begin_counted", "op_fused_counted", "op_end_counted"}
	if !c.Any() {
		for _, name := range counted { // only these need BTF
			spec.Programs[name].Instructions = nothing()
		}
		return nil
	}
	if len(c.Events) > maxEvents {
		return &TooManyCounters{len(c.Events)}
	}
	vars := map[string]uint32{"events": uint32(len(c.Events)), "slack": uint32(c.slack())}
	if c.Scaled {
		vars["events_scaled"] = 1
	}
	if c.Task {
		vars["task_fields"] = 1
	}
	for name, v := range vars {
		if err := spec.Variables[name].Set(v); err != nil {
			return fmt.Errorf("setting up counters: %w", err)
		}
	}
	return nil
}

// fill passes the events to the kernel side. The returned maps must stay open: an array of events is emptied
// when the file descriptor that filled it is closed.
func (c *Counters) fill(outer *ebpf.Map, cpus int) (keep []*ebpf.Map, err error) {
	for i, fds := range c.Events {
		m, err := ebpf.NewMap(&ebpf.MapSpec{Name: "event", Type: ebpf.PerfEventArray, KeySize: 4,
			ValueSize: 4, MaxEntries: uint32(cpus)})
		if err != nil {
			return keep, fmt.Errorf("counter %d: %w", i, err)
		}
		keep = append(keep, m)
		if err := c.events(m, fds, cpus); err != nil {
			return keep, fmt.Errorf("counter %d: %w", i, err)
		}
		if err := outer.Put(uint32(i), m); err != nil {
			return keep, fmt.Errorf("counter %d: %w", i, err)
		}
	}
	return keep, nil
}

func (c *Counters) events(m *ebpf.Map, fds map[int]int, cpus int) error {
	for cpu, fd := range fds {
		if cpu < 0 || cpu >= cpus {
			continue
		}
		if err := m.Put(uint32(cpu), uint32(fd)); err != nil {
			return fmt.Errorf("on CPU %d: %w", cpu, err)
		}
	}
	return nil
}

// take reads the n values that follow a hit.
func (b *buffer) take(n int, to []uint64) []uint64 {
	mask := uint64(len(b.slots) - 1)
	for i := range n {
		s := &b.slots[b.next&mask]
		if i&1 == 0 {
			to = append(to, s.Ts)
			continue
		}
		to = append(to, uint64(s.Meta)<<32|uint64(s.Tid))
		s.Ts = 0
		b.next++
	}
	if n&1 == 1 {
		b.slots[b.next&mask].Ts = 0
		b.next++
	}
	return to
}

// sample takes the values that follow a hit whose own slots were taken.
func (b *buffer) sample(h *trace.Hit, c *Counters, e *Events) {
	s := trace.Sample{Time: h.Time, PID: h.PID, TID: h.TID, CPU: h.CPU}
	words := c.words() + 1
	switch h.Kind {
	case hitOff, hitOn:
		words = c.eventWords()
		s.Kind = trace.SampleOff
		if h.Kind == hitOn {
			s.Kind = trace.SampleOn
		}
	case trace.HitOpEnd:
		s.Kind = trace.SampleEnd
	default:
		s.Kind = trace.SampleBegin
	}
	e.values = slices.Grow(e.values, words)
	from := len(e.values)
	e.values = b.take(words, e.values)
	s.Values = e.values[from:len(e.values):len(e.values)]
	if h.Kind != hitOff && h.Kind != hitOn {
		s.Torn, s.Values = s.Values[0] != 0, s.Values[1:]
	}
	e.Samples = append(e.Samples, s)
}
