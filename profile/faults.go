// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"slices"
	"sort"

	"github.com/profinfer/profinfer/profile/internal/where"
	"github.com/profinfer/profinfer/trace"
)

// MemoryClass is what a page of a process is used for.
type MemoryClass = where.Class

const (
	MemExpert  = where.Expert
	MemWeight  = where.Weight
	MemCache   = where.Cache
	MemCompute = where.Compute
	MemFile    = where.File
	MemProgram = where.Program
	MemStack   = where.Stack
	MemOther   = where.Other
)

// FaultPlace says what an address is used for.
type FaultPlace = where.Place

// Fault is one page fault with the memory it hit and the work it delayed.
type Fault struct {
	ofEngine
	trace.Fault
	Step *Step // in which it completed; nil: in none
	Op   *Op   // that its thread was in; nil: in none. Valid until its step is emitted
	OpID int64 // ID of Op; 0: none
	FaultPlace
}

// Waits reports whether the fault waits for the disk: a major fault, or another one that caused a read.
func (f *Fault) Waits() bool {
	return f.Kind == trace.FaultMajor || f.Kind == trace.FaultMinor && f.Read > 0
}

// Begin is when the fault began or, where that was not seen, when it completed.
func (f *Fault) Begin() int64 { return f.Time - max(f.Dur, 0) }

// maxFaults bounds the faults that wait for their step.
const maxFaults = 1 << 18

// faultJoin joins faults with the operators and steps in which they completed, before these are emitted.
type faultJoin struct {
	to     Sink
	procs  map[int32]*faultProc
	replay *replayer
}

// faultProc holds one process's pending faults.
type faultProc struct {
	waiting []*Fault // in time order
	spans   []Span   // time in faults, of the step that ends
	where   where.Map
}

// joinFaults adds faults to a replayer's sink, if it needs them.
func (p *replayer) joinFaults() {
	if p.sink.Needs()&NeedFaults != 0 {
		p.faults = &faultJoin{to: p.sink, procs: map[int32]*faultProc{}, replay: p}
	}
}

func (j *faultJoin) proc(pid int32) *faultProc {
	q := j.procs[pid]
	if q == nil {
		q = &faultProc{}
		j.procs[pid] = q
	}
	return q
}

func (p *replayer) memory(m *trace.Memory) error {
	if p.faults == nil {
		return nil
	}
	p.faults.proc(m.PID).where.Mapped(m)
	return p.faults.to.Memory(m)
}

func (p *replayer) Faulted(f *trace.Fault) error {
	p.seen(f.Time)
	if p.faults == nil {
		return nil
	}
	q := p.faults.proc(f.PID)
	if len(q.waiting) >= maxFaults {
		if err := p.faults.emit(q, q.waiting[:maxFaults/2], nil); err != nil {
			return err
		}
		q.waiting = slices.Delete(q.waiting, 0, maxFaults/2)
	}
	x := &Fault{Fault: *f}
	if r := p.procs[f.PID]; r != nil {
		x.ofEngine = r.ofEngine
	}
	q.waiting = append(q.waiting, x)
	return nil
}

// op takes an operator: faults of its threads between begin and arrival belong to it.
func (j *faultJoin) op(o *Op) {
	if j == nil {
		return
	}
	if q := j.procs[PidOf(o)]; q != nil && len(q.waiting) > 0 {
		q.match(o)
	}
}

func (q *faultProc) match(o *Op) {
	from := sort.Search(len(q.waiting), func(i int) bool { return q.waiting[i].Time > o.Start })
	var in []int64 // time in faults, by thread
	for _, f := range q.waiting[from:] {
		if f.Time > o.Start+o.Dur {
			break
		}
		if f.Kind == trace.FaultCounts || f.Op != nil {
			continue
		}
		for i := range o.Threads {
			t := &o.Threads[i]
			if t.TID != f.TID || f.Time <= t.Start || f.Time > t.Arrival() {
				continue
			}
			f.Op, f.OpID = o, o.ID
			// The operator's own tensors decide first: others may have been at this address before.
			f.FaultPlace = o.place(f.Addr)
			if f.Kind == trace.FaultMajor {
				o.MajorFaults++
			}
			if f.Waits() {
				if in == nil {
					in = make([]int64, len(o.Threads))
				}
				d := f.Time - max(f.Begin(), t.Start)
				in[i] += d
				o.FaultDur += d
			}
			break
		}
	}
	if in == nil {
		return
	}
	var last int64 // the arrival if there had been no faults
	for i := range o.Threads {
		last = max(last, o.Threads[i].Arrival()-in[i]-o.Start)
	}
	o.FaultDelay = max(0, o.Dur-last)
}

// Arrival is when a thread arrived at the operator's end, or its begin if the arrival was not seen.
func (t *OpThread) Arrival() int64 { return t.Start + t.Busy + t.OffCPU }

// step takes a step: faults during it belong to it, and those before every open step belong to none.
func (j *faultJoin) step(s *Step) error {
	if j == nil {
		return nil
	}
	q := j.procs[s.PID]
	if q == nil || len(q.waiting) == 0 {
		return nil
	}
	open := s.Start
	if p := j.replay.procs[s.PID]; p != nil {
		for _, t := range p.threads {
			for _, o := range t.steps {
				open = min(open, o.Start)
			}
			for _, o := range t.pending {
				open = min(open, o.Start)
			}
		}
	}
	end := s.Start + s.Dur
	var done, rest []*Fault
	for _, f := range q.waiting {
		switch {
		case f.Op != nil && f.Op.Step != nil && f.Op.Step != s && f.Time >= open:
			rest = append(rest, f)
		case f.Time > end || f.Time < s.Start && f.Time >= open:
			rest = append(rest, f)
		default:
			done = append(done, f)
		}
	}
	q.waiting = rest
	q.spans = q.spans[:0]
	if err := j.emit(q, done, s); err != nil {
		return err
	}
	s.FaultWall = Union(q.spans)
	return nil
}

// emit hands faults to the sink; s is the step that ends.
func (j *faultJoin) emit(q *faultProc, fs []*Fault, s *Step) error {
	for _, f := range fs {
		switch {
		case f.Op != nil && f.Op.Step != nil:
			f.Step = f.Op.Step
		case s != nil && f.Time >= s.Start && f.Time <= s.Start+s.Dur:
			f.Step = s
		}
		if f.Class == "" && f.Kind != trace.FaultCounts {
			f.FaultPlace = q.place(j.replay.procs[f.PID], f.Addr)
		} else if f.Kind != trace.FaultCounts {
			f.File = q.where.File(f.Addr)
		}
		if f.Step != nil {
			f.Step.fault(f)
			if f.Step == s && f.Waits() && f.Dur > 0 {
				q.spans = append(q.spans, Span{max(f.Begin(), s.Start), f.Time})
			}
		}
		if err := j.to.Fault(f); err != nil {
			return err
		}
	}
	return nil
}

// fault adds a fault to its step.
func (s *Step) fault(f *Fault) {
	if f.Kind == trace.FaultMajor {
		s.MajorFaults++
	}
	if f.Waits() {
		s.FaultDur += max(f.Dur, 0)
		s.DiskRead += max(f.Read, 0)
	}
}

// place returns which of an operator's own tensors contains an address; the zero value: none.
func (o *Op) place(addr uint64) (p FaultPlace) {
	if o.Shape == nil || o.Shape.Shape == nil {
		return p
	}
	return where.OfOperator(o.Shape.Nodes, o.Shape.Vocabulary(), append([]int32{o.Node}, o.Fused...), addr)
}

// place returns what an address is used for; p is nil where nothing else of the process was seen.
func (q *faultProc) place(p *Proc, addr uint64) FaultPlace {
	if p != nil {
		p.LearnInto(&q.where)
	}
	return q.where.Place(addr)
}

// LearnInto tells of the tensors of the process's graph definitions.
func (q *Proc) LearnInto(m *where.Map) {
	for _, sh := range q.Shapes {
		m.Learn(sh.Shape, sh.Vocabulary())
	}
}

// rest emits the remaining faults at the end.
func (j *faultJoin) rest() error {
	for _, q := range j.procs {
		if err := j.emit(q, q.waiting, nil); err != nil {
			return err
		}
		q.waiting = nil
	}
	return nil
}
