// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"fmt"
	"slices"
	"strings"

	"github.com/profinfer/profinfer/internal/format"
	"github.com/profinfer/profinfer/profile/summary"
)

// headline first says what bounds each phase and with what confidence, then what could save most time.
func (p *page) headline(s *summary.Stat) {
	if len(s.Verdicts) == 0 {
		return
	}
	p.blank()
	for i := range s.Verdicts {
		v := &s.Verdicts[i]
		if i == mostPhases && !p.o.Verbose {
			p.line("+"+format.Plural(len(s.Verdicts)-i, "more verdict")+": -v shows them", dim)
			break
		}
		p.line(p.said(v.Text), bold)
		why := v.Why
		if v.Sure != "" {
			why = strings.TrimSpace("Confidence: " + v.Sure + ". " + why)
		}
		if why != "" {
			p.line("  "+p.said(why), dim)
		}
	}
	if v := s.RunVerdict; v != nil && len(s.Verdicts) > 1 {
		p.line(p.said(v.Text), plain)
	}
	said := 0
	for i := range s.Findings {
		f := &s.Findings[i]
		if f.Gain == nil {
			break
		}
		if said == 0 {
			p.blank()
			p.line("Findings, by the time that each could save at most", bold)
		}
		said++
		p.line(p.said(f.Text), plain)
	}
}

// said adapts a sentence of package profile to this terminal.
func (p *page) said(text string) string {
	if !p.o.Unicode {
		text = strings.ReplaceAll(text, "µs", "us")
	}
	return p.o.clean(text)
}

// caveats says what makes the figures below unreliable.
func (p *page) caveats(s *summary.Stat) {
	lines := p.caveatLines(s)
	if len(lines) > 0 {
		p.blank()
	}
	for _, t := range lines {
		p.line(t, warn)
	}
}

func (p *page) caveatLines(s *summary.Stat) (lines []string) {
	l := &s.Lost
	if l.Torn != "" {
		lines = append(lines, "This file is damaged: "+p.o.clean(l.Torn)+". What comes before is shown.")
	}
	if l.Cut {
		lines = append(lines, "This recording is truncated: it has no end. What was written is shown.")
	}
	for _, w := range l.ByWhy {
		if w.Why == "lost" && w.Events > 0 {
			what := w.What
			if what == "processes" {
				lines = append(lines, "Processes with an engine that were not recorded, or not from their begin: "+format.Count(w.Events)+". The recording names them.")
				continue
			}
			switch what {
			case "":
				what = "events"
			case "hits":
				what = "probe events"
			}
			lines = append(lines, fmt.Sprintf("%s %s were dropped: the steps concerned are left out where they are known.", format.Count(w.Events), p.o.clean(what)))
		}
	}
	for i := range s.Phases {
		f := &s.Phases[i]
		switch {
		case f.OnlyPartial:
			lines = append(lines, fmt.Sprintf("No step of %s was recorded completely: its figures can be too low.",
				phaseName(s, f)))
		case f.Partial > 0:
			n := "1 incomplete step"
			if f.Partial > 1 {
				n = format.Count(f.Partial) + " incomplete steps"
			}
			lines = append(lines, fmt.Sprintf("%s: %s left out.", phaseName(s, f), n))
		}
	}
	if v := s.Run.ProbeShare; v != nil && *v > 0.05 {
		lines = append(lines, fmt.Sprintf("Probes took about %s of the threads' time in operators: subtracted from the operators' figures.", format.Percent(v)))
	}
	return lines
}

// notesOf are the recorder's messages, each once.
func notesOf(s *summary.Stat) (notes []string) {
	for i := range s.Run.Processes {
		notes = append(notes, s.Run.Processes[i].Warnings...)
	}
	notes = append(notes, s.Run.Notes...)
	told := map[string]bool{}
	return slices.DeleteFunc(notes, func(n string) bool {
		again := told[n]
		told[n] = true
		return again
	})
}

// lost lists everything that was not seen, and the recorder's messages.
func (p *page) lost(s *summary.Stat) {
	l := &s.Lost
	var facts []string
	for _, w := range l.ByWhy {
		text := p.o.clean(w.Why)
		if w.What != "" {
			text += " " + p.o.clean(w.What)
		}
		text += ": " + format.Plural(int64(w.Spans), "span")
		if w.Events > 0 {
			text += ", " + format.Count(w.Events) + " events"
		}
		if w.Dur > 0 {
			text += ", " + p.o.duration(float64(w.Dur))
		}
		facts = append(facts, text)
	}
	add := func(n int64, text string) {
		if n > 0 {
			facts = append(facts, text+": "+format.Count(n))
		}
	}
	add(l.IncompleteOps, "operators not seen on all threads")
	if s.Run.Level != "step" && s.Run.Level != "graph" { // these levels record no definitions
		add(l.UnknownShapes, "graphs without a definition")
	}
	add(l.PartShapes, "graphs with parts of their definition missing")
	add(l.Aborted, "graphs aborted")
	add(l.StepRows, "short steps not listed")
	notes := notesOf(s)
	if len(facts) == 0 && len(notes) == 0 {
		return
	}
	p.blank()
	if len(facts) > 0 {
		p.line("Not seen: "+strings.Join(facts, "; ")+".", plain)
	}
	for i, n := range notes {
		if i == 5 && !p.o.Verbose {
			p.line("and "+format.Plural(int64(len(notes)-i), "more note"), dim)
			break
		}
		p.line("Note: "+p.o.clean(n), plain)
	}
}
