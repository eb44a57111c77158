// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/ops"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/profile/summary"
	"github.com/profinfer/profinfer/trace"
)

var run = profiletest.Run{Model: profiletest.Small, PID: 4242, Ctx: 0xabc, Threads: 2, Prefill: 32,
	Decode: 64,
	Start:  1_000_000_000, Preempt: 41, Sched: true, Gap: 300}

// opsPerStep of the small model: see profiletest.
const opsPerStep = 2*17 + 3

// calmSteps is how many of the run's decode steps no process disturbed: figures of operators are of these.
const calmSteps = 64 - 1

func runStat(t *testing.T, opts stat.Options, runs ...profiletest.Run) *summary.Stat {
	t.Helper()
	b := stat.New(opts)
	p := &profiletest.Player{Sink: b}
	for _, r := range runs {
		if err := p.Play(r); err != nil {
			t.Fatal(err)
		}
	}
	return b.Finish(p.Header("op"))
}

func near(a *float64, b float64) bool { return a != nil && math.Abs(*a-b) <= 1e-9*math.Abs(b)+1e-12 }

// consistent checks that a phase's sums agree with each other, whatever the grouping.
func consistent(t *testing.T, s *summary.Stat) {
	t.Helper()
	for i := range s.Phases {
		f := &s.Phases[i]
		if f.OpsDur == nil {
			continue
		}
		// All but disturbed steps that are left out.
		steps, all := f.Judged()
		if steps != f.Traced || *f.OpsDur-*f.Overlap+*f.Gap != all {
			t.Errorf("%s: operators %d - overlap %d + gap %d is not the steps' %d", f.Phase, *f.OpsDur,
				*f.Overlap, *f.Gap, all)
		}
		if sum := *f.MatMul + *f.Attn + *f.Other; math.Abs(sum-float64(*f.OpsDur)/float64(all)) > 1e-9 {
			t.Errorf("%s: shares add up to %f", f.Phase, sum)
		}
		rows := slices.Clone(f.Rows)
		if f.Rest != nil {
			rows = append(rows, *f.Rest)
		}
		var dur, calls int64
		var sharesum float64
		for _, r := range rows {
			dur += r.Dur
			calls += r.Calls
			sharesum += *r.Share
		}
		switch s.By {
		case facts.ByStep:
			if dur != f.Dur {
				t.Errorf("%s: steps' rows sum up to %d, want %d", f.Phase, dur, f.Dur)
			}
		case facts.ByThread:
		default:
			if dur != *f.OpsDur || math.Abs(sharesum-float64(*f.OpsDur)/float64(all)) > 1e-9 {
				t.Errorf("%s by %s: rows sum up to %d, %f; want %d", f.Phase, s.By, dur, sharesum, *f.OpsDur)
			}
		}
		if s.By == facts.ByStep && steps < f.Steps {
			calls -= (f.Steps - steps) * opsPerStep // these have rows of their own
		}
		if s.By != facts.ByThread && calls != f.Ops {
			t.Errorf("%s by %s: rows have %d calls, want %d", f.Phase, s.By, calls, f.Ops)
		}
	}
}

func TestStatPhases(t *testing.T) {
	s := runStat(t, stat.Options{}, run)
	consistent(t, s)
	if len(s.Phases) != 2 || s.Phases[0].Phase != "prefill" || s.Phases[1].Phase != "decode" {
		t.Fatalf("phases are %+v", s.Phases)
	}
	p, d := &s.Phases[0], &s.Phases[1]
	if p.Steps != 1 || *p.Tokens != 32 || d.Steps != 64 || *d.Tokens != 64 {
		t.Errorf("%d steps of %d tokens, %d of %d", p.Steps, *p.Tokens, d.Steps, *d.Tokens)
	}
	if p.Ops != opsPerStep || d.Ops != calmSteps*opsPerStep || d.Traced != calmSteps {
		t.Errorf("%d and %d operators, want %d and %d", p.Ops, d.Ops, opsPerStep, calmSteps*opsPerStep)
	}
	if x := d.Disturbed; x == nil || !x.LeftOut || x.Steps != 1 || x.Lost != 5_000_000 || x.Disk != 0 ||
		len(x.Ranges) != 1 || x.Ranges[0] != (summary.StepRange{First: 42, Last: 42}) ||
		x.Dur != d.StepMax || len(x.Instead) != 1 || x.Instead[0].Comm != "apt-get" {
		t.Errorf("disturbed: %+v", x)
	}
	if !near(d.UndisturbedStep, float64(d.Dur-d.StepMax)/calmSteps) || p.Disturbed != nil ||
		!near(d.UndisturbedTPS, calmSteps*1e9/float64(d.Dur-d.StepMax)) {
		t.Errorf("undisturbed: %v, %v t/s; prefill %+v", d.UndisturbedStep, d.UndisturbedTPS, p.Disturbed)
	}
	if !near(p.PerToken, float64(p.Dur)/32) || p.PerTokenP95 != nil {
		t.Errorf("prefill: %v a token, p95 %v", p.PerToken, p.PerTokenP95)
	}
	if !near(d.PerToken, float64(d.Dur)/64) || !near(d.TokensPerS, 64e9/float64(d.Dur)) {
		t.Errorf("decode: %v a token, %v tokens/s", d.PerToken, d.TokensPerS)
	}
	if d.StepMaxID != 42 || d.StepMax < 5_000_000 {
		t.Errorf("the slowest step is %d, %d ns; want 42, where a thread was preempted for 5 ms", d.StepMaxID,
			d.StepMax)
	}
	if len(d.StepMaxInstead) != 1 || d.StepMaxInstead[0].Comm != "apt-get" ||
		d.StepMaxInstead[0].Dur != 5_000_000 || d.StepMaxInstead[0].Own {
		t.Errorf("in its place ran %+v", d.StepMaxInstead)
	}
	// 10 us before the first operator, 20 us after the last, 300 ns after each operator.
	if want := int64(calmSteps * (30_000 + opsPerStep*300)); *d.Gap != want {
		t.Errorf("the gap is %d, want %d", *d.Gap, want)
	}
	if s.TTFT.Sequences != 1 || !near(s.TTFT.Mean, float64(p.Dur)) || s.TTFT.Unknown != 0 {
		t.Errorf("TTFT is %+v, want the prefill step's %d", s.TTFT, p.Dur)
	}
	if s.Run.ProbeShare == nil {
		t.Error("the probes' share is not known")
	}
	if len(s.Run.Processes) != 1 || s.Run.Processes[0].CPUVariant != "haswell" ||
		s.Run.Processes[0].Threads != 2 {
		t.Errorf("processes are %+v", s.Run.Processes)
	}
}

func TestStatRows(t *testing.T) {
	for _, by := range []facts.By{facts.ByOp, facts.ByWeight, facts.ByLayer, facts.ByBlock, facts.ByThread,
		facts.ByStep} {
		for _, top := range []int{0, 3} {
			s := runStat(t, stat.Options{By: by, Top: top}, run)
			consistent(t, s)
			d := s.Phases[1]
			if top > 0 && len(d.Rows) > top {
				t.Errorf("by %s: %d rows, want at most %d", by, len(d.Rows), top)
			}
		}
	}
	row := func(s *summary.Stat, key string) summary.Row {
		for _, r := range s.Phases[1].Rows {
			if r.Key == key {
				return r
			}
		}
		t.Fatalf("no row %q", key)
		return summary.Row{}
	}
	s := runStat(t, stat.Options{By: facts.ByWeight}, run)
	r := row(s, "ffn_down")
	// 192x64 in q4_0: 6912 bytes, 192 and 64 floats; two layers.
	const calls = 2 * calmSteps
	bytes, flops := int64(6912+768+256), int64(2*192*64)
	if r.Calls != calls || r.CallsPerStep != 2 || *r.Bytes != calls*bytes || *r.Flops != calls*flops ||
		r.Type != "q4_0" || r.Op != "MUL_MAT" || !r.Weight {
		t.Errorf("ffn_down is %+v", r)
	}
	if !near(r.GBps, float64(*r.Bytes)/float64(r.Dur)) || !near(r.Intensity, float64(flops)/float64(bytes)) ||
		!near(r.GFlops, float64(*r.Flops)/float64(r.Dur)) {
		t.Errorf("ffn_down: %v GB/s, %v flop/B, %v GFLOP/s", r.GBps, r.Intensity, r.GFlops)
	}
	// The second thread is busy 5 % longer than the first: max 1.05 / mean 1.025.
	if r.Imbalance == nil || math.Abs(*r.Imbalance-(1.05/1.025-1)) > 1e-3 {
		t.Errorf("ffn_down's imbalance is %v", r.Imbalance)
	}
	if math.Abs(r.P95-r.Mean) > 0.011*r.Mean {
		t.Errorf("ffn_down takes %f each time, p95 is %f", r.Mean, r.P95)
	}
	if g := row(s, "ffn_gate"); g.OffCPU != 0 || g.Wait > 100_000 { // the disturbed step is not in it
		t.Errorf("ffn_gate was off-CPU %d, waited %d", g.OffCPU, g.Wait)
	}
	if g := row(runStat(t, stat.Options{By: facts.ByStep}, run), "42"); g.OffCPU != 5_000_000 ||
		g.Wait < 4_900_000 {
		t.Errorf("step 42 was off-CPU %d, waited %d", g.OffCPU, g.Wait)
	}
	if o := row(s, "output (token_embd)"); o.CallsPerStep != 1 || o.Block != ops.BlockOutput {
		t.Errorf("the output is %+v", o)
	}
	s = runStat(t, stat.Options{By: facts.ByLayer}, run)
	var keys []string
	for _, r := range s.Phases[1].Rows {
		keys = append(keys, r.Key)
	}
	if strings.Join(keys, " ") != "0 1 none" {
		t.Errorf("layers are %v", keys)
	}
	if r := row(s, "0"); r.CallsPerStep != 17 {
		t.Errorf("layer 0 has %f calls a step", r.CallsPerStep)
	}
	s = runStat(t, stat.Options{By: facts.ByStep, Top: 1}, run)
	if r := s.Phases[1].Rows[0]; r.Step != 42 || *r.Tokens != 1 || r.Dur != s.Phases[1].StepMax {
		t.Errorf("the slowest step's row is %+v", r)
	}
}

func TestStatFilters(t *testing.T) {
	other := run
	other.PID, other.Ctx, other.Prefill, other.Decode, other.Model.Base = 999, 7, 0, 5, 0x5000000
	s := runStat(t, stat.Options{PID: 999, Phases: []profile.Phase{profile.Decode}}, run, other)
	consistent(t, s)
	if len(s.Phases) != 1 || s.Phases[0].Steps != 5 || len(s.Run.Processes) != 1 || len(s.Models) != 1 ||
		len(s.Threads) != 2 {
		t.Errorf("of process 999: %d phases, %+v, %d models, %d threads", len(s.Phases), s.Phases[0].Steps,
			len(s.Models), len(s.Threads))
	}
	s = runStat(t, stat.Options{Phases: []profile.Phase{profile.Prefill}}, run)
	if len(s.Phases) != 1 || s.Phases[0].Phase != "prefill" {
		t.Errorf("only prefill: %+v", s.Phases)
	}
	if s.TTFT.Sequences != 1 {
		t.Error("TTFT goes with the phase filter")
	}
}

// A draft and its target are told apart; a second context of the same model is not.
func TestStatModels(t *testing.T) {
	draft := run
	draft.Ctx, draft.Model.Layers, draft.Model.Base, draft.Prefill, draft.Preempt = 2, 1, 0x900000, 0, 0
	again := run
	again.Ctx, again.Prefill = 3, 0
	s := runStat(t, stat.Options{Top: 2}, run, draft, again)
	consistent(t, s)
	if len(s.Models) != 2 || s.Models[0].Layers != 2 || s.Models[0].Contexts != 2 ||
		s.Models[1].Layers != 1 || s.Models[1].Contexts != 1 {
		t.Fatalf("models are %+v", s.Models)
	}
	if len(s.Phases) != 3 || *s.Phases[1].Model != 0 || s.Phases[1].Steps != 128 || *s.Phases[2].Model != 1 ||
		s.Phases[2].Steps != 64 {
		t.Errorf("phases are %+v", s.Phases)
	}
	// A new model where the first one's context was: llama-bench with two models.
	draft.Ctx = run.Ctx
	s = runStat(t, stat.Options{}, run, draft, run)
	if len(s.Models) != 2 || len(s.Phases) != 3 || s.Phases[1].Steps != 128 || s.Phases[2].Steps != 64 {
		t.Errorf("one context after the other: %d models, phases %+v", len(s.Models), s.Phases)
	}
	m := s.Models[0]
	// token_embd 64x1024, per layer q 64x64, k and v 64x32, o 64x64, gate and up 64x192, down 192x64
	// and two norms of 64, output_norm 64.
	if want := int64(64*1024 + 2*(2*64*64+2*64*32+3*64*192+2*64) + 64); m.Params != want {
		t.Errorf("%d parameters, want %d", m.Params, want)
	}
	if m.Family != "llama" || *m.Width != 64 || *m.Vocab != 1024 || *m.Heads != 4 || *m.HeadsKV != 2 ||
		*m.HeadDim != 16 || m.Experts != nil {
		t.Errorf("the model is %+v", m)
	}
	if len(m.Types) != 2 || m.Types[0].Type != "q4_0" || *m.Types[0].Bytes != (m.Params-5*64)/32*18 ||
		m.Types[1].Tensors != 5 {
		t.Errorf("types are %+v", m.Types)
	}
	if want := *m.Types[0].Bytes + *m.Types[1].Bytes; *m.Bytes != want {
		t.Errorf("%d bytes, want %d", *m.Bytes, want)
	}
}

func TestTTFT(t *testing.T) {
	seen := run
	late := run // attached in the middle of a sequence
	late.Pos, late.Ctx, late.Prefill = 100, 9, 0
	s := runStat(t, stat.Options{}, seen, late)
	if s.TTFT.Sequences != 1 || s.TTFT.Unknown != 1 {
		t.Errorf("TTFT is %+v", s.TTFT)
	}
	s = runStat(t, stat.Options{}, late)
	if s.TTFT.Mean != nil || s.TTFT.P95 != nil || s.TTFT.Max != nil {
		t.Errorf("TTFT of a prompt that was not seen is %+v", s.TTFT)
	}

	// A prompt in two steps, of which the second asks for logits.
	b := stat.New(stat.Options{})
	step := func(id, start, dur int64, pos, n, outputs int32) {
		if err := b.Step(&profile.Step{ID: id, PID: 1, Ctx: 5, Phase: profile.Prefill, Start: start, Dur: dur,
			NTokens: n, NSeqs: 1, Outputs: outputs,
			Seqs: []trace.StepSeq{{Seq: 3, NTokens: n, Pos: pos, Outputs: outputs}}}); err != nil {
			t.Fatal(err)
		}
	}
	step(1, 1000, 100, 0, 512, 0)
	step(2, 1200, 100, 512, 100, 1)
	step(3, 1400, 100, 612, 1, 1)
	step(4, 2000, 50, 0, 10, 1) // the same sequence number, anew
	step(5, 3000, 50, 0, 10, 0) // never asked
	st := b.Finish(&profile.Header{}).TTFT
	if st.Sequences != 2 || *st.Max != 300 || st.Mean != nil || math.Abs(*st.P50-50) > 1 || st.Pending != 1 ||
		st.Unknown != 0 {
		t.Errorf("TTFT is %+v, want 300 and 50 ns, no mean of prompts of 612 and 10 tokens, and one pending", st)
	}
}

// The time of a step that several sequences share is each one's own.
func TestTPOT(t *testing.T) {
	b := stat.New(stat.Options{})
	for i := range int64(20) {
		if err := b.Step(&profile.Step{ID: i + 1, PID: 1, Phase: profile.Decode, Start: i * 1000, Dur: 800,
			NTokens: 4, NSeqs: 4}); err != nil {
			t.Fatal(err)
		}
	}
	f := b.Finish(&profile.Header{}).Phases[0]
	if !near(f.PerToken, 800) || !near(f.TokensPerS, 4/800e-9) || math.Abs(*f.PerTokenP95-800) > 8 {
		t.Errorf("TPOT is %v, p95 %v, %v tokens/s", *f.PerToken, *f.PerTokenP95, *f.TokensPerS)
	}
	if f.Gap != nil || f.MatMul != nil || f.Wait != nil || f.OffCPU != nil || f.GBps != nil {
		t.Errorf("figures of operators that were not recorded are %+v", f)
	}
	b = stat.New(stat.Options{})
	_ = b.Step(&profile.Step{ID: 1, Phase: profile.Unknown, Dur: 5, NTokens: -1, NSeqs: -1})
	if f := b.Finish(&profile.Header{}).Phases[0]; f.Phase != "unknown" || f.Tokens != nil ||
		f.PerToken != nil || f.TokensPerS != nil {
		t.Errorf("a batch that could not be read gives %+v", f)
	}
}

func TestStatPartialSteps(t *testing.T) {
	r := run
	r.Partial = 41 // the one that was preempted
	s := runStat(t, stat.Options{}, r)
	consistent(t, s)
	if d := s.Phases[1]; d.Steps != 63 || d.Partial != 1 || d.OnlyPartial || d.Ops != 63*opsPerStep ||
		d.StepMax > 1_000_000 {
		t.Errorf("decode is %+v", d)
	}
	if s.Lost.Steps != 1 {
		t.Errorf("lost is %+v", s.Lost)
	}
	r.Prefill, r.Decode, r.Partial = 0, 1, 1
	if d := runStat(t, stat.Options{}, r).Phases[0]; d.Steps != 1 || !d.OnlyPartial || d.Partial != 1 {
		t.Errorf("where nothing was seen wholly: %+v", d)
	}
}

// Operators of steps that never end, or belong to none.
func TestStatOutside(t *testing.T) {
	b := stat.New(stat.Options{})
	p := &profiletest.Player{Sink: cutter{b}}
	r := run
	r.Decode = 2
	if err := p.Play(r); err != nil {
		t.Fatal(err)
	}
	s := b.Finish(p.Header("op"))
	consistent(t, s)
	if s.Outside == nil || s.Outside.Ops != opsPerStep {
		t.Errorf("outside steps: %+v", s.Outside)
	}
	if len(s.Phases) != 1 || s.Phases[0].Steps != 1 || s.Phases[0].Ops != opsPerStep {
		t.Errorf("phases: %+v", s.Phases)
	}
}

// cutter takes the step from the prefill's operators, and lets step 3 never end.
type cutter struct{ profile.Sink }

func (c cutter) Op(o *profile.Op) error {
	if o.Step.Phase == profile.Prefill {
		d := *o
		d.Step = nil
		o = &d
	}
	return c.Sink.Op(o)
}

func (c cutter) Step(s *profile.Step) error {
	if s.ID != 2 {
		return nil
	}
	return c.Sink.Step(s)
}

// Operators that run at the same time are told, and the gap stays right.
func TestStatOverlap(t *testing.T) {
	b := stat.New(stat.Options{})
	s := &profile.Step{ID: 1, PID: 1, TID: 1, Phase: profile.Decode, Start: 1000, Dur: 100, NTokens: 1,
		NSeqs: 1}
	for _, o := range [][2]int64{{1010, 10}, {1025, 5}, {1005, 30}, {1040, 10}, {1045, 25}, {1090, 40}} {
		if err := b.Op(&profile.Op{Step: s, Op: "ADD", Start: o[0], Dur: o[1]}); err != nil {
			t.Fatal(err)
		}
	}
	_ = b.Step(s)
	st := b.Finish(&profile.Header{})
	// 1005-1035, 1040-1070 and what lies in the step of 1090-1130 are covered: 30 + 30 + 10.
	if f := st.Phases[0]; *f.OpsDur != 120 || *f.Gap != 30 || *f.Overlap != 50 {
		t.Errorf("operators %d, gap %d, overlap %d; want 120, 30, 50", *f.OpsDur, *f.Gap, *f.Overlap)
	}
	consistent(t, st)
}

func TestStatThreads(t *testing.T) {
	s := runStat(t, stat.Options{}, run)
	if len(s.Threads) != 2 || s.Threads[0].Role != "main" || s.Threads[0].TID != 4242 ||
		s.Threads[1].Comm != "llama-bench" {
		t.Fatalf("threads are %+v", s.Threads)
	}
	var steps int64
	for _, f := range s.Phases {
		steps += f.Dur
	}
	for _, h := range s.Threads {
		if h.Busy+h.Wait+h.OffCPU+h.Idle != h.Steps || h.Steps != steps {
			t.Errorf("thread %d: %d + %d + %d + %d, steps %d", h.TID, h.Busy, h.Wait, h.OffCPU, h.Idle,
				h.Steps)
		}
		if h.Ops != 65*opsPerStep || !near(h.Util, float64(h.Busy)/float64(steps)) {
			t.Errorf("thread %d: %d operators, utilisation %v", h.TID, h.Ops, *h.Util)
		}
	}
	w := s.Threads[1]
	if *w.Preempted != 1 || *w.Runnable != 5_000_000 || len(w.Instead) != 1 ||
		w.Instead[0].Comm != "apt-get" {
		t.Errorf("the worker was preempted %d times for %d by %+v", *w.Preempted, *w.Runnable, w.Instead)
	}
	r := run
	r.Sched, r.Preempt = false, 0
	s = runStat(t, stat.Options{}, r)
	if w := s.Threads[1]; w.Preempted != nil || w.Runnable != nil || s.HasOffCPU ||
		s.Phases[0].OffCPU != nil {
		t.Errorf("without scheduling: %+v", w)
	}
}

func TestStatLosses(t *testing.T) {
	b := stat.New(stat.Options{})
	h := &profile.Header{Torn: "bad",
		Losses: []trace.Loss{{Start: 10, End: 30, Why: "lost", What: "hits", Events: 5},
			{Start: 40, End: 45, Why: "lost", What: "hits", Events: 2}, {Start: 50, End: 90, Why: "throttled",
				Events: 3}, {Start: 9, End: 1, Why: "learning"}}}
	l := b.Finish(h).Lost
	if l.Events != 7 || l.ThrottledNs != 40 || l.Spans != 4 || !l.Cut || l.Torn != "bad" {
		t.Errorf("losses are %+v", l)
	}
	want := []summary.LostBy{{Why: "lost", What: "hits", Spans: 2, Events: 7, Dur: 25},
		{Why: "throttled", Spans: 1, Events: 3, Dur: 40}, {Why: "learning", Spans: 1}}
	if !slices.Equal(l.ByWhy, want) {
		t.Errorf("by reason: %+v", l.ByWhy)
	}
}

// Every list is one in JSON, never null; figures that are not known are null, never 0.
func TestStatJSON(t *testing.T) {
	b, err := json.Marshal(runStat(t, stat.Options{}, run))
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	if v["schema_version"] != float64(summary.Schema) {
		t.Errorf("schema_version is %v", v["schema_version"])
	}
	empty, _ := json.Marshal(stat.New(stat.Options{}).Finish(&profile.Header{}))
	for _, want := range []string{`"phases":[]`, `"models":[]`, `"threads":[]`, `"by_why":[]`,
		`"processes":[]`, `"notes":[]`, `"command":[]`, `"mean_ns":null`, `"probe_share":null`} {
		if !strings.Contains(string(empty), want) {
			t.Errorf("%s is not in %s", want, empty)
		}
	}
}

// One pass gives what a pass for each grouping gives.
func TestFurtherGroupings(t *testing.T) {
	all := []facts.By{facts.ByOp, facts.ByWeight, facts.ByLayer, facts.ByBlock, facts.ByThread, facts.ByStep,
		facts.ByExpert}
	once := stat.New(stat.Options{By: all[0], Further: all[1:], Top: 4})
	sinks, alone := []profile.Sink{once}, []*stat.Builder{}
	for _, by := range all {
		alone = append(alone, stat.New(stat.Options{By: by, Top: 4}))
		sinks = append(sinks, alone[len(alone)-1])
	}
	h, err := profile.Replay(offloaded(t, 40, nil), profile.Tee(sinks...))
	if err != nil {
		t.Fatal(err)
	}
	for i, got := range once.FinishEach(h) {
		want := alone[i].Finish(h)
		if g, w := asJSON(t, got), asJSON(t, want); g != w {
			t.Errorf("by %s: %s\nwant %s", all[i], g, w)
		}
		if len(want.Phases) == 0 {
			t.Error("no phases")
		}
	}
}
