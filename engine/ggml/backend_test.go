// SPDX-License-Identifier: Apache-2.0

package ggml

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/target"
)

// fakeProcess is the memory of a process that has a made-up engine mapped, twice: as the
// program and as a library of another backend.
type fakeProcess struct {
	mem  map[uint64]uint64
	maps []target.Mapping
}

func (p *fakeProcess) read(addr uint64, b []byte) error {
	for i := range b {
		w, ok := p.mem[(addr+uint64(i))&^7]
		if !ok {
			return errors.New("bad address")
		}
		b[i] = byte(w >> (8 * ((addr + uint64(i)) & 7)))
	}
	return nil
}

func TestBackends(t *testing.T) {
	f := fakeEngine(t, target.AMD64, nil)
	opened := f.open(t)
	opened.Inode, opened.Dev = 7, 1
	p, err := New().PlanFiles([]engine.OpenedFile{opened})
	if err != nil {
		t.Fatal(err)
	}
	const size = 0x4000
	proc := &fakeProcess{mem: map[uint64]uint64{}, maps: []target.Mapping{
		{Start: 0x10000, End: 0x10000 + size, Offset: 0x1000, Inode: 7, Dev: 1, Path: "/opt/fake",
			Perms: "r-xp"},
		{Start: 0x90000, End: 0x90000 + size, Offset: 0x1000, Inode: 8, Dev: 1,
			Path: "/opt/libggml-vulkan.so", Perms: "r-xp"},
		{Start: 0xa0000, End: 0xa1000, Path: "[heap]", Perms: "rw-p"},
	}}
	in := func(base uint64, label string) uint64 { return base + f.label[label] - fakeBase }
	sched := uint64(0xa0000)
	proc.mem[sched+8] = 5
	for i, graph := range []uint64{in(0x90000, "vk_graph"), in(0x10000, "cpu_graph"), in(0x10000, "vk_graph"),
		0xa0008, in(0x90000, "vk_graph")} {
		obj := uint64(0xa0100 + 0x100*i)
		proc.mem[sched+16+8*uint64(i)] = obj
		proc.mem[obj+112] = graph
		proc.mem[obj+16] = in(0x10000, "vk_name")
	}
	scan := func() *backendScan {
		return &backendScan{plan: p, lay: p.Decode.(*Decoder).Backend, maps: proc.maps, out: &Backends{},
			libs: map[[2]uint64]*backendLib{},
			read: proc.read, open: func(m target.Mapping) (file, error) {
				o := f.open(t)
				o.Path, o.Inode, o.Dev = m.Path, m.Inode, m.Dev
				return file{OpenedFile: o}, nil
			}}
	}
	s := scan()
	if err := s.run(sched); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, b := range s.out.Backends {
		names = append(names, b.Name)
	}
	if got := strings.Join(names, " "); got != "Vulkan CPU Vulkan0 Vulkan" {
		t.Errorf("backends %q", got)
	}
	if len(s.out.Warnings) != 1 || !strings.Contains(s.out.Warnings[0].Text, "backend 3") ||
		!s.out.Warnings[0].Elsewhere {
		t.Errorf("warnings %+v, want one of backend 3, whose graph function is no code", s.out.Warnings)
	}
	if len(s.out.Files) != 1 || s.out.Files[0].Role != "backend:vulkan" || s.out.Files[0].Inode != 8 {
		t.Errorf("files %+v", s.out.Files)
	}
	if len(s.out.Sites) != 4 {
		t.Fatalf("%d sites, want a begin and an end in two files: %+v", len(s.out.Sites), s.out.Sites)
	}
	for i, want := range []struct {
		role    engine.Role
		file    int
		backend string
	}{{engine.RoleGraphBegin, 1, "Vulkan"}, {engine.RoleGraphEnd, 1, "Vulkan"}, {engine.RoleGraphBegin, 0,
		"Vulkan0"}, {engine.RoleGraphEnd, 0, "Vulkan0"}} {
		x := s.out.Sites[i]
		addr := f.label["vk_graph"]
		if want.role == engine.RoleGraphEnd {
			addr += 2 // its return
		}
		if x.Role != want.role || x.File != want.file || x.Backend != want.backend || x.Addr != addr ||
			x.Return {
			t.Errorf("site %d: %+v, want %+v", i, x, want)
		}
		if x.Role == engine.RoleGraphBegin && (x.A != reg(1) || x.C != reg(0)) {
			t.Errorf("site %d: graph %v, backend %v", i, x.A, x.C)
		}
	}

	// Asked again with what was found in the plan, nothing new is found.
	q := *p
	q.Files = append(q.Files[:len(q.Files):len(q.Files)], s.out.Files...)
	q.Sites = append(q.Sites[:len(q.Sites):len(q.Sites)], s.out.Sites...)
	s = scan()
	s.plan = &q
	if err := s.run(sched); err != nil || len(s.out.Sites) != 0 || len(s.out.Files) != 0 {
		t.Errorf("again: %v, %+v", err, s.out)
	}

	// Nonsense instead of a scheduler.
	for _, n := range []uint64{0, 17, 1 << 31, 0xffffffff} {
		proc.mem[sched+8] = n
		if err := scan().run(sched); err == nil || !strings.Contains(err.Error(), "backends") {
			t.Errorf("%d backends: %v", int32(n), err)
		}
	}
	if err := scan().run(0x123); err == nil {
		t.Error("a scheduler at an address that is not mapped gives no error")
	}
	delete(proc.mem, sched+16)
	proc.mem[sched+8] = 2
	if err := scan().run(sched); err == nil {
		t.Error("a scheduler whose list of backends is not mapped gives no error")
	}
}

func FuzzBackends(f *testing.F) {
	fk := fakeEngine(f, target.AMD64, nil)
	p := fk.plan(f)
	f.Add([]byte{8, 0, 0, 0, 2})
	f.Fuzz(func(t *testing.T, mem []byte) {
		reads := 0
		s := &backendScan{plan: p, lay: p.Decode.(*Decoder).Backend, out: &Backends{},
			libs: map[[2]uint64]*backendLib{},
			maps: []target.Mapping{{Start: 0, End: 0x8000, Offset: 0, Inode: 1, Perms: "r-xp", Path: "/x"}},
			read: func(addr uint64, b []byte) error {
				if reads++; len(b) > 4096 {
					t.Fatalf("%d bytes are read at once", len(b))
				}
				if addr >= uint64(len(mem)) || uint64(len(b)) > uint64(len(mem))-addr {
					return errors.New("bad address")
				}
				copy(b, mem[addr:])
				return nil
			},
			open: func(m target.Mapping) (file, error) { return file{OpenedFile: fk.open(t)}, nil }}
		_ = s.run(uint64(binary.LittleEndian.Uint16(append(mem, 0, 0))))
		if len(s.out.Backends) > maxBackends || len(s.out.Files) > maxBackends || reads > 1<<16 {
			t.Fatalf("%d backends in %d files, %d reads", len(s.out.Backends), len(s.out.Files), reads)
		}
	})
}
