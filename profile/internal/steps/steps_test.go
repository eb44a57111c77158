// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/internal/limits"
)

// A step gets its own operators and graphs, in their order, and is forgotten.
func TestCollector(t *testing.T) {
	var c Collector
	a, b := &profile.Step{ID: 1, PID: 7, Start: 100}, &profile.Step{ID: 2, PID: 7, Start: 200}
	for i, s := range []*profile.Step{a, b, a, a, b} {
		c.Op(&profile.Op{ID: int64(i), Step: s})
	}
	for _, s := range []int64{0, 1, 2, 1} {
		c.Graph(&profile.Graph{Step: s})
	}
	if got := c.Oldest(7, 150); got != 100 {
		t.Errorf("the oldest began at %d", got)
	}
	ops, graphs, cut := c.Take(a)
	if len(ops) != 3 || ops[1].ID != 2 || len(graphs) != 2 || cut {
		t.Errorf("%d operators, %d graphs, cut %v", len(ops), len(graphs), cut)
	}
	c.Done(ops)
	if ops, _, _ = c.Take(a); ops != nil {
		t.Error("it was not forgotten")
	}
	if ops, steps := c.Kept(); ops != 2 || steps != 1 {
		t.Errorf("%d operators of the other step and graphs of %d are kept", ops, steps)
	}
}

// More operators than are kept are handed on early, and their step says so. Steps that never end are
// forgotten.
func TestCollectorOverflows(t *testing.T) {
	early := 0
	c := Collector{Early: func(_ *profile.Step, ops []*profile.Op) { early += len(ops) }}
	s := &profile.Step{ID: 1}
	for range limits.Pending + 1 {
		c.Op(&profile.Op{Step: s})
	}
	if ops, _, cut := c.Take(s); len(ops) != 1 || !cut || early != limits.Pending {
		t.Errorf("%d operators left, cut %v, %d early", len(ops), cut, early)
	}
	for i := range int64(3 * limits.Pending) {
		c.Op(&profile.Op{Step: &profile.Step{ID: i}})
		c.Graph(&profile.Graph{Step: i + 1})
	}
	if ops, steps := c.Kept(); ops > limits.Pending || steps > limits.Pending ||
		len(c.steps) > 2*limits.Pending {
		t.Errorf("%d operators, graphs of %d steps, %d steps are kept", ops, steps, len(c.steps))
	}
}
