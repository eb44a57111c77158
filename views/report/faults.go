// SPDX-License-Identifier: Apache-2.0

package report

import "github.com/profinfer/profinfer/profile"

// Sections of page faults: "faults" is a [profile.FaultSeries], null where they were not recorded; "faults/marks" are its Marks, and
// absent where there are none.

// addFaults adds what pictures of page faults need and the statistics do not have.
func (r *Run) addFaults(b *profile.FaultSeriesBuilder, h *profile.Header) error {
	s := b.Finish(h)
	if err := r.addJSON("faults", s); err != nil || s == nil || len(s.Marks.Start) == 0 {
		return err
	}
	return r.addJSON("faults/marks", s.Marks)
}
