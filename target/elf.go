// SPDX-License-Identifier: Apache-2.0

package target

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sort"
)

// ErrNotELF means that a file is not an ELF file.
var ErrNotELF = errors.New("not an ELF file")

// ELF is an executable or shared library for 64-bit x86 or Arm. Opening reads only the headers; the rest is
// read on demand and kept. All addresses are in the file's own numbering (as in its symbols). An ELF must not
// be used by two goroutines at once.
//
// Only the constants of debug/elf are used, not its reader: that one does not limit the bytes and steps a
// file may cost, finds dynamic symbols through section headers alone, and has no functions, calls or
// relocated pointers.
type ELF struct {
	Name string // name in errors
	Arch Arch
	Type elf.Type // ET_EXEC or ET_DYN

	r      io.ReaderAt
	size   int64 // -1 if unknown
	segs   []segment
	loads  []segment // those with contents, by address
	sects  []section
	dyn    dynamic
	chunks chunks

	budget  *Budget
	pending Limits      // spent, but not yet taken from the budget
	over    *LimitError // the budget is used up, or a table is implausibly large
	readErr error       // of reading; not necessarily the file's fault

	numSyms, strBytes uint64 // kept

	dynsyms   []Symbol // index as in the file, [0] empty
	dynsymErr error
	dynDone   bool
	syms      []Symbol
	symsErr   error
	symsDone  bool
	byName    map[string]int // into syms
	relocs    []reloc        // by address
	relocDone bool
	relocErr  error
	funcs     []Function
	funcsDone bool
	funcsErr  error
	code      []codeRange
	codeDone  bool
	codeErr   error
	pltNames  map[uint64]string
}

type segment struct {
	typ               elf.ProgType
	flags             elf.ProgFlag
	off, addr, filesz uint64
	memsz             uint64
}

type section struct {
	name            string
	typ             elf.SectionType
	flags           elf.SectionFlag
	addr, off, size uint64
	link, info      uint32
	nameOff         uint32
}

// OpenELF reads the headers of an ELF file. Errors call the file by name. A file that is truncated, or is not
// a 64-bit little-endian ELF for x86-64 or arm64, is an error; one with implausible sizes is a *[LimitError].
func OpenELF(r io.ReaderAt, name string) (*ELF, error) { return OpenELFWithin(r, name, nil) }

// OpenELFWithin is OpenELF for one of several files that share a budget.
func OpenELFWithin(r io.ReaderAt, name string, of *Budget) (*ELF, error) {
	e := &ELF{Name: name, r: r, size: -1, budget: NewBudget(scopeFile, FileLimits, of)}
	if !e.spend(headerSteps) { // the parent budget is used up
		return nil, e.over
	}
	switch s := r.(type) {
	case interface{ Size() int64 }:
		e.size = s.Size()
	case interface{ Stat() (os.FileInfo, error) }:
		fi, err := s.Stat()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if fi.Mode().IsRegular() {
			e.size = fi.Size()
		}
	}
	var h [64]byte
	if n, err := r.ReadAt(h[:], 0); n < len(h) {
		if n < 4 || string(h[:4]) != elf.ELFMAG {
			if err != nil && !errors.Is(err, io.EOF) {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			return nil, fmt.Errorf("%s: %w", name, ErrNotELF)
		}
		return nil, e.errf("the file is truncated: no whole ELF header")
	}
	if string(h[:4]) != elf.ELFMAG {
		return nil, fmt.Errorf("%s: %w", name, ErrNotELF)
	}
	if elf.Class(h[4]) != elf.ELFCLASS64 || elf.Data(h[5]) != elf.ELFDATA2LSB {
		return nil, e.errf("only 64-bit little-endian ELF files are understood")
	}
	le := binary.LittleEndian
	e.Type = elf.Type(le.Uint16(h[16:]))
	switch m := elf.Machine(le.Uint16(h[18:])); m {
	case elf.EM_X86_64:
		e.Arch = AMD64
	case elf.EM_AARCH64:
		e.Arch = ARM64
	default:
		return nil, e.errf("it is for %v; only x86-64 and arm64 are understood", m)
	}
	if e.Type != elf.ET_EXEC && e.Type != elf.ET_DYN {
		return nil, e.errf("it is neither an executable nor a shared library (%v)", e.Type)
	}
	phoff, shoff := le.Uint64(h[32:]), le.Uint64(h[40:])
	phsize, phnum := uint64(le.Uint16(h[54:])), uint64(le.Uint16(h[56:]))
	shsize, shnum := uint64(le.Uint16(h[58:])), uint64(le.Uint16(h[60:]))
	if err := e.readSegments(phoff, phsize, phnum); err != nil {
		return nil, err
	}
	// Sections are optional: a file without them, or with invalid ones, is still described by its segments.
	if err := e.readSections(shoff, shsize, shnum, uint32(le.Uint16(h[62:]))); err != nil {
		e.sects = nil
	}
	if err := e.readDynamic(); err != nil {
		return nil, err
	}
	return e, nil
}

func (e *ELF) errf(format string, args ...any) error {
	return fmt.Errorf("%s: %w", e.Name, fmt.Errorf(format, args...))
}

func (e *ELF) readSegments(off, size, num uint64) error {
	if num == 0 {
		return e.errf("it has no program headers: nothing of it can be loaded")
	}
	if size < 56 {
		return e.errf("program headers of %d bytes, want 56", size)
	}
	if num > maxProgram {
		return e.tooMany("program headers", maxProgram)
	}
	b, err := e.bytesAt(off, size*num)
	if err != nil {
		return err
	}
	le := binary.LittleEndian
	for i := range num {
		p := b[i*size:]
		s := segment{
			typ: elf.ProgType(le.Uint32(p)), flags: elf.ProgFlag(le.Uint32(p[4:])),
			off: le.Uint64(p[8:]), addr: le.Uint64(p[16:]), filesz: le.Uint64(p[32:]),
			memsz: le.Uint64(p[40:]),
		}
		if s.off+s.filesz < s.off || s.addr+s.memsz < s.addr || s.addr+s.filesz < s.addr {
			return e.errf("program header %d wraps around", i)
		}
		e.segs = append(e.segs, s)
		if s.typ == elf.PT_LOAD && s.filesz > 0 {
			e.loads = append(e.loads, s)
		}
	}
	slices.SortStableFunc(e.loads, func(a, b segment) int { return cmp.Compare(a.addr, b.addr) })
	return nil
}

func (e *ELF) readSections(off, size, num uint64, strndx uint32) error {
	if off == 0 {
		return nil
	}
	if size < 64 {
		return e.errf("section headers of %d bytes", size)
	}
	le := binary.LittleEndian
	if num == 0 || strndx == uint32(elf.SHN_XINDEX) { // the real numbers are in header 0
		b, err := e.bytesAt(off, 64)
		if err != nil {
			return err
		}
		if num == 0 {
			num = le.Uint64(b[32:])
		}
		if strndx == uint32(elf.SHN_XINDEX) {
			strndx = le.Uint32(b[40:])
		}
	}
	if num > maxSections {
		return e.errf("%d section headers", num)
	}
	b, err := e.bytesAt(off, size*num)
	if err != nil {
		return err
	}
	for i := range num {
		p := b[i*size:]
		s := section{
			nameOff: le.Uint32(p), typ: elf.SectionType(le.Uint32(p[4:])),
			flags: elf.SectionFlag(le.Uint64(p[8:])),
			addr:  le.Uint64(p[16:]), off: le.Uint64(p[24:]), size: le.Uint64(p[32:]),
			link: le.Uint32(p[40:]),
			info: le.Uint32(p[44:]),
		}
		if s.off+s.size < s.off || s.addr+s.size < s.addr {
			return e.errf("section %d wraps around", i)
		}
		e.sects = append(e.sects, s)
	}
	if uint64(strndx) < num {
		t := e.sects[strndx]
		if t.size < 16<<20 {
			if names, err := e.bytesAt(t.off, t.size); err == nil {
				for i := range e.sects {
					e.sects[i].name = cString(names, uint64(e.sects[i].nameOff))
				}
			}
		}
	}
	return nil
}

// cString is the zero-terminated string at off, empty if there is none or it is very long.
func cString(b []byte, off uint64) string {
	if off >= uint64(len(b)) {
		return ""
	}
	b = b[off:]
	b = b[:min(len(b), maxSectionName)]
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return string(b[:i])
	}
	return ""
}

// maxSectionName bounds names, which are only compared with short ones.
const maxSectionName = 128

// section finds a section by name.
func (e *ELF) section(name string) (section, bool) {
	for _, s := range e.sects {
		if s.name == name {
			return s, true
		}
	}
	return section{}, false
}

// load is the segment that maps an address from the file.
func (e *ELF) load(addr uint64) (segment, bool) {
	i := sort.Search(len(e.loads), func(i int) bool { return e.loads[i].addr > addr }) - 1
	if i < 0 || addr-e.loads[i].addr >= e.loads[i].filesz {
		return segment{}, false
	}
	return e.loads[i], true
}

// FileOffset is the file offset of the byte at an address; false if it is not in the file (.bss, or not
// mapped at all).
func (e *ELF) FileOffset(addr uint64) (uint64, bool) {
	s, ok := e.load(addr)
	return s.off + (addr - s.addr), ok
}

// AddrOfOffset is the address at which the byte at a file offset is mapped.
func (e *ELF) AddrOfOffset(off uint64) (uint64, bool) {
	for _, s := range e.loads {
		if off >= s.off && off-s.off < s.filesz {
			return s.addr + (off - s.off), true
		}
	}
	return 0, false
}

// Section returns the address and size of a section, false if the file has none with that name (or no section
// headers at all).
func (e *ELF) Section(name string) (addr, size uint64, ok bool) {
	s, ok := e.section(name)
	return s.addr, s.size, ok
}

// Range is a part of the address space.
type Range struct {
	Start, End  uint64 // End is exclusive
	Write, Exec bool
}

// Ranges lists the mapped parts of the file, from its program headers, file contents only.
func (e *ELF) Ranges() []Range {
	var out []Range
	for _, s := range e.segs {
		if s.typ == elf.PT_LOAD && s.filesz > 0 {
			out = append(out, Range{s.addr, s.addr + s.filesz, s.flags&elf.PF_W != 0, s.flags&elf.PF_X != 0})
		}
	}
	return out
}
