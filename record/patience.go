// SPDX-License-Identifier: Apache-2.0

package record

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/target"
)

// Reading what belongs to a process can take as long as that process likes: a library on a file system that
// does not answer, a page of memory whose server is gone. So it is done in separate goroutines, and the
// recording waits only for a limited time.

const (
	// patience is how long the recording waits for a process to be examined before it continues without; a
	// later result is used when it arrives. Threads of other processes may be held meanwhile.
	patience = 100 * time.Millisecond
	// patienceHeld is the same if a thread of the process is held: it stays so until the result is there.
	patienceHeld = 20 * time.Millisecond
	// patienceFirst is the same for processes to attach to, before anything is recorded.
	patienceFirst = 10 * time.Second
	// hangs is the time after which a process that does not answer is reported as left out.
	hangs = 5 * time.Second
	// patienceWord is how long to wait for a command line, which is one read of the process's memory, and for
	// the list of its mappings.
	patienceWord = 100 * time.Millisecond
	// maxAside bounds the operations that are waited for at a time: each occupies a thread.
	maxAside = 64
)

var errHangs = errors.New("reading its files or memory takes too long: they lie where nobody answers, or it is under heavy load")

// aside runs work that can hang, and then, on the recorder's own goroutine, what follows from it: at once if
// the work finishes soon, otherwise when it does. It returns false if too many are running already.
func (r *recorder) aside(soon time.Duration, work func(), then func() error) (bool, error) {
	if r.waiting >= maxAside {
		return false, nil
	}
	done := make(chan struct{})
	r.schedules.busy(1)
	go func() {
		defer close(done)
		defer r.schedules.busy(-1)
		work()
	}()
	t := time.NewTimer(soon)
	defer t.Stop()
	select {
	case <-done:
		return true, then()
	case <-t.C:
	case <-r.ctx.Done():
	}
	r.waiting++
	go func() {
		<-done
		select {
		case r.later <- func() error {
			r.waiting--
			r.next()
			return then()
		}:
		case <-r.closed:
		}
	}()
	return true, nil
}

// look makes a plan of a process.
func (r *recorder) look(p *process, then func(*engine.Plan, error) error) error {
	var plan *engine.Plan
	var err error
	pid, begun := p.pid, time.Now()
	recent := p.recent
	p.recent = nil
	p.looking, p.again = &begun, false
	p.holding, p.holds = p.holds, nil
	soon := patience
	if len(p.holding) > 0 {
		soon = patienceHeld
	}
	if p.plan == nil {
		p.lookup = errHangs
	}
	examine := func() { plan, err = r.engine.Plan(pid, recent) }
	ok, aerr := r.aside(cmp.Or(r.soon, soon), examine, func() error {
		if r.procs[pid] != p || p.looking != &begun {
			// it has ended, or runs another program; but now it is known what missed processes like it map
			if err == nil {
				r.engineFiles(plan.Files)
				err = plan.LeftOut
			}
			r.leftOut(p, err)
			return nil
		}
		p.looking = nil
		if err != nil { // not yet: they count with what comes
			p.recent = slices.Concat(recent, p.recent)
		}
		again := p.again
		p.again = false
		if p.failed == nil {
			if err := then(plan, err); err != nil {
				return err
			}
		}
		r.release(p.holding...)
		p.holding = nil
		if again && len(p.holds) > 0 {
			return r.update(p)
		}
		if again {
			r.dirty[pid] = true
		}
		return nil
	})
	if !ok {
		p.recent, p.holds, p.holding = recent, p.holding, nil
		p.looking, p.again = nil, true // its turn comes when another's ends
	}
	return aerr
}

// next starts the examination of a process that had to wait for others.
func (r *recorder) next() {
	for pid, p := range r.procs {
		if p.again && p.looking == nil {
			p.again = false
			r.dirty[pid] = true
			return
		}
	}
}

// hanging reports processes that do not answer.
func (r *recorder) hanging() {
	for _, p := range r.procs {
		if p.looking != nil && time.Since(*p.looking) > hangs && !p.warned[errHangs.Error()] {
			p.warned[errHangs.Error()] = true
			r.told(fmt.Sprintf("%s is left out: %v", p.name(), errHangs))
		}
	}
}

// lookBackends determines what else is to be probed of a scheduler's backends, and what of them cannot be.
func (r *recorder) lookBackends(p *process, sched uint64,
	then func(files []engine.File, sites []engine.Site, warnings []engine.Warning, err error) error) error {
	// The plan belongs to the recorder's goroutine: results are merged where that is safe.
	plan := *p.plan
	plan.Warnings, plan.Inner = slices.Clone(plan.Warnings), maps.Clone(plan.Inner)
	known, of := len(plan.Warnings), p.plan
	var files []engine.File
	var sites []engine.Site
	var err error
	pid := p.pid
	ok, aerr := r.aside(patience, func() {
		files, sites, err = r.engine.Backends(pid, &plan, sched)
	}, func() error {
		switch q := r.procs[pid]; {
		case q != nil && q != p, p.failed != nil, p.att == nil:
			return nil // it runs another program, or is no longer probed
		case q == nil && err == nil:
			return nil // it has ended: it is being detached
		case p.plan != of:
			delete(p.scheds, sched) // of an older plan: it is looked up again
			return nil
		}
		if err == nil {
			p.plan.Inner = plan.Inner
		}
		return then(files, sites, plan.Warnings[known:], err)
	})
	if !ok && aerr == nil {
		delete(p.scheds, sched) // at its next run
	}
	return aerr
}

// cmdline is a process's command line. Reading it reads the process's memory: a process that did not answer
// once is not asked again.
func cmdline(pid int, mute *bool) ([]string, error) {
	if *mute {
		return nil, errHangs
	}
	type answer struct {
		words []string
		err   error
	}
	a, ok := promptly(func() answer {
		words, err := target.Cmdline(pid)
		return answer{words, err}
	})
	if !ok {
		*mute = true
		return nil, errHangs
	}
	return a.words, a.err
}

// promptly returns what f returns, if it does so within patienceWord.
func promptly[T any](f func() T) (got T, ok bool) {
	c := make(chan T, 1)
	go func() { c <- f() }()
	t := time.NewTimer(patienceWord)
	defer t.Stop()
	select {
	case got = <-c:
		return got, true
	case <-t.C:
		return got, false
	}
}
