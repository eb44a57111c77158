// SPDX-License-Identifier: Apache-2.0

// Package memory analyses page faults, and how much of a model's files is in memory.
package memory

import (
	"cmp"
	"slices"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/internal/num"
	"github.com/profinfer/profinfer/trace"
)

// Stat sums up the page faults of a run. Times are ns, sizes bytes; nil: unknown.
type Stat struct {
	Which string `json:"which"` // "major": also minor ones that read or were slow; "all"
	Timed bool   `json:"timed"` // durations are known
	// Major and Minor are the kernel's counts for the recorded processes' threads, while these were recorded.
	Major *int64 `json:"major"`
	Minor *int64 `json:"minor"`
	// Seen counts the major faults that were recorded individually. NoAddress counts the others: the kernel
	// took them for a thread in a system call, such as one that populates a mapping, or they were lost.
	Seen      int64  `json:"major_seen"`
	NoAddress *int64 `json:"major_no_address"`
	// Own is the count in /proc/PID/stat of the processes since their start, where it could be read at the
	// end: the sum of Before and Major.
	Own    *int64 `json:"own_major"`
	Before *int64 `json:"major_before"` // before the recording
	// thread time in the faults seen, including slow and reading minor ones
	Wait *int64 `json:"wait_ns"`
	// Read is what the threads read from storage, by faults, read-ahead or calls. ReadFaults is what faults
	// read.
	Read       *int64     `json:"read_bytes"`
	ReadFaults int64      `json:"read_faults_bytes"`
	Classes    []FaultSum `json:"classes"` // by what they hit, the longest wait first
	// by weight over all layers, and other tensors and files; at most maxFaultNames
	Names  []FaultSum   `json:"names"`
	Phases []FaultPhase `json:"phases"` // includes an empty phase for faults outside any step
	Steps  []FaultStep  `json:"steps"`  // those that waited longest for the disk
	Files  []FileMemory `json:"files"`
}

// FaultSum sums up faults that hit one thing.
type FaultSum struct {
	Class profile.MemoryClass `json:"class"`
	Name  string              `json:"name,omitempty"`
	Type  string              `json:"type,omitempty"`
	Major int64               `json:"major"`
	Minor int64               `json:"minor"` // those that were recorded
	Wait  *int64              `json:"wait_ns"`
	Read  int64               `json:"read_bytes"`
}

// FaultPhase sums up the faults of a phase's steps.
type FaultPhase struct {
	Phase   string `json:"phase"`
	InStep  bool   `json:"in_step"`
	Steps   int64  `json:"steps"`
	Faulted int64  `json:"steps_with_major"`
	Dur     int64  `json:"dur_ns"` // of the steps
	Major   int64  `json:"major"`
	Minor   int64  `json:"minor"`
	Wait    *int64 `json:"wait_ns"` // thread time
	// Wall is the time in which at least one thread was in a major fault or in one that read from disk; Share
	// is its share of the steps' time.
	Wall  *int64   `json:"wall_ns"`
	Share *float64 `json:"share"`
	Read  int64    `json:"read_bytes"`
}

// FaultStep is a step that waited for pages.
type FaultStep struct {
	Step  int64  `json:"step"`
	Phase string `json:"phase"`
	Dur   int64  `json:"dur_ns"`
	Major int64  `json:"major"`
	Wait  *int64 `json:"wait_ns"`
	Wall  *int64 `json:"wall_ns"`
	Read  int64  `json:"read_bytes"`
}

const (
	maxFaultNames = 32
	maxFaultSteps = 8
	// maxNameSums bounds the names in the sums.
	maxNameSums = 1 << 14
)

// Collector computes a [Stat] while a run is replayed.
type Collector struct {
	any     bool
	Pid     int32 // 0: all
	Wanted  map[profile.Phase]bool
	procs   map[int32]*faultAccount
	threads map[faultThread]*threadCounts
	classes map[profile.MemoryClass]*FaultSum
	names   map[FaultSum]*FaultSum // by class, name and type
	phases  map[phaseKey]*FaultPhase
	steps   []FaultStep
	seen    int64
	wait    int64
	read    int64
	files   Residency
}

type faultThread struct{ pid, tid int32 }

type phaseKey struct {
	phase profile.Phase
	in    bool
}

// faultAccount is a process's own counts.
type faultAccount struct{ start, end *trace.Memory }

// threadCounts are a thread's own counts.
type threadCounts struct {
	major, minor, read             uint64 // last reported
	baseMajor, baseMinor, baseRead uint64
	noRead                         bool
	told                           bool // what it read was reported again after its beginning
}

func (b *Collector) skip(pid int32) bool { return b.Pid != 0 && pid != b.Pid }

// Memory takes a process's mappings and counts.
func (b *Collector) Memory(m *trace.Memory) {
	if b.skip(m.PID) {
		return
	}
	b.any = true
	b.files.Memory(m)
	if b.procs == nil {
		b.procs = map[int32]*faultAccount{}
	}
	p := b.procs[m.PID]
	if p == nil {
		p = &faultAccount{}
		b.procs[m.PID] = p
	}
	switch {
	case m.When == "start" && p.start == nil:
		p.start = m
	case m.When == "end":
		p.end = m
	}
}

func (b *Collector) Graph(g *profile.Graph) {
	if b.any && !b.skip(g.PID) {
		b.files.Graph(g)
	}
}

// Fault takes one record.
func (b *Collector) Fault(f *profile.Fault) {
	if b.skip(f.PID) {
		return
	}
	b.any = true
	b.count(&f.Fault)
	if f.Kind != trace.FaultMajor && f.Kind != trace.FaultMinor {
		return
	}
	major, minor := int64(1), int64(0)
	if f.Kind == trace.FaultMinor {
		major, minor = 0, 1
	}
	dur, read := max(f.Dur, 0), max(f.Read, 0)
	b.seen += major
	b.wait += dur
	b.read += read
	add := func(s *FaultSum) {
		s.Major += major
		s.Minor += minor
		*s.Wait += dur
		s.Read += read
	}
	if b.classes == nil {
		b.classes, b.names, b.phases = map[profile.MemoryClass]*FaultSum{}, map[FaultSum]*FaultSum{},
			map[phaseKey]*FaultPhase{}
	}
	c := b.classes[f.Class]
	if c == nil {
		c = &FaultSum{Class: f.Class, Wait: new(int64)}
		b.classes[f.Class] = c
	}
	add(c)
	k, _ := rowOfFault(f)
	n := b.names[k]
	if n == nil && len(b.names) < maxNameSums {
		n = &FaultSum{Class: k.Class, Name: k.Name, Type: k.Type, Wait: new(int64)}
		b.names[k] = n
	}
	if n != nil {
		add(n)
	}
	p := b.phase(f.Step)
	p.Major += major
	p.Minor += minor
	*p.Wait += dur
	p.Read += read
}

func (b *Collector) phase(s *profile.Step) *FaultPhase {
	k := phaseKey{in: s != nil}
	if s != nil {
		k.phase = s.Phase
	}
	p := b.phases[k]
	if p == nil {
		if b.phases == nil {
			b.phases = map[phaseKey]*FaultPhase{}
		}
		p = &FaultPhase{Phase: string(k.phase), InStep: k.in, Wait: new(int64)}
		if k.in {
			p.Wall = new(int64)
		}
		b.phases[k] = p
	}
	return p
}

// count tracks a thread's own counts.
func (b *Collector) count(f *trace.Fault) {
	if b.threads == nil {
		b.threads = map[faultThread]*threadCounts{}
	}
	k := faultThread{f.PID, f.TID}
	t := b.threads[k]
	base := false
	if t == nil {
		t = &threadCounts{}
		b.threads[k] = t
		// A thread that existed when recording began reported its counts then; others began with zero.
		p := b.procs[f.PID]
		switch {
		case f.Kind == trace.FaultCounts && (p == nil || p.start == nil || f.Time <= p.start.Time):
			base = true
			t.baseMajor, t.baseMinor, t.baseRead, t.noRead = f.Major, f.Minor, uint64(max(f.Read, 0)),
				f.Read < 0
		case p == nil || p.start == nil: // its beginning is not in the trace
			t.baseMajor, t.baseMinor, t.noRead = f.Major, f.Minor, true
			if f.Kind == trace.FaultMajor && t.baseMajor > 0 {
				t.baseMajor--
			} else if t.baseMinor > 0 {
				t.baseMinor--
			}
		}
	}
	t.major, t.minor = max(t.major, f.Major), max(t.minor, f.Minor)
	if f.Kind == trace.FaultCounts && f.Read >= 0 {
		t.read = max(t.read, uint64(f.Read))
		t.told = t.told || !base
	}
}

// Step takes a step, after its faults.
func (b *Collector) Step(s *profile.Step) {
	if !b.any || b.skip(s.PID) || b.Wanted != nil && !b.Wanted[s.Phase] {
		return
	}
	p := b.phase(s)
	p.Steps++
	p.Dur += s.Dur
	if s.MajorFaults > 0 {
		p.Faulted++
	}
	*p.Wall += s.FaultWall
	if s.MajorFaults == 0 && s.DiskRead == 0 {
		return
	}
	dur, wall := s.FaultDur, s.FaultWall
	b.steps = append(b.steps, FaultStep{Step: s.ID, Phase: string(s.Phase), Dur: s.Dur, Major: s.MajorFaults,
		Wait: &dur, Wall: &wall, Read: s.DiskRead})
	if len(b.steps) >= 4*maxFaultSteps {
		b.longest()
	}
}

func (b *Collector) longest() {
	slices.SortStableFunc(b.steps, func(x, y FaultStep) int {
		return cmp.Or(cmp.Compare(*y.Wall, *x.Wall), cmp.Compare(y.Major, x.Major),
			cmp.Compare(y.Read, x.Read))
	})
	b.steps = b.steps[:min(len(b.steps), maxFaultSteps)]
}

// Finish returns the sums; nil where faults were not recorded.
func (b *Collector) Finish(h *profile.Header) *Stat {
	which := h.Meta.Extra["faults"]
	if which == "" && !b.any {
		return nil
	}
	s := &Stat{Which: which, Timed: h.Meta.Extra["fault_times"] != "off", Seen: b.seen, ReadFaults: b.read,
		Classes: []FaultSum{}, Names: []FaultSum{}, Phases: []FaultPhase{}, Steps: []FaultStep{},
		Files: b.files.Files()}
	if s.Files == nil {
		s.Files = []FileMemory{}
	}
	b.accounts(s)
	if s.Timed {
		s.Wait = &b.wait
	}
	for _, c := range b.classes {
		s.Classes = append(s.Classes, *c)
	}
	for _, n := range b.names {
		s.Names = append(s.Names, *n)
	}
	slices.SortFunc(s.Classes, byFaultWait)
	slices.SortFunc(s.Names, byFaultWait)
	s.Names = s.Names[:min(len(s.Names), maxFaultNames)]
	for k, p := range b.phases {
		if k.in && b.Wanted != nil && !b.Wanted[k.phase] {
			continue
		}
		if p.Wall != nil {
			p.Share = num.Share(*p.Wall, p.Dur)
		}
		s.Phases = append(s.Phases, *p)
	}
	slices.SortFunc(s.Phases, func(x, y FaultPhase) int {
		if x.InStep != y.InStep {
			if x.InStep {
				return -1
			}
			return 1
		}
		return cmp.Compare(phaseOrder(x.Phase), phaseOrder(y.Phase))
	})
	b.longest()
	s.Steps = append(s.Steps, b.steps...)
	if !s.Timed {
		s.untimed()
	}
	return s
}

// byFaultWait orders sums by their time, the longest first.
func byFaultWait(x, y FaultSum) int {
	return cmp.Or(cmp.Compare(*y.Wait, *x.Wait), cmp.Compare(y.Major, x.Major), cmp.Compare(y.Minor, x.Minor),
		cmp.Compare(x.Class, y.Class), cmp.Compare(x.Name, y.Name), cmp.Compare(x.Type, y.Type))
}

func phaseOrder(p string) int {
	return slices.Index([]string{string(profile.Encode), string(profile.Prefill), string(profile.Decode),
		string(profile.Unknown)}, p)
}

// untimed removes times, which are unknown.
func (s *Stat) untimed() {
	for i := range s.Classes {
		s.Classes[i].Wait = nil
	}
	for i := range s.Names {
		s.Names[i].Wait = nil
	}
	for i := range s.Phases {
		s.Phases[i].Wait, s.Phases[i].Wall, s.Phases[i].Share = nil, nil, nil
	}
	for i := range s.Steps {
		s.Steps[i].Wait, s.Steps[i].Wall = nil, nil
	}
}

// accounts adds up what threads counted.
func (b *Collector) accounts(s *Stat) {
	if len(b.threads) == 0 {
		return
	}
	var major, minor, read, before int64
	knowRead, knowBefore := true, len(b.procs) > 0
	for _, t := range b.threads {
		major += int64(t.major - t.baseMajor)
		minor += int64(t.minor - t.baseMinor)
		if t.noRead || !t.told || t.read < t.baseRead {
			knowRead = false
		} else {
			read += int64(t.read - t.baseRead)
		}
	}
	s.Major, s.Minor = &major, &minor
	none := max(0, major-b.seen)
	s.NoAddress = &none
	if knowRead {
		s.Read = &read
	}
	var own int64
	knowOwn := len(b.procs) > 0
	for _, p := range b.procs {
		if p.start == nil || p.start.Major < 0 {
			knowBefore = false
		} else {
			before += p.start.Major
		}
		if p.end == nil || p.end.Major < 0 {
			knowOwn = false
		} else {
			own += p.end.Major
		}
	}
	if knowBefore {
		s.Before = &before
	}
	if knowOwn {
		s.Own = &own
	}
}
