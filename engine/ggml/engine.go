// SPDX-License-Identifier: Apache-2.0

package ggml

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/target"
)

// Engine makes plans for processes that run something built on ggml.
type Engine struct {
	mu sync.Mutex
	// files that were looked at before: a process's maps are looked at again for every library it loads
	seen  map[target.FileID]look
	facts map[factsKey]*fileFacts
	// what may be spent on files that were not, and on looking again, in all
	all, again *target.Budget
	procs      map[int]spender
}

// look is what was found of a file: parts of an engine or none, or why it was left out.
type look struct {
	parts Part
	why   error
}

// spender is what may be spent on a process; started tells it from a later one of its number.
type spender struct {
	started time.Duration
	// of files that were not looked at before: they are paid for once in a recording
	files *target.Budget
	// of looking at its maps, and again into files that are known
	again *target.Budget
}

const (
	maxSeen  = 4096
	maxProcs = 4096
	// Budgets of several files, in files' budgets. All libraries of all builds that are tested here, a
	// thousand, need one.
	processFiles   = 8
	recordingFiles = 64
	// Looking again costs a process with 100 libraries and 1,000 mappings some 40,000 steps.
	processAgain   = 64
	recordingAgain = 1024
	// mappingSteps is what it costs to ask for a file that is mapped, and for a line of a process's maps.
	mappingSteps = 32
)

// New returns an Engine for one recording.
func New() *Engine {
	return &Engine{seen: make(map[target.FileID]look), facts: make(map[factsKey]*fileFacts),
		procs: make(map[int]spender),
		all:   target.NewBudget("a recording", target.FileLimits.Times(recordingFiles), nil),
		again: target.NewBudget("a recording", target.FileLimits.Times(recordingAgain), nil)}
}

// Plan makes the plan for what a process has mapped now. An error is an *[engine.NotFound], an
// *[engine.Incomplete], or one of reading the process.
func (g *Engine) Plan(pid int) (*engine.Plan, error) {
	f, err := g.files(pid)
	if err != nil {
		return nil, err
	}
	defer f.close()
	p, err := g.plan(f.files, f.missing())
	if err != nil {
		return nil, errors.Join(append([]error{err}, f.missing()...)...)
	}
	return p, nil
}

// whole says whether all of an engine was found but backends other than the CPU's.
func whole(p *engine.Plan) bool {
	has := func(r engine.Role) bool {
		return slices.ContainsFunc(p.Sites, func(s engine.Site) bool { return s.Role == r })
	}
	return has(engine.RoleSchedBegin) && has(engine.RoleOpBegin) &&
		(has(engine.RoleStepBegin) || p.Engine != "llama.cpp")
}

// found is what was found in a process's files.
type found struct {
	files   []file  // that have something of ggml
	refused []error // of opening, for want of a privilege
	left    []error // that cost more than they may
	closers []func() error
}

// leave adds why a file is left out: where others have used up what there was, of the first only.
func leave(left []error, err error) []error {
	if shared(err) && slices.ContainsFunc(left, shared) {
		return left
	}
	return append(left, err)
}

func shared(err error) bool {
	var l *target.LimitError
	return errors.As(err, &l) && l.Shared
}

func (f *found) missing() []error { return slices.Concat(f.refused, f.left) }

func (f *found) close() {
	for _, c := range f.closers {
		_ = c()
	}
}

// files opens what a process has mapped and has something of ggml.
func (g *Engine) files(pid int) (*found, error) {
	budget, name := g.spender(pid).again, fmt.Sprintf("what process %d has mapped", pid)
	if err := budget.Spend(name, target.Limits{Steps: mappingSteps}); err != nil {
		return nil, notFound(nil, nil, []error{err})
	}
	maps, err := target.Maps(pid)
	if err != nil {
		return nil, err
	}
	// A process that maps one file after the other is looked at for each, and then all of them are.
	executable := target.ExecutableFiles(maps)
	over := budget.Spend(name, target.Limits{Steps: uint64(len(maps)+len(executable)) * mappingSteps})
	f := &found{}
	var looked []string
	for _, m := range executable {
		looked = append(looked, m.Path)
		if over != nil {
			f.left = leave(f.left, over)
			break
		}
		if id, err := target.IdentifyMapped(pid, m); err == nil {
			if known, ok := g.known(id); ok && known.parts == 0 {
				if known.why != nil {
					f.left = leave(f.left, known.why)
				}
				continue
			}
		}
		o, err := g.open(pid, m, &f.closers)
		if known, ok := g.known(o.ID); ok && err == nil {
			o.parts, err = known.parts, known.why
		} else if err == nil {
			o.parts = Parts(o.ELF)
			err = o.ELF.Trouble()
		}
		switch {
		case errors.Is(err, fs.ErrPermission) && o.ID == (target.FileID{}):
			f.refused = append(f.refused, err)
		case g.leftOut(o.ID, err):
			f.left = leave(f.left, err)
		case transient(err):
			// it was unmapped, the process ended, the disk failed: that says nothing of the file
		case err != nil || o.parts == 0:
			g.remember(o.ID, look{})
		default:
			g.remember(o.ID, look{parts: o.parts})
			f.files = append(f.files, o)
		}
	}
	if len(f.files) == 0 {
		f.close()
		return nil, notFound(looked, f.refused, f.left)
	}
	return f, nil
}

// open opens the file of a mapping. One that could be opened has an ID also where it could not be read.
func (g *Engine) open(pid int, m target.Mapping, closers *[]func() error) (o file, err error) {
	fd, path, err := target.OpenMapped(pid, m)
	if err != nil {
		return o, &openError{err}
	}
	*closers = append(*closers, fd.Close)
	if o.ID, err = target.Identify(fd); err != nil {
		return o, err
	}
	budget := g.spender(pid).files
	if _, ok := g.known(o.ID); ok {
		budget = g.spender(pid).again
	}
	if o.ELF, err = target.OpenELFWithin(fd, m.Path, budget); err != nil {
		return o, err
	}
	o.Path, o.BuildID, o.Inode, o.Dev, o.Open = m.Path, o.ELF.BuildID(), m.Inode, m.Dev, path
	return o, nil
}

// openError is an error of opening a file, not of what is in it.
type openError struct{ error }

func (e *openError) Unwrap() error { return e.error }

// transient tells errors of opening and reading, for which a file need not be to blame, from those of what is
// in it.
func transient(err error) bool {
	var o *openError
	var p *fs.PathError
	return errors.As(err, &o) || errors.As(err, &p)
}

// spender is what may be spent on a process.
func (g *Engine) spender(pid int) spender {
	started, _ := target.StartTime(pid)
	g.mu.Lock()
	defer g.mu.Unlock()
	s, ok := g.procs[pid]
	if !ok || s.started != started {
		if len(g.procs) >= maxProcs {
			clear(g.procs)
		}
		s = spender{started: started, files: target.NewBudget("a process",
			target.FileLimits.Times(processFiles), g.all),
			again: target.NewBudget("a process", target.FileLimits.Times(processAgain), g.again)}
		g.procs[pid] = s
	}
	return s
}

// leftOut says whether a file is left out for what it costs, and remembers it if that is its own fault.
func (g *Engine) leftOut(id target.FileID, err error) bool {
	var l *target.LimitError
	if !errors.As(err, &l) {
		return false
	}
	if !l.Shared {
		g.remember(id, look{why: err})
	}
	return true
}

func (g *Engine) remember(id target.FileID, l look) {
	if id == (target.FileID{}) {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.seen) >= maxSeen {
		clear(g.seen)
	}
	g.seen[id] = l
}

func (g *Engine) known(id target.FileID) (look, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l, ok := g.seen[id]
	return l, ok
}

// Backends returns the sites of the graph functions of a scheduler's backends, other than the CPU's. What
// cannot be seen of them, or is dear, is added to the plan's warnings.
func (g *Engine) Backends(pid int, p *engine.Plan, sched uint64) ([]engine.File, []engine.Site, error) {
	b, err := g.backends(p, pid, sched)
	if err != nil {
		return nil, nil, err
	}
	for _, w := range b.Warnings {
		if !slices.Contains(p.Warnings, w) {
			p.Warnings = append(p.Warnings, w)
		}
	}
	if p.Inner == nil {
		p.Inner = map[uint64]uint64{}
	}
	maps.Copy(p.Inner, b.Inner)
	return append(slices.Clip(p.Files), b.Files...), b.Sites, nil
}

// Dull tells that the file of a mapping was looked at before and gives nothing.
func (g *Engine) Dull(pid int, m target.Mapping) bool {
	if g.spender(pid).again.Spend("", target.Limits{Steps: mappingSteps}) != nil {
		return true // nothing more of this process is looked at
	}
	id, err := target.IdentifyMapped(pid, m)
	if err != nil {
		return false
	}
	l, ok := g.known(id)
	return ok && l.parts == 0
}
