// SPDX-License-Identifier: Apache-2.0

package ggml

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/target"
)

// maxBackends is GGML_SCHED_MAX_BACKENDS.
const maxBackends = 16

// Backend is one backend of a live scheduler.
type Backend struct {
	Name   string // "CPU", "Vulkan"
	Object uint64 // address of its struct ggml_backend: the C argument of a graph site
	File   string // the file that contains its functions
	Where  string // its graph function, readable
	CPU    bool   // it computes through ggml_graph_compute, which the plan already covers
}

// Backends is what was found out about a scheduler's backends.
type Backends struct {
	Backends []Backend
	Files    []engine.File // to append to Plan.Files: the sites' File continues its numbering
	Sites    []engine.Site
	Inner    map[uint64]uint64 // see engine.Plan
	Warnings []engine.Warning
}

// backends reads the backends of a scheduler from the memory of a live process and plans the graph functions
// that the plan does not cover yet. sched is the address of the scheduler as seen at a RoleSchedBegin site.
// It is called once for each scheduler, while the process runs. A wrong or stale address gives an error or no
// backends.
func (g *Engine) backends(p *engine.Plan, pid int, sched uint64) (*Backends, error) {
	d, ok := p.Decode.(*Decoder)
	if !ok {
		return nil, errors.New("the plan was not made by package ggml")
	}
	maps, err := target.Maps(pid)
	if err != nil {
		return nil, err
	}
	s := &backendScan{plan: p, lay: d.Backend, maps: maps, out: &Backends{},
		libs: map[[2]uint64]*backendLib{},
		read: func(addr uint64, b []byte) error { return target.ReadMem(pid, addr, b) }}
	defer func() {
		for _, c := range s.closers {
			_ = c()
		}
	}()
	s.open = func(m target.Mapping) (file, error) {
		o, err := g.open(pid, m, &s.closers)
		if known, ok := g.known(o.ID); ok && known.why != nil {
			err = known.why // it was too expensive before
		}
		return o, err
	}
	err = s.run(sched)
	for _, l := range s.libs {
		g.leftOut(l.file.ID, l.l.e.Trouble())
	}
	return s.out, err
}

type backendScan struct {
	plan    *engine.Plan
	lay     BackendLayout
	maps    []target.Mapping
	read    func(addr uint64, b []byte) error
	open    func(target.Mapping) (file, error)
	out     *Backends
	libs    map[[2]uint64]*backendLib
	closers []func() error
}

// backendLib is one file that contains backends.
type backendLib struct {
	l       *lib
	file    file
	index   int // in Plan.Files, continued for new ones; -1: not among them yet
	seen    map[uint64]bool
	backend string // the name of a backend in it other than the CPU
}

func (s *backendScan) word(addr uint64) (uint64, error) {
	var b [8]byte
	if err := s.read(addr, b[:]); err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b[:]), nil
}

func (s *backendScan) run(sched uint64) error {
	lay := s.lay
	if lay.SchedNBackends < 0 || lay.SchedBackends < 0 || lay.GraphCompute < 0 {
		return errors.New("the layout of ggml's scheduler could not be read from the binary: other backends than the CPU cannot be seen")
	}
	var b [4]byte
	if err := s.read(sched+uint64(lay.SchedNBackends), b[:]); err != nil {
		return fmt.Errorf("reading the scheduler's backends: %w", err)
	}
	n := int32(binary.LittleEndian.Uint32(b[:]))
	if n < 1 || n > maxBackends {
		return fmt.Errorf("the scheduler at %#x has %d backends: it is none, or its layout was misread",
			sched, n)
	}
	for i := range uint64(n) {
		obj, err := s.word(sched + uint64(lay.SchedBackends) + 8*i)
		if err != nil {
			return fmt.Errorf("reading backend %d of the scheduler: %w", i, err)
		}
		if err := s.backend(obj); err != nil {
			s.out.Warnings = append(s.out.Warnings, engine.Warning{Level: engine.LevelGraph, Elsewhere: true,
				Text: fmt.Sprintf("backend %d of the scheduler cannot be seen: %v", i, err)})
		}
	}
	if slices.ContainsFunc(s.out.Backends, func(b Backend) bool { return !b.CPU }) {
		s.out.Sites = append(s.out.Sites, s.plan.Copies...)
		s.queueSites()
	}
	return nil
}

func (s *backendScan) backend(obj uint64) error {
	graph, err := s.word(obj + uint64(s.lay.GraphCompute))
	if err != nil {
		return err
	}
	m, ok := target.FindMapping(s.maps, graph)
	if !ok || !m.Exec() {
		return fmt.Errorf("its graph function %#x lies in no code that is mapped", graph)
	}
	lib, err := s.lib(m)
	if err != nil {
		return err
	}
	addr, ok := lib.l.e.AddrOfOffset(m.FileOffset(graph))
	if !ok || !lib.l.e.IsCode(addr) {
		return fmt.Errorf("its graph function %#x is not in the code of %s", graph, m.Path)
	}
	be := Backend{Object: obj, File: m.Path, Where: lib.l.e.NameAt(addr), CPU: lib.l.callsGraphCompute(addr)}
	be.Name = "CPU"
	if !be.CPU {
		be.Name = s.name(obj, lib, addr)
	}
	s.out.Backends = append(s.out.Backends, be)
	if !be.CPU {
		lib.backend = be.Name
	}
	if inner, ok := s.waitsBy(obj, lib); ok && !be.CPU {
		if s.out.Inner == nil {
			s.out.Inner = map[uint64]uint64{}
		}
		s.out.Inner[inner] = obj
	}
	if be.CPU || lib.seen[addr] || s.planned(lib.index, addr) {
		return nil
	}
	lib.seen[addr] = true
	if lib.index < 0 {
		f := lib.file.File
		f.Role = "backend:" + strings.ToLower(be.Name)
		lib.index = len(s.plan.Files) + len(s.out.Files)
		s.out.Files = append(s.out.Files, f)
	}
	begin := engine.Site{Role: engine.RoleGraphBegin, A: reg(1), C: reg(0), Backend: be.Name}
	sites, err := lib.l.span(addr, "", begin, engine.RoleGraphEnd, 0, 1)
	if err != nil {
		return err
	}
	sites = append(sites, s.deviceSites(obj, lib, be.Name)...)
	if err := lib.l.e.Trouble(); err != nil {
		return err
	}
	for _, x := range sites {
		x.File = lib.index
		s.out.Sites = append(s.out.Sites, x)
	}
	return nil
}

// planned reports whether the plan already has a graph site in the function.
func (s *backendScan) planned(index int, fn uint64) bool {
	return slices.ContainsFunc(s.plan.Sites, func(x engine.Site) bool {
		return x.Role == engine.RoleGraphBegin && x.File == index && x.Addr >= fn &&
			x.Addr-fn < 16*maxEntry && x.C.Kind != engine.ArgNone
	})
}

// lib opens the file of a mapping, or finds it among those already open or planned.
func (s *backendScan) lib(m target.Mapping) (*backendLib, error) {
	key := [2]uint64{m.Dev, m.Inode}
	if l, ok := s.libs[key]; ok {
		return l, nil
	}
	f, err := s.open(m)
	if err != nil {
		return nil, err
	}
	l := &backendLib{l: newLib(f.ELF), file: f, index: -1, seen: map[uint64]bool{}}
	for i, p := range s.plan.Files {
		if p.Inode == f.Inode && p.Dev == f.Dev {
			l.index = i
		}
	}
	s.libs[key] = l
	return l, nil
}

// callsGraphCompute reports whether a backend's graph function is the CPU's: it calls ggml_graph_compute.
func (l *lib) callsGraphCompute(fn uint64) bool {
	want, ok := l.fn(graphCompute)
	f, known := l.e.FunctionAt(fn)
	if !ok || !known {
		return false
	}
	calls := false
	_ = l.e.EachInsn(f.Start, f.End, func(in target.Insn) bool {
		calls = (in.Kind == target.Call || in.Kind == target.Jump) &&
			(in.Target == want || l.e.CalleeName(in.Target) == graphCompute)
		return !calls
	})
	return calls
}

// name names a backend: by its library, by the name of its graph function (ggml_backend_vk_graph_compute), or
// by the constant that its get_name returns.
func (s *backendScan) name(obj uint64, lib *backendLib, fn uint64) string {
	if n := backendOfFile(lib.file.Path); strings.HasPrefix(lastPart(lib.file.Path), "libggml-") &&
		n != "base" {
		return n
	}
	if f, ok := lib.l.e.FunctionAt(fn); ok {
		if _, rest, ok := strings.Cut(f.Name, "ggml_backend_"); ok {
			word, _, _ := strings.Cut(rest, "_")
			if n, ok := backendNames[word]; ok {
				return n
			}
		}
	}
	if s.lay.GetName >= 0 {
		if p, err := s.word(obj + uint64(s.lay.GetName)); err == nil {
			if m, ok := target.FindMapping(s.maps, p); ok && m.Inode == lib.file.Inode &&
				m.Dev == lib.file.Dev {
				if addr, ok := lib.l.e.AddrOfOffset(m.FileOffset(p)); ok {
					mach := lib.l.newMachine()
					if ret, err := mach.Run(addr, mach.NewObject("backend").Addr); err == nil {
						if n, ok := lib.l.str(ret, 64); ok && n != "" {
							return n
						}
					}
				}
			}
		}
	}
	return lastPart(lib.file.Path)
}

func lastPart(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }
