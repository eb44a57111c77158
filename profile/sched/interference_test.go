// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"slices"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/trace"
)

func TestInterference(t *testing.T) {
	var f Follower
	f.Init()
	f.Watch([]profile.OpThread{{TID: 10}, {TID: 11}})
	sw := func(at int64, cpu uint16, prev int32, state uint32, next int32) {
		names := map[int32]string{10: "llama", 11: "llama", 5: "apt", 6: "sh"}
		f.Add(&trace.Sched{Time: at, CPU: cpu, Kind: trace.SchedSwitch, PrevTID: prev, PrevState: state,
			PrevComm: names[prev], NextTID: next, NextComm: names[next]})
	}
	wake := func(at int64, cpu uint16, by, tid int32) {
		f.Add(&trace.Sched{Time: at, CPU: cpu, Kind: trace.SchedWakeup, PrevTID: by, PrevComm: "llama",
			NextTID: tid})
	}
	sw(100, 0, 0, 0, 10)
	sw(200, 0, 10, 0, 5) // preempted by apt
	sw(260, 0, 5, 0, 6)  // apt: 60
	sw(300, 0, 6, 1, 10) // sh: 40
	sw(400, 0, 10, 1, 0) // sleeps: nobody is in its way
	sw(450, 0, 0, 0, 5)
	wake(460, 0, 11, 10)
	sw(500, 0, 5, 1, 10) // woken at 460, apt: 40
	// Moves to another CPU, where it runs at once; apt ran on the old one meanwhile.
	sw(600, 0, 10, 0, 5)
	sw(650, 1, 0, 0, 10) // apt: 50
	// The team itself.
	sw(700, 1, 10, 0, 11)
	sw(720, 1, 11, 1, 10)
	w := f.Threads[10]
	if w.Preempted != 3 || w.Slept != 1 || w.Runnable != 100+40+50+20 {
		t.Errorf("preempted %d times, slept %d, ready for %d; want 3, 1, 210", w.Preempted, w.Slept,
			w.Runnable)
	}
	want := []Culprit{{Comm: "apt", Dur: 150, Count: 3, CPUs: "0"},
		{Comm: "sh", Dur: 40, Count: 1, CPUs: "0"}, {Comm: "llama", Own: true, Dur: 20, Count: 1, CPUs: "1"}}
	plain := func(all []Culprit) []Culprit {
		for i := range all {
			all[i].on, all[i].From, all[i].To = CpuSet{}, 0, 0
		}
		return all
	}
	if got := plain(TopCulprits(w.Instead, 5)); !slices.Equal(got, want) {
		t.Errorf("in its place ran %+v, want %+v", got, want)
	}
	if got := TopCulprits(w.WokenBy, 5); len(got) != 1 || !got[0].Own || got[0].Count != 1 {
		t.Errorf("it was woken by %+v", got)
	}
	for tid, a := range f.Seats.active {
		if a.State.Runnable() {
			t.Errorf("thread %d still waits", tid)
		}
	}
	if got := plain(f.Since()); !slices.Equal(got, want) || f.Since() != nil {
		t.Errorf("since the last step: %+v", got)
	}
	// Switches that were not seen are nobody's.
	sw(800, 1, 10, 0, 5)
	sw(900, 1, 6, 0, 10)
	if got := f.Since(); len(got) != 1 || got[0].Comm != "(not seen)" || got[0].Dur != 100 {
		t.Errorf("with a hole: %+v", got)
	}
	for i := range int32(2 * maxNames) {
		AddCulprit(w.Instead, &Culprit{Comm: string(rune('a' + i)), Dur: 1, Count: 1})
	}
	if len(w.Instead) > maxNames+1 {
		t.Errorf("%d names are kept", len(w.Instead))
	}
}
