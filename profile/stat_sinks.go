// SPDX-License-Identifier: Apache-2.0

package profile

import "github.com/profinfer/profinfer/trace"

// Copy takes a copy.
func (b *statState) Copy(c *Copy) error {
	if b.opts.PID == 0 || c.PID == b.opts.PID {
		b.offload.copied(c)
		b.remoteCopied(c)
	}
	return nil
}

// Device takes a span of a device.
func (b *statState) Device(d *DeviceSpan) error {
	if b.opts.PID == 0 || d.Graph.PID == b.opts.PID {
		b.offload.device(d)
	}
	return nil
}

// Fault implements FaultSink.
func (b *statState) Fault(f *Fault) error {
	b.faults.fault(f)
	return nil
}

// Memory implements FaultSink.
func (b *statState) Memory(m *trace.Memory) error {
	b.faults.memory(m)
	return nil
}
