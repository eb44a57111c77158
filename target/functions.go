// SPDX-License-Identifier: Apache-2.0

package target

import (
	"debug/elf"
	"sort"
	"strings"
)

// Function is a range of code that belongs together. In a stripped file, where it is
// known from the unwind information alone, it has no name; a cold part that the compiler moved away
// is a function of its own.
type Function struct {
	Start, End uint64 // End is not part of it
	Name       string
	// Unwind: its extent stands in .eh_frame. Otherwise it is a symbol's, or a guess (up
	// to the next function) where the symbol tells no size.
	Unwind bool
}

// codeRange is a stretch of executable contents.
type codeRange struct {
	name  string
	start uint64
	bytes []byte
	plt   bool
}

// loadCode reads the executable parts of the file.
func (e *ELF) loadCode() error {
	if e.codeDone {
		return e.codeErr
	}
	e.codeDone = true
	e.code, e.codeErr = e.readCode()
	return e.codeErr
}

func (e *ELF) readCode() ([]codeRange, error) {
	var out []codeRange
	var total uint64
	add := func(name string, addr, off, size uint64) error {
		if total += size; total > 2*maxTable {
			return e.errf("more than %d bytes of code are beyond reason", 2*maxTable)
		}
		b, err := e.bytesAt(off, size)
		if err != nil {
			return err
		}
		out = append(out, codeRange{name, addr, b, strings.HasPrefix(name, ".plt") || name == ".iplt"})
		return nil
	}
	for _, s := range e.sects {
		if s.flags&elf.SHF_EXECINSTR == 0 || s.flags&elf.SHF_ALLOC == 0 || s.typ != elf.SHT_PROGBITS || s.size == 0 {
			continue
		}
		if err := add(s.name, s.addr, s.off, s.size); err != nil {
			return nil, err
		}
	}
	if out == nil { // no section headers: whole executable segments
		for _, s := range e.segs {
			if s.typ == elf.PT_LOAD && s.flags&elf.PF_X != 0 && s.filesz > 0 {
				if err := add("", s.addr, s.off, s.filesz); err != nil {
					return nil, err
				}
			}
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].start < out[j].start })
	return out, nil
}

// codeAt returns the code range that holds an address.
func (e *ELF) codeAt(addr uint64) *codeRange {
	if e.loadCode() != nil {
		return nil
	}
	i := sort.Search(len(e.code), func(i int) bool { return e.code[i].start > addr }) - 1
	if i < 0 || addr-e.code[i].start >= uint64(len(e.code[i].bytes)) {
		return nil
	}
	return &e.code[i]
}

// IsCode says whether an address lies in executable contents.
func (e *ELF) IsCode(addr uint64) bool { return e.codeAt(addr) != nil }

// Code returns the bytes of code from an address to the end of the section it lies in.
// The caller must not write to them.
func (e *ELF) Code(addr uint64) ([]byte, error) {
	if err := e.loadCode(); err != nil {
		return nil, err
	}
	c := e.codeAt(addr)
	if c == nil {
		return nil, e.errf("address %#x is not in executable code", addr)
	}
	return c.bytes[addr-c.start:], nil
}

// Functions lists the functions of the file, sorted by address, none overlapping:
// extents from the unwind information where there is one (it survives stripping),
// else from symbols. The error tells what could not be read; the rest is returned.
func (e *ELF) Functions() ([]Function, error) {
	if e.funcsDone {
		return e.funcs, e.funcsErr
	}
	e.funcsDone = true
	e.funcs, e.funcsErr = e.readFunctions()
	return e.funcs, e.funcsErr
}

func (e *ELF) readFunctions() ([]Function, error) {
	if err := e.loadCode(); err != nil {
		return nil, err
	}
	list, err := e.unwindFunctions()
	syms, serr := e.Symbols()
	if err == nil {
		err = serr
	}
	byStart := make(map[uint64]int, len(list))
	out := list[:0]
	for _, f := range list {
		c := e.codeAt(f.Start)
		if c == nil || c.plt || f.End <= f.Start || f.End-c.start > uint64(len(c.bytes)) {
			continue // the linker's own entries for .plt, and nonsense
		}
		if _, ok := byStart[f.Start]; ok {
			continue
		}
		byStart[f.Start] = len(out)
		out = append(out, f)
	}
	best := map[uint64]Symbol{}
	for _, s := range syms {
		if !s.Func || e.codeAt(s.Addr) == nil {
			continue
		}
		if i, ok := byStart[s.Addr]; ok {
			if old, ok := best[s.Addr]; !ok || better(s, old) {
				best[s.Addr], out[i].Name = s, s.Name
			}
			continue
		}
		byStart[s.Addr] = len(out)
		best[s.Addr] = s
		out = append(out, Function{Start: s.Addr, End: s.Addr + s.Size, Name: s.Name})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Start < out[j].Start })
	for i := range out {
		f := &out[i]
		c := e.codeAt(f.Start)
		limit := c.start + uint64(len(c.bytes))
		if i+1 < len(out) && out[i+1].Start < limit {
			limit = out[i+1].Start
		}
		if f.End <= f.Start || f.End > limit {
			f.End = limit
		}
	}
	return out, err
}

// FunctionAt finds the function that an address lies in.
func (e *ELF) FunctionAt(addr uint64) (Function, bool) {
	fs, _ := e.Functions()
	i := sort.Search(len(fs), func(i int) bool { return fs[i].Start > addr }) - 1
	if i < 0 || addr >= fs[i].End {
		return Function{}, false
	}
	return fs[i], true
}

// Insns decodes the instructions from start to end, both within one section. Bytes
// that are no instruction end the list with an error; what came before is returned.
func (e *ELF) Insns(start, end uint64) ([]Insn, error) {
	code, err := e.Code(start)
	if err != nil {
		return nil, err
	}
	if end < start || end-start > uint64(len(code)) {
		return nil, e.errf("%#x to %#x is not within one section of code", start, end)
	}
	code = code[:end-start]
	out := make([]Insn, 0, len(code)/4)
	for at := start; at < end; {
		in, err := Decode(e.Arch, code[at-start:], at)
		if err != nil {
			return out, e.errf("at %#x: %w", at, err)
		}
		out = append(out, in)
		at = in.End()
	}
	return out, nil
}

// Insn decodes the instruction at an address.
func (e *ELF) Insn(addr uint64) (Insn, error) {
	code, err := e.Code(addr)
	if err != nil {
		return Insn{}, err
	}
	in, err := Decode(e.Arch, code, addr)
	if err != nil {
		return in, e.errf("at %#x: %w", addr, err)
	}
	return in, nil
}
