// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/trace"
)

// Needs implements Sink.
func (b *slowState) Needs() profile.Needs { return profile.NeedFaults }

// Fault takes a page fault. Where its duration is known, its thread did not compute during it.
func (b *Builder) Fault(f *profile.Fault) error {
	if f.Kind != trace.FaultCounts && f.Dur > 0 {
		b.faultSpan(f.PID, f.TID, f.Begin(), f.Time, f.Waits())
	}
	return nil
}
