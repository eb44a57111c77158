// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"slices"

	"github.com/profinfer/profinfer/profile/internal/limits"
	"github.com/profinfer/profinfer/trace"
)

// When the results of steps were available: a step's call can hand graphs to a device and return long before
// they are done.

// EndToEnd is the time from the step's begin to when its results were there, ns; false: not seen. For a step
// that handed graphs over it is known once Sink.Result got it.
func (s *Step) EndToEnd() (int64, bool) {
	switch {
	case !s.HandedOver:
		return s.Dur, true
	case s.Done == 0:
		return 0, false
	}
	return s.Done - s.Start, true
}

// WithResults returns the step with its end-to-end time as duration, or the call's where that was not seen.
func (s *Step) WithResults() (whole *Step, known bool) {
	if !s.HandedOver {
		return s, true
	}
	d, known := s.EndToEnd()
	if !known {
		return s, false
	}
	c := *s
	c.Dur = d
	return &c, true
}

// maxAwaited bounds the steps of a process whose results no thread was seen to wait for yet.
const maxAwaited = 256

// awaitedStep is a step that handed graphs over.
type awaitedStep struct {
	step   *Step
	open   []awaitedGraph // not known to be done
	done   int64          // when the latest of the other graphs was known to be done
	ended  bool
	passed int64 // when the next step of its context began; 0: not yet
}

type awaitedGraph struct {
	g      *Graph
	device uint64 // the backend object; 0: unknown
}

// handsOut notes a graph whose call can return before the graph is done.
func (q *Proc) handsOut(x *exec) {
	if x.step == nil || q.computes(x.g.Backend) || q.Vocabulary().CallComputes(x.g.Backend) {
		return
	}
	s := x.step.Step
	s.HandedOver = true
	i := slices.IndexFunc(q.awaited, func(a *awaitedStep) bool { return a.step == s })
	if i < 0 {
		i = len(q.awaited)
		q.awaited = append(q.awaited, &awaitedStep{step: s})
	}
	if a := q.awaited[i]; len(a.open) < limits.Pending {
		a.open = append(a.open, awaitedGraph{x.g, x.device})
	}
}

// handsOver reports whether a process has backends whose calls can return before their graphs are done.
func (q *Proc) handsOver() bool {
	return q.info != nil && slices.ContainsFunc(q.info.Sites, func(s trace.Site) bool {
		return s.Role == trace.RoleGraphBegin && trace.Elsewhere(s.Backend) &&
			!q.Vocabulary().CallComputes(s.Backend)
	})
}

// came notes that graphs of a process are known to be done at a time.
func (p *replayer) came(q *Proc, now int64, is func(awaitedGraph) bool) error {
	for _, a := range slices.Clone(q.awaited) {
		n := len(a.open)
		a.open = slices.DeleteFunc(a.open, is)
		if len(a.open) < n {
			a.done = max(a.done, now)
		}
		if err := p.resulted(q, a, false); err != nil {
			return err
		}
	}
	return nil
}

// resulted emits a step whose results are there, or that is given up.
func (p *replayer) resulted(q *Proc, a *awaitedStep, giveUp bool) error {
	if !a.ended || len(a.open) > 0 && !giveUp {
		return nil
	}
	q.awaited = slices.DeleteFunc(q.awaited, func(o *awaitedStep) bool { return o == a })
	s := a.step
	end := s.Start + s.Dur
	switch {
	case len(a.open) > 0: // no thread was seen to wait
	case a.passed != 0 && a.done > a.passed:
		// The next step waited for it, or its own wait was lost.
		if !p.lostIn(end, a.passed) {
			s.Done = end
		}
	default:
		s.Done = max(end, a.done)
	}
	return p.tellResult(s)
}

func (p *replayer) tellResult(s *Step) error {
	s.Told = true
	return p.sink.Result(s)
}

// stepBegins notes that a context continues with its next step.
func (q *Proc) stepBegins(ctx uint64, now int64) {
	for _, a := range q.awaited {
		if over := a.ended || a.step.Dur > 0; over && a.passed == 0 && a.step.Ctx == ctx {
			a.passed = now
		}
	}
}

// stepOver handles the end of a step that the sink has received.
func (p *replayer) stepOver(q *Proc, s *Step) error {
	if !s.HandedOver {
		return nil
	}
	i := slices.IndexFunc(q.awaited, func(a *awaitedStep) bool { return a.step == s })
	if i < 0 {
		return p.tellResult(s)
	}
	a := q.awaited[i]
	a.ended = true
	if err := p.resulted(q, a, false); err != nil {
		return err
	}
	for len(q.awaited) > maxAwaited {
		if o := q.awaited[0]; !o.ended { // its end was lost
			q.awaited = q.awaited[1:]
		} else if err := p.resulted(q, o, true); err != nil {
			return err
		}
	}
	return nil
}

// resultsEnd gives up the graphs that no thread was seen to wait for when the trace ends.
func (p *replayer) resultsEnd(q *Proc) error {
	for _, a := range slices.Clone(q.awaited) {
		if err := p.resulted(q, a, true); err != nil {
			return err
		}
	}
	return nil
}
