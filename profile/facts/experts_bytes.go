// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"slices"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/ops"
)

// chosenKey is an operator with a known number of distinct experts that its tokens chose.
type chosenKey struct {
	node     int32
	distinct int
}

// choose returns what follows from an operator's choice: the bytes of the chosen experts, each counted once.
// v is what follows from its definition.
func (d *Deriver) choose(op *profile.Op, v *Derived) *Derived {
	f := d.facts
	k := chosenKey{op.Node, op.Choice.Distinct()}
	if e := f.chosen[k]; e != nil && slices.Equal(e.fused, v.fused) {
		return e
	}
	nodes := op.Shape.Nodes
	estimate, ok := op.Shape.Vocabulary().ExpertBytes(nodes, &nodes[op.Node])
	exact, known := ExpertBytes(op.Shape, op.Node, k.distinct)
	if !ok || !known {
		return v
	}
	e := *v
	bytes := *v.Bytes - estimate + exact
	e.Bytes, e.BytesAtMost = &bytes, false
	if old := f.chosen[k]; old != nil {
		e.ID = old.ID
	} else {
		d.n++
		e.ID = d.n
	}
	if f.chosen == nil {
		f.chosen = map[chosenKey]*Derived{}
	}
	f.chosen[k] = &e
	return &e
}

// ExpertBytes returns the bytes of n experts of the weights that node m multiplies with.
func ExpertBytes(sh *profile.Shape, m int32, n int) (int64, bool) {
	w, _ := sh.Vocabulary().ExpertSources(sh.Nodes, &sh.Nodes[m])
	if w < 0 || n < 0 || int64(n) > sh.Nodes[w].Ne[2] {
		return 0, false
	}
	return ops.FirstPlanes(&sh.Nodes[w], int64(n))
}
