// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/trace"
)

// series plays runs into statistics by weight, op, layer, block and step, and into series.
func series(t *testing.T, level string, runs ...profiletest.Run) (*profile.Series, map[profile.By]*profile.Stat) {
	t.Helper()
	by := []profile.By{profile.ByWeight, profile.ByOp, profile.ByLayer, profile.ByBlock, profile.ByStep, profile.ByThread}
	sinks := []profile.Sink{}
	stats := make([]*profile.StatBuilder, len(by))
	for i := range by {
		stats[i] = profile.NewStat(profile.StatOptions{By: by[i]})
		sinks = append(sinks, stats[i])
	}
	b := profile.NewSeries()
	p := &profiletest.Player{Sink: profile.Tee(append(sinks, b)...)}
	for _, r := range runs {
		if err := p.Play(r); err != nil {
			t.Fatal(err)
		}
	}
	h := p.Header(level)
	all := map[profile.By]*profile.Stat{}
	for i := range by {
		all[by[i]] = stats[i].Finish(h)
	}
	return b.Finish(h), all
}

// at returns what p points to, and a figure that no test expects where it is nil.
func at[T int64 | float64](p *T) T {
	if p == nil {
		return -987654321
	}
	return *p
}

// agrees checks that a Series says what Stat says.
func agrees(t *testing.T, s *profile.Series, all map[profile.By]*profile.Stat) {
	t.Helper()
	w := all[profile.ByWeight]
	if len(s.Phases) != len(w.Phases) {
		t.Fatalf("%d phases, Stat has %d", len(s.Phases), len(w.Phases))
	}
	threads := map[int32]profile.ThreadPart{}
	for i := range s.Phases {
		p, f := &s.Phases[i], &w.Phases[i]
		is := func(what string, got, want any) {
			t.Helper()
			if got != want {
				t.Errorf("%s: %s is %v, Stat says %v", f.Phase, what, got, want)
			}
		}
		is("phase", p.Phase, f.Phase)
		if (p.Model == nil) != (f.Model == nil) || p.Model != nil && *p.Model != *f.Model {
			t.Errorf("%s: model %v, Stat says %v", f.Phase, p.Model, f.Model)
		}
		is("only partial", p.OnlyPartial, f.OnlyPartial)
		var n, dur, traced, tracedDur, ops, tokens, matmul, attn, other, probe, overlap, gap, backends, longest, partial int64
		slowest := int64(0)
		for _, x := range p.Steps {
			n += x.N
			dur += x.Dur
			traced += x.Traced
			tracedDur += x.TracedDur
			ops += x.Ops
			tokens += at(x.Tokens)
			if x.Ops > 0 {
				matmul += at(x.MatMul)
				attn += at(x.Attn)
				other += at(x.Other)
				probe += at(x.Probe)
				overlap += at(x.Overlap)
				gap += at(x.Gap)
				backends += at(x.Backends)
				if sum := *x.MatMul + *x.Attn + *x.Other + *x.Probe - *x.Overlap + *x.Backends + *x.Gap; sum != x.TracedDur {
					t.Errorf("%s: the parts of step %d make %d of %d", f.Phase, x.ID, sum, x.TracedDur)
				}
			}
			if x.Max > longest {
				longest, slowest = x.Max, x.Slowest
			}
			if x.Min*x.N > x.Dur || x.Max*x.N < x.Dur {
				t.Errorf("%s: step %d: %d of %d..%d make %d", f.Phase, x.ID, x.N, x.Min, x.Max, x.Dur)
			}
		}
		for _, x := range p.Partial {
			partial += x.N
		}
		is("steps", n, f.Steps)
		is("time", dur, f.Dur)
		is("traced steps", traced, f.Traced)
		is("traced time", tracedDur, f.TracedDur)
		is("operators", ops, f.Ops)
		is("longest", longest, f.StepMax)
		is("slowest", slowest, f.StepMaxID)
		is("the slowest, one by one", p.Slowest[0].ID, f.StepMaxID)
		if !f.OnlyPartial {
			is("partial steps", partial, f.Partial)
		}
		if f.Tokens != nil {
			is("tokens", tokens, *f.Tokens)
		}
		if f.OpsDur != nil {
			is("probes", probe, *f.Probe)
			is("overlap", overlap, *f.Overlap)
			is("gap", gap, *f.Gap)
			is("backends", backends, at2(f.BackendDur))
			for what, v := range map[string][2]float64{"matmul": {float64(matmul), *f.MatMul}, "attention": {float64(attn), *f.Attn}, "other": {float64(other), *f.Other}} {
				if math.Abs(v[0]/float64(f.TracedDur)-v[1]) > 1e-12 {
					t.Errorf("%s: share of %s is %v, Stat says %v", f.Phase, what, v[0]/float64(f.TracedDur), v[1])
				}
			}
		}
		if f.PerTokenP95 != nil {
			is("time per token p95", p.PerToken.P95, *f.PerTokenP95)
		}
		for _, g := range []struct {
			by   profile.By
			rows []profile.RowSeries
		}{{profile.ByWeight, p.ByWeight}, {profile.ByOp, p.ByOp}, {profile.ByLayer, p.ByLayer}, {profile.ByBlock, p.ByBlock}} {
			rowsAgree(t, f.Phase+" by "+string(g.by), g.by, g.rows, all[g.by].Phases[i].Rows)
		}
		if !p.OnlyPartial && n == int64(len(p.Steps)) {
			stepsAgree(t, p.Steps, all[profile.ByStep].Phases[i].Rows)
		}
		var sum int64
		for _, x := range p.Products {
			if !x.Attn {
				sum += x.Sum
			}
		}
		is("products", sum, matmul)
		for _, x := range p.Threads {
			e := threads[x.TID]
			threads[x.TID] = profile.ThreadPart{Ops: e.Ops + x.Ops, Busy: e.Busy + x.Busy, Wait: e.Wait + x.Wait, OffCPU: e.OffCPU + x.OffCPU, Steps: e.Steps + x.Steps}
		}
	}
	for _, x := range w.Threads {
		if e := threads[x.TID]; e.Ops != x.Ops || e.Busy != x.Busy || e.Wait != x.Wait || e.OffCPU != x.OffCPU || e.Steps != x.Steps {
			t.Errorf("thread %d: %+v, Stat says %+v", x.TID, e, x)
		}
	}
	if w.TTFT.Sequences > 0 {
		if s.TTFT == nil || s.TTFT.N != w.TTFT.Sequences || s.TTFT.Mean != *w.TTFT.Mean || s.TTFT.Max != *w.TTFT.Max {
			t.Errorf("TTFT %+v, Stat says %+v", s.TTFT, w.TTFT)
		}
	} else if s.TTFT != nil {
		t.Errorf("TTFT %+v of no sequence", s.TTFT)
	}
	if got := s.SequencesSeen; got != w.TTFT.Sequences+w.TTFT.Unknown+w.TTFT.Pending {
		t.Errorf("%d sequences, Stat says %+v", got, w.TTFT)
	}
}

func at2(p *int64) int64 {
	if p == nil {
		return 0
	}
	return *p
}

// rowsAgree checks rows against Stat's: the same, with the same calls, times and percentiles.
func rowsAgree(t *testing.T, what string, by profile.By, got []profile.RowSeries, want []profile.StatRow) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d rows, Stat has %d", what, len(got), len(want))
		return
	}
	for _, r := range got {
		j := slices.IndexFunc(want, func(x profile.StatRow) bool {
			return x.Key == r.Key && (!x.Weight || x.Type == r.Type) && x.Weight == r.Weight
		})
		if j < 0 {
			t.Errorf("%s: Stat has no %s %s", what, r.Key, r.Type)
			continue
		}
		x := &want[j]
		if r.Time.N != x.Calls || r.Time.P95 != x.P95 || math.Abs(r.Time.Mean-x.Mean) > 1e-9*math.Abs(x.Mean) {
			t.Errorf("%s: %s: %+v, Stat says %d calls, mean %v, p95 %v", what, r.Key, r.Time, x.Calls, x.Mean, x.P95)
		}
		n := r.Time.Zeros
		for _, c := range r.Time.Counts {
			n += c
		}
		if n != r.Time.N || len(r.Time.Counts) > 160 {
			t.Errorf("%s: %s: %d of %d in %d buckets", what, r.Key, n, r.Time.N, len(r.Time.Counts))
		}
		d := &r.Time
		if last := d.Lo * math.Pow(d.Ratio, float64(len(d.Counts))); d.Zeros == 0 && (d.Lo > float64(d.Min)*1.000001 || last < float64(d.Max)*0.999999) {
			t.Errorf("%s: %s: buckets from %v to %v, values from %d to %d", what, r.Key, d.Lo, last, d.Min, d.Max)
		}
		if by != profile.ByWeight && by != profile.ByOp {
			continue
		}
		calls, dur := r.NoLayer, int64(0)
		for _, l := range r.Layers {
			calls += l.Calls
			dur += l.Dur
			if l.Calls == 0 || l.Max*l.Calls < l.Dur {
				t.Errorf("%s: %s: layer %+v", what, r.Key, l)
			}
		}
		if calls != x.Calls || r.NoLayer == 0 && dur != x.Dur-x.Probe {
			t.Errorf("%s: %s: layers have %d calls and %d ns, Stat says %d and %d", what, r.Key, calls, dur, x.Calls, x.Dur-x.Probe)
		}
		var th profile.ThreadPart
		for _, e := range r.Threads {
			th.Busy += e.Busy
			th.Wait += e.Wait
			th.OffCPU += e.OffCPU
		}
		if th.Busy != x.Busy || th.Wait != x.Wait || th.OffCPU != x.OffCPU {
			t.Errorf("%s: %s: threads have %+v, Stat says busy %d, wait %d, off %d", what, r.Key, th, x.Busy, x.Wait, x.OffCPU)
		}
	}
}

// stepsAgree checks points against Stat's rows by step.
func stepsAgree(t *testing.T, got []profile.StepPoint, want []profile.StatRow) {
	t.Helper()
	for _, x := range got {
		j := slices.IndexFunc(want, func(r profile.StatRow) bool { return r.Key == strconv.FormatInt(x.ID, 10) })
		if j < 0 {
			t.Errorf("Stat has no step %d", x.ID)
			continue
		}
		r := &want[j]
		if x.Dur != r.Dur || x.Ops != r.Calls || x.Ops > 0 && (at(x.Busy) != r.Busy || at(x.Wait) != r.Wait || at(x.OffCPU) != r.OffCPU || at(x.Bytes) != *r.Bytes) {
			t.Errorf("step %d: %+v, Stat says %+v", x.ID, x, r)
		}
	}
}

func TestSeriesAgreesWithStat(t *testing.T) {
	other := run
	other.Model = profiletest.Model{Layers: 3, Width: 128, FF: 256, Vocab: 512, Heads: 4, HeadsKV: 4, HeadDim: 32, Base: 0x9000000}
	other.Ctx, other.Prefill, other.Decode, other.Preempt = 0xdef, 16, 40, 0
	partial := run
	partial.Partial = 7
	single := run
	single.Threads, single.Preempt = 1, 0
	two := run
	two.PID, two.Ctx, two.Pos, two.Prefill = 5000, 0x77, 100, 0
	noops := run
	noops.NoOps = true
	again := run
	again.Ctx, again.Decode = 0xfff, 9 // the same model in another context
	for name, c := range map[string]struct {
		level string
		runs  []profiletest.Run
	}{"one": {"op", []profiletest.Run{run}}, "partial": {"op", []profiletest.Run{partial}}, "two models": {"op", []profiletest.Run{run, other}},
		"one thread": {"op", []profiletest.Run{single}}, "two processes": {"op", []profiletest.Run{run, two}}, "level step": {"step", []profiletest.Run{noops}},
		"two contexts": {"op", []profiletest.Run{run, again, run}}, "nothing": {"op", nil}} {
		t.Run(name, func(t *testing.T) {
			s, all := series(t, c.level, c.runs...)
			agrees(t, s, all)
			if _, err := json.Marshal(s); err != nil {
				t.Error(err)
			}
		})
	}
}

// What the small model's run says, computed on paper.
func TestSeriesOfSmallModel(t *testing.T) {
	s, _ := series(t, "op", run)
	pre, dec := &s.Phases[0], &s.Phases[1]
	if len(pre.Steps) != 1 || len(dec.Steps) != 64 || dec.StepsPerPoint != 1 {
		t.Fatalf("%d and %d points", len(pre.Steps), len(dec.Steps))
	}
	// 32 tokens of prompt, then one a step; the cache's view grows in steps of 256, made anew every 32 tokens.
	for i, want := range map[int]float64{0: 33, 63: 96} {
		if p := &dec.Steps[i]; at(p.Pos) != want || at(p.Cells) != 256 || at(p.Tokens) != 1 || p.Seqs != 1 {
			t.Errorf("step %d: %+v, want position %v of 256 cells", i, p, want)
		}
	}
	if at(pre.Steps[0].Pos) != 32 {
		t.Errorf("prompt: %+v", pre.Steps[0])
	}
	// Step 41 lost its CPU for 5 ms.
	if slow := dec.Slowest[0]; slow.ID != 42 || at(slow.OffCPU) != 5_000_000 || len(dec.Slowest) != 64 {
		t.Errorf("slowest: %+v", slow)
	}
	// ffn_down: [192, 64] of q4_0 in each of two layers, times one token.
	i := slices.IndexFunc(dec.Products, func(p profile.Product) bool { return p.Key == "ffn_down" })
	if i < 0 {
		t.Fatalf("%+v", dec.Products)
	}
	p := dec.Products[i]
	const bytes = 192*64/32*18 + 192*4 + 64*4
	if p.M != 64 || p.N != 1 || p.K != 192 || p.Calls != 2*64 || p.Type != "q4_0" || !p.Weight || p.Attn || p.Layers != 2 || p.Threads != 2 ||
		at(p.Work) != 64*192 || at(p.Flops) != 2*64*192 || at(p.Bytes) != bytes {
		t.Errorf("ffn_down: %+v, want %d bytes", p, bytes)
	}
	// Busy is 2000 ns and 0.1 ns a byte for each of two threads; the second begins 100 ns later and takes 5 % more.
	nsOf := bytes * profiletest.NsPerByte / 2
	work := int64(2000) + int64(math.Floor(nsOf))
	if want := 100 + work + work/20; p.Sum != want*p.Calls || p.Mean != float64(want) || math.Abs(p.P5-p.Mean) > p.Mean/100 || math.Abs(p.P95-p.Mean) > p.Mean/100 {
		t.Errorf("ffn_down: %+v, want %d ns", p, want)
	}
	if want := float64(bytes) / p.Mean; math.Abs(at(p.GBps)-want) > 1e-9 {
		t.Errorf("ffn_down: %v GB/s, want %v", at(p.GBps), want)
	}
	i = slices.IndexFunc(pre.Products, func(p profile.Product) bool { return p.Key == "ffn_down" })
	if p := pre.Products[i]; p.N != 32 || at(p.Work) != 64*192*32 {
		t.Errorf("ffn_down of the prompt: %+v", p)
	}
	if len(s.Sequences) != 1 {
		t.Fatalf("%+v", s.Sequences)
	}
	q := s.Sequences[0]
	if at(q.Prompt) != 32 || at(q.TTFT) != pre.Steps[0].Dur || q.Tokens != 64 || q.DecodeDur != sumDur(dec.Steps) || at(q.TPOT) != float64(q.DecodeDur)/64 || q.Step != 1 {
		t.Errorf("%+v", q)
	}
}

func sumOf(p []profile.StepPoint, f func(*profile.StepPoint) *int64) (n int64) {
	for i := range p {
		n += at(f(&p[i]))
	}
	return n
}

func sumDur(p []profile.StepPoint) (n int64) {
	for i := range p {
		n += p[i].Dur
	}
	return n
}

// A long run is thinned: sums stay, extremes stay, and the slowest steps stay one by one.
func TestSeriesThins(t *testing.T) {
	b := profile.NewSeries()
	const n = 4096*3 + 5
	var sum, tokens int64
	for i := range int64(n) {
		s := &profile.Step{ID: i + 1, PID: 1, Phase: profile.Decode, Start: i * 10_000, Dur: 1000 + i%97, NTokens: 1, NSeqs: 1,
			Seqs: []trace.StepSeq{{Seq: 0, NTokens: 1, Pos: int32(i), Outputs: 1}}}
		if i == 7002 {
			s.Dur = 9000
		}
		sum += s.Dur
		tokens++
		if err := b.Step(s); err != nil {
			t.Fatal(err)
		}
	}
	s := b.Finish(&profile.Header{})
	p := &s.Phases[0]
	if len(p.Steps) > 4096 || len(p.Steps) < 2048 || p.StepsPerPoint != 4 {
		t.Fatalf("%d points of %d steps", len(p.Steps), p.StepsPerPoint)
	}
	var steps, dur, tok, longest, id int64
	last := 0.0
	for _, x := range p.Steps {
		if x.ID != steps+1 {
			t.Fatalf("point of step %d after %d steps", x.ID, steps)
		}
		steps += x.N
		dur += x.Dur
		tok += at(x.Tokens)
		if x.Max > longest {
			longest, id = x.Max, x.Slowest
		}
		if at(x.Pos) <= last || x.N > 4 {
			t.Fatalf("%+v after position %v", x, last)
		}
		last = at(x.Pos)
	}
	// The first point is of steps 1 to 4, at positions 1 to 4.
	if at(p.Steps[0].Pos) != 2.5 || steps != n || dur != sum || tok != tokens || longest != 9000 || id != 7003 {
		t.Errorf("first at %v; %d steps, %d ns, %d tokens, longest %d of step %d", at(p.Steps[0].Pos), steps, dur, tok, longest, id)
	}
	if len(p.Slowest) != 100 || p.Slowest[0].ID != 7003 || p.Slowest[1].Dur != 1096 || p.Slowest[0].N != 1 {
		t.Errorf("slowest %+v", p.Slowest[:2])
	}
	if p.PerToken == nil || p.PerToken.N != n || p.PerToken.Max != 9000 || p.PerToken.Min != 1000 {
		t.Errorf("%+v", p.PerToken)
	}
}

// Steps whose operators were not recorded say so, and are in no sum of operators.
func TestSeriesUntraced(t *testing.T) {
	b := profile.NewSeries()
	for i := range int64(3) {
		s := &profile.Step{ID: i + 1, PID: 1, Phase: profile.Decode, Start: i * 10_000, Dur: 1000, NTokens: 1, NSeqs: 1}
		if i == 1 {
			s.Untraced = "throttled"
		}
		if err := b.Step(s); err != nil {
			t.Fatal(err)
		}
	}
	p := b.Finish(&profile.Header{}).Phases[0].Steps
	if p[1].Traced != 0 || p[1].Untraced != "throttled" || p[0].Traced != 1 || p[0].MatMul != nil || p[0].Pos != nil || p[0].Cells != nil {
		t.Errorf("%+v", p)
	}
}

// Many sequences are thinned evenly.
func TestSeriesSequences(t *testing.T) {
	b := profile.NewSeries()
	const n = 10_000
	for i := range int64(n) {
		s := &profile.Step{ID: i + 1, PID: 1, Phase: profile.Decode, Start: i * 10_000, Dur: 1000 + i, NTokens: 1, NSeqs: 1,
			Seqs: []trace.StepSeq{{Seq: 0, NTokens: 1, Pos: 0, Outputs: 1}}}
		if err := b.Step(s); err != nil {
			t.Fatal(err)
		}
	}
	s := b.Finish(&profile.Header{})
	if s.SequencesSeen != n || s.SequencesEvery != 4 || len(s.Sequences) != n/4 || s.TTFT.N != n || s.TTFT.Max != 1000+n-1 {
		t.Fatalf("%d sequences, each %d-th of %d; %+v", len(s.Sequences), s.SequencesEvery, s.SequencesSeen, s.TTFT)
	}
	for i, q := range s.Sequences {
		if q.Step != int64(4*i)+1 || q.TPOT != nil || at(q.TTFT) != 1000+int64(4*i) {
			t.Fatalf("%d: %+v", i, q)
		}
	}
}

// A distribution's buckets hold what they say.
func TestSeriesDist(t *testing.T) {
	b := profile.NewSeries()
	for i, d := range []int64{0, 1, 1000, 1000, 1_000_000, 1_000_000_000_000} {
		if err := b.Step(&profile.Step{ID: int64(i) + 1, Phase: profile.Prefill, Start: int64(i), Dur: d, NTokens: 1, NSeqs: 1}); err != nil {
			t.Fatal(err)
		}
	}
	d := b.Finish(&profile.Header{}).Phases[0].PerToken
	if d.N != 6 || d.Zeros != 1 || d.Min != 0 || d.Max != 1_000_000_000_000 || d.Mean != (1+2000+1e6+1e12)/6 {
		t.Fatalf("%+v", d)
	}
	for v, n := range map[float64]int64{1: 1, 1000: 2, 1_000_000: 1, 1_000_000_000_000: 1} {
		found := false
		for i, c := range d.Counts {
			lo := d.Lo * math.Pow(d.Ratio, float64(i))
			if c > 0 && lo < v*1.0001 && v <= lo*d.Ratio*1.0001 {
				found = found || c == n
			}
		}
		if !found {
			t.Errorf("no bucket with %d of %v: %+v", n, v, d)
		}
	}
	if fmt.Sprint(d.P50) == "0" || math.Abs(d.P50-1000) > 10 {
		t.Errorf("p50 %v", d.P50)
	}
}

// Graphs of backends whose operators cannot be seen, probes, overlapping operators and a filter are told as Stat tells them.
func TestSeriesParts(t *testing.T) {
	shape := profiletest.Small.Shape(7, 1, 1, 256)
	node := func(name string) int32 {
		i := slices.IndexFunc(shape.Nodes, func(n trace.Node) bool { return n.Name == name })
		if i < 0 {
			t.Fatal(name)
		}
		return int32(i)
	}
	st, b := profile.NewStat(profile.StatOptions{By: profile.ByWeight}), profile.NewSeries()
	sink := profile.Tee(st, b)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range int64(4) {
		base := 1000 + i*100_000
		s := &profile.Step{ID: i + 1, PID: 7, Ctx: 9, Phase: profile.Decode, Start: base, Dur: 50_000, NTokens: 2, NSeqs: 2,
			Seqs: []trace.StepSeq{{Seq: 0, NTokens: 1, Pos: int32(10 + i), Outputs: 1}, {Seq: 1, NTokens: 1, Pos: int32(40 + i), Outputs: 1}}}
		op := func(name, what string, at, dur, probe int64, tids ...int32) {
			o := &profile.Op{Step: s, Shape: shape, Node: node(name), Op: what, Start: base + at, Dur: dur, Probe: probe}
			for j, tid := range tids {
				th := profile.OpThread{TID: tid, Ith: uint16(j), Start: base + at, Busy: dur - int64(j)*100, Wait: int64(j) * 60, OffCPU: int64(j) * 40}
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
		fa := int32(slices.IndexFunc(shape.Nodes, func(n trace.Node) bool { return n.Op == "FLASH_ATTN_EXT" }))
		check(sink.Op(&profile.Op{Step: s, Shape: shape, Node: fa, Op: "FLASH_ATTN_EXT", Start: base + 20_000, Dur: 3000, Busy: 3000,
			Threads: []profile.OpThread{{TID: 7, Busy: 3000}}}))
		check(sink.Op(&profile.Op{Step: s, Op: "MUL_MAT", Start: base + 24_000, Dur: 10, Busy: 10, Threads: []profile.OpThread{{TID: 7, Busy: 10}}})) // of no known shape
		check(sink.Graph(&profile.Graph{ID: i*2 + 1, Step: s.ID, PID: 7, Ctx: 9, Backend: "CPU", Shape: shape, Start: base, Dur: 30_000, Ops: 5}))
		check(sink.Graph(&profile.Graph{ID: i*2 + 2, Step: s.ID, PID: 7, Ctx: 9, Backend: "Vulkan", Start: base + 30_000, Dur: 4000 + i}))
		check(sink.Step(s))
	}
	h := &profile.Header{}
	all := st.Finish(h)
	got := b.Finish(h)
	f, p := &all.Phases[0], &got.Phases[0]
	if f.BackendDur == nil || *f.BackendDur == 0 || *f.Overlap == 0 || *f.Probe == 0 {
		t.Fatalf("the test tests nothing: %+v", f)
	}
	stats := map[profile.By]*profile.Stat{profile.ByWeight: all}
	rowsAgree(t, "parts", profile.ByWeight, p.ByWeight, stats[profile.ByWeight].Phases[0].Rows)
	var overlap, backends, probe, gap int64
	for i, x := range p.Steps {
		overlap += at(x.Overlap)
		backends += at(x.Backends)
		probe += at(x.Probe)
		gap += at(x.Gap)
		// The longest of two sequences: 40 tokens before, and this step's.
		if at(x.Pos) != float64(41+i) || x.Seqs != 2 || at(x.Tokens) != 2 || at(x.Cells) != 256 || at(x.Attn) != 3000 {
			t.Errorf("%+v", x)
		}
		if at(x.MatMul)+at(x.Attn)+at(x.Other)+at(x.Probe)-at(x.Overlap)+at(x.Backends)+at(x.Gap) != x.TracedDur {
			t.Errorf("the parts of %+v are not its time", x)
		}
	}
	if overlap != *f.Overlap || backends != *f.BackendDur || probe != *f.Probe || gap != *f.Gap {
		t.Errorf("overlap %d, backends %d, probes %d, gap %d; Stat says %+v", overlap, backends, probe, gap, f)
	}
	if p.PerToken.P95 != *f.PerTokenP95 || p.PerToken.Max != 50_000 {
		t.Errorf("%+v: two sequences wait for the same step; Stat says %v", p.PerToken, *f.PerTokenP95)
	}
	if math.Abs(float64(f.TracedDur)**f.MatMul-float64(sumOf(p.Steps, func(x *profile.StepPoint) *int64 { return x.MatMul }))) > 1e-6 {
		t.Errorf("products took %v of %d by Stat; %+v", *f.MatMul, f.TracedDur, p.Steps)
	}
	// Each thread has its own times, in whatever order the team comes.
	v := p.ByWeight[slices.IndexFunc(p.ByWeight, func(r profile.RowSeries) bool { return r.Key == "attn_v" })].Threads
	if len(v) != 2 || v[0].TID != 7 || v[0].Busy != 4*5900 || v[0].Wait != 4*60 || v[0].OffCPU != 4*40 || v[1].TID != 8 || v[1].Busy != 4*6000 || v[1].Wait != 0 {
		t.Errorf("%+v", v)
	}
	both := p.ByOp[slices.IndexFunc(p.ByOp, func(r profile.RowSeries) bool { return r.Key == "MUL_MAT" })].Threads
	if len(both) != 2 || both[1].Busy != 4*(4900+6000+6900) || both[1].Wait != 4*(60+60) {
		t.Errorf("%+v", both)
	}
	// What the probes took can be more than there was: no time is below 0, but the sum is Stat's.
	i := slices.IndexFunc(p.ByWeight, func(r profile.RowSeries) bool { return r.Key == "ffn_down" })
	if r := p.ByWeight[i]; r.Time.Min != 0 || r.Time.Zeros != 4 || r.Time.Mean != -2000 || len(r.Layers) != 1 || r.Layers[0].Layer != 1 {
		t.Errorf("%+v", r)
	}

	h.Meta.Extra = map[string]string{"filter": "op=MUL_MAT"}
	b = profile.NewSeries()
	s := &profile.Step{ID: 1, PID: 7, Phase: profile.Decode, Start: 1, Dur: 5000, NTokens: 1, NSeqs: 1}
	check(b.Op(&profile.Op{Step: s, Shape: shape, Node: node("Kcur-0"), Op: "MUL_MAT", Start: 1, Dur: 100}))
	check(b.Step(s))
	if x := b.Finish(h).Phases[0].Steps[0]; x.Gap != nil || x.Other != nil || x.MatMul == nil || x.Cells != nil || x.Pos != nil {
		t.Errorf("of operators that were not asked for nothing is known: %+v", x)
	}
}

// Attention that is computed one by one tells the cells that it reads as well.
func TestSeriesCells(t *testing.T) {
	shape := &profile.Shape{Index: 1, Shape: &trace.Shape{PID: 1, ID: 1, NNodes: 1, Nodes: []trace.Node{
		{Name: "kq_soft_max-3", Op: "SOFT_MAX", Type: "f32", Ne: [4]int64{512, 1, 32, 1}, ViewSrc: -1}}}}
	b := profile.NewSeries()
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
	st, b := profile.NewStat(profile.StatOptions{}), profile.NewSeries()
	sink := profile.Tee(st, b)
	s := &profile.Step{ID: 1, PID: 7, Phase: profile.Decode, Start: 1, Dur: 10_000_000, NTokens: 1, NSeqs: 1}
	const ops = 70_000
	for i := range int64(ops) {
		if err := sink.Op(&profile.Op{Step: s, Shape: shape, Node: n, Op: "MUL_MAT", Start: 1 + i*100, Dur: 90}); err != nil {
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
		s.Nodes = append(s.Nodes, trace.Node{Name: "x-" + strconv.Itoa(i), Op: "MUL_MAT", Type: "f32", Ne: [4]int64{8, 1, 1, 1}, Src: []int32{int32(n + i)}, ViewSrc: -1,
			Nb: [4]uint64{4, 32, 32, 32}, BlockSize: 1, TypeSize: 4})
		leaves = append(leaves, trace.Node{Name: w, Op: "NONE", Type: "f32", Ne: [4]int64{16, 8, 1, 1}, ViewSrc: -1, Leaf: true, Data: uint64(len(w)) << 20,
			Nb: [4]uint64{4, 64, 512, 512}, BlockSize: 1, TypeSize: 4})
	}
	s.Nodes = append(s.Nodes, leaves...)
	s.NNodes = n
	return s
}

// Two sets of weights turn out to be one model: what was summed up apart becomes one.
func TestSeriesJoinsModels(t *testing.T) {
	const x, y = "blk.0.ffn_up.weight", "blk.11.ffn_up.weight"
	sinks := map[profile.By]*profile.StatBuilder{}
	b := profile.NewSeries()
	all := []profile.Sink{b}
	for _, by := range []profile.By{profile.ByWeight, profile.ByOp, profile.ByLayer, profile.ByBlock, profile.ByStep} {
		sinks[by] = profile.NewStat(profile.StatOptions{By: by})
		all = append(all, sinks[by])
	}
	sink := profile.Tee(all...)
	for i, c := range []struct {
		ctx   uint64
		shape *profile.Shape
	}{{1, wide(1, x)}, {2, wide(2, y)}, {1, wide(1, x)}, {1, wide(3, x, y)}, {2, wide(2, y)}, {1, wide(3, x, y)}} {
		base := int64(1000 + 100_000*i)
		s := &profile.Step{ID: int64(i) + 1, PID: 1, Ctx: c.ctx, Phase: profile.Decode, Start: base, Dur: 50_000 + int64(i)*1000, NTokens: 1, NSeqs: 1}
		for n := range c.shape.NNodes {
			o := &profile.Op{Step: s, Shape: c.shape, Node: int32(n), Op: "MUL_MAT", Start: base + int64(n)*2000, Dur: 1500 + int64(i), Busy: 1500 + int64(i)}
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
	stats := map[profile.By]*profile.Stat{}
	for by, s := range sinks {
		stats[by] = s.Finish(h)
	}
	got := b.Finish(h)
	if len(stats[profile.ByWeight].Phases) != 1 {
		t.Fatalf("the test tests nothing: %+v", stats[profile.ByWeight].Phases)
	}
	agrees(t, got, stats)
	p := got.Phases[0]
	if len(p.Products) != 1 || p.Products[0].Calls != 8 || p.Products[0].Layers != 2 || at(p.Products[0].Work) != 8*16 {
		t.Errorf("%+v", p.Products)
	}
	for i, x := range p.Steps {
		if x.ID != int64(i)+1 {
			t.Errorf("step %d at place %d", x.ID, i)
		}
	}
	if r := p.ByWeight[0]; len(r.Threads) != 2 || r.Threads[0].Ops != 3 || r.Threads[1].Ops != 5 || len(r.Layers) != 2 || r.Layers[0].Calls != 4 || r.Layers[1].Layer != 11 {
		t.Errorf("%+v", r)
	}
}

// A prompt in parts: its first token comes when logits are asked for, and the tokens are those of all parts.
func TestSeriesPromptInParts(t *testing.T) {
	b := profile.NewSeries()
	for i, outputs := range []int32{0, 0, 1, 1} {
		n, phase := int32(8), profile.Prefill
		if i == 3 {
			n, phase = 1, profile.Decode
		}
		if err := b.Step(&profile.Step{ID: int64(i) + 1, PID: 1, Phase: phase, Start: int64(i) * 10_000, Dur: 4000, NTokens: n, NSeqs: 1,
			Seqs: []trace.StepSeq{{Seq: 3, NTokens: n, Pos: int32(i) * 8, Outputs: outputs}}}); err != nil {
			t.Fatal(err)
		}
	}
	s := b.Finish(&profile.Header{})
	if q := s.Sequences[0]; len(s.Sequences) != 1 || at(q.Prompt) != 24 || at(q.TTFT) != 24_000 || q.Tokens != 1 || at(q.TPOT) != 4000 || q.Seq != 3 {
		t.Errorf("%+v", s.Sequences)
	}
}
