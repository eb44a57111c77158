// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"

	"github.com/profinfer/profinfer/profile/experts"
	"github.com/profinfer/profinfer/profile/facts"
)

// Experts' sections: "experts" is JSON; "experts/0" and following hold what tokens of its phases chose, in
// the format of package profile. A run without experts has none.

// servedCells is how many choices a served page keeps per run.
const servedCells = 8 * experts.ExpertMapCells

func newExperts(o options, book *facts.Book) *experts.MapBuilder {
	if o.timeLimit < 0 {
		return experts.NewMap(servedCells, book)
	}
	return experts.NewMap(0, book)
}

// addExperts adds the tokens' choices.
func (r *Run) addExperts(b *experts.MapBuilder) error {
	m := b.Finish()
	if len(m.Phases) == 0 {
		return nil
	}
	for i := range m.Phases {
		if err := r.add(fmt.Sprintf("experts/%d", i), m.Phases[i].Data); err != nil {
			return err
		}
	}
	return r.addJSON("experts", m)
}
