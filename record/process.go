// SPDX-License-Identifier: Apache-2.0

package record

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/probe"
	"github.com/profinfer/profinfer/target"
	"github.com/profinfer/profinfer/trace"
)

// process is one process that is watched, and probed once an engine is found in it.
type process struct {
	pid    int
	plan   *engine.Plan
	att    *probe.Attachment
	lookup error // why there is no plan

	attached map[siteKey]bool
	index    map[uint32]uint32 // the session's number of a site to that in info.Sites
	info     trace.Process
	files    map[fileKey]int // to info.Files
	scheds   map[uint64]bool // schedulers whose backends were looked up
	objects  backendObjects
	warned   map[string]bool
	decoder  engine.Decoder
	looked   int64     // when its maps were last read, ns
	computes bool      // a mark of it was seen
	found    time.Time // when it got its first plan
	backed   bool      // the backends of one of its schedulers were looked up
	lacks    []string  // warnings of those backends, which a new plan does not know

	learn   *learner
	gov     *governor
	since   int64 // when the present mode of its operators' probes began
	threads int   // of its latest graph
	cpus    int   // it may run on
	crowded time.Time
	stuck   bool // its probes could not be changed
	mem     memory
	choose  choosing
}

// siteKey tells whether a site is probed already, whatever number its file has in a plan.
type siteKey struct {
	dev, inode, offset uint64
	role               engine.Role
	ret                bool
}

type fileKey struct{ dev, inode uint64 }

func newProcess(pid int) *process {
	return &process{pid: pid, attached: make(map[siteKey]bool), index: make(map[uint32]uint32),
		files: make(map[fileKey]int), scheds: make(map[uint64]bool), warned: make(map[string]bool), learn: newLearner()}
}

// entries tells whether calls of the engine that compute a batch are probed.
func (p *process) entries() bool {
	return p.plan != nil && slices.ContainsFunc(p.plan.Sites, func(s engine.Site) bool { return s.Role == engine.RoleStepBegin })
}

// update looks at what the process has mapped now and probes what is new.
func (r *recorder) update(p *process) error {
	p.looked = probe.Now()
	plan, err := r.engine.Plan(p.pid)
	if err != nil {
		if p.plan == nil {
			p.lookup = err
		}
		return nil // whoever it is has no engine, or not yet, or has ended
	}
	p.lookup = nil
	plan.Warnings = append(plan.Warnings, p.lacks...)
	if p.att == nil {
		p.att, err = r.session.Process(p.pid, &plan.Layout)
		r.allowed.process(int32(p.pid))
	} else {
		err = p.att.SetLayout(&plan.Layout)
	}
	if err == nil {
		err = r.beginMemory(p)
	}
	if err != nil {
		return err
	}
	if p.plan == nil {
		p.found = time.Now()
		p.gov = newGovernor(r.opt.Budget, r.opt.MinTPS, r.hitCost)
	}
	if err := r.filter(p, plan); err != nil {
		return err
	}
	p.plan, p.decoder = plan, plan.Decode
	if p.computes {
		defer r.warnings(p)
	}
	return r.attach(p, plan.Files, plan.Sites)
}

// attach probes those of the sites that are not probed yet, and writes down what is.
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
		if len(p.attached) == 0 || slices.Equal(p.info.Warnings, p.plan.Warnings) {
			return nil
		}
		r.describe(p, files) // what a plan lacked can have come, also where it needs no probe at this level
		return r.w.Process(p.info)
	}
	done := 0
	for _, group := range byFile(todo) {
		err := p.att.Attach(files, group)
		if errors.Is(err, probe.ErrGone) {
			continue // the process ended, or unloaded the library: it will be looked at again
		}
		if err != nil {
			return err
		}
		for _, s := range group {
			f := &files[s.File]
			p.attached[siteKey{f.Dev, f.Inode, s.Offset, s.Role, s.Return}] = true
		}
		done += len(group)
	}
	if done == 0 {
		return nil
	}
	r.describe(p, files)
	return r.w.Process(p.info)
}

// describe brings the trace's record of the process up to date.
func (r *recorder) describe(p *process, files []engine.File) {
	in := &p.info
	in.PID = int32(p.pid)
	if st, err := target.ReadStat(p.pid); err == nil {
		in.StartTime, in.Comm = uint64(st.StartTime), st.Comm
	}
	if c, err := target.Cmdline(p.pid); err == nil {
		in.Cmdline = c
	}
	plan := p.plan
	in.Engine, in.EngineVersion = plan.Engine, plan.EngineVersion
	in.GGMLVersion, in.GGMLCommit = plan.GGMLVersion, plan.GGMLCommit
	in.Warnings = plan.Warnings
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
		in.Sites = append(in.Sites, trace.Site{File: fileOf(s.File), Offset: s.Offset, Where: s.Where, Insn: s.Insn,
			Class: s.Class.String(), Role: s.Role.String(), Return: s.Return, Entry: s.Entry, Phase: s.Phase,
			Covers: s.Covers, Backend: s.Backend, Warning: s.Warning})
	}
	in.Attached = p.att.Ready
}

// backends probes the graph functions of the backends of a scheduler seen for the first time.
func (r *recorder) backends(p *process, sched uint64) error {
	if sched == 0 || p.scheds[sched] || r.opt.Level < engine.LevelGraph {
		return nil
	}
	if len(p.scheds) >= maxScheds {
		clear(p.scheds)
	}
	p.scheds[sched] = true
	known := len(p.plan.Warnings)
	files, sites, err := r.engine.Backends(p.pid, p.plan, sched)
	if err != nil {
		// It may have ended meanwhile. That matters only where it had another backend than the CPU,
		// and where those are not watched already for an earlier scheduler.
		if errors.Is(err, target.ErrNoProcess) && (p.backed || !slices.ContainsFunc(p.plan.Files, func(f engine.File) bool {
			return strings.Contains(f.Role, "backend:")
		})) {
			return nil
		}
		r.note(fmt.Sprintf("%s (%d): graphs of backends other than the CPU are not seen: %v", p.info.Comm, p.pid, err))
		return nil
	}
	p.backed = true
	p.objects.learn(p.plan.Inner)
	for _, w := range p.plan.Warnings[known:] {
		if !slices.Contains(p.lacks, w) {
			p.lacks = append(p.lacks, w)
		}
	}
	if err := r.attach(p, files, sites); err != nil {
		return err
	}
	r.warnings(p)
	return nil
}

// reset forgets the program a process ran before exec: its probes went with its memory.
func (r *recorder) reset(p *process) {
	if p.att != nil {
		r.endMemory(p)
		r.ended = append(r.ended, &process{pid: p.pid, att: p.att, index: p.index, decoder: p.decoder, plan: p.plan})
		p.att.Stop()
	}
	*p = *newProcess(p.pid)
}

// warnings tells what a process's plan cannot give, each thing once. The trace has it with the process.
func (r *recorder) warnings(p *process) {
	for _, w := range p.plan.Warnings {
		if !p.warned[w] {
			p.warned[w] = true
			if r.opt.Warn != nil {
				r.opt.Warn(fmt.Sprintf("%s (%d): %s", p.info.Comm, p.pid, w))
			}
		}
	}
}

// byFile splits sites by file, those of files with entry points of steps last: a step whose
// begin is seen is to be seen whole.
func byFile(sites []engine.Site) (groups [][]engine.Site) {
	entries := func(g []engine.Site) int {
		return len(g) - len(slices.DeleteFunc(slices.Clone(g), func(s engine.Site) bool { return s.Role == engine.RoleStepBegin }))
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

// filter hands the operators that are asked for to the kernel side.
func (r *recorder) filter(p *process, plan *engine.Plan) error {
	if len(r.opt.Ops) == 0 {
		return nil
	}
	var ops []int
	for _, name := range r.opt.Ops {
		n, ok := plan.Operators[name]
		if !ok {
			return fmt.Errorf("process %d: its ggml has no operator %q; it has %s", p.pid, name,
				strings.Join(slices.Sorted(maps.Keys(plan.Operators)), " "))
		}
		ops = append(ops, n)
	}
	return p.att.SetOps(ops)
}
