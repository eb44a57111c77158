// SPDX-License-Identifier: Apache-2.0

package record

import (
	"context"
	"errors"
	"os/exec"
	"testing"
	"time"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/probe"
	"github.com/profinfer/profinfer/target"
	"github.com/profinfer/profinfer/target/watch"
)

// slow is an engine of which one process takes long to examine.
type slow struct {
	hanging
	pid  int
	runs map[int]int
}

func (s slow) Plan(pid int, _ []target.Mapping) (*engine.Plan, error) {
	if pid == s.pid {
		<-s.let
	}
	s.runs[pid]++
	return nil, errors.New("no engine")
}

func sleeper(t *testing.T) int {
	c := exec.Command("sleep", "60")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	return c.Process.Pid
}

// While one process is examined, its thread is held, and no other process waits for it.
func TestHoldsApart(t *testing.T) {
	first, second := sleeper(t), sleeper(t)
	e := slow{hanging{make(chan bool)}, first, map[int]int{}}
	r := &recorder{engine: e, ctx: context.Background(), later: make(chan func() error),
		closed: make(chan struct{}), schedules: newScheduling(), session: &probe.Session{},
		procs: map[int]*process{}, dirty: map[int]bool{}, left: map[string]bool{}, looked: map[int]Looked{}}
	defer close(r.closed)
	happens := func(kind watch.EventKind, pid int) {
		t.Helper()
		w := watched{Event: watch.Event{Kind: kind, PID: pid, TID: pid, Inode: 1}}
		if kind == watch.EventMmap {
			held, err := target.Hold(pid, pid, 0, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			w.held = &hold{Held: held, pid: pid}
		}
		if err := r.happened(w); err != nil {
			t.Fatal(err)
		}
	}
	held := func(pid int, want bool) {
		t.Helper()
		st, err := target.ReadStat(pid)
		if err != nil || (st.State == 't') != want {
			t.Errorf("process %d is in state %c, %v: held is to be %v", pid, st.State, err, want)
		}
	}
	happens(watch.EventMmap, first)
	held(first, true)
	happens(watch.EventMmap, second)
	held(first, true)
	held(second, false)
	// what it maps meanwhile is examined at once when that is over, and its threads go on after that only
	r.procs[first].again = true
	close(e.let)
	if err := (<-r.later)(); err != nil {
		t.Fatal(err)
	}
	held(first, false)
	if r.holds.Number != 2 || r.holds.Late != 0 || e.runs[first] != 1 || !r.dirty[first] {
		t.Errorf("%+v, examined %v, again %v", r.holds, e.runs, r.dirty)
	}
	// one that waits for its examination when it ends
	r.procs[second].looking = &time.Time{}
	happens(watch.EventMmap, second)
	held(second, true)
	happens(watch.EventExit, second)
	held(second, false)
}
