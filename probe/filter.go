// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"

	"github.com/cilium/ebpf"
)

// Phases for a filter, as bits.
const (
	PhasePrefill = 1
	PhaseDecode  = 2
	PhaseEncode  = 4
	PhaseUnknown = 8
)

// Filter says which operators are kept. The zero value keeps all.
type Filter struct {
	Ops    bool    // only those that [Attachment.SetOps] names
	Phases uint32  // of the step under way; 0: all
	TIDs   []int32 // of these threads; none: all
}

const (
	filterOps = 1 << iota
	filterPhases
	filterTIDs
)

// Any tells whether anything is left out.
func (f *Filter) Any() bool { return f.what() != 0 }

func (f *Filter) what() (w uint32) {
	if f.Ops {
		w |= filterOps
	}
	if f.Phases != 0 {
		w |= filterPhases
	}
	if len(f.TIDs) > 0 {
		w |= filterTIDs
	}
	return w
}

func (f *Filter) set(spec *ebpf.CollectionSpec) error {
	if err := spec.Variables["filtering"].Set(f.what()); err != nil {
		return fmt.Errorf("setting the filters: %w", err)
	}
	return nil
}

func (f *Filter) fill(o *kernelObjects) error {
	if !f.Any() {
		return nil
	}
	for proc := range o.Filters.MaxEntries() {
		if err := o.Filters.Put(proc, kernelFilter{Phases: f.Phases}); err != nil {
			return fmt.Errorf("setting the filters: %w", err)
		}
	}
	if n := int(o.Tids.MaxEntries()); len(f.TIDs) > n {
		return fmt.Errorf("%d threads are more than the %d that can be filtered", len(f.TIDs), n)
	}
	for _, tid := range f.TIDs {
		if err := o.Tids.Put(uint32(tid), uint8(1)); err != nil {
			return fmt.Errorf("setting the filter of thread %d: %w", tid, err)
		}
	}
	return nil
}

// SetOps says which operators of a process are kept, by the engine's numbers for them (below
// 256), where the session filters by operator.
func (a *Attachment) SetOps(ops []int) error {
	var k kernelFilter
	if err := a.s.objs.Filters.Lookup(uint32(a.proc), &k); err != nil {
		return fmt.Errorf("process %d: reading its filter: %w", a.pid, err)
	}
	k.Ops = [4]uint64{}
	for _, op := range ops {
		if op < 0 || op >= 256 {
			return fmt.Errorf("process %d: operator %d cannot be filtered: numbers below 256 can", a.pid, op)
		}
		k.Ops[op/64] |= 1 << (op % 64)
	}
	if err := a.s.objs.Filters.Put(uint32(a.proc), k); err != nil {
		return fmt.Errorf("process %d: setting its filter: %w", a.pid, err)
	}
	return nil
}
