// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"cmp"
	"slices"

	"github.com/profinfer/profinfer/internal/format"
	"github.com/profinfer/profinfer/profile/sched"
	"github.com/profinfer/profinfer/profile/summary"
)

// mostCulprits is how many are named at most.
const mostCulprits = 6

// threadLines says in two lines how the threads fared, and who preempted them.
func (p *page) threadLines(s *summary.Stat) {
	n := 0
	for i := range s.Run.Processes {
		n = max(n, s.Run.Processes[i].Threads)
	}
	if n == 0 || len(s.Threads) == 0 {
		return
	}
	const indent = 15
	p.blank()
	of, cpus := format.Count(n), mayUse(s)
	if cpus > 0 {
		of += " on " + format.Plural(cpus, "CPU")
		if n > cpus {
			of += ": oversubscribed"
		}
	}
	if u := s.CPUUse; u != nil && u.Utilisation != nil {
		of += ", utilisation " + format.Percent(u.Utilisation)
	}
	facts := []string{of}
	if !s.HasSched {
		facts = append(facts, "scheduling was not recorded: who preempted them is not known")
		p.items("threads", indent, facts, "   ")
		return
	}
	var preempted, runnable int64
	for i := range s.Threads {
		h := &s.Threads[i]
		if h.Preempted != nil {
			preempted += *h.Preempted
		}
		if h.Runnable != nil {
			runnable += *h.Runnable
		}
	}
	facts = append(facts, format.Plural(preempted, "preemption"),
		"runnable "+p.o.duration(float64(runnable)))
	p.items("threads", indent, facts, "  ")
	if who := p.preemptors(s, n); len(who) > 0 {
		p.oneLine("preempted by", indent, who)
	}
}

// mayUse is how many CPUs the engine may use, or the machine has; 0: unknown.
func mayUse(s *summary.Stat) int {
	if u := s.CPUUse; u != nil && u.CPUs > 0 {
		return u.CPUs
	}
	return s.Run.Cores
}

// preemptors names who preempted the threads: other processes first, but where there are more threads than
// CPUs, which is why the engine's own threads preempt one another.
func (p *page) preemptors(s *summary.Stat, threads int) []string {
	all := together(s.Threads)
	own := slices.IndexFunc(all, func(c sched.Culprit) bool { return c.Own })
	if own >= 0 {
		c := all[own]
		all = slices.Delete(all, own, own+1)
		if cpus := mayUse(s); cpus > 0 && threads > cpus {
			all = slices.Insert(all, 0, c)
		} else {
			all = append(all, c)
		}
	}
	return p.culprits(all)
}

// oneLine writes as many items as fit on one line behind a name, at least one, and how many more there are.
func (p *page) oneLine(name string, indent int, list []string) {
	n := min(len(list), mostCulprits)
	text := func() string { return (&column{}).items(list, n) }
	for n > 1 && p.o.Width > 0 && indent+textWidth(text()) > p.o.Width {
		n--
	}
	p.hanging(name, indent, text(), plain)
}

// together sums up who ran in place of the threads.
func together(list []summary.Thread) (all []sched.Culprit) {
	for i := range list {
		for _, c := range list[i].Instead {
			at := slices.IndexFunc(all, func(o sched.Culprit) bool {
				return o.Own == c.Own && (c.Own || o.Comm == c.Comm)
			})
			if at < 0 {
				at = len(all)
				all = append(all, sched.Culprit{Comm: c.Comm, Own: c.Own})
			}
			all[at].Dur += c.Dur
			all[at].Count += c.Count
		}
	}
	slices.SortStableFunc(all, func(a, b sched.Culprit) int { return cmp.Compare(b.Dur, a.Dur) })
	return all
}
