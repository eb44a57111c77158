// SPDX-License-Identifier: Apache-2.0

package perfetto

import (
	"maps"
	"slices"

	"github.com/profinfer/profinfer/internal/clean"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/summary"
	"github.com/profinfer/profinfer/trace"
)

// pause is how long a thread may be outside operators, ns, before its counters fall to 0.
const pause = 100_000

// counts draws counters: an operator's values on its slices, and tracks below each thread with what was
// counted while it computed.
type counts struct {
	counters             []trace.Counter
	instructions, cycles int // -1: not counted
	rows                 map[threadKey]*countRow
	names                [2][]string // of annotations: each counter's, then of IPC
}

// Whose values are annotated.
const (
	ofThread = iota
	ofOperator
)

// countRow is a thread's tracks.
type countRow struct {
	tracks []countTrack // of each counter, then IPC
	end    int64        // of the previous operator
}

// countTrack is described when it first has a nonzero value: most threads never migrate.
type countTrack struct {
	*track
	v float64
}

func (c *counts) set(counters []trace.Counter) {
	c.counters = counters
	c.instructions, c.cycles = summary.CounterPair(counters, "instructions", "cycles")
	if c.rows == nil {
		c.rows = map[threadKey]*countRow{}
	}
	for i, prefix := range [...]string{ofThread: "thread.", ofOperator: "count."} {
		c.names[i] = nil
		for k := range counters {
			c.names[i] = append(c.names[i], prefix+counters[k].Name)
		}
		c.names[i] = append(c.names[i], prefix+"IPC")
	}
}

// known returns a counter's value, false if unknown.
func (c *counts) known(values []int64, i int) (int64, bool) {
	if i < 0 || i >= len(values) || i >= len(c.counters) || values[i] < 0 || c.counters[i].Void != "" {
		return 0, false
	}
	return values[i], true
}

func (c *counts) ipc(values []int64) (float64, bool) {
	n, ok := c.known(values, c.instructions)
	of, okToo := c.known(values, c.cycles)
	if !ok || !okToo || of == 0 {
		return 0, false
	}
	return float64(n) / float64(of), true
}

// annotate adds the known values to a slice.
func (c *counts) annotate(n *notes, of int, values []int64) {
	for i := range values {
		if v, ok := c.known(values, i); ok {
			n.int(c.names[of][i], v)
		}
	}
	if v, ok := c.ipc(values); ok {
		n.float(c.names[of][len(c.counters)], v)
	}
}

// sum adds an operator's values to those of its step. If one of a pair is unknown, neither is added, so that
// their ratio is over the same operators.
func (c *counts) sum(to, values []int64) []int64 {
	if _, ok := c.ipc(values); !ok {
		return to
	}
	if to == nil {
		to = make([]int64, len(c.counters))
	}
	for i := range to {
		if v, ok := c.known(values, i); ok {
			to[i] += v
		}
	}
	return to
}

// draw sets a thread's counters for the duration of an operator.
func (c *counts) draw(t *tracks, pid int32, th *profile.OpThread) {
	if len(c.counters) == 0 {
		return
	}
	key := threadKey{pid, th.TID}
	r := c.rows[key]
	if r == nil {
		r = &countRow{tracks: make([]countTrack, len(c.counters)+1)}
		c.rows[key] = r
	}
	if r.end > 0 && th.Start-r.end > pause {
		r.fall(t)
	}
	r.end = th.Start + th.Busy + th.OffCPU
	for i := range c.counters {
		k := &c.counters[i]
		// the rate of a clock is the share of its CPU that a thread had
		if i >= len(r.tracks)-1 || k.Unit == "ns" {
			continue
		}
		v, ok := c.known(th.Counts, i)
		x := float64(v)
		unit := "per operator" // kernel events are rare: show how often, not how fast
		if !k.PerThread() && k.PMU != "kernel" {
			unit = "per µs"
			if th.Busy > 0 {
				x = x * 1e3 / float64(th.Busy)
			} else {
				ok = false
			}
		}
		r.set(t, key, i, k.Name, unit, th.Start, x, ok)
	}
	v, ok := c.ipc(th.Counts)
	r.set(t, key, len(r.tracks)-1, "IPC", "instructions per cycle", th.Start, v, ok)
}

// set sets a track's value, 0 if unknown. An unchanged value is not written again.
func (r *countRow) set(t *tracks, key threadKey, i int, name, unit string, at int64, v float64, known bool) {
	k := &r.tracks[i]
	if !known {
		v = 0
	}
	if v == k.v {
		return
	}
	if k.track == nil {
		k.track = t.threadCounter(key.pid, key.tid, clean.Perfetto(name), unit)
	}
	t.value(k.track, at, v)
	k.v = v
}

// fall sets all counters of a thread to 0.
func (r *countRow) fall(t *tracks) {
	for i := range r.tracks {
		if k := &r.tracks[i]; k.v != 0 {
			t.value(k.track, r.end, 0)
			k.v = 0
		}
	}
}

func (c *counts) finish(t *tracks) {
	for _, key := range slices.SortedFunc(maps.Keys(c.rows), compareThreads) {
		c.rows[key].fall(t)
	}
}
