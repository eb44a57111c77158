// SPDX-License-Identifier: Apache-2.0

package report

import (
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/roof"
	"github.com/profinfer/profinfer/profile/series"
)

// addSeries adds what plots need beyond the statistics.
func (r *Run) addSeries(b *series.Builder, h *profile.Header, peaks *roof.Peaks) error {
	if err := r.addJSON("series", b.Finish(h)); err != nil {
		return err
	}
	return r.addJSON("roofline", b.Roofline(h, peaks))
}
