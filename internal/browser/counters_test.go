// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/profile/roof"
	"github.com/profinfer/profinfer/profile/series"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/profile/summary"
	"github.com/profinfer/profinfer/profile/timeline"
	"github.com/profinfer/profinfer/trace"
	"github.com/profinfer/profinfer/views/report"
)

// hostileCounter is a name that nobody means well with: whoever can write a recording can write that of a
// counter.
const hostileCounter = "<img src=x onerror=alert(1)>\u202e\x1b[31m"

// counterList are what counts makes up: IPC, a stall share, misses, one that is scaled, one that reads 0, one
// that is void.
var counterList = []trace.Counter{
	{Name: "cycles", Role: "cycles", PMU: "cpu"}, {Name: "instructions", Role: "instructions", PMU: "cpu"},
	{Name: "stalled-cycles-backend", Role: "stall-backend", PMU: "cpu"}, {Name: "LLC-load-misses",
		Role: "llc-miss", PMU: "cpu", Scaled: true},
	{Name: hostileCounter, PMU: "cpu"}, {Name: "branch-misses", Role: "branch-misses",
		PMU: "cpu"}, {Name: "stalled-cycles-frontend", Role: "stall-frontend", PMU: "cpu", Void: "reads 0"},
}

// counts makes up counters for a run that is played: the more threads, the fewer instructions per cycle. ROPE's
// instructions are not known.
type counts struct {
	profile.Sink
	ipc float64
}

func (c counts) Op(o *profile.Op) error {
	o.Counts = make([]int64, len(counterList))
	n := int64(len(o.Threads))
	for i := range o.Threads {
		t := &o.Threads[i]
		cycles := 3 * t.Busy
		t.Counts = []int64{cycles, int64(float64(cycles) * c.ipc / float64(n)), cycles * n / 8,
			t.Busy/1000 + 1, 7, 0, profile.UnknownCount}
		if o.Op == "ROPE" {
			t.Counts[1] = profile.UnknownCount
		}
		for k, v := range t.Counts {
			if v == profile.UnknownCount || o.Counts[k] == profile.UnknownCount {
				o.Counts[k] = profile.UnknownCount
			} else {
				o.Counts[k] += v
			}
		}
	}
	return c.Sink.Op(o)
}

// twoTeams plays a model on one thread, then on two, with counters.
func twoTeams(ipc float64) report.Replay {
	return func(s profile.Sink) (*profile.Header, error) {
		p := &profiletest.Player{Sink: counts{s, ipc}}
		for threads := 1; threads <= 2; threads++ {
			r := profiletest.Run{Model: profiletest.Small, PID: 100, Ctx: uint64(threads), Threads: threads,
				Prefill: 16, Decode: 8, Start: 1_000_000_000, Gap: 300, Sched: true}
			if err := p.Play(r); err != nil {
				return nil, err
			}
		}
		h := p.Header("op")
		h.Meta.Counters = counterList
		return h, nil
	}
}

// counterPeaks are roofs between which the made-up operators lie.
func counterPeaks() *roof.Peaks {
	rate := func(v float64) *float64 { return &v }
	return &roof.Peaks{Source: "made up", At: func(threads int, weight string) roof.Roof {
		r := roof.Roof{Threads: threads, GBps: rate(4 * float64(threads)),
			StreamGBps: rate(3 * float64(threads)), GFlops: rate(20 * float64(threads)), Units: "f32"}
		if weight == "q4_0" {
			r.GFlops, r.MatrixGFlops, r.Units = rate(80*float64(threads)), rate(500*float64(threads)), "int8"
		}
		return r
	}}
}

func counterRun(t *testing.T, file string, ipc float64, opts ...report.Option) *report.Run {
	t.Helper()
	run, err := report.Load(file, twoTeams(ipc), opts...)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func peaksOf(p *roof.Peaks) report.Option {
	return report.Peaks(func(*profile.Header) *roof.Peaks { return p })
}

// Counters and roofline in every view: figures are those of the statistics and of the roofline, and the views
// stand hostile names, two runs, little room and no roof.
func TestCounters(t *testing.T) {
	tools(t)
	s, b, tl := stat.New(stat.Options{}), series.New(nil), timeline.New(timeline.Options{})
	var ops []*profile.Op
	h, err := twoTeams(1.5)(profile.Tee(s, b, tl, keep{ops: &ops}))
	if err != nil {
		t.Fatal(err)
	}
	b.Finish(h)
	stat, line := s.Finish(h), b.Roofline(h, counterPeaks())

	one := counterRun(t, hostileCounter+".pinf", 1.5, peaksOf(counterPeaks()))
	two := counterRun(t, "b.pinf", 0.75, peaksOf(&roof.Peaks{Missing: "not measured"}))
	without := load(t, "plain.pinf", recorded(t, "plain"))
	looks := [][3]int{smdrk, {560, 800, 0}}
	got := suite(t, "counters", plan{Pages: []page{
		{Name: "one", URL: write(t, "one", one), Looks: looks,
			Tables: []tableOf{{Phase: "decode"}, {Phase: "prefill"}}},
		{Name: "two", URL: write(t, "two", one, two), Looks: [][3]int{light}},
		{Name: "one-without", URL: write(t, "one-without", one, without), Looks: [][3]int{small},
			Long: true},
		{Name: "none", URL: write(t, "none", without), Looks: [][3]int{{560, 800, 1}}, Brief: true},
	}})

	var f struct {
		Tables   map[string][]row  `json:"tables"`
		Roofline []row             `json:"roofline"`
		Roofs    []row             `json:"roofs"`
		Threads  []row             `json:"threads"`
		Dag      map[string]string `json:"dag"`
		Time     map[string]string `json:"time"`
	}
	if err := json.Unmarshal(got["one/figures"].Data, &f); err != nil {
		t.Fatal(err)
	}
	mean := func(cs []summary.Count, i int) float64 {
		if cs[i].Sum == nil {
			return -1
		}
		return float64(*cs[i].Sum) / float64(cs[i].Calls)
	}
	is := func(what, got string, known bool, want float64) {
		t.Helper()
		if !known && got != "" || known && !near(got, want) {
			t.Errorf("%s is %q, want %v (known: %t)", what, got, want, known)
		}
	}
	for _, ps := range stat.Phases {
		rows := byID(f.Tables["weight "+ps.Phase])
		if len(rows) != len(ps.Rows) {
			t.Errorf("%s: %d rows of counters, the statistics have %d", ps.Phase, len(rows), len(ps.Rows))
		}
		for i := range ps.Rows {
			r := &ps.Rows[i]
			c := rows[r.Key]
			cycles, instr := mean(r.Counts, 0), mean(r.Counts, 1)
			is(r.Key+" cycles", c["count.0"], true, cycles*r.CallsPerStep)
			is(r.Key+" instructions", c["count.1"], instr >= 0, instr*r.CallsPerStep)
			ipc := stat.IPC(r)
			is(r.Key+" IPC", c["ipc"], ipc != nil, instr/cycles)
			is(r.Key+" stalls", c["stall-backend"], true, mean(r.Counts, 2)/cycles)
			is(r.Key+" misses", c["llc-miss"], instr >= 0, mean(r.Counts, 3)/instr*1000)
			for _, col := range []string{"count.5", "count.6", "stall-frontend", "branch-misses"} {
				if v, ok := c[col]; ok {
					t.Errorf("%s has a column %s, %q: it reads 0 or is void", r.Key, col, v)
				}
			}
			if _, ok := c["count.4"]; !ok {
				t.Errorf("%s has no column of the counter without a role", r.Key)
			}
		}
	}

	points, seen := byID(f.Roofline), 0
	for _, g := range line.Groups {
		for _, p := range g.ByWeight {
			id := fmt.Sprintf("%s %d %s", g.Phase, g.Threads, p.Key)
			if p.Type != "" {
				id += " " + p.Type
			}
			c := points[id]
			seen++
			for col, want := range map[string]*float64{"flop_per_byte": p.Intensity, "gflop_per_s": p.GFlops,
				"gb_per_s": p.GBps, "share": p.Share, "of_peak": p.OfRoof} {
				if c == nil || want == nil && c[col] != "" || want != nil && !near(c[col], *want) {
					t.Errorf("roofline, %s: %s is %q, want %v", id, col, c[col], want)
				}
			}
			is(id+", a step", c["dur_per_step_ns"], true, float64(p.Dur)/float64(g.Steps))
		}
	}
	if len(points) != seen || seen < 40 {
		t.Errorf("%d points in the table, %d in the roofline", len(points), seen)
	}
	if roofs := byID(f.Roofs); len(roofs) != len(line.Peaks.Roofs) {
		t.Errorf("%d roofs, not %d", len(roofs), len(line.Peaks.Roofs))
	} else {
		is("ridge", roofs["2 q4_0"]["ridge"], true, 20)
		is("memory's roof", roofs["2 q4_0"]["gb_s"], true, 8)
		is("matrix", roofs["1 q4_0"]["matrix_gflop_s"], true, 500)
	}

	threads := byID(f.Threads)
	for _, g := range line.Groups {
		c := threads[fmt.Sprintf("0 %s 0 %d", g.Phase, g.Threads)]
		what := fmt.Sprintf("%s on %d threads", g.Phase, g.Threads)
		is(what+": IPC", c["ipc"], true, mean(g.Counts, 1)/mean(g.Counts, 0))
		is(what+": stalls", c["stall-backend"], true, mean(g.Counts, 2)/mean(g.Counts, 0))
		is(what+": misses", c["llc-miss"], true, mean(g.Counts, 3)/mean(g.Counts, 1)*1000)
	}

	// The graph's node stands for the layers; the timeline's operator is the first of its name.
	for i := range stat.Phases {
		if ps := &stat.Phases[i]; ps.Phase == "decode" {
			for j := range ps.Rows {
				if r := &ps.Rows[j]; r.Key == "ffn_gate" {
					is("graph: IPC", f.Dag["ipc"], true, mean(r.Counts, 1)/mean(r.Counts, 0))
					is("graph: cycles", f.Dag["counter:cycles"], true, mean(r.Counts, 0)*r.CallsPerStep)
				}
			}
		}
	}
	for _, o := range ops {
		if o.NodeDef().Name == "ffn_gate-0" {
			is("timeline: cycles", f.Time["counter:cycles"], true, float64(o.Counts[0]))
			is("timeline: IPC", f.Time["ipc"], true, float64(o.Counts[1])/float64(o.Counts[0]))
			is("timeline: misses", f.Time["llc-miss"], true, float64(o.Counts[3])/float64(o.Counts[1])*1000)
			break
		}
	}
}

// keep is a sink that keeps operators.
type keep struct {
	profile.BaseSink
	ops *[]*profile.Op
}

func (k keep) Op(o *profile.Op) error { *k.ops = append(*k.ops, o); return nil }
