// SPDX-License-Identifier: Apache-2.0

package perfetto

import (
	"strconv"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/trace"
)

// slowFault is how long a minor fault that read nothing must take to be drawn, ns.
const slowFault = 100_000

// Fault draws a page fault that waited for the disk, or a slow one, on a track below its thread's.
func (e *exporter) Fault(f *profile.Fault) error {
	if f.Kind == trace.FaultCounts || !f.Waits() && f.Dur < slowFault {
		return e.p.err()
	}
	k := e.t.below(f.PID, f.TID, "page faults")
	e.last = max(e.last, f.Time)
	name := "minor fault"
	if f.Kind == trace.FaultMajor {
		name = "major fault"
	}
	n := e.t.notes()
	n.text("class", string(f.Class))
	n.text("tensor", f.Tensor)
	if f.Expert >= 0 {
		n.int("expert", int64(f.Expert))
	}
	n.text("file", f.File)
	n.text("address", "0x"+strconv.FormatUint(f.Addr, 16))
	if f.Read >= 0 {
		n.int("read_bytes", f.Read)
	}
	if f.OpID != 0 {
		n.int("op_id", f.OpID)
	}
	if f.Dur < 0 {
		n.text("duration", "not known: the kernel does not tell when it began")
	}
	e.t.begin(k, f.Begin(), f, "fault", name, n)
	e.t.end(k, f.Time, nil)
	return e.p.err()
}

// Needs implements profile.Sink.
func (e *exporter) Needs() profile.Needs { return profile.NeedFaults }

// below returns a track under a thread's.
func (t *tracks) below(pid, tid int32, name string) *track {
	if t.under == nil {
		t.under = map[threadKey]*track{}
	}
	k := t.under[threadKey{pid, tid}]
	if k == nil {
		parent := t.thread(pid, tid)
		k = t.make()
		t.under[threadKey{pid, tid}] = k
		t.p.descriptor(message(nil).uint(descUUID, k.uuid).str(descName, name).uint(descParent, parent.uuid))
	}
	return k
}
