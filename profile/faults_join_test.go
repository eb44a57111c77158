// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"testing"

	"github.com/profinfer/profinfer/trace"
)

// keptFaults keeps the faults that it gets.
type keptFaults struct {
	BaseSink
	got []*Fault
}

func (k *keptFaults) Needs() Needs         { return NeedFaults }
func (k *keptFaults) Fault(f *Fault) error { k.got = append(k.got, f); return nil }

// A step within a longer one of another thread: a fault before it waits for the longer one to end, one before
// both is in none, and what belongs to an operator of the longer one is its.
func TestFaultsOfStepsThatOverlap(t *testing.T) {
	sink := &keptFaults{}
	p := newReplayer(sink)
	p.joinFaults()
	long, short := &Step{ID: 1, PID: 7, TID: 8, Start: 100, Dur: 300},
		&Step{ID: 2, PID: 7, TID: 9, Start: 200, Dur: 50}
	th := p.proc(7).thread(8)
	th.steps = []*openStep{{Step: long}}
	for _, at := range []int64{50, 150, 210, 220, 300} {
		if err := p.Faulted(&trace.Fault{Time: at, Dur: 5, PID: 7, TID: int32(at),
			Kind: trace.FaultMajor}); err != nil {
			t.Fatal(err)
		}
	}
	op := &Op{ID: 3, Step: long, Start: 205, Dur: 100, Threads: []OpThread{{TID: 220, Start: 205, Busy: 100}}}
	p.faults.op(op)
	if op.MajorFaults != 1 || op.FaultDelay != 5 {
		t.Errorf("%d faults in the operator, delayed by %d", op.MajorFaults, op.FaultDelay)
	}
	if err := p.faults.step(short); err != nil {
		t.Fatal(err)
	}
	want := func(steps ...*Step) {
		t.Helper()
		if len(sink.got) != len(steps) {
			t.Fatalf("%d faults, want %d", len(sink.got), len(steps))
		}
		for i, s := range steps {
			if sink.got[i].Step != s {
				t.Errorf("the fault at %d is in %+v", sink.got[i].Time, sink.got[i].Step)
			}
		}
	}
	want(nil, short)
	th.steps = nil
	if err := p.faults.step(long); err != nil {
		t.Fatal(err)
	}
	want(nil, short, long, long, long)
	if long.MajorFaults != 3 || short.MajorFaults != 1 || long.FaultWall != 15 {
		t.Errorf("%d and %d faults, %d ns", long.MajorFaults, short.MajorFaults, long.FaultWall)
	}
}

// However many faults wait for their step, memory is bounded, and none is forgotten.
func TestFaultsAreBounded(t *testing.T) {
	sink := &keptFaults{}
	p := newReplayer(sink)
	p.joinFaults()
	for i := range int64(maxFaults + 10) {
		if err := p.Faulted(&trace.Fault{Time: i, PID: 7, TID: 8, Kind: trace.FaultMinor}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(p.faults.procs[7].waiting); n > maxFaults {
		t.Errorf("%d wait", n)
	}
	if err := p.faults.rest(); err != nil {
		t.Fatal(err)
	}
	if len(sink.got) != maxFaults+10 {
		t.Errorf("%d faults", len(sink.got))
	}
}
