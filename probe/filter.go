// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
)

// Phases for a filter, as bits.
const (
	PhasePrefill = uint32(kernelPhaseBitPHASE_PREFILL)
	PhaseDecode  = uint32(kernelPhaseBitPHASE_DECODE)
	PhaseEncode  = uint32(kernelPhaseBitPHASE_ENCODE)
	PhaseUnknown = uint32(kernelPhaseBitPHASE_UNKNOWN)
)

// Filter selects the operators to keep. The zero value keeps all.
type Filter struct {
	Ops    bool    // only those passed to [Attachment.SetOps]
	Phases uint32  // of the current step; 0: all
	TIDs   []int32 // of these threads; none: all
}

// Any reports whether anything is filtered out.
func (f *Filter) Any() bool { return f.what() != 0 }

func (f *Filter) what() (w kernelFilterWhat) {
	if f.Ops {
		w |= kernelFilterWhatFILTER_OPS
	}
	if f.Phases != 0 {
		w |= kernelFilterWhatFILTER_PHASES
	}
	if len(f.TIDs) > 0 {
		w |= kernelFilterWhatFILTER_TIDS
	}
	return w
}

// maxTID is above every thread ID, for when the kernel does not report its limit (PID_MAX_LIMIT).
const maxTID = 1 << 22

func (f *Filter) set(spec *ebpf.CollectionSpec) error {
	if f.Ops {
		spec.Maps["begins"].MaxEntries = threadNumbers()
	}
	if err := spec.Variables["filtering"].Set(uint32(f.what())); err != nil {
		return fmt.Errorf("setting the filters: %w", err)
	}
	return nil
}

func (f *Filter) fill(o *kernelObjects) error {
	if !f.Any() {
		return nil
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

// threadNumbers returns a number above all thread IDs that the kernel assigns.
func threadNumbers() uint32 {
	b, err := os.ReadFile("/proc/sys/kernel/pid_max")
	if err != nil {
		return maxTID
	}
	return parsePIDMax(b)
}

func parsePIDMax(b []byte) uint32 {
	n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 32)
	if err != nil || n == 0 {
		return maxTID
	}
	return uint32(min(n+1, maxTID))
}

// resetFilter removes the filter of the number's previous owner.
func (a *Attachment) resetFilter() error {
	if !a.s.filter.Any() {
		return nil
	}
	if err := a.s.objs.Filters.Put(uint32(a.proc), kernelFilter{Phases: a.s.filter.Phases}); err != nil {
		return fmt.Errorf("process %d: setting its filter: %w", a.pid, err)
	}
	if err := a.s.objs.Phases.Put(uint32(a.proc), kernelOpenSteps{}); err != nil {
		return fmt.Errorf("process %d: setting its filter: %w", a.pid, err)
	}
	return nil
}

// SetOps selects the operators of a process to keep, by the engine's numbers for them (below 256), if the
// session filters by operator.
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
