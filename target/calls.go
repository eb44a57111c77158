// SPDX-License-Identifier: Apache-2.0

package target

import (
	"encoding/binary"
	"slices"
	"sort"
)

// callIndex holds every direct call and every jump out of a function. Addresses are relative to base, and a
// word holds two: a large engine has hundreds of thousands.
type callIndex struct {
	base   uint64
	direct []uint64 // call or jump to an address: to<<32 | from, sorted
	// x86-64: call or jump through a pointer (GOT): from<<32 | the pointer's distance from there
	slots []uint64
}

// callees finds all calls of the file, in one pass over its code.
func (e *ELF) callees() (*callIndex, error) {
	if e.calls != nil {
		return e.calls, nil
	}
	fs, _ := e.Functions() // a partial list will do: it only keeps decoding in step
	if err := e.loadCode(); err != nil {
		return nil, err
	}
	x := &callIndex{}
	if n := len(e.code); n > 0 {
		x.base = e.code[0].start
		if e.code[n-1].end()-x.base >= 1<<32 {
			return nil, e.errf("its code is spread over more than 4 GiB")
		}
	}
	k := 0
	for ci := range e.code {
		c := &e.code[ci]
		if c.plt {
			continue
		}
		for k < len(fs) && fs[k].Start < c.start {
			k++
		}
		// Decode from function to function: bytes between them (padding, tables, code
		// without unwind information) cannot put a later function out of step.
		for at := c.start; at < c.end(); {
			limit := c.end()
			for k < len(fs) && fs[k].Start <= at {
				k++
			}
			if k < len(fs) && fs[k].Start < limit {
				limit = fs[k].Start
			}
			if err := x.scan(e, c, at, limit); err != nil {
				return nil, err
			}
			at = limit
		}
	}
	slices.Sort(x.direct)
	e.calls = x
	return x, nil
}

// scan collects the calls of a stretch of code, and the jumps that leave it (tail calls; a
// jump to its own start is a loop). Without sections a jump through a slot can be
// one of the linkage table's own stubs and is left out.
func (x *callIndex) scan(e *ELF, c *codeRange, start, end uint64) error {
	add := func(target, from uint64, call bool) {
		if to := target - x.base; (call || target < start || target >= end) && to < 1<<32 {
			x.direct = append(x.direct, to<<32|(from-x.base))
		}
	}
	for at := start; at < end; {
		code, err := e.codeBytes(c, at, end)
		if err != nil {
			return err
		}
		n := len(code)
		if at+uint64(n) < end {
			n -= maxInsnAMD64 // the last instruction may continue in the next piece
		}
		if n <= 0 {
			return e.cut(c.off+(at-c.start), end-at)
		}
		before := len(x.direct) + len(x.slots)
		steps := 0
		if e.Arch == ARM64 {
			n &^= 3
			for i := 0; i+4 <= n; i += 4 {
				if w := binary.LittleEndian.Uint32(code[i:]); w&0x7c000000 == 0x14000000 {
					at := at + uint64(i)
					add(at+signed(w, 0, 26)*4, at, w>>31 != 0)
				}
			}
			steps = n / 4
			if n == 0 {
				return nil // less than an instruction is left
			}
			at += uint64(n)
		} else {
			i := 0
			for ; i < n; steps++ {
				i += x.instruction(code[i:], at+uint64(i), c.name != "", add)
			}
			at += uint64(i)
		}
		if !e.spend(uint64(steps) + uint64(len(x.direct)+len(x.slots)-before)) {
			return e.over
		}
		if len(x.direct)+len(x.slots) > maxCalls {
			return e.tooMany("calls", maxCalls)
		}
	}
	return nil
}

// instruction decodes one x86-64 instruction and returns its length, or 1 if the bytes are invalid.
func (x *callIndex) instruction(code []byte, at uint64, named bool,
	add func(target, from uint64, call bool)) int {
	s, err := shapeAMD64(code)
	if err != nil {
		return 1
	}
	if s.vector || s.mapNo != 0 {
		return s.n
	}
	switch next := at + uint64(s.n); s.op {
	case 0xe8, 0xe9:
		add(next+uint64(int64(int32(binary.LittleEndian.Uint32(code[s.immAt:])))), at, s.op == 0xe8)
	case 0xeb:
		add(next+uint64(int64(int8(code[s.immAt]))), at, false)
	case 0xff:
		if r := s.modrm >> 3 & 7; (r == 2 || r == 4 && named) && s.ripRel {
			x.slots = append(x.slots, (at-x.base)<<32|uint64(uint32(int32(s.n)+s.disp)))
		}
	}
	return s.n
}

// CallsTo lists the addresses of the direct calls, and of the jumps from other functions, to exactly this
// address, in order.
func (e *ELF) CallsTo(target uint64) ([]uint64, error) {
	x, err := e.callees()
	if err != nil {
		return nil, err
	}
	to := target - x.base
	if to >= 1<<32 {
		return nil, nil
	}
	var out []uint64
	for i, _ := slices.BinarySearch(x.direct, to<<32); i < len(x.direct) && x.direct[i]>>32 == to; i++ {
		out = append(out, x.base+x.direct[i]&0xffffffff)
	}
	return out, nil
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
		to := x.direct[i] >> 32
		is := e.callsName(x.base+to, name)
		for ; i < len(x.direct) && x.direct[i]>>32 == to; i++ {
			if is {
				out = append(out, x.base+x.direct[i]&0xffffffff)
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

// callsName reports whether a call to an address calls the function with that name: any of the address's
// names, or the stub's.
func (e *ELF) callsName(to uint64, name string) bool {
	syms, _ := e.Symbols()
	e.spend(2)
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
		from := x.base + s>>32
		if n, ok := e.PtrSymbol(from + uint64(int64(int32(s)))); ok && n == name {
			out = append(out, from)
		}
	}
	slices.Sort(out)
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

// stubName resolves a stub: code that only jumps through a slot that the loader fills with a symbol's
// address.
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

// stubSlot is the address of the slot that the code at addr jumps through, 0 if it is not a stub. x86-64:
// [endbr64] [bnd] jmp *slot(%rip). arm64: [bti c] adrp x16, page; ldr x17, [x16, #n]; [add x16, x16, #n]; br
// x17.
func (e *ELF) stubSlot(addr uint64) uint64 {
	c := e.codeAt(addr)
	if c == nil {
		return 0
	}
	e.spend(2)
	code, err := e.codeBytes(c, addr, c.end())
	if err != nil {
		return 0
	}
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
