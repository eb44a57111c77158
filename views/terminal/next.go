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
	slow := false
	for i := range s.Findings {
		slow = slow || slices.Contains([]string{"slow_step", "disturbed_steps"}, s.Findings[i].Kind)
	}
	if slow {
		add("profinfer stat --slow"+file, "slow steps, and what delayed them")
	}
	threads := 0
	for i := range s.Run.Processes {
		threads = max(threads, s.Run.Processes[i].Threads)
	}
	ops := mainPhase(s) != nil
	unsure := false
	for i := range s.Verdicts {
		v := &s.Verdicts[i]
		unsure = unsure || v.Bound == summary.BoundUnknown || v.Sure == summary.SureLow
	}
	switch {
	case len(s.Phases) == 0:
		add("profinfer record -p PID --duration 30s", "record a running engine while it answers")
		add("profinfer doctor", "what can be recorded on this machine")
	case !ops && (s.Run.Level == "step" || s.Run.Level == "graph"):
		add("profinfer record --level op -- COMMAND", "records operators too")
	}
	if ops && (s.Peaks == nil || len(s.Peaks.Roofs) == 0) {
		add("profinfer peaks", "measures this machine's roofline, for % of peak")
	}
	if cpus := mayUse(s); cpus > 0 && threads > cpus {
		add("profinfer record -- COMMAND with "+"-t "+strconv.Itoa(cpus), "as many threads as CPUs")
	} else if unsure && s.Peaks != nil && len(s.Peaks.Roofs) > 0 {
		add("profinfer record -- COMMAND with -t 1, then -t 2", "memory or compute? Compare them: stat A B")
	}
	if len(s.Phases) > 0 {
		add("profinfer report"+file, "HTML report: timeline, operator graph, roofline")
		if hasExperts(s) {
			add("profinfer stat --by expert"+file, "which experts tokens chose")
		}
		if !p.o.Full && !p.o.Verbose {
			add("profinfer stat --full"+file, "all operators, phases, requests and threads")
		}
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

func hasExperts(s *summary.Stat) bool {
	for i := range s.Phases {
		if e := s.Phases[i].Experts; e != nil && len(e.Layers) > 0 {
			return s.By != facts.ByExpert
		}
	}
	return false
}
