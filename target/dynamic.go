// SPDX-License-Identifier: Apache-2.0

package target

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"sort"
)

// dynamic is the content of the dynamic section, with sizes and addresses as the loader sees them.
type dynamic struct {
	present               bool
	symtab, strtab, strsz uint64
	hash, gnuHash         uint64
	rela, relasz          uint64
	jmprel, pltrelsz      uint64
	soname                uint64
	needed                []uint64
}

func (e *ELF) readDynamic() error {
	for _, s := range e.segs {
		if s.typ != elf.PT_DYNAMIC {
			continue
		}
		if s.filesz > 1<<20 {
			return e.errf("a dynamic section of %d bytes is beyond reason", s.filesz)
		}
		b, err := e.bytesAt(s.off, s.filesz)
		if err != nil {
			return err
		}
		d := &e.dyn
		d.present = true
		for ; len(b) >= 16; b = b[16:] {
			v := binary.LittleEndian.Uint64(b[8:])
			switch elf.DynTag(binary.LittleEndian.Uint64(b)) {
			case elf.DT_NULL:
				return nil
			case elf.DT_SYMTAB:
				d.symtab = v
			case elf.DT_STRTAB:
				d.strtab = v
			case elf.DT_STRSZ:
				d.strsz = v
			case elf.DT_HASH:
				d.hash = v
			case elf.DT_GNU_HASH:
				d.gnuHash = v
			case elf.DT_RELA:
				d.rela = v
			case elf.DT_RELASZ:
				d.relasz = v
			case elf.DT_JMPREL:
				d.jmprel = v
			case elf.DT_PLTRELSZ:
				d.pltrelsz = v
			case elf.DT_SONAME:
				d.soname = v
			case elf.DT_NEEDED:
				if len(d.needed) < 4096 {
					d.needed = append(d.needed, v)
				}
			}
		}
		return nil
	}
	return nil
}

// Soname is the library's own name (DT_SONAME), empty if it has none.
func (e *ELF) Soname() string { return e.dynString(e.dyn.soname) }

// Needed lists the libraries that this file requires (DT_NEEDED).
func (e *ELF) Needed() []string {
	var out []string
	for _, o := range e.dyn.needed {
		if s := e.dynString(o); s != "" {
			out = append(out, s)
		}
	}
	return out
}

func (e *ELF) dynString(off uint64) string {
	if off == 0 || off >= e.dyn.strsz {
		return ""
	}
	s, err := e.CString(e.dyn.strtab+off, 4096)
	if err != nil {
		return ""
	}
	return s
}

// BuildID is the GNU build id in hexadecimal, empty if the file has none.
func (e *ELF) BuildID() string {
	for _, s := range e.segs {
		if s.typ == elf.PT_NOTE {
			if id := e.buildIDAt(s.off, s.filesz); id != "" {
				return id
			}
		}
	}
	for _, s := range e.sects {
		if s.typ == elf.SHT_NOTE {
			if id := e.buildIDAt(s.off, s.size); id != "" {
				return id
			}
		}
	}
	return ""
}

// buildIDAt searches notes: name size, description size, type, then both padded to 4.
func (e *ELF) buildIDAt(off, n uint64) string {
	b, err := e.bytesAt(off, min(n, 1<<16))
	if err != nil {
		return ""
	}
	pad := func(n uint32) uint64 { return (uint64(n) + 3) &^ 3 }
	for len(b) >= 12 {
		le := binary.LittleEndian
		nn, dn, typ := le.Uint32(b), le.Uint32(b[4:]), le.Uint32(b[8:])
		b = b[12:]
		if pad(nn)+pad(dn) > uint64(len(b)) {
			return ""
		}
		if typ == 3 && nn == 4 && string(b[:4]) == "GNU\x00" && dn <= 64 {
			return hex.EncodeToString(b[4 : 4+dn])
		}
		b = b[pad(nn)+pad(dn):]
	}
	return ""
}

// countDynsyms finds the number of dynamic symbols: from the section if there is one, otherwise from the hash
// tables, as the dynamic section itself does not give it.
func (e *ELF) countDynsyms() (uint64, error) {
	for _, s := range e.sects {
		if s.typ == elf.SHT_DYNSYM {
			return s.size / 24, nil
		}
	}
	var h [16]byte
	if e.dyn.hash != 0 && e.ReadAddr(e.dyn.hash, h[:8]) == nil {
		return uint64(binary.LittleEndian.Uint32(h[4:])), nil
	}
	if e.dyn.gnuHash == 0 || e.ReadAddr(e.dyn.gnuHash, h[:]) != nil {
		return 0, nil
	}
	return e.countGNUHash(h)
}

// countGNUHash finds the last symbol of the last chain. Header: number of buckets,
// first hashed symbol, words of the Bloom filter (8 bytes each), shift.
func (e *ELF) countGNUHash(h [16]byte) (uint64, error) {
	le := binary.LittleEndian
	nb, first, bloom := uint64(le.Uint32(h[:])), uint64(le.Uint32(h[4:])), uint64(le.Uint32(h[8:]))
	buckets, ok := e.FileOffset(e.dyn.gnuHash + 16 + bloom*8)
	if !ok {
		return 0, e.errf("its symbol hash table is not in the file")
	}
	var last uint64
	err := e.stream(buckets, nb*4, 4, func(b []byte) bool {
		for i := 0; i+4 <= len(b); i += 4 {
			last = max(last, uint64(le.Uint32(b[i:])))
		}
		return e.spend(uint64(len(b)) / 32)
	})
	if err != nil {
		return 0, err
	}
	if last < first {
		return first, nil
	}
	if last >= maxSymbols {
		return 0, e.tooMany("symbols", maxSymbols)
	}
	for n := last; n < maxSymbols; n++ {
		var c [4]byte
		if err := e.ReadAddr(e.dyn.gnuHash+16+bloom*8+nb*4+(n-first)*4, c[:]); err != nil {
			return 0, err
		}
		if c[0]&1 != 0 { // the end of a chain
			return n + 1, nil
		}
	}
	return 0, e.tooMany("symbols in a chain of its hash table", maxSymbols)
}

type reloc struct {
	addr   uint64
	typ    uint32
	sym    uint32
	addend int64
}

// loadRelocs reads the relocations that the loader would apply, sorted by address.
func (e *ELF) loadRelocs() error {
	if e.relocDone {
		return e.relocErr
	}
	e.relocDone = true
	e.relocErr = e.readRelocs()
	return e.relocErr
}

func (e *ELF) readRelocs() error {
	type table struct{ addr, size uint64 }
	tables := []table{{e.dyn.rela, e.dyn.relasz}, {e.dyn.jmprel, e.dyn.pltrelsz}}
	if !e.dyn.present { // a static executable has them (IRELATIVE) only in a section
		if s, ok := e.section(".rela.plt"); ok {
			tables = []table{{s.addr, s.size}}
		}
	}
	le := binary.LittleEndian
	for _, t := range tables {
		if t.addr == 0 || t.size == 0 {
			continue
		}
		if uint64(len(e.relocs))+t.size/24 > maxRelocs {
			return e.tooMany("relocations", maxRelocs)
		}
		off, ok := e.FileOffset(t.addr)
		if !ok {
			return e.errf("a table at address %#x is not in the file", t.addr)
		}
		if e.relocs == nil {
			e.relocs = make([]reloc, 0, t.size/24)
		}
		err := e.stream(off, t.size/24*24, 24, func(b []byte) bool {
			n := uint64(len(b))
			for ; len(b) >= 24; b = b[24:] {
				e.relocs = append(e.relocs, reloc{le.Uint64(b), le.Uint32(b[8:]), le.Uint32(b[12:]),
					int64(le.Uint64(b[16:]))})
			}
			return e.spend(n / 4)
		})
		if err != nil {
			return err
		}
	}
	slices.SortFunc(e.relocs, func(a, b reloc) int { return cmp.Compare(a.addr, b.addr) })
	return nil
}

func (e *ELF) relocAt(addr uint64) (reloc, bool) {
	if e.loadRelocs() != nil {
		return reloc{}, false
	}
	i := sort.Search(len(e.relocs), func(i int) bool { return e.relocs[i].addr >= addr })
	if i < len(e.relocs) && e.relocs[i].addr == addr {
		return e.relocs[i], true
	}
	return reloc{}, false
}

// relocKind is what the loader does for a relocation.
type relocKind uint8

const (
	relocOther    relocKind = iota
	relocRelative           // load address + addend
	relocSymbol             // address of a symbol (+ addend): data pointers, GOT and PLT slots
	relocIndirect           // the result of calling load address + addend
)

func (e *ELF) relocKind(typ uint32) relocKind {
	if e.Arch == AMD64 {
		switch elf.R_X86_64(typ) {
		case elf.R_X86_64_RELATIVE:
			return relocRelative
		case elf.R_X86_64_64, elf.R_X86_64_GLOB_DAT, elf.R_X86_64_JMP_SLOT:
			return relocSymbol
		case elf.R_X86_64_IRELATIVE:
			return relocIndirect
		}
		return relocOther
	}
	switch elf.R_AARCH64(typ) {
	case elf.R_AARCH64_RELATIVE:
		return relocRelative
	case elf.R_AARCH64_ABS64, elf.R_AARCH64_GLOB_DAT, elf.R_AARCH64_JUMP_SLOT:
		return relocSymbol
	case elf.R_AARCH64_IRELATIVE:
		return relocIndirect
	}
	return relocOther
}

// ReadPtr reads the pointer at an address as it will be once the loader is done, in the file's own numbering.
// A pointer to something that another file defines is an error (PtrSymbol returns its name).
func (e *ELF) ReadPtr(addr uint64) (uint64, error) {
	if err := e.loadRelocs(); err != nil {
		return 0, err
	}
	if r, ok := e.relocAt(addr); ok {
		switch e.relocKind(r.typ) {
		case relocRelative:
			return uint64(r.addend), nil
		case relocSymbol:
			s, err := e.dynsym(r.sym)
			if err != nil {
				return 0, err
			}
			if !s.Defined {
				return 0, e.errf("the pointer at %#x is to %s of another file", addr, s.Name)
			}
			add := uint64(r.addend)
			if e.Arch == AMD64 && elf.R_X86_64(r.typ) != elf.R_X86_64_64 {
				add = 0 // slots hold the symbol alone
			}
			return s.Addr + add, nil
		default:
			return 0, e.errf("the pointer at %#x is computed at run time (relocation %d)", addr, r.typ)
		}
	}
	// No relocation, or a compact one (DT_RELR) whose addend lies in place.
	var b [8]byte
	if err := e.ReadAddr(addr, b[:]); err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b[:]), nil
}

// PtrSymbol is the name of the symbol whose address the loader writes at an address (a GOT slot, a pointer in
// a table), no matter which file defines it.
func (e *ELF) PtrSymbol(addr uint64) (string, bool) {
	r, ok := e.relocAt(addr)
	if !ok || e.relocKind(r.typ) != relocSymbol {
		return "", false
	}
	s, err := e.dynsym(r.sym)
	if err != nil || s.Name == "" {
		return "", false
	}
	return s.Name, true
}
