// SPDX-License-Identifier: Apache-2.0

package stat

import (
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/trace"
)

// Copy takes a copy.
func (b *statState) Copy(c *profile.Copy) error {
	if b.opts.PID == 0 || c.PID == b.opts.PID {
		b.offload.Copied(c)
		b.remoteCopied(c)
	}
	return nil
}

// Device takes a span of a device.
func (b *statState) Device(d *profile.DeviceSpan) error {
	if b.opts.PID == 0 || d.Graph.PID == b.opts.PID {
		b.offload.Device(d)
	}
	return nil
}

// Needs implements Sink.
func (b *statState) Needs() profile.Needs { return profile.NeedFaults }

// Fault implements Sink.
func (b *statState) Fault(f *profile.Fault) error {
	b.faults.Fault(f)
	return nil
}

// Memory implements Sink.
func (b *statState) Memory(m *trace.Memory) error {
	b.faults.Memory(m)
	return nil
}
