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

// Reading what is another's can take as long as that one likes: a library on a file system that does not
// answer, a page of memory whose server is gone. So it is done aside, and the recording waits for it only so
// long.

const (
	// patience is how long the recording waits for a process to be looked at before it goes on without, where
	// no thread is held; what is found later is taken then.
	patience = 500 * time.Millisecond
	// patienceFirst is the same for processes to attach to, before anything is recorded.
	patienceFirst = 10 * time.Second
	// hangs is when a process is told to be left out for that.
	hangs = 5 * time.Second
	// patienceWord is how long a command line is waited for: it is one read of the process's memory.
	patienceWord = 100 * time.Millisecond
	// maxAside bounds what is waited for at a time: each takes a thread.
	maxAside = 64
)

var errHangs = errors.New("reading its files or memory takes too long: they lie where nobody answers, or it is under heavy load")

// aside does work where it can hang, and then, on the recorder's own goroutine, what follows from it: now, if
// the work is done soon, else when it is. False: there is too much under way already.
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
	p.looking, p.again = &begun, false
	if p.plan == nil {
		p.lookup = errHangs
	}
	ok, aerr := r.aside(cmp.Or(r.soon, patience), func() { plan, err = r.engine.Plan(pid) }, func() error {
		if r.procs[pid] != p || p.looking != &begun {
			// it has ended, or is another program: what others like it are missed with is known now
			if err == nil {
				r.engineFiles(plan.Files)
				err = plan.LeftOut
			}
			r.leftOut(p, err)
			return nil
		}
		p.looking = nil
		if p.again {
			p.again = false
			r.dirty[pid] = true
		}
		if p.failed != nil {
			return nil
		}
		return then(plan, err)
	})
	if !ok {
		p.looking, p.again = nil, true // its turn comes when another's is over
	}
	return aerr
}

// await waits for a look at a process that is under way: a thread that is held is not let go for it.
func (r *recorder) await(p *process, soon time.Duration) error {
	t := time.NewTimer(soon)
	defer t.Stop()
	for p.looking != nil {
		select {
		case then := <-r.later:
			if err := then(); err != nil {
				return err
			}
		case <-t.C:
			return nil
		case <-r.ctx.Done():
			return nil
		}
	}
	return nil
}

// next has a process looked at for which there were too many others under way.
func (r *recorder) next() {
	for pid, p := range r.procs {
		if p.again && p.looking == nil {
			p.again = false
			r.dirty[pid] = true
			return
		}
	}
}

// hanging tells of processes that are waited for in vain.
func (r *recorder) hanging() {
	for _, p := range r.procs {
		if p.looking != nil && time.Since(*p.looking) > hangs && !p.warned[errHangs.Error()] {
			p.warned[errHangs.Error()] = true
			r.told(fmt.Sprintf("%s is left out: %v", p.name(), errHangs))
		}
	}
}

// lookBackends looks up what else is to be probed of a scheduler's backends, and what of them cannot be.
func (r *recorder) lookBackends(p *process, sched uint64,
	then func(files []engine.File, sites []engine.Site, warnings []engine.Warning, err error) error) error {
	// The plan is the recorder's: what is learned is taken over where it is safe.
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
			return nil // it is another program, or nothing more of it is probed
		case q == nil && err == nil:
			return nil // it has ended: its probes are being taken away
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

// cmdline is a process's command line. Reading it reads the process's memory: of one that did not answer once
// it is not asked for again.
func cmdline(pid int, mute *bool) ([]string, error) {
	if *mute {
		return nil, errHangs
	}
	type answer struct {
		words []string
		err   error
	}
	c := make(chan answer, 1)
	go func() {
		words, err := target.Cmdline(pid)
		c <- answer{words, err}
	}()
	t := time.NewTimer(patienceWord)
	defer t.Stop()
	select {
	case a := <-c:
		return a.words, a.err
	case <-t.C:
		*mute = true
		return nil, errHangs
	}
}
