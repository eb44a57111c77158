// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/profile/summary"
	"github.com/profinfer/profinfer/trace"
)

var update = flag.Bool("update", false, "write the golden files anew")

// play returns the statistics of made runs.
func play(t *testing.T, opts stat.Options, change func(*profile.Header), level string,
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

var run = profiletest.Run{Model: profiletest.Small, PID: 4242, Ctx: 1, Threads: 2, Prefill: 32, Decode: 64,
	Start: 1_000_000, Preempt: 41, Sched: true, Gap: 300}

func TestStatGolden(t *testing.T) {
	wide := Options{File: "run.pinf", Width: 160, Unicode: true}
	hostile := run
	hostile.Model.Suffix = "\x1b[31m\u202e\xff" + "averyveryverylongnamethatgoesonandon"
	stepOnly := run
	stepOnly.NoOps = true
	partial := run
	partial.Partial, partial.Pos, partial.Prefill = 3, 100, 0
	draft := run
	draft.Ctx, draft.Model.Layers, draft.Model.Base, draft.Prefill = 2, 1, 0x900000, 0
	cases := []struct {
		name  string
		opts  stat.Options
		o     Options
		level string
		edit  func(*profile.Header)
		runs  []profiletest.Run
	}{
		{"weight", stat.Options{Top: 8}, wide, "op", nil, []profiletest.Run{run}},
		{"weight-80", stat.Options{Top: 8}, Options{File: "run.pinf", Width: 80}, "op", nil,
			[]profiletest.Run{run}},
		{"weight-40", stat.Options{Top: 4}, Options{File: "run.pinf", Width: 40}, "op", nil,
			[]profiletest.Run{run}},
		{"color", stat.Options{Top: 3, Phases: []profile.Phase{profile.Decode}},
			Options{File: "run.pinf", Width: 120, Color: true,
				Unicode: true}, "op", nil, []profiletest.Run{run}},
		{"op", stat.Options{By: facts.ByOp, Phases: []profile.Phase{profile.Decode}}, wide, "op", nil,
			[]profiletest.Run{run}},
		{"layer", stat.Options{By: facts.ByLayer}, wide, "op", nil, []profiletest.Run{run}},
		{"block", stat.Options{By: facts.ByBlock}, wide, "op", nil, []profiletest.Run{run}},
		{"thread", stat.Options{By: facts.ByThread}, wide, "op", nil, []profiletest.Run{run}},
		{"step", stat.Options{By: facts.ByStep, Top: 5, Phases: []profile.Phase{profile.Decode}}, wide, "op",
			nil, []profiletest.Run{run}},
		{"hostile", stat.Options{Top: 5, Phases: []profile.Phase{profile.Decode}},
			Options{File: "a\x1b]0;x\x07.pinf", Width: 110, Unicode: true}, "op", func(h *profile.Header) {
				h.Processes[0].Comm = "evil\x1b[2J\r"
				h.Processes[0].Warnings = []string{"a warning\nwith lines"}
			}, []profiletest.Run{hostile}},
		{"level-step", stat.Options{}, wide, "step", nil, []profiletest.Run{stepOnly}},
		{"empty", stat.Options{}, wide, "op", nil, nil},
		{"cut", stat.Options{Top: 3}, wide, "op", func(h *profile.Header) {
			h.End = nil
			h.Torn = "the last block is not whole"
			h.Losses = []trace.Loss{{Start: 1, End: 2_000_001, Why: "lost", What: "hits", Events: 12345},
				{Start: 5, End: 9, Why: "throttled", What: "hits"}}
		}, []profiletest.Run{partial}},
		{"two-models", stat.Options{Top: 3, Phases: []profile.Phase{profile.Decode}}, wide, "op", nil,
			[]profiletest.Run{run, draft}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var b bytes.Buffer
			if err := Stat(&b, play(t, c.opts, c.edit, c.level, c.runs...), c.o.full()); err != nil {
				t.Fatal(err)
			}
			golden(t, "stat-"+c.name+".txt", b.Bytes())
			checkPrintable(t, b.String(), c.o)
		})
	}
}

// full are the options of --full.
func (o Options) full() Options {
	o.Full = true
	return o
}

// golden compares with a file of testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (go test -update writes it anew):\n%s", path, got)
	}
}

// checkPrintable asserts that nothing can steer the terminal, and that no line is too wide.
func checkPrintable(t *testing.T, s string, o Options) {
	t.Helper()
	line := 0
	esc := false
	for _, r := range s {
		switch {
		case r == '\n':
			if o.Width > 0 && line > o.Width {
				t.Errorf("a line is %d columns wide, the terminal %d", line, o.Width)
			}
			line = 0
		case r == 0x1b && o.Color:
			esc = true
		case esc:
			if r == 'm' {
				esc = false
			}
		case r < 0x20 || r >= 0x7f && r < 0xa0 || r == 0x202e || r == 0xfffd:
			t.Errorf("character %U is printed", r)
		case !o.Unicode && r > 0x7f:
			t.Errorf("character %U is printed in ASCII mode", r)
		default:
			line += runeWidth(r)
		}
	}
}
