// SPDX-License-Identifier: Apache-2.0

package record

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/probe"
	"github.com/profinfer/profinfer/trace"
)

// observe takes a boundary for what steers the operators' probes. It returns whether a step ended.
func (r *recorder) observe(p *process, m *trace.Mark, e *probe.Events) bool {
	if r.opt.Level >= engine.LevelOp && !p.stuck {
		switch m.Kind {
		case trace.MarkStepBegin, trace.MarkStepEnd, trace.MarkSchedBegin, trace.MarkSchedEnd:
			p.learn.Mark(m)
		}
	}
	begin, end := trace.MarkStepBegin, trace.MarkStepEnd
	if !p.entries() { // each run of the scheduler is a step
		begin, end = trace.MarkSchedBegin, trace.MarkSchedEnd
	}
	switch m.Kind {
	case begin:
		p.gov.Begin(m, p.decodes(m, e.Seqs))
	case end:
		return p.gov.End(m)
	case trace.MarkGraphBegin, trace.MarkGraphEnd:
		if r.opt.Level < engine.LevelOp || p.info.Sites[m.Site].Backend != trace.BackendCPU {
			break
		}
		if !p.stuck { // nobody would take them
			p.learn.Mark(m)
		}
		if m.Kind == trace.MarkGraphBegin && m.Threads > 0 {
			p.threads = int(m.Threads)
			if p.threads > p.cpus {
				p.cpus = cpusOf(p.pid) // it may have been changed
			}
			if p.threads > p.cpus {
				p.crowded = time.Now()
			}
		}
	}
	return false
}

// decodes tells whether a step has one token a sequence, where batches can be read; else it may.
func (p *process) decodes(m *trace.Mark, seqs []trace.StepSeq) bool {
	if !p.plan.Features.Batches {
		return true
	}
	for i := range seqs {
		if s := &seqs[i]; s.Time == m.Time && s.TID == m.TID && s.NTokens > 1 {
			return false
		}
	}
	return m.NTokens >= 0
}

// cpusOf returns how many CPUs a process may run on.
func cpusOf(pid int) int {
	var set unix.CPUSet
	if unix.SchedGetaffinity(pid, &set) != nil {
		return 1 << 16 // it has ended
	}
	return set.Count()
}

// steer sets and takes away operators' probes: what is known of a graph needs half of them, and the
// budget and the floor for service need none for a while.
func (r *recorder) steer(now int64) error {
	if r.opt.Level < engine.LevelOp {
		return nil
	}
	for _, p := range r.procs {
		if p.att == nil || p.gov == nil || !p.computes || p.stuck {
			continue
		}
		mode := p.att.Mode()
		p.learn.Idle = r.twoHits(p)
		for _, s := range p.learn.Advance(r.lastDrain, mode, p.since) {
			if err := r.writeShape(p, s); err != nil {
				return err
			}
			r.routing(p, s, p.routing.sequences[s.ID])
		}
		for _, id := range p.learn.Redefine() {
			p.att.Redefine(id)
			p.unfit(id)
		}
		want, why := r.mode(p, now)
		if want == mode {
			// its begins count from now on, or not any more
			if want == probe.ModeBoth && (why == twoHits) != p.twoHits {
				p.twoHits = why == twoHits
				if err := r.w.Watch(trace.Watch{PID: int32(p.pid), Time: now, Ops: want.String(),
					Why: why}); err != nil {
					return err
				}
			}
			continue
		}
		p.twoHits = why == twoHits
		since, err := p.att.SetMode(want)
		if err != nil {
			// it may be ending; its other probes stand
			p.stuck = true
			p.learn.Forget()
			want, why = p.att.Mode(), "its probes could not be changed"
			if !errors.Is(err, probe.ErrGone) {
				r.note(fmt.Sprintf("%s (%d): %v", p.info.Comm, p.pid, err))
			}
		}
		p.since = since
		if (want == probe.ModeOff) != (mode == probe.ModeOff) {
			p.gov.Changed(since)
		}
		if err := r.w.Watch(trace.Watch{PID: int32(p.pid), Time: since, Ops: want.String(),
			Why: why}); err != nil {
			return err
		}
	}
	return nil
}

// twoHits is the reason why begins are probed that are wanted of every graph, as [trace.Watch] tells it.
const twoHits = "two hits"

// mode is which of the operators' sites are to be probed now.
func (r *recorder) mode(p *process, now int64) (probe.Mode, string) {
	p.gov.Reader = 0
	if p.threads >= p.cpus {
		p.gov.Reader = r.load.part // no core is free: the reader's time is a worker's
	}
	if on, why := p.gov.Decide(now, p.threads); !on {
		return probe.ModeOff, why
	}
	t := time.Now()
	switch {
	case r.twoHits(p):
		return probe.ModeBoth, twoHits
	case !p.learn.Follows(t) && p.learn.Alarmed():
		return probe.ModeBoth, trace.WhyUnmatched
	case !p.learn.Follows(t):
		return probe.ModeBoth, trace.WhyLearning
	}
	return probe.ModeArrivals, "following"
}

// twoHits tells whether begins are needed even of graphs whose order is known: filters leave some out,
// arrivals that do not tell their thread pool (an inlined barrier) can be of any graph under way, graphs of
// few operators are mostly first ones, whose begin arrivals do not tell, and where there are more threads
// than cores a thread may not have had one from one arrival to the next.
func (r *recorder) twoHits(p *process) bool {
	return r.opt.TwoHits || p.routing.begins || r.counters.probe.Any() ||
		len(r.opt.Ops)+len(r.opt.Phases)+len(r.opt.TIDs) > 0 || p.oversize || !p.follows() || p.learn.Few() ||
		time.Since(p.crowded) < 2*time.Second
}

// follows tells whether graphs can be followed by arrivals alone, once their order is learned.
func (p *process) follows() bool { return p.plan.Features.Lockstep && p.plan.Features.Definitions }

// load is the recorder's own CPU time.
type load struct {
	part float64 // of one core, lately
	cpu  int64
	at   int64
}

func (l *load) measure(now int64) {
	if now-l.at < int64(time.Second) {
		return
	}
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return
	}
	cpu := u.Utime.Nano() + u.Stime.Nano()
	if l.at != 0 {
		l.part = float64(cpu-l.cpu) / float64(now-l.at)
	}
	l.cpu, l.at = cpu, now
}
