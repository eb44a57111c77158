// SPDX-License-Identifier: Apache-2.0

// Package overhead computes what recording costs an engine. It compares the time per step while a state was
// active (a recorder attached) with that of the spans without it just before and after. It is pure: package
// drive makes the spans.
//
// It compares elapsed time per step over whole periods, never a median step: a median does not see bursts, or
// what happens less than half of the time, such as a consumer that empties rings.
package overhead

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/profinfer/profinfer/internal/bootstrap"
	"github.com/profinfer/profinfer/profile"
)

const (
	// SchemaVersion of a Report as JSON.
	SchemaVersion = 1
	// MinSteps is the minimum number of steps of one kind in a span to compare it.
	MinSteps = 10
	// MinSpans is the minimum number of spans of a state for a result.
	MinSpans = 5
	// MaxWidth is the maximum width, as a share, of an interval that includes 0 and is reported as not
	// significant; a wider one gives no result.
	MaxWidth = 0.03
	// idleGap: if more than this share of the time is between steps, the engine waits for requests or does
	// other work there, and only the steps' own durations are compared.
	idleGap = 0.05
)

// Step is a step as seen by the clock: a recording of steps alone that runs in all spans. Times are ns of
// CLOCK_BOOTTIME.
type Step struct {
	PID, TID   int32
	Ctx        uint64
	Phase      profile.Phase
	NTokens    int32
	Start, Dur int64
}

// Span is a time in which a state was active, ns of CLOCK_BOOTTIME.
type Span struct {
	State    string // empty: only the clock
	From, To int64

	// From the state's own recording of the span. Traced is how many of its steps are complete there, with
	// everything that the state's level requires; -1: it has no such recording.
	Traced int
	Ops    uint64 // operators recorded
	Lost   uint64 // events lost by its recording
	Rested bool   // its recording omitted operators on purpose, to keep a budget
	CPU    int64  // ns of CPU time of the recorder; -1: unknown
	// Failed is why the span does not count: its recorder died, or its recording is empty. A dead recorder
	// has no overhead.
	Failed string
}

// Basis is what is compared.
type Basis string

const (
	// Elapsed is the time from one step's begin to the next one's.
	Elapsed Basis = "elapsed"
	// Durations is the time of the steps alone, if they do not follow each other directly.
	Durations Basis = "durations"
)

// Verdict is the result for a state.
type Verdict string

const (
	Told   Verdict = "significant"     // the interval excludes 0
	Zero   Verdict = "not significant" // it includes 0, and is narrow
	Noisy  Verdict = "too noisy"       // it includes 0, and is wide
	Short  Verdict = "too short"       // too few spans with enough steps
	Failed Verdict = "failed"          // none of its spans counts
)

// Report is the result of a measurement. Times are ns, shares are of 1; nil is unknown.
type Report struct {
	SchemaVersion int    `json:"schema_version"`
	Tool          string `json:"tool,omitempty"`
	PID           int    `json:"pid,omitempty"`
	Command       string `json:"command,omitempty"` // of the engine's process
	CPU           string `json:"cpu,omitempty"`
	Cores         int    `json:"cores,omitempty"`
	Kernel        string `json:"kernel,omitempty"`
	Rounds        int    `json:"rounds"` // started
	SpanNS        int64  `json:"span_ns"`
	// Ended is why measuring ended before all rounds were done, empty if they were.
	Ended string `json:"ended,omitempty"`

	Basis    Basis         `json:"basis"`
	GapShare *float64      `json:"gap_share"` // time between steps / time, in the spans without a recorder
	Phase    profile.Phase `json:"phase"`     // of the steps that were compared
	Steps    int           `json:"steps"`     // total seen by the clock
	StepNS   *float64      `json:"step_ns"`   // time per step without a recorder, median over the spans
	// Noise is the median difference between the spans before and after a state: what the measurement cannot
	// resolve.
	Noise  *float64 `json:"noise"`
	States []State  `json:"states"`
}

// State is the result of one state.
type State struct {
	Name    string   `json:"name"`
	Flags   []string `json:"flags,omitempty"`
	Verdict Verdict  `json:"verdict"`
	// Cost is the time per step with it / without it - 1, median over the spans; Low to High is the
	// bootstrap's 95 % interval of that median. nil if the verdict is too short or failed.
	Cost *float64 `json:"cost"`
	Low  *float64 `json:"low"`
	High *float64 `json:"high"`
	// AddedNS is the same as time per step, ns.
	AddedNS *float64 `json:"added_ns"`

	Spans int `json:"spans"` // compared
	Tried int `json:"tried"` // spans that were made
	Steps int `json:"steps"` // compared, in the state's own spans
	// ShortSteps is the number of steps in the fullest span with too few, 0 if there was none.
	ShortSteps int `json:"short_steps,omitempty"`

	Traced    *float64 `json:"traced"`      // share of the steps that are complete in its recording
	Ops       uint64   `json:"ops"`         // operators recorded, over the spans compared
	OpsStep   *float64 `json:"ops_step"`    // the same per step
	Lost      uint64   `json:"lost_events"` // over the spans compared
	ReaderCPU *float64 `json:"reader_cpu"`  // CPU seconds of the recorder per second
	Failures  int      `json:"failures"`    // spans that do not count
	Problem   string   `json:"problem,omitempty"`
}

// Answers reports whether the verdict is a reliable figure.
func (s *State) Answers() bool { return s.Verdict == Told || s.Verdict == Zero }

// Analyse compares the spans of each named state with the adjacent ones without a state. Steps and spans need
// not be in order. The result depends only on the arguments.
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
	// the phase whose steps can be compared most often: usually a server's decode
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

// comparison is the result for one state.
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
			lo, hi := bootstrap.Interval(l.ratios)
			l.Cost, l.Low, l.High = new(bootstrap.Median(l.ratios)), &lo, &hi
			l.AddedNS = new(bootstrap.Median(l.added))
			l.Verdict = judge(lo, hi)
		}
		r.States = append(r.States, l.State)
	}
	if len(base) > 0 {
		r.StepNS, r.Noise = new(bootstrap.Median(base)), new(bootstrap.Median(noise))
	}
}

// judge: a recording does not make an engine faster, so an interval below 0 counts as one that includes it.
func judge(lo, hi float64) Verdict {
	switch {
	case lo > 0:
		return Told
	case hi-lo > MaxWidth:
		return Noisy
	}
	return Zero
}
