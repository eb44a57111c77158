// SPDX-License-Identifier: Apache-2.0

// Package probe loads the kernel side, attaches it to the sites of a plan and drains its events. It knows no
// engine: the plan says what to read where.
package probe

import (
	"errors"
	"fmt"
	"math/bits"
	"os"
	"runtime"
	"sync/atomic"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/profinfer/profinfer/engine"
)

// Config configures a session.
type Config struct {
	// RingBytes is the size of each CPU's ring, rounded up to a power of two; 0 means 64 MiB over all CPUs,
	// with at least 256 KiB and at most 8 MiB each.
	RingBytes int
	// Sched records scheduling events of attached processes.
	Sched bool
	// Filter drops operators, already in the kernel.
	Filter Filter
	// Counters are read at operators' hits. They need Sched: without samples at context switches an operator
	// would be charged with counts of other threads.
	Counters Counters
	// Faults records page faults of attached processes.
	Faults Faults
	// Experts copies the routing of tokens to experts: see experts.go.
	Experts bool

	single bool // one link per site, as on kernels without uprobe_multi
}

// Session is the loaded kernel side with its rings.
type Session struct {
	objs     kernelObjects
	multi    bool      // uprobe_multi links (Linux 6.6), otherwise one perf event per site
	hits     []*buffer // of each CPU
	mapping  []byte    // all of them
	perCPU   []*ring   // scheduling
	inner    []*ebpf.Map
	marks    *ring
	defs     *ring
	routings *ring // nil: not requested
	// incremented when Attachment.SetRoutingPlaces changes something: running graphs then look it up again
	placesChanged uint32
	sched         []link.Link
	numbers
	lost Lost
	// SchedError is why there are no scheduling events, nil if there are.
	SchedError error
	counters   Counters
	filter     Filter
	faults     faultSource
	measured   *Attachment   // what Cost has probed; nil: nothing, or not any more
	unmeasured chan struct{} // closed when that is detached; nil: it was not begun
}

// Open loads the kernel side. Errors name what is missing (a privilege, a kernel feature) and what to do.
func Open(cfg Config) (*Session, error) {
	if err := Check(); err != nil {
		return nil, err
	}
	s := &Session{counters: cfg.Counters, filter: cfg.Filter, faults: faultSource{mode: cfg.Faults}}
	if !cfg.single {
		f, unused := Multi()
		s.multi = f.Err == nil && unused == ""
	}
	types := btf.NewCache()
	if cfg.Sched {
		go types.Kernel() // takes as long as verifying the programs that need no types
	}
	spec, err := loadKernel()
	if err != nil {
		return nil, fmt.Errorf("reading the BPF object: %w", err)
	}
	for _, p := range spec.Programs {
		if p.Type == ebpf.Kprobe {
			p.AttachType = ebpf.AttachNone
			if s.multi {
				p.AttachType = ebpf.AttachTraceUprobeMulti
			}
		}
	}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, fmt.Errorf("counting CPUs: %w", err)
	}
	total := ringBytes(cfg.RingBytes, cpus)
	size := max(total, os.Getpagesize())
	spec.Maps["rings"].MaxEntries = uint32(cpus)
	spec.Maps["rings"].InnerMap.MaxEntries = uint32(size)
	slots := max(total/slotBytes, minSlots, 4*cfg.Counters.slack())
	spec.Maps["buffers"].MaxEntries = uint32(cpus)
	spec.Maps["buffers"].ValueSize = uint32(bufferHead + slots*slotBytes)
	if err := spec.Variables["slot_mask"].Set(uint32(slots - 1)); err != nil {
		return nil, fmt.Errorf("setting the size of the rings: %w", err)
	}
	if err := spec.Variables["possible_cpus"].Set(uint32(cpus)); err != nil {
		return nil, fmt.Errorf("setting the number of CPUs: %w", err)
	}
	if err := cfg.Filter.set(spec); err != nil {
		return nil, err
	}

	if err := cfg.Counters.set(spec); err != nil {
		return nil, err
	}

	if err := s.faults.set(spec); err != nil {
		return nil, err
	}
	s.numbers.max = spec.Maps["sites"].MaxEntries
	if err := setRouting(spec, cfg.Experts, cpus); err != nil {
		return nil, err
	}

	rings := make(chan openedRings, 1)
	go func() { rings <- openRings(cpus, size) }()
	btfErr, err := s.load(spec.Copy(), cfg.Sched, types)
	if err != nil && s.faults.enter {
		if err := s.faults.unbegun(spec); err != nil {
			return nil, err
		}
		btfErr, err = s.load(spec, cfg.Sched, types)
	}
	opened := <-rings
	s.perCPU, s.inner = opened.rings, opened.maps
	if err != nil {
		s.Close()
		return nil, err
	}
	if err := cfg.Filter.fill(&s.objs); err != nil {
		s.Close()
		return nil, err
	}
	inner, err := cfg.Counters.fill(s.objs.Counters, cpus)
	s.inner = append(s.inner, inner...)
	if err != nil {
		s.Close()
		return nil, err
	}
	if s.hits, s.mapping, err = mapBuffers(s.objs.Buffers, cpus, slots); err != nil {
		s.Close()
		return nil, fmt.Errorf("rings of %d KiB for %d CPUs: %w (a smaller --ring-size may help)", total>>10,
			cpus, err)
	}
	if err = opened.err; err == nil {
		err = putAll(s.objs.Rings, opened.maps)
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("rings of %d KiB for %d CPUs: %w (a smaller --ring-size may help)", size>>10,
			cpus, err)
	}
	if s.marks, err = mapRing(s.objs.Marks); err == nil {
		s.defs, err = mapRing(s.objs.Defs)
	}
	if err == nil && cfg.Experts {
		s.routings, err = mapRing(s.objs.Routings)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	if err := s.faults.attach(&s.objs, cpus); err != nil {
		s.Close()
		return nil, err
	}
	if cfg.Sched {
		s.SchedError = btfErr
		if btfErr == nil {
			s.SchedError = s.attachSched()
		}
	}
	return s, nil
}

func ringBytes(want, cpus int) int {
	if want <= 0 {
		want = min(max(64<<20/cpus, 256<<10), 8<<20)
	}
	want = max(want, os.Getpagesize())
	return 1 << bits.Len(uint(want-1))
}

// load loads the object. It omits the scheduler's programs if the kernel has no BTF for them or refuses them
// (when locked down, it lets no program read its memory): noSched says why.
func (s *Session) load(spec *ebpf.CollectionSpec, sched bool, types *btf.Cache) (noSched, err error) {
	s.faults.off(spec)
	full := spec.Copy()
	if !sched {
		withoutSched(full)
	}
	opts := &ebpf.CollectionOptions{Cache: types}
	err = full.LoadAndAssign(&s.objs, opts)
	if err != nil && sched {
		withoutSched(spec)
		if spec.LoadAndAssign(&s.objs, opts) == nil {
			noSched = fmt.Errorf("no scheduling events: the kernel refuses their programs: %w", err)
			if _, err := types.Kernel(); err != nil {
				noSched = fmt.Errorf(
					"no scheduling events: the kernel has no BTF (CONFIG_DEBUG_INFO_BTF): %w", err)
			}
			return noSched, nil
		}
	}
	if err != nil {
		return nil, loadError(err)
	}
	return nil, nil
}

// openedRings are the scheduler's rings, one a CPU.
type openedRings struct {
	maps  []*ebpf.Map
	rings []*ring
	err   error
}

func openRings(cpus, size int) (o openedRings) {
	for range cpus {
		m, err := ebpf.NewMap(&ebpf.MapSpec{Name: "ring", Type: ebpf.RingBuf, MaxEntries: uint32(size)})
		if err != nil {
			o.err = err
			return o
		}
		o.maps = append(o.maps, m)
		r, err := mapRing(m)
		if err != nil {
			o.err = err
			return o
		}
		o.rings = append(o.rings, r)
	}
	return o
}

// putAll makes maps the elements of an array of maps. One by one the kernel waits for a grace period after
// each; it takes all at once since Linux 5.14.
func putAll(array *ebpf.Map, maps []*ebpf.Map) error {
	var keys, fds []uint32
	for i, m := range maps {
		keys, fds = append(keys, uint32(i)), append(fds, uint32(m.FD()))
	}
	if _, err := array.BatchUpdate(keys, fds, nil); err == nil {
		return nil
	}
	for i, m := range maps {
		if err := array.Put(uint32(i), m); err != nil {
			return err
		}
	}
	return nil
}

// withoutSched removes the scheduler's programs from the object; the others need no BTF.
func withoutSched(spec *ebpf.CollectionSpec) {
	for _, name := range []string{"sched_switch", "sched_wakeup", "sched_wakeup_new"} {
		// a program that does nothing keeps the object's shape
		spec.Programs[name].Type = ebpf.SocketFilter
		spec.Programs[name].AttachTo = ""
		spec.Programs[name].AttachType = ebpf.AttachNone
		spec.Programs[name].Instructions = nothing()
	}
}

func (s *Session) attachSched() error {
	for _, p := range []*ebpf.Program{s.objs.SchedSwitch, s.objs.SchedWakeup, s.objs.SchedWakeupNew} {
		l, err := link.AttachTracing(link.TracingOptions{Program: p})
		if err != nil {
			for _, l := range s.sched {
				l.Close()
			}
			s.sched = nil
			return fmt.Errorf("no scheduling events: attaching to the kernel's scheduler tracepoints: %w",
				err)
		}
		s.sched = append(s.sched, l)
	}
	return nil
}

// OutlivesMain reports whether a process's probes stay when its main thread ends before others. The kernel
// removes single links: they are events of that thread.
func (a *Attachment) OutlivesMain() bool { return a.s.multi }

// Multi reports whether the kernel has uprobe_multi links.
func (s *Session) Multi() bool { return s.multi }

// RingBytes returns the size of one CPU's ring of hits.
func (s *Session) RingBytes() int { return len(s.hits[0].slots) * slotBytes }

// Close detaches what is still attached to the kernel and frees the rings. The owners of attachments must
// have closed them before.
func (s *Session) Close() error {
	s.CostOver()
	s.costGone(true)
	var errs []error
	for _, l := range s.sched {
		errs = append(errs, l.Close())
	}
	errs = append(errs, s.faults.close())
	for _, r := range s.perCPU {
		r.close()
	}
	if s.mapping != nil {
		unix.Munmap(s.mapping)
	}
	if s.marks != nil {
		s.marks.close()
	}
	if s.defs != nil {
		s.defs.close()
	}
	if s.routings != nil {
		s.routings.close()
	}
	for _, m := range s.inner {
		m.Close()
	}
	errs = append(errs, s.objs.Close())
	return errors.Join(errs...)
}

// Drain empties the rings into e, definitions last: anything that a mark in e refers to was sent before it.
func (s *Session) Drain(e *Events) {
	e.reset()
	s.costGone(false)
	for cpu, b := range s.hits {
		e.Fill = max(e.Fill, float64(b.waiting())/float64(len(b.slots)))
		if !b.drain(uint16(cpu), &s.pids, &s.counters, e) {
			e.Complete = false
		}
	}
	for _, r := range s.perCPU {
		e.Fill = max(e.Fill, r.fill())
		if !r.drain(func(rec []byte) { e.scheduling(rec) }) {
			e.Complete = false
		}
	}
	if !s.faults.drain(e) {
		e.Complete = false
	}
	if s.routings != nil {
		e.Fill = max(e.Fill, s.routings.fill())
		if !s.routings.drain(e.routing) {
			e.Complete = false
		}
	}
	if !s.marks.drain(e.shared) {
		e.Complete = false
	}
	if !s.defs.drain(e.shared) {
		e.Complete = false
	}
}

// Redefine makes the kernel side send a shape's definition again when its next graph begins.
func (a *Attachment) Redefine(shape uint64) {
	// it may already be unknown
	_ = a.s.objs.Known.Delete(kernelShapeKey{Shape: shape, Owner: a.owner})
}

// Lost returns what was lost since the last call.
func (s *Session) Lost() Lost {
	var now Lost
	for _, b := range s.hits {
		for k := range kernelLostKindNUM_LOST {
			*now.of(k) += atomic.LoadUint64(&b.lost[k])
		}
	}
	d := now.sub(s.lost)
	s.lost = now
	return d
}

// Now returns the time of the clock used for all events: CLOCK_BOOTTIME in nanoseconds.
func Now() int64 {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts)
	return ts.Nano()
}

func kernelLayoutOf(l *engine.Layout) kernelLayout {
	k := kernelLayout{
		GraphN_nodes: l.GraphNNodes, GraphNodes: l.GraphNodes, GraphUid: l.GraphUID,
		TensorSize: min(l.TensorSize, uint16(len(kernelDef{}.Raw))), TensorSrc: l.TensorSrc,
		MaxSrc: l.MaxSrc, TensorViewSrc: l.TensorViewSrc,
		ParamsIth: l.ParamsIth, ParamsNth: l.ParamsNth, PlanThreads: l.PlanThreads,
		BatchN_tokens: l.BatchNTokens, BatchPos: l.BatchPos, BatchSeqId: l.BatchSeqID,
		BatchLogits: l.BatchLogits,
		VecBegin:    l.VecBegin, VecEnd: l.VecEnd, VecStride: l.VecStride, VecSeqHead: l.VecSeqHead,
		VecSeqVal: l.VecSeqVal, VecPos: l.VecPos, VecOutput: l.VecOutput,
	}
	k.TensorOp, k.TensorFlags = l.TensorOp, l.TensorFlags
	k.TensorNe, k.TensorNb, k.TensorData, k.RoutingOp, k.RoutingSrc = l.TensorNe, l.TensorNb, l.TensorData,
		l.ChooseOp, l.ChooseSrc
	if l.VecPosIndirect {
		k.VecPosIndirect = 1
	}
	k.Always = wordMask(l.Always, k.TensorSize)
	k.Own = wordMask(l.OwnData, k.TensorSize)
	return k
}

// wordMask marks the 4-byte words of a tensor that are in the regions.
func wordMask(regions []engine.Region, size uint16) (m [2]uint64) {
	for _, r := range regions {
		for off := r.Off &^ 3; off < r.Off+r.Len && off < size; off += 4 {
			m[off/4/64] |= 1 << (off / 4 % 64)
		}
	}
	return m
}

var errArch = fmt.Errorf("no eBPF programs for %s: amd64 and arm64 are supported", runtime.GOARCH)
