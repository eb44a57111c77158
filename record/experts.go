// SPDX-License-Identifier: Apache-2.0

package record

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/probe"
	"github.com/profinfer/profinfer/trace"
)

// choices tells whether choices of experts are to be copied.
func (o *Options) choices() bool { return o.Experts && o.Level >= engine.LevelOp }

// choosing is what is known of where a process's graphs choose experts. While begins are probed the kernel
// side sees that by itself; of graphs that are followed it is told, by their kin.
type choosing struct {
	kins   map[uint64]uint64   // of shapes
	told   map[uint64]choosers // by kin, as the kernel side was told
	begins bool                // it cannot be told by arrivals
}

// choosers are the operators of graphs that choose, in the order of arrivals.
type choosers struct {
	at    []probe.Chooser
	order [][]int32 // a shape's that they come from
}

// maxKinds bounds the shapes whose kin is remembered.
const maxKinds = 1 << 16

// choosers tells the kernel side where graphs of the kin of a shape choose, once their order is known.
func (r *recorder) choosers(p *process, s *trace.Shape, kin uint64) {
	if !r.opt.choices() || !p.plan.Features.Routing || kin == 0 || s.Incomplete != "" || p.choose.begins {
		return
	}
	c := &p.choose
	if c.kins == nil || len(c.kins) >= maxKinds {
		c.kins = make(map[uint64]uint64)
	}
	c.kins[s.ID] = kin
	if s.Order == nil {
		return
	}
	now := choosers{choosersOf(s, p.plan), s.Order}
	if len(now.at) == 0 {
		return
	}
	old, told := c.told[kin]
	if told {
		var fits bool
		if now, fits = old.with(now); !fits {
			r.chooseByBegins(p, "graphs of the same operators end them in different orders")
			return
		}
		if len(now.at) == len(old.at) {
			return
		}
	}
	if ok, err := p.att.SetChoosers(kin, now.at); err != nil {
		r.chooseByBegins(p, err.Error())
	} else if !ok {
		r.chooseByBegins(p, "there are too many of its graphs")
	} else {
		if c.told == nil {
			c.told = make(map[uint64]choosers)
		}
		c.told[kin] = now
	}
}

// chooseByBegins goes back to what is seen at operators' begins.
func (r *recorder) chooseByBegins(p *process, why string) {
	p.choose.begins = true
	for kin := range p.choose.told {
		p.att.DropChoosers(kin)
	}
	clear(p.choose.told)
	r.note(fmt.Sprintf("%s (%d): which experts are chosen is seen at operators' begins, which costs a hit more: %s", p.info.Comm, p.pid, why))
}

// with joins what two shapes of a kin tell. An operator can be missing in one of them: of no tokens it only
// passes its barrier. It returns false where another ends there instead.
func (c choosers) with(o choosers) (choosers, bool) {
	in := func(c, other choosers) bool {
		for _, x := range c.at {
			if !slices.Contains(other.at, x) && (int(x.Arrival) >= len(other.order) || len(other.order[x.Arrival]) > 0) {
				return false
			}
		}
		return true
	}
	if len(c.order) != len(o.order) || !in(c, o) || !in(o, c) {
		return c, false
	}
	all := choosers{slices.Clone(c.at), c.order}
	for _, x := range o.at {
		if !slices.Contains(c.at, x) {
			all.at = append(all.at, x)
		}
	}
	slices.SortFunc(all.at, func(a, b probe.Chooser) int { return cmp.Compare(a.Arrival, b.Arrival) })
	return all, true
}

// unfit forgets what was told of a shape whose order did not fit.
func (p *process) unfit(shape uint64) {
	kin, ok := p.choose.kins[shape]
	if _, told := p.choose.told[kin]; ok && told {
		p.att.DropChoosers(kin)
		delete(p.choose.told, kin)
	}
}

// choice returns the number of the source by which a node chooses, -1 if it does not.
func choice(n *trace.Node, plan *engine.Plan) int32 {
	if op, ok := plan.Operators[n.Op]; !ok || !plan.Features.Routing || op != int(plan.Layout.ChooseOp) || len(n.Src) <= int(plan.Layout.ChooseSrc) {
		return -1
	}
	return n.Src[plan.Layout.ChooseSrc]
}

// choosersOf lists the operators that are the first to use a choice, in the order of arrivals.
func choosersOf(s *trace.Shape, plan *engine.Plan) (at []probe.Chooser) {
	last := int32(-1)
	for i, nodes := range s.Order {
		if len(nodes) == 0 || nodes[0] < 0 || int(nodes[0]) >= s.NNodes {
			continue
		}
		if c := choice(&s.Nodes[nodes[0]], plan); c >= 0 && c != last {
			last = c
			at = append(at, probe.Chooser{Arrival: uint32(i), Node: uint32(nodes[0])})
		}
	}
	return at
}

// writeExperts writes what was chosen. It stands in the trace as it was copied, in parts.
func (r *recorder) writeExperts(e *probe.Events) error {
	r.experts = r.experts[:0]
	for i := range e.Choices {
		c := &e.Choices[i]
		if r.stop != 0 && c.Time > r.stop {
			continue
		}
		r.experts = append(r.experts, trace.Experts{Time: c.Time, PID: c.PID, TID: c.TID, Node: c.Node, Source: c.Source,
			Used: c.Used, Tokens: c.Tokens, First: c.First, Chosen: c.Numbers})
	}
	return r.w.Experts(r.experts)
}
