// SPDX-License-Identifier: Apache-2.0

package experts

import (
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/internal/steps"
)

// Steps reports for each step what its tokens chose, compared with the steps before. It is meant for sinks,
// which pass on their operators and steps. The zero value is ready to use.
type Steps struct {
	Book *facts.Book // nil: creates its own

	state Collector
	open  steps.Collector
	sums  Sums
}

// Op takes an operator. Only matmuls with chosen experts are kept until their step ends.
func (e *Steps) Op(o *profile.Op) {
	if o.Choice != nil && o.Step != nil {
		if e.Book == nil {
			e.Book = &facts.Book{}
		}
		e.open.Op(o)
	}
}

// Step takes a step, after its operators. It returns false where nothing is known of its choices: there are
// none, or the step or one of its choices is incomplete.
func (e *Steps) Step(s *profile.Step) (Step, bool) {
	p, ok := e.fold(&e.sums, s)
	return p, ok && s.Incomplete == ""
}

// fold adds a step's choices to the sums.
func (e *Steps) fold(g *Sums, s *profile.Step) (Step, bool) {
	ops, _, _ := e.open.Take(s)
	defer e.open.Done(ops)
	if s.Incomplete != "" || s.Untraced != "" {
		e.state.Forget(s)
	}
	if s.Untraced != "" || len(ops) == 0 {
		return Step{}, false
	}
	was := *g
	g.noBytes = false
	e.state.Fold(g, &e.Book.Deriver, s, ops)
	p := Step{ID: s.ID, N: 1, Tokens: int64(s.NTokens), Experts: g.distinct - was.distinct,
		New: (g.chosen - g.again) - (was.chosen - was.again), Known: g.chosen - was.chosen}
	if !g.noBytes {
		bytes, all := g.bytes-was.bytes, g.all-was.all
		p.Bytes, p.All = &bytes, &all
	}
	g.noBytes = g.noBytes || was.noBytes
	gaps := g.notSeen + g.slots + g.dropped - was.notSeen - was.slots - was.dropped
	return p, g.steps > was.steps && gaps == 0
}
