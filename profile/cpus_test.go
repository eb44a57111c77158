// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"math"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/profile/stat"
)

// TestCPUUse has a team on CPUs alone, beside another process, and more threads than CPUs.
func TestCPUUse(t *testing.T) {
	sh := other(77, "sh")
	for _, c := range []struct {
		what    string
		threads int
		seats   func(tick int) []profiletest.Seat
		busy    float64 // CPUs used
		others  float64 // share of CPU 1
		run     string  // of the run's verdict
		first   string  // of the first finding
	}{
		{"alone", 2, func(int) []profiletest.Seat { return apart(2) }, 2, 0,
			"Nothing disturbed this run: no CPU contention, no disk wait.", ""},
		{"one thread", 1, func(int) []profiletest.Seat { return append(apart(1), profiletest.Seat{}) }, 1, 0,
			"1 of 2 CPUs used: try -t 2.", ""},
		{"another has one in every second step", 2, func(tick int) []profiletest.Seat {
			s := apart(2)
			if tick%100 >= 50 {
				s[1] = profiletest.Seat{Other: sh}
				sharing(s, tick, 2, 0)
			}
			return s
		}, 1.5, 0.5, "CPU contention", "sh (77) held CPU 1 for "},
		{"four threads", 4, func(tick int) []profiletest.Seat {
			s := make([]profiletest.Seat, 2)
			sharing(s, tick, 4, 0, 1)
			return s
		}, 2, 0, "", "More threads than CPUs: 4 threads on 2 CPUs. Use -t 2"},
	} {
		t.Run(c.what, func(t *testing.T) {
			x := profiletest.Crowd{PID: crowdPID, Steps: 60, Work: 10, CPUs: 2, Threads: c.threads,
				Seats: c.seats}
			s, _ := crowdOf(t, &x, "0-1")
			u := s.CPUUse
			if u == nil || u.Threads != c.threads || u.CPUs != 2 || math.Abs(u.Busy-c.busy) > 0.1*c.busy ||
				math.Abs(*u.Utilisation-u.Busy/2) > 1e-9 {
				t.Fatalf("%+v, want %g CPUs", u, c.busy)
			}
			for _, e := range u.Each {
				if e.CPU == 1 && math.Abs(*e.Others-c.others) > 0.1 || e.Engine+*e.Others > 1+1e-9 {
					t.Errorf("%+v, want %g of others", e, c.others)
				}
			}
			if !strings.Contains(s.RunVerdict.Text, c.run) ||
				c.busy < 2 && c.others > 0 && strings.Contains(s.RunVerdict.Text, "Nothing") {
				t.Errorf("%q is not in %q", c.run, s.RunVerdict.Text)
			}
			if c.first != "" && !strings.Contains(s.Findings[0].Text, c.first) {
				t.Errorf("%q is not in the first of %+v", c.first, s.Findings)
			}
			for i := range s.Phases {
				if d := s.Phases[i].Disturbed; d != nil && d.LeftOut {
					t.Errorf("what half of the steps or all of them lose is no disturbance: %+v", d)
				}
			}
		})
	}
}

// TestBatches sums up steps of growing batches, of a run that is longer than its first spans.
func TestBatches(t *testing.T) {
	b := stat.New(stat.Options{})
	const n = 3000
	for i := range int64(n) {
		tokens := int32(1 + i%3)
		if i%100 == 99 {
			tokens = 40
		}
		phase := profile.Decode
		if tokens == 40 {
			phase = profile.Prefill
		}
		if err := b.Step(&profile.Step{ID: i + 1, PID: 1, Phase: phase, Start: 1e12 + i*10_000_000,
			Dur: int64(tokens) * 1_000_000, NTokens: tokens, NSeqs: min(tokens, 3)}); err != nil {
			t.Fatal(err)
		}
	}
	x := b.Finish(&profile.Header{}).Batches
	if x == nil || len(x.OverTime) > 240 || len(x.OverTime) < 100 || len(x.BySize) != 4 {
		t.Fatalf("%+v", x)
	}
	var steps, dur int64
	last := int64(0)
	for _, s := range x.OverTime {
		steps += s.Steps
		dur += s.Dur
		if s.Start%x.Width != 0 || s.Start <= last || s.Tokens <= 0 || s.MaxTokens > 40 || s.MaxSeqs > 3 {
			t.Errorf("%+v after %d", s, last)
		}
		last = s.Start
	}
	want := int64(0)
	for _, s := range x.BySize {
		want += int64(*s.StepTime.Mean*float64(s.StepTime.N) + 0.5)
		if !near(s.TokensPerS, 1000) || s.StepTime.Max != float64(s.To)*1e6 {
			t.Errorf("%+v", s)
		}
	}
	if steps != n || dur != want {
		t.Errorf("%d steps of %d ns, want %d of %d", steps, dur, n, want)
	}
	if s := x.BySize[3]; s.Phase != "prefill" || s.From != 32 || s.To != 40 || s.StepTime.N != n/100 ||
		s.Sequences != 3 || s.StepTime.P95 == nil || s.StepTime.P99 != nil {
		t.Errorf("%+v", s)
	}
}
