// SPDX-License-Identifier: Apache-2.0

package record

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/probe"
	"github.com/profinfer/profinfer/record/internal/budget"
	"github.com/profinfer/profinfer/record/internal/order"
	"github.com/profinfer/profinfer/target"
	"github.com/profinfer/profinfer/trace"
)

// drain empties the rings into the trace.
func (r *recorder) drain() error {
	now := probe.Now()
	r.session.Drain(&r.events)
	lost, counted := r.session.Lost(), probe.Now()
	e := &r.events
	for i := range e.Defs {
		r.shapes.add(e.Defs[i])
	}
	for _, end := range e.ShapeEnds {
		p := r.find(int(end.PID))
		if p == nil || p.decoder == nil {
			continue
		}
		shape := r.shapes.end(end, p.decoder)
		if r.opt.Level >= engine.LevelOp && p.learn != nil {
			p.learn.Define(shape)
			r.routing(p, shape, end.OpSequence)
		}
		if err := r.writeShape(p, shape); err != nil {
			return err
		}
	}
	if err := r.writeMarks(e); err != nil {
		return err
	}
	if err := r.writeHits(e); err != nil {
		return err
	}
	if err := r.w.Sched(e.Sched); err != nil {
		return err
	}
	if err := r.w.Samples(until(r.stop, e.Samples, func(s *trace.Sample) int64 {
		return s.Time
	})); err != nil {
		return err
	}
	if err := r.writeFaults(e); err != nil {
		return err
	}
	if err := r.w.Experts(until(r.stop, e.Experts, func(x *trace.Experts) int64 {
		return x.Time
	})); err != nil {
		return err
	}
	if err := r.losses(lost, counted); err != nil {
		return err
	}
	if r.stop == 0 {
		if err := r.orphans(now); err != nil {
			return err
		}
		r.load.measure(now)
		if err := r.steer(now); err != nil {
			return err
		}
	}
	if err := r.letGo(); err != nil {
		return err
	}
	r.hanging()
	if err := r.cpus.sample(now, r.w); err != nil {
		return err
	}
	if err := r.tellAllowed(); err != nil {
		return err
	}
	if e.Complete {
		if err := r.w.Drain(now); err != nil {
			return err
		}
		if err := r.rotate(); err != nil {
			return err
		}
	}
	r.lastDrain = now
	r.prog.Elapsed = time.Since(r.began)
	r.prog.Bytes = r.w.Total()
	r.prog.Waiting = len(r.prog.Engines) == 0
	if r.opt.Progress != nil {
		r.opt.Progress(r.prog)
	}
	return nil
}

// until drops what came after the recording's end; end 0: it continues.
func until[T any](end int64, events []T, time func(*T) int64) []T {
	if end == 0 {
		return events
	}
	return slices.DeleteFunc(events, func(e T) bool { return time(&e) > end })
}

// rotate starts a new file when the current one is full.
func (r *recorder) rotate() error {
	if r.opt.SwitchSize == 0 || r.stop != 0 {
		return nil
	}
	if r.w.Full(r.opt.SwitchSize) && time.Since(r.rotated) > rotateAgain {
		var failed *trace.RotateError
		switch err := r.w.Rotate(max(r.opt.SwitchFiles-1, 0)); {
		case errors.As(err, &failed):
			if r.w.Size() > 2*r.opt.SwitchSize {
				return fmt.Errorf("%w; the recording ends, it has grown to twice its size", err)
			}
			r.rotated = time.Now()
			r.note(err.Error())
			if r.opt.Warn != nil {
				r.opt.Warn(err.Error())
			}
		case err != nil:
			return err
		}
		if err := r.retellMemory(); err != nil {
			return err
		}
	}
	for _, f := range r.w.Forgotten() { // their definitions are gone with the oldest file
		if p := r.procs[int(f.PID)]; p != nil && p.att != nil {
			p.att.Redefine(f.ID)
			p.learn.Drop(f.ID)
		}
	}
	return nil
}

// maxDetach bounds the processes that are detached at a time: each probe occupies a thread of profinfer.
const maxDetach = 8

// leave begins to detach an ended process, in parallel with everything else, as this takes long enough for
// another process to load its engine meanwhile.
func (r *recorder) leave(p *process) {
	if p.leaving {
		return
	}
	p.leaving = true
	p.att.Stop()
	r.leaving.Go(func() {
		r.detach <- struct{}{}
		p.att.Detach()
		<-r.detach
		r.gone <- p
	})
}

// letGo detaches ended processes. Their numbers are released once what they left in the rings was read.
func (r *recorder) letGo() error {
	for _, p := range r.ended {
		r.leave(p)
	}
	for more := true; more; {
		select {
		case p := <-r.gone:
			p.detached = true
		default:
			more = false
		}
	}
	var errs []error
	r.ended = slices.DeleteFunc(r.ended, func(p *process) bool {
		if !p.detached || !p.att.Drained() {
			return false
		}
		errs = append(errs, r.unseen(p))
		if r.procs[p.pid] == nil { // else the ID belongs to another process by now
			r.shapes.forget(int32(p.pid))
		}
		p.att.Release()
		r.admit()
		return true
	})
	return errors.Join(errs...)
}

// find returns the process with that PID: the live one, or the one that ended last.
func (r *recorder) find(pid int) *process {
	if p := r.procs[pid]; p != nil && p.att != nil {
		return p
	}
	for _, p := range slices.Backward(r.ended) {
		if p.pid == pid {
			return p
		}
	}
	return nil
}

// owner returns the process that a site belongs to; nil if its marks can no longer be written, as they would
// be attributed to the program that the process now runs.
func (r *recorder) owner(pid int, site uint32) *process {
	p := r.find(pid)
	if p == nil {
		return nil
	}
	if _, ok := p.index[site]; !ok {
		return nil
	}
	return p
}

// writeMarks writes boundary events and passes them to what steers the recording. In e they stay as written
// to the trace.
func (r *recorder) writeMarks(e *probe.Events) error {
	marks := e.Marks[:0] // the written ones
	for i := range e.Marks {
		m := &e.Marks[i]
		if r.stop != 0 && m.Time > r.stop {
			continue
		}
		p := r.owner(int(m.PID), m.Site)
		if p == nil {
			r.strays++ // from the program it ran before exec
			continue
		}
		m.Site = p.index[m.Site] // the trace's index
		if m.Kind == trace.MarkSyncBegin {
			m.Ctx = p.objects.outer(m.Backend())
		}
		r.thread(m.PID, m.TID)
		if !p.computes {
			// not earlier: until now its libraries may still have been about to be loaded
			p.computes = true
			r.schedules.raise()
			r.schedules.quiet()
		}
		if p.gov != nil && r.observe(p, m, e) {
			if r.stepsDone++; r.stepsDone == r.opt.Steps {
				r.stop = m.Time // anything later was not requested
			}
		}
		switch m.Kind {
		case trace.MarkStepBegin:
			r.prog.Steps++
		case trace.MarkSchedBegin:
			if !p.entries() { // each scheduler run is a step
				r.prog.Steps++
			}
			p.objects.sched = m.Scheduler()
			if err := r.backends(p, m.Scheduler()); err != nil {
				return err
			}
		case trace.MarkGraphBegin:
			if p.info.Sites[m.Site].Backend != trace.BackendCPU && p.objects.fresh(m.Backend()) {
				delete(p.scheds, p.objects.sched) // another one at the same address
				if err := r.backends(p, p.objects.sched); err != nil {
					return err
				}
			}
		}
		if news, unseen := p.matters.mark(m); news || unseen != "" {
			p.lack(unseen)
			if err := r.warnings(p); err != nil {
				return err
			}
		}
		marks = append(marks, *m)
	}
	e.Marks = marks
	if err := r.w.StepSeqs(e.Seqs); err != nil {
		return err
	}
	return r.w.Marks(e.Marks)
}

func (r *recorder) writeHits(e *probe.Events) error {
	e.Hits = until(r.stop, e.Hits, func(h *trace.Hit) int64 { return h.Time })
	var tid int32 // of the previous hit
	var main *order.Thread
	var gov *budget.Governor
	for i := range e.Hits {
		h := &e.Hits[i]
		if h.TID != tid {
			tid, main, gov = h.TID, nil, nil
			if p := r.procs[int(h.PID)]; p != nil && p.gov != nil {
				gov = p.gov
				if !p.stuck {
					main = p.learn.Thread(tid)
				}
			}
		}
		if main != nil {
			main.Hit(h)
		}
		if gov != nil {
			gov.Hit()
		}
		if h.TID != r.lastTID {
			r.lastTID = h.TID
			r.thread(h.PID, h.TID)
		}
	}
	r.prog.Hits += uint64(len(e.Hits))
	r.wrote = r.wrote || len(e.Hits) > 0 || len(e.Marks) > 0
	return r.w.Hits(e.Hits)
}

// maxThreads bounds the threads remembered as written.
const maxThreads = 1 << 16

type threadKey struct{ pid, tid int32 }

// renamed writes the new name of a thread that was already written.
func (r *recorder) renamed(pid, tid int, comm string) error {
	if comm == "" || !r.threads[threadKey{int32(pid), int32(tid)}] {
		return nil
	}
	return r.w.Threads([]trace.Thread{{PID: int32(pid), TID: int32(tid), Comm: comm}})
}

// thread writes a thread that is seen for the first time.
func (r *recorder) thread(pid, tid int32) {
	k := threadKey{pid, tid}
	if r.threads[k] {
		return
	}
	if len(r.threads) >= maxThreads {
		clear(r.threads)
	}
	r.threads[k] = true
	comm, _ := target.ThreadComm(int(pid), int(tid))
	r.w.Threads([]trace.Thread{r.allowed.first(trace.Thread{PID: pid, TID: tid, Comm: comm})})
}

// losses writes what was lost since the last drain began, until it was counted: that is later than when this
// drain began, by far where the recorder had no CPU meanwhile.
func (r *recorder) losses(l probe.Lost, now int64) error {
	if l.Hits+l.Marks > 0 {
		for _, p := range r.procs {
			p.learn.Forget()
		}
	}
	l.Marks += r.strays
	r.strays = 0
	l.Defs += r.shapes.Dropped
	r.shapes.Dropped = 0
	for _, k := range []struct {
		what string
		n    uint64
	}{{trace.LostHits, l.Hits}, {trace.LostMarks, l.Marks}, {trace.LostDefinitions, l.Defs}, {trace.LostSched,
		l.Sched}, {trace.LostReads, l.Reads}, {trace.LostFaults, l.Faults}, {trace.LostExperts, l.Experts}} {
		if k.n == 0 {
			continue
		}
		if err := r.w.Loss(trace.Loss{Start: r.lastDrain, End: now, Why: trace.WhyLost, What: k.what,
			Events: k.n, CPU: -1}); err != nil {
			return err
		}
	}
	if l.Filtered > 0 {
		if err := r.w.Loss(trace.Loss{Start: r.lastDrain, End: now, Why: trace.WhyFiltered,
			What: trace.LostHits, Events: l.Filtered, CPU: -1}); err != nil {
			return err
		}
	}
	if l.Others > 0 { // who else ran, more often than is recorded
		if err := r.w.Loss(trace.Loss{Start: r.lastDrain, End: now, Why: trace.WhyFiltered,
			What: trace.LostOthers, Events: l.Others, CPU: -1}); err != nil {
			return err
		}
	}
	r.lostSum.Hits += l.Hits
	r.prog.Lost += l.Total()
	return nil
}
