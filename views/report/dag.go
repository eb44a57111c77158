// SPDX-License-Identifier: Apache-2.0

package report

import (
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/dag"
)

// dagSection is the name of the operator graphs' section: [dag.List] as JSON.
const dagSection = "dag"

// addDAGs adds the operator graphs.
func (r *Run) addDAGs(b *dag.Builder, h *profile.Header) error {
	return r.addJSON(dagSection, b.Finish(h))
}
