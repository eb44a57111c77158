// SPDX-License-Identifier: Apache-2.0

package perfetto

import (
	"strconv"
	"strings"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/experts"
)

// experts annotates an operator with what its tokens chose: for one token the experts themselves, for several
// the number of distinct ones.
func (n *notes) experts(c *profile.Choice) {
	if c == nil {
		return
	}
	what := "experts"
	if c.Slots {
		what = "expert_slots" // slots in a cache of the engine's
	}
	if c.Tokens == 1 && c.Seen == 1 {
		var b strings.Builder
		for i, e := range c.Chosen {
			if i > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(strconv.Itoa(int(e)))
		}
		n.text(what, b.String())
	} else if c.Seen == c.Tokens {
		n.int(what+"_different", int64(c.Distinct()))
		n.int(what+"_tokens", int64(c.Tokens))
	}
	if c.Total > 0 && !c.Slots {
		n.int("experts_of", int64(c.Total))
	}
}

// drawExperts sets the counters of a step's experts: the number of new ones, and the bytes of their weights.
// A counter whose value is unknown falls to 0 rather than keeping that of the previous step.
func (e *exporter) drawExperts(s *profile.Step) {
	p, ok := e.experts.Step(s)
	phase := stepName(s)
	for _, c := range []struct {
		name, unit string
		value      *float64
	}{{phase + " new experts", "experts per step", newExperts(&p)}, {phase + " experts' bytes", "bytes per step",
		p.Bytes}} {
		key := counterKey{s.PID, s.Ctx, c.name}
		if ok && c.value != nil {
			e.rate(s, s.Start+s.Dur, c.name, c.unit, *c.value)
		} else if end := e.rates[key]; end > 0 {
			e.t.value(e.t.counters[key], end, 0)
		}
	}
}

// newExperts returns how many experts of a step the previous one did not use, over all layers; nil if no
// layer has a previous one.
func newExperts(p *experts.Step) *float64 {
	if p.Known == 0 {
		return nil
	}
	n := float64(p.New)
	return &n
}
