// SPDX-License-Identifier: Apache-2.0

package target

import (
	"encoding/binary"
	"sort"
)

// callIndex holds every direct call and jump out of a function, sorted by target.
type callIndex struct {
	direct []edge // call or jump to an address
	slots  []edge // x86-64: call or jump through a pointer at a fixed address (GOT)
}

type edge struct{ to, from uint64 }

// callees finds all calls of the file, in one pass over its code.
func (e *ELF) callees() (*callIndex, error) {
	if e.calls != nil {
		return e.calls, nil
	}
	fs, err := e.Functions()
	if err := e.loadCode(); err != nil {
		return nil, err
	}
	_ = err // what could be read of the functions only helps to stay in step
	x := &callIndex{}
	k := 0
	for ci := range e.code {
		c := &e.code[ci]
		if c.plt {
			continue
		}
		end := c.start + uint64(len(c.bytes))
		for k < len(fs) && fs[k].Start < c.start {
			k++
		}
		// Decode from function to function: bytes between them (padding, tables, code
		// without unwind information) cannot put a later function out of step.
		at := c.start
		for at < end {
			limit := end
			for k < len(fs) && fs[k].Start <= at {
				k++
			}
			if k < len(fs) && fs[k].Start < end {
				limit = fs[k].Start
			}
			x.scan(e.Arch, c.bytes[at-c.start:limit-c.start], at, c.name != "")
			at = limit
		}
	}
	for _, l := range [][]edge{x.direct, x.slots} {
		sort.Slice(l, func(i, j int) bool {
			if l[i].to != l[j].to {
				return l[i].to < l[j].to
			}
			return l[i].from < l[j].from
		})
	}
	e.calls = x
	return x, nil
}

// scan collects the calls of a stretch of code, and the jumps that leave it (tail calls; a
// jump to its own start is a loop). Without sections (named false) a jump through a slot can be
// one of the linkage table's own stubs and is left out.
func (x *callIndex) scan(arch Arch, code []byte, addr uint64, named bool) {
	end := addr + uint64(len(code))
	add := func(target, from uint64, call bool) {
		if call || target < addr || target >= end {
			x.direct = append(x.direct, edge{target, from})
		}
	}
	if arch == ARM64 {
		for i := 0; i+4 <= len(code); i += 4 {
			if w := binary.LittleEndian.Uint32(code[i:]); w&0x7c000000 == 0x14000000 {
				at := addr + uint64(i)
				add(at+signed(w, 0, 26)*4, at, w>>31 != 0)
			}
		}
		return
	}
	for i := 0; i < len(code); {
		s, err := shapeAMD64(code[i:])
		if err != nil {
			i++
			continue
		}
		at := addr + uint64(i)
		if !s.vector && s.mapNo == 0 {
			switch s.op {
			case 0xe8, 0xe9:
				next := at + uint64(s.n)
				add(next+uint64(int64(int32(binary.LittleEndian.Uint32(code[i+s.immAt:])))), at, s.op == 0xe8)
			case 0xeb:
				add(at+uint64(s.n)+uint64(int64(int8(code[i+s.immAt]))), at, false)
			case 0xff:
				if r := s.modrm >> 3 & 7; (r == 2 || r == 4 && named) && s.ripRel {
					x.slots = append(x.slots, edge{at + uint64(s.n) + uint64(int64(s.disp)), at})
				}
			}
		}
		i += s.n
	}
}

func edgesTo(l []edge, to uint64) []uint64 {
	i := sort.Search(len(l), func(i int) bool { return l[i].to >= to })
	var out []uint64
	for ; i < len(l) && l[i].to == to; i++ {
		out = append(out, l[i].from)
	}
	return out
}

// CallsTo lists the addresses of the direct calls, and of the jumps from other functions, to
// exactly this address, in order.
func (e *ELF) CallsTo(target uint64) ([]uint64, error) {
	x, err := e.callees()
	if err != nil {
		return nil, err
	}
	return edgesTo(x.direct, target), nil
}

// Calls lists the addresses of all direct calls and tail jumps to the function of this name,
// defined here or imported, through the procedure linkage table or not, in order.
func (e *ELF) Calls(name string) ([]uint64, error) {
	x, err := e.callees()
	if err != nil {
		return nil, err
	}
	var out []uint64
	for i := 0; i < len(x.direct); {
		to := x.direct[i].to
		j := i
		for j < len(x.direct) && x.direct[j].to == to {
			j++
		}
		if e.callsName(to, name) {
			for ; i < j; i++ {
				out = append(out, x.direct[i].from)
			}
		}
		i = j
	}
	sort.Slice(out, func(i, j int) bool { return out[i] < out[j] })
	return out, nil
}

// callsName says whether a call to an address is a call of the function of that name:
// any of the names that the address has, or the stub's.
func (e *ELF) callsName(to uint64, name string) bool {
	syms, _ := e.Symbols()
	i := sort.Search(len(syms), func(i int) bool { return syms[i].Addr >= to })
	named := false
	for ; i < len(syms) && syms[i].Addr == to; i++ {
		if syms[i].Name == name {
			return true
		}
		named = named || syms[i].Func
	}
	return !named && e.stubName(to) == name
}

// SlotCalls lists the calls and jumps on x86-64 that go to the function of this name
// through its slot in the global offset table, as code compiled with -fno-plt does.
func (e *ELF) SlotCalls(name string) ([]uint64, error) {
	x, err := e.callees()
	if err != nil {
		return nil, err
	}
	var out []uint64
	for _, s := range x.slots {
		if n, ok := e.PtrSymbol(s.to); ok && n == name {
			out = append(out, s.from)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i] < out[j] })
	return out, nil
}

// CalleeName names the function that a call to target reaches: the function that starts
// there, or the one behind a stub of the procedure linkage table. Empty if neither is known.
func (e *ELF) CalleeName(target uint64) string {
	if f, ok := e.FunctionAt(target); ok && f.Start == target && f.Name != "" {
		return f.Name
	}
	return e.stubName(target)
}

// stubName resolves a stub: code that does nothing but jump through a slot that the
// loader fills with a symbol's address.
func (e *ELF) stubName(addr uint64) string {
	if n, ok := e.pltNames[addr]; ok {
		return n
	}
	name := ""
	if slot := e.stubSlot(addr); slot != 0 {
		name, _ = e.PtrSymbol(slot)
	}
	if e.pltNames == nil {
		e.pltNames = map[uint64]string{}
	}
	e.pltNames[addr] = name
	return name
}

// stubSlot is the address of the slot that the code at addr jumps through, 0 if it is no
// stub. x86-64: [endbr64] [bnd] jmp *slot(%rip). arm64: [bti c] adrp x16, page; ldr x17,
// [x16, #n]; [add x16, x16, #n]; br x17.
func (e *ELF) stubSlot(addr uint64) uint64 {
	c := e.codeAt(addr)
	if c == nil {
		return 0
	}
	code := c.bytes[addr-c.start:]
	if e.Arch == AMD64 {
		for range 2 {
			in, err := decodeAMD64(code, addr)
			if err != nil {
				return 0
			}
			if in.Kind == JumpIndirect && in.Data != 0 {
				return in.Data
			}
			if in.Kind != Other || in.Len != 4 || code[0] != 0xf3 || code[3] != 0xfa { // endbr64
				return 0
			}
			code, addr = code[in.Len:], in.End()
		}
		return 0
	}
	word := func(i int) uint32 {
		if len(code) < 4*i+4 {
			return 0
		}
		return binary.LittleEndian.Uint32(code[4*i:])
	}
	i := 0
	if word(0) == 0xd503245f { // bti c
		i++
	}
	page, ldr := word(i), word(i+1)
	if page&0x9f00001f != 0x90000010 || ldr&0xffc003ff != 0xf9400211 {
		return 0
	}
	at := addr + uint64(4*i)
	slot := at&^0xfff + (signed(page, 5, 19)<<2|uint64(page>>29&3))<<12
	slot += uint64(ldr>>10&0xfff) * 8
	i += 2
	if word(i)&0xffc003ff == 0x91000210 { // add x16, x16, #n
		i++
	}
	if word(i) != 0xd61f0220 { // br x17
		return 0
	}
	return slot
}
