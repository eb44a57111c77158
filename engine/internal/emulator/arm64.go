// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// The integer part of A64 as accessors use it. Encodings are those of the Arm Architecture Reference Manual,
// chapter C4. Register 31 is the stack pointer in some places and zero in the others.

func (m *Machine) armReg(n uint32) uint64 {
	if n == 31 {
		return 0
	}
	return m.Reg[n]
}

// armSet writes register n, of 4 or 8 bytes; a write to 31 is discarded.
func (m *Machine) armSet(n uint32, wide bool, v uint64) {
	if n == 31 {
		return
	}
	m.armSetSP(n, wide, v)
}

func (m *Machine) armSetSP(n uint32, wide bool, v uint64) {
	if !wide {
		v = uint64(uint32(v))
	}
	m.Reg[n] = v
}

// Field is n bits of an instruction, from bit at on.
func Field(w uint32, at, n uint) uint32 { return w >> at & (1<<n - 1) }

// SignedField is Field with sign extension.
func SignedField(w uint32, at, n uint) uint64 {
	return uint64(int64(int32(w<<(32-at-n))) >> (32 - n))
}

func (m *Machine) armCond(cond uint32) bool {
	var r bool
	switch cond >> 1 {
	case 0:
		r = m.z
	case 1:
		r = m.c
	case 2:
		r = m.n
	case 3:
		r = m.v
	case 4:
		r = m.c && !m.z
	case 5:
		r = m.n == m.v
	case 6:
		r = m.n == m.v && !m.z
	case 7:
		return true
	}
	return r != (cond&1 != 0)
}

// armAddFlags sets the flags of a + b + carry and returns the sum.
func (m *Machine) armAddFlags(a, b uint64, carry uint64, wide bool) uint64 {
	size := 4
	if wide {
		size = 8
	}
	a, b = a&sizeMask(size), b&sizeMask(size)
	var r, c uint64
	if wide {
		r, c = bits.Add64(a, b, carry)
	} else {
		full := a + b + carry
		r, c = full&sizeMask(4), full>>32
	}
	top := uint64(1) << (8*size - 1)
	m.n, m.z, m.c, m.v = r&top != 0, r == 0, c != 0, (a^r)&(b^r)&top != 0
	return r
}

func (m *Machine) stepARM(code []byte) error {
	if len(code) < 4 {
		return fmt.Errorf("code ends")
	}
	w := binary.LittleEndian.Uint32(code)
	next := m.PC + 4
	rd, rn := Field(w, 0, 5), Field(w, 5, 5)
	wide := w>>31 != 0
	switch {
	case w&0xfffff01f == 0xd503201f: // hints: nop, bti, paciasp ...
	case w&0x7c000000 == 0x14000000: // b, bl
		target := m.PC + SignedField(w, 0, 26)*4
		if w>>31 == 0 {
			return m.jump(target)
		}
		return m.call(target, next)
	case w&0xff000010 == 0x54000000: // b.cond
		if m.armCond(w & 15) {
			next = m.PC + SignedField(w, 5, 19)*4
		}
	case w&0x7e000000 == 0x34000000: // cbz, cbnz
		v := m.armReg(rd)
		if !wide {
			v = uint64(uint32(v))
		}
		if (v == 0) == (w>>24&1 == 0) {
			next = m.PC + SignedField(w, 5, 19)*4
		}
	case w&0x7e000000 == 0x36000000: // tbz, tbnz
		bit := w>>31<<5 | Field(w, 19, 5)
		if (m.armReg(rd)>>bit&1 == 0) == (w>>24&1 == 0) {
			next = m.PC + SignedField(w, 5, 14)*4
		}
	case w == 0xd65f03c0: // ret
		return m.ret()
	case w&0xfffffc1f == 0xd61f0000: // br
		return m.indirectValue(m.armReg(rn))
	case w&0xfffffc1f == 0xd63f0000: // blr
		return m.indirectValue(m.armReg(rn))
	case w&0x9f000000 == 0x10000000: // adr
		m.armSet(rd, true, m.PC+(SignedField(w, 5, 19)<<2|uint64(Field(w, 29, 2))))
	case w&0x9f000000 == 0x90000000: // adrp
		m.armSet(rd, true, m.PC&^0xfff+(SignedField(w, 5, 19)<<2|uint64(Field(w, 29, 2)))<<12)
	case w&0x1f800000 == 0x11000000: // add, sub immediate
		imm := uint64(Field(w, 10, 12)) << (12 * Field(w, 22, 1))
		m.armAddSub(w, rd, m.Reg[rn], imm, wide, true)
	case w&0x1f800000 == 0x12000000: // logical immediate
		imm, ok := armBitmask(Field(w, 22, 1), Field(w, 16, 6), Field(w, 10, 6), wide)
		if !ok {
			return fmt.Errorf("unknown instruction %08x", w)
		}
		m.armLogic(w>>29&3, rd, m.armReg(rn), imm, wide, true)
	case w&0x1f800000 == 0x12800000: // mov immediate
		m.armMovWide(w, rd, wide)
	case w&0x1f800000 == 0x13000000: // bitfield
		return m.armBitfield(w, rd, rn, wide, next)
	case w&0x1f200000 == 0x0b000000, w&0x1f000000 == 0x0a000000: // shifted register
		b := armShift(m.armReg(Field(w, 16, 5)), Field(w, 22, 2), Field(w, 10, 6), wide)
		if w>>24&1 != 0 {
			m.armAddSub(w, rd, m.armReg(rn), b, wide, false)
		} else {
			if w>>21&1 != 0 {
				b = ^b
			}
			m.armLogic(w>>29&3, rd, m.armReg(rn), b, wide, false)
		}
	case w&0x1fe00000 == 0x0b200000: // extended register
		b := armExtend(m.armReg(Field(w, 16, 5)), Field(w, 13, 3)) << Field(w, 10, 3)
		m.armAddSub(w, rd, m.Reg[rn], b, wide, true)
	case w&0x1fe00000 == 0x1a400000: // ccmp, ccmn
		m.armCondCompare(w, rn, wide)
	case w&0x1fe00000 == 0x1a800000: // csel, csinc, csinv, csneg
		m.armSelect(w, rd, rn, wide)
	case w&0x1f000000 == 0x1b000000: // multiply-add
		return m.armMul(w, rd, rn, wide, next)
	case w&0x7fe0f800 == 0x1ac00800: // udiv, sdiv and shifts by register
		return m.armDiv(w, rd, rn, wide, next)
	case w&0x7fe0f000 == 0x1ac02000:
		v := armShift(m.armReg(rn), Field(w, 10, 2), uint32(m.armReg(Field(w, 16, 5)))&(31|w>>26&32), wide)
		m.armSet(rd, wide, v)
	case w&0x0a000000 == 0x08000000: // loads and stores
		return m.armMemory(w, next)
	case w&0xbf000000 == 0x0f000000 && Field(w, 19, 5) == 0, w == 0x6f00e400|w&31: // movi vd, #0
		if Field(w, 5, 5) != 0 || Field(w, 16, 3) != 0 {
			return fmt.Errorf("unknown instruction %08x", w)
		}
		m.vec[rd] = [4]uint64{}
	case w&0xfffffc00 == 0x9e670000: // fmov d, x
		m.vec[rd] = [4]uint64{m.armReg(rn)}
	default:
		return fmt.Errorf("unknown instruction %08x", w)
	}
	m.PC = next
	return nil
}

func (m *Machine) armAddSub(w, rd uint32, a, b uint64, wide, sp bool) {
	carry := uint64(0)
	if w>>30&1 != 0 {
		b, carry = ^b, 1
	}
	if w>>29&1 != 0 {
		m.armSet(rd, wide, m.armAddFlags(a, b, carry, wide))
		return
	}
	if sp {
		m.armSetSP(rd, wide, a+b+carry)
		return
	}
	m.armSet(rd, wide, a+b+carry)
}

func (m *Machine) armLogic(opc, rd uint32, a, b uint64, wide, sp bool) {
	var r uint64
	switch opc {
	case 0, 3:
		r = a & b
	case 1:
		r = a | b
	case 2:
		r = a ^ b
	}
	if !wide {
		r = uint64(uint32(r))
	}
	if opc == 3 {
		m.z, m.c, m.v = r == 0, false, false
		m.n = r>>63 != 0
		if !wide {
			m.n = r>>31 != 0
		}
	}
	if sp && opc != 3 {
		m.armSetSP(rd, wide, r)
		return
	}
	m.armSet(rd, wide, r)
}

// armBitmask decodes the immediate of a logical instruction (DecodeBitMasks).
func armBitmask(n, immr, imms uint32, wide bool) (uint64, bool) {
	length := bits.Len32(n<<6|^imms&0x3f) - 1
	if length < 1 || n != 0 && !wide {
		return 0, false
	}
	size := uint32(1) << length
	s, r := imms&(size-1), immr&(size-1)
	if s == size-1 {
		return 0, false
	}
	v := uint64(1)<<(s+1) - 1
	if r != 0 {
		v = (v>>r | v<<(size-r)) & (1<<size - 1)
		if size == 64 {
			v = bits.RotateLeft64(uint64(1)<<(s+1)-1, -int(r))
		}
	}
	for ; size < 64; size *= 2 {
		v |= v << size
	}
	return v, true
}

func (m *Machine) armMovWide(w, rd uint32, wide bool) {
	shift := 16 * Field(w, 21, 2)
	imm := uint64(Field(w, 5, 16)) << shift
	switch w >> 29 & 3 {
	case 0:
		m.armSet(rd, wide, ^imm)
	case 2:
		m.armSet(rd, wide, imm)
	case 3:
		m.armSet(rd, wide, m.armReg(rd)&^(0xffff<<shift)|imm)
	}
}

// armBitfield is sbfm and ubfm: shifts and extensions.
func (m *Machine) armBitfield(w, rd, rn uint32, wide bool, next uint64) error {
	opc, immr, imms := w>>29&3, Field(w, 16, 6), Field(w, 10, 6)
	size := uint32(32)
	if wide {
		size = 64
	}
	if opc == 1 || opc == 3 || immr >= size || imms >= size {
		return fmt.Errorf("unknown instruction %08x", w)
	}
	v := m.armReg(rn) & sizeMask(int(size/8))
	var r uint64
	if imms >= immr {
		width := imms - immr + 1
		r = v >> immr << (64 - width)
		if opc == 0 {
			r = uint64(int64(r) >> (64 - width))
		} else {
			r >>= 64 - width
		}
	} else {
		r = v << (63 - imms)
		if opc == 0 {
			r = uint64(int64(r) >> (63 - imms))
		} else {
			r >>= 63 - imms
		}
		r <<= size - immr
	}
	m.armSet(rd, wide, r)
	m.PC = next
	return nil
}

func armShift(v uint64, kind, by uint32, wide bool) uint64 {
	if !wide {
		v = uint64(uint32(v))
	}
	switch kind {
	case 0:
		return v << by
	case 1:
		return v >> by
	case 2:
		if !wide {
			return uint64(uint32(int32(v) >> min(by, 31)))
		}
		return uint64(int64(v) >> by)
	}
	if !wide {
		return uint64(bits.RotateLeft32(uint32(v), -int(by)))
	}
	return bits.RotateLeft64(v, -int(by))
}

func armExtend(v uint64, kind uint32) uint64 {
	size := 1 << (kind & 3)
	if kind&4 != 0 {
		return signExtend(v, size)
	}
	return v & sizeMask(size)
}

func (m *Machine) armCondCompare(w, rn uint32, wide bool) {
	if !m.armCond(Field(w, 12, 4)) {
		m.n, m.z, m.c, m.v = w>>3&1 != 0, w>>2&1 != 0, w>>1&1 != 0, w&1 != 0
		return
	}
	b := uint64(Field(w, 16, 5))
	if w>>11&1 == 0 {
		b = m.armReg(Field(w, 16, 5))
	}
	if w>>30&1 != 0 {
		m.armAddFlags(m.armReg(rn), ^b, 1, wide)
	} else {
		m.armAddFlags(m.armReg(rn), b, 0, wide)
	}
}

func (m *Machine) armSelect(w, rd, rn uint32, wide bool) {
	if m.armCond(Field(w, 12, 4)) {
		m.armSet(rd, wide, m.armReg(rn))
		return
	}
	v := m.armReg(Field(w, 16, 5))
	if w>>30&1 != 0 {
		v = ^v
	}
	if w>>10&1 != 0 {
		v++
	}
	m.armSet(rd, wide, v)
}

func (m *Machine) armMul(w, rd, rn uint32, wide bool, next uint64) error {
	a, b := m.armReg(rn), m.armReg(Field(w, 16, 5))
	c := m.armReg(Field(w, 10, 5))
	switch op := w >> 21 & 7; op {
	case 0:
	case 1, 5:
		if op == 1 {
			a, b = signExtend(a, 4), signExtend(b, 4)
		} else {
			a, b = uint64(uint32(a)), uint64(uint32(b))
		}
	case 6: // umulh
		hi, _ := bits.Mul64(a, b)
		m.armSet(rd, true, hi)
		m.PC = next
		return nil
	default:
		return fmt.Errorf("unknown instruction %08x", w)
	}
	r := a * b
	if w>>15&1 != 0 {
		r = -r
	}
	m.armSet(rd, wide, c+r)
	m.PC = next
	return nil
}

func (m *Machine) armDiv(w, rd, rn uint32, wide bool, next uint64) error {
	size := 4
	if wide {
		size = 8
	}
	a, b := m.armReg(rn)&sizeMask(size), m.armReg(Field(w, 16, 5))&sizeMask(size)
	var r uint64
	switch {
	case b == 0:
	case w>>10&1 == 0:
		r = a / b
	default:
		sa, sb := int64(signExtend(a, size)), int64(signExtend(b, size))
		if sb == -1 {
			r = uint64(-sa)
		} else {
			r = uint64(sa / sb)
		}
	}
	m.armSet(rd, wide, r)
	m.PC = next
	return nil
}
