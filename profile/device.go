// SPDX-License-Identifier: Apache-2.0

package profile

import "github.com/profinfer/profinfer/trace"

// DeviceSpan is the time from when a graph was handed to a backend to when a host thread had seen it
// complete. It is an upper bound of the device's own time, because the host may have waited late.
type DeviceSpan struct {
	Graph *Graph // Start is when its submission began, Dur how long the call took
	TID   int32  // of the thread that waited
	// Done is when the host knew that the graph was complete, ns: by a wait for the device's queue where such
	// waits were seen (Queue), otherwise by the return of the backend's synchronize. Waited is how long a
	// thread waited for it at its end, ns.
	Done, Waited int64
	// Before counts graphs of this backend that were handed over earlier and never waited for on their own.
	Before int

	// Reported by the device's own interface. Queue is nil, and the rest 0, where that was not seen.
	Queue       *Queue // of the latest submission
	Submissions int
	Submit      int64 // host time in the submitting calls, ns
	// Begin is when the device could begin: at the first submission, or when the work before it on its queue
	// ended. Busy is the time from Begin to Done minus the gaps in which nothing of the graph was submitted,
	// ns. The work may have completed earlier than Done.
	Begin, Busy int64
	// Added is the part of Busy that no earlier span of the same device covers, so that sums count no time
	// twice.
	Added int64
	// Shared: it was seen complete only together with a later graph of the same queue.
	Shared bool
	By     string // the function that reported completion; "synchronize": the backend's
}

// Dur is the span's duration in ns.
func (d *DeviceSpan) Dur() int64 { return d.Done - d.Graph.Start }

// maxDevices bounds the backends of a process.
const maxDevices = 64

// submitted is the latest graph of a backend that no thread has waited for.
type submitted struct {
	g      *Graph
	before int
	h      *handed // nil: no submission of it was seen
}

// syncing describes a thread that waits for a backend.
type syncing struct {
	device uint64
	since  int64
}

// submit notes a graph that was handed over.
func (q *Proc) submit(x *exec) {
	if x.device == 0 || q.computes(x.g.Backend) {
		return
	}
	if q.devices == nil || len(q.devices) >= maxDevices {
		q.devices = map[uint64]submitted{}
	}
	o := q.object(x.g.Backend)
	o.graphs[x.device] = true
	s, before := q.devices[x.device], 0
	if s.g != nil {
		before = s.before + 1
	}
	q.devices[x.device] = submitted{x.g, before, x.handed}
}

func (p *replayer) syncEnd(q *Proc, t *thread, m *trace.Mark) error {
	s := t.sync
	if s.since != 0 {
		if err := p.synced(q, t, s.device, s.since, m.Time); err != nil {
			return err
		}
	}
	t.sync = syncing{}
	if s.since != 0 && len(p.remote.queues) > 0 {
		if err := p.remoteSynced(q, s.device, s.since, m.Time); err != nil {
			return err
		}
	}
	if s.since != 0 && len(q.awaited) > 0 {
		before := func(a awaitedGraph) bool {
			return a.device == s.device && a.device != 0 && a.g.Start+a.g.Dur <= s.since
		}
		if err := p.came(q, m.Time, before); err != nil {
			return err
		}
	}
	d, ok := q.devices[s.device]
	if !ok || s.since == 0 || d.g.Start+d.g.Dur > s.since {
		return nil
	}
	delete(q.devices, s.device)
	if d.h != nil {
		d.h.told = true
	}
	return p.sink.Device(&DeviceSpan{Graph: d.g, TID: m.TID, Done: m.Time, Waited: m.Time - s.since,
		Before: d.before, By: bySync})
}

// deviceObjects are the objects on which a backend's functions are called.
type deviceObjects struct {
	graphs, waits map[uint64]bool // those that compute, those that wait
}

func (q *Proc) object(backend string) deviceObjects {
	o, ok := q.objects[backend]
	if !ok {
		if q.objects == nil || len(q.objects) >= maxDevices {
			q.objects = map[string]deviceObjects{}
		}
		o = deviceObjects{map[uint64]bool{}, map[uint64]bool{}}
		q.objects[backend] = o
	}
	return o
}

// waitedFor returns the device that a call waits for. Some backends (RPC) pass the wait on to an object of
// their own before it can be probed. The device is then the only one of that backend, if there is exactly one
// device and one such object.
func (q *Proc) waitedFor(backend string, ctx uint64) uint64 {
	o := q.object(backend)
	if len(o.waits) < maxDevices {
		o.waits[ctx] = true
	}
	if o.graphs[ctx] || len(o.graphs) != 1 || len(o.waits) != 1 {
		return ctx
	}
	for device := range o.graphs {
		return device
	}
	return ctx
}
