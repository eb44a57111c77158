// SPDX-License-Identifier: Apache-2.0

package target

import "encoding/binary"

// The length of an x86-64 instruction follows from its prefixes, its opcode map, and for each opcode from
// whether a ModRM byte and which immediate follow (Intel SDM volume 2, chapter 2 and appendix A; AMD APM
// volume 3 for XOP; APX specification for REX2 and map 4). x86asm, which disassembles to text, knows neither
// VEX nor EVEX nor APX.

const maxInsnAMD64 = 15

// What follows an opcode.
const (
	opBad   = 0xff // no instruction in 64-bit mode
	opModRM = 0x80 // a ModRM byte

	immNone = 0
	imm8    = 1
	imm16   = 2
	immZ    = 3 // 4 bytes; 2 with an operand-size prefix and no REX.W
	immV    = 4 // as immZ; 8 with REX.W (mov to register)
	imm32   = 5 // 4 bytes whatever the prefixes
	immAddr = 6 // 8 bytes, 4 with an address-size prefix (moffs)
	imm24   = 7 // enter: 2 + 1
	immGrp3 = 8 // f6: imm8 if ModRM.reg is 0 or 1
	immGrpZ = 9 // f7: immZ if ModRM.reg is 0 or 1
	immSSE4 = 10
	imm64   = 11
)

var oneByte, twoByte [256]uint8

func init() {
	fill := func(t *[256]uint8, v uint8, ops ...int) {
		for _, o := range ops {
			t[o] = v
		}
	}
	span := func(t *[256]uint8, v uint8, from, to int) {
		for o := from; o <= to; o++ {
			t[o] = v
		}
	}
	t := &oneByte // all others: neither ModRM nor immediate
	for o := 0; o < 0x40; o += 8 {
		span(t, opModRM, o, o+3)
		fill(t, imm8, o+4)
		fill(t, immZ, o+5)
		fill(t, opBad, o+6, o+7)
	}
	fill(t, opBad, 0x60, 0x61, 0x62, 0x82, 0x9a, 0xc4, 0xc5, 0xce, 0xd4, 0xd5, 0xd6, 0xea)
	fill(t, opModRM, 0x63)
	fill(t, immZ, 0x68, 0xa9)
	fill(t, opModRM|immZ, 0x69, 0x81, 0xc7)
	fill(t, opModRM|imm8, 0x6b, 0x80, 0x83, 0xc0, 0xc1, 0xc6)
	fill(t, imm8, 0x6a, 0xa8, 0xcd, 0xeb)
	span(t, imm8, 0x70, 0x7f)
	span(t, opModRM, 0x84, 0x8f)
	span(t, immAddr, 0xa0, 0xa3)
	span(t, imm8, 0xb0, 0xb7)
	span(t, immV, 0xb8, 0xbf)
	fill(t, imm16, 0xc2, 0xca)
	fill(t, imm24, 0xc8)
	span(t, opModRM, 0xd0, 0xd3)
	span(t, opModRM, 0xd8, 0xdf)
	span(t, imm8, 0xe0, 0xe7)
	fill(t, imm32, 0xe8, 0xe9)
	fill(t, opModRM|immGrp3, 0xf6)
	fill(t, opModRM|immGrpZ, 0xf7)
	fill(t, opModRM, 0xfe, 0xff)

	t = &twoByte
	span(t, opModRM, 0x00, 0xff)
	fill(t, opBad, 0x04, 0x0a, 0x0c, 0x24, 0x25, 0x26, 0x27, 0x36, 0x39, 0x3b, 0x3c, 0x3d, 0x3e, 0x3f, 0x7a,
		0x7b)
	span(t, immNone, 0x05, 0x09)
	fill(t, immNone, 0x0b, 0x0e, 0x77, 0xa0, 0xa1, 0xa2, 0xa8, 0xa9, 0xaa)
	span(t, immNone, 0x30, 0x35)
	fill(t, immNone, 0x37)
	fill(t, opModRM|imm8, 0x0f, 0x70, 0x71, 0x72, 0x73, 0xa4, 0xac, 0xba, 0xc2, 0xc4, 0xc5, 0xc6)
	fill(t, opModRM|immSSE4, 0x78)
	span(t, imm32, 0x80, 0x8f)
	span(t, immNone, 0xc8, 0xcf)
}

// x86 is the raw shape of an instruction.
type x86 struct {
	n      int   // length
	op     uint8 // opcode byte
	mapNo  uint8 // 0 one-byte, 1 0f, 2 0f38, 3 0f3a, 4.. as EVEX and XOP number them
	modrm  uint8
	hasMod bool
	vector bool // VEX, EVEX or XOP
	rex    uint8
	opSize bool // 66
	adSize bool // 67
	rep    uint8
	badPfx bool // LOCK or a segment override that uprobes refuse (CS, DS, ES, SS)
	dispAt int  // where the displacement or immediate starts
	ripRel bool
	disp   int32
	immAt  int
	immLen int
	jmpAbs bool
	rex2   bool
}

// cutter reads bytes and remembers whether it ran out of them.
type cutter struct {
	b   []byte
	pos int
	bad bool
}

func (c *cutter) next() uint8 {
	if c.pos >= len(c.b) {
		c.bad = true
		return 0
	}
	v := c.b[c.pos]
	c.pos++
	return v
}

// shapeAMD64 finds an instruction's length and parts.
func shapeAMD64(code []byte) (x x86, err error) {
	limit := min(len(code), maxInsnAMD64)
	c := cutter{b: code[:limit]}
	short := ErrCut // running out means truncated, unless 15 bytes were available
	if limit == maxInsnAMD64 {
		short = ErrBadInsn
	}
	var b uint8
prefixes:
	for {
		b = c.next()
		if c.bad {
			return x, short
		}
		switch b {
		case 0x66:
			x.opSize = true
		case 0x67:
			x.adSize = true
		case 0xf2, 0xf3:
			x.rep = b
		case 0xf0, 0x2e, 0x36, 0x3e, 0x26:
			x.badPfx = true
		case 0x64, 0x65:
		default:
			if b&0xf0 != 0x40 {
				break prefixes
			}
			// A REX prefix counts only directly before the opcode.
			nb := c.peek()
			if isLegacyPrefix(nb) || nb&0xf0 == 0x40 {
				continue
			}
			x.rex = b
			b = c.next()
			if c.bad {
				return x, short
			}
			break prefixes
		}
	}
	if err := x.opcode(&c, b); err != nil {
		if c.bad {
			return x, short
		}
		return x, err
	}
	if c.bad {
		return x, short
	}
	x.n = c.pos
	return x, nil
}

func (c *cutter) peek() uint8 {
	if c.pos < len(c.b) {
		return c.b[c.pos]
	}
	return 0
}

func isLegacyPrefix(b uint8) bool {
	switch b {
	case 0x66, 0x67, 0xf2, 0xf3, 0xf0, 0x2e, 0x36, 0x3e, 0x26, 0x64, 0x65:
		return true
	}
	return false
}

// opcode reads from the opcode (or vector prefix) on.
func (x *x86) opcode(c *cutter, b uint8) error {
	var what uint8
	w := x.rex&8 != 0
	switch {
	case b == 0x62 && x.rex == 0: // EVEX
		p0, p1 := c.next(), c.next()
		c.next()
		x.vector, x.mapNo = true, p0&7
		w = p1&0x80 != 0
		x.op = c.next()
		if what = vectorOp(x.mapNo, x.op, true); x.mapNo == 4 {
			x.opSize = p1&3 == 1
		}
	case b == 0xc5 && x.rex == 0: // VEX, 2 bytes
		c.next()
		x.vector, x.mapNo = true, 1
		x.op = c.next()
		what = vectorOp(1, x.op, false)
	case b == 0xc4 && x.rex == 0: // VEX, 3 bytes
		p0, p1 := c.next(), c.next()
		x.vector, x.mapNo = true, p0&0x1f
		w = p1&0x80 != 0
		x.op = c.next()
		what = vectorOp(x.mapNo, x.op, false)
	case b == 0x8f && x.rex == 0 && c.peek()&0x1f >= 8: // XOP
		p0 := c.next()
		c.next()
		x.vector, x.mapNo = true, p0&0x1f
		x.op = c.next()
		what = vectorOp(x.mapNo, x.op, false)
	case b == 0xd5 && x.rex == 0: // REX2
		p := c.next()
		w, x.rex2 = p&8 != 0, true
		x.rex = 0x40 | p&0xf
		x.op = c.next()
		what = oneByte[x.op]
		if p&0x80 != 0 {
			x.mapNo, what = 1, twoByte[x.op]
		} else if x.op == 0xa1 {
			what, x.jmpAbs = imm64, true
		}
	case b == 0x0f:
		x.op = c.next()
		switch x.op {
		case 0x38:
			x.mapNo, x.op, what = 2, c.next(), opModRM
		case 0x3a:
			x.mapNo, x.op, what = 3, c.next(), opModRM|imm8
		default:
			x.mapNo, what = 1, twoByte[x.op]
		}
	default:
		x.op = b
		what = oneByte[b]
	}
	if c.bad || what == opBad {
		return ErrBadInsn
	}
	if what&opModRM != 0 {
		x.readModRM(c)
	}
	x.immAt = c.pos
	x.immLen = x.immediate(what&^opModRM, w)
	for range x.immLen {
		c.next()
	}
	return nil
}

// vectorOp returns what follows an opcode under a VEX, EVEX or XOP prefix.
func vectorOp(m, op uint8, evex bool) uint8 {
	switch m {
	case 1:
		switch op {
		case 0x70, 0x71, 0x72, 0x73, 0xc2, 0xc4, 0xc5, 0xc6:
			return opModRM | imm8
		case 0x77:
			if !evex {
				return immNone // vzeroupper, vzeroall
			}
		}
		return opModRM
	case 2, 5, 6:
		return opModRM
	case 3, 8:
		return opModRM | imm8
	case 4: // APX: legacy opcodes promoted
		if !evex {
			return opBad
		}
		switch op {
		case 0x24, 0x2c: // shld, shrd by immediate
			return opModRM | imm8
		}
		if what := oneByte[op]; op >= 0x69 && what != opBad && what&opModRM != 0 {
			return what
		}
		return opModRM
	case 7:
		return opModRM | imm32
	case 9:
		return opModRM
	case 10:
		return opModRM | imm32
	}
	return opBad
}

// readModRM reads the ModRM byte and the SIB byte and displacement that it requires.
func (x *x86) readModRM(c *cutter) {
	x.hasMod = true
	x.modrm = c.next()
	mod, rm := x.modrm>>6, x.modrm&7
	if x.mapNo == 1 && !x.vector && x.op >= 0x20 && x.op <= 0x23 {
		return // moves to and from control and debug registers: always registers
	}
	disp := 0
	switch mod {
	case 0:
		if rm == 5 {
			disp, x.ripRel = 4, true
		}
	case 1:
		disp = 1
	case 2:
		disp = 4
	case 3:
		return
	}
	if rm == 4 {
		sib := c.next()
		if mod == 0 && sib&7 == 5 {
			disp = 4
		}
	}
	x.dispAt = c.pos
	for range disp {
		c.next()
	}
	if x.ripRel && !c.bad {
		x.disp = int32(binary.LittleEndian.Uint32(c.b[x.dispAt:]))
	}
}

// immediate returns the size of an immediate in bytes.
func (x *x86) immediate(what uint8, w bool) int {
	z := 4
	if x.opSize && !w {
		z = 2
	}
	switch what {
	case imm8:
		return 1
	case imm16:
		return 2
	case immZ:
		return z
	case immV:
		if w {
			return 8
		}
		return z
	case imm32:
		return 4
	case imm64:
		return 8
	case immAddr:
		if x.adSize {
			return 4
		}
		return 8
	case imm24:
		return 3
	case immGrp3:
		if x.modrm>>3&7 < 2 {
			return 1
		}
	case immGrpZ:
		if x.modrm>>3&7 < 2 {
			return z
		}
	case immSSE4: // extrq, insertq by immediates
		if x.opSize || x.rep == 0xf2 {
			return 2
		}
	}
	return 0
}

func decodeAMD64(code []byte, addr uint64) (Insn, error) {
	x, err := shapeAMD64(code)
	if err != nil {
		return Insn{}, err
	}
	in := Insn{Addr: addr, Len: x.n, Arch: AMD64, Bytes: code[:x.n:x.n]}
	in.Kind = x.kind()
	switch in.Kind {
	case Call, Jump, CondJump:
		switch x.immLen {
		case 1:
			in.Target = in.End() + uint64(int64(int8(code[x.immAt])))
		case 4:
			in.Target = in.End() + uint64(int64(int32(binary.LittleEndian.Uint32(code[x.immAt:]))))
		case 8:
			in.Target = binary.LittleEndian.Uint64(code[x.immAt:])
		}
	}
	if x.ripRel {
		in.Data = in.End() + uint64(int64(x.disp))
	}
	in.Class = x.class(in)
	return in, nil
}

func (x *x86) kind() Kind {
	if x.vector {
		return Other
	}
	switch x.mapNo {
	case 0:
		switch op := x.op; {
		case op == 0xe8:
			return Call
		case op == 0xe9 || op == 0xeb || x.jmpAbs:
			return Jump
		case op >= 0x70 && op <= 0x7f || op >= 0xe0 && op <= 0xe3:
			return CondJump
		case op == 0xc2 || op == 0xc3 || op == 0xca || op == 0xcb || op == 0xcf:
			return Return
		case op == 0xcc || op == 0xf4 || op == 0xf1:
			return Trap
		case op == 0xff:
			switch x.modrm >> 3 & 7 {
			case 2, 3:
				return CallIndirect
			case 4, 5:
				return JumpIndirect
			}
		}
	case 1:
		switch op := x.op; {
		case op >= 0x80 && op <= 0x8f:
			return CondJump
		case op == 0x0b || op == 0xb9 || op == 0xff:
			return Trap
		}
	}
	return Other
}
