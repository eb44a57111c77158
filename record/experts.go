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

// experts reports whether the routing of tokens to experts is to be copied.
func (o *Options) experts() bool { return o.Experts && o.Level >= engine.LevelOp }

// routing is what is known about where a process's graphs route tokens to experts. While begins are probed
// the kernel side sees it by itself; for graphs that are followed it must be given, by their sequence of
// operators.
type routing struct {
	sequences map[uint64]uint64        // by shape: a hash of its operators
	told      map[uint64]routingPlaces // by sequence, as given to the kernel side
	begins    bool                     // it cannot be found by arrivals
}

// routingPlaces are the operators of graphs that route tokens, in order of arrival.
type routingPlaces struct {
	at    []probe.RoutingPlace
	order [][]int32 // the order of the shape they come from
}

// maxSequences bounds the shapes whose operator sequences are remembered.
const maxSequences = 1 << 16

// routing gives the kernel side the places where graphs with a shape's sequence of operators route tokens,
// once their order is known.
func (r *recorder) routing(p *process, s *trace.Shape, sequence uint64) {
	if !r.opt.experts() || !p.plan.Features.Routing || sequence == 0 || s.Incomplete != "" ||
		p.routing.begins {
		return
	}
	c := &p.routing
	if c.sequences == nil || len(c.sequences) >= maxSequences {
		c.sequences = make(map[uint64]uint64)
	}
	c.sequences[s.ID] = sequence
	if s.Order == nil {
		return
	}
	now := routingPlaces{placesIn(s, p.plan), s.Order}
	if len(now.at) == 0 {
		return
	}
	old, told := c.told[sequence]
	if told {
		var fits bool
		if now, fits = old.with(now); !fits {
			r.routeByBegins(p, "graphs of the same operators end them in different orders")
			return
		}
		if len(now.at) == len(old.at) {
			return
		}
	}
	if ok, err := p.att.SetRoutingPlaces(sequence, now.at); err != nil {
		r.routeByBegins(p, err.Error())
	} else if !ok {
		r.routeByBegins(p, "there are too many of its graphs")
	} else {
		if c.told == nil {
			c.told = make(map[uint64]routingPlaces)
		}
		c.told[sequence] = now
	}
}

// routeByBegins goes back to finding the places at operators' begins.
func (r *recorder) routeByBegins(p *process, why string) {
	p.routing.begins = true
	for sequence := range p.routing.told {
		p.att.DropRoutingPlaces(sequence)
	}
	clear(p.routing.told)
	r.note(fmt.Sprintf("%s (%d): which experts are chosen is seen at operators' begins, which costs one more probe event: %s", p.info.Comm, p.pid, why))
}

// with joins the places of two shapes with the same operators. An operator can be missing in one of them:
// without tokens it only passes its barrier. It returns false if a different operator ends there.
func (c routingPlaces) with(o routingPlaces) (routingPlaces, bool) {
	in := func(c, other routingPlaces) bool {
		for _, x := range c.at {
			if !slices.Contains(other.at, x) &&
				(int(x.Arrival) >= len(other.order) || len(other.order[x.Arrival]) > 0) {
				return false
			}
		}
		return true
	}
	if len(c.order) != len(o.order) || !in(c, o) || !in(o, c) {
		return c, false
	}
	all := routingPlaces{slices.Clone(c.at), c.order}
	for _, x := range o.at {
		if !slices.Contains(c.at, x) {
			all.at = append(all.at, x)
		}
	}
	slices.SortFunc(all.at, func(a, b probe.RoutingPlace) int { return cmp.Compare(a.Arrival, b.Arrival) })
	return all, true
}

// unfit forgets what was given for a shape whose order did not fit.
func (p *process) unfit(shape uint64) {
	sequence, ok := p.routing.sequences[shape]
	if _, told := p.routing.told[sequence]; ok && told {
		p.att.DropRoutingPlaces(sequence)
		delete(p.routing.told, sequence)
	}
}

// routingSource returns the index of the source that selects the experts of a node, -1 if there is none.
func routingSource(n *trace.Node, plan *engine.Plan) int32 {
	if op, ok := plan.Operators[n.Op]; !ok || !plan.Features.Routing || op != int(plan.Layout.ChooseOp) ||
		len(n.Src) <= int(plan.Layout.ChooseSrc) {
		return -1
	}
	return n.Src[plan.Layout.ChooseSrc]
}

// placesIn lists the operators that are the first to use a routing, in order of arrival.
func placesIn(s *trace.Shape, plan *engine.Plan) (at []probe.RoutingPlace) {
	last := int32(-1)
	for i, nodes := range s.Order {
		if len(nodes) == 0 || nodes[0] < 0 || int(nodes[0]) >= s.NNodes {
			continue
		}
		if c := routingSource(&s.Nodes[nodes[0]], plan); c >= 0 && c != last {
			last = c
			at = append(at, probe.RoutingPlace{Arrival: uint32(i), Node: uint32(nodes[0])})
		}
	}
	return at
}
