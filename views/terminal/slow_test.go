// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/profile/slow"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/trace"
)

func TestSlowGolden(t *testing.T) {
	wide := Options{File: "run.pinf", Width: 180, Unicode: true}
	even, hostile, stepOnly, alone := run, run, run, run
	even.Preempt = 0
	hostile.Model.Suffix = "\x1b[31m\u202e\xff" + "averyveryverylongnamethatgoesonandon"
	stepOnly.NoOps, stepOnly.Sched = true, false
	alone.Prefill, alone.Decode, alone.Preempt = 0, 3, 0
	unseen := run
	unseen.Sched = false
	cases := []struct {
		name  string
		o     Options
		level string
		run   profiletest.Run
		edit  func(*profile.Header)
	}{
		{"slow", wide, "op", run, nil},
		{"slow-80", Options{File: "run.pinf", Width: 80}, "op", run, nil},
		{"slow-40", Options{File: "run.pinf", Width: 40}, "op", run, nil},
		{"slow-color", Options{File: "run.pinf", Width: 120, Color: true, Unicode: true}, "op", run, nil},
		{"slow-none", wide, "op", even, nil},
		{"slow-hostile", wide, "op", hostile, nil},
		{"slow-step", wide, "step", stepOnly, nil},
		{"slow-alone", wide, "op", alone, nil},
		{"slow-unseen", Options{File: "run.pinf", Width: 180, Verbose: true}, "op", unseen, nil},
		{"slow-lost", Options{File: "run.pinf", Width: 180, Verbose: true}, "op", run,
			func(h *profile.Header) {
				h.Losses = []trace.Loss{{Start: 1, End: h.Last, Why: "lost", What: "sched", Events: 12}}
			}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			stat, slow := stat.New(stat.Options{}), slow.New(slow.Options{})
			p := &profiletest.Player{Sink: profile.Tee(stat, slow)}
			if err := p.Play(c.run); err != nil {
				t.Fatal(err)
			}
			h := p.Header(c.level)
			if c.edit != nil {
				c.edit(h)
			}
			var b bytes.Buffer
			s := slow.Finish(h)
			if err := Slow(&b, stat.Finish(h), s, c.o); err != nil {
				t.Fatal(err)
			}
			golden(t, c.name+".txt", b.Bytes())
			checkPrintable(t, b.String(), c.o)
			b.Reset()
			if err := JSON(&b, s); err != nil || !json.Valid(b.Bytes()) {
				t.Errorf("its JSON: %v", err)
			}
		})
	}
}
