// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"slices"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/offload"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/trace"
)

// Three steps of 1000 ns, in each a graph on the device from 150 to 160 with what is given.
func queueStat(t *testing.T, marks ...[]trace.Mark) offload.Backend {
	t.Helper()
	b := stat.New(stat.Options{})
	h, err := profile.Replay(offloaded(t, 3, func(ms []trace.Mark) []trace.Mark {
		ms = append(ms, slices.Concat(marks...)...)
		slices.SortStableFunc(ms, func(a, b trace.Mark) int { return int(a.Time - b.Time) })
		return ms
	}), b)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range b.Finish(h).Offload[0].Backends {
		if x.Backend == "GPU" {
			return x
		}
	}
	t.Fatal("no backend GPU")
	return offload.Backend{}
}

func TestQueueStat(t *testing.T) {
	is := func(what string, got *float64, want float64) {
		t.Helper()
		if got == nil || *got != want {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	// two submissions, the first done before the second was handed over
	x := queueStat(t, submission(151, 152, 0x60, 0x70, 1), fence(153, 154, 0x70, 0),
		submission(157, 159, 0x60, 0x70, 1), fence(195, 300, 0x70, 0))
	if x.Spans != 3 || x.QueueSpans != 3 || x.Unwaited != 0 {
		t.Errorf("%+v", x)
	}
	is("busy", x.Busy, 3+143)
	is("submissions", x.Submissions, 2)
	is("submitting", x.Submitting, 1+2)
	is("idle inside", x.IdleInside, 3)
	is("idle between", x.IdleBetween, 1151-300)
	is("idle", x.Idle, 1151-300)
	is("device", x.Device, 300-150)
	if x.IdleStep != nil {
		t.Errorf("no step had two graphs: %v", *x.IdleStep)
	}
	// a second graph in each step; what both are under way counts once
	x = queueStat(t, submission(151, 152, 0x60, 0, 1), graph(161, 167), submission(162, 163, 0x60, 0x70, 1),
		fence(200, 350, 0x70, 0))
	if x.Spans != 6 || x.QueueSpans != 6 || x.Unwaited != 3 {
		t.Errorf("%+v", x)
	}
	is("busy", x.Busy, 350-151)
	is("device", x.Device, 350-150)
	is("waited", x.Waited, 350-190)
	is("idle between", x.IdleBetween, 1151-350)
	// one after the other
	x = queueStat(t, submission(151, 152, 0x60, 0x70, 1), fence(153, 155, 0x70, 0), graph(161, 167),
		submission(162, 163, 0x60, 0x70, 1), fence(200, 350, 0x70, 0))
	is("busy", x.Busy, 4+350-162)
	is("idle in a step", x.IdleStep, 162-155)
	is("idle between", x.IdleBetween, 1151-350)
	// nothing seen of queues
	if x = queueStat(t); x.Spans != 3 || x.QueueSpans != 0 || x.Busy != nil || x.Submissions != nil ||
		x.Submitting != nil || x.IdleInside != nil || x.IdleBetween != nil {
		t.Errorf("%+v", x)
	}
	is("device", x.Device, 250)
}
