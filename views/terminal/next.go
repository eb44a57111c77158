// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"slices"
	"strconv"
	"strings"

	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/summary"
)

// defaultFile is the recording that commands read if none is named.
const defaultFile = "run.pinf"

// fileArg is the recording as an argument of a further command, with a leading space; empty if it is the one
// that is read anyway.
func (p *page) fileArg() string {
	f := p.o.File
	switch {
	case f == "" || f == defaultFile:
		return ""
	case p.o.clean(f) != f:
		return " FILE" // it cannot be typed as it is shown
	case strings.Trim(f, shellSafe) != "":
		return " '" + strings.ReplaceAll(f, "'", `'\''`) + "'"
	}
	return " " + f
}

// shellSafe are characters that a shell takes as they are.
const shellSafe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./,:+@%="

// mostNext is how many further commands are suggested.
const mostNext = 3

// next suggests what to look at after this recording's screen.
func (p *page) next(s *summary.Stat, most int) {
	var list [][2]string
	add := func(command, why string) {
		if len(list) < most {
			list = append(list, [2]string{command, why})
		}
	}
	file := p.fileArg()
	switch ops := mainPhase(s) != nil; {
	case len(s.Phases) == 0:
		add("profinfer record -p PID --duration 30s", "record a running engine while it answers")
		add("profinfer doctor", "what can be recorded on this machine")
	case !ops && (s.Run.Level == "step" || s.Run.Level == "graph"):
		add("profinfer record --level op -- COMMAND", "records operators too")
	case ops:
		p.nextRuns(s, add)
	}
	if len(s.Phases) > 0 {
		if hasExperts(s) {
			add("profinfer stat --by expert"+file, "which experts tokens chose")
		}
		last := [2]string{"profinfer report" + file, "HTML report: timeline, operator graph, roofline"}
		if !p.o.Full && !p.o.Verbose {
			last = [2]string{"profinfer stat --full" + file,
				"everything; as HTML: profinfer report"}
		}
		list = append(list[:min(len(list), most-1)], last)
	}
	if len(list) == 0 {
		return
	}
	p.blank()
	wide := 0
	for _, n := range list {
		wide = max(wide, textWidth(n[0]))
	}
	for _, n := range list {
		pad := strings.Repeat(" ", wide-textWidth(n[0])+3)
		if p.o.Width > 0 && wide+3+textWidth(n[1]) > p.o.Width {
			pad = "   "
		}
		if p.o.Width > 0 && textWidth(n[0]+pad+n[1]) > p.o.Width {
			p.line(n[0], plain)
			continue
		}
		p.b.WriteString(n[0] + pad + p.o.style(n[1], dim))
		p.blank()
	}
}

// nextRuns suggests what tells more of a run whose operators are known.
func (p *page) nextRuns(s *summary.Stat, add func(command, why string)) {
	threads := 0
	for i := range s.Run.Processes {
		threads = max(threads, s.Run.Processes[i].Threads)
	}
	cpus := mayUse(s)
	over := cpus > 0 && threads > cpus
	if over {
		add("profinfer record -- COMMAND with -t "+strconv.Itoa(cpus), "as many threads as CPUs")
	}
	if slices.ContainsFunc(s.Findings, func(f summary.Finding) bool {
		return f.Kind == "slow_step" || f.Kind == "disturbed_steps"
	}) {
		add("profinfer stat --slow"+p.fileArg(), "slow steps, and what delayed them")
	}
	known := s.Peaks != nil && len(s.Peaks.Roofs) > 0
	switch {
	case !known:
		add("profinfer peaks", "measures this machine's roofline, for % of peak")
	case s.Peaks.Doubtful:
		add("profinfer peaks", "again on a quiet machine: other work disturbed the peaks")
	}
	unsure := slices.ContainsFunc(s.Verdicts, func(v summary.Verdict) bool {
		return v.Bound == summary.BoundUnknown || v.Sure == summary.SureLow
	})
	if unsure && known && !over {
		add("profinfer record -- COMMAND with -t 1", "memory or compute? Then compare: profinfer stat A B")
	}
}

func hasExperts(s *summary.Stat) bool {
	for i := range s.Phases {
		if e := s.Phases[i].Experts; e != nil && len(e.Layers) > 0 {
			return s.By != facts.ByExpert
		}
	}
	return false
}
