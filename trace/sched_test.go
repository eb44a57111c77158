// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"slices"
	"testing"
)

// How long a CPU was had and which threads are the kernel's come back; a block without these columns reads as
// before.
func TestSchedHeld(t *testing.T) {
	want := []Sched{
		{Time: 100, CPU: 1, Kind: SchedSwitch, PrevTID: 20, PrevPID: 20, PrevComm: "sh", PrevPrio: 120,
			NextTID: 18, NextPID: 18, NextComm: "ksoftirqd/1", NextPrio: 120, Held: 1 << 40,
			NextKernel: true},
		{Time: 120, CPU: 3, Kind: SchedLook, PrevTID: 18, PrevPID: 18, PrevComm: "ksoftirqd/1", PrevPrio: 120,
			PrevKernel: true,
			NextTID:    18, NextPID: 18, NextComm: "ksoftirqd/1", NextPrio: 120, NextKernel: true, Held: 20},
		{Time: 130, CPU: 1, Kind: SchedSwitch, PrevTID: 18, PrevPID: 18, PrevComm: "ksoftirqd/1",
			PrevPrio: 120, PrevKernel: true, NextTID: 20, NextPID: 20, NextComm: "ksoftirqd/1"},
	}
	var b bytes.Buffer
	w := NewWriter(&b)
	must(t, w.Meta(sampleMeta()), w.Sched(want), w.Threads([]Thread{{PID: 7, TID: 7, CPUs: "0-1"}}),
		w.Close(End{}))
	r, err := NewReader(&b)
	must(t, err)
	if c := collect(t, r); !slices.Equal(c.Sched, want) ||
		!slices.Equal(c.Threads, []Thread{{PID: 7, TID: 7, CPUs: "0-1"}}) {
		t.Errorf("read %+v, %+v", c.Sched, c.Threads)
	}
	e := newSchedEncoder()
	e.add(want)
	e.c = e.c[:schedHeld]
	var d schedDecoder
	got, err := d.decode(e.appendTo(nil), len(want))
	if err != nil || len(got) != len(want) || got[0].Held != 0 || got[0].NextKernel ||
		got[1].NextComm != "ksoftirqd/1" {
		t.Errorf("without them: %+v, %v", got, err)
	}
}
