// SPDX-License-Identifier: Apache-2.0

package record

import (
	"slices"
	"testing"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/probe"
	"github.com/profinfer/profinfer/trace"
)

// Operators that share a choice are told once, in the order of arrivals; of no tokens one only passes its
// barrier, and what two shapes with the same operators tell is joined.
func TestRoutingPlaces(t *testing.T) {
	plan := &engine.Plan{Operators: map[string]int{"MUL_MAT_ID": 30, "MUL_MAT": 29},
		Layout: engine.Layout{ChooseOp: 30, ChooseSrc: 2}, Features: engine.Features{Routing: true}}
	product := func(ids int32) trace.Node {
		return trace.Node{Op: "MUL_MAT_ID", Src: []int32{9, 8, ids}, Executes: true}
	}
	shape := func(order ...[]int32) *trace.Shape {
		return &trace.Shape{NNodes: 7, Order: order, Nodes: []trace.Node{
			{Op: "ARGSORT"}, {Op: "VIEW"}, product(1), product(1), {Op: "VIEW"}, product(4),
			{Op: "MUL_MAT_ID", Src: []int32{9}},
			{Op: "NONE"}, {Op: "NONE"}, {Op: "NONE"}}}
	}
	full := routingPlaces{order: [][]int32{{0}, {2}, {3}, nil, {5}, {6}}}
	full.at = placesIn(shape(full.order...), plan)
	if want := []probe.RoutingPlace{{Arrival: 1, Node: 2}, {Arrival: 4, Node: 5}}; !slices.Equal(full.at,
		want) {
		t.Fatalf("got %v, want %v", full.at, want)
	}
	few := routingPlaces{order: [][]int32{{0}, {2}, {3}, nil, nil, nil}}
	few.at = placesIn(shape(few.order...), plan)
	if want := full.at[:1]; !slices.Equal(few.at, want) {
		t.Fatalf("got %v, want %v", few.at, want)
	}
	for _, pair := range [][2]routingPlaces{{full, few}, {few, full}} {
		if both, ok := pair[0].with(pair[1]); !ok || !slices.Equal(both.at, full.at) {
			t.Errorf("joined: %v, %v", both.at, ok)
		}
	}
	shifted := routingPlaces{order: [][]int32{{0}, nil, {2}, {3}, {5}, {6}}}
	shifted.at = placesIn(shape(shifted.order...), plan)
	longer := routingPlaces{order: append(slices.Clone(full.order), []int32{6}), at: full.at}
	for _, other := range []routingPlaces{shifted, longer} {
		if both, ok := full.with(other); ok {
			t.Errorf("%v and %v are joined to %v", full.at, other.at, both.at)
		}
	}
}
