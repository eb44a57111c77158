// SPDX-License-Identifier: Apache-2.0

// Package meter turns samples of counters into counts of operators.
package meter

import "github.com/profinfer/profinfer/trace"

// Unknown is an unknown value: it could not be read, was read while another thread ran, or did not count while
// the operator ran.
const Unknown = -1

// Counters are those of a recording. A CPU's counter counts whatever runs there, so a thread's share is the sum
// over the intervals in which it was on one CPU. What ran between its leaving a CPU and getting one is left out.
type Counters struct {
	All     []trace.Counter
	words   int                        // number of CPU counter values in a sample
	waiting map[sampleKey]trace.Sample // by hits that are still to come
}

// sampleKey identifies the hit that a sample belongs to.
type sampleKey struct {
	time int64
	tid  int32
}

// Meter holds one thread's counters while it is in an operator.
type Meter struct {
	base []uint64 // at the start of the current interval
	sum  []uint64 // of the intervals before
	cpu  uint16
	on   bool // an interval is in progress
	live bool // it is in an operator, and no sample has been missing or torn
}

// Set takes the recording's counters.
func (c *Counters) Set(counters []trace.Counter) {
	c.All, c.words = counters, 0
	for i := range counters {
		switch {
		case counters[i].PerThread():
		case counters[i].Scaled:
			c.words += 3
		default:
			c.words++
		}
	}
}

// Add takes samples; those of hits are kept until their hit comes.
func (c *Counters) Add(ss []trace.Sample) {
	for i := range ss {
		if s := &ss[i]; s.Kind == trace.SampleBegin || s.Kind == trace.SampleEnd {
			if c.waiting == nil {
				c.waiting = map[sampleKey]trace.Sample{}
			}
			c.waiting[sampleKey{s.Time, s.TID}] = *s
		}
	}
}

// Take returns the sample of a hit, or nil if there is none.
func (c *Counters) Take(h *trace.Hit) *trace.Sample {
	k := sampleKey{h.Time, h.TID}
	s, ok := c.waiting[k]
	if !ok {
		return nil
	}
	delete(c.waiting, k)
	return &s
}

// Forget drops samples whose hits were lost.
func (c *Counters) Forget(before int64) {
	for k := range c.waiting {
		if k.time < before {
			delete(c.waiting, k)
		}
	}
}

// Begin starts counting for an operator.
func (m *Meter) Begin(c *Counters, s *trace.Sample) {
	m.live = s != nil && !s.Torn && len(s.Values) >= c.words
	if !m.live {
		return
	}
	m.on, m.cpu = true, s.CPU
	m.base = append(m.base[:0], s.Values...)
	m.sum = append(m.sum[:0], make([]uint64, len(s.Values))...)
}

// Off ends an interval: the thread leaves its CPU.
func (m *Meter) Off(c *Counters, s *trace.Sample) {
	switch {
	case !m.live:
	case !m.on || s.CPU != m.cpu || len(s.Values) < c.words:
		m.live = false
	default:
		m.add(s.Values[:c.words])
		m.on = false
	}
}

// Again starts an interval: the thread got a CPU.
func (m *Meter) Again(c *Counters, s *trace.Sample) {
	switch {
	case !m.live:
	case m.on || len(s.Values) < c.words:
		m.live = false // its leaving was not seen
	default:
		copy(m.base[:c.words], s.Values)
		m.on, m.cpu = true, s.CPU
	}
}

// add adds what was counted since the base, for as many values as there are.
func (m *Meter) add(values []uint64) {
	for i, v := range values {
		if v == trace.NoValue || m.base[i] == trace.NoValue || m.sum[i] == trace.NoValue {
			m.sum[i] = trace.NoValue
			continue
		}
		m.sum[i] += v - m.base[i]
	}
}

// End returns the counts at an arrival, or nil if they are unknown.
func (m *Meter) End(c *Counters, s *trace.Sample) (counts []int64, scaled bool) {
	live := m.live
	m.live = false
	if s == nil || !live || !m.on || s.Torn || s.CPU != m.cpu || len(s.Values) < len(m.base) {
		return nil, false
	}
	m.add(s.Values[:len(m.base)])
	counts = make([]int64, len(c.All))
	at := 0
	for i := range c.All {
		counts[i] = Unknown
		if at >= len(m.sum) {
			break
		}
		v := m.sum[at]
		at++
		if k := &c.All[i]; k.Scaled && !k.PerThread() && at+1 < len(m.sum) {
			enabled, running := m.sum[at], m.sum[at+1]
			at += 2
			switch {
			case v == trace.NoValue || running == 0 || running > enabled:
				continue // it did not count while this ran
			case running < enabled:
				v = uint64(float64(v) * float64(enabled) / float64(running))
				scaled = true
			}
		}
		if v != trace.NoValue && v < 1<<62 && c.All[i].Void == "" {
			counts[i] = int64(v)
		}
	}
	return counts, scaled
}
