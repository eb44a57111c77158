// SPDX-License-Identifier: Apache-2.0

package profile

import "github.com/profinfer/profinfer/trace"

// DeviceSpan is the time from when a graph was handed to a backend to when a thread of the host had seen it done: an upper
// bound of the device's own time, as the host may have waited for it late.
type DeviceSpan struct {
	Graph *Graph // Start is when its submission began, Dur how long the call took
	TID   int32  // of the thread that waited
	// Done is when the backend's synchronize returned, ns; Waited how long it took.
	Done, Waited int64
	// Graphs of this backend were handed over before this one and never waited for by themselves.
	Before int
}

// Dur is the span's duration in ns.
func (d *DeviceSpan) Dur() int64 { return d.Done - d.Graph.Start }

// DeviceSink is a Sink that also receives the spans of devices, when they end: often after the graph's step.
type DeviceSink interface {
	Device(d *DeviceSpan) error
}

func (t tee) Device(d *DeviceSpan) error {
	return each(t, func(s Sink) error {
		if x, ok := s.(DeviceSink); ok {
			return x.Device(d)
		}
		return nil
	})
}

// maxDevices bounds the backends of a process.
const maxDevices = 64

// submitted is the latest graph of a backend that nobody has waited for.
type submitted struct {
	g      *Graph
	before int
}

// syncing is a thread that waits for a backend.
type syncing struct {
	device uint64
	since  int64
}

// submit notes a graph that was handed over.
func (q *proc) submit(x *exec) {
	if x.device == 0 || q.computes(x.g.Backend) {
		return
	}
	if q.devices == nil || len(q.devices) >= maxDevices {
		q.devices = map[uint64]submitted{}
	}
	s, before := q.devices[x.device], 0
	if s.g != nil {
		before = s.before + 1
	}
	q.devices[x.device] = submitted{x.g, before}
}

func (p *replayer) syncEnd(q *proc, t *thread, m *trace.Mark) error {
	s := t.sync
	t.sync = syncing{}
	d, ok := q.devices[s.device]
	if !ok || s.since == 0 || d.g.Start+d.g.Dur > s.since {
		return nil
	}
	delete(q.devices, s.device)
	if x, ok := p.sink.(DeviceSink); ok {
		return x.Device(&DeviceSpan{Graph: d.g, TID: m.TID, Done: m.Time, Waited: m.Time - s.since, Before: d.before})
	}
	return nil
}
