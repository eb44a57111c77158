// SPDX-License-Identifier: Apache-2.0

package drive

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/trace"
)

// written makes a recording of steps that begin every 50 ms from 1 s on.
func written(t *testing.T, n int, change func(end *trace.End, p *trace.Process)) string {
	t.Helper()
	return writtenAs(t, n, nil, nil, change)
}

// writtenWith is written with facts of the recording, and with what a process said of its memory.
func writtenWith(t *testing.T, n int, extra map[string]string, memory *trace.Memory) string {
	t.Helper()
	return writtenAs(t, n, extra, memory, nil)
}

func writtenAs(t *testing.T, n int, extra map[string]string, memory *trace.Memory,
	change func(end *trace.End, p *trace.Process)) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state.pinf")
	w, err := trace.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	p := trace.Process{PID: 7, StartTime: 1, Comm: "engine", Attached: 900e6,
		Sites: []trace.Site{{Role: trace.RoleStepBegin, Entry: "llama_decode"},
			{Role: trace.RoleStepEnd, Entry: "llama_decode"}}}
	end := trace.End{Time: int64(1e9) + int64(n)*50e6, Reason: timeOver}
	if change != nil {
		change(&end, &p)
	}
	if err := w.Meta(trace.Meta{SchemaVersion: 1, Level: "step", Start: 800e6, Extra: extra}); err != nil {
		t.Fatal(err)
	}
	if err := w.Process(p); err != nil {
		t.Fatal(err)
	}
	if memory != nil {
		if err := w.Memory(*memory); err != nil {
			t.Fatal(err)
		}
	}
	var marks []trace.Mark
	for i := range int64(n) {
		at := int64(1e9) + i*50e6
		marks = append(marks, trace.Mark{Time: at, PID: 7, TID: 7, Kind: trace.MarkStepBegin, NTokens: 1,
			Type: -1},
			trace.Mark{Time: at + 49e6, PID: 7, TID: 7, Kind: trace.MarkStepEnd, Site: 1, NTokens: 1,
				Type: -1})
	}
	if err := w.Marks(marks); err != nil {
		t.Fatal(err)
	}
	if err := w.Loss(trace.Loss{Start: 1.5e9, End: 1.6e9, Why: "lost", What: "sched",
		Events: 5}); err != nil {
		t.Fatal(err)
	}
	if err := w.Drain(end.Time); err != nil {
		t.Fatal(err)
	}
	if end.Reason == "cut" {
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if err := w.Close(end); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestExamine(t *testing.T) {
	path := written(t, 60, nil)
	s, err := examine(path, &State{Level: engine.LevelStep}, 200e6, 2e9)
	if err != nil || s.From != 1.1e9 || s.To != 3.1e9 || s.Traced != 40 || s.Lost != 5 || s.CPU != -1 {
		t.Errorf("%+v %v", s, err)
	}
	// at a level of operators none of these steps holds what it should
	if s, err := examine(path, &State{Level: engine.LevelOp}, 200e6, 2e9); err != nil || s.Traced != 0 {
		t.Errorf("%+v %v", s, err)
	}
	if steps, h, err := readClock(path); err != nil || len(steps) != 60 || h.End == nil ||
		steps[3].Dur != 49e6 || steps[3].NTokens != 1 {
		t.Errorf("%d steps, %v", len(steps), err)
	}
}

// A recorder that died, or ended before it should, has no span.
func TestExamineRefuses(t *testing.T) {
	for want, path := range map[string]string{
		"early":     written(t, 30, nil),
		"truncated": written(t, 60, func(e *trace.End, _ *trace.Process) { e.Reason = "cut" }),
		"otherwise": written(t, 60, func(e *trace.End, _ *trace.Process) { e.Reason = "interrupted" }),
		"no probes": written(t, 60, func(_ *trace.End, p *trace.Process) { p.Attached = 0 }),
		"no trace":  filepath.Join(t.TempDir(), "none"),
	} {
		if s, err := examine(path, &State{Level: engine.LevelStep}, 200e6, 2e9); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v %v", want, s, err)
		}
	}
}

// A recording whose operators lack the counter that was asked for has no span.
func TestExamineCounters(t *testing.T) {
	path := written(t, 60, nil)
	if s, err := examine(path, &State{Level: engine.LevelStep, Counts: "cycles"}, 200e6, 2e9); err == nil ||
		!strings.Contains(err.Error(), "cycles is known of 0 operators") {
		t.Errorf("%+v %v", s, err)
	}
	for _, c := range []struct {
		counters []trace.Counter
		counts   []int64
		want     int
	}{
		{nil, nil, 0},
		{[]trace.Counter{{Role: "instructions"}, {Role: "cycles"}}, []int64{1, 5}, 1},
		{[]trace.Counter{{Role: "cycles"}}, []int64{profile.UnknownCount}, 0},
		{[]trace.Counter{{Role: "cycles"}}, nil, 0},
		{[]trace.Counter{{Role: "cycles", Void: "it reads 0"}}, []int64{5}, 0},
	} {
		s := &stateSink{counts: "cycles", at: -1}
		s.Meta(&trace.Meta{Counters: c.counters})
		if s.Op(&profile.Op{Counts: c.counts}); s.counted != c.want || s.ops != 1 {
			t.Errorf("%+v %v: %d counted", c.counters, c.counts, s.counted)
		}
	}
}

// A recording that lacks the page faults or the experts that were asked for has no span.
func TestExamineHolds(t *testing.T) {
	path := written(t, 60, nil)
	if s, err := examine(path, &State{Level: engine.LevelStep, Faults: true}, 200e6, 2e9); err == nil ||
		!strings.Contains(err.Error(), "no page faults") {
		t.Errorf("%+v %v", s, err)
	}
	if s, err := examine(path, &State{Level: engine.LevelStep, Experts: true}, 200e6, 2e9); err == nil ||
		!strings.Contains(err.Error(), "of 0 operators of 0") {
		t.Errorf("%+v %v", s, err)
	}
	path = writtenWith(t, 60, map[string]string{"faults": "major"}, nil)
	if s, err := examine(path, &State{Level: engine.LevelStep, Faults: true}, 200e6, 2e9); err == nil {
		t.Errorf("a recording that only says it recorded faults: %+v", s)
	}
	path = writtenWith(t, 60, map[string]string{"faults": "major"},
		&trace.Memory{PID: 7, Time: 1e9, When: "start"})
	if s, err := examine(path, &State{Level: engine.LevelStep, Faults: true}, 200e6, 2e9); err != nil {
		t.Errorf("%+v %v", s, err)
	}

	shape := &profile.Shape{Shape: &trace.Shape{Nodes: []trace.Node{{Op: "MUL_MAT_ID", Src: []int32{1, 1, 1}},
		{Op: "MUL_MAT"}}}}
	s := &stateSink{at: -1}
	for _, o := range []*profile.Op{
		{Shape: shape, Choice: &profile.Choice{Tokens: 2, Seen: 2}},
		{Shape: shape, Choice: &profile.Choice{Tokens: 2, Seen: 1}}, // a part of it was lost
		{Shape: shape},
		{Shape: shape, Node: 1},
		{Shape: shape, Node: 2}, // none of its nodes
		{},
	} {
		if err := s.Op(o); err != nil {
			t.Fatal(err)
		}
	}
	if s.choose != 3 || s.chosen != 1 || s.ops != 6 {
		t.Errorf("%+v", s)
	}
}
