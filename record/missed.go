// SPDX-License-Identifier: Apache-2.0

package record

import (
	"time"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/probe"
	"github.com/profinfer/profinfer/target"
	"github.com/profinfer/profinfer/trace"
)

// Processes that ended before they were examined. Whether they ran an engine is known from the files that
// they mapped: those of engines found before or since. Files unrelated to engines are not remembered here.

const (
	maxMapped  = 32   // files remembered per process
	maxMissed  = 4096 // undecided processes that are remembered
	maxEngines = 4096 // files of engines that are remembered
)

// missedProcess is a process that ended before it was examined.
type missedProcess struct {
	name  string
	at    int64
	files []fileKey
}

// maps remembers that a process mapped a file that may belong to an engine.
func (p *process) maps(m target.Mapping) {
	if p.plan == nil && len(p.mapped) < maxMapped {
		p.mapped = append(p.mapped, fileKey{m.Dev, m.Inode})
	}
	if len(p.recent) < maxMapped {
		p.recent = append(p.recent, m)
	}
}

const (
	accountFor = time.Second            // at most
	accountGap = 20 * time.Millisecond  // without an event: there are no more
	behindGap  = 200 * time.Millisecond // the same when events come late
	behind     = 50 * time.Millisecond
)

// account handles the events that wait at the end of the recording, for what they reveal about missed
// processes: nothing more is probed. When many processes start at once, events come faster than probes can be
// attached.
func (r *recorder) account(events <-chan watched) {
	r.closing = true
	end, gap := time.After(accountFor), accountGap
	for {
		select {
		case ev, ok := <-events:
			if !ok {
				return
			}
			if probe.Now()-ev.Time > int64(behind) {
				gap = behindGap
			}
			if r.happened(ev) != nil { // a trace that cannot be written fails again
				return
			}
		case <-time.After(gap):
			return
		case <-end:
			return
		}
	}
}

// engineFiles remembers the files of an engine.
func (r *recorder) engineFiles(files []engine.File) {
	for i := range files {
		if len(r.engines) >= maxEngines {
			return
		}
		if r.engines == nil {
			r.engines = make(map[fileKey]bool)
		}
		r.engines[fileKey{files[i].Dev, files[i].Inode}] = true
	}
}

// over takes a process that has ended and in which no engine was found.
func (r *recorder) over(p *process, at int64) error {
	files := p.mapped
	if p.plan != nil { // it ended before it was probed
		for i := range p.plan.Files {
			files = append(files, fileKey{p.plan.Files[i].Dev, p.plan.Files[i].Inode})
		}
	}
	if len(p.attached) > 0 || p.failed != nil || len(files) == 0 {
		return nil
	}
	r.missed = append(r.missed, missedProcess{name: p.name(), at: at, files: files})
	p.mapped, p.unheld = nil, false // reported once
	if len(r.missed) >= maxMissed {
		return r.tellMissed()
	}
	return nil
}

// tellMissed counts those that, as far as is known now, had an engine, and forgets the others.
func (r *recorder) tellMissed() error {
	n := 0
	for _, m := range r.missed {
		for _, f := range m.files {
			if !r.engines[f] {
				continue
			}
			n++
			if err := r.w.Loss(trace.Loss{Start: m.at, End: m.at, Why: trace.WhyLost,
				What: trace.LostProcesses, Events: 1, CPU: -1,
				Of: m.name + ": it ended before it could be looked at"}); err != nil {
				return err
			}
			break
		}
	}
	r.missed = r.missed[:0]
	r.prog.Missed += n
	return nil
}

// unseen counts a process that kept running while it was being probed, and was then not seen to compute.
func (r *recorder) unseen(p *process) error {
	if !p.unheld || p.held || p.computes {
		return nil
	}
	r.prog.Missed++
	now := probe.Now()
	return r.w.Loss(trace.Loss{Start: min(p.looked, now), End: now, Why: trace.WhyLost,
		What: trace.LostProcesses, Events: 1, CPU: -1,
		Of: p.name() + ": it was probed late, and was not seen to compute"})
}
