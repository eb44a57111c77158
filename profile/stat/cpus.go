// SPDX-License-Identifier: Apache-2.0

package stat

import (
	"cmp"
	"slices"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/internal/num"
	"github.com/profinfer/profinfer/profile/summary"
)

// cpuSum sums up who used CPUs during steps whose operators were recorded.
type cpuSum struct {
	dur, until int64          // time covered by these steps; the end of the last one
	team       int            // threads of the largest team
	each       map[uint16]use // by CPU
}

type use struct {
	ops               int64 // threads' time in operators that began there
	own, others, idle int64 // by scheduling events
}

// step adds a step. Steps of several processes can overlap: no time counts twice.
func (c *cpuSum) step(b *statState, s *profile.Step, ops []*profile.Op) {
	if len(ops) == 0 {
		return
	}
	if c.each == nil {
		c.each = map[uint16]use{}
	}
	for _, o := range ops {
		c.team = max(c.team, len(o.Threads))
		for i := range o.Threads {
			t := &o.Threads[i]
			u := c.each[t.CPU]
			u.ops += t.Busy + t.Wait
			c.each[t.CPU] = u
		}
	}
	from, to := max(s.Start, c.until), s.Start+s.Dur
	if to <= from {
		return
	}
	c.dur += to - from
	c.until = to
	b.sched.Holders(from, to, func(cpu uint16, own, others, idle int64) {
		u := c.each[cpu]
		u.own += own
		u.others += others
		u.idle += idle
		c.each[cpu] = u
	})
}

// finish returns nil where nothing is known: without scheduling events a thread's time includes what it was
// off its CPU.
func (c *cpuSum) finish(b *Builder, machine int) *summary.CPUUse {
	if c.dur <= 0 || !b.sched.Any {
		return nil
	}
	u := &summary.CPUUse{Dur: c.dur, Threads: c.team, CPUs: b.sched.MayUse(), Machine: machine,
		Each: []summary.CPU{}}
	for cpu, x := range c.each {
		// A thread that keeps its CPU is in no scheduling event: where nothing tells who had it, it is who
		// computed there.
		unseen := max(0, c.dur-x.own-x.others-x.idle)
		engine := float64(x.own+min(max(0, x.ops-x.own), unseen)) / float64(c.dur)
		u.Busy += engine
		if engine > 0 {
			u.Each = append(u.Each,
				summary.CPU{CPU: int(cpu), Engine: engine, Others: num.Share(x.others, c.dur)})
		}
	}
	slices.SortFunc(u.Each, func(a, b summary.CPU) int { return cmp.Compare(a.CPU, b.CPU) })
	if n := cmp.Or(u.CPUs, machine); n > 0 {
		u.Utilisation = num.Ratio(min(u.Busy, float64(n)), float64(n))
	}
	return u
}
