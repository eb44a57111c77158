// SPDX-License-Identifier: Apache-2.0

package record

import (
	"slices"
	"testing"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/trace"
)

// Operators that ran in no graph that is seen are evidence only where the graphs of that scheduler's backends
// should have been, or could not be, watched.
func TestUnseenOperators(t *testing.T) {
	const sched = 0x100
	begin := func(at int64, nodes int32) trace.Mark {
		return trace.Mark{Kind: trace.MarkSchedBegin, Time: at, TID: 7, Ctx: sched, NNodes: nodes}
	}
	graph := func(nodes int32) trace.Mark {
		return trace.Mark{Kind: trace.MarkGraphBegin, TID: 7, NNodes: nodes}
	}
	end := trace.Mark{Kind: trace.MarkSchedEnd, TID: 7}
	fail := func(v *evidence) { v.fail(sched, "no such process") }
	watched := func(v *evidence) { v.watch(sched, watching{from: 1000}) }
	partly := func(v *evidence) { v.watch(sched, watching{1000, "backend 1"}) }
	for _, c := range []struct {
		name      string
		before    func(*evidence)
		marks     []trace.Mark
		elsewhere bool
		why       string
	}{
		{"all on the CPU, backends not looked up", fail, []trace.Mark{begin(1, 10), graph(10), end}, false,
			""},
		{"in two graphs", fail, []trace.Mark{begin(1, 10), graph(4), graph(6), end}, false, ""},
		{"some elsewhere", fail, []trace.Mark{begin(1, 10), graph(4), end}, true, "no such process"},
		{"all elsewhere", fail, []trace.Mark{begin(1, 10), end}, true, "no such process"},
		{"the end is not probed", fail, []trace.Mark{begin(1, 10), graph(4), begin(2, 10)}, true,
			"no such process"},
		{"cut off", fail, []trace.Mark{begin(1, 10), graph(4)}, false, ""},
		{"how many is not known", fail, []trace.Mark{begin(1, 0), end}, false, ""},
		{"another thread's", fail, []trace.Mark{begin(1, 10),
			{Kind: trace.MarkGraphBegin, TID: 8, NNodes: 10}, end}, true, "no such process"},
		{"before backends were watched", watched, []trace.Mark{begin(999, 10), graph(4), end}, false, ""},
		{"in a file that was left out", watched, []trace.Mark{begin(1001, 10), graph(4), end}, true, ""},
		{"before some were watched", partly, []trace.Mark{begin(999, 10), graph(4), end}, false, ""},
		{"a backend that cannot be watched", partly, []trace.Mark{begin(1001, 10), graph(4), end}, true,
			"backend 1"},
		{"a backend that could not, and computes nothing", partly,
			[]trace.Mark{begin(1001, 10), graph(10), end}, false, ""},
		{"looked up at last", func(v *evidence) {
			fail(v)
			watched(v)
		}, []trace.Mark{begin(999, 10), graph(4), end}, false, ""},
		{"looked up again, and in vain", func(v *evidence) {
			watched(v)
			fail(v)
		}, []trace.Mark{begin(999, 10), graph(4), end}, false, ""},
		{"looked up again, in vain, and then some", func(v *evidence) {
			watched(v)
			fail(v)
		}, []trace.Mark{begin(1001, 10), graph(4), end}, true, "no such process"},
		{"not looked up, at this level", func(*evidence) {}, []trace.Mark{begin(1, 10), end}, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var v evidence
			c.before(&v)
			why := ""
			for i := range c.marks {
				if _, w := v.mark(&c.marks[i]); w != "" {
					why = w
				}
			}
			if v.elsewhere != c.elsewhere || why != c.why {
				t.Errorf("elsewhere %v because of %q, want %v, %q", v.elsewhere, why, c.elsewhere, c.why)
			}
		})
	}
}

// What a plan warns of is told once it matters to the run, and not before the process has computed.
func TestLacking(t *testing.T) {
	plan := &engine.Plan{Warnings: []engine.Warning{
		{Text: "steps"}, {Text: "graphs", Level: engine.LevelGraph}, {Text: "operators",
			Level: engine.LevelOp},
		{Text: "elsewhere", Elsewhere: true}, {Text: "BLAS", Backend: "BLAS"}, {Text: "process",
			Entry: "llama_process"}, {Text: "steps"}}}
	sites := []trace.Site{{Entry: "llama_decode"}, {Entry: "llama_process"}, {Backend: "CPU"},
		{Backend: "BLAS"}, {}}
	dear := []dearSite{{2, engine.RoleGraphEnd, "dear CPU"}, {3, engine.RoleGraphEnd, "dear BLAS"},
		{4, engine.RoleOpEnd, "dear operators"}, {0, engine.RoleSubmitBegin, "dear queue"}}
	for _, c := range []struct {
		name   string
		level  engine.Level
		called []bool
		set    func(*process)
		want   []string
	}{
		{"idle", engine.LevelOp, nil, func(p *process) { p.computes = false }, nil},
		{"on the CPU", engine.LevelOp, []bool{true, false, true}, nil,
			[]string{"steps", "graphs", "operators", "dear CPU", "dear operators"}},
		// of sites that are probed: none at that level
		{"steps only", engine.LevelStep, []bool{true}, nil, []string{"steps", "dear operators"}},
		{"with BLAS", engine.LevelGraph, []bool{true, false, true, true, false}, nil,
			[]string{"steps", "graphs", "BLAS", "dear CPU", "dear BLAS", "dear operators"}},
		{"another entry point", engine.LevelStep, []bool{true, true}, nil,
			[]string{"steps", "process", "dear operators"}},
		{"elsewhere", engine.LevelStep, nil, func(p *process) {
			p.matters.elsewhere = true
		}, []string{"steps", "elsewhere", "dear operators"}},
		{"a reason", engine.LevelGraph, nil, func(p *process) { p.lack("a"); p.lack("b"); p.lack("") },
			[]string{"steps", "graphs", "a", "dear operators"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProcess(1)
			p.plan, p.computes, p.info.Sites = plan, true, sites
			p.matters.called, p.matters.dear = c.called, dear
			if c.set != nil {
				c.set(p)
			}
			r := &recorder{opt: Options{Level: c.level}}
			if got := r.lacking(p); !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
			told := 0
			r.opt.Warn = func(string) { told++ }
			if r.tell(p) != (len(c.want) > 0) || r.tell(p) || told != len(c.want) {
				t.Errorf("%d told of %d", told, len(c.want))
			}
		})
	}
}
