// SPDX-License-Identifier: Apache-2.0

package target

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"sort"
	"strings"
)

// Symbol is a named address of an ELF file.
type Symbol struct {
	Name     string // without a version (@GLIBC_2.34)
	Addr     uint64
	Size     uint64 // bytes; 0 if not told
	Func     bool
	Object   bool // data
	Defined  bool // in this file; an import is not
	Exported bool // other files can see it
	Indirect bool // resolved at run time (IFUNC): Addr is the resolver
	bind     elf.SymBind
}

// loadDynsyms reads the dynamic symbols.
func (e *ELF) loadDynsyms() error {
	if e.dynDone {
		return e.dynsymErr
	}
	e.dynDone = true
	e.dynsyms, e.dynsymErr = e.readDynsyms()
	return e.dynsymErr
}

func (e *ELF) readDynsyms() ([]Symbol, error) {
	if e.dyn.symtab == 0 {
		return nil, nil
	}
	n, err := e.countDynsyms()
	if err != nil {
		return nil, err
	}
	if n > maxSymbols {
		return nil, e.errf("%d dynamic symbols are beyond reason", n)
	}
	raw, err := e.atAddr(e.dyn.symtab, n*24)
	if err != nil {
		return nil, err
	}
	strs, err := e.atAddr(e.dyn.strtab, e.dyn.strsz)
	if err != nil {
		return nil, err
	}
	return decodeSymbols(raw, strs, true), nil
}

func decodeSymbols(raw, strs []byte, dynamic bool) []Symbol {
	le := binary.LittleEndian
	all := string(strs) // names share this memory
	out := make([]Symbol, 0, len(raw)/24)
	for ; len(raw) >= 24; raw = raw[24:] {
		typ, bind := elf.ST_TYPE(raw[4]), elf.ST_BIND(raw[4])
		shndx := elf.SectionIndex(le.Uint16(raw[6:]))
		s := Symbol{
			Addr: le.Uint64(raw[8:]), Size: le.Uint64(raw[16:]),
			Func:     typ == elf.STT_FUNC || typ == elf.STT_GNU_IFUNC,
			Object:   typ == elf.STT_OBJECT,
			Indirect: typ == elf.STT_GNU_IFUNC,
			Defined:  shndx != elf.SHN_UNDEF,
			bind:     bind,
		}
		vis := elf.ST_VISIBILITY(raw[5])
		s.Exported = dynamic && s.Defined && bind != elf.STB_LOCAL && (vis == elf.STV_DEFAULT || vis == elf.STV_PROTECTED)
		if off := uint64(le.Uint32(raw)); off < uint64(len(all)) && typ != elf.STT_SECTION && typ != elf.STT_FILE {
			name := all[off:]
			if k := strings.IndexByte(name, 0); k >= 0 {
				name, _, _ = strings.Cut(name[:k], "@")
				s.Name = name
			}
		}
		if typ == elf.STT_TLS {
			s.Addr = 0 // an offset, no address
			s.Defined = false
		}
		out = append(out, s)
	}
	return out
}

func (e *ELF) dynsym(i uint32) (Symbol, error) {
	if err := e.loadDynsyms(); err != nil {
		return Symbol{}, err
	}
	if uint64(i) >= uint64(len(e.dynsyms)) {
		return Symbol{}, e.errf("a relocation names symbol %d of %d", i, len(e.dynsyms))
	}
	return e.dynsyms[i], nil
}

// Exports says whether the file defines a dynamic symbol of this name. It reads no more
// than the dynamic symbols: the cheap question to ask of a library first.
func (e *ELF) Exports(name string) bool {
	if e.loadDynsyms() != nil {
		return false
	}
	for i := range e.dynsyms {
		if e.dynsyms[i].Exported && e.dynsyms[i].Name == name {
			return true
		}
	}
	return false
}

// DynamicSymbols lists the names that the file exports and imports (.dynsym).
func (e *ELF) DynamicSymbols() ([]Symbol, error) {
	err := e.loadDynsyms()
	var out []Symbol
	for _, s := range e.dynsyms {
		if s.Name != "" {
			out = append(out, s)
		}
	}
	return out, err
}

// Symbols lists the symbols that are defined in this file, of .symtab where the file still
// has one and of .dynsym, sorted by address. The error tells what could not be read;
// what could be is returned all the same.
func (e *ELF) Symbols() ([]Symbol, error) {
	if e.symsDone {
		return e.syms, e.symsErr
	}
	e.symsDone = true
	e.symsErr = e.loadDynsyms()
	type key struct {
		name string
		addr uint64
	}
	seen := map[key]bool{}
	add := func(list []Symbol) {
		for _, s := range list {
			if s.Name == "" || !s.Defined || isMappingSymbol(s.Name) || seen[key{s.Name, s.Addr}] {
				continue
			}
			seen[key{s.Name, s.Addr}] = true
			e.syms = append(e.syms, s)
		}
	}
	add(e.dynsyms)
	for i := range e.sects {
		if e.sects[i].typ != elf.SHT_SYMTAB {
			continue
		}
		list, err := e.readSymtab(e.sects[i])
		if err != nil && e.symsErr == nil {
			e.symsErr = err
		}
		add(list)
	}
	sort.SliceStable(e.syms, func(i, j int) bool { return e.syms[i].Addr < e.syms[j].Addr })
	e.byName = make(map[string]int, len(e.syms))
	for i, s := range e.syms {
		if old, ok := e.byName[s.Name]; !ok || better(s, e.syms[old]) {
			e.byName[s.Name] = i
		}
	}
	return e.syms, e.symsErr
}

// isMappingSymbol tells arm64's marks of code and data ($x, $d.1) from names.
func isMappingSymbol(name string) bool {
	return len(name) >= 2 && name[0] == '$' && (name[1] == 'x' || name[1] == 'd') && (len(name) == 2 || name[2] == '.')
}

func (e *ELF) readSymtab(s section) ([]Symbol, error) {
	if s.size/24 > maxSymbols || uint64(s.link) >= uint64(len(e.sects)) {
		return nil, e.errf("its symbol table is damaged")
	}
	raw, err := e.bytesAt(s.off, s.size)
	if err != nil {
		return nil, err
	}
	str := e.sects[s.link]
	strs, err := e.bytesAt(str.off, str.size)
	if err != nil {
		return nil, err
	}
	return decodeSymbols(raw, strs, false), nil
}

// better decides between two symbols for one name or one address: functions first, then
// by binding, then the name with fewer leading underscores, then the shorter.
func better(a, b Symbol) bool {
	if a.Func != b.Func {
		return a.Func
	}
	rank := func(s Symbol) int {
		switch {
		case s.Exported:
			return 0
		case s.bind == elf.STB_GLOBAL:
			return 1
		case s.bind == elf.STB_WEAK:
			return 2
		}
		return 3
	}
	if ra, rb := rank(a), rank(b); ra != rb {
		return ra < rb
	}
	under := func(s string) int { return len(s) - len(strings.TrimLeft(s, "_")) }
	if ua, ub := under(a.Name), under(b.Name); ua != ub {
		return ua < ub
	}
	if len(a.Name) != len(b.Name) {
		return len(a.Name) < len(b.Name)
	}
	return a.Name < b.Name
}

// Lookup finds a symbol that this file defines.
func (e *ELF) Lookup(name string) (Symbol, bool) {
	_, _ = e.Symbols() // what could be read serves
	i, ok := e.byName[name]
	if !ok {
		return Symbol{}, false
	}
	return e.syms[i], true
}

// Imports lists the dynamic symbols that other files must define.
func (e *ELF) Imports() ([]string, error) {
	if err := e.loadDynsyms(); err != nil {
		return nil, err
	}
	var out []string
	for _, s := range e.dynsyms {
		if !s.Defined && s.Name != "" {
			out = append(out, s.Name)
		}
	}
	return out, nil
}

// NameAt is the best name known for an address: "function+0x12", or the file's name and
// the address where no function is known there by name.
func (e *ELF) NameAt(addr uint64) string {
	if f, ok := e.FunctionAt(addr); ok && f.Name != "" {
		if addr == f.Start {
			return f.Name
		}
		return fmt.Sprintf("%s+%#x", f.Name, addr-f.Start)
	}
	if n := e.stubName(addr); n != "" {
		return n + "@plt"
	}
	return fmt.Sprintf("%s+%#x", filepath.Base(e.Name), addr)
}
