// SPDX-License-Identifier: Apache-2.0

package report

import (
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/memory"
)

// Sections of page faults: "faults" is a [memory.Series], null where they were not recorded; "faults/marks"
// are its Marks, and absent where there are none.

// addFaults adds what pictures of page faults need and the statistics do not have.
func (r *Run) addFaults(b *memory.SeriesBuilder, h *profile.Header) error {
	s := b.Finish(h)
	if err := r.addJSON("faults", s); err != nil || s == nil || len(s.Marks.Start) == 0 {
		return err
	}
	return r.addJSON("faults/marks", s.Marks)
}
