// SPDX-License-Identifier: Apache-2.0

package emulator

import "fmt"

// armMemory runs a load or store: single registers in all addressing modes, pairs, literals, and exclusive
// and atomic ones as if there were no other thread.
func (m *Machine) armMemory(w uint32, next uint64) error {
	m2 := armMem{m: m, w: w, rt: Field(w, 0, 5), rn: Field(w, 5, 5), vec: w>>26&1 != 0}
	var err error
	switch {
	case w&0x3a000000 == 0x28000000:
		err = m2.pair()
	case w&0x3b000000 == 0x18000000:
		err = m2.literal()
	case w&0x3f000000 == 0x08000000:
		err = m2.exclusive()
	case w&0x3b000000 == 0x39000000, w&0x3b000000 == 0x38000000:
		err = m2.single()
	default:
		err = m2.unknown()
	}
	if err == nil {
		m.PC = next
	}
	return err
}

type armMem struct {
	m      *Machine
	w      uint32
	rt, rn uint32
	vec    bool
}

func (a *armMem) unknown() error { return fmt.Errorf("unknown instruction %08x", a.w) }

// move loads or stores one register of size bytes.
func (a *armMem) move(rt uint32, addr uint64, size int, load bool, sign int) error {
	m := a.m
	if a.vec {
		for i := 0; i < size; i += 8 {
			n, at := min(size, 8), addr+uint64(i)
			if !load {
				if err := m.store(at, n, m.vec[rt][i/8]); err != nil {
					return err
				}
				continue
			}
			v, err := m.load(at, n)
			if err != nil {
				return err
			}
			if i == 0 {
				m.vec[rt] = [4]uint64{}
			}
			m.vec[rt][i/8] = v
		}
		return nil
	}
	if !load {
		return m.store(addr, size, m.armReg(rt))
	}
	v, err := m.load(addr, size)
	if err != nil {
		return err
	}
	switch sign {
	case 8:
		m.armSet(rt, true, signExtend(v, size))
	case 4:
		m.armSet(rt, false, signExtend(v, size))
	default:
		m.armSet(rt, true, v)
	}
	return nil
}

func (a *armMem) single() error {
	m, w := a.m, a.w
	size, opc := 1<<(w>>30), w>>22&3
	load, sign := opc != 0, 0
	if a.vec {
		if opc&2 != 0 {
			if size != 1 {
				return a.unknown()
			}
			size = 16
		}
		load = opc&1 != 0
	} else if opc == 2 {
		if size == 8 {
			return nil // prefetch
		}
		sign = 8
	} else if opc == 3 {
		sign = 4
	}
	base := m.Reg[a.rn]
	if w>>24&1 != 0 { // unsigned immediate
		return a.move(a.rt, base+uint64(Field(w, 10, 12))*uint64(size), size, load, sign)
	}
	if w>>21&1 != 0 {
		if w>>10&3 == 2 { // register offset
			off := armExtend(m.armReg(Field(w, 16, 5)), Field(w, 13, 3))
			if w>>12&1 != 0 {
				off *= uint64(size)
			}
			return a.move(a.rt, base+off, size, load, sign)
		}
		if w>>10&3 == 0 && !a.vec {
			return a.atomic(size)
		}
		return a.unknown()
	}
	imm := SignedField(w, 12, 9)
	switch w >> 10 & 3 {
	case 0: // unscaled
		return a.move(a.rt, base+imm, size, load, sign)
	case 1: // post-index
		err := a.move(a.rt, base, size, load, sign)
		m.Reg[a.rn] = base + imm
		return err
	case 3: // pre-index
		m.Reg[a.rn] = base + imm
		return a.move(a.rt, base+imm, size, load, sign)
	}
	return a.unknown()
}

// atomic is ldadd (the only one that accessors need).
func (a *armMem) atomic(size int) error {
	if a.w>>12&15 != 0 {
		return a.unknown()
	}
	addr := a.m.Reg[a.rn]
	v, err := a.m.load(addr, size)
	if err != nil {
		return err
	}
	if err := a.m.store(addr, size, v+a.m.armReg(Field(a.w, 16, 5))); err != nil {
		return err
	}
	a.m.armSet(a.rt, true, v)
	return nil
}

func (a *armMem) pair() error {
	m, w := a.m, a.w
	opc, load := w>>30, w>>22&1 != 0
	size, sign := 4, 0
	switch {
	case a.vec:
		size = 4 << opc
	case opc == 2:
		size = 8
	case opc == 1:
		sign = 8
	}
	if opc == 3 {
		return a.unknown()
	}
	addr, imm := m.Reg[a.rn], SignedField(w, 15, 7)*uint64(size)
	mode := w >> 23 & 3
	if mode != 1 {
		addr += imm
	}
	rt2 := Field(w, 10, 5)
	if err := a.move(a.rt, addr, size, load, sign); err != nil {
		return err
	}
	if err := a.move(rt2, addr+uint64(size), size, load, sign); err != nil {
		return err
	}
	if mode == 1 || mode == 3 {
		m.Reg[a.rn] += imm
	}
	return nil
}

func (a *armMem) literal() error {
	opc := a.w >> 30
	if a.vec || opc == 3 {
		return a.unknown()
	}
	size, sign := 4, 0
	switch opc {
	case 1:
		size = 8
	case 2:
		sign = 8
	}
	return a.move(a.rt, a.m.PC+SignedField(a.w, 5, 19)*4, size, true, sign)
}

// exclusive is ldxr, stxr, ldar, stlr and their like; a store always succeeds.
func (a *armMem) exclusive() error {
	size, load, ordered := 1<<(a.w>>30), a.w>>22&1 != 0, a.w>>23&1 != 0
	if a.w>>21&1 != 0 {
		return a.unknown() // pairs, compare and swap
	}
	if err := a.move(a.rt, a.m.Reg[a.rn], size, load, 0); err != nil {
		return err
	}
	if !load && !ordered {
		a.m.armSet(Field(a.w, 16, 5), false, 0)
	}
	return nil
}
