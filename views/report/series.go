// SPDX-License-Identifier: Apache-2.0

package report

import "github.com/profinfer/profinfer/profile"

// addSeries adds what plots need and the statistics do not have.
func (r *Run) addSeries(b *profile.SeriesBuilder, h *profile.Header) error {
	return r.addJSON("series", b.Finish(h))
}
