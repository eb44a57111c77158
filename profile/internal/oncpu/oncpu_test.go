// SPDX-License-Identifier: Apache-2.0

package oncpu

import (
	"slices"
	"testing"
)

// A thread's states follow its switches and wake-ups; what is missing between them is not made up.
func TestThread(t *testing.T) {
	var x Thread
	leave := func(at int64, state uint32, seemed State, want State) {
		t.Helper()
		if was := x.Leave(at, 3, state); was.State != seemed || x != (Thread{want, at, 3, at}) {
			t.Errorf("left at %d: was %+v, is %+v, want %d and %d", at, was, x, seemed, want)
		}
	}
	wake := func(at int64, changes bool) {
		t.Helper()
		before := x
		was, ok := x.Wake(at, 1)
		if ok != changes || was != before || ok && x != (Thread{Woken, at, 1, before.Left}) ||
			!ok && x != before {
			t.Errorf("woken at %d: %v, was %+v, is %+v", at, ok, was, x)
		}
	}
	enter := func(at int64, from State) {
		t.Helper()
		if was := x.Enter(at, 2); was.State != from || x != (Thread{Runs, at, 2, 0}) {
			t.Errorf("entered at %d: was %+v, is %+v, want %d", at, was, x, from)
		}
	}
	wake(10, true) // before anything else was seen of it
	wake(11, false)
	enter(12, Woken)
	wake(13, false) // it runs
	leave(20, 0, Runs, Preempted)
	wake(21, false)
	enter(30, Preempted)
	leave(40, 1, Runs, Sleeps)
	wake(41, true)
	enter(42, Woken)
	leave(50, uninterruptible|0x400, Runs, Blocked)
	enter(60, Blocked) // the wake-up was not seen
	leave(70, 1, Runs, Sleeps)
	leave(80, 0, Sleeps, Preempted) // the switch to it was not seen
	for _, s := range []State{Unknown, Preempted, Woken, Sleeps, Blocked, Runs} {
		if s.Runnable() != (s == Preempted || s == Woken) || s.Off() != (s.Runnable() || s == Sleeps ||
			s == Blocked) {
			t.Errorf("state %d: runnable %v, off %v", s, s.Runnable(), s.Off())
		}
	}
	for _, c := range []struct {
		cpu  uint16
		last int64
		want int64
	}{{3, 100, 100}, {3, 70, 80}, {2, 100, 80}} {
		if got := x.KnownUntil(c.cpu, c.last); got != c.want {
			t.Errorf("seen on CPU %d again, whose last switch was at %d: known until %d, want %d", c.cpu, c.last,
				got, c.want)
		}
	}
}

type tid int32

func (t tid) ThreadID() int32 { return int32(t) }

// Who has a CPU is known between two switches that agree.
func TestCPU(t *testing.T) {
	type event struct {
		look           bool
		at, held       int64
		prev, next     tid
		missed, unseen bool // what Missed says before, and Lose after it
		want           []Run[tid]
	}
	seen := func(who tid, from, to int64) Run[tid] { return Run[tid]{Holder: who, From: from, To: to} }
	lost := func(who tid, from, to int64) Run[tid] { return Run[tid]{who, true, from, to} }
	for name, events := range map[string][]event{
		"switches":   {{at: 10, prev: 0, next: 5}, {at: 20, prev: 5, next: 6, want: []Run[tid]{seen(5, 10, 20)}}},
		"first held": {{at: 10, held: 4, prev: 7, next: 5, want: []Run[tid]{seen(7, 6, 10)}}},
		"a switch is missing": {{at: 10, prev: 0, next: 5},
			{at: 20, prev: 6, next: 0, missed: true, want: []Run[tid]{lost(5, 10, 20)}},
			{at: 30, prev: 0, next: 5, want: []Run[tid]{seen(0, 20, 30)}}},
		"a switch is missing, but for how long": {{at: 10, prev: 0, next: 5},
			{at: 20, held: 3, prev: 6, missed: true, want: []Run[tid]{lost(5, 10, 17), seen(6, 17, 20)}}},
		"held for longer than since the last switch": {{at: 10, prev: 0, next: 5},
			{at: 20, held: 30, prev: 6, missed: true, want: []Run[tid]{seen(6, 10, 20)}}},
		"known before": {{at: 10, prev: 0, next: 5, unseen: true},
			{at: 20, prev: 5, next: 0, missed: true, want: []Run[tid]{lost(5, 10, 20)}}},
		"a look": {{at: 10, prev: 0, next: 5},
			{look: true, at: 20, held: 15, next: 9}, // older than the switch
			{look: true, at: 30, held: 5, next: 9, want: []Run[tid]{lost(5, 10, 25)}},
			{at: 40, prev: 9, next: 0, want: []Run[tid]{seen(9, 25, 40)}}},
		"first a look": {{look: true, at: 30, held: 5, next: 9},
			{at: 40, prev: 9, next: 0, want: []Run[tid]{seen(9, 25, 40)}}},
	} {
		var c CPU[tid]
		for _, e := range events {
			var got []Run[tid]
			if e.look {
				got = c.Look(e.at, e.held, e.next)
			} else {
				if c.Missed(e.prev) != e.missed {
					t.Errorf("%s: at %d, missed: %v", name, e.at, !e.missed)
				}
				got = c.Switch(e.at, e.held, e.prev, e.next)
			}
			if !slices.Equal(got, e.want) {
				t.Errorf("%s: at %d: %+v, want %+v", name, e.at, got, e.want)
			}
			if e.unseen {
				c.Lose()
			}
		}
	}
}
