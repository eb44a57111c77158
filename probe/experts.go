// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/profinfer/profinfer/trace"
)

// Choices: operators of which each token uses only some of the weights, selected by one of their sources
// (bpf/experts.h). The selection is copied by the graph's main thread while the operator runs.

const (
	routingHead  = int(unsafe.Offsetof(kernelRouting{}.Expert))
	routingBytes = 4 << 20 // ring size: the prefill of 512 tokens by 60 layers of 8 experts takes 1 MiB
	graphThreads = 1 << 14
	maxSequences = 64 // over all processes
)

// setRouting configures the object before it is loaded.
func setRouting(spec *ebpf.CollectionSpec, on bool, cpus int) error {
	if !on {
		spec.Maps["places_of"].MaxEntries = 1
		spec.Maps["op_sequence_of"].MaxEntries = 64
		return nil
	}
	spec.Maps["routings"].MaxEntries = routingBytes
	spec.Maps["routing_rooms"].MaxEntries = uint32(cpus)
	spec.Maps["graph_threads"].MaxEntries = graphThreads
	spec.Maps["places_of"].MaxEntries = maxSequences
	for name, v := range map[string]uint32{"routing_wanted": 1, "graph_thread_mask": graphThreads - 1} {
		if err := spec.Variables[name].Set(v); err != nil {
			return fmt.Errorf("setting up the recording of experts: %w", err)
		}
	}
	return nil
}

// routing takes a record from the routing ring.
func (e *Events) routing(rec []byte) {
	if len(rec) < routingHead {
		return
	}
	c := (*kernelRouting)(unsafe.Pointer(&rec[0]))
	n := int(c.N)
	if n > (len(rec)-routingHead)/4 {
		return
	}
	e.numbers = slices.Grow(e.numbers, n)
	from := len(e.numbers)
	e.numbers = append(e.numbers, unsafe.Slice(&c.Expert[0], n)...)
	e.Experts = append(e.Experts, trace.Experts{Time: int64(c.Ts), PID: int32(c.Tgid), TID: int32(c.Tid),
		Node: c.Node, Source: c.Source,
		Used: int32(c.Used), Tokens: int32(c.Tokens), First: int32(c.First),
		Chosen: e.numbers[from:len(e.numbers):len(e.numbers)]})
}

// RoutingPlace is an operator that routes tokens to experts, in graphs with the same sequence of operators:
// its node, and how many operators end before it.
type RoutingPlace struct{ Arrival, Node uint32 }

// dropAll forgets everything about a process.
func (a *Attachment) dropAll() {
	for len(a.sequences) > 0 {
		a.DropRoutingPlaces(a.sequences[0])
	}
}

// SetRoutingPlaces declares where graphs with a sequence of operators route tokens, in the order of their
// arrivals, for as long as only arrivals are probed. It returns false if there are more places, or more
// sequences, than the kernel side has room for: then begins must be probed.
func (a *Attachment) SetRoutingPlaces(opSequence uint64, at []RoutingPlace) (bool, error) {
	k := kernelRoutingPlaces{N: uint32(len(at))}
	if len(at) >= len(k.At) {
		return false, nil
	}
	for i, p := range at {
		k.At[i].Arrival, k.At[i].Node = p.Arrival, p.Node
	}
	err := a.s.objs.PlacesOf.Put(kernelOpSequenceKey{OpSequence: opSequence, Owner: a.owner}, &k)
	switch {
	case err == nil:
		a.sequences = append(a.sequences, opSequence)
		a.s.placesChanged++
		if err := a.s.objs.PlacesChanged.Put(uint32(0), a.s.placesChanged); err != nil {
			return false, fmt.Errorf("process %d: telling that it is known where its graphs choose experts: %w", a.pid, err)
		}
		return true, nil
	case errors.Is(err, unix.E2BIG), errors.Is(err, unix.ENOMEM):
		return false, nil
	}
	return false, fmt.Errorf("process %d: setting where its graphs choose experts: %w", a.pid, err)
}

// DropRoutingPlaces forgets the places of graphs with a sequence of operators.
func (a *Attachment) DropRoutingPlaces(opSequence uint64) {
	// it may already be unknown
	_ = a.s.objs.PlacesOf.Delete(kernelOpSequenceKey{OpSequence: opSequence, Owner: a.owner})
	a.sequences = slices.DeleteFunc(a.sequences, func(s uint64) bool { return s == opSequence })
}
