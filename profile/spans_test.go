// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/profile/summary"
	"github.com/profinfer/profinfer/trace"
)

// Figures of operators are of the steps that have them; steps and their speed are of all.
func TestStatOfSpans(t *testing.T) {
	b := stat.New(stat.Options{By: facts.ByOp})
	s := profile.NewScene(t)
	s.Into(b)
	profile.OpLevel(s)
	s.Extra("budget", "0.005")
	s.Learned()
	s.Watch(900, trace.WatchOff, "budget")
	s.Decode(1000)
	s.B.Hits = nil
	s.Watch(1400, trace.WatchArrivals, "following")
	s.Arrivals(1500)
	s.Watch(2150, trace.WatchOff, "budget")
	s.Arrivals(2000)
	st := b.Finish(s.Done())
	if len(st.Phases) != 1 {
		t.Fatalf("%d phases", len(st.Phases))
	}
	f := &st.Phases[0]
	if f.Steps != 3 || f.Traced != 1 || f.TracedDur != 310 || f.Dur != 930 || st.Run.Budget != "0.005" {
		t.Errorf("%d steps of %d ns, %d of %d ns with operators", f.Steps, f.Dur, f.Traced, f.TracedDur)
	}
	for _, r := range f.Rows {
		if r.CallsPerStep != 1 || r.DurPerStep != float64(r.Dur) || *r.Share != float64(r.Dur)/310 {
			t.Errorf("row %+v", r)
		}
	}
	if len(st.Lost.Untraced) != 1 ||
		st.Lost.Untraced[0] != (summary.UntracedSteps{Why: "throttled", Steps: 2}) {
		t.Errorf("untraced %+v", st.Lost.Untraced)
	}
}
