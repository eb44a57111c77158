// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/profinfer/profinfer/internal/format"
	"github.com/profinfer/profinfer/overhead"
	"github.com/profinfer/profinfer/profile"
)

// Overhead draws the cost of being recorded: the findings in sentences, a table of the states, and the
// limitations. It returns w's errors.
func Overhead(w io.Writer, r *overhead.Report, o Options) error {
	p := &page{o: o}
	p.overheadTitle(r)
	p.overheadFindings(r)
	p.blank()
	p.overheadTable(r)
	p.overheadNotes(r)
	_, err := io.WriteString(w, p.b.String())
	return err
}

func (p *page) overheadTitle(r *overhead.Report) {
	name := p.o.clean(r.Command)
	switch {
	case name == "":
		name = fmt.Sprintf("process %d", r.PID)
	case r.PID > 0:
		name = fmt.Sprintf("%s (%d)", name, r.PID)
	}
	facts := []string{name}
	if r.StepNS != nil {
		facts = append(facts, fmt.Sprintf("%s of %s", stepsOf(r.Phase), p.o.duration(*r.StepNS)))
	}
	facts = append(facts, fmt.Sprintf("%s of %s", format.Plural(int64(r.Rounds), "round"),
		p.o.duration(float64(r.SpanNS))), format.Plural(int64(r.Steps), "step"))
	if r.Noise != nil {
		facts = append(facts, "noise "+format.Percent1(r.Noise))
	}
	if r.Cores > 0 {
		facts = append(facts, strings.TrimSuffix(fmt.Sprintf("%s, %s", format.Plural(int64(r.Cores), "core"),
			p.o.clean(r.CPU)), ", "))
	}
	p.parts(facts)
}

func stepsOf(ph profile.Phase) string {
	if ph == profile.Unknown {
		return "steps"
	}
	return string(ph) + " steps"
}

// points formats a share as a difference: +1.3 %, with two decimals if all are small.
func points(v *float64, small bool) string {
	if v == nil {
		return "-"
	}
	return difference(*v*100, small) + " %"
}

func difference(v float64, small bool) string {
	d := 1
	if small {
		d = 2
	}
	if s := fmt.Sprintf("%+.*f", d, v); strings.Trim(s, "+-0.") != "" {
		return s
	}
	return fmt.Sprintf("%.*f", d, 0.0)
}

// bounds formats an interval: +0.7 to +1.9 %.
func bounds(s *overhead.State, small bool) string {
	if s.Low == nil || s.High == nil {
		return "-"
	}
	return difference(*s.Low*100, small) + " to " + difference(*s.High*100, small) + " %"
}

// smallState reports whether an interval is within half a point and so needs two decimals.
func smallState(s *overhead.State) bool {
	return s.Low != nil && s.High != nil && math.Abs(*s.Low) < 0.005 && math.Abs(*s.High) < 0.005
}

func (p *page) overheadFindings(r *overhead.Report) {
	if len(r.States) > 3 {
		return
	}
	for i := range r.States {
		s := &r.States[i]
		small := smallState(s)
		name := "Recording at level " + p.o.clean(s.Name)
		switch s.Verdict {
		case overhead.Told:
			p.line(fmt.Sprintf("%s makes a step %s longer (95 %% CI %s): %s of %s.", name,
				strings.TrimPrefix(points(s.Cost, small), "+"), bounds(s,
					small), p.o.durationOf(s.AddedNS), p.o.durationOf(r.StepNS)), bold)
		case overhead.Zero:
			p.line(fmt.Sprintf("%s: not statistically significant (95 %% CI %s).", name, bounds(s, small)), bold)
		case overhead.Noisy:
			p.line(fmt.Sprintf("%s: too noisy (95 %% CI %s).", name, bounds(s, small)), bold)
		case overhead.Short:
			p.line(name+": too few steps.", bold)
		default:
			p.line(name+": could not be measured.", bold)
		}
	}
}

func (p *page) overheadTable(r *overhead.Report) {
	largest := 0.0
	for i := range r.States {
		if a := r.States[i].AddedNS; a != nil {
			largest = max(largest, math.Abs(*a))
		}
	}
	u := p.o.unitFor(largest)
	var t table
	state := t.col(column{title: "attached", left: true, min: 12})
	cost := t.col(column{title: "cost", keep: 90})
	ival := t.col(column{title: "95 % CI", keep: 85})
	added := t.col(column{title: u.Name + "/step", keep: 60})
	verdict := t.col(column{title: "verdict", left: true, keep: 80})
	spans := t.col(column{title: "windows", keep: 40})
	steps := t.col(column{title: "steps", keep: 30})
	traced := t.col(column{title: "traced", keep: 50})
	ops := t.col(column{title: "operators", keep: 20})
	perStep := t.col(column{title: "per step", keep: 25})
	lost := t.col(column{title: "dropped", keep: 45})
	cpu := t.col(column{title: "reader CPU", keep: 55})
	for i := range r.States {
		s := &r.States[i]
		small := smallState(s)
		state.add(p.o.clean(s.Name))
		cost.add(points(s.Cost, small))
		ival.add(bounds(s, small))
		a := "-"
		if s.AddedNS != nil {
			v := *s.AddedNS / u.NS
			a = difference(v, math.Abs(v) < 9.95)
			if math.Abs(v) >= 99.5 {
				a = fmt.Sprintf("%+.0f", v)
			}
		}
		added.add(a)
		verdict.add(string(s.Verdict))
		style := plain
		if !s.Answers() {
			style = warn
		}
		for len(verdict.style) < len(verdict.cells) {
			verdict.style = append(verdict.style, style)
		}
		n := fmt.Sprint(s.Spans)
		if s.Spans != s.Tried {
			n += fmt.Sprintf(" of %d", s.Tried)
		}
		spans.add(n)
		steps.add(format.Count(s.Steps))
		traced.add(format.Percent(s.Traced))
		if s.Ops > 0 {
			ops.add(format.Count(s.Ops))
		} else {
			ops.add("-")
		}
		perStep.add(format.Decimal(s.OpsStep))
		if s.Traced == nil {
			lost.add("-")
		} else {
			lost.add(format.Count(s.Lost))
		}
		cpu.add(format.Percent1(s.ReaderCPU))
	}
	p.table(&t)
}

func (p *page) overheadNotes(r *overhead.Report) {
	var notes []string
	say := func(format string, a ...any) { notes = append(notes, fmt.Sprintf(format, a...)) }
	if r.Ended != "" {
		say("Ended in round %d: %s.", r.Rounds, p.o.clean(r.Ended))
	}
	if r.Basis == overhead.Durations && r.GapShare != nil {
		say("%s of the time lies between the steps (waiting for requests, or other work): the steps' own durations are compared, so a cost between them is not in the figures.", format.Percent(r.GapShare))
	}
	short, noisy := false, false
	most := 0
	for i := range r.States {
		s := &r.States[i]
		switch s.Verdict {
		case overhead.Short:
			short = true
			most = max(most, s.ShortSteps)
		case overhead.Noisy:
			noisy = true
		}
		if s.Failures > 0 {
			say("%s: %d of %d sampling windows do not count: %s", p.o.clean(s.Name), s.Failures, s.Tried,
				p.o.clean(firstLine(s.Problem)))
		}
	}
	for i := range r.States {
		if s := &r.States[i]; s.Lost > 0 && s.Traced != nil && *s.Traced < 0.95 {
			say("%s: events were dropped, only %s of the steps are complete in its recordings: its cost without drops is not known.", p.o.clean(s.Name), format.Percent(s.Traced))
		}
	}
	if short {
		p.shortNote(r, most, say)
	}
	if noisy {
		say("Too noisy: the interval holds 0 and is wider than %.0f points. More rounds (--rounds %d), longer spans, or a machine with less else to do.",
			overhead.MaxWidth*100, 4*max(r.Rounds, 5))
	}
	if len(notes) == 0 {
		return
	}
	p.blank()
	for _, n := range notes {
		p.line(n, plain)
	}
}

// shortNote says how long a measurement would have to be.
func (p *page) shortNote(r *overhead.Report, most int, say func(string, ...any)) {
	switch {
	case most > 0:
		need := time.Duration(float64(r.SpanNS) * 1.5 * overhead.MinSteps / float64(most)).Round(time.Second)
		say("Too short: at most %s of one kind in a span, %d are needed: --span %v.",
			format.Plural(int64(most), "step"), overhead.MinSteps, max(need, time.Second))
	case r.Steps == 0:
		say("Too short: no step was seen.")
	case r.Rounds >= overhead.MinSpans && r.Ended == "":
		say("Too short: fewer than %d spans had steps of one kind before, in and after them. The engine has to compute all the time.", overhead.MinSpans)
	default:
		say("Too short: at least %d spans of each state are needed. Let the engine run longer, or take shorter spans.", overhead.MinSpans)
	}
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}
