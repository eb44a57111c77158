// SPDX-License-Identifier: Apache-2.0

package record

import (
	"testing"

	"github.com/profinfer/profinfer/probe"
)

// An engine can end between two drains of which the first brought half of a graph's definition. Its end is
// known before the second drain brings the rest: the first half has to be there still.
func TestDefinitionsOutliveProcess(t *testing.T) {
	p := newProcess(7)
	r := &recorder{procs: map[int]*process{7: p}, looked: map[int]Looked{}}
	r.shapes.add(probe.Def{PID: 7, Shape: 1})
	r.forget(p)
	if r.shapes.n != 1 || len(r.shapes.pending) != 1 {
		t.Errorf("of one definition that waits %d are left, %d counted", len(r.shapes.pending), r.shapes.n)
	}
}
