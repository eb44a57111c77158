// SPDX-License-Identifier: Apache-2.0

package ggml

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/target"
)

// Engine makes plans for processes that run something built on ggml.
type Engine struct {
	mu sync.Mutex
	// files that were looked at before and give nothing: a process's maps are looked at again for every library it
	// loads. With an error they cost more than a file may, else they have nothing of ggml.
	done map[target.FileID]error
	// what may be spent on files, in all and by process
	all   *target.Budget
	procs map[int]spender
}

// spender is what a process may have looked at; started tells it from a later one of its number.
type spender struct {
	started time.Duration
	budget  *target.Budget
}

const (
	maxDone  = 4096
	maxProcs = 4096
	// Budgets of several files, in files' budgets: a process that maps a hundred libraries needs a fifth of one, a
	// recording that sees a thousand programs two.
	processFiles   = 8
	recordingFiles = 64
)

// New returns an Engine for one recording.
func New() *Engine {
	return &Engine{done: make(map[target.FileID]error), procs: make(map[int]spender),
		all: target.NewBudget("a recording", target.FileLimits.Times(recordingFiles), nil)}
}

// Plan makes the plan for what a process has mapped now. An error is a *NotFound, ErrIncomplete, or one
// of reading the process.
func (g *Engine) Plan(pid int) (*engine.Plan, error) {
	f, err := g.files(pid)
	if err != nil {
		return nil, err
	}
	defer f.close()
	p, err := Plan(f.files, Options{LeftOut: f.missing()})
	if err != nil {
		return nil, errors.Join(append([]error{err}, f.missing()...)...)
	}
	return p, nil
}

// found is what was found in a process's files.
type found struct {
	files   []OpenedFile // that have something of ggml
	refused []error      // of opening, for want of a privilege
	left    []error      // that cost more than they may
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
	maps, err := target.Maps(pid)
	if err != nil {
		return nil, err
	}
	f := &found{}
	var looked []string
	for _, m := range target.ExecutableFiles(maps) {
		looked = append(looked, m.Path)
		if id, err := target.IdentifyMapped(pid, m); err == nil {
			if known, why := g.known(id); known {
				if why != nil {
					f.left = leave(f.left, why)
				}
				continue
			}
		}
		o, err := g.open(pid, m, &f.closers)
		if err == nil {
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
			g.remember(o.ID, nil)
		default:
			f.files = append(f.files, o)
		}
	}
	if len(f.files) == 0 {
		f.close()
		return nil, &NotFound{Looked: looked, Refused: f.refused, LeftOut: f.left}
	}
	return f, nil
}

// open opens the file of a mapping. One that could be opened has an ID also where it could not be read.
func (g *Engine) open(pid int, m target.Mapping, closers *[]func() error) (o OpenedFile, err error) {
	fd, path, err := target.OpenMapped(pid, m)
	if err != nil {
		return o, &openError{err}
	}
	*closers = append(*closers, fd.Close)
	return opened(fd, m, path, g.budget(pid))
}

func opened(fd *os.File, m target.Mapping, path string, of *target.Budget) (o OpenedFile, err error) {
	if o.ID, err = target.Identify(fd); err != nil {
		return o, err
	}
	if o.ELF, err = target.OpenELFWithin(fd, m.Path, of); err != nil {
		return o, err
	}
	o.File = engine.File{Path: m.Path, BuildID: o.ELF.BuildID(), Inode: m.Inode, Dev: m.Dev, Open: path}
	return o, nil
}

// openError is an error of opening a file, not of what is in it.
type openError struct{ error }

func (e *openError) Unwrap() error { return e.error }

// transient tells errors of opening and reading, for which a file need not be to blame, from those of what is in it.
func transient(err error) bool {
	var o *openError
	var p *fs.PathError
	return errors.As(err, &o) || errors.As(err, &p)
}

// budget is what may be spent on a process's files.
func (g *Engine) budget(pid int) *target.Budget {
	started, _ := target.StartTime(pid)
	g.mu.Lock()
	defer g.mu.Unlock()
	s, ok := g.procs[pid]
	if !ok || s.started != started {
		if len(g.procs) >= maxProcs {
			clear(g.procs)
		}
		s = spender{started, target.NewBudget("a process", target.FileLimits.Times(processFiles), g.all)}
		g.procs[pid] = s
	}
	return s.budget
}

// leftOut says whether a file is left out for what it costs, and remembers it if that is its own fault.
func (g *Engine) leftOut(id target.FileID, err error) bool {
	var l *target.LimitError
	if !errors.As(err, &l) {
		return false
	}
	if !l.Shared {
		g.remember(id, err)
	}
	return true
}

func (g *Engine) remember(id target.FileID, why error) {
	if id == (target.FileID{}) {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.done) >= maxDone {
		clear(g.done)
	}
	g.done[id] = why
}

func (g *Engine) known(id target.FileID) (known bool, why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	why, known = g.done[id]
	return known, why
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
	g.mu.Lock()
	none := len(g.done) == 0
	g.mu.Unlock()
	if none {
		return false
	}
	id, err := target.IdentifyMapped(pid, m)
	if err != nil {
		return false
	}
	known, _ := g.known(id)
	return known
}
