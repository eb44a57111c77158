// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"bytes"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/profile/summary"
	"github.com/profinfer/profinfer/trace"
)

// trialStats returns the statistics of every made-up recording that is not only large.
func trialStats(t *testing.T) map[string]*summary.Stat {
	t.Helper()
	out := map[string]*summary.Stat{}
	for _, trial := range profiletest.Trials() {
		if trial.Large {
			continue
		}
		var file bytes.Buffer
		if err := trial.Write(&file); err != nil {
			t.Fatal(err)
		}
		r, err := trace.NewReader(bytes.NewReader(file.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		b := stat.New(stat.Options{By: facts.ByWeight})
		h, err := profile.Replay(r, b)
		if err != nil {
			t.Fatal(err)
		}
		out[trial.Name] = b.Finish(h)
	}
	return out
}

// However much a recording holds, its screen is one, and ends with what to do next.
func TestScreenIsOne(t *testing.T) {
	most := 0
	for name, s := range trialStats(t) {
		for _, width := range []int{80, 100, 120, 160, 200} {
			for _, unicode := range []bool{false, true} {
				o := Options{File: "a/recording/" + name + ".pinf", Width: width, Unicode: unicode}
				var b bytes.Buffer
				if err := Stat(&b, s, o); err != nil {
					t.Fatal(err)
				}
				text := b.String()
				n := strings.Count(text, "\n")
				most = max(most, n)
				if n > screenLines {
					t.Errorf("%s at %d columns has %d lines:\n%s", name, width, n, text)
				}
				for l := range strings.Lines(text) {
					if w := textWidth(strings.TrimSuffix(l, "\n")); w > width {
						t.Errorf("%s at %d columns has a line of %d: %s", name, width, w, l)
					}
				}
				lines := strings.Split(strings.TrimSpace(text), "\n")
				if last := lines[len(lines)-1]; !strings.HasPrefix(last, "profinfer ") {
					t.Errorf("%s at %d columns does not end with a command: %s", name, width, last)
				}
				if strings.Contains(text, "\n\n\n") {
					t.Errorf("%s at %d columns has two blank lines:\n%s", name, width, text)
				}
				checkPrintable(t, text, o)
			}
		}
	}
	if most < screenLines-2 {
		t.Errorf("no trial fills a screen: the longest has %d lines", most)
	}
}

func TestScreenGolden(t *testing.T) {
	over := run
	over.Threads, over.Preempt = 4, 0
	stepOnly, blind := run, run
	stepOnly.NoOps = true
	blind.Sched = false
	wide := Options{File: "run.pinf", Width: 100, Unicode: true}
	for _, c := range []struct {
		name  string
		o     Options
		level string
		edit  func(*profile.Header)
		run   profiletest.Run
	}{
		{"usual", wide, "op", nil, run},
		{"80", Options{File: "it's mine.pinf", Width: 80}, "op", nil, run},
		{"200", Options{File: "run.pinf", Width: 200, Unicode: true, Color: true}, "op", nil, run},
		{"oversubscribed", wide, "op", nil, over},
		{"level-step", wide, "step", nil, stepOnly},
		{"no-sched", wide, "op", nil, blind},
		{"truncated", wide, "op", func(h *profile.Header) {
			h.End, h.Torn = nil, "the last block is not whole"
			h.Losses = []trace.Loss{{Start: 1, End: 2_000_001, Why: "lost", What: "hits", Events: 12345}}
			h.Processes[0].Warnings = []string{"one", "two"}
		}, run},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b bytes.Buffer
			if err := Stat(&b, play(t, stat.Options{}, c.edit, c.level, c.run), c.o); err != nil {
				t.Fatal(err)
			}
			golden(t, "screen-"+c.name+".txt", b.Bytes())
			checkPrintable(t, b.String(), c.o)
		})
	}
}

// Thousands of processes are counted, not listed.
func TestManyProcesses(t *testing.T) {
	s := play(t, stat.Options{}, nil, "op", run)
	one := s.Run.Processes[0]
	for i := range 5000 {
		q := one
		q.PID += int32(i) + 1
		s.Run.Processes = append(s.Run.Processes, q)
		m := s.Models[0]
		s.Models = append(s.Models, m)
		s.Threads = append(s.Threads, s.Threads[0])
		for k := range 2 {
			f, v := s.Phases[k], s.Verdicts[k]
			n := len(s.Models) - 1
			f.Model, v.Model = &n, &n
			s.Phases, s.Verdicts = append(s.Phases, f), append(s.Verdicts, v)
		}
	}
	for _, full := range []bool{false, true} {
		var b bytes.Buffer
		if err := Stat(&b, s, Options{File: "run.pinf", Width: 100, Full: full}); err != nil {
			t.Fatal(err)
		}
		limit := screenLines
		if full {
			limit = 400
		}
		text := b.String()
		if n := strings.Count(text, "\n"); n > limit {
			t.Errorf("full %v: %d lines", full, n)
		}
		for _, want := range []string{"more processes", "more models", "more phases"} {
			if !strings.Contains(text, want) {
				t.Errorf("full %v: it does not say %q:\n%s", full, want, text)
			}
		}
	}
}
