// SPDX-License-Identifier: Apache-2.0

package report

import "github.com/profinfer/profinfer/profile"

// dagSection is the name of the operator graphs' section: [profile.DAGs] as JSON.
const dagSection = "dag"

// addDAGs adds the operator graphs.
func (r *Run) addDAGs(b *profile.DAGBuilder, h *profile.Header) error {
	return r.addJSON(dagSection, b.Finish(h))
}
