// SPDX-License-Identifier: Apache-2.0

package profile

// ExpertSteps tells of each step what its tokens chose, against the steps before. For sinks: it gets their operators and steps.
// The zero value is ready.
type ExpertSteps struct {
	state   expertState
	derive  Deriver
	pending map[*Step][]*Op
	kept    int
	sums    expertSums
}

// Op takes an operator. Only products with chosen experts are kept until their step ends.
func (e *ExpertSteps) Op(o *Op) {
	if o.Choice == nil || o.Step == nil {
		return
	}
	if e.pending == nil || e.kept >= maxPending { // of steps that never ended
		e.pending, e.kept = map[*Step][]*Op{}, 0
	}
	e.pending[o.Step] = append(e.pending[o.Step], o)
	e.kept++
}

// Step takes a step, whose operators came before. It is false where nothing is known of its choices: there are none, or the step or one of its
// choices was not wholly seen.
func (e *ExpertSteps) Step(s *Step) (ExpertStep, bool) {
	p, ok := e.fold(&e.sums, s)
	return p, ok && s.Incomplete == ""
}

// fold adds a step's choices to the sums.
func (e *ExpertSteps) fold(g *expertSums, s *Step) (ExpertStep, bool) {
	ops := e.pending[s]
	delete(e.pending, s)
	e.kept -= len(ops)
	if s.Incomplete != "" || s.Untraced != "" {
		e.state.forget(s)
	}
	if s.Untraced != "" || len(ops) == 0 {
		return ExpertStep{}, false
	}
	was := *g
	g.noBytes = false
	e.state.fold(g, &e.derive, s, ops)
	p := ExpertStep{ID: s.ID, N: 1, Tokens: int64(s.NTokens), Experts: g.distinct - was.distinct,
		New: (g.chosen - g.again) - (was.chosen - was.again), Known: g.chosen - was.chosen}
	if !g.noBytes {
		bytes, all := g.bytes-was.bytes, g.all-was.all
		p.Bytes, p.All = &bytes, &all
	}
	g.noBytes = g.noBytes || was.noBytes
	gaps := g.notSeen + g.slots + g.dropped - was.notSeen - was.slots - was.dropped
	return p, g.steps > was.steps && gaps == 0
}
