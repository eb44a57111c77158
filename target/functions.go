// SPDX-License-Identifier: Apache-2.0

package target

import (
	"cmp"
	"debug/elf"
	"slices"
	"sort"
	"strings"
)

// Function is a contiguous range of code. In a stripped file, where it is known from the unwind information
// alone, it has no name. A cold part that the compiler moved away is a function of its own.
type Function struct {
	Start, End uint64 // End is exclusive
	Name       string
	// Unwind: its extent comes from .eh_frame. Otherwise it comes from a symbol, or is a guess (up to the
	// next function) if the symbol has no size.
	Unwind bool
}

// codeRange is a stretch of executable contents.
type codeRange struct {
	name  string
	start uint64
	off   uint64 // in the file
	size  uint64
	plt   bool
}

func (c *codeRange) end() uint64 { return c.start + c.size }

// loadCode finds the executable parts of the file.
func (e *ELF) loadCode() error {
	if e.codeDone {
		return e.codeErr
	}
	e.codeDone = true
	e.code, e.codeErr = e.findCode()
	return e.codeErr
}

func (e *ELF) findCode() ([]codeRange, error) {
	var out []codeRange
	add := func(name string, addr, off, size uint64) error {
		out = append(out, codeRange{name, addr, off, size, strings.HasPrefix(name, ".plt") ||
			name == ".iplt"})
		return e.within(off, size)
	}
	for _, s := range e.sects {
		if s.flags&elf.SHF_EXECINSTR == 0 || s.flags&elf.SHF_ALLOC == 0 || s.typ != elf.SHT_PROGBITS ||
			s.size == 0 {
			continue
		}
		if err := add(s.name, s.addr, s.off, s.size); err != nil {
			return nil, err
		}
	}
	if out == nil { // no section headers: whole executable segments
		for _, s := range e.loads {
			if s.flags&elf.PF_X != 0 {
				if err := add("", s.addr, s.off, s.filesz); err != nil {
					return nil, err
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b codeRange) int { return cmp.Compare(a.start, b.start) })
	return out, nil
}

// codeAt returns the code range that holds an address.
func (e *ELF) codeAt(addr uint64) *codeRange {
	if e.loadCode() != nil {
		return nil
	}
	i := sort.Search(len(e.code), func(i int) bool { return e.code[i].start > addr }) - 1
	if i < 0 || addr-e.code[i].start >= e.code[i].size {
		return nil
	}
	return &e.code[i]
}

// IsCode reports whether an address lies in executable contents.
func (e *ELF) IsCode(addr uint64) bool { return e.codeAt(addr) != nil }

// Code returns the code at an address, at least enough for one instruction unless its section ends before.
// The caller must not modify it.
func (e *ELF) Code(addr uint64) ([]byte, error) {
	if err := e.loadCode(); err != nil {
		return nil, err
	}
	c := e.codeAt(addr)
	if c == nil {
		return nil, e.errf("address %#x is not in executable code", addr)
	}
	if !e.spend(1) {
		return nil, e.over
	}
	return e.codeBytes(c, addr, c.end())
}

// codeBytes returns the bytes at hand of a stretch of code from an address on, at least enough for one
// instruction unless the stretch ends before.
func (e *ELF) codeBytes(c *codeRange, addr, end uint64) ([]byte, error) {
	b, err := e.ahead(c.off + (addr - c.start))
	if err == nil && len(b) == 0 {
		err = e.cut(c.off+(addr-c.start), 1)
	}
	return b[:min(uint64(len(b)), end-addr)], err
}

// Functions lists the functions of the file, sorted by address, none overlapping. Their extents come from the
// unwind information if there is any (it survives stripping), otherwise from symbols. The error says what
// could not be read; the rest is returned.
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
	out := list[:0]
	for _, f := range list {
		c := e.codeAt(f.Start)
		if c == nil || c.plt || f.End <= f.Start || f.End-c.start > c.size {
			continue // the linker's own entries for .plt, and invalid ones
		}
		out = append(out, f)
	}
	slices.SortStableFunc(out, func(a, b Function) int { return cmp.Compare(a.Start, b.Start) })
	out = slices.CompactFunc(out, func(a, b Function) bool { return a.Start == b.Start })
	var named []Function
	for i := 0; i < len(syms); {
		addr := syms[i].Addr
		var best, first Symbol
		for ; i < len(syms) && syms[i].Addr == addr; i++ {
			if s := syms[i]; s.Func {
				if best.Name == "" {
					first = s
				}
				if best.Name == "" || better(s, best) {
					best = s
				}
			}
		}
		if best.Name == "" || e.codeAt(addr) == nil {
			continue
		}
		if k := functionFrom(out, addr); k < len(out) && out[k].Start == addr {
			out[k].Name = best.Name
			continue
		}
		named = append(named, Function{Start: addr, End: addr + first.Size, Name: best.Name})
	}
	out = append(out, named...)
	slices.SortFunc(out, func(a, b Function) int { return cmp.Compare(a.Start, b.Start) })
	for i := range out {
		f := &out[i]
		limit := e.codeAt(f.Start).end()
		if i+1 < len(out) && out[i+1].Start < limit {
			limit = out[i+1].Start
		}
		if f.End <= f.Start || f.End > limit {
			f.End = limit
		}
	}
	return out, err
}

// functionFrom is the index of the first function at or after an address.
func functionFrom(fs []Function, addr uint64) int {
	return sort.Search(len(fs), func(i int) bool { return fs[i].Start >= addr })
}

// FunctionAt finds the function that contains an address.
func (e *ELF) FunctionAt(addr uint64) (Function, bool) {
	fs, _ := e.Functions()
	i := sort.Search(len(fs), func(i int) bool { return fs[i].Start > addr }) - 1
	if i < 0 || addr >= fs[i].End {
		return Function{}, false
	}
	return fs[i], true
}

// EachInsn decodes the instructions from start to end, both within one section, until the function returns
// false. Bytes that are not an instruction end it with an error.
func (e *ELF) EachInsn(start, end uint64, each func(Insn) bool) error {
	if _, err := e.Code(start); err != nil {
		return err
	}
	c := e.codeAt(start)
	if end < start || end > c.end() {
		return e.errf("%#x to %#x is not within one section of code", start, end)
	}
	var code []byte
	for at := start; at < end; {
		if uint64(len(code)) < min(maxInsnAMD64, end-at) {
			var err error
			if code, err = e.codeBytes(c, at, end); err != nil {
				return err
			}
		}
		if !e.spend(1) {
			return e.over
		}
		in, err := Decode(e.Arch, code, at)
		if err != nil {
			return e.errf("at %#x: %w", at, err)
		}
		if !each(in) {
			return nil
		}
		code, at = code[in.Len:], in.End()
	}
	return nil
}

// maxInsns bounds what Insns keeps.
const maxInsns = 1 << 16

// Insns lists the instructions from start to end, both within one section. If the function is long, or has
// bytes that are not an instruction, it returns those before and an error.
func (e *ELF) Insns(start, end uint64) (out []Insn, err error) {
	err = e.EachInsn(start, end, func(in Insn) bool {
		out = append(out, in)
		return len(out) < maxInsns
	})
	if err == nil && len(out) == maxInsns && out[maxInsns-1].End() < end {
		err = e.errf("more than %d instructions from %#x", maxInsns, start)
	}
	return out, err
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
