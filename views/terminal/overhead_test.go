// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"bytes"
	"testing"

	"github.com/profinfer/profinfer/overhead"
	"github.com/profinfer/profinfer/profile"
)

//go:fix inline
func f(v float64) *float64 { return new(v) }

// measured is a report with a state of each verdict.
func measured() *overhead.Report {
	return &overhead.Report{SchemaVersion: 1, Tool: "0.1.0", PID: 1234, Command: "llama-bench",
		CPU: "Some CPU", Cores: 2, Kernel: "6.18",
		Rounds: 10, SpanNS: 3e9, Basis: overhead.Elapsed, GapShare: new(0.004), Phase: profile.Decode,
		Steps: 2812, StepNS: new(49.7e6), Noise: new(0.006),
		States: []overhead.State{
			{Name: "graph", Verdict: overhead.Zero, Cost: new(0.0004), Low: new(-0.0021), High: new(0.0032),
				AddedNS: new(20e3), Spans: 10, Tried: 10, Steps: 601, Traced: f(1), ReaderCPU: new(0.003)},
			{Name: "op", Verdict: overhead.Told, Cost: new(0.0131), Low: new(0.0072), High: new(0.0188),
				AddedNS: new(651e3), Spans: 9, Tried: 10, Steps: 540,
				Traced: new(0.998), Ops: 175500, OpsStep: f(325), ReaderCPU: new(0.012), Failures: 1,
				Problem: "its recording was cut\nand more"},
		}}
}

func TestOverheadGolden(t *testing.T) {
	wide := Options{Width: 160, Unicode: true}
	all := measured()
	all.States = append(all.States,
		overhead.State{Name: "op \x1b[31m\u202e", Verdict: overhead.Noisy, Cost: new(-0.02), Low: new(-0.08),
			High: new(0.031), AddedNS: new(-1.1e6), Spans: 10, Tried: 10, Steps: 610, Traced: new(0.61),
			Ops: 99, OpsStep: new(0.2), Lost: 1234567, ReaderCPU: new(0.4)},
		overhead.State{Name: "bpftrace", Verdict: overhead.Failed, Tried: 2, Failures: 2,
			Problem: "bpftrace is not installed"},
		overhead.State{Name: "step", Verdict: overhead.Short, Spans: 3, Tried: 10, Steps: 40, ShortSteps: 8})
	all.Command = "evil\x1b[2J\r"
	all.Ended = "the command ended"
	server := measured()
	server.Basis, server.GapShare = overhead.Durations, new(0.31)
	server.States = server.States[:1]
	nothing := &overhead.Report{SchemaVersion: 1, PID: 7, Rounds: 1, SpanNS: 3e9, Basis: overhead.Elapsed,
		Ended:  "interrupted",
		States: []overhead.State{{Name: "op", Verdict: overhead.Short}}}
	for _, c := range []struct {
		name string
		r    *overhead.Report
		o    Options
	}{
		{"usual", measured(), wide},
		{"80", measured(), Options{Width: 80}},
		{"40", measured(), Options{Width: 40}},
		{"color", measured(), Options{Width: 120, Color: true, Unicode: true}},
		{"verdicts", all, wide},
		{"server", server, wide},
		{"nothing", nothing, wide},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b bytes.Buffer
			if err := Overhead(&b, c.r, c.o); err != nil {
				t.Fatal(err)
			}
			golden(t, "overhead-"+c.name+".txt", b.Bytes())
			checkPrintable(t, b.String(), c.o)
		})
	}
	var b bytes.Buffer
	if err := JSON(&b, measured()); err != nil {
		t.Fatal(err)
	}
	golden(t, "overhead.json", b.Bytes())
}

func TestDifference(t *testing.T) {
	for _, c := range []struct {
		v     float64
		small bool
		want  string
	}{{0.04, false, "0.0"}, {-0.04, false, "0.0"}, {0.06, false, "+0.1"}, {-1.34, false, "-1.3"}, {-0.004,
		true, "0.00"}, {0.005001, true, "+0.01"}} {
		if s := difference(c.v, c.small); s != c.want {
			t.Errorf("%v: %s, not %s", c.v, s, c.want)
		}
	}
}
