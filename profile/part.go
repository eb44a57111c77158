// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/profinfer/profinfer/trace"
)

// Part says which part of a recording is wanted: the steps that lie wholly in it, and what happened meanwhile.
// The zero value is all of it; what is given must hold together.
type Part struct {
	From, To    int64 // ns since the recording's first event; To 0: to its end
	First, Last int64 // numbers of steps, as every view has them; 0: all
	Phases      []Phase
}

// All reports whether nothing is left out.
func (a Part) All() bool { return a.From == 0 && a.To == 0 && !a.bySteps() }

// bySteps: only what happened during steps is wanted.
func (a Part) bySteps() bool { return a.First != 0 || a.Last != 0 || len(a.Phases) > 0 }

// takes reports whether a step is wanted, leaving aside when it was.
func (a Part) takes(s *Step) bool {
	return s.ID >= a.First && (a.Last == 0 || s.ID <= a.Last) &&
		(len(a.Phases) == 0 || slices.Contains(a.Phases, s.Phase))
}

// Chosen is a part that was found in a recording.
type Chosen struct {
	Part  Part
	Begin int64 // of the recording: its first event; boottime, ns, as all times here
	// From and To are the bounds of what is shown.
	From, To int64
	Steps    int64 // in the part
	// FirstStep and LastStep are the lowest and highest of their numbers.
	FirstStep, LastStep int64
	// Cut are the numbers of steps that a bound of time cuts: they are left out. At most [maxCut] are listed.
	Cut  []int64
	NCut int64

	spans []Span   // what is shown, in order
	steps []uint64 // a bit for each step's number
	at    int      // the span that covers looked at last

	// What a replay that begins at since has to go on with at the first mark from seed.at on.
	since int64
	seed  seed
}

type seed struct{ at, step, graph int64 }

const (
	maxCut = 16
	// Steps that are closer than this are in one span.
	spanGap = int64(1e9)
	// How much more is read before a part, for what threads were doing, and after it, for results.
	partBefore, partAfter = int64(1e9), int64(1e9)
)

// step reports whether a step is in the part.
func (c *Chosen) step(id int64) bool {
	return id>>6 < int64(len(c.steps)) && c.steps[id>>6]&(1<<(id&63)) != 0
}

// covers reports whether a time is in the part.
func (c *Chosen) covers(t int64) bool {
	if c.at < len(c.spans) {
		if s := &c.spans[c.at]; t >= s.From && t <= s.To {
			return true
		}
	}
	i, found := slices.BinarySearchFunc(c.spans, t, func(s Span, t int64) int { return cmp.Compare(s.From, t) })
	if !found {
		i--
	}
	if i < 0 {
		return false
	}
	c.at = i
	return t <= c.spans[i].To
}

// overlaps reports whether an interval has a time in the part.
func (c *Chosen) overlaps(from, to int64) bool {
	i, _ := slices.BinarySearchFunc(c.spans, from, func(s Span, t int64) int { return cmp.Compare(s.To, t) })
	return i < len(c.spans) && c.spans[i].From <= to
}

// graph reports whether a graph that ended is in the part.
func (c *Chosen) graph(g *Graph, end int64) bool {
	switch {
	case g.Step != 0:
		return c.step(g.Step)
	case g.CallerStep != nil:
		return c.step(g.CallerStep.ID)
	}
	return !c.Part.bySteps() && g.Start >= c.From && end <= c.To
}

// skip says which blocks a replay of the part does not need.
func (c *Chosen) skip(t trace.Type, first, last int64) bool {
	if last < c.since-partBefore || first > c.To+partAfter {
		return true
	}
	return t != trace.TypeMarks && t != trace.TypeStepSeqs && !c.overlaps(first-partBefore, last)
}

// seconds writes a time in seconds, to the microsecond.
func seconds(ns int64) string {
	return strconv.FormatFloat(math.Round(float64(ns)/1e3)/1e6, 'f', -1, 64) + " s"
}

// String says what is shown and what is left out.
func (c *Chosen) String() string {
	from, to := seconds(c.From-c.Begin), seconds(c.To-c.Begin)
	s := fmt.Sprintf("%s to %s after the recording's begin", from, to)
	if len(c.Part.Phases) > 0 {
		s = string(cmp.Or(c.Part.Phases[0], "unknown")) + " alone, " + s
	}
	switch {
	case c.Steps == 1:
		s += fmt.Sprintf(": step %d", c.FirstStep)
	case c.Steps > 0:
		s += fmt.Sprintf(": %d steps, %d to %d", c.Steps, c.FirstStep, c.LastStep)
	default:
		s += ": no whole step"
	}
	if c.NCut > 0 {
		list := ""
		for i, id := range c.Cut {
			if i > 0 {
				list += ", "
			}
			list += fmt.Sprint(id)
		}
		if n := c.NCut - int64(len(c.Cut)); n > 0 {
			list += fmt.Sprintf(" and %d more", n)
		}
		what := "step "
		if c.NCut > 1 {
			what = "steps "
		}
		s += "; " + what + list + " cut by its bounds and left out"
	}
	return s
}

// scout finds a part: a sink of boundary events alone.
type scout struct {
	BaseSink
	p       *replayer
	c       *Chosen
	known   bool // when the part begins
	seeded  bool
	emitted int64 // all marks before this time have been handled
	marks   int   // in the part's time
}

// FindPart looks a part up in a recording. It reads the marks of steps and graphs up to the part's end, and
// nothing else. r is used up.
func FindPart(r *trace.Reader, part Part) (*Chosen, error) {
	c := &Chosen{Part: part, Begin: math.MaxInt64}
	s := &scout{c: c}
	p := newReplayer(s)
	p.joinFaults()
	p.scout, s.p = s, p
	r.Want(trace.TypeMeta, trace.TypeProcess, trace.TypeThreads, trace.TypeMarks, trace.TypeStepSeqs,
		trace.TypeHits, trace.TypeSched, trace.TypeSamples, trace.TypeFaults, trace.TypeExperts,
		trace.TypeDrain, trace.TypeLoss)
	last := int64(0)
	r.Skip = func(t trace.Type, first, to int64) bool {
		if t != trace.TypeSamples {
			c.Begin, last = min(c.Begin, first), max(last, to)
		}
		return t != trace.TypeMarks && t != trace.TypeStepSeqs
	}
	ended := false
	for !s.found() {
		b, err := r.Next()
		if ended = err == io.EOF; ended {
			break
		}
		if err != nil {
			return nil, err
		}
		if b.Watermark != 0 {
			s.bounds() // no event is earlier than what was seen
			s.emitted = p.merge.Held
		}
		if err := p.block(b); err != nil {
			return nil, err
		}
	}
	s.bounds()
	return c, s.finish(last, ended)
}

// bounds sets when the part begins and ends as far as that is known: the recording's first event is.
func (s *scout) bounds() {
	c := s.c
	if s.known || c.Begin == math.MaxInt64 {
		return
	}
	s.known = true
	c.From, c.To = c.Begin+c.Part.From, math.MaxInt64
	if c.Part.To != 0 {
		c.To = c.Begin + c.Part.To
	}
}

// mark is called around the handling of a mark.
func (s *scout) mark(m *trace.Mark, handle func() error) error {
	s.bounds()
	if m.Time >= s.c.From && m.Time <= s.c.To {
		s.marks++
	}
	before := seed{m.Time, s.p.nextStep, s.p.nextGraph}
	if err := handle(); err != nil || s.seeded || m.Time < s.c.From {
		return err
	}
	if s.c.Part.bySteps() {
		t := s.p.proc(m.PID).thread(m.TID).step()
		if s.p.nextStep == before.step || t == nil || !s.c.Part.takes(t.Step) {
			return nil
		}
	}
	s.seeded, s.c.seed, s.c.since = true, before, m.Time
	s.each(func(o *openStep) { s.c.since = min(s.c.since, o.Start) })
	return nil
}

// each visits the steps in progress.
func (s *scout) each(f func(*openStep)) {
	for _, q := range s.p.procs {
		for _, t := range q.threads {
			for _, o := range t.steps {
				f(o)
			}
		}
	}
}

// found reports whether no later mark can matter.
func (s *scout) found() bool {
	c := s.c
	if !s.known {
		return false
	}
	if c.To < math.MaxInt64 && s.emitted > c.To {
		return true
	}
	if c.Part.Last == 0 || s.p.nextStep <= c.Part.Last {
		return false
	}
	open := false
	s.each(func(o *openStep) { open = open || o.ID <= c.Part.Last })
	return !open
}

// Step takes a finished step.
func (s *scout) Step(x *Step) error {
	c := s.c
	s.bounds()
	end := x.Start + x.Dur
	if !c.Part.takes(x) || end < c.From || x.Start > c.To {
		return nil
	}
	if x.Start < c.From || end > c.To {
		s.cut(x.ID)
		return nil
	}
	c.Steps++
	for int64(len(c.steps)) <= x.ID>>6 {
		c.steps = append(c.steps, 0)
	}
	c.steps[x.ID>>6] |= 1 << (x.ID & 63)
	if c.FirstStep == 0 || x.ID < c.FirstStep {
		c.FirstStep = x.ID
	}
	c.LastStep = max(c.LastStep, x.ID)
	s.span(x.Start, end)
	return nil
}

func (s *scout) cut(id int64) {
	if s.c.NCut++; len(s.c.Cut) < maxCut {
		s.c.Cut = append(s.c.Cut, id)
	}
}

// span adds an interval. Steps come in the order in which they end.
func (s *scout) span(from, to int64) {
	c := s.c
	for n := len(c.spans); n > 0 && c.spans[n-1].To+spanGap >= from; n = len(c.spans) {
		from, to = min(from, c.spans[n-1].From), max(to, c.spans[n-1].To)
		c.spans = c.spans[:n-1]
	}
	c.spans = append(c.spans, Span{from, to})
}

// finish completes the part, or says why there is none. last is the recording's last event, as far as it was
// looked at; ended: that is all.
func (s *scout) finish(last int64, ended bool) error {
	c := s.c
	if !s.known {
		return fmt.Errorf("the recording holds no events to choose from")
	}
	long := seconds(last - c.Begin)
	if ended && c.From > last {
		return fmt.Errorf("nothing was recorded from %s on: the recording lasts %s",
			seconds(c.Part.From), long)
	}
	s.each(func(o *openStep) {
		if c.Part.takes(o.Step) && o.Start <= c.To && c.To < last {
			s.cut(o.ID)
		}
	})
	slices.Sort(c.Cut)
	c.Cut = slices.Compact(c.Cut)
	if err := s.p.finish(); err != nil { // steps that still wait
		return err
	}
	if c.Steps == 0 && c.Part.bySteps() {
		return s.none(long)
	}
	if c.Steps == 0 && c.NCut > 0 {
		return fmt.Errorf("no step lies wholly in that time: it is within step %d; --steps %d-%d shows it whole",
			c.Cut[0], c.Cut[0], c.Cut[len(c.Cut)-1])
	}
	if ended {
		c.To = min(c.To, last)
	}
	if c.Steps == 0 && s.marks == 0 {
		return fmt.Errorf("nothing of the engine was recorded from %s to %s", seconds(c.Part.From),
			seconds(c.To-c.Begin))
	}
	if !c.Part.bySteps() {
		c.spans = []Span{{c.From, c.To}}
	} else {
		c.From, c.To = c.spans[0].From, c.spans[len(c.spans)-1].To
	}
	if !s.seeded {
		c.since, c.seed = c.From, seed{math.MaxInt64, 0, 0}
	}
	c.since = min(c.since, c.From)
	return nil
}

// none says why no step was found.
func (s *scout) none(long string) error {
	c := s.c
	where := "the recording"
	if c.Part.From != 0 || c.Part.To != 0 {
		where = "that time"
	}
	switch {
	case s.p.nextStep == 0:
		return fmt.Errorf("the recording has no steps (it lasts %s)", long)
	case c.NCut > 0:
		return fmt.Errorf("no such step lies wholly in that time: it cuts step %d", c.Cut[0])
	case c.Part.First > s.p.nextStep:
		return fmt.Errorf("there is no step %d: the recording has steps 1 to %d", c.Part.First, s.p.nextStep)
	case len(c.Part.Phases) > 0:
		return fmt.Errorf("%s has no whole step of %s among those asked for", where,
			cmp.Or(c.Part.Phases[0], "unknown phase"))
	}
	return fmt.Errorf("no step from %d to %d was seen wholly in %s", c.Part.First, c.Part.Last, where)
}
