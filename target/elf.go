// SPDX-License-Identifier: Apache-2.0

package target

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// Bounds on what a file can make us read. An engine with CUDA code inside has
// sections of a gigabyte, but none of those are code or symbols.
const (
	maxHeaders  = 1 << 16   // program or section headers
	maxTable    = 512 << 20 // bytes of one table or one executable section
	maxSymbols  = 8 << 20
	maxRelocs   = 32 << 20
	windowBytes = 64 << 10 // read-ahead of ReadAddr
)

// ErrNotELF says that a file is no ELF file at all.
var ErrNotELF = errors.New("not an ELF file")

// ELF is an executable or shared library for 64-bit x86 or Arm. Opening reads headers
// only; the rest is read when it is asked for and kept. All addresses are in the file's own
// numbering (those of its symbols). An ELF must not be used by two goroutines at once.
type ELF struct {
	Name string // what errors call it
	Arch Arch
	Type elf.Type // ET_EXEC or ET_DYN

	r     io.ReaderAt
	size  int64 // -1 if unknown
	segs  []segment
	sects []section
	dyn   dynamic

	win    []byte // the last window read by ReadAddr
	winOff uint64

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
	calls     *callIndex
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

// OpenELF reads the headers of an ELF file. name is what errors call it. A file that
// is no 64-bit little-endian ELF for x86-64 or arm64, or one that is cut, is an error.
func OpenELF(r io.ReaderAt, name string) (*ELF, error) {
	e := &ELF{Name: name, r: r, size: -1}
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
		return nil, e.errf("the file is cut: no whole ELF header")
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
	// Sections are a convenience: a file without them, or with nonsense there, is still
	// described by its segments.
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

// bytesAt reads n bytes of the file. It allocates no more than the file holds.
func (e *ELF) bytesAt(off, n uint64) ([]byte, error) {
	if n > maxTable || off > 1<<62 {
		return nil, e.errf("a table of %d bytes at %#x is beyond reason", n, off)
	}
	if e.size >= 0 && (off > uint64(e.size) || n > uint64(e.size)-off) {
		return nil, e.errf("the file is cut: %d bytes at %#x are not there", n, off)
	}
	const step = 1 << 20 // with an unknown size, believe one step at a time
	var b []byte
	if e.size >= 0 || n <= step {
		b = make([]byte, n)
	}
	for at := uint64(0); at < n; {
		k := n - at
		if e.size < 0 && k > step {
			k = step
		}
		if at+k > uint64(len(b)) {
			b = append(b, make([]byte, at+k-uint64(len(b)))...)
		}
		got, err := e.r.ReadAt(b[at:at+k], int64(off+at))
		if uint64(got) < k {
			if err == nil || errors.Is(err, io.EOF) {
				return nil, e.errf("the file is cut: %d bytes at %#x are not there", n, off)
			}
			return nil, e.errf("reading: %w", err)
		}
		at += k
	}
	return b, nil
}

func (e *ELF) readSegments(off, size, num uint64) error {
	if num == 0 {
		return e.errf("it has no program headers: nothing of it can be loaded")
	}
	if size < 56 {
		return e.errf("program headers of %d bytes, want 56", size)
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
			off: le.Uint64(p[8:]), addr: le.Uint64(p[16:]), filesz: le.Uint64(p[32:]), memsz: le.Uint64(p[40:]),
		}
		if s.off+s.filesz < s.off || s.addr+s.memsz < s.addr || s.addr+s.filesz < s.addr {
			return e.errf("program header %d wraps around", i)
		}
		e.segs = append(e.segs, s)
	}
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
	if num == 0 || strndx == uint32(elf.SHN_XINDEX) { // the true numbers stand in header 0
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
	if num > maxHeaders {
		return e.errf("%d section headers", num)
	}
	b, err := e.bytesAt(off, size*num)
	if err != nil {
		return err
	}
	for i := range num {
		p := b[i*size:]
		s := section{
			nameOff: le.Uint32(p), typ: elf.SectionType(le.Uint32(p[4:])), flags: elf.SectionFlag(le.Uint64(p[8:])),
			addr: le.Uint64(p[16:]), off: le.Uint64(p[24:]), size: le.Uint64(p[32:]), link: le.Uint32(p[40:]), info: le.Uint32(p[44:]),
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

// cString is the zero-terminated string at off, empty where there is none.
func cString(b []byte, off uint64) string {
	if off >= uint64(len(b)) {
		return ""
	}
	b = b[off:]
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return ""
}

// section finds a section by name.
func (e *ELF) section(name string) (section, bool) {
	for _, s := range e.sects {
		if s.name == name {
			return s, true
		}
	}
	return section{}, false
}

// FileOffset is where the byte at an address lies in the file; false where the file has
// none (.bss, or not mapped at all).
func (e *ELF) FileOffset(addr uint64) (uint64, bool) {
	for _, s := range e.segs {
		if s.typ == elf.PT_LOAD && addr >= s.addr && addr-s.addr < s.filesz {
			return s.off + (addr - s.addr), true
		}
	}
	return 0, false
}

// AddrOfOffset is the address at which the byte at a file offset is mapped.
func (e *ELF) AddrOfOffset(off uint64) (uint64, bool) {
	for _, s := range e.segs {
		if s.typ == elf.PT_LOAD && off >= s.off && off-s.off < s.filesz {
			return s.addr + (off - s.off), true
		}
	}
	return 0, false
}

// ReadAddr fills buf with the file's bytes at an address, as they are before relocation.
// What lies beyond the file's part of a segment (.bss) is an error.
func (e *ELF) ReadAddr(addr uint64, buf []byte) error {
	n := uint64(len(buf))
	for _, s := range e.segs {
		if s.typ != elf.PT_LOAD || addr < s.addr || addr-s.addr >= s.filesz {
			continue
		}
		if n > s.filesz-(addr-s.addr) {
			break
		}
		return e.readWindow(s.off+(addr-s.addr), buf)
	}
	return e.errf("%d bytes at address %#x are not in the file", n, addr)
}

func (e *ELF) readWindow(off uint64, buf []byte) error {
	n := uint64(len(buf))
	if n > windowBytes/2 {
		b, err := e.bytesAt(off, n)
		copy(buf, b)
		return err
	}
	if off < e.winOff || off+n > e.winOff+uint64(len(e.win)) {
		at := off &^ 0xfff
		win := e.win[:cap(e.win)]
		if len(win) == 0 {
			win = make([]byte, windowBytes)
		}
		e.win = win[:0]
		got, err := e.r.ReadAt(win, int64(at&^(1<<63)))
		if uint64(got) < off-at+n {
			if err != nil && !errors.Is(err, io.EOF) {
				return e.errf("reading: %w", err)
			}
			return e.errf("the file is cut: %d bytes at %#x are not there", n, off)
		}
		e.win, e.winOff = win[:got], at
	}
	copy(buf, e.win[off-e.winOff:])
	return nil
}

// CString reads the zero-terminated string at an address, at most max bytes of it.
// One that does not end within them is an error.
func (e *ELF) CString(addr uint64, max int) (string, error) {
	if max > windowBytes/4 {
		max = windowBytes / 4
	}
	for _, s := range e.segs {
		if s.typ != elf.PT_LOAD || addr < s.addr || addr-s.addr >= s.filesz {
			continue
		}
		if left := s.filesz - (addr - s.addr); uint64(max) > left {
			max = int(left)
		}
		buf := make([]byte, max)
		if err := e.ReadAddr(addr, buf); err != nil {
			return "", err
		}
		for i, c := range buf {
			if c == 0 {
				return string(buf[:i]), nil
			}
		}
		return "", e.errf("no string of at most %d bytes at %#x", max, addr)
	}
	return "", e.errf("address %#x is not in the file", addr)
}

// Section returns the address and size of a section, false where the file has none of
// that name (or no section headers at all).
func (e *ELF) Section(name string) (addr, size uint64, ok bool) {
	s, ok := e.section(name)
	return s.addr, s.size, ok
}

// Range is a part of the address space.
type Range struct {
	Start, End  uint64 // End is not part of it
	Write, Exec bool
}

// Ranges lists what of the file is mapped, from its program headers, file contents only.
func (e *ELF) Ranges() []Range {
	var out []Range
	for _, s := range e.segs {
		if s.typ == elf.PT_LOAD && s.filesz > 0 {
			out = append(out, Range{s.addr, s.addr + s.filesz, s.flags&elf.PF_W != 0, s.flags&elf.PF_X != 0})
		}
	}
	return out
}
