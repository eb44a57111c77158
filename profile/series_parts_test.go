// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/profile/requests"
	"github.com/profinfer/profinfer/profile/series"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/profile/summary"
	"github.com/profinfer/profinfer/trace"
)

// Graphs of backends whose operators cannot be seen, probes, overlapping operators and a filter are told as
// Stat tells them.
func TestSeriesParts(t *testing.T) {
	shape := profiletest.Small.Shape(7, 1, 1, 256)
	node := func(name string) int32 {
		i := slices.IndexFunc(shape.Nodes, func(n trace.Node) bool { return n.Name == name })
		if i < 0 {
			t.Fatal(name)
		}
		return int32(i)
	}
	st, b := stat.New(stat.Options{By: facts.ByWeight}), series.New(nil)
	sink := profile.Tee(st, b)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range int64(4) {
		base := 1000 + i*100_000
		s := &profile.Step{ID: i + 1, PID: 7, Ctx: 9, Phase: profile.Decode, Start: base, Dur: 50_000,
			NTokens: 2, NSeqs: 2,
			Seqs: []trace.StepSeq{{Seq: 0, NTokens: 1, Pos: int32(10 + i), Outputs: 1},
				{Seq: 1, NTokens: 1, Pos: int32(40 + i), Outputs: 1}}}
		op := func(name, what string, at, dur, probe int64, tids ...int32) {
			o := &profile.Op{Step: s, Shape: shape, Node: node(name), Op: what, Start: base + at, Dur: dur,
				Probe: probe}
			for j, tid := range tids {
				th := profile.OpThread{TID: tid, Ith: uint16(j), Start: base + at, Busy: dur - int64(j)*100,
					Wait: int64(j) * 60, OffCPU: int64(j) * 40}
				o.Threads = append(o.Threads, th)
				o.Busy += th.Busy
				o.Wait += th.Wait
				o.OffCPU += th.OffCPU
			}
			check(sink.Op(o))
		}
		op("Kcur-0", "MUL_MAT", 100, 5000, 200, 7, 8)
		op("Vcur-0", "MUL_MAT", 3000, 6000, 200, 8, 7) // overlaps, and its team comes in another order
		op("ffn_out-1", "MUL_MAT", 10_000, 7000, 9000, 7, 8)
		fa := int32(slices.IndexFunc(shape.Nodes, func(n trace.Node) bool {
			return n.Op == "FLASH_ATTN_EXT"
		}))
		check(sink.Op(&profile.Op{Step: s, Shape: shape, Node: fa, Op: "FLASH_ATTN_EXT", Start: base + 20_000,
			Dur: 3000, Busy: 3000,
			Threads: []profile.OpThread{{TID: 7, Busy: 3000}}}))
		// of no known shape
		check(sink.Op(&profile.Op{Step: s, Op: "MUL_MAT", Start: base + 24_000, Dur: 10, Busy: 10,
			Threads: []profile.OpThread{{TID: 7, Busy: 10}}}))
		check(sink.Graph(&profile.Graph{ID: i*2 + 1, Step: s.ID, PID: 7, Ctx: 9, Backend: "CPU", Shape: shape,
			Start: base, Dur: 30_000, Ops: 5}))
		check(sink.Graph(&profile.Graph{ID: i*2 + 2, Step: s.ID, PID: 7, Ctx: 9, Backend: "Vulkan",
			Start: base + 30_000, Dur: 4000 + i}))
		check(sink.Step(s))
	}
	h := &profile.Header{}
	all := st.Finish(h)
	got := b.Finish(h)
	f, p := &all.Phases[0], &got.Phases[0]
	if f.BackendDur == nil || *f.BackendDur == 0 || *f.Overlap == 0 || *f.Probe == 0 {
		t.Fatalf("the test tests nothing: %+v", f)
	}
	stats := map[facts.By]*summary.Stat{facts.ByWeight: all}
	rowsAgree(t, "parts", facts.ByWeight, p.ByWeight, stats[facts.ByWeight].Phases[0].Rows)
	var overlap, backends, probe, gap int64
	for i, x := range p.Steps {
		overlap += at(x.Overlap)
		backends += at(x.Backends)
		probe += at(x.Probe)
		gap += at(x.Gap)
		// The longest of two sequences: 40 tokens before, and this step's.
		if at(x.Pos) != float64(41+i) || x.Seqs != 2 || at(x.Tokens) != 2 || at(x.Cells) != 256 ||
			at(x.Attn) != 3000 {
			t.Errorf("%+v", x)
		}
		if at(x.MatMul)+at(x.Attn)+at(x.Other)+at(x.Probe)-at(x.Overlap)+at(x.Backends)+
			at(x.Gap) != x.TracedDur {
			t.Errorf("the parts of %+v are not its time", x)
		}
	}
	if overlap != *f.Overlap || backends != *f.BackendDur || probe != *f.Probe || gap != *f.Gap {
		t.Errorf("overlap %d, backends %d, probes %d, gap %d; Stat says %+v", overlap, backends, probe, gap,
			f)
	}
	if d := f.TPOT; f.PerTokenP95 != nil || d.P95 != nil || p.PerToken.P50 != d.P50 ||
		p.PerToken.Max != 50_000 || d.Max != 50_000 {
		t.Errorf("%+v: two sequences wait for the same step; Stat says %+v", p.PerToken, d)
	}
	if math.Abs(float64(f.TracedDur)**f.MatMul-float64(sumOf(p.Steps, func(x *series.StepPoint) *int64 {
		return x.MatMul
	}))) > 1e-6 {
		t.Errorf("products took %v of %d by Stat; %+v", *f.MatMul, f.TracedDur, p.Steps)
	}
	// Each thread has its own times, in whatever order the team comes.
	v := p.ByWeight[slices.IndexFunc(p.ByWeight, func(r series.Row) bool {
		return r.Key == "attn_v"
	})].Threads
	if len(v) != 2 || v[0].TID != 7 || v[0].Busy != 4*5900 || v[0].Wait != 4*60 || v[0].OffCPU != 4*40 ||
		v[1].TID != 8 || v[1].Busy != 4*6000 || v[1].Wait != 0 {
		t.Errorf("%+v", v)
	}
	both := p.ByOp[slices.IndexFunc(p.ByOp, func(r series.Row) bool { return r.Key == "MUL_MAT" })].Threads
	if len(both) != 2 || both[1].Busy != 4*(4900+6000+6900) || both[1].Wait != 4*(60+60) {
		t.Errorf("%+v", both)
	}
	// What the probes took can be more than there was: no time is below 0, but the sum is Stat's.
	i := slices.IndexFunc(p.ByWeight, func(r series.Row) bool { return r.Key == "ffn_down" })
	if r := p.ByWeight[i]; r.Time.Min != 0 || r.Time.Zeros != 4 || r.Time.Mean != -2000 ||
		len(r.Layers) != 1 || r.Layers[0].Layer != 1 {
		t.Errorf("%+v", r)
	}

	h.Meta.Extra = map[string]string{"filter": "op=MUL_MAT"}
	b = series.New(nil)
	s := &profile.Step{ID: 1, PID: 7, Phase: profile.Decode, Start: 1, Dur: 5000, NTokens: 1, NSeqs: 1}
	check(b.Op(&profile.Op{Step: s, Shape: shape, Node: node("Kcur-0"), Op: "MUL_MAT", Start: 1, Dur: 100}))
	check(b.Step(s))
	if x := b.Finish(h).Phases[0].Steps[0]; x.Gap != nil || x.Other != nil || x.MatMul == nil ||
		x.Cells != nil || x.Pos != nil {
		t.Errorf("of operators that were not asked for nothing is known: %+v", x)
	}
}

// Attention that is computed one by one tells the cells that it reads as well.
func TestSeriesCells(t *testing.T) {
	shape := &profile.Shape{Index: 1, Shape: &trace.Shape{PID: 1, ID: 1, NNodes: 1, Nodes: []trace.Node{
		{Name: "kq_soft_max-3", Op: "SOFT_MAX", Type: "f32", Ne: [4]int64{512, 1, 32, 1}, ViewSrc: -1}}}}
	b := series.New(nil)
	s := &profile.Step{ID: 1, PID: 1, Phase: profile.Decode, Start: 1, Dur: 5000, NTokens: 1, NSeqs: 1}
	if err := b.Op(&profile.Op{Step: s, Shape: shape, Op: "SOFT_MAX", Start: 1, Dur: 100}); err != nil {
		t.Fatal(err)
	}
	if err := b.Step(s); err != nil {
		t.Fatal(err)
	}
	if x := b.Finish(&profile.Header{}).Phases[0].Steps[0]; at(x.Cells) != 512 || at(x.Attn) != 100 {
		t.Errorf("%+v", x)
	}
}

// A step of more operators than are kept is folded before its end: rows and products are whole, of the point
// it is not known what it was made of.
func TestSeriesLongStep(t *testing.T) {
	shape := profiletest.Small.Shape(7, 1, 1, 256)
	n := int32(slices.IndexFunc(shape.Nodes, func(n trace.Node) bool { return n.Op == "MUL_MAT" }))
	st, b := stat.New(stat.Options{}), series.New(nil)
	sink := profile.Tee(st, b)
	s := &profile.Step{ID: 1, PID: 7, Phase: profile.Decode, Start: 1, Dur: 10_000_000, NTokens: 1, NSeqs: 1}
	const ops = 70_000
	for i := range int64(ops) {
		if err := sink.Op(&profile.Op{Step: s, Shape: shape, Node: n, Op: "MUL_MAT", Start: 1 + i*100,
			Dur: 90}); err != nil {
			t.Fatal(err)
		}
	}
	if err := sink.Step(s); err != nil {
		t.Fatal(err)
	}
	h := &profile.Header{}
	f, p := st.Finish(h).Phases[0], b.Finish(h).Phases[0]
	if r := p.ByWeight[0]; r.Time.N != ops || f.Rows[0].Calls != ops || p.Products[0].Calls != ops {
		t.Errorf("%d calls, Stat has %d", r.Time.N, f.Rows[0].Calls)
	}
	if x := p.Steps[0]; x.Traced != 0 || x.MatMul != nil || x.Dur != s.Dur {
		t.Errorf("%+v", x)
	}
}

// wide is a shape of one product with each of some weights.
func wide(id uint64, weights ...string) *profile.Shape {
	s := &profile.Shape{Index: int64(id), Shape: &trace.Shape{PID: 1, ID: id}}
	n := len(weights)
	var leaves []trace.Node
	for i, w := range weights {
		s.Nodes = append(s.Nodes, trace.Node{Name: "x-" + strconv.Itoa(i), Op: "MUL_MAT", Type: "f32",
			Ne: [4]int64{8, 1, 1, 1}, Src: []int32{int32(n + i)}, ViewSrc: -1,
			Nb: [4]uint64{4, 32, 32, 32}, BlockSize: 1, TypeSize: 4})
		leaves = append(leaves, trace.Node{Name: w, Op: "NONE", Type: "f32", Ne: [4]int64{16, 8, 1, 1},
			ViewSrc: -1, Leaf: true, Data: uint64(len(w)) << 20,
			Nb: [4]uint64{4, 64, 512, 512}, BlockSize: 1, TypeSize: 4})
	}
	s.Nodes = append(s.Nodes, leaves...)
	s.NNodes = n
	return s
}

// Two sets of weights turn out to be one model: what was summed up apart becomes one.
func TestSeriesJoinsModels(t *testing.T) {
	const x, y = "blk.0.ffn_up.weight", "blk.11.ffn_up.weight"
	sinks := map[facts.By]*stat.Builder{}
	b := series.New(nil)
	all := []profile.Sink{b}
	for _, by := range []facts.By{facts.ByWeight, facts.ByOp, facts.ByLayer, facts.ByBlock, facts.ByStep} {
		sinks[by] = stat.New(stat.Options{By: by})
		all = append(all, sinks[by])
	}
	sink := profile.Tee(all...)
	for i, c := range []struct {
		ctx   uint64
		shape *profile.Shape
	}{{1, wide(1, x)}, {2, wide(2, y)}, {1, wide(1, x)}, {1, wide(3, x, y)}, {2, wide(2, y)}, {1,
		wide(3, x, y)}} {
		base := int64(1000 + 100_000*i)
		s := &profile.Step{ID: int64(i) + 1, PID: 1, Ctx: c.ctx, Phase: profile.Decode, Start: base,
			Dur: 50_000 + int64(i)*1000, NTokens: 1, NSeqs: 1}
		for n := range c.shape.NNodes {
			o := &profile.Op{Step: s, Shape: c.shape, Node: int32(n), Op: "MUL_MAT",
				Start: base + int64(n)*2000, Dur: 1500 + int64(i), Busy: 1500 + int64(i)}
			o.Threads = []profile.OpThread{{TID: 1 + int32(i%2), Busy: o.Busy}}
			if err := sink.Op(o); err != nil {
				t.Fatal(err)
			}
		}
		if err := sink.Step(s); err != nil {
			t.Fatal(err)
		}
	}
	h := &profile.Header{}
	stats := map[facts.By]*summary.Stat{}
	for by, s := range sinks {
		stats[by] = s.Finish(h)
	}
	got := b.Finish(h)
	if len(stats[facts.ByWeight].Phases) != 1 {
		t.Fatalf("the test tests nothing: %+v", stats[facts.ByWeight].Phases)
	}
	agrees(t, got, stats)
	p := got.Phases[0]
	if len(p.Products) != 1 || p.Products[0].Calls != 8 || p.Products[0].Layers != 2 ||
		at(p.Products[0].Work) != 8*16 {
		t.Errorf("%+v", p.Products)
	}
	for i, x := range p.Steps {
		if x.ID != int64(i)+1 {
			t.Errorf("step %d at place %d", x.ID, i)
		}
	}
	if r := p.ByWeight[0]; len(r.Threads) != 2 || r.Threads[0].Ops != 3 || r.Threads[1].Ops != 5 ||
		len(r.Layers) != 2 || r.Layers[0].Calls != 4 || r.Layers[1].Layer != 11 {
		t.Errorf("%+v", r)
	}
}

// A prompt in parts: its first token comes when logits are asked for, and the tokens are those of all parts.
func TestSeriesPromptInParts(t *testing.T) {
	b := requests.New(0)
	for i, outputs := range []int32{0, 0, 1, 1} {
		n, phase := int32(8), profile.Prefill
		if i == 3 {
			n, phase = 1, profile.Decode
		}
		if err := b.Step(&profile.Step{ID: int64(i) + 1, PID: 1, Phase: phase, Start: int64(i) * 10_000,
			Dur: 4000, NTokens: n, NSeqs: 1,
			Seqs: []trace.StepSeq{{Seq: 3, NTokens: n, Pos: int32(i) * 8, Outputs: outputs}}}); err != nil {
			t.Fatal(err)
		}
	}
	s := b.Finish(&profile.Header{})
	if q := s.Requests[0]; len(s.Requests) != 1 || at(q.Prompt) != 24 || at(q.TTFT) != 24_000 ||
		q.Tokens != 1 || q.InSteps != 4000 || at(q.TPOT) != 10_000 || q.Seq != 3 {
		t.Errorf("%+v", s.Requests)
	}
}
