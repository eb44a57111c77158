// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/internal/limits"
	"github.com/profinfer/profinfer/profile/internal/num"
)

// queueSum sums up what the spans of one backend in one phase reveal about the device's queues.
type queueSum struct {
	spans, added, subs, call int64
	inside                   int64
	within, withins          int64 // between graphs of one step
	between, betweens        int64 // between steps
}

// deviceSeen is a span and what preceded it on its backend, in any phase.
type deviceSeen struct {
	*profile.DeviceSpan
	// alone is the part of its duration in which none that ended earlier was in progress.
	alone int64
	gap   int64 // since the end of the previous span, ns; -1: there was none, or they overlap
	same  bool  // the previous span is of the same step
}

type deviceKey struct {
	pid     int32
	backend string
}

type deviceEnd struct{ done, step int64 }

// seen notes a span; spans come in order of their ends.
func (o *Collector) seen(d *profile.DeviceSpan) *deviceSeen {
	k, begin := deviceKey{d.Graph.PID, d.Graph.Backend}, d.Graph.Start
	if d.Queue != nil {
		begin = d.Begin
	}
	s := &deviceSeen{DeviceSpan: d, alone: d.Dur(), gap: -1}
	if last, ok := o.latest[k]; ok {
		s.same = last.step == d.Graph.Step
		s.alone = max(0, d.Done-max(d.Graph.Start, last.done))
		if begin >= last.done {
			s.gap = begin - last.done
		}
	}
	if o.latest == nil || len(o.latest) >= limits.Pending {
		o.latest = map[deviceKey]deviceEnd{}
	}
	o.latest[k] = deviceEnd{max(d.Done, o.latest[k].done), d.Graph.Step}
	return s
}

func (q *queueSum) add(d *deviceSeen) {
	if d.Queue == nil {
		return
	}
	q.spans++
	q.added += d.Added
	q.subs += int64(d.Submissions)
	q.call += d.Submit
	q.inside += d.Done - d.Begin - d.Busy
	switch {
	case d.gap < 0:
	case d.same:
		q.within += d.gap
		q.withins++
	default:
		q.between += d.gap
		q.betweens++
	}
}

func (q *queueSum) finish(b *Backend, steps float64) {
	b.QueueSpans = q.spans
	if q.spans == 0 {
		return
	}
	b.Busy, b.Submissions = num.Ratio(float64(q.added), steps), num.Ratio(float64(q.subs), steps)
	b.Submitting, b.IdleInside = num.Ratio(float64(q.call), steps), num.Ratio(float64(q.inside), steps)
	if q.withins > 0 {
		b.IdleStep = num.Ratio(float64(q.within), steps)
	}
	if q.betweens > 0 { // nothing precedes the first step
		b.IdleBetween = num.Ratio(float64(q.between), float64(q.betweens))
	}
}
