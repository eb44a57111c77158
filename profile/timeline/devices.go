// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"slices"

	"github.com/profinfer/profinfer/profile"
)

// Copies between memories and device spans, as columns beside those of graphs: there are only a few per step,
// so they need no chunks.

// Limits of what is kept of these.
const (
	maxTimeCopies  = 1 << 18
	maxTimeDevices = 1 << 18
)

// Columns of copies, in the order in which they came.
const (
	copyColStart = iota // difference to the start of the previous one; for the first, to the run's start
	copyColDur          // -1: unknown
	copyColThread
	copyColStep   // number of its step; 0: none
	copyColSplit  // the step's next graph; -1: none
	copyColKind   // index in copyKinds
	copyColTensor // Strings, as are the three that follow
	copyColType
	copyColFrom
	copyColTo
	copyColBytes // -1: unknown
	copyColFlags // 1: asynchronous
	copyColumns
)

// copyKinds maps the kinds to numbers.
var copyKinds = []string{"copy", "set", "get"}

// Columns of device spans, in the order in which they ended.
const (
	deviceColGraph  = iota // number of its graph: difference to the previous one
	deviceColTail          // from the end of the submitting call to the end of the wait for it
	deviceColWaited        // the part of it in which the thread waited
	deviceColBefore        // earlier graphs in progress that were not waited for on their own
	deviceColThread        // the thread that waited
	// from the graph's begin to when the device could begin, as its queue shows; -1: not seen
	deviceColBegin
	deviceColBusy // how long it had work of the graph; -1: not seen
	deviceColumns
)

// timeDevices holds the columns while they are filled.
type timeDevices struct {
	copies, devices columns
	start, graph    int64
}

func (d *timeDevices) init() {
	d.copies.init(copyColumns)
	d.devices.init(deviceColumns)
}

// Copy takes a copy.
func (b *Builder) Copy(c *profile.Copy) error {
	d := &b.devices
	if d.copies.rows >= maxTimeCopies {
		b.t.CopiesLeftOut++
		return nil
	}
	var step, flags int64
	if c.Step != nil {
		step = c.Step.ID
	}
	if c.Async {
		flags |= 1
	}
	p := &d.copies
	p.put(copyColStart, c.Start-d.start)
	p.put(copyColDur, max(-1, c.Dur))
	p.put(copyColThread, int64(b.thread(c.PID, c.TID)))
	p.put(copyColStep, step)
	p.put(copyColSplit, int64(c.Split))
	p.put(copyColKind, int64(max(0, slices.Index(copyKinds, c.Kind))))
	p.put(copyColTensor, b.text(c.Tensor))
	p.put(copyColType, b.text(c.Type))
	p.put(copyColFrom, b.text(c.From))
	p.put(copyColTo, b.text(c.To))
	p.put(copyColBytes, max(-1, c.Bytes))
	p.put(copyColFlags, flags)
	p.rows++
	d.start = c.Start
	return nil
}

// Device takes a span of a device.
func (b *Builder) Device(s *profile.DeviceSpan) error {
	d := &b.devices
	if d.devices.rows >= maxTimeDevices {
		b.t.DevicesLeftOut++
		return nil
	}
	p := &d.devices
	p.put(deviceColGraph, s.Graph.ID-d.graph)
	p.put(deviceColTail, s.Done-s.Graph.Start-s.Graph.Dur)
	p.put(deviceColWaited, s.Waited)
	p.put(deviceColBefore, int64(s.Before))
	p.put(deviceColThread, int64(b.thread(s.Graph.PID, s.TID)))
	begin, busy := int64(-1), int64(-1)
	if s.Queue != nil {
		begin, busy = max(0, s.Begin-s.Graph.Start), s.Busy
	}
	p.put(deviceColBegin, begin)
	p.put(deviceColBusy, busy)
	p.rows++
	d.graph = s.Graph.ID
	return nil
}
