// SPDX-License-Identifier: Apache-2.0

// Package crafted makes ELF files that no linker writes: a few bytes of header that would cost a reader hours
// and gigabytes. Any process can map such a file, and a profiler that runs as root reads it. Their contents
// are computed when they are read, so tests need no disk space for them; [File.Write] writes them, sparse
// where they are empty.
package crafted

import (
	"encoding/binary"
	"io"
	"os"
	"sort"
)

// File is a synthetic file.
type File struct {
	Name string // of the row: short, usable as a file name
	What string // which resource it exhausts
	// Base: it is a CPU library without names of operators, so it is examined only beside a base library.
	Base bool
	size int64
	part []part
}

// part is a stretch of the file: n entries of size bytes, each written by fill. The space between parts is
// empty.
type part struct {
	off     int64
	size, n int
	fill    func(i int, b []byte)
	data    []byte // contents of a single entry, instead of fill
}

func (p *part) end() int64 { return p.off + int64(p.size)*int64(p.n) }

// Size is the file's length in bytes.
func (f *File) Size() int64 { return f.size }

// Dense is approximately how many of its bytes are not in holes.
func (f *File) Dense() (n int64) {
	for i := range f.part {
		n += f.part[i].end() - f.part[i].off
	}
	return n
}

// ReadAt implements io.ReaderAt.
func (f *File) ReadAt(b []byte, off int64) (int, error) {
	if off >= f.size {
		return 0, io.EOF
	}
	short := int64(len(b)) > f.size-off
	if short {
		b = b[:f.size-off]
	}
	clear(b)
	for i := range f.part {
		f.part[i].read(b, off)
	}
	if short {
		return len(b), io.EOF
	}
	return len(b), nil
}

func (p *part) read(b []byte, off int64) {
	from, to := max(off, p.off), min(off+int64(len(b)), p.end())
	if from >= to {
		return
	}
	if p.data != nil {
		copy(b[from-off:to-off], p.data[from-p.off:])
		return
	}
	e := make([]byte, p.size)
	for i := int((from - p.off) / int64(p.size)); i < p.n; i++ {
		at := p.off + int64(i)*int64(p.size)
		if at >= to {
			return
		}
		clear(e)
		p.fill(i, e)
		src, dst := max(from-at, 0), max(at, from)-off
		copy(b[dst:min(dst+int64(p.size)-src, to-off)], e[src:])
	}
}

// Write writes the file, with holes where it is empty.
func (f *File) Write(path string) error {
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer out.Close()
	if err := out.Truncate(f.size); err != nil {
		return err
	}
	buf := make([]byte, 1<<20)
	for i := range f.part {
		for at := f.part[i].off; at < f.part[i].end(); at += int64(len(buf)) {
			b := buf[:min(int64(len(buf)), f.part[i].end()-at)]
			if _, err := f.ReadAt(b, at); err != nil && err != io.EOF {
				return err
			}
			if _, err := out.WriteAt(b, at); err != nil {
				return err
			}
		}
	}
	return out.Close()
}

// builder lays a file out: addresses are offsets.
type builder struct {
	f       File
	at      int64
	loads   [][2]int64 // program headers of code and data
	heads   int64      // number of useless program headers before them
	secs    []section
	names   []byte // of sections
	dyn     []uint64
	syms    []symbol
	strs    []byte
	symHole int // further symbols, empty
	strHole int64
}

type symbol struct {
	name       string
	addr, size uint64
	defined    bool
}

type section struct {
	name            string
	typ             uint32
	flags           uint64
	off, size, link int64
}

func le(b []byte, vs ...uint64) {
	for i, v := range vs {
		binary.LittleEndian.PutUint64(b[8*i:], v)
	}
}

// space reserves n empty bytes, aligned to 4 KiB.
func (b *builder) space(n int64) int64 {
	at := b.at
	b.at = (b.at + n + 0xfff) &^ 0xfff
	return at
}

// entries reserves space for n entries and fills them.
func (b *builder) entries(n, size int, fill func(i int, e []byte)) int64 {
	at := b.space(int64(n) * int64(size))
	b.put(at, n, size, fill)
	return at
}

func (b *builder) put(at int64, n, size int, fill func(i int, e []byte)) {
	b.f.part = append(b.f.part, part{off: at, size: size, n: n, fill: fill})
}

// bytes stores bytes anywhere.
func (b *builder) bytes(p []byte) int64 {
	at := b.space(int64(len(p)))
	b.poke(at, p)
	return at
}

func (b *builder) poke(at int64, p []byte) {
	b.f.part = append(b.f.part, part{off: at, size: len(p), n: 1, data: p})
}

func (b *builder) fn(name string, addr, size int64) {
	b.syms = append(b.syms, symbol{name, uint64(addr), uint64(size), true})
}

func newBuilder(name, what string) *builder {
	return &builder{f: File{Name: name, What: what}, at: 0x1000, strs: []byte{0}, names: []byte{0}}
}

const (
	progbits, symtabType, strtabType, dynsymType = 1, 2, 3, 11

	alloc, exec = 2, 4
)

// finish writes the tables that describe the contents: the dynamic symbols with their names, sections,
// program headers.
func (b *builder) finish() *File {
	if len(b.syms) > 0 {
		sort.SliceStable(b.syms, func(i, j int) bool { return b.syms[i].addr < b.syms[j].addr })
		tab := make([]byte, 24*(len(b.syms)+1))
		for i, s := range b.syms {
			e := tab[24*(i+1):]
			binary.LittleEndian.PutUint32(e, uint32(len(b.strs)))
			b.strs = append(append(b.strs, s.name...), 0)
			e[4] = 1<<4 | 2
			if s.defined {
				binary.LittleEndian.PutUint16(e[6:], 1)
			}
			le(e[8:], s.addr, s.size)
		}
		symAt := b.space(int64(len(tab)) + 24*int64(b.symHole))
		b.poke(symAt, tab)
		strAt := b.space(int64(len(b.strs)) + b.strHole)
		b.poke(strAt, b.strs)
		b.dyn = append(b.dyn, 6, uint64(symAt), 5, uint64(strAt), 10, uint64(len(b.strs))+uint64(b.strHole))
		if b.secs != nil {
			b.secs = append(b.secs, section{"", dynsymType, alloc, symAt,
				int64(len(tab)) + 24*int64(b.symHole), 0})
		}
	}
	b.dyn = append(b.dyn, 0, 0)
	raw := make([]byte, 8*len(b.dyn))
	le(raw, b.dyn...)
	dynAt := b.bytes(raw)
	shoff, shnum, shstr := b.sections()
	type head struct{ typ, flags, off, size int64 }
	var heads []head
	loads := []head{{1, 5, 0, 0}}
	for _, l := range b.loads {
		loads = append(loads, head{1, 5, l[0], l[1]})
	}
	heads = append([]head{{2, 6, dynAt, int64(len(raw))}}, loads...)
	n := int(b.heads) + len(heads)
	phoff := b.entries(n, 56, func(i int, e []byte) {
		h := head{1, 5, 0, 0} // useless: an empty stretch far away
		addr := uint64(1)<<40 + uint64(i)*4096
		if k := i - int(b.heads); k >= 0 {
			h = heads[k]
			addr = uint64(h.off)
		} else {
			h.size = 16
		}
		size := uint64(h.size)
		if h.typ == 1 && h.size == 0 {
			size = uint64(b.f.size)
		}
		binary.LittleEndian.PutUint32(e, uint32(h.typ))
		binary.LittleEndian.PutUint32(e[4:], uint32(h.flags))
		le(e[8:], uint64(h.off), addr, addr, size, size, 0x1000)
	})
	b.f.size = b.at
	b.put(0, 1, 64, func(_ int, e []byte) {
		copy(e, "\x7fELF\x02\x01\x01")
		binary.LittleEndian.PutUint16(e[16:], 3)
		binary.LittleEndian.PutUint16(e[18:], 62) // x86-64
		binary.LittleEndian.PutUint32(e[20:], 1)
		le(e[32:], uint64(phoff), uint64(shoff))
		for i, v := range []int{64, 56, n, 64, shnum, shstr} {
			binary.LittleEndian.PutUint16(e[52+2*i:], uint16(v))
		}
	})
	return &b.f
}

// sections writes their headers; those without a type share the name at the start of the names.
func (b *builder) sections() (off int64, n, names int) {
	if b.secs == nil {
		return 0, 0, 0
	}
	name := make([]uint32, len(b.secs))
	for i, s := range b.secs {
		if s.typ == 0 {
			name[i] = 1
		} else if s.name != "" {
			name[i] = uint32(len(b.names))
			b.names = append(append(b.names, s.name...), 0)
		}
	}
	at := b.bytes(b.names)
	b.secs = append(b.secs, section{"", strtabType, 0, at, int64(len(b.names)), 0})
	name = append(name, 0)
	all := b.secs
	off = b.entries(len(all)+1, 64, func(i int, e []byte) {
		if i == 0 {
			return
		}
		s := all[i-1]
		binary.LittleEndian.PutUint32(e, name[i-1])
		binary.LittleEndian.PutUint32(e[4:], s.typ)
		le(e[8:], s.flags, uint64(s.off), uint64(s.off), uint64(s.size))
		binary.LittleEndian.PutUint32(e[40:], uint32(s.link))
	})
	return off, len(all) + 1, len(all)
}
