// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"path/filepath"
	"testing"

	"github.com/profinfer/profinfer/trace"
)

type countSink struct {
	BaseSink
	steps, whole, ops int
	starts            []int64
}

func (c *countSink) Step(s *Step) error {
	c.steps++
	if s.Incomplete == "" {
		c.whole++
	}
	c.starts = append(c.starts, s.Start)
	return nil
}
func (c *countSink) Op(*Op) error { c.ops++; return nil }

// Each file of a recording that was cut into several replays by itself: what was under way
// at a cut is counted as cut, all else is whole and in one file only.
func TestReplayParts(t *testing.T) {
	const (
		pid, perPart, parts = 7, 20, 6
		ms                  = int64(1e6)
	)
	path := filepath.Join(t.TempDir(), "run.pinf")
	w, err := trace.CreateParts(path)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(err)
	check(w.Meta(trace.Meta{Start: 1, BootID: "b", Level: "op"}))
	check(w.Process(trace.Process{PID: pid, Attached: 2, Sites: []trace.Site{
		{Role: trace.RoleStepBegin, Entry: "llama_decode"}, {Role: trace.RoleStepEnd, Entry: "llama_decode",
			Return: true},
		{Role: trace.RoleGraphBegin, Backend: "CPU"}, {Role: trace.RoleGraphEnd,
			Backend: "CPU"}, {Role: trace.RoleOpBegin}, {Role: trace.RoleOpEnd}}}))
	check(w.Shape(&trace.Shape{PID: pid, ID: 9, NNodes: 2, Nodes: []trace.Node{
		{Op: "MUL_MAT", Type: "f32", Addr: 0x100, ViewSrc: -1, Executes: true}, {Op: "ADD", Type: "f32",
			Addr: 0x200, ViewSrc: -1, Executes: true}}}))
	at := 1000 * ms
	step := func(cut bool) {
		b := at
		hit := func(k trace.HitKind, d int64, arg uint64) trace.Hit {
			return trace.Hit{Time: b + d, PID: pid, TID: 1, Nth: 1, Kind: k, Arg: arg}
		}
		check(w.Marks([]trace.Mark{{Time: b, PID: pid, TID: 1, Kind: trace.MarkStepBegin, Site: 0, NTokens: 1,
			Type: -1},
			{Time: b + 1, PID: pid, TID: 1, Kind: trace.MarkGraphBegin, Site: 2, Shape: 9, NNodes: 2,
				Threads: 1}}))
		check(w.Hits([]trace.Hit{hit(trace.HitOpBegin, 10, 0x100), hit(trace.HitOpEnd, 20, 0)}))
		if cut {
			check(w.Drain(b + 25))
			check(w.Rotate(0))
		}
		check(w.Hits([]trace.Hit{hit(trace.HitOpBegin, 30, 0x200), hit(trace.HitOpEnd, 40, 0)}))
		check(w.Marks([]trace.Mark{{Time: b + 50, PID: pid, TID: 1, Kind: trace.MarkGraphEnd, Site: 3},
			{Time: b + 60, PID: pid, TID: 1, Kind: trace.MarkStepEnd, Site: 1}}))
		at += 100 * ms
		check(w.Drain(at))
	}
	for p := range parts {
		for range perPart {
			step(false)
		}
		if p < parts-1 {
			step(true)
		}
	}
	check(w.Close(trace.End{Time: at, Reason: "interrupted"}))
	ps, err := trace.Parts(path)
	check(err)
	if len(ps) != parts {
		t.Fatalf("%v", ps)
	}
	seen := map[int64]bool{}
	for i, p := range ps {
		r, err := trace.Open(p)
		check(err)
		var c countSink
		h, err := Replay(r, &c)
		check(err)
		check(r.Close())
		if c.steps != perPart || c.whole != perPart || h.End == nil || h.Torn != "" || len(h.Problems) > 0 {
			t.Errorf("part %d: %d steps, %d whole, end %v, %v", i+1, c.steps, c.whole, h.End, h.Problems)
		}
		for _, s := range c.starts {
			if seen[s] {
				t.Errorf("part %d: the step at %d was in another part", i+1, s)
			}
			seen[s] = true
		}
		cut := map[string]uint64{}
		for _, l := range h.Losses {
			if l.Why != "cut" {
				t.Errorf("part %d: %+v", i+1, l)
			}
			cut[l.What] += l.Events
		}
		// The step's begin at the end; the graph's and the step's end, at the start; and an operator each.
		var marks, hits uint64
		if i > 0 {
			marks, hits = marks+2, hits+1
		}
		if i < parts-1 {
			marks, hits = marks+1, hits+1
		}
		if cut["marks"] != marks || cut["hits"] != hits {
			t.Errorf("part %d: cut %v, want %d marks, %d hits", i+1, cut, marks, hits)
		}
	}
}
