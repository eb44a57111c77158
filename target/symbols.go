// SPDX-License-Identifier: Apache-2.0

package target

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Symbol is a named address of an ELF file.
type Symbol struct {
	Name     string // without a version (@GLIBC_2.34)
	Addr     uint64
	Size     uint64 // bytes; 0 if unknown
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
	symOff, ok := e.FileOffset(e.dyn.symtab)
	strOff, ok2 := e.FileOffset(e.dyn.strtab)
	if !ok || !ok2 {
		return nil, e.errf("its dynamic symbols are not in the file")
	}
	return e.readSymbols(symOff, n, strOff, e.dyn.strsz, true)
}

// Cost of a symbol in steps, and the number of bytes of its name that cost one more.
const (
	symbolSteps = 8
	nameBytes   = 16
)

// readSymbols reads n symbols at one offset, with their names at another.
func (e *ELF) readSymbols(off, n, strOff, strSize uint64, dynamic bool) ([]Symbol, error) {
	if err := e.within(off, n*24); err != nil {
		return nil, err
	}
	if e.numSyms += n; e.numSyms > maxSymbols {
		return nil, e.tooMany("symbols", maxSymbols)
	}
	all, err := e.stringTable(strOff, strSize) // names share this memory
	if err != nil {
		return nil, err
	}
	out := make([]Symbol, 0, n)
	err = e.stream(off, n*24, 24, func(raw []byte) bool {
		for ; len(raw) >= 24; raw = raw[24:] {
			s := decodeSymbol(raw, all, dynamic)
			if !e.spend(symbolSteps + uint64(len(s.Name))/nameBytes) {
				return false
			}
			out = append(out, s)
		}
		return true
	})
	return out, err
}

func decodeSymbol(raw []byte, names string, dynamic bool) Symbol {
	le := binary.LittleEndian
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
	s.Exported = dynamic && s.Defined && bind != elf.STB_LOCAL &&
		(vis == elf.STV_DEFAULT || vis == elf.STV_PROTECTED)
	if off := uint64(le.Uint32(raw)); off < uint64(len(names)) && typ != elf.STT_SECTION &&
		typ != elf.STT_FILE {
		name := names[off:]
		if k := strings.IndexByte(name, 0); k >= 0 {
			name, _, _ = strings.Cut(name[:k], "@")
			s.Name = name
		}
	}
	if typ == elf.STT_TLS {
		s.Addr = 0 // an offset, not an address
		s.Defined = false
	}
	return s
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

// Exports reports whether the file defines a dynamic symbol of this name. It reads only the dynamic symbols,
// so it is the cheap test to try first.
func (e *ELF) Exports(name string) bool {
	if e.loadDynsyms() != nil {
		return false
	}
	e.spend(uint64(len(e.dynsyms)) / 16)
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

// Symbols lists the symbols defined in this file, from .symtab if the file still has one and from .dynsym,
// sorted by address. The error says what could not be read; the rest is returned all the same.
func (e *ELF) Symbols() ([]Symbol, error) {
	if e.symsDone {
		return e.syms, e.symsErr
	}
	e.symsDone = true
	e.symsErr = e.loadDynsyms()
	var list []Symbol
	if t, str, ok := e.symtab(); ok {
		var err error
		if list, err = e.readSymbols(t.off, t.size/24, str.off, str.size, false); err != nil &&
			e.symsErr == nil {
			e.symsErr = err
		}
	}
	e.syms = make([]Symbol, 0, len(e.dynsyms)+len(list))
	for _, l := range [][]Symbol{e.dynsyms, list} {
		for _, s := range l {
			if s.Name != "" && s.Defined && !isMappingSymbol(s.Name) {
				e.syms = append(e.syms, s)
			}
		}
	}
	slices.SortStableFunc(e.syms, func(a, b Symbol) int { return cmp.Compare(a.Addr, b.Addr) })
	e.dropRepeated()
	e.byName = make(map[string]int, len(e.syms))
	for i, s := range e.syms {
		if old, ok := e.byName[s.Name]; !ok || better(s, e.syms[old]) {
			e.byName[s.Name] = i
		}
	}
	return e.syms, e.symsErr
}

// dropRepeated keeps the first of several symbols with one name and address: an exported one is in both
// tables.
func (e *ELF) dropRepeated() {
	out := e.syms[:0]
	for i := 0; i < len(e.syms); {
		j := i + 1
		for j < len(e.syms) && e.syms[j].Addr == e.syms[i].Addr {
			j++
		}
		var seen map[string]bool
		if j > i+1 {
			seen = make(map[string]bool, j-i)
		}
		for ; i < j; i++ {
			if s := e.syms[i]; !seen[s.Name] {
				if seen != nil {
					seen[s.Name] = true
				}
				out = append(out, s)
			}
		}
	}
	e.syms = out
}

// symtab returns the symbol table that is not needed at run time, and the table of its names.
func (e *ELF) symtab() (tab, names section, ok bool) {
	for _, s := range e.sects {
		if s.typ == elf.SHT_SYMTAB {
			if uint64(s.link) >= uint64(len(e.sects)) {
				return s, section{}, false
			}
			return s, e.sects[s.link], true
		}
	}
	return section{}, section{}, false
}

// isMappingSymbol recognizes arm64's markers of code and data ($x, $d.1).
func isMappingSymbol(name string) bool {
	return len(name) >= 2 && name[0] == '$' && (name[1] == 'x' || name[1] == 'd') &&
		(len(name) == 2 || name[2] == '.')
}

// better chooses between two symbols with one name or one address: functions first, then by binding, then the
// name with fewer leading underscores, then the shorter.
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
	_, _ = e.Symbols() // a partial result will do
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

// NameAt is the best known name for an address: "function+0x12", or the file's name and the address if no
// named function is known there.
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
