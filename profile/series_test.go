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
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/profile/requests"
	"github.com/profinfer/profinfer/profile/series"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/profile/summary"
	"github.com/profinfer/profinfer/trace"
)

// series plays runs into statistics by weight, op, layer, block and step, and into series.
func runSeries(t *testing.T, level string, runs ...profiletest.Run) (*series.Series,
	map[facts.By]*summary.Stat) {
	t.Helper()
	by := []facts.By{facts.ByWeight, facts.ByOp, facts.ByLayer, facts.ByBlock, facts.ByStep, facts.ByThread}
	sinks := []profile.Sink{}
	stats := make([]*stat.Builder, len(by))
	for i := range by {
		stats[i] = stat.New(stat.Options{By: by[i]})
		sinks = append(sinks, stats[i])
	}
	b := series.New(nil)
	p := &profiletest.Player{Sink: profile.Tee(append(sinks, b)...)}
	for _, r := range runs {
		if err := p.Play(r); err != nil {
			t.Fatal(err)
		}
	}
	h := p.Header(level)
	all := map[facts.By]*summary.Stat{}
	for i := range by {
		all[by[i]] = stats[i].Finish(h)
	}
	b.LeaveOut(all[facts.ByWeight].LeavesOut)
	return b.Finish(h), all
}

// at returns what p points to, and a figure that no test expects where it is nil.
func at[T int64 | float64](p *T) T {
	if p == nil {
		return -987654321
	}
	return *p
}

// disturbed reports whether a step is left out of a phase's figures of operators.
func disturbed(f *summary.Phase, step int64) bool {
	return f.Disturbed != nil && f.Disturbed.LeftOut &&
		slices.ContainsFunc(f.Disturbed.Ranges, func(r summary.StepRange) bool {
			return r.First <= step && step <= r.Last
		})
}

// agrees checks that a Series says what Stat says.
func agrees(t *testing.T, s *series.Series, all map[facts.By]*summary.Stat) {
	t.Helper()
	w := all[facts.ByWeight]
	if len(s.Phases) != len(w.Phases) {
		t.Fatalf("%d phases, Stat has %d", len(s.Phases), len(w.Phases))
	}
	threads := map[int32]series.ThreadPart{}
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
		var n, dur, traced, tracedDur, ops, tokens, matmul, attn, other int64
		var probe, overlap, gap, backends, longest, partial int64
		slowest := int64(0)
		for _, x := range p.Steps {
			n += x.N
			dur += x.Dur
			tokens += at(x.Tokens)
			if disturbed(f, x.ID) {
				if x.N != 1 {
					t.Fatal("a disturbed step is in one point with others")
				}
				x.Traced, x.TracedDur, x.Ops = 0, 0, 0 // Stat's figures of operators are without it
			}
			traced += x.Traced
			tracedDur += x.TracedDur
			ops += x.Ops
			if x.Ops > 0 {
				matmul += at(x.MatMul)
				attn += at(x.Attn)
				other += at(x.Other)
				probe += at(x.Probe)
				overlap += at(x.Overlap)
				gap += at(x.Gap)
				backends += at(x.Backends)
				if sum := *x.MatMul + *x.Attn + *x.Other + *x.Probe - *x.Overlap + *x.Backends +
					*x.Gap; sum != x.TracedDur {
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
			for what, v := range map[string][2]float64{"matmul": {float64(matmul), *f.MatMul},
				"attention": {float64(attn), *f.Attn}, "other": {float64(other), *f.Other}} {
				if math.Abs(v[0]/float64(f.TracedDur)-v[1]) > 1e-12 {
					t.Errorf("%s: share of %s is %v, Stat says %v", f.Phase, what, v[0]/float64(f.TracedDur),
						v[1])
				}
			}
		}
		if f.PerTokenP95 != nil {
			is("time per token p95", p.PerToken.P95, *f.PerTokenP95)
		}
		for _, g := range []struct {
			by   facts.By
			rows []series.Row
		}{{facts.ByWeight, p.ByWeight}, {facts.ByOp, p.ByOp}, {facts.ByLayer, p.ByLayer}, {facts.ByBlock,
			p.ByBlock}} {
			rowsAgree(t, f.Phase+" by "+string(g.by), g.by, g.rows, all[g.by].Phases[i].Rows)
		}
		if !p.OnlyPartial && n == int64(len(p.Steps)) {
			stepsAgree(t, p.Steps, all[facts.ByStep].Phases[i].Rows)
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
			threads[x.TID] = series.ThreadPart{Ops: e.Ops + x.Ops, Busy: e.Busy + x.Busy,
				Wait: e.Wait + x.Wait, OffCPU: e.OffCPU + x.OffCPU, Steps: e.Steps + x.Steps}
		}
	}
	for _, x := range w.Threads {
		if e := threads[x.TID]; e.Ops != x.Ops || e.Busy != x.Busy || e.Wait != x.Wait ||
			e.OffCPU != x.OffCPU || e.Steps != x.Steps {
			t.Errorf("thread %d: %+v, Stat says %+v", x.TID, e, x)
		}
	}
	if w.TTFT.Sequences > 0 {
		if s.TTFT == nil || s.TTFT.N != w.TTFT.Sequences ||
			w.TTFT.Mean != nil && s.TTFT.Mean != *w.TTFT.Mean ||
			s.TTFT.Max != *w.TTFT.Max {
			t.Errorf("TTFT %+v, Stat says %+v", s.TTFT, w.TTFT)
		}
	} else if s.TTFT != nil {
		t.Errorf("TTFT %+v of no sequence", s.TTFT)
	}
	if q := w.Sequences; (s.Requests.TPOT == nil) != (q == nil || q.TPOT == nil) || s.Requests.TPOT != nil &&
		(s.Requests.TPOT.N != q.TPOT.N || s.Requests.TPOT.Max != int64(q.TPOT.Max)) {
		t.Errorf("%+v; Stat says %+v", s.Requests, q)
	}
}

func at2(p *int64) int64 {
	if p == nil {
		return 0
	}
	return *p
}

// rowsAgree checks rows against Stat's: the same, with the same calls, times and percentiles.
func rowsAgree(t *testing.T, what string, by facts.By, got []series.Row, want []summary.Row) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d rows, Stat has %d", what, len(got), len(want))
		return
	}
	for _, r := range got {
		j := slices.IndexFunc(want, func(x summary.Row) bool {
			return x.Key == r.Key && (!x.Weight || x.Type == r.Type) && x.Weight == r.Weight
		})
		if j < 0 {
			t.Errorf("%s: Stat has no %s %s", what, r.Key, r.Type)
			continue
		}
		x := &want[j]
		if r.Time.N != x.Calls || r.Time.P95 != x.P95 ||
			math.Abs(r.Time.Mean-x.Mean) > 1e-9*math.Abs(x.Mean) {
			t.Errorf("%s: %s: %+v, Stat says %d calls, mean %v, p95 %v", what, r.Key, r.Time, x.Calls, x.Mean,
				x.P95)
		}
		n := r.Time.Zeros
		for _, c := range r.Time.Counts {
			n += c
		}
		if n != r.Time.N || len(r.Time.Counts) > 160 {
			t.Errorf("%s: %s: %d of %d in %d buckets", what, r.Key, n, r.Time.N, len(r.Time.Counts))
		}
		d := &r.Time
		if last := d.Lo * math.Pow(d.Ratio, float64(len(d.Counts))); d.Zeros == 0 &&
			(d.Lo > float64(d.Min)*1.000001 || last < float64(d.Max)*0.999999) {
			t.Errorf("%s: %s: buckets from %v to %v, values from %d to %d", what, r.Key, d.Lo, last, d.Min,
				d.Max)
		}
		if by != facts.ByWeight && by != facts.ByOp {
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
			t.Errorf("%s: %s: layers have %d calls and %d ns, Stat says %d and %d", what, r.Key, calls, dur,
				x.Calls, x.Dur-x.Probe)
		}
		var th series.ThreadPart
		for _, e := range r.Threads {
			th.Busy += e.Busy
			th.Wait += e.Wait
			th.OffCPU += e.OffCPU
		}
		if th.Busy != x.Busy || th.Wait != x.Wait || th.OffCPU != x.OffCPU {
			t.Errorf("%s: %s: threads have %+v, Stat says busy %d, wait %d, off %d", what, r.Key, th, x.Busy,
				x.Wait, x.OffCPU)
		}
	}
}

// stepsAgree checks points against Stat's rows by step.
func stepsAgree(t *testing.T, got []series.StepPoint, want []summary.Row) {
	t.Helper()
	for _, x := range got {
		j := slices.IndexFunc(want, func(r summary.Row) bool { return r.Key == strconv.FormatInt(x.ID, 10) })
		if j < 0 {
			t.Errorf("Stat has no step %d", x.ID)
			continue
		}
		r := &want[j]
		if x.Dur != r.Dur || x.Ops != r.Calls || x.Ops > 0 &&
			(at(x.Busy) != r.Busy || at(x.Wait) != r.Wait || at(x.OffCPU) != r.OffCPU ||
				at(x.Bytes) != *r.Bytes) {
			t.Errorf("step %d: %+v, Stat says %+v", x.ID, x, r)
		}
	}
}

func TestSeriesAgreesWithStat(t *testing.T) {
	other := run
	other.Model = profiletest.Model{Layers: 3, Width: 128, FF: 256, Vocab: 512, Heads: 4, HeadsKV: 4,
		HeadDim: 32, Base: 0x9000000}
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
	}{"one": {"op", []profiletest.Run{run}}, "partial": {"op",
		[]profiletest.Run{partial}}, "two models": {"op", []profiletest.Run{run, other}},
		"one thread": {"op", []profiletest.Run{single}}, "two processes": {"op",
			[]profiletest.Run{run, two}}, "level step": {"step", []profiletest.Run{noops}},
		"two contexts": {"op", []profiletest.Run{run, again, run}}, "nothing": {"op", nil}} {
		t.Run(name, func(t *testing.T) {
			s, all := runSeries(t, c.level, c.runs...)
			agrees(t, s, all)
			if _, err := json.Marshal(s); err != nil {
				t.Error(err)
			}
		})
	}
}

// What the small model's run says, computed on paper.
func TestSeriesOfSmallModel(t *testing.T) {
	s, all := runSeries(t, "op", run)
	pre, dec := &s.Phases[0], &s.Phases[1]
	if len(pre.Steps) != 1 || len(dec.Steps) != 64 || dec.StepsPerPoint != 1 {
		t.Fatalf("%d and %d points", len(pre.Steps), len(dec.Steps))
	}
	// 32 tokens of prompt, then one a step; the cache's view grows in steps of 256, made anew every 32
	// tokens.
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
	i := slices.IndexFunc(dec.Products, func(p series.Product) bool { return p.Key == "ffn_down" })
	if i < 0 {
		t.Fatalf("%+v", dec.Products)
	}
	p := dec.Products[i]
	const bytes = 192*64/32*18 + 192*4 + 64*4
	if p.M != 64 || p.N != 1 || p.K != 192 || p.Calls != 2*calmSteps || p.Type != "q4_0" || !p.Weight || p.Attn ||
		p.Layers != 2 || p.Threads != 2 ||
		at(p.Work) != 64*192 || at(p.Flops) != 2*64*192 || at(p.Bytes) != bytes {
		t.Errorf("ffn_down: %+v, want %d bytes", p, bytes)
	}
	// Busy is 2000 ns and 0.1 ns a byte for each of two threads; the second begins 100 ns later and takes 5 %
	// more.
	nsOf := bytes * profiletest.NsPerByte / 2
	work := int64(2000) + int64(math.Floor(nsOf))
	if want := 100 + work + work/20; p.Sum != want*p.Calls || p.Mean != float64(want) ||
		math.Abs(p.P5-p.Mean) > p.Mean/100 || math.Abs(p.P95-p.Mean) > p.Mean/100 {
		t.Errorf("ffn_down: %+v, want %d ns", p, want)
	}
	if want := float64(bytes) / p.Mean; math.Abs(at(p.GBps)-want) > 1e-9 {
		t.Errorf("ffn_down: %v GB/s, want %v", at(p.GBps), want)
	}
	i = slices.IndexFunc(pre.Products, func(p series.Product) bool { return p.Key == "ffn_down" })
	if p := pre.Products[i]; p.N != 32 || at(p.Work) != 64*192*32 {
		t.Errorf("ffn_down of the prompt: %+v", p)
	}
	requests := all[facts.ByWeight].Sequences.Requests
	if len(requests) != 1 {
		t.Fatalf("%+v", requests)
	}
	q := requests[0]
	last := dec.Steps[len(dec.Steps)-1]
	span := float64(last.Start + last.Dur - pre.Steps[0].Start - pre.Steps[0].Dur)
	if at(q.Prompt) != 32 || at(q.TTFT) != pre.Steps[0].Dur || q.Tokens != 64 ||
		q.InSteps != sumDur(dec.Steps) || at(q.TPOT) != span/64 || q.Step != 1 {
		t.Errorf("%+v", q)
	}
}

func sumOf(p []series.StepPoint, f func(*series.StepPoint) *int64) (n int64) {
	for i := range p {
		n += at(f(&p[i]))
	}
	return n
}

func sumDur(p []series.StepPoint) (n int64) {
	for i := range p {
		n += p[i].Dur
	}
	return n
}

// A long run is thinned: sums stay, extremes stay, and the slowest steps stay one by one.
func TestSeriesThins(t *testing.T) {
	b := series.New(nil)
	const n = 4096*3 + 5
	var sum, tokens int64
	for i := range int64(n) {
		s := &profile.Step{ID: i + 1, PID: 1, Phase: profile.Decode, Start: i * 10_000, Dur: 1000 + i%97,
			NTokens: 1, NSeqs: 1,
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
	if at(p.Steps[0].Pos) != 2.5 || steps != n || dur != sum || tok != tokens || longest != 9000 ||
		id != 7003 {
		t.Errorf("first at %v; %d steps, %d ns, %d tokens, longest %d of step %d", at(p.Steps[0].Pos), steps,
			dur, tok, longest, id)
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
	b := series.New(nil)
	for i := range int64(3) {
		s := &profile.Step{ID: i + 1, PID: 1, Phase: profile.Decode, Start: i * 10_000, Dur: 1000, NTokens: 1,
			NSeqs: 1}
		if i == 1 {
			s.Untraced = "throttled"
		}
		if err := b.Step(s); err != nil {
			t.Fatal(err)
		}
	}
	p := b.Finish(&profile.Header{}).Phases[0].Steps
	if p[1].Traced != 0 || p[1].Untraced != "throttled" || p[0].Traced != 1 || p[0].MatMul != nil ||
		p[0].Pos != nil || p[0].Cells != nil {
		t.Errorf("%+v", p)
	}
}

// Many sequences are thinned evenly.
func TestSeriesSequences(t *testing.T) {
	b := requests.New(0)
	series := series.New(nil)
	const n = 10_000
	for i := range int64(n) {
		s := &profile.Step{ID: i + 1, PID: 1, Phase: profile.Decode, Start: i * 10_000, Dur: 1000 + i,
			NTokens: 1, NSeqs: 1,
			Seqs: []trace.StepSeq{{Seq: 0, NTokens: 1, Pos: 0, Outputs: 1}}}
		if err := profile.Tee(b, series).Step(s); err != nil {
			t.Fatal(err)
		}
	}
	s := b.Finish(&profile.Header{})
	if d := series.Finish(&profile.Header{}).TTFT; s.Seen != n || s.Every != 4 || len(s.Requests) != n/4 ||
		d.N != n || d.Max != 1000+n-1 {
		t.Fatalf("%d requests, each %d-th of %d; %+v", len(s.Requests), s.Every, s.Seen, d)
	}
	for i, q := range s.Requests {
		if q.Step != int64(4*i)+1 || q.TPOT != nil || at(q.TTFT) != 1000+int64(4*i) {
			t.Fatalf("%d: %+v", i, q)
		}
	}
}

// A distribution's buckets hold what they say.
func TestSeriesDist(t *testing.T) {
	b := series.New(nil)
	for i, d := range []int64{0, 1, 1000, 1000, 1_000_000, 1_000_000_000_000} {
		if err := b.Step(&profile.Step{ID: int64(i) + 1, Phase: profile.Prefill, Start: int64(i), Dur: d,
			NTokens: 1, NSeqs: 1}); err != nil {
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
