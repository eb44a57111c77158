// SPDX-License-Identifier: Apache-2.0

package record

import (
	"fmt"
	"slices"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/trace"
)

// evidence decides whether a warning matters to a process's run: which probed calls it made, and whether a
// scheduler ran operators in no graph that was seen.
type evidence struct {
	called    []bool // of marks' sites, by index in the trace
	dear      []dearSite
	elsewhere bool
	unseen    bool                // the reason was reported
	runs      map[int32]*schedRun // the current one, by thread
	scheds    map[uint64]watching // those whose backends were looked up
}

// dearSite is a probed site that costs more than it should.
type dearSite struct {
	index uint32 // in the trace
	role  engine.Role
	text  string
}

// schedRun is one run of a scheduler.
type schedRun struct {
	sched        uint64
	begin        int64
	nodes, graph int64 // nodes of the whole graph (0: unknown), and of its graphs that were seen
}

// watching is what is observed of a scheduler's backends.
type watching struct {
	from int64  // when observation of their graphs began; 0: its backends could not be looked up
	why  string // why not all of them are; empty: they are
}

const maxRuns = 1 << 10

// watch notes what is observed of a scheduler's backends.
func (v *evidence) watch(sched uint64, w watching) {
	if v.scheds == nil || len(v.scheds) >= maxRuns {
		v.scheds = map[uint64]watching{}
	}
	v.scheds[sched] = w
}

// fail notes that a scheduler's backends could not be looked up. If the failure concerns another scheduler at
// the same address, what is observed stays.
func (v *evidence) fail(sched uint64, why string) {
	v.watch(sched, watching{v.scheds[sched].from, why})
}

// mark takes a mark, as in the trace, and reports whether it is new evidence. unseen is why operators ran in
// no graph that is seen; empty if the plan has the reason.
func (v *evidence) mark(m *trace.Mark) (news bool, unseen string) {
	if n := int(m.Site) + 1; n > len(v.called) {
		v.called = append(v.called, make([]bool, n-len(v.called))...)
	}
	news = !v.called[m.Site]
	v.called[m.Site] = true
	run := v.runs[m.TID]
	switch m.Kind {
	case trace.MarkGraphBegin:
		if run != nil {
			run.graph += int64(m.GraphNodes())
		}
		return news, ""
	case trace.MarkSchedBegin:
		if v.runs == nil || len(v.runs) >= maxRuns {
			v.runs = map[int32]*schedRun{}
		}
		v.runs[m.TID] = &schedRun{sched: m.Scheduler(), begin: m.Time, nodes: int64(m.GraphNodes())}
	case trace.MarkSchedEnd:
		delete(v.runs, m.TID)
	default:
		return news, ""
	}
	if run == nil || run.graph >= run.nodes {
		return news, ""
	}
	w, ok := v.scheds[run.sched]
	if !ok || run.begin < w.from {
		return news, "" // its first runs: nothing was observed yet, as expected
	}
	why := w.why
	if v.unseen {
		why = ""
	}
	news = news || !v.elsewhere
	v.elsewhere = true
	return news, why
}

// lack notes why operators ran in no graph that is seen; only the first reason is kept, as others usually
// repeat it for another scheduler.
func (p *process) lack(why string) {
	if why == "" || p.matters.unseen {
		return
	}
	p.matters.unseen = true
	p.lacks = append(p.lacks, engine.Warning{Text: why, Level: engine.LevelGraph})
}

// lacking is what a process's recording lacks that matters to this run: nothing before it has computed.
func (r *recorder) lacking(p *process) []string {
	if !p.computes {
		return nil
	}
	var out []string
	add := func(text string) {
		if !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	has := func(fits func(i int) bool) bool {
		for i := range p.info.Sites {
			if i < len(p.matters.called) && p.matters.called[i] && fits(i) {
				return true
			}
		}
		return false
	}
	for _, w := range slices.Concat(p.plan.Warnings, p.lacks) {
		switch {
		case w.Level > r.opt.Level:
		case w.Elsewhere && !p.matters.elsewhere:
		case w.Backend != "" && !has(func(i int) bool { return p.info.Sites[i].Backend == w.Backend }):
		case w.Entry != "" && !has(func(i int) bool { return p.info.Sites[i].Entry == w.Entry }):
		default:
			add(w.Text)
		}
	}
	for _, s := range p.matters.dear {
		switch s.role {
		case engine.RoleOpBegin, engine.RoleOpFused, engine.RoleOpEnd: // hits do not identify their site
			add(s.text)
		case engine.RoleStepBegin, engine.RoleStepEnd, engine.RoleSchedBegin, engine.RoleSchedEnd,
			engine.RoleGraphBegin, engine.RoleGraphEnd:
			if int(s.index) < len(p.matters.called) && p.matters.called[s.index] {
				add(s.text)
			}
		}
	}
	return out
}

// warnings reports what a process's recording lacks once that matters, and writes it to the trace.
func (r *recorder) warnings(p *process) error {
	if p.replaced || !r.tell(p) {
		return nil
	}
	return r.w.Process(p.info)
}

// tell reports at the terminal what a process's recording lacks, each item once, and stores it with the
// process. It returns false if nothing has changed.
func (r *recorder) tell(p *process) bool {
	now := r.lacking(p)
	if slices.Equal(now, p.info.Warnings) {
		return false
	}
	p.info.Warnings = now
	for _, w := range now {
		if p.warned[w] {
			continue
		}
		p.warned[w] = true
		if r.opt.Warn != nil {
			r.opt.Warn(fmt.Sprintf("%s (%d): %s", p.info.Comm, p.pid, w))
		}
	}
	return true
}
