// SPDX-License-Identifier: Apache-2.0

package target

import (
	"debug/elf"
	"encoding/binary"
	"strings"
)

// elfSpec describes a small shared library that build lays out as a linker would: one
// segment of headers, tables and code, one of data, addresses equal to offsets (plus a
// page in the second).
type elfSpec struct {
	arch     Arch
	sections bool // section headers, .symtab among them
	gnuHash  bool // else DT_HASH
}

const (
	specCode = 0x1000 // address of the first function
	specData = 0x3000 // offset; mapped a page higher, as linkers do
	dataAddr = specData + 0x1000
)

// What is in it. Code on both architectures, addresses relative to specCode:
//
//	caller 0x00: calls local, ext (through its stub), exported (through its stub); tail-jumps to local
//	local  0x40: returns; unnamed without .symtab
//	exported 0x60: returns; its symbol claims more than there is room for
//	stubs 0x80 (ext), 0xa0 (exported)
//	slotcaller 0xc0: x86-64 calls ext through its slot
//
// Data at dataAddr: slots of ext and exported; a pointer to "hello" by a relative relocation; a pointer to
// exported+0 by symbol; a pointer to ext; a compact relative one to "hello".
const (
	slotExt, slotExported, ptrHello, ptrExported, ptrExt, ptrRelr = dataAddr, dataAddr + 8, dataAddr + 16,
		dataAddr + 24, dataAddr + 32, dataAddr + 40
	helloAddr = specCode + 0x200
)

type layouter struct{ b []byte }

func (l *layouter) put(off int, b []byte) {
	if n := off + len(b); n > len(l.b) {
		l.b = append(l.b, make([]byte, n-len(l.b))...)
	}
	copy(l.b[off:], b)
}

func le64(vs ...uint64) (b []byte) {
	for _, v := range vs {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

func (s elfSpec) code() []byte {
	l := &layouter{}
	le := binary.LittleEndian
	if s.arch == ARM64 {
		word := func(at int, ws ...uint32) {
			for i, w := range ws {
				l.put(at+4*i, le.AppendUint32(nil, w))
			}
		}
		branch := func(op uint32, from, to int) uint32 { return op | uint32(to-from)/4&0x3ffffff }
		word(0, 0xd503245f, branch(0x94000000, 4, 0x40), branch(0x94000000, 8, 0x80),
			branch(0x94000000, 12, 0xa0), branch(0x14000000, 16, 0x40))
		word(0x40, 0xd65f03c0)
		word(0x60, 0xd65f03c0)
		stub := func(at, slot int, bti bool) {
			page := uint32(slot>>12 - (specCode+at)>>12)
			ws := []uint32{0x90000010 | page&3<<29 | page>>2<<5, 0xf9400211 | uint32(slot&0xfff/8)<<10,
				0x91000210 | uint32(slot&0xfff)<<10, 0xd61f0220}
			if bti {
				ws = append([]uint32{0xd503245f}, ws...)
			}
			word(at, ws...)
		}
		stub(0x80, slotExt, false)
		stub(0xa0, slotExported, true)
		word(0xc0, 0xd65f03c0, branch(0x14000000, 4, 0))
		return l.b
	}
	rel := func(op []byte, at, to int) {
		l.put(at, le.AppendUint32(op, uint32(to-(at+len(op)+4))))
	}
	l.put(0, []byte{0xf3, 0x0f, 0x1e, 0xfa, 0xc5, 0xf8, 0x77})
	rel([]byte{0xe8}, 0x07, 0x40)
	rel([]byte{0xe8}, 0x0c, 0x80)
	rel([]byte{0xe8}, 0x11, 0xa0)
	l.put(0x16, []byte{0x74, 0xe8}) // je caller: its second byte looks like a call
	rel([]byte{0xe9}, 0x18, 0x40)
	l.put(0x40, []byte{0xc3})
	l.put(0x60, []byte{0xf3, 0x0f, 0x1e, 0xfa, 0xc3})
	rel([]byte{0xff, 0x25}, 0x80, slotExt-specCode) // jmp *slot(%rip)
	l.put(0xa0, []byte{0xf3, 0x0f, 0x1e, 0xfa})     // endbr64; bnd jmp *slot(%rip)
	rel([]byte{0xf2, 0xff, 0x25}, 0xa4, slotExported-specCode)
	rel([]byte{0xff, 0x15}, 0xc0, slotExt-specCode) // call *slot(%rip)
	l.put(0xc6, []byte{0xeb, 0xf8, 0xc3})           // a loop to its start
	rel([]byte{0x48, 0xb8, 0xe8}, 0xc9, 0x40)       // mov: its number looks like a call
	l.put(0xd1, []byte{0, 0, 0, 0xe9})              // the rest of the number, and a jump that is cut
	return l.b
}

// build returns the file.
func (s elfSpec) build() []byte {
	le := binary.LittleEndian
	l := &layouter{}
	machine, relative, abs64, slot := uint16(elf.EM_X86_64), uint64(elf.R_X86_64_RELATIVE),
		uint64(elf.R_X86_64_64), uint64(elf.R_X86_64_JMP_SLOT)
	if s.arch == ARM64 {
		machine, relative, abs64, slot = uint16(elf.EM_AARCH64), uint64(elf.R_AARCH64_RELATIVE),
			uint64(elf.R_AARCH64_ABS64), uint64(elf.R_AARCH64_JUMP_SLOT)
	}
	l.put(specCode, s.code())
	l.put(helloAddr, []byte("hello\x00"))

	// Strings, symbols.
	strs := "\x00"
	str := func(n string) uint32 {
		at := len(strs)
		strs += n + "\x00"
		return uint32(at)
	}
	sym := func(name, info, shndx int, value, size uint64) []byte {
		b := le.AppendUint32(nil, uint32(name))
		b = append(b, byte(info), 0)
		b = le.AppendUint16(b, uint16(shndx))
		return append(b, le64(value, size)...)
	}
	const fn, global = 2, 1 << 4
	soname, needed := str("libtiny.so.1"), str("libc.so.6")
	dynsyms := append(sym(0, 0, 0, 0, 0), sym(int(str("ext")), global|fn, 0, 0, 0)...)
	dynsyms = append(dynsyms, sym(int(str("exported")), global|fn, 1, specCode+0x60, 0x100)...)
	dynsyms = append(dynsyms, sym(int(str("caller")), global|fn, 1, specCode, 0x1d)...)
	nsyms := uint32(4)
	const symAt, strAt, hashAt, relaAt, jmprelAt, dynAt, noteAt, ehAt, hdrAt = 0x300, 0x400, 0x500, 0x600,
		0x680, 0x700, 0x800, 0x900, 0xa00
	l.put(symAt, dynsyms)
	hashTag := uint64(elf.DT_HASH)
	if s.gnuHash {
		hashTag = uint64(elf.DT_GNU_HASH)
		// one bucket, symbols hashed from 2 on, one word of filter; the chain ends with the last
		l.put(hashAt, append(u32s(1, 2, 1, 6), append(le64(^uint64(0)), u32s(2, 0x10, 0x21)...)...))
	} else {
		l.put(hashAt, u32s(1, nsyms, 2, 0, 0, 0, 0))
	}
	relas := le64(ptrHello, relative, helloAddr, ptrExported, 2<<32|abs64, 0, ptrExt, 1<<32|abs64, 8)
	l.put(relaAt, relas)
	slotAddend := uint64(0)
	if s.arch == AMD64 {
		slotAddend = 0x30 // means nothing there
	}
	l.put(jmprelAt, le64(slotExt, 1<<32|slot, 0, slotExported, 2<<32|slot, slotAddend))
	dyn := le64(uint64(elf.DT_SYMTAB), symAt, uint64(elf.DT_STRTAB), strAt, uint64(elf.DT_STRSZ), 0x80,
		hashTag, hashAt,
		uint64(elf.DT_RELA), relaAt, uint64(elf.DT_RELASZ), uint64(len(relas)), uint64(elf.DT_JMPREL),
		jmprelAt, uint64(elf.DT_PLTRELSZ), 48,
		uint64(elf.DT_SONAME), uint64(soname), uint64(elf.DT_NEEDED), uint64(needed), 0, 0)
	l.put(dynAt, dyn)
	l.put(noteAt, append(u32s(4, 8, 3), append([]byte("GNU\x00"), 0xde, 0xad, 0xbe, 0xef, 1, 2, 3, 4)...))

	// Unwind information: a CIE with personality and LSDA, FDEs of caller, local, and of the stubs' section.
	cie := append(u32s(0), 1)
	cie = append(cie, "zPLR\x00"...)
	cie = append(cie, 1, 0x78, 16, 7, 0x9b, 0, 0, 0, 0, 0x1b, 0x1b, 0, 0, 0)
	for len(cie)%4 != 0 {
		cie = append(cie, 0)
	}
	eh := append(u32s(uint32(len(cie))), cie...)
	for _, f := range [][2]uint32{{specCode, 0x1d}, {specCode + 0x40, 1}, {specCode + 0x80, 0x40},
		{specCode + 0xc0, 9}} {
		at := uint32(ehAt + len(eh))
		eh = append(eh, u32s(16, at+4-ehAt, f[0]-(at+8), f[1], 0)...)
	}
	eh = append(eh, 0, 0, 0, 0)
	l.put(ehAt, eh)
	back := ehAt - (hdrAt + 4)
	l.put(hdrAt, append([]byte{1, 0x1b, 3, 0x3b}, u32s(uint32(back))...))

	// Data.
	data := make([]byte, 64)
	le.PutUint64(data[ptrRelr-dataAddr:], helloAddr)
	l.put(specData, data)

	var shoff, shnum, shstrndx uint64
	if s.sections {
		symtab := append(sym(0, 0, 0, 0, 0), sym(int(str("local")), fn, 1, specCode+0x40, 1)...)
		symtab = append(symtab, sym(int(str("exported@@TINY_1.0")), global|fn, 1, specCode+0x60, 5)...)
		symtab = append(symtab, sym(int(str("__alias")), global|fn, 1, specCode+0x60, 5)...)
		symtab = append(symtab, sym(int(str("__local_alias")), fn, 1, specCode+0x40, 1)...)
		symtab = append(symtab, sym(int(str("$x")), 0, 1, specCode, 0)...)
		symtab = append(symtab, sym(int(str("slotcaller")), fn, 1, specCode+0xc0, 9)...)
		l.put(0x2000, symtab)
		names := "\x00"
		sect := func(name string, typ elf.SectionType, flags elf.SectionFlag, addr, off, size uint64,
			link uint32) []byte {
			b := u32s(uint32(len(names)), uint32(typ))
			names += name + "\x00"
			b = append(b, le64(uint64(flags), addr, off, size)...)
			return append(append(b, u32s(link, 0)...), le64(1, 0)...)
		}
		const exec = elf.SHF_ALLOC | elf.SHF_EXECINSTR
		heads := make([]byte, 64)
		heads = append(heads, sect(".text", elf.SHT_PROGBITS, exec, specCode, specCode, 0x80, 0)...)
		heads = append(heads, sect(".plt", elf.SHT_PROGBITS, exec, specCode+0x80, specCode+0x80, 0x40, 0)...)
		heads = append(heads, sect(".text.2", elf.SHT_PROGBITS, exec, specCode+0xc0, specCode+0xc0, 0x20,
			0)...)
		heads = append(heads, sect(".dynsym", elf.SHT_DYNSYM, elf.SHF_ALLOC, symAt, symAt,
			uint64(len(dynsyms)), 0)...)
		heads = append(heads, sect(".eh_frame", elf.SHT_PROGBITS, elf.SHF_ALLOC, ehAt, ehAt, uint64(len(eh)),
			0)...)
		heads = append(heads, sect(".symtab", elf.SHT_SYMTAB, 0, 0, 0x2000, uint64(len(symtab)), 7)...)
		heads = append(heads, sect(".strtab", elf.SHT_STRTAB, 0, 0, strAt, 0x100, 0)...)
		heads = append(heads, sect(".shstrtab", elf.SHT_STRTAB, 0, 0, 0x2200, 0x80, 0)...)
		l.put(0x2200, []byte(names+strings.Repeat("\x00", 0x80-len(names))))
		shoff, shnum, shstrndx = uint64(len(l.b)+7)&^7, uint64(len(heads)/64), 8
		l.put(int(shoff), heads)
	}
	l.put(strAt, []byte(strs+strings.Repeat("\x00", 0x100-len(strs))))

	ph := func(typ elf.ProgType, flags elf.ProgFlag, off, addr, filesz, memsz uint64) []byte {
		return append(u32s(uint32(typ), uint32(flags)), le64(off, addr, addr, filesz, memsz, 0x1000)...)
	}
	heads := ph(elf.PT_LOAD, elf.PF_R|elf.PF_X, 0, 0, 0x1300, 0x1300)
	heads = append(heads, ph(elf.PT_LOAD, elf.PF_R|elf.PF_W, specData, dataAddr, 64, 0x100)...)
	heads = append(heads, ph(elf.PT_DYNAMIC, elf.PF_R, dynAt, dynAt, uint64(len(dyn)), uint64(len(dyn)))...)
	heads = append(heads, ph(elf.PT_NOTE, elf.PF_R, noteAt, noteAt, 24, 24)...)
	heads = append(heads, ph(elf.PT_GNU_EH_FRAME, elf.PF_R, hdrAt, hdrAt, 8, 8)...)
	l.put(64, heads)
	h := append([]byte(elf.ELFMAG), 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	h = le.AppendUint16(h, uint16(elf.ET_DYN))
	h = le.AppendUint16(h, machine)
	h = append(h, u32s(1)...)
	h = append(h, le64(0, 64, shoff)...)
	h = append(h, u32s(0)...)
	for _, v := range []uint16{64, 56, 5, 64, uint16(shnum), uint16(shstrndx)} {
		h = le.AppendUint16(h, v)
	}
	l.put(0, h)
	return l.b
}

func u32s(vs ...uint32) (b []byte) {
	for _, v := range vs {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return b
}
