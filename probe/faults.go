// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/profinfer/profinfer/trace"
)

// Faults selects the page faults of attached processes to record.
type Faults uint8

const (
	FaultsOff   Faults = iota
	FaultsMajor        // those that waited for a page, and others that read ahead or took long
	FaultsAll          // all
)

const (
	faultRing  = 1 << 22
	faultTable = 1 << 16 // maximum number of threads whose fault begins are kept
)

var (
	faultBegins   = []string{"fault_user", "fault_kernel"} // if the architecture has these tracepoints
	faultEnter    = []string{"fault_enter"}                // otherwise
	faultPrograms = []string{"fault_major", "fault_minor", "fault_exit"}
)

// faultSource is what is attached to the kernel to record faults.
type faultSource struct {
	mode  Faults
	begun bool // begins of faults are seen
	enter bool // begins are seen by a probe at a function's entry, which some kernels refuse
	links []link.Link
	fds   []int
	ring  *ring
}

// set configures the object before it is loaded.
func (f *faultSource) set(spec *ebpf.CollectionSpec) error {
	if f.mode == FaultsOff {
		return nil
	}
	kernel, err := btf.LoadKernelSpec()
	if err != nil {
		return &Missing{What: "page faults cannot be recorded: the kernel has no BTF (CONFIG_DEBUG_INFO_BTF)",
			Remedy: "record without --faults", Err: err}
	}
	_, err = kernel.AnyTypeByName("btf_trace_page_fault_user")
	var entry *btf.Func
	switch {
	case err == nil:
		f.begun = true
		without(spec, faultEnter)
	case kernel.TypeByName("handle_mm_fault", &entry) == nil:
		f.begun, f.enter = true, true
		without(spec, faultBegins)
	default:
		without(spec, faultBegins)
		without(spec, faultEnter)
	}
	vars := map[string]uint32{"fault_mask": faultTable - 1}
	if f.begun {
		vars["faults_begun"] = 1
	}
	if f.mode == FaultsAll {
		vars["faults_all"] = 1
	}
	for name, v := range vars {
		if err := spec.Variables[name].Set(v); err != nil {
			return fmt.Errorf("setting up page faults: %w", err)
		}
	}
	spec.Maps["fault_begins"].MaxEntries = faultTable
	spec.Maps["faults"].MaxEntries = faultRing
	return nil
}

// without replaces programs by ones that do nothing, which keeps the object's shape.
func without(spec *ebpf.CollectionSpec, names []string) {
	for _, name := range names {
		p := spec.Programs[name]
		p.Type, p.AttachTo, p.AttachType, p.Instructions = ebpf.SocketFilter, "", ebpf.AttachNone, nothing()
	}
}

// off removes the programs if no faults are requested: some kernels refuse them.
func (f *faultSource) off(spec *ebpf.CollectionSpec) {
	if f.mode == FaultsOff {
		without(spec, faultBegins)
		without(spec, faultEnter)
		without(spec, faultPrograms)
	}
}

// unbegun gives up the begins of faults if the kernel refuses the program at the function's entry.
func (f *faultSource) unbegun(spec *ebpf.CollectionSpec) error {
	f.begun, f.enter = false, false
	without(spec, faultEnter)
	return spec.Variables["faults_begun"].Set(uint32(0))
}

// attach starts recording faults.
func (f *faultSource) attach(o *kernelObjects, cpus int) (err error) {
	if f.mode == FaultsOff {
		return nil
	}
	if f.ring, err = mapRing(o.Faults); err != nil {
		return err
	}
	programs := []*ebpf.Program{o.FaultExit}
	switch {
	case f.enter:
		programs = append(programs, o.FaultEnter)
	case f.begun:
		programs = append(programs, o.FaultUser, o.FaultKernel)
	}
	for _, p := range programs {
		l, err := link.AttachTracing(link.TracingOptions{Program: p})
		if err != nil && p == o.FaultEnter {
			f.begun = false
			continue
		}
		if err != nil {
			return privilege("attaching to the kernel's tracepoints of page faults", err)
		}
		f.links = append(f.links, l)
	}
	for _, e := range []struct {
		config  uint64
		program *ebpf.Program
	}{{unix.PERF_COUNT_SW_PAGE_FAULTS_MAJ, o.FaultMajor}, {unix.PERF_COUNT_SW_PAGE_FAULTS_MIN,
		o.FaultMinor}} {
		for cpu := range cpus {
			fd, err := openFaults(e.config, cpu, e.program)
			if errors.Is(err, unix.ENODEV) {
				continue // that CPU is offline
			}
			if err != nil {
				return privilege("counting the kernel's page faults (perf_event_open)", err)
			}
			f.fds = append(f.fds, fd)
		}
	}
	if len(f.fds) == 0 {
		return errors.New("counting page faults: no CPU is online")
	}
	return nil
}

// openFaults runs a program at every fault on a CPU.
func openFaults(config uint64, cpu int, p *ebpf.Program) (int, error) {
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: config, Sample: 1,
		Sample_type: unix.PERF_SAMPLE_ADDR, Bits: unix.PerfBitDisabled}
	attr.Size = uint32(unsafe.Sizeof(attr))
	fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return -1, err
	}
	if err = unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_BPF, p.FD()); err == nil {
		err = unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_ENABLE, 0)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func (f *faultSource) close() (err error) {
	for _, fd := range f.fds {
		unix.Close(fd)
	}
	for _, l := range f.links {
		err = errors.Join(err, l.Close())
	}
	if f.ring != nil {
		f.ring.close()
	}
	*f = faultSource{}
	return err
}

// drain takes the faults; it returns false if it stopped at one that is not yet written.
func (f *faultSource) drain(e *Events) bool {
	e.Faults = e.Faults[:0]
	if f.ring == nil {
		return true
	}
	e.Fill = max(e.Fill, f.ring.fill())
	return f.ring.drain(e.fault)
}

// fault takes a record from the ring of faults.
func (e *Events) fault(rec []byte) {
	if len(rec) < int(unsafe.Sizeof(kernelFault{})) {
		return
	}
	k := (*kernelFault)(unsafe.Pointer(&rec[0]))
	f := trace.Fault{Time: int64(k.Ts), PID: int32(k.Tgid), TID: int32(k.Tid), CPU: uint16(k.Cpu),
		Kind: trace.FaultKind(k.Kind),
		Addr: k.Addr, Dur: -1, Read: int64(k.Read), Major: k.Major, Minor: k.Minor}
	if k.Dur != 0 {
		f.Dur = int64(k.Dur)
	}
	f.Read = max(f.Read, -1)
	e.Faults = append(e.Faults, f)
}

// FaultsTimed reports whether begins of faults are seen, so that their durations are known.
func (s *Session) FaultsTimed() bool { return s.faults.begun }
