// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"fmt"

	"golang.org/x/arch/x86/x86asm"
)

// isVec recognizes vector registers and returns their number and size in bytes.
func isVec(a x86asm.Arg) (n, size int, ok bool) {
	r, isReg := a.(x86asm.Reg)
	switch {
	case !isReg:
	case r >= x86asm.X0 && r <= x86asm.X31:
		return int(r - x86asm.X0), 16, true
	case r >= x86asm.Y0 && r <= x86asm.Y31:
		return int(r - x86asm.Y0), 32, true
	}
	return 0, 0, false
}

// vecOps are the vector instructions that compilers use to move and clear adjacent fields, in both encodings.
// All except the clearing ones and the plain moves are supported only for 16 bytes.
var vecOps = map[x86asm.Op]byte{
	x86asm.PXOR: 'x', x86asm.XORPS: 'x', x86asm.XORPD: 'x', x86asm.VPXOR: 'x', x86asm.VXORPS: 'x',
	x86asm.VXORPD: 'x',
	x86asm.MOVUPS: 'm', x86asm.MOVAPS: 'm', x86asm.MOVDQA: 'm', x86asm.MOVDQU: 'm', x86asm.MOVUPD: 'm',
	x86asm.MOVAPD:  'm',
	x86asm.VMOVUPS: 'm', x86asm.VMOVAPS: 'm', x86asm.VMOVDQA: 'm', x86asm.VMOVDQU: 'm', x86asm.VMOVUPD: 'm',
	x86asm.VMOVAPD: 'm',
	x86asm.MOVQ:    'q', x86asm.VMOVQ: 'q', x86asm.MOVD: 'd', x86asm.VMOVD: 'd',
	x86asm.PUNPCKLQDQ: 'u', x86asm.VPUNPCKLQDQ: 'u',
	x86asm.PINSRQ: 'i', x86asm.VPINSRQ: 'i',
	x86asm.MOVHPS: 'h', x86asm.VMOVHPS: 'h', x86asm.MOVHPD: 'h', x86asm.VMOVHPD: 'h',
	x86asm.MOVLPS: 'l', x86asm.VMOVLPS: 'l',
}

// x86Vector runs an instruction on vector registers; done is false if it has none.
func (m *Machine) x86Vector(in *x86Insn) (done bool, err error) {
	d, dsize, dvec := isVec(in.Args[0])
	s, ssize, svec := isVec(in.Args[1])
	if in.Op == x86asm.VZEROUPPER {
		for i := range m.vec {
			m.vec[i][2], m.vec[i][3] = 0, 0
		}
		return true, nil
	}
	if !dvec && !svec {
		return false, nil
	}
	// With three operands the first source is the second one, otherwise it is the destination.
	s1, s2, three := d, in.Args[1], in.Args[2] != nil
	if three {
		s1, s2 = s, in.Args[2]
	}
	last, _, lastVec := isVec(s2)
	bad := fmt.Errorf("unknown instruction %v", in.Op)
	switch vecOps[in.Op] {
	case 'x':
		if !dvec || !lastVec {
			return true, bad
		}
		var r [4]uint64
		for i := range dsize / 8 {
			r[i] = m.vec[s1][i] ^ m.vec[last][i]
		}
		m.vec[d] = r
	case 'm':
		switch {
		case dvec && svec:
			r := m.vec[s]
			if dsize == 16 {
				r[2], r[3] = 0, 0
			}
			m.vec[d] = r
		case dvec:
			return true, m.x86VecMove(in, in.Args[1], d, dsize, true)
		default:
			return true, m.x86VecMove(in, in.Args[0], s, ssize, false)
		}
	case 'q', 'd':
		return true, m.x86VecScalar(in, d, s, dvec, svec)
	case 'u':
		if !dvec || !lastVec || dsize != 16 {
			return true, bad
		}
		m.vec[d] = [4]uint64{m.vec[s1][0], m.vec[last][0]}
	case 'i':
		src, sel := in.Args[1], in.Args[2]
		if in.Args[3] != nil {
			src, sel = in.Args[2], in.Args[3]
		} else {
			s1 = d
		}
		imm, ok := sel.(x86asm.Imm)
		if !ok || !dvec {
			return true, bad
		}
		v, err := m.x86Get(in, src, 8)
		if err != nil {
			return true, err
		}
		r := m.vec[s1]
		r[imm&1], r[2], r[3] = v, 0, 0
		m.vec[d] = r
	case 'h', 'l':
		half := 0
		if vecOps[in.Op] == 'h' {
			half = 1
		}
		if !dvec {
			return true, m.x86Set(in, in.Args[0], 8, m.vec[s][half])
		}
		if lastVec {
			return true, bad
		}
		v, err := m.x86Get(in, s2, 8)
		if err != nil {
			return true, err
		}
		r := m.vec[s1]
		r[half] = v
		m.vec[d] = r
	default:
		return true, bad
	}
	return true, nil
}

// x86VecScalar moves 4 or 8 bytes between a vector register and a general one or memory.
func (m *Machine) x86VecScalar(in *x86Insn, d, s int, dvec, svec bool) error {
	size := 8
	if vecOps[in.Op] == 'd' && in.DataSize != 64 {
		size = 4
	}
	if !dvec {
		return m.x86Set(in, in.Args[0], size, m.vec[s][0])
	}
	v := m.vec[s][0]
	if !svec {
		var err error
		if v, err = m.x86Get(in, in.Args[1], size); err != nil {
			return err
		}
	}
	m.vec[d] = [4]uint64{v & sizeMask(size)}
	return nil
}

// x86VecMove moves a whole vector register to or from memory.
func (m *Machine) x86VecMove(in *x86Insn, arg x86asm.Arg, n, size int, load bool) error {
	mem, ok := arg.(x86asm.Mem)
	if !ok {
		return fmt.Errorf("unknown instruction %v", in.Op)
	}
	addr, err := m.x86Addr(in, mem)
	if err != nil {
		return err
	}
	var r [4]uint64
	for i := range size / 8 {
		at := addr + uint64(8*i)
		if load {
			r[i], err = m.load(at, 8)
		} else {
			err = m.store(at, 8, m.vec[n][i])
		}
		if err != nil {
			return err
		}
	}
	if load {
		m.vec[n] = r
	}
	return nil
}
