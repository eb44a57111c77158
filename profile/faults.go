// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"slices"
	"sort"

	"github.com/profinfer/profinfer/trace"
)

// MemoryClass is what a page of a process is for.
type MemoryClass string

const (
	MemExpert  MemoryClass = "expert"  // a weight of which a token uses some experts only
	MemWeight  MemoryClass = "weight"  // any other weight
	MemCache   MemoryClass = "cache"   // what outlives a step: keys, values, recurrent states
	MemCompute MemoryClass = "compute" // results of operators and inputs of the graph
	MemFile    MemoryClass = "file"    // a file that is no program, where no tensor is known to lie
	MemProgram MemoryClass = "program" // code and data of the program and its libraries
	MemStack   MemoryClass = "stack"
	MemOther   MemoryClass = "other" // anonymous memory where no tensor is known to lie, or not known at all
)

// Fault is one page fault with what it hit and what it delayed.
type Fault struct {
	ofEngine
	trace.Fault
	Step *Step // in which it was done; nil: in none
	Op   *Op   // that its thread was in; nil: in none. Valid until its step was handed on
	OpID int64 // of Op; 0: none
	FaultPlace
}

// FaultPlace is what an address is for.
type FaultPlace struct {
	Class  MemoryClass
	Tensor string // empty: none is known to lie there
	Type   string // of the tensor
	Expert int32  // number of the expert; -1: no expert's weights
	File   string // that is mapped there, "[heap]" and the like; empty: none, or not known
}

// Waits tells faults that wait for the disk: major ones, and others that had something read.
func (f *Fault) Waits() bool {
	return f.Kind == trace.FaultMajor || f.Kind == trace.FaultMinor && f.Read > 0
}

// Begin is when the fault began; where that was not seen, when it was done.
func (f *Fault) Begin() int64 { return f.Time - max(f.Dur, 0) }

// maxFaults bounds the faults that wait for their step.
const maxFaults = 1 << 18

// faultJoin puts faults together with the operators and steps in which they were done, before these are
// handed on.
type faultJoin struct {
	to     Sink
	procs  map[int32]*faultProc
	replay *replayer
}

// faultProc is one process's faults under way.
type faultProc struct {
	waiting []*Fault // in order of time
	spans   []Span   // in faults, of the step that ends
	where   Whereabouts
}

// joinFaults lets a replayer's sink have faults, if it needs them.
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
	p.faults.proc(m.PID).where.mapped(m)
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

// op takes an operator: faults of its threads between their begin and their arrival are its.
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
	var in []int64 // of each thread, its time in faults
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
			// What it hit is told by its own tensors first: others may have lain there before.
			f.FaultPlace = opPlace(o, f.Addr)
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
	var last int64 // arrival, had there been no faults
	for i := range o.Threads {
		last = max(last, o.Threads[i].Arrival()-in[i]-o.Start)
	}
	o.FaultDelay = max(0, o.Dur-last)
}

// Arrival is when a thread arrived at the operator's end; its begin if that was not seen.
func (t *OpThread) Arrival() int64 { return t.Start + t.Busy + t.OffCPU }

// step takes a step: faults in it are its, those before every step that is under way are in none.
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

// emit hands faults on; s is the step that ends.
func (j *faultJoin) emit(q *faultProc, fs []*Fault, s *Step) error {
	for _, f := range fs {
		switch {
		case f.Op != nil && f.Op.Step != nil:
			f.Step = f.Op.Step
		case s != nil && f.Time >= s.Start && f.Time <= s.Start+s.Dur:
			f.Step = s
		}
		if f.Class == "" && f.Kind != trace.FaultCounts {
			f.FaultPlace = q.where.place(j.replay.procs[f.PID], f.Addr)
		} else if f.Kind != trace.FaultCounts {
			f.File = q.where.file(f.Addr)
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

// rest hands on what is left at the end.
func (j *faultJoin) rest() error {
	for _, q := range j.procs {
		if err := j.emit(q, q.waiting, nil); err != nil {
			return err
		}
		q.waiting = nil
	}
	return nil
}
