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
	// files already examined: a process's maps are read again for every library it loads
	seen  map[target.FileID]look
	facts map[factsKey]*fileFacts
	// what may be spent in total on new files, and on examining known ones again
	all, again *target.Budget
	procs      map[int]spender
}

// look is the result for a file: parts of an engine or none, or why it was left out.
type look struct {
	parts Part
	why   error
}

// spender is what may be spent on a process; started tells it apart from a later process with the same ID.
type spender struct {
	started time.Duration
	// for files not examined before: each is paid for once per recording
	files *target.Budget
	// for reading its maps, and known files again
	again *target.Budget
}

const (
	maxSeen  = 4096
	maxProcs = 4096
	// Budgets of several files, in units of one file's budget. All libraries of all builds tested here, a
	// thousand, need one.
	processFiles   = 8
	recordingFiles = 64
	// Examining it again costs some 40,000 steps for a process with 100 libraries and 1,000 mappings.
	processAgain   = 64
	recordingAgain = 1024
	// mappingSteps is the cost of asking for a mapped file, and of a line of a process's maps.
	mappingSteps = 32
)

// New returns an Engine for one recording.
func New() *Engine {
	return &Engine{seen: make(map[target.FileID]look), facts: make(map[factsKey]*fileFacts),
		procs: make(map[int]spender),
		all:   target.NewBudget("a recording", target.FileLimits.Times(recordingFiles), nil),
		again: target.NewBudget("a recording", target.FileLimits.Times(recordingAgain), nil)}
}

// Plan makes the plan for what a process has mapped now. The error is an *[engine.NotFound], an
// *[engine.Incomplete], or one of reading the process. unmapped is what it may have unmapped since, and may map
// again: ggml loads each of its CPU libraries to ask how well it suits the machine, and then the best of them
// once more. These have sites in the plan, too, but otherwise nothing is said of them.
func (g *Engine) Plan(pid int, unmapped []target.Mapping) (*engine.Plan, error) {
	f, err := g.files(pid)
	if err != nil {
		return nil, err
	}
	defer f.close()
	p, err := g.plan(f.files, f.missing())
	if err != nil {
		return nil, errors.Join(append([]error{err}, f.missing()...)...)
	}
	g.addUnmapped(pid, p, f, unmapped)
	return p, nil
}

// addUnmapped adds the sites of files that a process may map again. A file that cannot be read, or has no name
// any more, is left out.
func (g *Engine) addUnmapped(pid int, p *engine.Plan, f *found, unmapped []target.Mapping) {
	gone := &found{}
	defer gone.close()
	for i, m := range unmapped {
		same := func(o target.Mapping) bool { return o.Dev == m.Dev && o.Inode == m.Inode }
		if !slices.ContainsFunc(f.mapped, same) && !slices.ContainsFunc(unmapped[:i], same) {
			g.examine(pid, m, gone)
		}
	}
	if len(gone.files) == 0 {
		return
	}
	all, err := g.plan(slices.Concat(f.files, gone.files), nil)
	if err != nil {
		return
	}
	for i := range all.Files {
		o := &all.Files[i]
		same := func(x file) bool { return x.Dev == o.Dev && x.Inode == o.Inode }
		if !slices.ContainsFunc(gone.files, same) {
			continue
		}
		for _, s := range all.Sites {
			if s.File == i {
				s.File = len(p.Files)
				p.Sites = append(p.Sites, s)
			}
		}
		o.Unmapped = true
		p.Files = append(p.Files, *o)
	}
}

// whole reports whether everything of an engine was found except backends other than the CPU.
func whole(p *engine.Plan) bool {
	has := func(r engine.Role) bool {
		return slices.ContainsFunc(p.Sites, func(s engine.Site) bool { return s.Role == r })
	}
	return has(engine.RoleSchedBegin) && has(engine.RoleOpBegin) &&
		(has(engine.RoleStepBegin) || p.Engine != "llama.cpp")
}

// found is what was found among a process's files.
type found struct {
	mapped  []target.Mapping // of code, whatever is in it
	files   []file           // those that contain something of ggml
	refused []error          // of opening, for lack of a privilege
	left    []error          // those over their budget
	closers []func() error
}

// leave appends why a file is left out; if a shared budget is used up, only for the first file.
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

// files opens the files of a process that contain something of ggml.
func (g *Engine) files(pid int) (*found, error) {
	budget, name := g.spender(pid).again, fmt.Sprintf("what process %d has mapped", pid)
	if err := budget.Spend(name, target.Limits{Steps: mappingSteps}); err != nil {
		return nil, notFound(nil, nil, []error{err})
	}
	maps, err := target.Maps(pid)
	if err != nil {
		return nil, err
	}
	// A process that maps one file after another is examined for each, and every time all its files are.
	executable := target.ExecutableFiles(maps)
	over := budget.Spend(name, target.Limits{Steps: uint64(len(maps)+len(executable)) * mappingSteps})
	f := &found{mapped: executable}
	var looked []string
	for _, m := range executable {
		looked = append(looked, m.Path)
		if over != nil {
			f.left = leave(f.left, over)
			break
		}
		g.examine(pid, m, f)
	}
	if len(f.files) == 0 {
		f.close()
		return nil, notFound(looked, f.refused, f.left)
	}
	return f, nil
}

// examine adds the file of a mapping to what was found.
func (g *Engine) examine(pid int, m target.Mapping, f *found) {
	if id, err := target.IdentifyMapped(pid, m); err == nil {
		if known, ok := g.known(id); ok && known.parts == 0 {
			if known.why != nil {
				f.left = leave(f.left, known.why)
			}
			return
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
		// it was unmapped, the process ended, the disk failed: that says nothing about the file
	case err != nil || o.parts == 0:
		g.remember(o.ID, look{})
	default:
		g.remember(o.ID, look{parts: o.parts})
		f.files = append(f.files, o)
	}
}

// open opens the file of a mapping. A file that could be opened has an ID even if it could not be read.
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

// openError is an error of opening a file, not of its contents.
type openError struct{ error }

func (e *openError) Unwrap() error { return e.error }

// transient reports whether an error comes from opening or reading, which need not be the file's fault,
// rather than from its contents.
func transient(err error) bool {
	var o *openError
	var p *fs.PathError
	return errors.As(err, &o) || errors.As(err, &p)
}

// spender returns what may be spent on a process.
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

// leftOut reports whether a file is left out because of its cost, and remembers it if that is the file's own
// fault.
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

// Backends returns the sites of the graph functions of a scheduler's backends, except the CPU's. What is
// invisible or expensive about them is added to the plan's warnings.
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

// Dull reports whether the file of a mapping was examined before and contains nothing of an engine.
func (g *Engine) Dull(pid int, m target.Mapping) bool {
	if g.spender(pid).again.Spend("", target.Limits{Steps: mappingSteps}) != nil {
		return true // no more files of this process are examined
	}
	id, err := target.IdentifyMapped(pid, m)
	if err != nil {
		return false
	}
	l, ok := g.known(id)
	return ok && l.parts == 0
}
