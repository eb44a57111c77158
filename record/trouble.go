// SPDX-License-Identifier: Apache-2.0

package record

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/profinfer/profinfer/probe"
	"github.com/profinfer/profinfer/target"
	"github.com/profinfer/profinfer/trace"
)

// An error with one process affects only that process: it is counted and named in the recording and reported
// at the terminal, and the recording continues. Only errors that affect everything end it: a trace that
// cannot be written, a missing privilege.

// maxTold bounds the processes whose errors are reported at the terminal, one line each; the recording has
// all of them.
const maxTold = 16

// name identifies the process in messages.
func (p *process) name() string {
	if p.info.Comm == "" {
		p.info.Comm, _ = target.Comm(p.pid)
	}
	if p.info.Comm == "" {
		return fmt.Sprintf("process %d", p.pid)
	}
	return fmt.Sprintf("%s (%d)", p.info.Comm, p.pid)
}

// all returns the errors that affect the whole recording.
func (r *recorder) all(err error) bool {
	var m *probe.Missing
	return r.w.Err() != nil || errors.As(err, &m)
}

// trouble counts n items of a process that were not recorded, and writes why. It returns an error that
// affects the whole recording.
func (r *recorder) trouble(p *process, what string, n int, err error) error {
	if r.all(err) {
		return err
	}
	if r.troubled == nil {
		r.troubled = fmt.Errorf("%s: %w", p.name(), err)
	}
	text := p.name() + ": " + strings.TrimPrefix(err.Error(), fmt.Sprintf("process %d: ", p.pid))
	r.told(text)
	now := probe.Now()
	return r.w.Loss(trace.Loss{Start: now, End: now, Why: trace.WhyLost, What: what, Events: uint64(n),
		CPU: -1, Of: text})
}

// told reports an error with a process at the terminal, for the first few.
func (r *recorder) told(text string) {
	r.note(text)
	if r.troubles++; r.opt.Warn == nil || r.troubles > maxTold {
		return
	}
	if r.opt.Warn(text); r.troubles == maxTold {
		r.opt.Warn("more processes that are not wholly recorded are named in the recording only")
	}
}

// leaveOut gives up a process that cannot be recorded.
func (r *recorder) leaveOut(p *process, err error) error {
	if err := r.trouble(p, trace.LostProcesses, 1, fmt.Errorf("it is not recorded: %w", err)); err != nil {
		return err
	}
	r.prog.Missed++
	p.failed, p.waits = err, 0
	return r.withdraw(p)
}

// withdraw detaches a process, whatever becomes of it.
func (r *recorder) withdraw(p *process) error {
	if p.att == nil {
		return nil
	}
	if err := r.endMemory(p); err != nil {
		return err
	}
	err := p.att.Stop()
	q := newProcess(p.pid) // used to read its last events
	q.att, q.index, q.decoder, q.plan, q.info, q.replaced = p.att, p.index, p.decoder, p.plan, p.info, true
	r.ended = append(r.ended, q)
	p.att = nil
	return err
}

// wait notes that a process cannot be recorded, or not completely, before others have ended.
func (r *recorder) wait(p *process, err error) {
	if p.waits != 0 {
		return
	}
	p.waits = probe.Now()
	r.told(p.name() + ": " + strings.TrimPrefix(err.Error(), fmt.Sprintf("process %d: ", p.pid)))
}

// waited counts a process that had to wait: it was recorded late, or not at all.
func (r *recorder) waited(p *process) error {
	if p.waits == 0 {
		return nil
	}
	since := p.waits
	p.waits = 0
	r.prog.Missed++
	return r.w.Loss(trace.Loss{Start: since, End: probe.Now(), Why: trace.WhyLost, What: trace.LostProcesses,
		Events: 1, CPU: -1,
		Of: p.name() + ": too many processes were recorded at once"})
}

// admit has one of the waiting processes examined again.
func (r *recorder) admit() {
	var first *process
	for _, p := range r.procs {
		if p.waits != 0 && !r.dirty[p.pid] && (first == nil || p.waits < first.waits) {
			first = p
		}
	}
	if first != nil {
		r.dirty[first.pid] = true
		r.admitted = true
	}
}

// orphanAfter is how long a process may live without its main thread before that is reported: normally it is
// ending.
const orphanAfter = int64(time.Second)

// orphans reports processes whose probes went with their main thread.
func (r *recorder) orphans(now int64) error {
	for _, p := range r.procs {
		if p.orphan == 0 || now-p.orphan < orphanAfter {
			continue
		}
		p.orphan = 0
		if err := r.trouble(p, trace.LostProbes, len(p.attached),
			errors.New("its main thread has ended, and on this kernel its probes with it: nothing more of it is seen (Linux 6.6 keeps them)")); err != nil {
			return err
		}
	}
	return nil
}

// writeShape writes a graph's definition; if it is too large for a trace, only that there is such a graph.
func (r *recorder) writeShape(p *process, s *trace.Shape) error {
	err := r.w.Shape(s)
	if err == nil {
		return nil
	}
	// Later it would be impossible to know which operators its arrivals end: begins are needed.
	if p.learn != nil {
		p.learn.Drop(s.ID)
	}
	p.oversize = true
	if err := r.trouble(p, trace.LostDefinitions, len(s.Nodes), err); err != nil {
		return err
	}
	return r.w.Shape(&trace.Shape{PID: s.PID, ID: s.ID,
		Incomplete: fmt.Sprintf("its %d tensors: %v", len(s.Nodes), err)})
}

const (
	maxWords     = 4096 // of a command line that are written
	maxWordBytes = 128 << 10
)

// shortened cuts a command line that is too long for a recording, and notes that in its last word.
func shortened(words []string) []string {
	n, bytes := 0, 0
	for n < len(words) && n < maxWords && bytes+len(words[n]) <= maxWordBytes {
		bytes += len(words[n])
		n++
	}
	if n == len(words) {
		return words
	}
	return append(slices.Clone(words[:n]), fmt.Sprintf("... (%d more words)", len(words)-n))
}
