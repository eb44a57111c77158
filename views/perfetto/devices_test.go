// SPDX-License-Identifier: Apache-2.0

package perfetto

import (
	"bytes"
	"slices"
	"testing"

	"github.com/profinfer/profinfer/profile"
)

// Devices have a track each, with their graphs and arrows from the host's call and to its wait; copies are
// slices below the thread's.
func TestDevices(t *testing.T) {
	var b bytes.Buffer
	err := Export(&b, func(s profile.Sink) (*profile.Header, error) {
		e := s.(*exporter)
		step := &profile.Step{ID: 5, PID: 7, TID: 8, Phase: profile.Decode, Start: 1000, Dur: 1000,
			NTokens: 1}
		queue := &profile.Queue{PID: 7, ID: 1, Device: 1, Backend: "Vul\x1bkan"}
		graph := func(id, start int64) *profile.Graph {
			g := &profile.Graph{ID: id, Step: 5, PID: 7, TID: 8, Backend: "Vul\x1bkan", Split: int(id),
				NNodes: 25, Start: start, Dur: 20}
			if err := e.Graph(g); err != nil {
				t.Fatal(err)
			}
			return g
		}
		a, c, d, w := graph(1, 1100), graph(2, 1130), graph(3, 1300), graph(4, 1400)
		for _, x := range []*profile.DeviceSpan{
			{Graph: a, TID: 8, Done: 1250, Queue: queue, Begin: 1110, Busy: 140, Added: 140, Submissions: 2,
				Submit: 4, Shared: true, By: "vkResetFences"},
			{Graph: c, TID: 8, Done: 1250, Waited: 50, Queue: queue, Begin: 1135, Busy: 115, Submissions: 1,
				Submit: 3, Before: 1, By: "vkResetFences"},
			{Graph: d, TID: 8, Done: 1390, Waited: 80, Queue: queue, Begin: 1320, Busy: 60, Added: 60,
				Submissions: 3, Submit: 3, By: "vkWaitForFences"},
			{Graph: w, TID: 9, Done: 1500, Waited: 10, By: "synchronize"},
		} {
			if err := e.Device(x); err != nil {
				t.Fatal(err)
			}
		}
		for _, x := range []*profile.Copy{
			{Step: step, PID: 7, TID: 8, Start: 1050, Dur: 9, Kind: "copy", Tensor: "inp\x07", Type: "f32",
				Bytes: 64, From: "CPU", To: "Vul\x1bkan", Async: true},
			{Step: step, PID: 7, TID: 8, Start: 1070, Dur: -1, Kind: "set", Bytes: -1},
		} {
			if err := e.Copy(x); err != nil {
				t.Fatal(err)
			}
		}
		return &profile.Header{First: 1000, Last: 2000}, e.Step(step)
	})
	if err != nil {
		t.Fatal(err)
	}
	c := check(t, b.Bytes())
	find := func(track, name string, start, dur int64, depth int) slice {
		t.Helper()
		for _, s := range c.slices {
			if s.start == start && s.dur == dur && s.depth == depth && s.name == name &&
				c.tracks[s.track].name == track {
				return s
			}
		}
		t.Errorf("no slice %s on %s from %d, %d long, at depth %d among\n%+v", name, track, start, dur, depth,
			c.slices)
		return slice{}
	}
	const q = "Vul�kan queue 1"
	first := find(q, "graph Vul�kan, step 5", 1110, 140, 0)
	second := find(q, "graph Vul�kan, step 5", 1135, 115, 1) // done together: within the first
	third := find(q, "graph Vul�kan, step 5", 1320, 70, 0)
	unseen := find("Vul�kan: submission to completion seen by the host", "graph Vul�kan, step 5", 1400, 100, 0)
	if first.notes["end"] == "" || second.notes["end"] != "" || second.notes["busy_ns"] != "115" ||
		second.notes["submissions"] != "1" || third.notes["done_by"] != "vkWaitForFences" ||
		unseen.notes["busy_ns"] != "" || third.notes["step"] != "5" {
		t.Errorf("%+v\n%+v\n%+v\n%+v", first, second, third, unseen)
	}
	if p := c.tracks[c.tracks[first.track].parent]; p == nil || p.pid != 7 || p.tid != 0 {
		t.Errorf("the queue's track is not the process's: %+v", p)
	}
	// arrows: from the call to the device, from the device to the wait
	for _, x := range []struct {
		id           int64
		call, device slice
		wait         string
	}{{1, find("", "graph Vul�kan", 1100, 20, 1), first, ""}, {2, find("", "graph Vul�kan", 1130, 20, 1),
		second, "1200 50"},
		{3, find("", "graph Vul�kan", 1300, 20, 1), third, ""}, {4, find("", "graph Vul�kan", 1400, 20, 1),
			unseen, "1490 10"}} {
		if !slices.Equal(x.call.flows, []uint64{flowTo(x.id)}) ||
			!slices.Equal(x.device.ends, []uint64{flowTo(x.id)}) {
			t.Errorf("graph %d: arrow from %v to %v", x.id, x.call.flows, x.device.ends)
		}
		if (x.wait != "") != slices.Equal(x.device.flows, []uint64{flowBack(x.id)}) {
			t.Errorf("graph %d: arrow back: %v", x.id, x.device.flows)
		}
	}
	if w := find("waits for devices", "wait for Vul�kan", 1200, 50, 0); !slices.Equal(w.ends,
		[]uint64{flowBack(2)}) {
		t.Errorf("%+v", w)
	}
	// it began before the device could
	if w := find("waits for devices", "wait for Vul�kan", 1310, 80, 0); len(w.ends) != 0 {
		t.Errorf("%+v", w)
	}
	if w := find("waits for devices", "wait for Vul�kan", 1490, 10,
		0); c.tracks[c.tracks[w.track].parent].tid != 9 {
		t.Errorf("%+v", w)
	}
	if x := find("copies", "CPU to Vul�kan", 1050, 9, 0); x.notes["bytes"] != "64" ||
		x.notes["async"] == "" || x.notes["tensor"] == "" {
		t.Errorf("%+v", x)
	}
	if x := find("copies", "set", 1070, 0, 0); x.notes["end"] == "" || x.notes["bytes"] != "" {
		t.Errorf("%+v", x)
	}
}
