// SPDX-License-Identifier: Apache-2.0

package target

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sort"
)

// Calls are searched for by where they go: a large library has hundreds of thousands, of which two or three
// are wanted. On arm64 every word is looked at. On x86-64, where instructions can begin anywhere, whatever
// reads as a wanted call is a candidate, and only the functions that hold one are decoded.

// callSearch searches for the callers of some addresses.
type callSearch struct {
	e       *ELF
	targets []uint64 // called or jumped to directly
	slots   []uint64 // called through such pointers (GOT), x86-64
	out     []uint64

	fs []Function
	// of the stretch of code that was decoded last
	start, limit, at uint64
}

// mayCall marks the opcodes of x86-64's calls and jumps.
var mayCall = [256]bool{0xe8: true, 0xe9: true, 0xeb: true, 0xff: true}

// callers lists the addresses of direct calls of the targets and of the jumps to them that leave their own
// function (a jump inside it is a loop), and of calls and jumps through the slots, in order. Without sections
// a jump through a slot can be one of the linkage table's own stubs and is left out.
func (e *ELF) callers(targets, slots []uint64) ([]uint64, error) {
	if err := e.loadCode(); err != nil || len(targets)+len(slots) == 0 {
		return nil, err
	}
	s := &callSearch{e: e, targets: targets, slots: slots}
	s.fs, _ = e.Functions() // a partial list will do: it only keeps decoding in step
	for i := range e.code {
		if c := &e.code[i]; !c.plt {
			if err := e.eachPiece(c, func(code []byte, n int, at uint64) error {
				return s.piece(c, code, n, at)
			}); err != nil {
				return nil, err
			}
		}
	}
	return s.out, nil
}

// eachPiece passes a stretch of code on, piece by piece: n bytes at an address, with some that follow if
// there are any.
func (e *ELF) eachPiece(c *codeRange, piece func(code []byte, n int, at uint64) error) error {
	for at := c.start; at < c.end(); {
		code, err := e.codeBytes(c, at, c.end())
		if err != nil {
			return err
		}
		n := len(code)
		if at+uint64(n) < c.end() {
			n = (n - maxInsnAMD64) &^ 3
		}
		if n <= 0 {
			return e.cut(c.off+(at-c.start), c.end()-at)
		}
		if !e.spend(uint64(n) / scanBytes) {
			return e.over
		}
		if err := piece(code, n, at); err != nil {
			return err
		}
		at += uint64(n)
	}
	return nil
}

// scanBytes is how many bytes that are only looked at cost a step.
const scanBytes = 8

func (s *callSearch) piece(c *codeRange, code []byte, n int, at uint64) error {
	if s.e.Arch == ARM64 {
		for i := 0; i+4 <= n; i += 4 {
			w := binary.LittleEndian.Uint32(code[i:])
			if w&0x7c000000 != 0x14000000 {
				continue
			}
			from := at + uint64(i)
			if to := from + signed(w, 0, 26)*4; slices.Contains(s.targets, to) {
				s.enter(c, from)
				if err := s.add(from, to, w>>31 != 0); err != nil {
					return err
				}
			}
		}
		return nil
	}
	for i := range n {
		if !mayCall[code[i]] {
			continue
		}
		if err := s.candidate(c, code[i:], at+uint64(i)); err != nil {
			return err
		}
	}
	return nil
}

// candidate takes the byte at an address if it is the opcode of an instruction that calls or jumps to what is
// wanted.
func (s *callSearch) candidate(c *codeRange, code []byte, opcode uint64) error {
	var to uint64
	switch op := code[0]; {
	case op == 0xeb && len(code) >= 2:
		to = opcode + 2 + uint64(int64(int8(code[1])))
	case op == 0xff && len(code) >= 6 && (code[1] == 0x15 || code[1] == 0x25 && c.name != ""):
		to = opcode + 6 + uint64(int64(int32(binary.LittleEndian.Uint32(code[2:]))))
		if !slices.Contains(s.slots, to) {
			return nil
		}
		x, from, err := s.decode(c, opcode)
		if err == nil && x.op == 0xff && x.ripRel && from+uint64(x.dispAt) == opcode+2 {
			return s.add(from, 0, true)
		}
		return err
	case op != 0xeb && op != 0xff && len(code) >= 5:
		to = opcode + 5 + uint64(int64(int32(binary.LittleEndian.Uint32(code[1:]))))
	default:
		return nil
	}
	if !slices.Contains(s.targets, to) {
		return nil
	}
	x, from, err := s.decode(c, opcode)
	if err == nil && x.op == code[0] && from+uint64(x.immAt) == opcode+1 {
		return s.add(from, to, x.op == 0xe8)
	}
	return err
}

// enter notes the stretch of code that an address lies in: from function to function. Bytes between them
// (padding, tables, code without unwind information) cannot put a later function out of step.
func (s *callSearch) enter(c *codeRange, at uint64) {
	if at >= s.start && at < s.limit {
		return
	}
	s.start, s.limit = c.start, c.end()
	i := sort.Search(len(s.fs), func(i int) bool { return s.fs[i].Start > at })
	if i > 0 {
		s.start = max(s.start, s.fs[i-1].Start)
	}
	if i < len(s.fs) {
		s.limit = min(s.limit, s.fs[i].Start)
	}
	s.at = s.start
}

// decode decodes from the beginning of its function to the instruction that holds a byte. The zero value: it
// is no instruction, or of no kind that calls.
func (s *callSearch) decode(c *codeRange, holds uint64) (x x86, at uint64, err error) {
	s.enter(c, holds)
	for s.at <= holds {
		code, err := s.e.codeBytes(c, s.at, s.limit)
		if err != nil {
			return x86{}, 0, err
		}
		end := len(code)
		if s.at+uint64(end) < s.limit {
			end -= maxInsnAMD64 // the last instruction may continue in the next piece
		}
		if end <= 0 {
			return x86{}, 0, s.e.cut(c.off+(s.at-c.start), s.limit-s.at)
		}
		i, steps := 0, uint64(0)
		for ; i < end; i += x.n {
			steps++
			if x, err = shapeAMD64(code[i:]); err != nil {
				x = x86{n: 1}
			}
			if at = s.at + uint64(i); at+uint64(x.n) > holds {
				break
			}
		}
		s.at += uint64(i)
		if !s.e.spend(steps) {
			return x86{}, 0, s.e.over
		}
		if i < end {
			if x.vector || x.mapNo != 0 {
				x = x86{}
			}
			return x, at, nil
		}
	}
	return x86{}, 0, nil
}

func (s *callSearch) add(from, to uint64, call bool) error {
	if !call && to >= s.start && to < s.limit {
		return nil
	}
	if s.out = append(s.out, from); len(s.out) > maxCalls {
		return s.e.tooMany("calls", maxCalls)
	}
	return nil
}

// CallsTo lists the addresses of the direct calls, and of the jumps from other functions, to exactly this
// address, in order.
func (e *ELF) CallsTo(target uint64) ([]uint64, error) { return e.callers([]uint64{target}, nil) }

// Calls lists the addresses of all direct calls and tail jumps to the function of this name,
// defined here or imported, through the procedure linkage table or not, in order.
func (e *ELF) Calls(name string) ([]uint64, error) {
	stubs, err := e.stubs(name)
	if err != nil {
		return nil, err
	}
	syms, _ := e.Symbols()
	var targets []uint64
	for i := range syms {
		if syms[i].Name == name {
			targets = append(targets, syms[i].Addr)
		}
	}
	for _, a := range stubs {
		i := sort.Search(len(syms), func(i int) bool { return syms[i].Addr >= a })
		named := false // a function that does nothing but hand on is not the one that it hands on to
		for ; i < len(syms) && syms[i].Addr == a; i++ {
			named = named || syms[i].Func
		}
		if !named {
			targets = append(targets, a)
		}
	}
	return e.callers(targets, nil)
}

// SlotCalls lists the calls and jumps on x86-64 that go to the function of this name
// through its slot in the global offset table, as code compiled with -fno-plt does.
func (e *ELF) SlotCalls(name string) ([]uint64, error) {
	if e.Arch == ARM64 {
		return nil, nil
	}
	return e.callers(nil, e.slotsOf(name))
}

// slotsOf lists the addresses at which the loader writes the address of the symbol of this name.
func (e *ELF) slotsOf(name string) (out []uint64) {
	if e.loadRelocs() != nil {
		return nil
	}
	e.spend(uint64(len(e.relocs)))
	for i := range e.relocs {
		r := &e.relocs[i]
		if e.relocKind(r.typ) != relocSymbol {
			continue
		}
		if s, err := e.dynsym(r.sym); err == nil && s.Name == name {
			out = append(out, r.addr)
		}
	}
	return out
}

// stubs lists the addresses at which a stub of the function of this name can be called: see stubSlot. It
// looks into linkage tables, and where none is told from other code, into all of it.
func (e *ELF) stubs(name string) (out []uint64, err error) {
	slots := e.slotsOf(name)
	if err := e.loadCode(); err != nil || len(slots) == 0 {
		return nil, err
	}
	try := func(c *codeRange, at uint64, before ...uint64) {
		for _, n := range before {
			if at-n >= c.start && slices.Contains(slots, e.stubSlot(at-n)) {
				out = append(out, at-n)
			}
		}
	}
	tables := slices.ContainsFunc(e.code, func(c codeRange) bool { return c.plt })
	for i := range e.code {
		c := &e.code[i]
		if tables && !c.plt {
			continue
		}
		if err := e.eachPiece(c, func(code []byte, n int, at uint64) error {
			if e.Arch == ARM64 {
				for i := 0; i+4 <= n; i += 4 {
					if binary.LittleEndian.Uint32(code[i:]) == 0xd61f0220 { // br x17
						try(c, at+uint64(i), 8, 12, 16)
					}
				}
				return nil
			}
			for i := 0; i < n; i++ {
				k := bytes.IndexByte(code[i:n], 0xff)
				if k < 0 {
					break
				}
				i += k
				if len(code) < i+6 || code[i+1] != 0x25 {
					continue
				}
				disp := uint64(int64(int32(binary.LittleEndian.Uint32(code[i+2:]))))
				if slices.Contains(slots, at+uint64(i)+6+disp) {
					try(c, at+uint64(i), 0, 1, 4, 5) // a prefix and endbr64 can come before it
				}
			}
			return nil
		}); err != nil {
			return nil, err
		}
	}
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
