// SPDX-License-Identifier: Apache-2.0

package overhead

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/profinfer/profinfer/profile"
)

const second = int64(1e9)

// made is a made-up engine, measured.
type made struct {
	step   float64            // ns
	cost   map[string]float64 // of a state, share
	burst  map[string]float64 // of a state, every tenth step takes so many steps more
	spread float64            // of a step, share
	drift  float64            // of a span, share: neighbours on the host come and go
	gap    func(i int) int64  // ns after step i
	dur    float64            // share of a step's period that it computes; 0: all
	states []string
	rounds int
	span   int64
	prompt int // every so many steps one of many tokens, ten times as long; 0: none
	seed   uint64
}

// play makes the steps and the spans.
func (m *made) play() (steps []Step, spans []Span) {
	r := rand.New(rand.NewPCG(m.seed, 7))
	t, i := second, 0
	run := func(state string) {
		s := Span{State: state, From: t, To: t + m.span, Traced: -1, CPU: -1}
		slow := 1 + m.cost[state]
		level := 1 + m.drift*r.NormFloat64()
		for t < s.To {
			ns := m.step * slow * level * (1 + m.spread*r.NormFloat64())
			if i%10 == 9 {
				ns += m.burst[state] * m.step
			}
			p := Step{PID: 7, TID: 7, Ctx: 1, Phase: profile.Decode, NTokens: 1, Start: t, Dur: int64(ns)}
			if m.prompt > 0 && i%m.prompt == 0 {
				p.Phase, p.NTokens, p.Dur = profile.Prefill, 512, 10*p.Dur
			}
			t += p.Dur
			if m.dur > 0 {
				p.Dur = int64(float64(p.Dur) * m.dur)
			}
			if m.gap != nil {
				t += m.gap(i)
			}
			steps = append(steps, p)
			i++
		}
		if state != "" {
			s.Traced = 0
			for _, p := range steps {
				if p.Start >= s.From && p.Start+p.Dur <= s.To {
					s.Traced++
				}
			}
			s.Ops, s.CPU = uint64(100*s.Traced), m.span/50
		}
		spans = append(spans, s)
	}
	run("")
	for range m.rounds {
		for _, s := range m.states {
			run(s)
			run("")
		}
	}
	return steps, spans
}

func (m *made) report() *Report {
	steps, spans := m.play()
	return Analyse(steps, spans, m.states)
}

func usual(seed uint64) made {
	return made{step: 50e6, spread: 0.02, drift: 0.004, states: []string{"graph", "op"},
		cost: map[string]float64{"op": 0.02}, rounds: 12, span: 3 * second, seed: seed}
}

func TestKnownCostIsFound(t *testing.T) {
	const runs = 100
	inside, told, zero := 0, 0, 0
	for seed := range uint64(runs) {
		m := usual(seed)
		r := m.report()
		g, o := r.States[0], r.States[1]
		if o.Cost == nil || math.Abs(*o.Cost-0.02) > 0.012 {
			t.Fatalf("seed %d: a cost of 2 %% is found as %v", seed, o.Cost)
		}
		if *o.Low <= 0.02 && 0.02 <= *o.High {
			inside++
		}
		if o.Verdict == Told {
			told++
		}
		if g.Verdict == Zero {
			zero++
		}
		if o.Spans != 12 || o.Steps < 12*50 || *o.Traced != 1 || math.Abs(*o.OpsStep-100) > 1e-9 ||
			math.Abs(*o.ReaderCPU-0.02) > 1e-9 {
			t.Fatalf("seed %d: %+v traced %v ops %v cpu %v", seed, o, *o.Traced, *o.OpsStep, *o.ReaderCPU)
		}
		if math.Abs(*r.StepNS/50e6-1) > 0.01 || r.Basis != Elapsed || r.Phase != profile.Decode {
			t.Fatalf("seed %d: %v %v %v", seed, *r.StepNS, r.Basis, r.Phase)
		}
		if math.Abs(*o.AddedNS-1e6) > 0.6e6 {
			t.Fatalf("seed %d: 2 %% of 50 ms are %v ns", seed, *o.AddedNS)
		}
	}
	if inside < runs*90/100 {
		t.Errorf("the 95 %% interval held the cost in %d of %d runs", inside, runs)
	}
	if told < runs*95/100 || zero < runs*85/100 {
		t.Errorf("told in %d, 0 in %d of %d runs", told, zero, runs)
	}
}

// One state alone: the span behind one is that before the next, so the ratios are not independent.
func TestIntervalOfOneState(t *testing.T) {
	const runs = 150
	inside := 0
	for seed := range uint64(runs) {
		m := usual(seed)
		m.states = []string{"op"}
		o := m.report().States[0]
		if *o.Low <= 0.02 && 0.02 <= *o.High {
			inside++
		}
	}
	if inside < runs*88/100 {
		t.Errorf("the 95 %% interval held the cost in %d of %d runs", inside, runs)
	}
}

// A reader that stops the engine for half a step every tenth one costs 5 %, which a median step never shows.
func TestBurstsCount(t *testing.T) {
	m := usual(3)
	m.cost, m.burst = nil, map[string]float64{"op": 0.5}
	o := m.report().States[1]
	if o.Cost == nil || math.Abs(*o.Cost-0.05) > 0.008 || o.Verdict != Told {
		t.Errorf("a burst of 5 %% is found as %s", show(o))
	}
}

func TestTooShort(t *testing.T) {
	few := usual(1)
	few.rounds = 4
	long := usual(1)
	long.step = 400e6 // 7 in a span
	none := usual(1)
	none.step = 40e9
	for name, m := range map[string]made{"four spans": few, "seven steps a span": long,
		"no step a span": none} {
		for _, s := range m.report().States {
			if s.Verdict != Short || s.Cost != nil || s.Low != nil || s.Answers() {
				t.Errorf("%s: %s", name, show(s))
			}
		}
	}
	if s := long.report().States[0]; s.ShortSteps < 6 || s.ShortSteps > 8 {
		t.Errorf("%d steps in the fullest span", s.ShortSteps)
	}
	if r := Analyse(nil, nil, []string{"op"}); r.States[0].Verdict != Short || r.StepNS != nil ||
		r.GapShare != nil {
		t.Errorf("nothing: %+v", r)
	}
}

func TestTooNoisy(t *testing.T) {
	noisy := 0
	for seed := range uint64(40) {
		m := usual(seed)
		m.drift = 0.10
		o := m.report().States[1]
		if o.Verdict == Noisy {
			noisy++
		}
		if o.Verdict == Zero {
			t.Errorf("seed %d: %s", seed, show(o))
		}
	}
	if noisy < 25 {
		t.Errorf("too noisy to tell in %d of 40 runs", noisy)
	}
}

// Prompts between the tokens take ten times as long and must not count as decode steps.
func TestPhasesAreNotMixed(t *testing.T) {
	m := usual(5)
	m.prompt, m.span = 37, 6*second
	r := m.report()
	o := r.States[1]
	if r.Phase != profile.Decode || o.Verdict != Told || math.Abs(*o.Cost-0.02) > 0.01 ||
		math.Abs(*r.StepNS/50e6-1) > 0.01 {
		t.Errorf("%v %v %s", r.Phase, *r.StepNS, show(o))
	}
	steps, spans := m.play()
	for i := range steps {
		steps[i].Phase, steps[i].NTokens = profile.Prefill, 512
	}
	if r := Analyse(steps, spans, m.states); r.Phase != profile.Prefill || r.States[1].Verdict == Short {
		t.Errorf("prompts alone: %v %s", r.Phase, show(r.States[1]))
	}
}

// Two sequences in a batch take longer than one, and a server's load changes between spans: what is compared
// is steps of one size.
func TestBatchesOfOneSizeAreCompared(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	var steps []Step
	var spans []Span
	at := second
	for k := range 25 {
		s := Span{From: at, To: at + 6*second, Traced: -1, CPU: -1}
		slow := 1.0
		if k%2 == 1 {
			s.State, slow = "op", 1.02
		}
		load := 0.3 + 0.4*r.Float64()
		for at < s.To {
			p := Step{PID: 7, TID: 7, Phase: profile.Decode, NTokens: 1, Start: at,
				Dur: int64(50e6 * slow * (1 + 0.005*r.NormFloat64()))}
			if r.Float64() < load {
				p.NTokens, p.Dur = 2, p.Dur*3/2
			}
			at += p.Dur
			steps = append(steps, p)
		}
		spans = append(spans, s)
	}
	if o := Analyse(steps, spans, []string{"op"}).States[0]; o.Verdict != Told ||
		math.Abs(*o.Cost-0.02) > 0.003 {
		t.Error(show(o))
	}
}

// A server waits between requests: what it waits is not the recording's cost.
func TestIdleTimeIsLeftOut(t *testing.T) {
	m := usual(8)
	r := rand.New(rand.NewPCG(1, 1))
	m.gap = func(i int) int64 {
		if i%20 == 0 {
			return r.Int64N(2 * second)
		}
		return 0
	}
	m.span = 6 * second
	rep := m.report()
	o := rep.States[1]
	if rep.Basis != Durations || *rep.GapShare < 0.2 || o.Verdict != Told || math.Abs(*o.Cost-0.02) > 0.01 {
		t.Errorf("%v gaps %v %s", rep.Basis, *rep.GapShare, show(o))
	}
	m = usual(8)
	m.dur = 0.97 // sampling between the steps is the engine's time too
	if rep := m.report(); rep.Basis != Elapsed || math.Abs(*rep.GapShare-0.03) > 0.001 {
		t.Errorf("%v gaps %v", rep.Basis, *rep.GapShare)
	}
}

// Two threads compute at the same time: a period is that of one thread.
func TestTwoEnginesAtOnce(t *testing.T) {
	m := usual(9)
	steps, spans := m.play()
	n := len(steps)
	for i := range n {
		s := steps[i]
		for k := range int64(2) { // two short steps of another context in each
			steps = append(steps, Step{PID: 7, TID: 8, Ctx: 2, Phase: profile.Encode, NTokens: 1,
				Start: s.Start + k*s.Dur/2 + 1, Dur: s.Dur / 2})
		}
	}
	r := Analyse(steps, spans, m.states)
	if o := r.States[1]; r.Basis != Elapsed || math.Abs(*r.StepNS/50e6-1) > 0.01 || o.Verdict != Told ||
		math.Abs(*o.Cost-0.02) > 0.01 {
		t.Errorf("%v %v %s", r.Basis, *r.StepNS, show(o))
	}
}

// A machine that gets slower all the while: the spans on both sides make up for it.
func TestDriftCancels(t *testing.T) {
	m := usual(10)
	m.drift, m.spread = 0, 0
	steps, _ := m.play()
	at, k := second, 0.0
	for i := range steps {
		k += 0.0002
		steps[i].Dur = int64(50e6 * (1 + k))
		steps[i].Start = at
		at += steps[i].Dur
	}
	var spans []Span
	for f := range int64(13) {
		spans = append(spans, Span{State: []string{"", "op"}[f%2], From: second + f*3*second,
			To: second + (f+1)*3*second, Traced: -1, CPU: -1})
	}
	if o := Analyse(steps, spans, []string{"op"}).States[0]; o.Cost == nil || math.Abs(*o.Cost) > 0.0005 {
		t.Error(show(o))
	}
}

// The spans beside it must have enough steps, too.
func TestNeighboursWithFewSteps(t *testing.T) {
	m := usual(11)
	steps, spans := m.play()
	for i := range spans {
		if spans[i].State == "" {
			spans[i].To = spans[i].From + 300e6
		}
	}
	if o := Analyse(steps, spans, m.states).States[1]; o.Verdict != Short || o.ShortSteps > 6 {
		t.Error(show(o))
	}
}

// A recorder that died leaves the engine fast: its spans do not count, and it is said.
func TestDeadRecorder(t *testing.T) {
	m := usual(2)
	steps, spans := m.play()
	for i := range spans {
		if spans[i].State == "op" {
			spans[i].Failed = "its recording holds no operators"
		}
	}
	r := Analyse(steps, spans, m.states)
	if s := r.States[1]; s.Verdict != Failed || s.Cost != nil || s.Failures != 12 || s.Problem == "" {
		t.Errorf("%+v", s)
	}
	if s := r.States[0]; !s.Answers() {
		t.Errorf("the other state: %s", show(s))
	}
	steps, spans = m.play()
	for i := range spans {
		if spans[i].State == "op" {
			spans[i].Traced = 0
		}
	}
	if s := Analyse(steps, spans, m.states).States[1]; s.Verdict != Failed || s.Problem == "" {
		t.Errorf("an empty recording: %+v", s)
	}
	for i := range spans {
		spans[i].Rested = true // one that keeps a budget may have nothing in a span
	}
	if s := Analyse(steps, spans, m.states).States[1]; s.Verdict != Told || *s.Traced != 0 {
		t.Error(show(s))
	}
	// a few of them are left out
	steps, spans = m.play()
	bad := 0
	for i := range spans {
		if spans[i].State == "op" && bad < 4 {
			spans[i].Failed = "status 1"
			bad++
		}
	}
	if s := Analyse(steps, spans, m.states).States[1]; s.Spans != 8 || s.Failures != 4 || s.Verdict != Told {
		t.Error(show(s))
	}
}

// A span whose neighbour is missing (the run ended there) is not compared with one further away.
func TestNeighboursOnly(t *testing.T) {
	m := usual(2)
	steps, spans := m.play()
	if s := Analyse(steps, spans[:len(spans)-1], m.states).States[1]; s.Spans != 11 || s.Tried != 12 {
		t.Error(show(s))
	}
	var kept []Span
	for i, s := range spans {
		if i != 2 { // between graph and op of the first round
			kept = append(kept, s)
		}
	}
	r := Analyse(steps, kept, m.states)
	if r.States[0].Spans != 11 || r.States[1].Spans != 11 {
		t.Errorf("%d and %d spans", r.States[0].Spans, r.States[1].Spans)
	}
}

func TestSameInputSameReport(t *testing.T) {
	m := usual(4)
	a, b := m.report(), m.report()
	if fmt.Sprint(*a.States[1].Low, *a.States[1].High) != fmt.Sprint(*b.States[1].Low, *b.States[1].High) {
		t.Error("two intervals of the same spans differ")
	}
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		lo, hi float64
		want   Verdict
	}{{0.001, 0.2, Told}, {-0.001, 0.02, Zero}, {-0.01, 0.021, Noisy}, {-0.01, -0.001, Zero}, {-0.09, -0.01,
		Noisy}, {0, 0, Zero}} {
		if v := judge(c.lo, c.hi); v != c.want {
			t.Errorf("%v to %v: %s, not %s", c.lo, c.hi, v, c.want)
		}
	}
}

func FuzzAnalyse(f *testing.F) {
	f.Add(int64(5), int64(1), int64(9), int64(3), uint8(7))
	f.Add(int64(math.MinInt64), int64(math.MaxInt64), int64(-1), int64(0), uint8(200))
	f.Fuzz(func(t *testing.T, a, b, c, d int64, n uint8) {
		var steps []Step
		var spans []Span
		for i := range int64(n) {
			steps = append(steps, Step{Start: a + i*b, Dur: c, TID: int32(i % 2), Phase: profile.Decode})
			spans = append(spans, Span{State: []string{"", "op"}[i%2], From: a + i*d, To: b + i*c, CPU: d,
				Traced: int(i) - 2})
		}
		r := Analyse(steps, spans, []string{"op"})
		for _, s := range r.States {
			if s.Traced != nil && (*s.Traced < 0 || *s.Traced > 1) {
				t.Errorf("traced %v", *s.Traced)
			}
		}
	})
}

func show(s State) string {
	if s.Cost == nil {
		return fmt.Sprintf("%s %s, %d of %d spans, fullest %d steps", s.Name, s.Verdict, s.Spans, s.Tried,
			s.ShortSteps)
	}
	return fmt.Sprintf("%s %s %.4f (%.4f to %.4f) of %d spans", s.Name, s.Verdict, *s.Cost, *s.Low, *s.High,
		s.Spans)
}
