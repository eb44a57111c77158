// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"fmt"
	"slices"
	"strings"

	"github.com/profinfer/profinfer/profile"
)

// headline says in a sentence or two what stands out, as far as the recording itself supports
// it: shares of time and rates, no verdict that would need the machine's peaks.
func (p *page) headline(s *profile.Stat) {
	var lines []string
	for i := len(s.Phases) - 1; i >= 0; i-- { // decode before prefill: it is what people wait for
		if t := p.phaseText(s, &s.Phases[i]); t != "" {
			lines = append(lines, t)
		}
	}
	if t, much := p.interference(s); much {
		lines = append([]string{t}, lines...)
	} else if t != "" {
		lines = append(lines, t)
	}
	if t := p.slowest(s); t != "" {
		lines = append(lines, t)
	}
	if len(lines) == 0 {
		return
	}
	p.blank()
	for _, l := range lines {
		p.line(l, bold)
	}
}

// phaseText says where a phase's time goes.
func (p *page) phaseText(s *profile.Stat, f *profile.PhaseStat) string {
	name := phaseName(s, f)
	name = strings.ToUpper(name[:1]) + name[1:]
	if f.Phase == "unknown" {
		name = "Steps whose batch could not be read"
	}
	if f.MatMul == nil || f.Attn == nil || f.Other == nil || f.GapShare == nil {
		return ""
	}
	type piece struct {
		share float64
		text  string
	}
	first := piece{*f.MatMul, "in matrix products"}
	if f.MatMulGBps != nil && f.Phase == string(profile.Decode) {
		first.text += ", which read their weights at " + number(f.MatMulGBps) + " GB/s"
	}
	pieces := []piece{first, {*f.Attn, "in attention itself"},
		{*f.Other, "in other operators"}, {*f.GapShare, "outside operators"}}
	if len(f.Backends) > 0 && f.Backend != nil {
		on := p.o.clean(f.Backends[0].Backend)
		if len(f.Backends) > 1 {
			on = "other backends"
		}
		pieces = append(pieces, piece{*f.Backend, "in graphs on " + on})
	}
	var said []string
	for {
		best := 0
		for i := range pieces {
			if pieces[i].share > pieces[best].share {
				best = i
			}
		}
		b := pieces[best]
		if b.share < 0.05 || len(said) == 3 {
			break
		}
		text := percent(&b.share)
		if len(said) == 0 {
			text += " of the time"
		}
		said = append(said, text+" "+b.text)
		pieces[best].share = 0
	}
	if len(said) == 0 {
		return ""
	}
	text := name + ": " + strings.Join(said, "; ")
	var lose []string
	if f.Wait != nil && *f.Wait >= 0.005 {
		lose = append(lose, "wait for each other "+percent(f.Wait))
	}
	if f.OffCPU != nil && *f.OffCPU >= 0.005 {
		lose = append(lose, "are off their CPU "+percent(f.OffCPU))
	}
	if len(lose) > 0 {
		text += ". In operators, threads " + strings.Join(lose, " and ") + " of their time"
	}
	return text + "."
}

// slowest names a decode step that took much longer than the others.
func (p *page) slowest(s *profile.Stat) string {
	for i := range s.Phases {
		f := &s.Phases[i]
		if f.Phase != string(profile.Decode) || f.Steps < 3 {
			continue
		}
		// The others' mean: the slowest one is not to hide itself.
		mean := float64(f.Dur-f.StepMax) / float64(f.Steps-1)
		if mean > 0 && float64(f.StepMax) > 1.3*mean {
			text := fmt.Sprintf("Slowest in %s: step %d took %s, the others %s on average",
				phaseName(s, f), f.StepMaxID, p.o.duration(float64(f.StepMax)), p.o.duration(mean))
			var kept int64
			for _, c := range f.StepMaxInstead {
				kept += c.Dur
			}
			if over := float64(f.StepMax) - mean; float64(kept) > 0.25*over {
				c := f.StepMaxInstead[0]
				who := p.o.clean(c.Comm)
				if c.Own {
					who = "another of the team"
				}
				text += fmt.Sprintf(": its threads had no CPU for %s in sum, %s ran there for %s", p.o.duration(float64(kept)), who, p.o.duration(float64(c.Dur)))
			}
			return text + "."
		}
	}
	return ""
}

// interference names who kept the threads from running, where that took a notable time; much is
// true where it took so much that it comes before everything else.
func (p *page) interference(s *profile.Stat) (text string, much bool) {
	var waited, steps int64
	type name struct {
		comm string
		own  bool
	}
	who := map[name]int64{}
	for i := range s.Threads {
		t := &s.Threads[i]
		if t.Runnable == nil {
			continue
		}
		waited += *t.Runnable
		steps += t.Steps
		for _, c := range t.Instead {
			who[name{c.Comm, c.Own}] += c.Dur
		}
	}
	if steps == 0 || float64(waited) < 0.01*float64(steps) {
		return "", false
	}
	var top name
	for n, d := range who {
		if top.comm == "" || d > who[top] || d == who[top] && n.comm < top.comm {
			top = n
		}
	}
	part := float64(waited) / float64(steps)
	// of the whole recording, whatever phases are shown: hence no share of the steps' time
	text = fmt.Sprintf("Threads were ready to run and had no CPU for %s in sum", p.o.duration(float64(waited)))
	if top.comm != "" && who[top]*5 > waited {
		had := p.o.duration(float64(who[top]))
		if top.own {
			text += fmt.Sprintf(": for %s another of the team ran there, they share CPUs", had)
		} else {
			text += fmt.Sprintf(": %s ran there for %s", p.o.clean(top.comm), had)
		}
	}
	return text + ".", part >= 0.1
}

// caveats says what makes the figures below doubtful.
func (p *page) caveats(s *profile.Stat) {
	var lines []string
	l := &s.Lost
	if l.Torn != "" {
		lines = append(lines, "This file is damaged: "+p.o.clean(l.Torn)+". What comes before is shown.")
	}
	if l.Cut {
		lines = append(lines, "This recording was cut: it has no end. What was written is shown.")
	}
	for _, w := range l.ByWhy {
		if w.Why == "lost" && w.Events > 0 {
			what := w.What
			if what == "" {
				what = "events"
			}
			lines = append(lines, fmt.Sprintf("%s %s were lost: the steps concerned are left out where they could be told.", count(w.Events), p.o.clean(what)))
		}
	}
	for i := range s.Phases {
		f := &s.Phases[i]
		switch {
		case f.OnlyPartial:
			lines = append(lines, fmt.Sprintf("No step of %s was seen wholly: its figures can be too low.", phaseName(s, f)))
		case f.Partial > 0:
			n := "1 step that was"
			if f.Partial > 1 {
				n = count(f.Partial) + " steps that were"
			}
			lines = append(lines, fmt.Sprintf("%s: %s not seen wholly, left out.", phaseName(s, f), n))
		}
	}
	if v := s.Run.ProbeShare; v != nil && *v > 0.05 {
		lines = append(lines, fmt.Sprintf("The probes themselves took about %s of the threads' time in operators: figures of operators are without it, by an estimate.", percent(v)))
	}
	if len(lines) == 0 {
		return
	}
	p.blank()
	for _, t := range lines {
		p.line(t, warn)
	}
}

// lost lists everything that was not seen, and what the recorder said.
func (p *page) lost(s *profile.Stat) {
	l := &s.Lost
	var facts []string
	for _, w := range l.ByWhy {
		text := p.o.clean(w.Why)
		if w.What != "" {
			text += " " + p.o.clean(w.What)
		}
		text += ": " + plural(int64(w.Spans), "span")
		if w.Events > 0 {
			text += ", " + count(w.Events) + " events"
		}
		if w.Dur > 0 {
			text += ", " + p.o.duration(float64(w.Dur))
		}
		facts = append(facts, text)
	}
	add := func(n int64, text string) {
		if n > 0 {
			facts = append(facts, text+": "+count(n))
		}
	}
	add(l.IncompleteOps, "operators not seen on all threads")
	if s.Run.Level != "step" && s.Run.Level != "graph" { // those ask for no definitions
		add(l.UnknownShapes, "graphs without a definition")
	}
	add(l.PartShapes, "graphs with parts of their definition missing")
	add(l.Aborted, "graphs aborted")
	add(l.StepRows, "short steps not listed")
	var notes []string
	for i := range s.Run.Processes {
		notes = append(notes, s.Run.Processes[i].Warnings...)
	}
	notes = append(notes, s.Run.Notes...)
	told := map[string]bool{}
	notes = slices.DeleteFunc(notes, func(n string) bool {
		again := told[n]
		told[n] = true
		return again
	})
	if len(facts) == 0 && len(notes) == 0 {
		return
	}
	p.blank()
	if len(facts) > 0 {
		p.line("Not seen: "+strings.Join(facts, "; ")+".", plain)
	}
	for i, n := range notes {
		if i == 5 && !p.o.Verbose {
			p.line("and "+plural(int64(len(notes)-i), "more note"), dim)
			break
		}
		p.line("Note: "+p.o.clean(n), plain)
	}
}
