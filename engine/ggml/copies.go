// SPDX-License-Identifier: Apache-2.0

package ggml

import (
	"errors"
	"slices"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/engine/internal/emulator"
	"github.com/profinfer/profinfer/target"
)

// copyCalls are the base library's functions that move tensors between memories, with their argument numbers
// (ggml-backend.h): the tensor, the bytes (-1: the whole tensor), the tensor that is read (-1: host memory).
var copyCalls = []struct {
	name                string
	tensor, bytes, from int
}{
	{"ggml_backend_tensor_copy", 1, -1, 0},       // (src, dst)
	{"ggml_backend_tensor_copy_async", 3, -1, 2}, // (backend_src, backend_dst, src, dst)
	{"ggml_backend_tensor_set", 0, 3, -1},        // (tensor, data, offset, size)
	{"ggml_backend_tensor_get", 0, 3, -1},
	{"ggml_backend_tensor_set_async", 1, 4, -1}, // (backend, tensor, data, offset, size)
	{"ggml_backend_tensor_get_async", 1, 4, -1},
}

// copySites plans sites at the begins of copies and, where that is cheap, at their ends.
func (l *lib) copySites() (out []engine.Site) {
	for _, c := range copyCalls {
		fn, ok := l.fn(c.name)
		if !ok {
			continue
		}
		begin := engine.Site{Role: engine.RoleCopyBegin, A: reg(uint8(c.tensor)), Entry: c.name}
		args := []int{c.tensor}
		if c.bytes >= 0 {
			begin.B = reg(uint8(c.bytes))
			args = append(args, c.bytes)
		}
		if c.from >= 0 {
			begin.C = reg(uint8(c.from))
			args = append(args, c.from)
		}
		sites, err := l.span(fn, "", begin, engine.RoleCopyEnd, args...)
		if err != nil && !errors.Is(err, errNoEnd) || sites[0].Warning != "" {
			continue // too expensive for a copy that nobody asked about
		}
		out = append(out, slices.DeleteFunc(sites, func(s engine.Site) bool { return s.Warning != "" })...)
	}
	return out
}

// deviceSites plans a backend's own asynchronous copy between tensors, which the scheduler calls bypassing
// the base library, and its wait for the device. It leaves out what the backend lacks, and
// what cannot be probed cheaply.
func (s *backendScan) deviceSites(obj uint64, lib *backendLib, name string) (out []engine.Site) {
	if s.lay.Synchronize < 8 {
		return nil
	}
	for _, f := range []struct {
		field      int
		begin, end engine.Role
		entry      string
		args       []int
	}{
		// (backend_src, backend_dst, src, dst)
		{s.lay.Synchronize - 8, engine.RoleCopyBegin, engine.RoleCopyEnd, "cpy_tensor_async", []int{2, 3}},
		// (backend)
		{s.lay.Synchronize, engine.RoleSyncBegin, engine.RoleSyncEnd, "synchronize", []int{0}},
	} {
		fn, err := s.word(obj + uint64(f.field))
		if err != nil || fn == 0 {
			continue
		}
		m, ok := target.FindMapping(s.maps, fn)
		if !ok || !m.Exec() || m.Inode != lib.file.Inode || m.Dev != lib.file.Dev {
			continue
		}
		addr, ok := lib.l.e.AddrOfOffset(m.FileOffset(fn))
		if !ok || !lib.l.e.IsCode(addr) || lib.seen[addr] {
			continue
		}
		lib.seen[addr] = true
		begin := engine.Site{Role: f.begin, Entry: f.entry, Backend: name}
		if f.begin == engine.RoleCopyBegin {
			begin.A, begin.C = reg(3), reg(2)
		} else {
			begin.C = reg(0)
		}
		sites, err := lib.l.span(addr, "", begin, f.end, f.args...)
		if f.begin == engine.RoleCopyBegin && errors.Is(err, errNoEnd) {
			err = nil // its begin is enough to know what was copied
		}
		if (err != nil || sites[0].Warning != "") && f.begin == engine.RoleSyncBegin {
			if _, ok := lib.l.passes(addr); ok {
				sites, err = lib.l.span(addr, "", begin, f.end)
			}
		}
		if err != nil || sites[0].Warning != "" {
			continue
		}
		out = append(out, slices.DeleteFunc(sites, func(x engine.Site) bool { return x.Warning != "" })...)
	}
	return out
}

// passes finds the jump by which a function merely forwards its call, to an object of its own. There the
// stack is as at the function's begin, and the first argument is that object.
func (l *lib) passes(fn uint64) (target.Insn, bool) {
	e, err := l.walkEntry(fn)
	return e.in, err == nil && e.cheap && e.canReturn && e.in.Kind == target.Jump
}

// waitsBy returns the object to which a backend forwards a wait for itself; false: none.
func (s *backendScan) waitsBy(obj uint64, lib *backendLib) (uint64, bool) {
	if s.lay.Synchronize < 8 {
		return 0, false
	}
	fn, err := s.word(obj + uint64(s.lay.Synchronize))
	if err != nil || fn == 0 {
		return 0, false
	}
	m, ok := target.FindMapping(s.maps, fn)
	if !ok || m.Inode != lib.file.Inode || m.Dev != lib.file.Dev {
		return 0, false
	}
	addr, ok := lib.l.e.AddrOfOffset(m.FileOffset(fn))
	if !ok || !lib.l.e.IsCode(addr) {
		return 0, false
	}
	jump, ok := lib.l.passes(addr)
	if !ok {
		return 0, false
	}
	var inner uint64
	mach := lib.l.newMachine()
	mach.Live = s.read
	mach.Hook = func(m *emulator.Machine, _ string, _ uint64) (uint64, emulator.HookResult) {
		if m.PC == jump.Addr {
			inner = m.Arg(0)
		}
		return 0, emulator.Stop
	}
	if _, err := mach.Run(addr, obj); err != nil {
		return 0, false
	}
	return inner, inner != 0 && inner != obj
}
