// SPDX-License-Identifier: Apache-2.0

package drive

import (
	"errors"
	"fmt"
	"slices"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/overhead"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/trace"
)

// clockSink takes the steps of the clock's recording.
type clockSink struct {
	profile.BaseSink
	steps []overhead.Step
}

func (c *clockSink) Step(s *profile.Step) error {
	c.steps = append(c.steps, overhead.Step{PID: s.PID, TID: s.TID, Ctx: s.Ctx, Phase: s.Phase,
		NTokens: s.NTokens, Start: s.Start, Dur: s.Dur})
	return nil
}

// readClock reads the clock's recording, even while it grows.
func readClock(path string) ([]overhead.Step, *profile.Header, error) {
	c := &clockSink{}
	h, err := replay(path, c)
	return c.steps, h, err
}

func replay(path string, sink profile.Sink) (*profile.Header, error) {
	r, err := trace.Open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return profile.Replay(r, sink)
}

// stateSink keeps the steps of a state's recording.
type stateSink struct {
	profile.BaseSink
	level engine.Level
	steps []seen

	counts       string // role of a counter that operators must have
	at           int    // its index in their Counts; -1: the recording has none
	ops, counted int

	memory         bool // the processes' fault counts are there
	choose, chosen int  // operators that use chosen experts, and those whose choice is known
}

// seen is a step in a recording.
type seen struct {
	start, end int64
	ops        int
	whole      bool // with everything that the level requires
}

// Meta looks for the counter among those of the recording.
func (s *stateSink) Meta(m *trace.Meta) {
	s.at = slices.IndexFunc(m.Counters, func(c trace.Counter) bool {
		return c.Role == s.counts && c.Void == ""
	})
}

func (s *stateSink) Op(o *profile.Op) error {
	s.ops++
	if s.at >= 0 && s.at < len(o.Counts) && o.Counts[s.at] != profile.UnknownCount {
		s.counted++
	}
	if o.Shape != nil && o.Node >= 0 && int(o.Node) < len(o.Shape.Nodes) && o.Shape.ChoosesExperts(o.Node) {
		s.choose++
		if o.Choice.Whole() {
			s.chosen++
		}
	}
	return nil
}

// Needs implements profile.Sink: Memory provides the processes' fault counts.
func (*stateSink) Needs() profile.Needs { return profile.NeedFaults }

func (s *stateSink) Memory(*trace.Memory) error {
	s.memory = true
	return nil
}

func (s *stateSink) Step(p *profile.Step) error {
	s.steps = append(s.steps, seen{p.Start, p.Start + p.Dur, p.Ops, p.Incomplete == "" &&
		(s.level < engine.LevelGraph || p.Graphs > 0) && (s.level < engine.LevelOp || p.Ops > 0)})
	return nil
}

// timeOver is the end reason of a recording with a set duration.
const timeOver = "the time is over"

// window is the span of a recording: from when its probes were in place, plus settle, for d.
func window(h *profile.Header, settle, d int64) (from, to int64, err error) {
	if h.End == nil || h.Torn != "" {
		return 0, 0, errors.New("its recording is truncated")
	}
	for _, p := range h.Processes {
		from = max(from, p.Attached)
	}
	if from == 0 {
		return 0, 0, errors.New("it set no probes")
	}
	from += settle
	to = from + d
	if h.End.Time < to {
		return 0, 0, fmt.Errorf("its recording ended %.1f s early (%s)", float64(to-h.End.Time)/1e9,
			h.End.Reason)
	}
	return from, to, nil
}

// examine fills in a span from the recording of its state, or why it does not count.
func examine(path string, of *State, settle, d int64) (overhead.Span, error) {
	s := overhead.Span{Traced: -1, CPU: -1}
	sink := &stateSink{level: of.Level, counts: of.Counts, at: -1}
	h, err := replay(path, sink)
	if err != nil {
		return s, err
	}
	if s.From, s.To, err = window(h, settle, d); err != nil {
		return s, err
	}
	if of.Counts != "" && sink.counted < max(1, sink.ops*9/10) {
		return s, fmt.Errorf("%s is known of %d operators of %d in its recording", of.Counts, sink.counted,
			sink.ops)
	}
	if of.Faults && !sink.memory {
		return s, errors.New("its recording holds no page faults, nor that there were none")
	}
	if of.Experts && sink.chosen < max(1, sink.choose*9/10) {
		return s, fmt.Errorf("the experts are known of %d operators of %d that use some, in its recording",
			sink.chosen, sink.choose)
	}
	s.Traced = 0
	for _, p := range sink.steps {
		if p.start >= s.From && p.end <= s.To {
			s.Ops += uint64(p.ops)
			if p.whole {
				s.Traced++
			}
		}
	}
	for _, l := range h.Losses {
		switch {
		case l.End < s.From || l.Start > s.To:
		case l.Why == trace.WhyLost:
			s.Lost += l.Events
		case l.Why == trace.WhyThrottled:
			s.Rested = true
		}
	}
	if h.End.Reason != timeOver {
		return s, fmt.Errorf("its recording ended otherwise than asked: %s", h.End.Reason)
	}
	return s, nil
}
