// SPDX-License-Identifier: Apache-2.0

package record

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/probe"
	"github.com/profinfer/profinfer/record/internal/budget"
	"github.com/profinfer/profinfer/record/internal/order"
	"github.com/profinfer/profinfer/target"
	"github.com/profinfer/profinfer/trace"
)

// process is a process that is watched, and probed once an engine is found in it.
type process struct {
	pid    int
	plan   *engine.Plan
	att    *probe.Attachment
	lookup error // why there is no plan

	attached map[siteKey]bool
	index    map[uint32]uint32 // the session's number of a site to its index in info.Sites
	info     trace.Process
	files    map[fileKey]int // index in info.Files
	scheds   map[uint64]bool // schedulers whose backends were looked up
	objects  backendObjects
	warned   map[string]bool // what the terminal has reported
	matters  evidence
	replaced bool // it runs another program since exec
	decoder  engine.Decoder
	looked   int64            // when its maps were last read, ns
	computes bool             // a mark of it was seen
	found    time.Time        // when it got its first plan
	lacks    []engine.Warning // of those backends, which a new plan does not include

	learn    *order.Learner
	gov      *budget.Governor
	twoHits  bool  // the recording has been told that their begins count
	since    int64 // when the current mode of its operators' probes began
	threads  int   // of its latest graph
	cpus     int   // it may run on
	crowded  time.Time
	stuck    bool // its probes could not be changed
	oversize bool // the order of one of its graphs cannot be written

	mapped       []fileKey        // that may belong to an engine, before one was found
	recent       []target.Mapping // since the last plan, which may have been unmapped before it is made
	held, unheld bool             // held, or not held, while its engine was searched for
	looking      *time.Time       // since when it is being examined
	again        bool             // and it must be examined once more
	holding      []*hold          // threads that continue when that has ended
	holds        []*hold          // threads that continue when it was examined once more
	late         bool             // one of its threads was released before its library was examined
	mute         bool             // its command line cannot be read
	orphan       int64            // when its main thread ended and its probes went with it; 0: it did not
	failed       error            // why it cannot be recorded
	waits        int64            // since when it waits for others to end; 0: it does not
	leaving      bool             // it is being detached
	detached     bool             // it is detached
	mem          memory
	routing      routing
}

// siteKey identifies a probed site, whatever index its file has in a plan.
type siteKey struct {
	dev, inode, offset uint64
	role               engine.Role
	ret                bool
}

type fileKey struct{ dev, inode uint64 }

func newProcess(pid int) *process {
	return &process{pid: pid, attached: make(map[siteKey]bool), index: make(map[uint32]uint32),
		files: make(map[fileKey]int), scheds: make(map[uint64]bool), warned: make(map[string]bool),
		learn: order.New()}
}

// entries reports whether calls of the engine that compute a batch are probed.
func (p *process) entries() bool {
	return p.plan != nil && slices.ContainsFunc(p.plan.Sites, func(s engine.Site) bool {
		return s.Role == engine.RoleStepBegin
	})
}

// update examines what the process has mapped now and probes what is new.
func (r *recorder) update(p *process) error {
	if p.failed != nil || p.waits != 0 && !r.session.Room() {
		r.releaseAll(p)
		return nil
	}
	if p.looking != nil {
		p.again = true
		return nil
	}
	p.looked = probe.Now()
	return r.look(p, func(plan *engine.Plan, err error) error {
		p.lookup = nil
		if err != nil {
			if p.plan == nil {
				p.lookup = err
			}
			r.leftOut(p, err)
			return nil // it has no engine, or not yet, or has ended
		}
		had := p.plan != nil
		if err := r.takeUp(p, plan); err != nil {
			return err
		}
		if p.plan != nil && !had {
			r.planned(p)
		}
		return nil
	})
}

// takeUp probes the sites of a plan.
func (r *recorder) takeUp(p *process, plan *engine.Plan) (err error) {
	r.leftOut(p, plan.LeftOut)
	if p.att == nil {
		p.att, err = r.session.Process(p.pid, &plan.Layout)
		r.allowed.process(int32(p.pid))
	} else {
		err = p.att.SetLayout(&plan.Layout)
	}
	if errors.Is(err, probe.ErrFull) {
		r.wait(p, err)
		return nil
	}
	if err == nil {
		err = r.filter(p, plan)
	}
	if err != nil {
		return r.leaveOut(p, err)
	}
	if err := r.beginMemory(p); err != nil {
		return err
	}
	if p.plan == nil {
		p.found = time.Now()
		p.gov = budget.New(r.opt.Budget, r.opt.MinTPS, r.hitCost)
	}
	changed := p.plan != nil && !slices.Equal(p.plan.Warnings, plan.Warnings)
	p.plan, p.decoder, p.mapped = plan, plan.Decode, nil
	r.engineFiles(plan.Files)
	if err := r.attach(p, plan.Files, plan.Sites); err != nil {
		return err
	}
	if p.failed != nil {
		return nil
	}
	if changed && len(p.attached) > 0 {
		// something that a plan lacked may have arrived, even if it needs no probe at this level
		if err := r.describe(p, plan.Files); err != nil || p.failed != nil {
			return err
		}
	}
	return r.warnings(p)
}

// attach probes the sites that are not probed yet, and writes what is.
func (r *recorder) attach(p *process, files []engine.File, sites []engine.Site) error {
	var todo []engine.Site
	for _, s := range sites {
		if s.Role.Needs() > r.opt.Level || s.File < 0 || s.File >= len(files) {
			continue
		}
		f := &files[s.File]
		k := siteKey{f.Dev, f.Inode, s.Offset, s.Role, s.Return}
		if p.attached[k] {
			continue
		}
		todo = append(todo, s)
	}
	if len(todo) == 0 {
		return nil
	}
	todo = r.survivable(p, todo)
	done, full := 0, false
	for _, group := range byFile(todo) {
		err := p.att.Attach(files, group)
		if errors.Is(err, probe.ErrGone) {
			continue // the process ended, or unloaded the library: it will be examined again
		}
		if errors.Is(err, probe.ErrFull) {
			r.wait(p, err)
			full = true
			continue
		}
		if err != nil {
			if err := r.trouble(p, trace.LostProbes, len(group), err); err != nil {
				return err
			}
		}
		for _, s := range group { // refused ones are not tried again
			f := &files[s.File]
			p.attached[siteKey{f.Dev, f.Inode, s.Offset, s.Role, s.Return}] = true
		}
		if err == nil {
			done += len(group)
			if f := &files[group[0].File]; f.Unmapped && mapsAgain(p.pid, f) {
				p.att.Ready = probe.Now() // steps that ran meanwhile were not seen completely
			}
		}
	}
	if !full {
		if err := r.waited(p); err != nil {
			return err
		}
	}
	if done == 0 {
		return nil
	}
	return r.describe(p, files)
}

// mapsAgain reports whether a process may have mapped a file.
func mapsAgain(pid int, f *engine.File) bool {
	again, known := promptly(func() bool {
		all, err := target.Maps(pid)
		return err != nil || slices.ContainsFunc(all, func(m target.Mapping) bool {
			return m.Dev == f.Dev && m.Inode == f.Inode
		})
	})
	return again || !known
}

// describe updates the trace's record of the process.
func (r *recorder) describe(p *process, files []engine.File) error {
	in := &p.info
	in.PID = int32(p.pid)
	if st, err := target.ReadStat(p.pid); err == nil {
		in.StartTime, in.Comm = uint64(st.StartTime), st.Comm
	}
	if c, err := cmdline(p.pid, &p.mute); err == nil {
		in.Cmdline = shortened(r.commandLine(c))
	}
	plan := p.plan
	in.Engine, in.EngineVersion = plan.Engine, plan.EngineVersion
	in.GGMLVersion, in.GGMLCommit = plan.LibraryVersion, plan.LibraryCommit
	in.Findings = in.Findings[:0:0]
	for _, f := range plan.Findings {
		in.Findings = append(in.Findings, trace.Finding(f))
	}
	fileOf := func(i int) int {
		f := &files[i]
		k := fileKey{f.Dev, f.Inode}
		n, ok := p.files[k]
		if !ok {
			n = len(in.Files)
			p.files[k] = n
			in.Files = append(in.Files, trace.File{Path: f.Path, BuildID: f.BuildID, Role: f.Role})
		}
		return n
	}
	for _, id := range slices.Sorted(maps.Keys(p.att.Sites)) {
		if _, ok := p.index[id]; ok {
			continue
		}
		s := p.att.Sites[id]
		p.index[id] = uint32(len(in.Sites))
		if s.Warning != "" {
			p.matters.dear = append(p.matters.dear, dearSite{p.index[id], s.Role, s.Dear()})
		}
		in.Sites = append(in.Sites, trace.Site{File: fileOf(s.File), Offset: s.Offset, Where: s.Where,
			Insn:  s.Insn,
			Class: s.Class.String(), Role: s.Role.Recorded(), Return: s.Return, Entry: s.Entry,
			Phase:  s.Phase,
			Covers: s.Covers, Backend: s.Backend, Warning: s.Warning})
	}
	in.Attached = p.att.Ready
	r.tell(p)
	if err := r.w.Process(p.info); err != nil {
		return r.leaveOut(p, err)
	}
	return nil
}

// commandLine returns a command line as it is written.
func (r *recorder) commandLine(words []string) []string {
	if r.opt.KeepSecrets {
		return words
	}
	return withoutSecrets(words)
}

// backends probes the graph functions of the backends of a scheduler seen for the first time.
func (r *recorder) backends(p *process, sched uint64) error {
	if q := r.procs[p.pid]; q != nil && q != p {
		return nil // it runs another program
	}
	if sched == 0 || p.scheds[sched] || r.opt.Level < engine.LevelGraph || !p.plan.Features.Schedulers {
		return nil
	}
	if len(p.scheds) >= maxScheds {
		clear(p.scheds)
	}
	p.scheds[sched] = true
	return r.lookBackends(p, sched, func(files []engine.File, sites []engine.Site, warnings []engine.Warning,
		err error) error {
		if err != nil {
			// The process ended meanwhile, or freed the scheduler: most had no other backend anyway.
			p.matters.fail(sched, fmt.Sprintf("graphs of backends other than the CPU are not seen: %v", err))
			return nil
		}
		p.objects.learn(p.plan.Inner)
		why := ""
		for _, w := range warnings {
			switch {
			case w.Elsewhere:
				why = w.Text // reason for one that was freed meanwhile; there can be many
			case !slices.Contains(p.lacks, w):
				p.lacks = append(p.lacks, w)
			}
		}
		if err := r.attach(p, files, sites); err != nil {
			return err
		}
		p.matters.watch(sched, watching{probe.Now(), why})
		return r.warnings(p)
	})
}

// reset forgets the program that a process ran before exec: its probes went with its memory. Its events are
// written first: their marks refer to the present sites of the process.
func (r *recorder) reset(p *process) error {
	if p.att != nil {
		if err := r.drain(); err != nil {
			return err
		}
	}
	if err := r.waited(p); err != nil {
		return err
	}
	if err := r.withdraw(p); err != nil {
		return err
	}
	r.releaseAll(p)
	*p = *newProcess(p.pid) // a running examination of it is now useless
	return nil
}

// leftOut reports which files were not read to the end, once each: not again for the next process that maps
// them. Unlike other warnings it does not wait for the process to compute.
func (r *recorder) leftOut(p *process, err error) {
	for _, l := range target.LimitErrors(err) {
		w := "a file is left out: " + l.Error()
		p.warned[w] = true
		if r.left[w] || len(r.left) >= maxLeft {
			continue
		}
		r.left[w] = true
		comm, err := target.Comm(p.pid)
		if err != nil {
			comm = p.info.Comm
		}
		w = fmt.Sprintf("%s (%d): %s", comm, p.pid, w)
		r.note(w)
		if r.opt.Warn != nil {
			r.opt.Warn(w)
		}
	}
}

// byFile splits sites by file, those with entry points of steps last: a step whose begin is seen should be
// seen completely.
func byFile(sites []engine.Site) (groups [][]engine.Site) {
	entries := func(g []engine.Site) int {
		return len(g) - len(slices.DeleteFunc(slices.Clone(g), func(s engine.Site) bool {
			return s.Role == engine.RoleStepBegin
		}))
	}
	sites = slices.Clone(sites)
	slices.SortStableFunc(sites, func(a, b engine.Site) int { return a.File - b.File })
	for len(sites) > 0 {
		n := 1
		for n < len(sites) && sites[n].File == sites[0].File {
			n++
		}
		groups = append(groups, sites[:n:n])
		sites = sites[n:]
	}
	slices.SortStableFunc(groups, func(a, b []engine.Site) int { return entries(a) - entries(b) })
	return groups
}

// filter passes the requested operators to the kernel side.
func (r *recorder) filter(p *process, plan *engine.Plan) error {
	if len(r.opt.Ops) == 0 {
		return nil
	}
	var ops []int
	var lacks []string
	for _, name := range r.opt.Ops {
		if n, ok := plan.Operators[name]; ok {
			ops = append(ops, n)
		} else {
			lacks = append(lacks, name)
		}
	}
	if len(lacks) > 0 {
		err := fmt.Errorf("its %s has no operator %s; it has %s", cmp.Or(plan.Library, plan.Engine),
			strings.Join(lacks, ", "), strings.Join(slices.Sorted(maps.Keys(plan.Operators)), " "))
		if len(ops) == 0 {
			return err
		}
		if p.plan == nil {
			if err := r.trouble(p, trace.LostOperators, len(lacks), err); err != nil {
				return err
			}
		}
	}
	return p.att.SetOps(ops)
}
