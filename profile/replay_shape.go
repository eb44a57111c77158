// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"slices"

	"github.com/profinfer/profinfer/trace"
)

// shape handles a graph definition.
func (p *replayer) shape(s *trace.Shape) {
	q := p.proc(s.PID)
	// repeated: for readers that begin in the middle, or because its order is known now
	if sh := q.Shapes[s.ID]; sh != nil {
		if s.Order != nil && s.NNodes == sh.NNodes &&
			!slices.EqualFunc(s.Order, sh.Order, slices.Equal[[]int32]) {
			sh.Order, sh.First = s.Order, s.First
			sh.order()
		}
		return
	}
	p.nextShape++
	c := *s
	sh := &Shape{ofEngine: q.ofEngine, Index: p.nextShape, Shape: &c,
		ByAddr:   make(map[uint64]int32, len(c.Nodes)),
		Executed: make([]bool, len(c.Nodes)), FusedInto: make([]int32, len(c.Nodes)),
		after: make([]int32, len(c.Nodes)), fusions: make([]fusion, len(c.Nodes))}
	for i := range c.Nodes {
		sh.FusedInto[i], sh.after[i] = -1, -1
		if i < c.NNodes {
			sh.ByAddr[c.Nodes[i].Addr] = int32(i)
			if c.Nodes[i].Executes {
				sh.runs++
			}
		}
	}
	sh.order()
	q.Shapes[s.ID] = sh
}

// order records what is known of the order in which operators end.
func (sh *Shape) order() {
	sh.orderOps = make([]string, len(sh.Order))
	for i, nodes := range sh.Order {
		for k, n := range nodes {
			if k == 0 {
				sh.orderOps[i] = sh.Nodes[n].Op
			} else {
				sh.orderOps[i] += "+" + sh.Nodes[n].Op
				sh.FusedInto[n] = nodes[0]
			}
			sh.Executed[n] = true
		}
	}
}
