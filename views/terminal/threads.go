// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"fmt"
	"strings"

	"github.com/profinfer/profinfer/internal/format"
	"github.com/profinfer/profinfer/profile/sched"
	"github.com/profinfer/profinfer/profile/summary"
)

// mostThreads is how many threads are listed individually; a machine can have hundreds, which all behave
// alike.
const mostThreads = 16

// threads draws the threads: first in steps, then over the whole recording.
func (p *page) threads(s *summary.Stat) {
	list := s.Threads
	if len(list) == 0 {
		return
	}
	shown := list
	if !p.o.Verbose && len(list) > mostThreads {
		shown = list[:mostThreads]
	}
	p.blank()
	p.threadsInSteps(s, shown)
	if n := len(list) - len(shown); n > 0 {
		p.line(fmt.Sprintf("+%d more threads: -v shows them", n), dim)
	}
	if s.HasSched {
		p.blank()
		p.threadsSched(s, shown)
	}
}

// threadNames adds the columns that name threads.
func (p *page) threadNames(s *summary.Stat, t *table, title string, list []summary.Thread) {
	many := len(p.active(s)) > 1
	name := t.col(column{title: title, left: true, keep: 100, min: 23})
	role := t.col(column{left: true, keep: 62, tight: true})
	pid := t.col(column{title: "process", keep: 50})
	for i := range list {
		h := &list[i]
		label := p.o.clean(h.Comm)
		if label == "" {
			label = "thread"
		}
		name.add(label + fmt.Sprintf(" %d", h.TID))
		role.add(h.Role)
		if many {
			pid.add(fmt.Sprint(h.PID))
		} else {
			pid.add("")
		}
	}
}

func (p *page) threadsInSteps(s *summary.Stat, list []summary.Thread) {
	var t table
	p.threadNames(s, &t, "threads, in steps", list)
	ops := t.col(column{title: "operators", keep: 40})
	busy := t.col(column{title: "busy", keep: 90})
	bar := t.col(column{left: true, keep: 30, tight: true})
	wait := t.col(column{title: "barrier wait", keep: 80})
	off := t.col(column{title: "off-CPU", keep: 85})
	idle := t.col(column{title: "outside operators", keep: 60})
	imb := t.col(column{title: "busy, against mean", keep: 65})
	for i := range list {
		h := &list[i]
		ops.add(format.Count(h.Ops))
		part := func(ns int64) string {
			if h.Steps <= 0 {
				return "-"
			}
			v := float64(ns) / float64(h.Steps)
			return format.Percent(&v)
		}
		busy.add(part(h.Busy))
		if h.Steps > 0 {
			bar.add(p.o.bar(float64(h.Busy), float64(h.Steps), 10))
		} else {
			bar.add("")
		}
		bar.style = append(bar.style, blue)
		wait.add(part(h.Wait))
		if s.HasOffCPU {
			off.add(part(h.OffCPU))
		} else {
			off.add("-")
		}
		idle.add(part(h.Idle))
		imb.add(signed(h.Imbalance))
	}
	p.table(&t)
}

func (p *page) threadsSched(s *summary.Stat, list []summary.Thread) {
	var t table
	p.threadNames(s, &t, "threads, whole recording", list)
	pre := t.col(column{title: "preempted", keep: 35})
	slept := t.col(column{title: "slept", keep: 20})
	ran := t.col(column{title: "runnable", keep: 64})
	who := t.col(column{title: "preempted by", left: true, keep: 88, most: 4})
	woke := t.col(column{title: "woken by", left: true, keep: 15, most: 2})
	for i := range list {
		h := &list[i]
		pre.add(countOf(h.Preempted))
		slept.add(countOf(h.Slept))
		if h.Runnable != nil && *h.Runnable > 0 {
			ran.add(p.o.duration(float64(*h.Runnable)))
		} else {
			ran.add("-")
		}
		who.addList(p.culprits(h.Instead))
		if len(h.Instead) > 0 && h.Instead[0].Own {
			who.whole = 2 // the first one that is not of its team is the one to look for
		}
		woke.addList(p.culprits(h.WokenBy))
	}
	p.table(&t)
}

func countOf(n *int64) string {
	if n == nil {
		return "-"
	}
	return format.Count(*n)
}

// signed formats a deviation: +2 %.
func signed(v *float64) string {
	if v == nil {
		return "-"
	}
	return strings.Replace(fmt.Sprintf("%+.0f %%", *v*100), "-0 %", "+0 %", 1)
}

// culprits names others, with their time or count.
func (p *page) culprits(list []sched.Culprit) []string {
	var out []string
	for _, c := range list {
		name := p.name(c.Comm)
		if c.Own {
			name = "own threads"
		}
		if c.Dur > 0 {
			out = append(out, name+" "+p.o.duration(float64(c.Dur)))
		} else {
			out = append(out, fmt.Sprintf("%s %sx", name, format.Count(c.Count)))
		}
	}
	return out
}
