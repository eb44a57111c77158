// SPDX-License-Identifier: Apache-2.0

package pprof

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	model "github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/profile/summary"
	"github.com/profinfer/profinfer/trace"
)

var run = profiletest.Run{Model: profiletest.Small, PID: 4242, Ctx: 0xabc, Threads: 2, Prefill: 32,
	Decode: 40,
	Start:  1_000_000_000, Preempt: 7, Sched: true, Gap: 300}

func TestSums(t *testing.T) {
	for name, edit := range map[string]func(*model.Op){
		"plain":  nil,
		"probes": func(o *model.Op) { o.Probe = min(o.Dur, 200+o.ID%7) },
	} {
		t.Run(name, func(t *testing.T) {
			m := feed(t, newExporter(), player(edit, nil, run))
			m.agrees(0, nil)
			if m.stats[facts.ByBlock].Phases[1].Ops != 40*(2*17+3) { // see profiletest
				t.Fatal("the run is not what it was")
			}
			want := m.stats[facts.ByBlock].Phases[0].TracedDur + m.stats[facts.ByBlock].Phases[1].TracedDur
			if got := m.total(0); got != want {
				t.Errorf("all stacks take %d, want %d", got, want)
			}
		})
	}
}

func TestFrames(t *testing.T) {
	m := feed(t, newExporter(), player(nil, nil, run))
	var all []string
	for _, s := range m.Sample {
		all = append(all, strings.Join(names(s), " > "))
	}
	for _, want := range []string{
		"decode > layer 1 > ffn > ffn_down (MUL_MAT q4_0)",
		"decode > layer 0 > norm > attn_norm (RMS_NORM+MUL f32)",
		"decode > layer 0 > attention > FLASH_ATTN_EXT",
		"decode > no layer > output > output (token_embd, MUL_MAT q4_0)",
		"prefill > no layer > embedding > token_embd (GET_ROWS q4_0)",
		"decode > outside operators",
	} {
		if !slices.Contains(all, want) {
			t.Errorf("no stack %s among\n%s", want, strings.Join(all, "\n"))
		}
	}
	var types []string
	for _, v := range m.SampleType {
		types = append(types, v.Type+"/"+v.Unit)
	}
	if got := strings.Join(types, " "); got != "time/nanoseconds busy/nanoseconds wait/nanoseconds off_cpu/nanoseconds calls/count bytes/bytes flops/flop" || m.DefaultSampleType != "time" {
		t.Errorf("values are %s, by default %s", got, m.DefaultSampleType)
	}
	m.says("command: llama-bench -m m.gguf")
	m.says("decode: 40 steps")
	if m.Mapping[0].File != "llama-bench" {
		t.Errorf("it is of %q", m.Mapping[0].File)
	}
}

func TestWhen(t *testing.T) {
	m := feed(t, newExporter(), player(nil, func(h *model.Header) {
		h.Meta.Start, h.Meta.Realtime = 400_000_000, 1_700_000_000_000_000_000
	}, run))
	if m.TimeNanos != 1_700_000_000_600_000_000 {
		t.Errorf("it began at %d", m.TimeNanos)
	}
	if d := m.stats[facts.ByBlock].Run.Dur; d <= 0 || m.DurationNanos != d {
		t.Errorf("it lasted %d, want %d", m.DurationNanos, d)
	}
	if m = feed(t, newExporter(), player(nil, nil, run)); m.TimeNanos != 0 {
		t.Errorf("without a clock it began at %d", m.TimeNanos)
	}
}

func TestModels(t *testing.T) {
	draft := run
	draft.Model.Layers, draft.Model.Base, draft.Ctx = 1, 0x900000, 0xdef
	again := run // another context of the first model
	again.Ctx, again.Prefill, again.Decode = 0x777, 0, 3
	m := feed(t, newExporter(), player(nil, nil, run, draft, again))
	if n := len(m.stats[facts.ByBlock].Phases); n != 4 {
		t.Fatalf("%d phases", n)
	}
	m.agrees(1, func(f *summary.Phase) string {
		return []string{"llama 2 layers 64 wide q4_0", "llama 1 layers 64 wide q4_0"}[*f.Model]
	})

	m = feed(t, newExporter(), player(nil, nil, draft, run)) // the larger one is the first
	m.agrees(1, func(f *summary.Phase) string {
		return []string{"llama 2 layers 64 wide q4_0", "llama 1 layers 64 wide q4_0"}[*f.Model]
	})

	twin := run
	twin.Model.Base, twin.Ctx = 0x900000, 0xdef
	m = feed(t, newExporter(), player(nil, nil, run, twin))
	m.agrees(1, func(f *summary.Phase) string {
		return []string{"llama 2 layers 64 wide q4_0", "llama 2 layers 64 wide q4_0 #2"}[*f.Model]
	})

	other := run
	other.PID = 5000
	m = feed(t, newExporter(), player(nil, nil, run, other))
	m.agrees(1, func(f *summary.Phase) string {
		return []string{"llama 2 layers 64 wide q4_0 llama-bench [4242]",
			"llama 2 layers 64 wide q4_0 llama-bench [5000]"}[*f.Model]
	})
}

// A step whose figures are known: operators that overlap and reach beyond it, graphs of backends, one
// within another.
func TestTime(t *testing.T) {
	shape := profiletest.Small.Shape(1, 1, 1, 256)
	st := &model.Step{ID: 1, PID: 1, Ctx: 9, Phase: model.Decode, Start: 1000, Dur: 1000, NTokens: 1,
		NSeqs: 1}
	op := func(s model.Sink, name string, from, to, probe int64) {
		g := &model.Graph{PID: 1, Step: 1}
		if err := s.Op(&model.Op{Step: st, Graph: g, Shape: shape, Op: name, Node: 0, Start: from,
			Dur: to - from, Probe: probe, Busy: to - from}); err != nil {
			t.Fatal(err)
		}
	}
	graph := func(s model.Sink, backend string, from, to int64, ops int) {
		if err := s.Graph(&model.Graph{PID: 1, Step: 1, Ctx: 9, Backend: backend, Start: from, Dur: to - from,
			Ops: ops, Shape: shape}); err != nil {
			t.Fatal(err)
		}
	}
	m := feed(t, newExporter(), func(s model.Sink) (*model.Header, error) {
		op(s, "A", 990, 1100, 10)  // 100 in the step, 10 of them probes
		op(s, "B", 1150, 1200, 60) // all its time is probes
		op(s, "C", 1160, 1190, 0)  // came late, though it ended before: none of its own
		op(s, "D", 1180, 1300, 0)  // 100 of its own
		graph(s, "CPU", 1090, 1310, 4)
		graph(s, "RPC", 1400, 1500, 0)
		graph(s, "META", 1290, 1600, 0) // 200 beside the one before and D
		graph(s, "CPU", 1600, 1700, 0)  // its operators were not recorded: another thing
		op(s, "E", 1900, 2100, 0)       // 100 in the step
		return &model.Header{First: 990, Last: 2100, Meta: trace.Meta{Level: "op"}}, s.Step(st)
	})
	got := map[string]int64{}
	for _, s := range m.Sample {
		n := names(s)
		got[n[len(n)-1]] += s.Value[0]
	}
	want := map[string]int64{"A": 90, "B": 0, "C": 0, "D": 100, "E": 100, frameProbes: 60, "graph RPC": 100,
		"graph META": 200, frameRest: 350}
	for name, v := range want {
		at := name
		for n := range got {
			if strings.Contains(n, "("+name+" ") {
				at = n
			}
		}
		if got[at] != v {
			t.Errorf("%s takes %d, want %d", name, got[at], v)
		}
	}
	if sum := m.total(0); sum != 1000 {
		t.Errorf("all take %d, want the step's 1000: %v", sum, got)
	}
	f := &m.stats[facts.ByBlock].Phases[0]
	if *f.Gap != 350 || *f.BackendDur != 300 {
		t.Errorf("statistics say %d and %d", *f.Gap, *f.BackendDur)
	}
}

func TestCoverage(t *testing.T) {
	var c coverage
	c.reset(0, 100)
	for i, s := range []struct{ from, to, fresh int64 }{
		{10, 20, 10}, {30, 40, 10}, {20, 30, 10}, {10, 40, 0}, {-5, 5, 5}, {50, 60, 10}, {70, 80, 10}, {4, 75,
			25},
		{95, 200, 5}, {80, 80, 0}, {90, 85, 0}, {200, 300, 0}, {0, 100, 15},
	} {
		if got := c.add(s.from, s.to); got != s.fresh {
			t.Errorf("span %d: %d of %d to %d is new, want %d; %v", i, got, s.from, s.to, s.fresh, c.spans)
		}
	}
	if c.sum != 100 || len(c.spans) != 1 {
		t.Errorf("%d in %v, want all 100", c.sum, c.spans)
	}
}

func TestNotSeen(t *testing.T) {
	partial := run
	partial.Partial = 5
	m := feed(t, newExporter(), player(nil, func(h *model.Header) {
		h.Losses = []trace.Loss{{Start: h.First, End: h.First + 5e6, Why: "lost", What: "hits", Events: 12}}
		h.Torn = "it ends within a block"
		h.End = nil
		h.Meta.Notes = []string{"no counters here"}
	}, partial))
	m.agrees(0, nil)
	for _, text := range []string{"decode: 39 steps", "1 further decode steps were not wholly seen",
		"hits lost, 12 events in 1 spans, 0.005 s",
		"damaged: it ends within a block", "did not end in good order", "note: no counters"} {
		m.says(text)
	}

	partial.Prefill, partial.Decode, partial.Partial = 0, 1, 1 // nothing but that
	m = feed(t, newExporter(), player(nil, nil, partial))
	m.agrees(0, nil)
	m.says("none of these decode steps was wholly seen")

	m = feed(t, newExporter(), func(s model.Sink) (*model.Header, error) {
		return player(nil, nil, run)(untraced{s})
	})
	m.agrees(0, nil)
	m.says("decode: 40 steps")
	m.says("operators of 20 steps (throttled); the steps are left out")
	if f := &m.stats[facts.ByBlock].Phases[1]; f.Traced != 20 || f.TracedDur >= f.Dur {
		t.Errorf("%d steps of %d were recorded", f.Traced, f.Steps)
	}

	filtered := feed(t, newExporter(), player(nil, func(h *model.Header) {
		h.Meta.Extra = map[string]string{"filter": "op=MUL_MAT"}
	}, run))
	if n := filtered.sum("time", 0, "decode", 1, frameRest); n != 0 {
		t.Errorf("%d ns are said to be outside operators", n)
	}
	filtered.says("filter: op=MUL_MAT")
	filtered.agrees(0, nil)
}

// untraced makes every second step one whose operators were not recorded.
type untraced struct{ model.Sink }

func (u untraced) Step(s *model.Step) error {
	if s.Phase == model.Decode && s.ID%2 == 0 {
		s.Untraced = "throttled"
	}
	return u.Sink.Step(s)
}

func TestLevels(t *testing.T) {
	step := run
	step.NoOps = true
	m := feed(t, newExporter(), player(nil, nil, step)) // its steps' graphs take all but 10 us and 20 us
	m.agrees(0, nil)
	if a, b := m.sum("time", 0, "decode", 1, "graph CPU"),
		m.sum("time", 0, "decode", 1, frameGraphs); a != 40e6 || b != 40*30_000 {
		t.Errorf("graphs take %d, the rest %d", a, b)
	}

	m = feed(t, newExporter(), func(s model.Sink) (*model.Header, error) {
		return &model.Header{Meta: trace.Meta{Level: "step"}},
			s.Step(&model.Step{ID: 1, PID: 1, Start: 5, Dur: 70, NTokens: -1, NSeqs: -1})
	})
	if len(m.Sample) != 1 || strings.Join(names(m.Sample[0]), " > ") != "unknown > operators not recorded" ||
		m.Sample[0].Value[0] != 70 {
		t.Errorf("samples are %v", m.Sample)
	}

	other := step // two processes of whose models nothing is known
	other.PID, other.Decode = 5000, 3
	m = feed(t, newExporter(), player(nil, nil, step, other))
	if a, b := m.sum("calls", 0, "llama-bench [4242]", 1, "decode"),
		m.sum("calls", 0, "llama-bench [5000]", 1, "decode"); a != 40 || b != 3 {
		t.Errorf("%d and %d graphs", a, b)
	}

	m = feed(t, newExporter(), func(model.Sink) (*model.Header, error) { return &model.Header{}, nil })
	if len(m.Sample) != 0 || m.Mapping[0].File != "profinfer" {
		t.Errorf("an empty run is %v", m.Profile)
	}
}

func TestOutside(t *testing.T) {
	m := feed(t, newExporter(), func(s model.Sink) (*model.Header, error) {
		return player(func(o *model.Op) {
			if o.Step.Phase == model.Prefill {
				o.Step, o.Probe = nil, 11
			}
		}, nil, run)(s)
	})
	out := m.stats[facts.ByBlock].Outside
	if out == nil {
		t.Fatal("nothing ran outside")
	}
	if got := m.sum("time", 0, frameOutside, 0, ""); got != out.OpsDur {
		t.Errorf("outside steps %d, want %d", got, out.OpsDur)
	}
	if got := m.sum("time", 0, frameOutside, 1, frameProbes); got != 11*out.Ops {
		t.Errorf("probes outside steps %d, want %d", got, 11*out.Ops)
	}
}

func TestHostile(t *testing.T) {
	hostile := run
	hostile.Model.Suffix = "\x1b[31m<script>alert(1)</script>\"\n\u202e\xff" + strings.Repeat("x", 300)
	m := feed(t, newExporter(), player(nil, func(h *model.Header) {
		h.Processes[0].Comm = "../../bin/sh\n"
		h.Meta.Command = []string{"a\x00b", strings.Repeat("y", 5000)}
		h.Meta.Notes = slices.Repeat([]string{"n\r"}, 1000)
		h.Torn = "\x1b"
	}, hostile))
	m.agrees(0, nil)
	texts := slices.Clone(m.Comments)
	for _, f := range m.Function {
		texts = append(texts, f.Name)
		if len(f.Name) > 300 {
			t.Errorf("a frame of %d bytes", len(f.Name))
		}
	}
	for _, s := range append(texts, m.Mapping[0].File) {
		if strings.ContainsFunc(s, func(r rune) bool {
			return r < ' ' || r == unicode.ReplacementChar || unicode.Is(unicode.Bidi_Control, r)
		}) || len(s) > 1100 {
			t.Errorf("%q is not clean", s)
		}
	}
	if len(m.Comments) > 60 || strings.Contains(m.Mapping[0].File, "/") {
		t.Errorf("%d comments, a file %q", len(m.Comments), m.Mapping[0].File)
	}
}

func TestLimits(t *testing.T) {
	e := newExporter()
	e.limits.stacks = 10
	m := feed(t, e, player(nil, nil, run))
	want := m.stats[facts.ByBlock].Phases[0].TracedDur + m.stats[facts.ByBlock].Phases[1].TracedDur
	if got := m.total(0); got != want || len(m.Sample) > 10+4 || len(e.stacks) > 10 ||
		m.sum("time", 0, "decode", 1, frameOthers) == 0 {
		t.Errorf("%d stacks take %d, want %d", len(m.Sample), got, want)
	}

	e = newExporter()
	e.limits.pending = 500
	m = feed(t, e, func(s model.Sink) (*model.Header, error) {
		shape := profiletest.Small.Shape(1, 1, 1, 256)
		for i := range int64(2000) { // none of these steps ends
			if err := s.Op(&model.Op{Step: &model.Step{ID: 1000 + i}, Shape: shape, Op: "MUL",
				Dur: 1}); err != nil {
				t.Fatal(err)
			}
		}
		if len(e.pending) > 500 {
			t.Errorf("%d steps are kept", len(e.pending))
		}
		return player(nil, nil, run)(s)
	})
	m.says("2000 operators of steps whose end did not come")

	e = newExporter()
	e.limits.groups = 2
	many := []profiletest.Run{run}
	for i := range int32(9) {
		r := run
		r.PID, r.Model.Base, r.Ctx = 5000+10*i, uint64(0x1000000*(i+1)), uint64(i+2)
		many = append(many, r)
	}
	m = feed(t, e, player(nil, nil, many...))
	var all int64
	for i := range m.stats[facts.ByBlock].Phases {
		all += m.stats[facts.ByBlock].Phases[i].TracedDur
	}
	if got := m.total(0); got != all || len(e.groups) > 6 {
		t.Errorf("%d groups take %d, want %d", len(e.groups), got, all)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }

func TestErrors(t *testing.T) {
	if err := Export(broken{}, player(nil, nil, run)); err == nil ||
		!strings.Contains(err.Error(), "disk is full") {
		t.Errorf("a writer's error became %v", err)
	}
	want := errors.New("damaged")
	if err := Export(io.Discard, func(model.Sink) (*model.Header, error) {
		return nil, want
	}); !errors.Is(err, want) {
		t.Errorf("replay's error became %v", err)
	}
}

// What go tool pprof says of it.
func TestTool(t *testing.T) {
	tool := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("go", append([]string{"tool", "pprof"}, args...)...)
		cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "GOCACHE="+os.Getenv("GOCACHE"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Skipf("go tool pprof does not run here: %v\n%s", err, out)
		}
		return string(out)
	}
	if os.Getenv("GOCACHE") == "" {
		if dir, err := exec.Command("go", "env", "GOCACHE").Output(); err == nil {
			t.Setenv("GOCACHE", strings.TrimSpace(string(dir)))
		}
	}
	file := filepath.Join(t.TempDir(), "run.pb.gz")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := Export(f, player(nil, nil, run)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	top := tool("-top", "-sample_index=calls", "-nodefraction=0", file)
	for _, want := range []string{"File: llama-bench", "Type: calls", "ffn_down (MUL_MAT q4_0)",
		fmt.Sprintf("of %d total", 41*(2*17+3))} {
		if !strings.Contains(top, want) {
			t.Errorf("-top does not say %q:\n%s", want, top)
		}
	}
	if top := tool("-top", file); !strings.Contains(top, "Type: time") ||
		strings.Contains(top, "not found") || strings.Contains(top, "failed") {
		t.Errorf("-top says\n%s", top)
	}
}
