// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"github.com/profinfer/profinfer/profile/internal/meter"
	"github.com/profinfer/profinfer/trace"
)

// UnknownCount marks an unknown counter value: it could not be read, was read while another thread ran, or
// did not count while the operator ran.
const UnknownCount = meter.Unknown

// Sampled takes a sample from when a thread left or got a CPU.
func (p *replayer) Sampled(s *trace.Sample) {
	q := p.procs[s.PID]
	if q == nil {
		return
	}
	switch t := q.thread(s.TID); s.Kind {
	case trace.SampleOff:
		t.meter.Off(&p.count, s)
	case trace.SampleOn:
		t.meter.Again(&p.count, s)
	}
}

// addCounts adds a thread's counts to its operator's.
func (o *Op) addCounts(counts []int64, n int) {
	if o.Counts == nil {
		o.Counts = make([]int64, n)
	}
	for i := range o.Counts {
		if o.Counts[i] == UnknownCount || i >= len(counts) || counts[i] == UnknownCount {
			o.Counts[i] = UnknownCount
			continue
		}
		o.Counts[i] += counts[i]
	}
}
