// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/dag"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/ops"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/profile/roof"
	"github.com/profinfer/profinfer/profile/series"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/profile/summary"
	"github.com/profinfer/profinfer/profile/timeline"
	"github.com/profinfer/profinfer/trace"
)

// rooflineCounted makes up probes of 100 ns an operator, and counters: each thread counts a cycle a
// nanosecond that it is busy, half as many instructions, and one miss an operator. Of ROPE, instructions are
// not known; stalls are of none.
type rooflineCounted struct{ profile.Sink }

var rooflineCounters = []trace.Counter{{Name: "cycles", Role: "cycles", PMU: "cpu"},
	{Name: "instructions", Role: "instructions", PMU: "cpu"},
	{Name: "misses", Role: "llc-miss", PMU: "cpu", Scaled: true}, {Name: "stalls", Role: "stall-backend",
		PMU: "cpu", Void: "reads 0"}}

func (s rooflineCounted) Op(o *profile.Op) error {
	o.Probe = 100
	o.Counts = []int64{0, 0, 0, profile.UnknownCount}
	for i := range o.Threads {
		t := &o.Threads[i]
		t.Counts = []int64{t.Busy, t.Busy / 2, 1, profile.UnknownCount}
		if o.Op == "ROPE" {
			t.Counts[1] = profile.UnknownCount
		}
		for k := range 3 {
			if t.Counts[k] == profile.UnknownCount || o.Counts[k] == profile.UnknownCount {
				o.Counts[k] = profile.UnknownCount
				continue
			}
			o.Counts[k] += t.Counts[k]
		}
	}
	return s.Sink.Op(o)
}

// rooflined plays runs in which every operator takes 10 µs of work, shared out evenly.
func rooflined(t *testing.T, peaks *roof.Peaks, runs ...profiletest.Run) (*series.Roofline, *summary.Stat,
	*summary.Stat) {
	t.Helper()
	b, byWeight, byOp := series.New(nil), stat.New(stat.Options{}), stat.New(stat.Options{By: facts.ByOp})
	p := &profiletest.Player{Sink: rooflineCounted{profile.Tee(b, byWeight, byOp)}}
	for _, r := range runs {
		r.Model, r.Start = profiletest.Small, 1
		r.Cost = func(*facts.Derived) float64 { return 10_000 }
		r.Part = func(int) float64 { return 1 }
		if err := p.Play(r); err != nil {
			t.Fatal(err)
		}
	}
	h := p.Header("op")
	h.Meta.Counters = rooflineCounters
	b.Finish(h)
	return b.Roofline(h, peaks), byWeight.Finish(h), byOp.Finish(h)
}

func pointOf(t *testing.T, ps []series.RooflinePoint, key string) series.RooflinePoint {
	t.Helper()
	i := slices.IndexFunc(ps, func(p series.RooflinePoint) bool { return p.Key == key })
	if i < 0 {
		t.Fatalf("no point %q", key)
	}
	return ps[i]
}

// twoTeams are two contexts of one model: four steps on one thread, three on two.
var twoTeams = []profiletest.Run{{PID: 1, Ctx: 1, Threads: 1, Decode: 4},
	{PID: 1, Ctx: 2, Threads: 2, Decode: 3}}

// One decode step's ffn_up multiplies a 192 x 64 matrix, in blocks of 32 elements in 18 bytes, by 64 numbers:
// 2*192*64 = 24576 flop; 192*64/32*18 + 64*4 + 192*4 = 7936 bytes. One thread takes 10 µs; two 5 µs each, the
// second 100 ns later; 100 ns are the probes'.
func TestRooflineOnPaper(t *testing.T) {
	rate := func(v float64) *float64 { return &v }
	peaks := &roof.Peaks{Source: "made up", Doubtful: true, At: func(threads int, weight string) roof.Roof {
		if weight != "q4_0" {
			return roof.Roof{Threads: threads}
		}
		return roof.Roof{Threads: threads, GBps: rate(1), GFlops: rate([]float64{0, 2, 10}[threads]),
			Units: "int8"}
	}}
	got, byWeight, byOp := rooflined(t, peaks, twoTeams...)
	if len(got.Groups) != 2 {
		t.Fatalf("%d groups", len(got.Groups))
	}
	for i, want := range []struct {
		threads      int
		steps, ns    int64
		limit        string
		roof, cycles float64
	}{{1, 4, 9_900, "compute", 2, 10_000}, {2, 3, 5_000, "memory", 24576. / 7936, 10_000}} {
		g := got.Groups[i]
		if g.Threads != want.threads || g.Steps != want.steps || *g.Tokens != want.steps ||
			g.Phase != "decode" || g.OnlyPartial {
			t.Errorf("group %+v", g)
		}
		p := pointOf(t, g.ByWeight, "ffn_up")
		n := want.steps * 2 // two layers
		if p.Calls != n || p.Dur != n*want.ns || *p.Flops != n*24576 || *p.Bytes != n*7936 ||
			p.Type != "q4_0" || !p.Weight || p.Block != ops.BlockFFN {
			t.Errorf("%d threads: %+v", want.threads, p)
		}
		gflops := 24576. / float64(want.ns)
		if !near(p.Intensity, 24576./7936) || !near(p.GFlops, gflops) ||
			!near(p.GBps, 7936/float64(want.ns)) || !near(p.Share, float64(p.Dur)/float64(g.Dur)) {
			t.Errorf("%d threads: lies at %v flop/B, %v GFLOP/s, %v GB/s", want.threads, *p.Intensity,
				*p.GFlops, *p.GBps)
		}
		if p.Limit != want.limit || !near(p.OfRoof, gflops/want.roof) {
			t.Errorf("%d threads: limit %q, %v of it", want.threads, p.Limit, p.OfRoof)
		}
		if *p.Counts[0].Sum != n*int64(want.cycles) || p.Counts[0].Calls != n ||
			*p.Counts[1].Sum != n*int64(want.cycles)/2 || *p.Counts[2].Sum != n*int64(want.threads) ||
			p.Counts[3].Sum != nil {
			t.Errorf("%d threads: counts %+v", want.threads, p.Counts)
		}
		// What has no roof has no place below one, and instructions that are not known count nowhere.
		rope := pointOf(t, g.ByWeight, "ROPE")
		if rope.Limit != "" || rope.OfRoof != nil || rope.Counts[1].Sum != nil || rope.Counts[1].Calls != 0 {
			t.Errorf("ROPE %+v", rope)
		}
		if all := g.Counts; all[0].Calls-all[1].Calls != rope.Calls ||
			*all[0].Sum != 2**all[1].Sum+*rope.Counts[0].Sum {
			t.Errorf("all: %+v", all)
		}
		// Copies compute nothing: they have a rate, and no intensity.
		if c := pointOf(t, g.ByWeight, "SET_ROWS"); c.Bytes == nil || c.GBps == nil || c.Intensity != nil &&
			*c.Intensity > 0 {
			t.Errorf("SET_ROWS %+v", c)
		}
		if m := pointOf(t, g.ByOp, "MUL_MAT"); m.Type != "q4_0" || m.Weight || m.Calls != want.steps*15 {
			t.Errorf("MUL_MAT %+v", m)
		}
	}
	// Together the groups are what the statistics say.
	for _, x := range []struct {
		s  *summary.Stat
		of func(series.RooflineGroup) []series.RooflinePoint
	}{{byWeight, func(g series.RooflineGroup) []series.RooflinePoint {
		return g.ByWeight
	}}, {byOp, func(g series.RooflineGroup) []series.RooflinePoint { return g.ByOp }}} {
		for _, r := range x.s.Phases[0].Rows {
			var calls, dur, cycles int64
			for _, g := range got.Groups {
				for _, p := range x.of(g) {
					if p.Key == r.Key && (!r.Weight || p.Type == r.Type) {
						calls, dur, cycles = calls+p.Calls, dur+p.Dur, cycles+*p.Counts[0].Sum
					}
				}
			}
			if calls != r.Calls || dur != r.Dur-r.Probe || cycles != *r.Counts[0].Sum {
				t.Errorf("%s: %d calls, %d ns, %d cycles; the statistics have %d, %d, %d", r.Key, calls, dur,
					cycles, r.Calls, r.Dur-r.Probe, *r.Counts[0].Sum)
			}
		}
	}
	if got.Peaks.Source != "made up" || !got.Peaks.Doubtful || len(got.Peaks.Roofs) != 2 ||
		got.Peaks.Roofs[0].Threads != 1 || got.Peaks.Roofs[1].Weight != "q4_0" {
		t.Errorf("peaks %+v", got.Peaks)
	}
	if r := got.Peaks.Roofs[1].Ridge(); !near(r, 10) {
		t.Errorf("ridge %v", r)
	}
}

// A recording whose steps were computed by one number of threads has the statistics' figures, exactly.
func TestRooflineIsStat(t *testing.T) {
	got, byWeight, _ := rooflined(t, nil,
		profiletest.Run{PID: 1, Ctx: 1, Threads: 2, Prefill: 32, Decode: 5, Partial: 2})
	if len(got.Groups) != 2 || got.Groups[0].Phase != "prefill" || got.Groups[1].Steps != 4 ||
		len(got.Peaks.Roofs) != 0 || got.Peaks.Roofs == nil {
		t.Fatalf("%+v", got)
	}
	for i, f := range byWeight.Phases {
		g := got.Groups[i]
		if g.Dur != f.TracedDur || g.Steps != f.Traced || len(g.ByWeight) != len(f.Rows) {
			t.Errorf("%s: %d ns of %d steps, %d points; the statistics have %d, %d, %d", f.Phase, g.Dur,
				g.Steps, len(g.ByWeight), f.TracedDur, f.Traced, len(f.Rows))
		}
		for _, r := range f.Rows {
			p := pointOf(t, g.ByWeight, r.Key)
			same := func(a, b *float64) bool {
				return a == nil && b == nil || a != nil && b != nil && *a == *b
			}
			if !same(p.GBps, r.GBps) || !same(p.Intensity, r.Intensity) || !same(p.Share, r.Share) ||
				r.Bytes != nil && !same(p.GFlops, r.GFlops) {
				t.Errorf("%s %s: %+v, not %+v", f.Phase, r.Key, p, r)
			}
			if p.Limit != "" || p.OfRoof != nil {
				t.Errorf("%s has a roof: %+v", r.Key, p)
			}
		}
	}
}

// One definition that is computed by several numbers of threads, and an operator whose bytes are not known:
// it counts in the flops, and not where the point lies.
func TestRooflineOfOneShape(t *testing.T) {
	shape, blind := profiletest.Small.Shape(7, 1, 1, 256), profiletest.Small.Shape(7, 2, 1, 256)
	for i := range blind.Nodes {
		if blind.Nodes[i].Name == "blk.0.ffn_up.weight" {
			blind.Nodes[i].TypeSize, blind.Nodes[i].BlockSize = 0, 0
		}
	}
	node := int32(slices.IndexFunc(shape.Nodes, func(n trace.Node) bool { return n.Name == "ffn_up-0" }))
	b := series.New(nil)
	for i, x := range []struct {
		shape   *profile.Shape
		threads int
		dur     int64
	}{{shape, 1, 10_000}, {shape, 2, 5_000}, {shape, 1, 10_000}, {blind, 1, 90_000}} {
		s := &profile.Step{ID: int64(i + 1), PID: 7, Ctx: 9, Phase: profile.Decode,
			Start: int64(i+1) * 1_000_000, Dur: 100_000, NTokens: 1, NSeqs: 1}
		o := &profile.Op{Step: s, Shape: x.shape, Node: node, Op: "MUL_MAT", Start: s.Start, Dur: x.dur,
			Threads: make([]profile.OpThread, x.threads)}
		if d := facts.Derive(o); d.Flops == nil || (d.Bytes == nil) != (x.shape == blind) {
			t.Fatalf("the test tests nothing: %+v", d)
		}
		if err := b.Op(o); err != nil {
			t.Fatal(err)
		}
		if err := b.Step(s); err != nil {
			t.Fatal(err)
		}
	}
	h := &profile.Header{}
	b.Finish(h)
	r := b.Roofline(h, nil)
	if len(r.Groups) != 2 {
		t.Fatalf("%d groups", len(r.Groups))
	}
	one, two := pointOf(t, r.Groups[0].ByWeight, "ffn_up"), pointOf(t, r.Groups[1].ByWeight, "ffn_up")
	if one.Calls != 3 || one.Dur != 110_000 || *one.Flops != 3*24576 || *one.Bytes != 2*7936 ||
		!near(one.GFlops, 2.4576) || !near(one.GBps, .7936) || !near(one.Intensity, 24576./7936) {
		t.Errorf("one thread: %+v", one)
	}
	if two.Calls != 1 || two.Dur != 5_000 || !near(two.GFlops, 4.9152) {
		t.Errorf("two threads: %+v", two)
	}
}

// Where no step was wholly seen, those that were not are placed, and it is said.
func TestRooflineOfPartialSteps(t *testing.T) {
	got, _, _ := rooflined(t, nil, profiletest.Run{PID: 1, Ctx: 1, Threads: 2, Decode: 1, Partial: 1})
	if len(got.Groups) != 1 || !got.Groups[0].OnlyPartial || got.Groups[0].Steps != 1 {
		t.Errorf("%+v", got.Groups)
	}
}

// A run without operators has lists and no counters.
func TestRooflineOfNothing(t *testing.T) {
	b := series.New(nil)
	p := &profiletest.Player{Sink: b}
	if err := p.Play(profiletest.Run{Model: profiletest.Small, PID: 1, Ctx: 1, Threads: 2, Decode: 3,
		NoOps: true, Start: 1}); err != nil {
		t.Fatal(err)
	}
	h := p.Header("step")
	b.Finish(h)
	j, err := json.Marshal(b.Roofline(h, nil))
	if err != nil {
		t.Fatal(err)
	}
	if s := string(j); !strings.Contains(s, `"groups":[]`) || !strings.Contains(s, `"rooflines":[]`) ||
		strings.Contains(s, "counters") {
		t.Errorf("%s", s)
	}
}

// More kinds of operators than are told apart are counted.
func TestRooflineIsBounded(t *testing.T) {
	b := series.New(nil)
	s := &profile.Step{ID: 1, PID: 1, Phase: profile.Decode, Start: 1, Dur: 1_000_000, NTokens: 1, NSeqs: 1}
	const n = 5000
	for i := range n {
		name := "op" + strings.Repeat("x", i%100) + strings.Repeat("y", i/100)
		if err := b.Op(&profile.Op{Step: s, Op: name, Start: 1, Dur: 1,
			Threads: []profile.OpThread{{TID: 1, Busy: 1}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Step(s); err != nil {
		t.Fatal(err)
	}
	h := &profile.Header{}
	b.Finish(h)
	g := b.Roofline(h, nil).Groups[0]
	if len(g.ByWeight) != 4096 || g.Dropped != n-4096 {
		t.Errorf("%d points, %d dropped", len(g.ByWeight), g.Dropped)
	}
}

// The operator graph's nodes and the timeline's spans have the counters of the operators that they are made
// of.
func TestCountersInViews(t *testing.T) {
	b, tl, s := dag.New(dag.Options{}), timeline.New(timeline.Options{ChunkSpans: 64}),
		stat.New(stat.Options{})
	p := &profiletest.Player{Sink: rooflineCounted{profile.Tee(b, tl, s)}}
	for i := range twoTeams {
		r := twoTeams[i]
		r.Model, r.Start = profiletest.Small, 1
		if err := p.Play(r); err != nil {
			t.Fatal(err)
		}
	}
	h := p.Header("op")
	h.Meta.Counters = rooflineCounters
	stat := s.Finish(h)
	want := map[string]int64{}
	for _, r := range stat.Phases[0].Rows {
		for i, c := range r.Counts {
			if c.Sum != nil {
				want[r.Key+"/"+rooflineCounters[i].Name] = *c.Sum
			}
		}
	}
	d := b.Finish(h)
	got := map[string]int64{}
	for _, g := range d.DAGs {
		for _, n := range g.Nodes {
			for i := range rooflineCounters {
				if n.Run != nil && n.Run.Counts[i].Sum != nil {
					got[n.Key+"/"+rooflineCounters[i].Name] += *n.Run.Counts[i].Sum
				}
			}
		}
	}
	same := func(what string, got map[string]int64) {
		t.Helper()
		for k, v := range want {
			if got[k] != v {
				t.Errorf("%s: %s is %d, want %d", what, k, got[k], v)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s has %d counts, want %d", what, len(got), len(want))
		}
	}
	same("the graph", got)
	if len(d.Counters) != 4 || !d.Counters[2].Scaled || d.Counters[3].Void == "" {
		t.Errorf("%+v", d.Counters)
	}

	line, err := tl.Finish(h)
	if err != nil {
		t.Fatal(err)
	}
	got = map[string]int64{}
	for _, c := range line.Chunks {
		if c.Kind != timeline.ChunkOps {
			continue
		}
		r := &blocks{t, c.Data}
		ops, spans, counts := r.block(8), r.block(7), r.block(len(rooflineCounters))
		if len(r.b) != 0 || len(counts[0]) != len(spans[0]) {
			t.Fatalf("%d bytes behind a chunk, %d counts of %d spans", len(r.b), len(counts[0]),
				len(spans[0]))
		}
		var def int64
		k := 0
		for i := range ops[0] {
			def += ops[1][i]
			for range ops[7][i] {
				for j := range rooflineCounters {
					if v := counts[j][k]; v >= 0 {
						got[line.Ops[def].Label+"/"+rooflineCounters[j].Name] += v
					}
				}
				k++
			}
		}
	}
	same("the timeline", got)
	if len(line.Counters) != 4 || len(line.Chunks) < 3 {
		t.Errorf("%d counters, %d chunks", len(line.Counters), len(line.Chunks))
	}
}

// Counters that come late in a chunk, and too many of them.
func TestTimelineLateCounters(t *testing.T) {
	tl := timeline.New(timeline.Options{})
	op := func(id int64, counts []int64) {
		t.Helper()
		if err := tl.Op(&profile.Op{ID: id, Op: "ADD", Start: id * 100, Dur: 10,
			Threads: []profile.OpThread{{TID: 1, Busy: 10, Start: id * 100, Counts: counts}}}); err != nil {
			t.Fatal(err)
		}
	}
	op(1, nil)
	op(2, make([]int64, 100))
	op(3, []int64{7, -5})
	op(4, nil)
	line, err := tl.Finish(&profile.Header{})
	if err != nil {
		t.Fatal(err)
	}
	r := &blocks{t, line.Chunks[0].Data}
	r.block(8)
	r.block(7)
	counts := r.block(64)
	if !slices.Equal(counts[0], []int64{-1, 0, 7, -1}) || !slices.Equal(counts[1], []int64{-1, 0, -1, -1}) ||
		!slices.Equal(counts[63], []int64{-1, 0, -1, -1}) {
		t.Errorf("%v %v %v", counts[0], counts[1], counts[63])
	}
}
