// SPDX-License-Identifier: Apache-2.0

// Package overhead says what being recorded costs an engine. It compares the time that steps took
// while a state held (a recorder attached) with that of the spans without it just before and after. It
// is pure: package drive makes the spans.
//
// What is compared is elapsed time a step over whole periods, never a median step: a median is blind to what
// comes in bursts, or less than half of the time, such as a reader that empties rings.
package overhead

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/profinfer/profinfer/profile"
)

const (
	// SchemaVersion of a Report as JSON.
	SchemaVersion = 1
	// MinSteps is how many steps of one kind a span must have to be compared.
	MinSteps = 10
	// MinSpans is how many spans of a state are needed to say anything.
	MinSpans = 5
	// MaxWidth is the widest interval, as a share, that may be said not to be told from 0; a wider
	// one that holds 0 says nothing.
	MaxWidth = 0.03
	// idleGap: where more than this share of the time lies between steps, an engine waits for
	// requests or does other work there, and only its steps' own durations are compared.
	idleGap = 0.05
)

// Step is a step as the clock saw it: a recording of steps alone, there in all spans. Times are ns of
// CLOCK_BOOTTIME.
type Step struct {
	PID, TID   int32
	Ctx        uint64
	Phase      profile.Phase
	NTokens    int32
	Start, Dur int64
}

// Span is a time in which a state held, ns of CLOCK_BOOTTIME.
type Span struct {
	State    string // empty: nothing but the clock
	From, To int64

	// What the state's own recording says of the span. Traced is how many of its steps are whole there, with
	// all that the state's level asks for; -1: it makes no such recording.
	Traced int
	Ops    uint64 // operators recorded
	Lost   uint64 // events that its recording lost
	Rested bool   // its recording left operators out on purpose, to keep a budget
	CPU    int64  // ns of CPU time of the recorder; -1: not known
	// Failed says why the span does not count: its recorder died, or its recording holds nothing. A recorder
	// that died is very fast.
	Failed string
}

// Basis is what is compared.
type Basis string

const (
	// Elapsed is the time from a step's begin to the next one's.
	Elapsed Basis = "elapsed"
	// Durations is the time of the steps alone, where they do not follow each other.
	Durations Basis = "durations"
)

// Verdict of a state.
type Verdict string

const (
	Told   Verdict = "told"                  // the interval does not hold 0
	Zero   Verdict = "not to be told from 0" // it does, and is narrow
	Noisy  Verdict = "too noisy"             // it does, and is wide
	Short  Verdict = "too short"             // too few spans with enough steps
	Failed Verdict = "failed"                // none of its spans counts
)

// Report is what was measured. Times are ns, shares are of 1; nil is not known.
type Report struct {
	SchemaVersion int    `json:"schema_version"`
	Tool          string `json:"tool,omitempty"`
	PID           int    `json:"pid,omitempty"`
	Command       string `json:"command,omitempty"` // of the engine's process
	CPU           string `json:"cpu,omitempty"`
	Cores         int    `json:"cores,omitempty"`
	Kernel        string `json:"kernel,omitempty"`
	Rounds        int    `json:"rounds"` // begun
	SpanNS        int64  `json:"span_ns"`
	// Ended says why measuring ended before all rounds were done, empty if they were.
	Ended string `json:"ended,omitempty"`

	Basis    Basis         `json:"basis"`
	GapShare *float64      `json:"gap_share"` // time between steps / time, in the spans without a recorder
	Phase    profile.Phase `json:"phase"`     // of the steps that were compared
	Steps    int           `json:"steps"`     // seen by the clock in all
	StepNS   *float64      `json:"step_ns"`   // time a step without a recorder, median over the spans
	// Noise is how far the spans before and after a state differ, median: what measuring itself cannot tell.
	Noise  *float64 `json:"noise"`
	States []State  `json:"states"`
}

// State is the result of one state.
type State struct {
	Name    string   `json:"name"`
	Flags   []string `json:"flags,omitempty"`
	Verdict Verdict  `json:"verdict"`
	// Cost is the time a step with it / without it - 1, median over the spans; Low to High is the bootstrap's
	// 95 % interval of that median. nil where the verdict is too short or failed.
	Cost *float64 `json:"cost"`
	Low  *float64 `json:"low"`
	High *float64 `json:"high"`
	// AddedNS is the same as time a step, ns.
	AddedNS *float64 `json:"added_ns"`

	Spans int `json:"spans"` // compared
	Tried int `json:"tried"` // spans that were made
	Steps int `json:"steps"` // compared, in the state's own spans
	// ShortSteps is the number of steps in the fullest span that had too few, 0 if there was none.
	ShortSteps int `json:"short_steps,omitempty"`

	Traced    *float64 `json:"traced"`      // share of the steps that its recording has whole
	Ops       uint64   `json:"ops"`         // operators recorded, over the spans compared
	OpsStep   *float64 `json:"ops_step"`    // the same a step
	Lost      uint64   `json:"lost_events"` // over the spans compared
	ReaderCPU *float64 `json:"reader_cpu"`  // CPU seconds of the recorder a second
	Failures  int      `json:"failures"`    // spans that do not count
	Problem   string   `json:"problem,omitempty"`
}

// Answers tells whether the verdict is a figure to rely on.
func (s *State) Answers() bool { return s.Verdict == Told || s.Verdict == Zero }

// Analyse compares the spans of each state of names with those without one beside them. Steps and spans need
// not be in order. The result does not depend on anything but its arguments.
func Analyse(steps []Step, spans []Span, names []string) *Report {
	spans = slices.Clone(spans)
	slices.SortStableFunc(spans, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
	r := &Report{SchemaVersion: SchemaVersion, Basis: Elapsed, Phase: profile.Unknown, Steps: len(steps)}
	c := newClock(steps)
	var free []Span
	for _, s := range spans {
		if s.State == "" {
			free = append(free, s)
		}
	}
	// the phase whose steps can be compared most often: a server's decode, as a rule
	var best []comparison
	most := -1
	for _, ph := range []profile.Phase{profile.Decode, profile.Prefill, profile.Encode, profile.Unknown} {
		x := *c
		x.phase = ph
		share, ok := x.gaps(free)
		if ok && share > idleGap {
			x.basis = Durations
		}
		list := x.compare(spans, names)
		n := 0
		for i := range list {
			n += len(list[i].ratios)*MinSteps + list[i].ShortSteps
		}
		if n <= most {
			continue
		}
		best, most = list, n
		r.Basis, r.Phase, r.GapShare = x.basis, ph, nil
		if ok {
			r.GapShare = &share
		}
	}
	r.finish(best, names)
	return r
}

// comparison is what was found of one state.
type comparison struct {
	State
	ratios, added, base, noise []float64

	inSpan, traced int // steps of all kinds in its spans, and those traced
	cpu, cpuOf     int64
}

func (c *clock) compare(spans []Span, names []string) []comparison {
	list := make([]comparison, len(names))
	for i, s := range spans {
		k := slices.Index(names, s.State)
		if s.State == "" || k < 0 {
			continue
		}
		l := &list[k]
		l.Tried++
		all := c.count(s)
		if s.Failed == "" && s.Traced == 0 && !s.Rested && all >= MinSteps {
			s.Failed = fmt.Sprintf("its recording holds none of the %d steps", all)
		}
		if s.Failed != "" {
			l.Failures++
			if l.Problem == "" {
				l.Problem = s.Failed
			}
			continue
		}
		if i == 0 || i+1 >= len(spans) || spans[i-1].State != "" || spans[i+1].State != "" {
			continue
		}
		n, x, before, after := c.perStep(s, spans[i-1], spans[i+1])
		if n < MinSteps {
			l.ShortSteps = max(l.ShortSteps, n)
			continue
		}
		base := (before + after) / 2
		l.ratios = append(l.ratios, x/base-1)
		l.added = append(l.added, x-base)
		l.base = append(l.base, base)
		l.noise = append(l.noise, math.Abs(after/before-1))
		l.Spans++
		l.Steps += n
		if s.Traced >= 0 {
			l.inSpan += all
			l.traced += min(s.Traced, all)
		}
		if s.CPU >= 0 {
			l.cpu += s.CPU
			l.cpuOf += s.To - s.From
		}
		l.Ops += s.Ops
		l.Lost += s.Lost
		if l.OpsStep == nil {
			l.OpsStep = new(float64)
		}
		*l.OpsStep += float64(all)
	}
	return list
}

func (r *Report) finish(list []comparison, names []string) {
	var base, noise []float64
	for i := range list {
		l := &list[i]
		l.Name = names[i]
		base, noise = append(base, l.base...), append(noise, l.noise...)
		if l.OpsStep != nil {
			if n := *l.OpsStep; n > 0 && l.Ops > 0 {
				l.OpsStep = new(float64(l.Ops) / n)
			} else {
				l.OpsStep = nil
			}
		}
		if l.inSpan > 0 {
			l.Traced = new(float64(l.traced) / float64(l.inSpan))
		}
		if l.cpuOf > 0 {
			l.ReaderCPU = new(float64(l.cpu) / float64(l.cpuOf))
		}
		switch {
		case l.Spans < MinSpans && l.Failures > 0 && l.Failures*2 >= l.Tried:
			l.Verdict = Failed
		case l.Spans < MinSpans:
			l.Verdict = Short
		default:
			lo, hi := interval(l.ratios)
			l.Cost, l.Low, l.High = new(median(l.ratios)), &lo, &hi
			l.AddedNS = new(median(l.added))
			l.Verdict = judge(lo, hi)
		}
		r.States = append(r.States, l.State)
	}
	if len(base) > 0 {
		r.StepNS, r.Noise = new(median(base)), new(median(noise))
	}
}

// judge: a recording makes no engine faster, so an interval below 0 is as good as one that holds it.
func judge(lo, hi float64) Verdict {
	switch {
	case lo > 0:
		return Told
	case hi-lo > MaxWidth:
		return Noisy
	}
	return Zero
}
