// SPDX-License-Identifier: Apache-2.0

package report

import (
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/memory"
)

// Sections of page faults: "faults" is a [memory.Series], null if they were not recorded; "faults/marks" are
// its Marks, absent if there are none.

// addFaults adds what plots of page faults need beyond the statistics.
func (r *Run) addFaults(b *memory.SeriesBuilder, h *profile.Header) error {
	s := b.Finish(h)
	if err := r.addJSON("faults", s); err != nil || s == nil || len(s.Marks.Start) == 0 {
		return err
	}
	return r.addJSON("faults/marks", s.Marks)
}
