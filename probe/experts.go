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

// Choices: operators of which each token uses a part of the weights only, those that a source of theirs
// names (bpf/experts.h). What it names is copied while the operator runs, by the graph's main thread.

// MaxChosen is how many numbers a row has at most; larger ones are counted as reads that failed.
const MaxChosen = int32(kernelLimitMAX_USED)

const (
	chosenHead  = int(unsafe.Offsetof(kernelChosen{}.Expert))
	choiceBytes = 4 << 20 // of the ring: the prefill of 512 tokens by 60 layers of 8 experts takes 1 MiB
	runnerSlots = 1 << 14
	maxKins     = 64 // of all processes
)

// setChoices prepares the object before it is loaded.
func setChoices(spec *ebpf.CollectionSpec, on bool, cpus int) error {
	if !on {
		spec.Maps["kins"].MaxEntries = 1
		spec.Maps["kin_of"].MaxEntries = 64
		return nil
	}
	spec.Maps["choices"].MaxEntries = choiceBytes
	spec.Maps["chosen_rooms"].MaxEntries = uint32(cpus)
	spec.Maps["runners"].MaxEntries = runnerSlots
	spec.Maps["kins"].MaxEntries = maxKins
	for name, v := range map[string]uint32{"choosing": 1, "runner_mask": runnerSlots - 1} {
		if err := spec.Variables[name].Set(v); err != nil {
			return fmt.Errorf("setting up the recording of experts: %w", err)
		}
	}
	return nil
}

// chosen takes a record of the ring of choices.
func (e *Events) chosen(rec []byte) {
	if len(rec) < chosenHead {
		return
	}
	c := (*kernelChosen)(unsafe.Pointer(&rec[0]))
	n := int(c.N)
	if n > (len(rec)-chosenHead)/4 {
		return
	}
	e.picked = slices.Grow(e.picked, n)
	from := len(e.picked)
	e.picked = append(e.picked, unsafe.Slice(&c.Expert[0], n)...)
	e.Choices = append(e.Choices, trace.Experts{Time: int64(c.Ts), PID: int32(c.Tgid), TID: int32(c.Tid), Node: c.Node, Source: c.Source,
		Used: int32(c.Used), Tokens: int32(c.Tokens), First: int32(c.First), Chosen: e.picked[from:len(e.picked):len(e.picked)]})
}

// Chooser is an operator that chooses, in graphs of one kin: which node it is, and how many operators end
// before it.
type Chooser struct{ Arrival, Node uint32 }

// dropAll forgets all of a process.
func (a *Attachment) dropAll() {
	for len(a.kins) > 0 {
		a.DropChoosers(a.kins[0])
	}
}

// SetChoosers says where graphs of a kin choose, in the order of their arrivals, for as long as only those are
// probed. It returns false where there are more of them, or more kins, than the kernel side has room for: then
// begins have to be probed.
func (a *Attachment) SetChoosers(kin uint64, at []Chooser) (bool, error) {
	k := kernelKin{N: uint32(len(at))}
	if len(at) >= len(k.At) {
		return false, nil
	}
	for i, c := range at {
		k.At[i].Arrival, k.At[i].Node = c.Arrival, c.Node
	}
	err := a.s.objs.Kins.Put(kernelKinKey{Kin: kin, Owner: a.owner}, &k)
	switch {
	case err == nil:
		a.kins = append(a.kins, kin)
		a.s.kinChanges++
		if err := a.s.objs.KinChanges.Put(uint32(0), a.s.kinChanges); err != nil {
			return false, fmt.Errorf("process %d: telling that it is known where its graphs choose: %w", a.pid, err)
		}
		return true, nil
	case errors.Is(err, unix.E2BIG), errors.Is(err, unix.ENOMEM):
		return false, nil
	}
	return false, fmt.Errorf("process %d: setting where its graphs choose: %w", a.pid, err)
}

// DropChoosers forgets where graphs of a kin choose.
func (a *Attachment) DropChoosers(kin uint64) {
	_ = a.s.objs.Kins.Delete(kernelKinKey{Kin: kin, Owner: a.owner}) // it may be unknown already
	a.kins = slices.DeleteFunc(a.kins, func(k uint64) bool { return k == kin })
}
