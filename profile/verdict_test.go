// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/profile/roof"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/profile/summary"
)

// large reads 138 MiB of weights a step: more than stays in a cache, as the rule has it.
var large = profiletest.Model{Layers: 2, Width: 2048, FF: 8192, Vocab: 65536, Heads: 32, HeadsKV: 8,
	HeadDim: 64, Base: 0x10000}

// The cost of the made machine, ns of one thread: 10 GB/s and 250 GFLOP/s a thread.
const (
	nsByte = 0.1
	nsFlop = 0.004
)

func num(p *int64) float64 {
	if p == nil {
		return 0
	}
	return float64(*p)
}

// roofline is a machine whose threads read and compute at the same time: the slower of both counts.
func roofline(d *facts.Derived) float64 {
	return max(1, num(d.Bytes)*nsByte, num(d.Flops)*nsFlop)
}

// flopsOnly is one that computes so slowly that reading never counts.
func flopsOnly(d *facts.Derived) float64 {
	return max(1, num(d.Flops)*20*nsFlop, num(d.Bytes)*nsByte/100)
}

func even(int) float64 { return 1 }

// made is a run on that machine.
func made() profiletest.Run {
	return profiletest.Run{Model: large, PID: 4242, Ctx: 1, Threads: 2, Prefill: 128, Decode: 8, Start: 1e9,
		Sched: true, Cost: roofline, Part: even}
}

func statOf(t *testing.T, opts stat.Options, change func(*profile.Header), level string,
	runs ...profiletest.Run) *summary.Stat {
	t.Helper()
	b := stat.New(opts)
	p := &profiletest.Player{Sink: b}
	for _, r := range runs {
		if err := p.Play(r); err != nil {
			t.Fatal(err)
		}
	}
	h := p.Header(level)
	if change != nil {
		change(h)
	}
	return b.Finish(h)
}

func verdictOf(t *testing.T, s *summary.Stat, phase string) *summary.Verdict {
	t.Helper()
	for i := range s.Verdicts {
		if s.Verdicts[i].Phase == phase {
			return &s.Verdicts[i]
		}
	}
	t.Fatalf("there is no verdict on %s: %+v", phase, s.Verdicts)
	return nil
}

// is checks a verdict, and that what it says holds together.
func is(t *testing.T, v *summary.Verdict, bound summary.Bound, sure string, among ...summary.Bound) {
	t.Helper()
	if v.Bound != bound || v.Sure != sure || !slices.Equal(v.Among, among) && len(v.Among)+len(among) > 0 {
		t.Errorf("%s: bound %q of %v, sure %q; want %q of %v, %q\n%s %s\n%+v", v.Phase, v.Bound, v.Among,
			v.Sure, bound, among, sure, v.Text, v.Why, v.Causes)
	}
	if sure != "high" && v.Why == "" && bound != summary.BoundUnknown {
		t.Errorf("%s: it is not told why the verdict is no surer", v.Phase)
	}
	if !strings.HasSuffix(v.Text, ".") || strings.Contains(v.Text, "..") || strings.Contains(v.Text, "NaN") ||
		strings.Contains(v.Text, "Inf") {
		t.Errorf("this is no sentence: %q", v.Text)
	}
	var sum float64
	for _, c := range v.Causes {
		sum += c.Share
	}
	if len(v.Causes) > 0 && math.Abs(sum-1) > 0.01 {
		t.Errorf("%s: causes add up to %.3f: %+v", v.Phase, sum, v.Causes)
	}
}

func evidenceOf(v *summary.Verdict, name string) float64 {
	for _, e := range v.Evidence {
		if e.Name == name && e.Value != nil {
			return *e.Value
		}
	}
	return math.NaN()
}

func causeOf(v *summary.Verdict, what string) float64 {
	for _, c := range v.Causes {
		if c.What == what {
			return c.Share
		}
	}
	return 0
}

func TestVerdictMemory(t *testing.T) {
	s := statOf(t, stat.Options{}, nil, "op", made())
	d, p := verdictOf(t, s, "decode"), verdictOf(t, s, "prefill")
	is(t, d, summary.BoundMemory, summary.SureMedium)
	is(t, p, summary.BoundCompute, summary.SureHigh)
	if s.Verdicts[0].Phase != "decode" {
		t.Error("the verdict on decode does not come first")
	}
	// Decode reads at 20 GB/s; prefill computes at 500 GFLOP/s, but for the output, which is asked for one
	// token.
	if v := evidenceOf(d, "gb_per_s"); math.Abs(v-20) > 0.1 {
		t.Errorf("decode reads at %g GB/s, want 20", v)
	}
	if v := evidenceOf(p, "gflop_per_s"); math.Abs(v-500) > 5 {
		t.Errorf("prefill computes at %g GFLOP/s, want 500", v)
	}
	// 2*n*m flops for n*m*18/32 bytes of weights: 3.5 flop/B, 71 GFLOP/s of 500.
	if v := evidenceOf(d, "arithmetic_need"); math.Abs(v-3.54*20/500) > 0.01 {
		t.Errorf("decode's arithmetic would take %g of its time, want 0.142", v)
	}
	if !strings.Contains(d.Text, "most likely memory-bound") || !strings.Contains(d.Text, "20.0 GB/s") ||
		!strings.Contains(d.Text, "14 %") {
		t.Errorf("decode: %q", d.Text)
	}
	if !strings.Contains(d.Why, "No roofline") || !strings.Contains(d.Why, "dequantisation") {
		t.Errorf("why it is no surer: %q", d.Why)
	}
	// What is shown does not change what is known.
	for _, o := range []stat.Options{{Phases: []profile.Phase{profile.Decode}}, {By: facts.ByOp},
		{By: facts.ByStep, Top: 2}, {By: facts.ByThread}} {
		if v := verdictOf(t, statOf(t, o, nil, "op", made()), "decode"); !reflect.DeepEqual(v, d) {
			t.Errorf("with %+v it is %+v", o, v)
		}
	}
}

func TestVerdictCompute(t *testing.T) {
	r := made()
	r.Cost = flopsOnly
	s := statOf(t, stat.Options{}, nil, "op", r)
	// Decode computes at the rate of prefill, which needs a fiftieth of the bytes for that.
	is(t, verdictOf(t, s, "decode"), summary.BoundCompute, summary.SureMedium)
	is(t, verdictOf(t, s, "prefill"), summary.BoundCompute, summary.SureHigh)
}

// Between the two nothing is made up.
func TestVerdictUndecided(t *testing.T) {
	r := made()
	r.Cost = func(d *facts.Derived) float64 { // decode at 67 % of prefill's rate
		return max(1, num(d.Flops)*nsFlop, num(d.Bytes)*nsFlop*3.54*1.5)
	}
	is(t, verdictOf(t, statOf(t, stat.Options{}, nil, "op", r), "decode"), summary.BoundUnknown, "",
		summary.BoundMemory, summary.BoundCompute)
	// One thread of two CPUs: the core's limit and the memory's look alike.
	r = made()
	r.Threads = 1
	v := verdictOf(t, statOf(t, stat.Options{}, nil, "op", r), "decode")
	is(t, v, summary.BoundUnknown, "", summary.BoundMemory, summary.BoundCompute)
	if !strings.Contains(v.Text, "cannot tell which") ||
		!strings.Contains(v.Why, "One thread computed, of 2 CPUs") {
		t.Errorf("%q %q", v.Text, v.Why)
	}
	// Two of four: less sure.
	v = verdictOf(t, statOf(t, stat.Options{}, func(h *profile.Header) {
		h.Meta.Cores = 4
	}, "op", made()), "decode")
	is(t, v, summary.BoundMemory, summary.SureLow)
	// Weights that stay in a cache: less sure.
	r = made()
	r.Model.Vocab = 8192
	v = verdictOf(t, statOf(t, stat.Options{}, nil, "op", r), "decode")
	is(t, v, summary.BoundMemory, summary.SureLow)
	if !strings.Contains(v.Why, "fit into a cache") {
		t.Errorf("%q", v.Why)
	}
}

func TestVerdictOnePhase(t *testing.T) {
	r := made()
	r.Prefill, r.Pos = 0, 128
	v := verdictOf(t, statOf(t, stat.Options{}, nil, "op", r), "decode")
	is(t, v, summary.BoundMemory, summary.SureLow)
	if !strings.Contains(v.Why, "no other phase") {
		t.Errorf("%q", v.Why)
	}
	r.Threads = 1
	is(t, verdictOf(t, statOf(t, stat.Options{}, nil, "op", r), "decode"), summary.BoundUnknown, "",
		summary.BoundMemory, summary.BoundCompute)
	r = made()
	r.Decode = 0
	is(t, verdictOf(t, statOf(t, stat.Options{}, nil, "op", r), "prefill"), summary.BoundCompute,
		summary.SureLow)
}

func TestVerdictPeaks(t *testing.T) {
	f := func(v float64) *float64 { return &v }
	for _, c := range []struct {
		gbps  *float64
		flops *float64
		bound summary.Bound
		sure  string
		text  string
	}{
		{f(22), f(800), summary.BoundMemory, summary.SureHigh, "20.0 GB/s of a peak of 22.0"},
		{f(22), nil, summary.BoundMemory, summary.SureHigh, "of a peak of 22.0"},
		{f(100), f(800), summary.BoundUnknown, "", "less than half of what this machine can do"},
		{f(100), f(80), summary.BoundCompute, summary.SureHigh, "of a peak of 80.0"},
		{f(32), f(800), summary.BoundMemory, summary.SureMedium, "32.0"},
		{nil, f(800), summary.BoundMemory, summary.SureMedium, "of prefill, the arithmetic would take 14 %"},
		{f(0), f(-1), summary.BoundMemory, summary.SureMedium, "prefill"},
	} {
		s := statOf(t, stat.Options{Peaks: fixed(c.gbps, c.flops)}, nil, "op", made())
		v := verdictOf(t, s, "decode")
		is(t, v, c.bound, c.sure)
		if !strings.Contains(v.Text, c.text) {
			t.Errorf("%q, want in it %q", v.Text, c.text)
		}
	}
}

func TestVerdictWait(t *testing.T) {
	r := made()
	r.Threads = 4
	r.Part = func(t int) float64 { // thread 0 has nearly all of the work
		if t == 0 {
			return 3.7
		}
		return 0.1
	}
	s := statOf(t, stat.Options{}, func(h *profile.Header) { h.Meta.Cores = 4 }, "op", r)
	v := verdictOf(t, s, "decode")
	is(t, v, summary.BoundWait, summary.SureHigh)
	// An operator lasts 3.7 where its threads are busy for 1 on average.
	if x := causeOf(v, "wait"); math.Abs(x-2.7/3.7) > 0.01 {
		t.Errorf("waiting takes %g of the time, want 0.73", x)
	}
	i := slices.IndexFunc(s.Findings, func(f summary.Finding) bool {
		return f.Kind == "wait" && f.Phase == "decode"
	})
	if i < 0 || *s.Findings[i].GainShare < 0.72 || s.Findings[i].Target.View != "stat" {
		t.Errorf("findings: %+v", s.Findings)
	}
}

func TestVerdictInterference(t *testing.T) {
	r := made()
	r.Model.Vocab, r.Model.FF = 1024, 1024 // 1.3 ms a step, and 5 ms that another has
	r.Preempts = true
	s := statOf(t, stat.Options{}, nil, "op", r)
	v := verdictOf(t, s, "decode")
	is(t, v, summary.BoundInterference, summary.SureHigh)
	if !strings.Contains(v.Text, "apt-get (77) held CPU 1 for 40.0 ms") || !slices.Contains(v.Names, "apt-get") {
		t.Errorf("%q of %v", v.Text, v.Names)
	}
	// 8 steps lose 5 ms each, whatever else they take.
	var dur int64
	for _, p := range s.Phases {
		if p.Phase == "decode" {
			dur = p.TracedDur
		}
	}
	if x := causeOf(v, "contention"); math.Abs(x-40e6/float64(dur)) > 0.001 {
		t.Errorf("interference takes %g, want %g", x, 40e6/float64(dur))
	}
	f := s.Findings[0]
	if f.Kind != "contention" || math.Abs(*f.Gain-5e6) > 1e3 || f.Target.View != "time" ||
		f.Target.Params["step"] == "" {
		t.Errorf("the first finding is %+v", f)
	}
	// The other is not seen: nobody is accused, and the verdict is less sure.
	r.Sched = false
	v = verdictOf(t, statOf(t, stat.Options{}, nil, "op", r), "decode")
	is(t, v, summary.BoundInterference, summary.SureMedium)
	if strings.Contains(v.Text, "apt-get") {
		t.Errorf("%q", v.Text)
	}
}

func TestVerdictOutside(t *testing.T) {
	r := made()
	r.Gap = 1_000_000
	v := verdictOf(t, statOf(t, stat.Options{}, nil, "op", r), "decode")
	is(t, v, summary.BoundOutside, summary.SureHigh)
	r.Gap = 190_000 // about as long as the operators
	r.Part = func(t int) float64 { return 1.15 - 0.3*float64(t) }
	v = verdictOf(t, statOf(t, stat.Options{}, nil, "op", r), "decode")
	is(t, v, summary.BoundMixed, summary.SureMedium, summary.BoundMemory, summary.BoundOutside)
}

func TestVerdictWithoutOperators(t *testing.T) {
	r := made()
	r.NoOps = true
	s := statOf(t, stat.Options{}, nil, "step", r)
	v := verdictOf(t, s, "decode")
	is(t, v, summary.BoundUnknown, "")
	if !strings.Contains(v.Text, "level step") {
		t.Errorf("%q", v.Text)
	}
	// Graphs alone: time in none of them is known.
	v = verdictOf(t, statOf(t, stat.Options{}, nil, "graph", r), "decode")
	if x := evidenceOf(v, "outside_graphs"); math.Abs(x-30_000.0/1_030_000) > 1e-9 {
		t.Errorf("outside graphs %g", x)
	}
	// A filter leaves operators out: what is missing is no gap.
	v = verdictOf(t, statOf(t, stat.Options{}, func(h *profile.Header) {
		h.Meta.Extra = map[string]string{"filter": "op=MUL_MAT"}
	}, "op", made()), "decode")
	is(t, v, summary.BoundUnknown, "")
	// Nothing at all.
	s = stat.New(stat.Options{}).Finish(&profile.Header{})
	if s.Verdicts == nil || s.Findings == nil || len(s.Verdicts)+len(s.Findings) != 0 {
		t.Errorf("of nothing: %+v %+v", s.Verdicts, s.Findings)
	}
}

// What makes all figures doubtful makes the verdict less sure.
func TestVerdictCaution(t *testing.T) {
	r := made()
	r.Decode = 2
	v := verdictOf(t, statOf(t, stat.Options{}, nil, "op", r), "decode")
	is(t, v, summary.BoundMemory, summary.SureLow)
	r = made()
	r.Partial = 3
	v = verdictOf(t, statOf(t, stat.Options{}, nil, "op", r), "decode")
	is(t, v, summary.BoundMemory, summary.SureLow)
	if !strings.Contains(v.Why, "1 more step") {
		t.Errorf("%q", v.Why)
	}
	r = made()
	r.Sched = false
	is(t, verdictOf(t, statOf(t, stat.Options{}, nil, "op", r), "decode"), summary.BoundMemory,
		summary.SureLow)
}

// Operators of a few microseconds tell nothing of memory and compute.
func TestVerdictShortOperators(t *testing.T) {
	r := made()
	r.Model = profiletest.Small
	v := verdictOf(t, statOf(t, stat.Options{}, nil, "op", r), "prefill")
	if slices.Contains([]summary.Bound{summary.BoundMemory, summary.BoundCompute}, v.Bound) ||
		!strings.Contains(v.Text+v.Why, " on average: much of that is starting") {
		t.Errorf("%s: %q %q", v.Bound, v.Text, v.Why)
	}
}

func TestVerdictOnlyPartial(t *testing.T) {
	r := made()
	r.Threads, r.Decode, r.Partial = 4, 1, 1
	r.Part = func(t int) float64 { return 3.7 - 3.6*float64(min(t, 1)) }
	v := verdictOf(t, statOf(t, stat.Options{}, nil, "op", r), "decode")
	is(t, v, summary.BoundWait, summary.SureLow)
	if !strings.Contains(v.Why, "No step was seen completely") {
		t.Errorf("%q", v.Why)
	}
}

func TestVerdictHostileNames(t *testing.T) {
	r := made()
	r.Decode = 16
	r.Model.Suffix = "<img src=x onerror=alert(1)>\x1b[2J\u202e\"'" + strings.Repeat("é", 40) + "\xff"
	r.Part = func(t int) float64 { return 0.5 + float64(t) }
	s := statOf(t, stat.Options{}, func(h *profile.Header) { h.Meta.Extra = map[string]string{} }, "op", r)
	if len(s.Findings) != 5 {
		t.Errorf("%d findings", len(s.Findings))
	}
	long := func(text string, names []string) {
		if len(text) > 500 {
			t.Errorf("%d bytes: %q", len(text), text)
		}
		for _, n := range names {
			if !strings.Contains(text, n) {
				t.Errorf("%q is not in %q", n, text)
			}
			if len(n) > 48 || !utf8.ValidString(strings.TrimSuffix(strings.ReplaceAll(n, "\xff", ""),
				"\xff")) {
				t.Errorf("a name of %d bytes: %q", len(n), n)
			}
		}
	}
	for _, v := range s.Verdicts {
		long(v.Text, v.Names)
	}
	named := 0
	for _, f := range s.Findings {
		long(f.Text, f.Names)
		named += len(f.Names)
	}
	if named == 0 {
		t.Error("no finding names a weight")
	}
	if _, err := json.Marshal(s); err != nil {
		t.Error(err)
	}
}

// Two models are judged apart, and named.
func TestVerdictTwoModels(t *testing.T) {
	draft := made()
	draft.Ctx, draft.Model.Layers, draft.Model.Base, draft.Model.FF = 2, 1, 0x9000000, 4096
	s := statOf(t, stat.Options{}, nil, "op", made(), draft)
	if len(s.Verdicts) != 4 {
		t.Fatalf("%d verdicts", len(s.Verdicts))
	}
	for i, v := range s.Verdicts {
		if v.Model == nil || *v.Model != i%2 || !strings.Contains(v.Text, "the model of ") {
			t.Errorf("verdict %d is of model %v: %q", i, v.Model, v.Text)
		}
	}
}

func TestVerdictJSON(t *testing.T) {
	b, err := json.Marshal(statOf(t, stat.Options{}, nil, "op", made()))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"verdicts":[{"phase":"decode","model":0,"bound":"memory","among":[],"confidence":"medium","text":"Decode is`, `"findings":[{"kind":`, `"evidence":[{"name":`, `"target":{"view":`} {
		if !strings.Contains(string(b), want) {
			t.Errorf("no %s", want)
		}
	}
}

// fixed are peaks as stat asks for them; nil: not known.
func fixed(gbps, flops *float64) func(*profile.Header) *roof.Peaks {
	return func(*profile.Header) *roof.Peaks { return roof.Fixed("given", gbps, flops) }
}
