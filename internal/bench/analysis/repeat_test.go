// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/trace"
)

// TestRepeat: three times a recording has three times its steps, all different ones in time, and is as whole.
func TestRepeat(t *testing.T) {
	dir := t.TempDir()
	one, three := filepath.Join(dir, "1.pinf"), filepath.Join(dir, "3.pinf")
	w, err := trace.Create(one)
	if err != nil {
		t.Fatal(err)
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(w.Meta(trace.Meta{Level: trace.LevelStep, Start: 1e9}))
	check(w.Process(trace.Process{PID: 1, Sites: []trace.Site{{Role: trace.RoleStepBegin, Entry: "e"}}}))
	const steps = 100
	for i := range int64(steps) {
		begin := trace.Mark{Time: 1e9 + i*1e7, PID: 1, TID: 1, Kind: trace.MarkStepBegin, NTokens: 1}
		end := begin
		end.Kind, end.Time = trace.MarkStepEnd, begin.Time+9e6
		check(w.Marks([]trace.Mark{begin, end}))
		check(w.Drain(end.Time))
	}
	check(w.Close(trace.End{Time: 3e9}))
	check(repeat(one, three, 3))
	r, err := trace.Open(three)
	check(err)
	defer r.Close()
	var c totals
	h, err := profile.Replay(r, &c)
	check(err)
	if c.steps != 3*steps || len(h.Losses) != 0 || h.Torn != "" || h.End == nil {
		t.Errorf("%d steps, losses %v, torn %q, end %v", c.steps, h.Losses, h.Torn, h.End)
	}
	if d := h.Last - h.First; d < 3*steps*9e6 {
		t.Errorf("it lasts %d ns", d)
	}
}
