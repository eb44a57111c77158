// SPDX-License-Identifier: Apache-2.0

package record

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/profinfer/profinfer/probe"
	"github.com/profinfer/profinfer/target"
)

var errNotLooked = errors.New("it could not be looked at in time")

// nothing returns why nothing was recorded; status is the command's, -1 if there was none or it did not
// start.
func (r *recorder) nothing(status int) error {
	if r.troubled != nil {
		return r.troubled
	}
	if r.prog.Missed > 0 {
		return ErrNothing
	}
	e := &NoEngine{Status: status}
	for _, p := range r.procs {
		r.forget(p)
	}
	for _, pid := range slices.Sorted(maps.Keys(r.looked)) {
		l := r.looked[pid]
		if l.Err == nil {
			return ErrNothing
		}
		e.Looked = append(e.Looked, l)
	}
	return e
}

// forget keeps the results about a process that is no longer watched.
func (r *recorder) forget(p *process) {
	if len(r.looked) < maxLooked {
		comm := p.info.Comm
		if comm == "" {
			comm, _ = target.Comm(p.pid)
		}
		if comm == "" {
			comm = "process"
		}
		err := p.lookup
		if err == nil && p.plan == nil {
			err = errNotLooked
		}
		r.looked[p.pid] = Looked{PID: p.pid, Comm: comm, Err: err}
	}
}

// end detaches, drains what is left in the rings and, like perf, ends the command.
func (r *recorder) end(res *Result) error {
	var errs []error
	if r.stop == 0 {
		r.stop = probe.Now()
	}
	for _, p := range r.procs {
		if p.att != nil {
			errs = append(errs, r.endMemory(p))
		}
		errs = append(errs, r.waited(p))
	}
	var mu sync.Mutex
	for _, p := range r.procs {
		if p.att == nil {
			continue
		}
		if err := p.att.Stop(); err != nil {
			errs = append(errs, err)
		}
		r.leaving.Go(func() {
			r.detach <- struct{}{}
			err := p.att.Detach()
			<-r.detach
			mu.Lock()
			errs = append(errs, err)
			mu.Unlock()
		})
	}
	r.leaving.Wait()
	r.looking.Wait()
	for _, p := range r.procs {
		if _, err := target.ReadStat(p.pid); err != nil { // its end was not reported yet
			errs = append(errs, r.over(p, probe.Now()))
		}
	}
	errs = append(errs, r.tellMissed())
	if r.holds.Number > 0 { // milliseconds
		r.meta.Extra["holds"] = fmt.Sprintf("%d, %d of them late, the longest %.1f ms", r.holds.Number,
			r.holds.Late, float64(r.holds.Longest)/1e6)
		errs = append(errs, r.w.Meta(r.meta))
	}
	// twice: a program that was running at the first drain has written by the second
	errs = append(errs, r.drain(), r.drain())
	res.Recorded = r.wrote
	return errors.Join(errs...)
}

// interruptLate is how much later than the end of the command, which it reaches as well, a terminal's interrupt
// may be noticed here.
const interruptLate = 200 * time.Millisecond

// interrupted reports whether the command, which has ended, was ended by what ends the recording too.
func (r *recorder) interrupted() bool {
	late := time.Duration(0)
	if st, err := r.command.Wait(); err == nil && slices.Contains([]int{128 + int(syscall.SIGINT),
		128 + int(syscall.SIGTERM), 128 + int(syscall.SIGHUP)}, st) {
		late = interruptLate
	}
	select {
	case <-r.ctx.Done():
		return true
	default:
	}
	select {
	case <-r.ctx.Done():
		return true
	case <-time.After(late):
		return false
	}
}

// finishCommand waits for the command. After an interrupt or the duration it is asked to end; a failed
// recording is not a reason to end it.
func (r *recorder) finishCommand(res Result) Result {
	if r.command == nil {
		return res
	}
	if res.Reason != "the command ended" && !res.Failed {
		select {
		case <-r.command.Done():
		case <-time.After(2 * time.Second):
			r.command.Signal(syscall.SIGTERM)
		}
	}
	if st, err := r.command.Wait(); err == nil {
		res.Status = st
	}
	return res
}
