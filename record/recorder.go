// SPDX-License-Identifier: Apache-2.0

package record

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/probe"
	"github.com/profinfer/profinfer/target"
	"github.com/profinfer/profinfer/target/watch"
	"github.com/profinfer/profinfer/trace"
)

const (
	// drainEvery is the maximum time between two drains. On a machine with all cores busy the consumer takes
	// time from a worker, so drains are rare; when rings fill, they are more frequent.
	drainEvery  = 500 * time.Millisecond
	drainFilled = 0.2 // of a ring: a drain should find at most this much
	drainLeast  = 5 * time.Millisecond
	// drainFirst is the drain interval while an engine has been found but has not computed yet, for at most
	// firstFor: its scheduler's backends are known, and their graphs probed, only once its first run was
	// read.
	drainFirst    = 10 * time.Millisecond
	firstFor      = time.Minute
	rotateAgain   = 5 * time.Second       // after a failure
	drainLearning = 50 * time.Millisecond // while the order of graphs is unknown
	// settle gathers the events of libraries that are mapped one after another.
	settle = 3 * time.Millisecond
)

// recorder is a running recording.
type recorder struct {
	opt      Options
	engine   Engine
	session  *probe.Session
	counters *counters
	watch    *watch.Watcher
	w        *trace.Writer
	meta     trace.Meta

	procs   map[int]*process
	looked  map[int]Looked // processes that ended without an engine
	ended   []*process     // still probed, or with last events possibly still in the rings
	leaving sync.WaitGroup // processes being detached
	looking sync.WaitGroup // files being examined
	lookOne sync.Mutex
	gone    chan *process // processes that were detached
	detach  chan struct{} // limits how many are detached at a time
	dirty   map[int]bool
	left    map[string]bool // left-out files that were reported
	shapes  assembler
	threads map[threadKey]bool
	command *target.Command
	spared  func() // undoes the recorder's being the first victim when memory runs out

	events    probe.Events
	lastDrain int64
	stop      int64 // anything later was seen while probes were being detached; 0: still recording
	lastTID   int32
	engines   map[fileKey]bool // files
	missed    []missedProcess
	fresh     bool   // an engine was just found
	admitted  bool   // a process that waited is to be examined again
	closing   bool   // nothing more is probed
	strays    uint64 // marks that could not be written since the last drain
	troubled  error  // the first error of a single process
	troubles  int    // how many were reported
	wrote     bool   // at least one mark or hit was written: graphs alone count, for a server without steps
	prog      Progress
	lostSum   probe.Lost
	began     time.Time
	stepsDone int
	hitCost   float64 // per hit between operators, ns
	load      load
	cpus      cpuWatch
	allowed   allowedBook
	rotated   time.Time     // when starting a new file last failed
	paced     time.Duration // time between the last two drains

	ctx       context.Context
	soon      time.Duration     // current limit for waiting for an examination; 0: patience
	waiting   int               // running examinations, see aside
	later     chan func() error // continuations of those that took long
	closed    chan struct{}     // closed when the recording has ended
	holds     Holds
	schedules *scheduling
}

// Run records until the processes have ended, ctx is done, the duration has elapsed, or the trace cannot be
// written. Whatever was recorded is in the trace in any case.
//
// Errors: a *probe.Missing (privilege, kernel feature), a *NoEngine, a *target.LaunchError, ErrNothing, a
// *trace.WriteError.
func Run(ctx context.Context, eng Engine, opt Options) (Result, error) {
	r := &recorder{opt: opt, engine: eng, procs: make(map[int]*process), looked: make(map[int]Looked),
		dirty: make(map[int]bool), left: make(map[string]bool), threads: make(map[threadKey]bool),
		began: time.Now(),
		gone:  make(chan *process, 4096), detach: make(chan struct{}, maxDetach),
		ctx: ctx, later: make(chan func() error), closed: make(chan struct{}), schedules: newScheduling()}
	defer r.schedules.restore()
	defer close(r.closed)
	res := Result{Status: -1}
	defer LimitMemory()()
	r.spared = func() {}
	defer func() { r.spared() }()
	var err error
	if r.counters, err = openCounters(&opt); err != nil {
		return res, err
	}
	defer r.counters.close()
	if r.session, err = probe.Open(probe.Config{RingBytes: opt.RingBytes, Sched: opt.Sched,
		Filter: opt.filter(), Counters: r.counters.probe, Faults: opt.Faults,
		Experts: opt.experts()}); err != nil {
		return res, err
	}
	defer func() {
		r.leaving.Wait()
		r.session.Close()
	}()
	if len(r.counters.probe.Events) > 0 && r.session.SchedError != nil {
		return res, fmt.Errorf("counters cannot be told from those of other threads: %w",
			r.session.SchedError)
	}
	if r.watch, err = watch.New(); err != nil {
		r.watch = watch.NewPolling(err.Error())
	}
	defer r.watch.Close()
	create := trace.Create
	if opt.SwitchSize > 0 {
		create = trace.CreateParts
	}
	var how []trace.Option
	if opt.Force {
		how = append(how, trace.Force())
	}
	if r.w, err = create(opt.Output, how...); err != nil {
		return res, err
	}
	if err := r.begin(); err != nil {
		r.w.Discard()
		return r.finishCommand(res), err
	}
	runErr := r.loop(ctx, &res)
	endErr := r.end(&res)
	res.Failed = runErr != nil
	res = r.finishCommand(res)
	var closeErr error
	if res.Recorded {
		closeErr = r.w.Close(trace.End{Time: probe.Now(), Reason: res.Reason, Status: res.Status,
			Hits: r.prog.Hits, Lost: r.lostSum.Hits})
	} else {
		closeErr = r.w.Discard() // an older recording of that name is kept
	}
	r.prog.Bytes = r.w.Total()
	res.Progress, res.Holds = r.prog, r.holds
	for _, err := range []error{runErr, endErr, closeErr} {
		if err != nil { // a trace that cannot be written fails in each of them
			return res, err
		}
	}
	if !res.Recorded && !res.Interrupted {
		return res, r.nothing(res.Status)
	}
	return res, nil
}

// note stores a message in the trace.
func (r *recorder) note(s string) {
	if len(r.meta.Notes) >= maxNotes || slices.Contains(r.meta.Notes, s) {
		return
	}
	r.meta.Notes = append(r.meta.Notes, s)
	r.w.Meta(r.meta)
}

// begin launches or attaches, and writes the recording's metadata.
func (r *recorder) begin() error {
	r.meta = machine()
	r.meta.Tool, r.meta.Command, r.meta.Level = r.opt.Tool, r.commandLine(r.opt.Command), r.opt.Level.String()
	if r.session.SchedError != nil {
		r.meta.Notes = append(r.meta.Notes, r.session.SchedError.Error())
		if r.opt.Warn != nil {
			r.opt.Warn(r.session.SchedError.Error())
		}
	}
	r.hitCost = 2000
	if c, err := r.session.Cost(); err == nil {
		r.meta.ProbeCost = map[string]int64{target.ClassEmulated.String(): c.Loop.Nanoseconds(),
			"cold": c.Cold.Nanoseconds()}
		r.hitCost = float64(c.Cold.Nanoseconds())
	} else {
		r.meta.Notes = append(r.meta.Notes, err.Error())
	}
	if release, v := probe.Release(); probe.SkipsHits(v) {
		r.meta.Notes = append(r.meta.Notes,
			"this kernel ("+release+") leaves probes out, uncounted, while another eBPF program runs on the CPU: probe events can be missing (Linux 6.0 and newer do not)")
	}
	r.counters.doubt()
	r.meta.Counters = r.counters.columns
	for _, n := range r.counters.notes {
		r.meta.Notes = append(r.meta.Notes, n)
		if r.opt.Warn != nil {
			r.opt.Warn(n)
		}
	}
	r.meta.Extra = make(map[string]string)
	if len(r.opt.Peaks) > 0 {
		r.meta.Extra["peaks"] = string(r.opt.Peaks)
	}
	if !r.opt.Sched || r.session.SchedError != nil {
		r.meta.Extra["sched"] = "off"
	}
	r.meta.SetFilter(trace.Filter{Ops: r.opt.Ops, Phases: r.opt.Phases, TIDs: r.opt.TIDs})
	if r.opt.Budget > 0 {
		r.meta.Extra["budget"] = fmt.Sprintf("%g", r.opt.Budget)
	}
	if r.opt.MinTPS > 0 {
		r.meta.Extra["min_tps"] = fmt.Sprintf("%g", r.opt.MinTPS)
	}
	r.faultsMeta()
	if r.watch.Polling != "" {
		r.meta.Notes = append(r.meta.Notes, r.watch.Polling)
	}
	if err := r.w.Meta(r.meta); err != nil {
		return err
	}
	r.lastDrain = probe.Now()
	// Existing processes come first: one without an engine is reported before a command is started in vain.
	if err := r.join(r.opt.PIDs); err != nil {
		return err
	}
	if len(r.opt.Command) == 0 {
		r.spared = expendable()
		r.schedules.raise()
	}
	if len(r.opt.PIDs) > 0 {
		r.soon = patienceFirst
		r.session.CostOver() // the first probes follow
		err := r.updateDirty()
		r.soon = 0
		if err != nil {
			return err
		}
		if !r.found() && r.ctx.Err() == nil {
			return r.nothing(-1)
		}
	}
	if len(r.opt.Command) == 0 || r.ctx.Err() != nil {
		return nil
	}
	c, err := target.Launch(r.opt.Command, nil)
	if err != nil {
		return err
	}
	r.command = c
	r.spared = expendable()
	// until its first libraries have been examined; later ones hold it themselves
	held, err := target.Hold(c.PID, c.PID, 0, holdOwn)
	if err == nil {
		defer r.release(&hold{Held: held, pid: c.PID})
	}
	_ = r.join([]int{c.PID}) // one that has ended already has a status to report
	r.schedules.hurry()
	r.soon = holdOwn
	defer func() { r.soon = 0 }()
	return r.updateDirty()
}

// join watches processes and their children.
func (r *recorder) join(pids []int) error {
	for _, pid := range pids {
		added, err := r.watch.Track(pid)
		if err != nil {
			return err
		}
		for _, q := range added {
			r.procs[q] = newProcess(q)
			r.dirty[q] = true
		}
	}
	return nil
}

// found reports whether one of the processes has an engine.
func (r *recorder) found() bool {
	for _, p := range r.procs {
		if p.plan != nil {
			return true
		}
	}
	return false
}

func (r *recorder) loop(ctx context.Context, res *Result) error {
	pace := r.pace()
	r.paced = pace
	drain := time.NewTicker(pace)
	defer drain.Stop()
	settled := time.NewTimer(0)
	defer settled.Stop()
	waiting := true
	var done <-chan struct{}
	if r.command != nil {
		done = r.command.Done()
	}
	var deadline <-chan time.Time
	if r.opt.Duration > 0 {
		t := time.NewTimer(r.opt.Duration)
		defer t.Stop()
		deadline = t.C
	}
	own := make(map[int]bool)
	if r.command != nil {
		for pid := range r.procs {
			own[pid] = pid == r.command.PID || len(r.opt.PIDs) == 0
		}
	}
	events := r.holdLoaders(own)
	defer func() {
		r.account(events)
		go r.watch.Close() // the kernel waits for a grace period; Run waits for it at last
		for _, p := range r.procs {
			r.releaseAll(p)
		}
		for ev := range events {
			if ev.held != nil {
				r.release(ev.held)
			}
		}
	}()
	for {
		if r.fresh { // its first run must not wait for a drain that was due earlier
			r.fresh = false
			if p := r.pace(); p < pace {
				pace, r.paced = p, p
				drain.Reset(p)
			}
		}
		select {
		case <-ctx.Done():
			res.Interrupted, res.Reason = true, "interrupted"
			return nil
		case <-deadline:
			res.Reason = "the time is over"
			return nil
		case <-done:
			// as under perf, background processes of the command are not waited for
			res.Reason = "the command ended"
			if r.interrupted() {
				res.Interrupted, res.Reason = true, "interrupted"
			}
			return nil
		case ev, ok := <-events:
			if !ok {
				return errors.New("the watch over processes broke off")
			}
			if err := r.happened(ev); err != nil {
				return err
			}
			if len(r.dirty) > 0 && !waiting {
				settled.Reset(settle)
				waiting = true
			}
			if r.command == nil && len(r.procs) == 0 {
				res.Reason = "the process ended"
				return nil
			}
		case <-settled.C:
			waiting = false
			if err := r.updateDirty(); err != nil {
				return err
			}
		case then := <-r.later:
			if err := then(); err != nil {
				return err
			}
			if len(r.dirty) > 0 && !waiting {
				settled.Reset(settle)
				waiting = true
			}
		case <-drain.C:
			if err := r.drain(); err != nil {
				return err
			}
			if r.stop != 0 {
				res.Reason = fmt.Sprintf("%d steps were recorded", r.opt.Steps)
				return nil
			}
			if p := r.pace(); p != pace {
				pace, r.paced = p, p
				drain.Reset(p)
			}
			if r.admitted { // processes that waited for released numbers
				r.admitted = false
				if err := r.updateDirty(); err != nil {
					return err
				}
			}
		}
	}
}

// pace returns how often the rings are to be emptied now.
func (r *recorder) pace() time.Duration {
	if r.opt.Level >= engine.LevelGraph {
		for _, p := range r.procs {
			if p.plan != nil && !p.computes && time.Since(p.found) < firstFor {
				return drainFirst
			}
			if p.att != nil && p.computes && r.opt.Level == engine.LevelOp &&
				p.att.Mode() == probe.ModeBoth && !r.twoHits(p) {
				return min(drainLearning, r.filling())
			}
		}
	}
	return r.filling()
}

// filling returns how often the rings are to be emptied, given how fast they fill.
func (r *recorder) filling() time.Duration {
	if r.events.Fill > 0 {
		filled := time.Duration(float64(r.paced) * drainFilled / r.events.Fill)
		return max(min(filled, 2*r.paced, drainEvery), drainLeast)
	}
	return drainEvery
}

// happened handles an event of a watched process.
func (r *recorder) happened(ev watched) error {
	if ev.held != nil {
		if r.command != nil && !r.computes() {
			r.schedules.hurry()
		}
		ev.held.reached.Store(true)
	}
	p := r.procs[ev.PID]
	switch ev.Kind {
	case watch.EventFork:
		if p == nil {
			r.procs[ev.PID] = newProcess(ev.PID)
		}
		delete(r.threads, threadKey{int32(ev.PID), int32(ev.PID)})
		r.dirty[ev.PID] = true
	case watch.EventExec:
		if p == nil {
			r.procs[ev.PID] = newProcess(ev.PID)
		} else if p.looked < ev.Time {
			if err := r.reset(p); err != nil { // otherwise the new program has already been examined
				return err
			}
		}
		r.dirty[ev.PID] = true
		if ev.Comm != "" {
			r.procs[ev.PID].info.Comm = ev.Comm
		}
		return r.renamed(ev.PID, ev.PID, ev.Comm)
	case watch.EventComm:
		return r.renamed(ev.PID, ev.TID, ev.Comm)
	case watch.EventThreadExit:
		if p != nil && p.att != nil && ev.TID == ev.PID && !p.att.OutlivesMain() {
			p.orphan = ev.Time
		}
	case watch.EventThread: // the ID may have belonged to another thread
		delete(r.threads, threadKey{int32(ev.PID), int32(ev.TID)})
	case watch.EventMmap:
		if p == nil {
			r.procs[ev.PID] = newProcess(ev.PID)
		}
		if ev.Inode == 0 || r.engine.Dull(ev.PID, ev.Mapping()) { // no file, or an irrelevant one
			if ev.held != nil {
				r.release(ev.held)
			}
			return nil
		}
		r.dirty[ev.PID] = true
		p = r.procs[ev.PID]
		p.maps(ev.Mapping())
		if ev.held != nil {
			p.held = true
			p.holds = append(p.holds, ev.held)
			if r.closing {
				r.releaseAll(p)
				return nil
			}
			r.session.CostOver() // the first probes may follow
			return r.updateDirty()
		}
		p.unheld = true // or it is held for an earlier event
	case watch.EventExit:
		if p != nil {
			r.releaseAll(p)
			if p.att != nil {
				r.leave(p)
			}
			r.forget(p)
			delete(r.procs, ev.PID)
			delete(r.dirty, ev.PID)
			if err := r.waited(p); err != nil {
				return err
			}
			if err := r.over(p, ev.Time); err != nil {
				return err
			}
			if p.att != nil {
				if err := r.endMemory(p); err != nil {
					return err
				}
				r.ended = append(r.ended, p)
				r.w.Exit(trace.Exit{PID: int32(ev.PID), Time: ev.Time})
			}
		}
	case watch.EventLost:
		for pid := range r.procs {
			r.dirty[pid] = true
		}
	}
	return nil
}

const (
	maxLooked = 256
	maxLeft   = 256
	maxNotes  = 64
	maxScheds = 4096
)

func (r *recorder) updateDirty() error {
	if r.closing {
		return nil
	}
	for pid := range r.dirty {
		delete(r.dirty, pid)
		p := r.procs[pid]
		if p == nil {
			continue
		}
		if err := r.update(p); err != nil {
			return err
		}
	}
	return nil
}

// planned reports that an engine was found.
func (r *recorder) planned(p *process) {
	r.fresh = true
	if len(r.prog.Engines) < maxLooked {
		r.prog.Engines = append(r.prog.Engines,
			fmt.Sprintf("%s (%d): %s %s", p.info.Comm, p.pid, p.plan.Engine, p.plan.EngineVersion))
	}
}

// computes reports whether an engine was seen to compute.
func (r *recorder) computes() bool {
	for _, p := range r.procs {
		if p.computes {
			return true
		}
	}
	return false
}
