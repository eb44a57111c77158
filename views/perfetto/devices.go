// SPDX-License-Identifier: Apache-2.0

package perfetto

import (
	"cmp"
	"fmt"

	"github.com/profinfer/profinfer/internal/clean"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/trace"
)

// Graphs on a device have a track of their own below their process: the queue's, where the device's interface
// was seen, or else the backend's. Arrows lead from the host's call to the device's slice and on to the
// host's wait.

// maxDevices bounds the tracks of devices; further ones are not drawn.
const maxDevices = 1024

type deviceTrack struct {
	pid     int32
	queue   int // 0: of the backend
	backend string
}

// devices holds the state of drawing devices.
type devices struct {
	tracks map[deviceTrack]*track
	rows   map[rowKey]*track
	shared []*profile.DeviceSpan // seen done together with the next one, whose slice contains them
}

type rowKey struct {
	threadKey
	name string
}

// The two arrows of a graph: to the device and back. Their IDs are distinct from those of arrows between
// processes.
func flowTo(graph int64) uint64   { return 1<<62 | uint64(graph) }
func flowBack(graph int64) uint64 { return 1<<63 | uint64(graph) }

// toDevice adds the arrow from the host's call to the device's slice; an arrow without an end is not drawn.
func (e *exporter) toDevice(g *profile.Graph, n *notes) *notes {
	if !trace.Elsewhere(g.Backend) {
		return n
	}
	if n == nil {
		n = e.t.notes()
	}
	n.m = n.m.fixed(eventFlow, flowTo(g.ID))
	return n
}

// backFlow reports whether an arrow leads from a device's slice to the wait for it: arrows must lead forward
// in time.
func backFlow(d *profile.DeviceSpan) bool {
	return d.Waited > 0 && d.Done-d.Waited >= max(d.Graph.Start, d.Begin)
}

// row returns a track under a thread's.
func (e *exporter) row(pid, tid int32, name string) *track {
	key := rowKey{threadKey{pid, tid}, name}
	k := e.devices.rows[key]
	if k == nil {
		parent := e.t.thread(pid, tid)
		k = e.t.make()
		if e.devices.rows == nil {
			e.devices.rows = map[rowKey]*track{}
		}
		e.devices.rows[key] = k
		e.p.descriptor(message(nil).uint(descUUID, k.uuid).str(descName, name).uint(descParent, parent.uuid))
	}
	return k
}

// Device takes a graph that a device has completed.
func (e *exporter) Device(d *profile.DeviceSpan) error {
	e.last = max(e.last, d.Done)
	if d.Shared && len(e.devices.shared) < maxGraphs {
		e.devices.shared = append(e.devices.shared, d)
		return e.p.err()
	}
	spans := append(e.devices.shared, d)
	e.devices.shared = e.devices.shared[:0]
	for _, x := range spans {
		e.openDevice(x)
	}
	for i := len(spans) - 1; i >= 0; i-- {
		if k := e.deviceTrack(spans[i]); k != nil && k.depth(spans[i]) >= 0 {
			e.t.endTo(k, spans[i].Done, k.depth(spans[i]))
		}
	}
	if d.Waited > 0 {
		k := e.row(d.Graph.PID, d.TID, "waits for devices")
		n := e.t.notes()
		n.text("returned", d.By)
		if backFlow(d) {
			n.m = n.m.fixed(eventFlowEnd, flowBack(d.Graph.ID))
		}
		e.t.begin(k, d.Done-d.Waited, d, "wait",
			"wait for "+cmp.Or(clean.Perfetto(d.Graph.Backend), "a device"), n)
		e.t.end(k, d.Done, nil)
	}
	return e.p.err()
}

func (e *exporter) deviceTrack(d *profile.DeviceSpan) *track {
	key := deviceTrack{pid: d.Graph.PID, backend: d.Graph.Backend}
	name := cmp.Or(clean.Perfetto(d.Graph.Backend), "device") + ": submission to completion seen by the host"
	if d.Queue != nil {
		key.queue, key.backend = d.Queue.ID, ""
		name = fmt.Sprintf("%s queue %d", cmp.Or(clean.Perfetto(d.Queue.Backend), "device"), d.Queue.ID)
	}
	k := e.devices.tracks[key]
	if k == nil && len(e.devices.tracks) < maxDevices {
		parent := e.t.process(d.Graph.PID)
		k = e.t.make()
		if e.devices.tracks == nil {
			e.devices.tracks = map[deviceTrack]*track{}
		}
		e.devices.tracks[key] = k
		e.p.descriptor(message(nil).uint(descUUID, k.uuid).str(descName, name).uint(descParent, parent.uuid))
	}
	return k
}

// openDevice begins a device's slice.
func (e *exporter) openDevice(d *profile.DeviceSpan) {
	k := e.deviceTrack(d)
	if k == nil {
		return
	}
	n := e.t.notes()
	n.int("graph", d.Graph.ID)
	n.int("step", d.Graph.Step)
	n.int("split", int64(d.Graph.Split))
	n.int("nodes", int64(d.Graph.NNodes))
	begin := d.Graph.Start
	if d.Queue != nil {
		begin = d.Begin
		n.int("submissions", int64(d.Submissions))
		n.int("submitting_ns", d.Submit)
		n.int("busy_ns", d.Busy)
		if d.Shared {
			n.text("end", "seen only together with the next graph's")
		}
	}
	n.int("waited_ns", d.Waited)
	n.text("done_by", d.By)
	n.m = n.m.fixed(eventFlowEnd, flowTo(d.Graph.ID))
	if backFlow(d) {
		n.m = n.m.fixed(eventFlow, flowBack(d.Graph.ID))
	}
	e.t.begin(k, begin, d, "device", fmt.Sprintf("%s, step %d", graphName(d.Graph), d.Graph.Step), n)
}

// Copy takes a call that moves a tensor's data: a slice below its thread's track.
func (e *exporter) Copy(c *profile.Copy) error {
	end := c.Start + max(0, c.Dur)
	e.last = max(e.last, end)
	k := e.row(c.PID, c.TID, "copies")
	n := e.t.notes()
	n.text("tensor", c.Tensor)
	n.text("type", c.Type)
	if c.Bytes >= 0 {
		n.int("bytes", c.Bytes)
	}
	n.text("from", c.From)
	n.text("to", c.To)
	if c.Async {
		n.text("async", "the call may return before the data are there")
	}
	if c.Dur < 0 {
		n.text("end", "not probed: its time is not known")
	}
	name := c.Kind
	if c.From != "" && c.To != "" {
		name = clean.Perfetto(c.From) + " to " + clean.Perfetto(c.To)
	}
	e.t.begin(k, c.Start, c, "copy", name, n)
	e.t.end(k, end, nil)
	return e.p.err()
}
