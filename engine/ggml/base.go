// SPDX-License-Identifier: Apache-2.0

package ggml

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/engine/internal/emulator"
	"github.com/profinfer/profinfer/target"
)

// BackendLayout holds the offsets needed to find the backends of a live scheduler; -1 where the binary does
// not reveal them.
type BackendLayout struct {
	SchedNBackends int // int32 in struct ggml_backend_sched
	SchedBackends  int // array of pointers to backends there
	GetName        int // function pointer in struct ggml_backend
	GraphCompute   int // "
	Device         int // pointer in struct ggml_backend
	Synchronize    int // function pointer in struct ggml_backend; cpy_tensor_async directly precedes it
}

// baseFacts is what was read from one base library. It is immutable.
type baseFacts struct {
	tensor             tensorLayout
	graphNodes, graphN int
	graphUID           int // unknown: graphs of this version have none, or it was not found
	backend            BackendLayout
	names              opNames
	types              []typeTraits
	version, commit    string
	find               findings
	warnings           []engine.Warning
	unaryName, gluName bool // ggml_op_desc names the inner operator of UNARY and GLU
}

// readBase reads everything needed from a base library.
func readBase(l *lib) (*baseFacts, error) {
	b := &baseFacts{graphUID: unknown}
	var err error
	if b.names, err = l.readNames(&b.find); err != nil {
		return nil, fmt.Errorf("the operator names could not be read: %w", err)
	}
	b.tensor = l.readTensor(&b.find, b.names.ops)
	old, err := b.tensor.complete(&b.find)
	for _, text := range old {
		b.warnings = append(b.warnings, engine.Warning{Text: text, Level: engine.LevelGraph})
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.e.Name, err)
	}
	if b.types = l.readTypes(&b.find); len(b.types) == 0 {
		b.warnings = append(b.warnings,
			engine.Warning{Text: "the table of data types could not be read: sizes in bytes will be missing",
				Level: engine.LevelGraph})
	}
	b.readBackend(l)
	b.readDesc(l)
	for _, v := range []struct {
		fn string
		to *string
	}{{"ggml_version", &b.version}, {"ggml_commit", &b.commit}} {
		if s, ok := l.constant(v.fn); ok && s != "unknown" {
			*v.to = s
			b.find.add(v.fn, s, v.fn+" returns it")
		}
	}
	b.readGraph(l) // needs the version
	return b, nil
}

// readGraph finds the fields of struct ggml_cgraph.
func (b *baseFacts) readGraph(l *lib) {
	b.graphN, b.graphNodes = unknown, unknown
	if m, o, _, err := l.probeTensor("ggml_graph_n_nodes", nil); err == nil {
		b.graphN = onlyLoad(m, o, 4)
	}
	if m, o, _, err := l.probeTensor("ggml_graph_nodes", nil); err == nil {
		b.graphNodes = onlyLoad(m, o, 8)
	}
	how := "ggml_graph_n_nodes loads it"
	if b.graphN == unknown {
		b.graphN, how = histGraphNNodes, "history 2023-10-30"
	}
	b.find.add("cgraph.n_nodes", b.graphN, how)
	how = "ggml_graph_nodes loads it"
	if b.graphNodes == unknown {
		b.graphNodes, how = histGraphNodes, "history 2023-10-30"
	}
	b.find.add("cgraph.nodes", b.graphNodes, how)
	var off int
	off, how = l.graphUID()
	if off == unknown && !l.has(splitGraph) && hasUID(b.version) {
		off, how = histGraphUID, "history 2026-04-16, by the version "+b.version+"; "+how
	}
	b.graphUID = off
	if off == unknown {
		b.find.add("cgraph.uid", "none", how)
		return
	}
	b.find.add("cgraph.uid", off, how)
}

const splitGraph = "ggml_backend_sched_split_graph"

// hasUID reports whether graphs of a ggml version have an identity: it was introduced between 0.9.7 and
// 0.17.0.
func hasUID(version string) bool {
	var major, minor int
	if n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor); n != 2 {
		return false
	}
	return major > 0 || minor >= 17
}

// graphUID finds the identity that a scheduler gives its graphs (since April 2026). split_graph calls a
// function that draws the next number from a counter in static memory, and stores the number in the graph.
// The store to a split is at a higher offset, so the lowest offset is that of the graph itself.
func (l *lib) graphUID() (int, string) {
	addr, ok := l.fn(splitGraph)
	if !ok {
		return unknown, "the scheduler's " + splitGraph + " is not to be found"
	}
	f, ok := l.e.FunctionAt(addr)
	if !ok {
		return unknown, splitGraph + " has no known extent"
	}
	ins, _ := l.e.Insns(f.Start, f.End)
	best, counter := unknown, map[uint64]bool{}
	for i, in := range ins {
		at := i
		switch {
		case in.Kind == target.Call:
			if _, known := counter[in.Target]; !known {
				counter[in.Target] = l.drawsNumber(in.Target)
			}
			if !counter[in.Target] {
				continue
			}
		case isAtomicAdd(in):
		default:
			continue
		}
		// The number is stored within a few instructions.
		for _, s := range ins[at+1 : min(at+8, len(ins))] {
			if s.Kind != target.Other {
				break
			}
			if off, ok := storesResult(s); ok && off >= 0 && off < 1024 && (best == unknown || off < best) {
				best = off
			}
		}
	}
	if best == unknown {
		return best, splitGraph + " draws no number for its graphs"
	}
	return best, splitGraph + " stores the next number of a counter there"
}

// drawsNumber reports whether a function without arguments returns the value of a counter in static memory
// and increments it by one.
func (l *lib) drawsNumber(addr uint64) bool {
	if name := l.e.CalleeName(addr); name == "ggml_graph_next_uid" {
		return true
	}
	_, code := l.Callee(addr)
	if code == 0 {
		return false
	}
	m := l.newMachine()
	ret, err := m.Run(code)
	if err != nil || len(m.Log) > 8 {
		return false
	}
	for _, a := range m.Log {
		if a.Write && a.Obj == nil && a.Size == 8 {
			return a.Val == ret+1 || a.Val == ret
		}
	}
	return false
}

// isAtomicAdd recognizes an inlined fetch-and-add of 8 bytes in static memory (lock xadd to a fixed address).
func isAtomicAdd(in target.Insn) bool {
	b := in.Bytes
	return in.Arch == target.AMD64 && in.Data != 0 && len(b) >= 5 && b[0] == 0xf0 && b[1]&0xf8 == 0x48 &&
		b[2] == 0x0f && b[3] == 0xc1
}

// storesResult is the offset at which an instruction stores all of rax or x0 relative to a register.
func storesResult(in target.Insn) (int, bool) {
	b := in.Bytes
	if in.Arch == target.ARM64 {
		if len(b) != 4 {
			return 0, false
		}
		w := binary.LittleEndian.Uint32(b)
		if w&0xffc0001f == 0xf9000000 && emulator.Field(w, 5, 5) != 31 { // str x0, [xn, #imm]
			return int(emulator.Field(w, 10, 12)) * 8, true
		}
		return 0, false
	}
	// REX.W mov r/m64, rax: 48 or 49, 89, ModRM with reg 0.
	if len(b) < 4 || b[0]&0xfc != 0x48 || b[1] != 0x89 || b[2]>>3&7 != 0 || b[2]>>6 == 3 {
		return 0, false
	}
	at := 3
	if b[2]&7 == 4 { // a SIB byte; rsp as the base is a spill
		if b[3]&7 == 4 && b[0]&1 == 0 {
			return 0, false
		}
		at++
	} else if b[2]&7 == 5 && b[0]&1 == 0 && b[2]>>6 != 0 && len(b) >= at+4 &&
		int32(binary.LittleEndian.Uint32(b[at:])) < 0 {
		return 0, false // a local variable
	}
	switch {
	case b[2]>>6 == 1 && len(b) == at+1:
		return int(int8(b[at])), true
	case b[2]>>6 == 2 && len(b) == at+4:
		return int(int32(binary.LittleEndian.Uint32(b[at:]))), true
	}
	return 0, false
}

// readBackend finds the fields of struct ggml_backend and of the scheduler.
func (b *baseFacts) readBackend(l *lib) {
	b.backend = BackendLayout{unknown, unknown, unknown, unknown, unknown, unknown}
	note := func(p *int, what string, off uint64, fn string) {
		if off < 4096 {
			*p = int(off)
			b.find.add(what, off, fn)
		}
	}
	for _, c := range []struct {
		fn, what string
		to       *int
	}{
		{"ggml_backend_name", "backend.get_name", &b.backend.GetName},
		{"ggml_backend_graph_compute_async", "backend.graph_compute", &b.backend.GraphCompute},
	} {
		if m, o, _, err := l.probeTensor(c.fn, nil); err == nil && m.Tail != nil && m.Tail.Obj == o {
			note(c.to, c.what, m.Tail.Off, c.fn+" jumps through it")
		}
	}
	if m, o, _, err := l.probeTensor("ggml_backend_synchronize", nil); err == nil {
		if off := onlyLoad(m, o, 8); off >= 8 {
			note(&b.backend.Synchronize, "backend.synchronize", uint64(off),
				"ggml_backend_synchronize loads it")
		}
	}
	if m, o, _, err := l.probeTensor("ggml_backend_get_device", nil); err == nil {
		if off := onlyLoad(m, o, 8); off >= 0 {
			note(&b.backend.Device, "backend.device", uint64(off), "ggml_backend_get_device loads it")
		}
	}
	if m, o, _, err := l.probeTensor("ggml_backend_sched_get_n_backends", nil); err == nil {
		if off := onlyLoad(m, o, 4); off >= 0 {
			note(&b.backend.SchedNBackends, "sched.n_backends", uint64(off),
				"ggml_backend_sched_get_n_backends loads it")
		}
	}
	if n := b.backend.SchedNBackends; n >= 0 {
		m, addr, err := l.machine("ggml_backend_sched_get_backend")
		if err != nil {
			return
		}
		o := m.NewObject("sched")
		o.Put32(n, 16)
		if _, err := m.Run(addr, o.Addr, 1); err == nil {
			if off := onlyLoad(m, o, 8); off >= 8 {
				note(&b.backend.SchedBackends, "sched.backends", uint64(off-8),
					"ggml_backend_sched_get_backend(1) loads the second")
			}
		}
	}
}

// readDesc runs ggml_op_desc on a made-up tensor to see whether it describes UNARY and GLU by their inner
// operator.
func (b *baseFacts) readDesc(l *lib) {
	desc := func(op string, inner []string) bool {
		n := slices.Index(b.names.ops, op)
		if n < 0 || len(inner) < 2 {
			return false
		}
		_, _, ret, err := l.probeTensor("ggml_op_desc", func(o *emulator.Object) {
			o.Put32(b.tensor.op, uint32(n))
			o.Put32(b.tensor.params, 1)
		})
		if err != nil {
			return false
		}
		s, ok := l.str(ret, 64)
		return ok && s == inner[1]
	}
	b.unaryName, b.gluName = desc("UNARY", b.names.unary), desc("GLU", b.names.glu)
	for _, d := range []struct {
		op string
		is bool
	}{{"UNARY", b.unaryName}, {"GLU", b.gluName}} {
		if slices.Contains(b.names.ops, d.op) {
			what := "its own name"
			if d.is {
				what = "the inner operator's name"
			}
			b.find.add("description of "+d.op, what, "ggml_op_desc on a made-up tensor")
		}
	}
}
