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

// observe takes a boundary event for what steers the operators' probes. It reports whether a step ended.
func (r *recorder) observe(p *process, m *trace.Mark, e *probe.Events) bool {
	if r.opt.Level >= engine.LevelOp && !p.stuck {
		switch m.Kind {
		case trace.MarkStepBegin, trace.MarkStepEnd, trace.MarkSchedBegin, trace.MarkSchedEnd:
			p.learn.Mark(m)
		}
	}
	begin, end := trace.MarkStepBegin, trace.MarkStepEnd
	if !p.entries() { // each scheduler run is a step
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
				p.cpus = cpusOf(p.pid) // it may have changed
			}
			if p.threads > p.cpus {
				p.crowded = time.Now()
			}
		}
	}
	return false
}

// decodes reports whether a step has one token per sequence, or may have, if batches cannot be read.
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

// steer attaches and removes operators' probes: known graphs need half of them, and the budget and the
// minimum speed temporarily need none.
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
			// its begins count from now on, or no longer do
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
			// it may be ending; its other probes stay
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

// twoHits is the reason for probing begins that are wanted of every graph, as recorded in [trace.Watch].
const twoHits = "two hits"

// mode returns which operator sites are to be probed now.
func (r *recorder) mode(p *process, now int64) (probe.Mode, string) {
	p.gov.Reader = 0
	if p.threads >= p.cpus {
		p.gov.Reader = r.load.part // no core is free: the consumer's time is a worker's
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

// twoHits reports whether begins are needed even for graphs whose order is known. Filters drop some hits.
// Arrivals that do not identify their thread pool (an inlined barrier) can belong to any running graph.
// Graphs of few operators consist mostly of first ones, whose begins arrivals do not show. With more threads
// than cores a thread may not have had a core between two arrivals.
func (r *recorder) twoHits(p *process) bool {
	return r.opt.TwoHits || p.routing.begins || r.counters.probe.Any() ||
		len(r.opt.Ops)+len(r.opt.Phases)+len(r.opt.TIDs) > 0 || p.oversize || !p.follows() || p.learn.Few() ||
		time.Since(p.crowded) < 2*time.Second
}

// follows reports whether graphs can be followed by arrivals alone, once their order is learned.
func (p *process) follows() bool { return p.plan.Features.Lockstep && p.plan.Features.Definitions }

// load is the recorder's own CPU time.
type load struct {
	part float64 // recently, as a fraction of one core
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
