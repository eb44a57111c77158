// SPDX-License-Identifier: Apache-2.0

package ggml

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"sync"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/target"
)

// Engine makes plans for processes that run something built on ggml.
type Engine struct {
	mu sync.Mutex
	// files that have nothing of ggml, by identity: a process's maps are looked at again for every library
	// it loads
	dull map[identity]bool
}

type identity struct{ dev, inode uint64 }

const maxDull = 4096

// New returns an Engine.
func New() *Engine { return &Engine{dull: make(map[identity]bool)} }

// Plan makes the plan for what a process has mapped now. An error is a *NotFound, ErrIncomplete, or one
// of reading the process.
func (g *Engine) Plan(pid int) (*engine.Plan, error) {
	files, refused, closeAll, err := g.files(pid)
	if err != nil {
		return nil, err
	}
	defer closeAll()
	p, err := Plan(files, Options{})
	if err != nil {
		return nil, errors.Join(append([]error{err}, refused...)...)
	}
	for _, r := range refused {
		// an engine of which all is there lacks at most another backend
		p.Warnings = append(p.Warnings, engine.Warning{Text: "a file is left out: " + r.Error(), Elsewhere: whole(p)})
	}
	return p, nil
}

// whole says whether all of an engine was found but backends other than the CPU's.
func whole(p *engine.Plan) bool {
	has := func(r engine.Role) bool {
		return slices.ContainsFunc(p.Sites, func(s engine.Site) bool { return s.Role == r })
	}
	return has(engine.RoleSchedBegin) && has(engine.RoleOpBegin) && (has(engine.RoleStepBegin) || p.Engine != "llama.cpp")
}

// files opens what a process has mapped and has something of ggml. refused are the files that could
// not be opened for want of a privilege.
func (g *Engine) files(pid int) (files []OpenedFile, refused []error, closeAll func(), err error) {
	maps, err := target.Maps(pid)
	if err != nil {
		return nil, nil, nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	var closers []func() error
	closeAll = func() {
		for _, c := range closers {
			_ = c()
		}
	}
	var looked []string
	for _, m := range target.ExecutableFiles(maps) {
		id := identity{m.Dev, m.Inode}
		looked = append(looked, m.Path)
		if g.dull[id] {
			continue
		}
		fd, open, err := target.OpenMapped(pid, m)
		if errors.Is(err, fs.ErrPermission) {
			refused = append(refused, err)
			continue
		}
		if err != nil {
			continue // it was unmapped, or the process ended: that says nothing of the file
		}
		closers = append(closers, fd.Close)
		elf, err := target.OpenELF(fd, m.Path)
		if err != nil || Parts(elf) == 0 {
			if len(g.dull) >= maxDull {
				clear(g.dull)
			}
			g.dull[id] = true
			continue
		}
		f := OpenedFile{ELF: elf, File: engine.File{Path: m.Path, BuildID: elf.BuildID(), Inode: m.Inode, Dev: m.Dev, Open: open}}
		files = append(files, f)
	}
	if len(files) == 0 {
		closeAll()
		return nil, nil, nil, &NotFound{Looked: looked, Refused: refused}
	}
	return files, refused, closeAll, nil
}

// Backends returns the sites of the graph functions of a scheduler's backends, other than the CPU's. What
// cannot be seen of them, or is dear, is added to the plan's warnings.
func (g *Engine) Backends(pid int, p *engine.Plan, sched uint64) ([]engine.File, []engine.Site, error) {
	b, err := BackendSites(p, pid, sched)
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

// Dull tells that a file was looked at before and has nothing of ggml.
func (g *Engine) Dull(dev, inode uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.dull[identity{dev, inode}]
}
