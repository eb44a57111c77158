// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"fmt"
	"math/bits"

	"golang.org/x/arch/x86/x86asm"
)

// X86Reg splits a register into its number, its size in bytes and its first bit.
func X86Reg(r x86asm.Reg) (num, size int, shift uint, ok bool) {
	switch {
	case r >= x86asm.AL && r <= x86asm.BL:
		return int(r - x86asm.AL), 1, 0, true
	case r >= x86asm.AH && r <= x86asm.BH:
		return int(r - x86asm.AH), 1, 8, true
	case r >= x86asm.SPB && r <= x86asm.R15B:
		return int(r-x86asm.SPB) + 4, 1, 0, true
	case r >= x86asm.AX && r <= x86asm.R15W:
		return int(r - x86asm.AX), 2, 0, true
	case r >= x86asm.EAX && r <= x86asm.R15L:
		return int(r - x86asm.EAX), 4, 0, true
	case r >= x86asm.RAX && r <= x86asm.R15:
		return int(r - x86asm.RAX), 8, 0, true
	}
	return 0, 0, 0, false
}

type x86Insn struct {
	x86asm.Inst
	next uint64
}

func (m *Machine) x86Addr(in *x86Insn, mem x86asm.Mem) (uint64, error) {
	addr := uint64(mem.Disp)
	if mem.Base == x86asm.RIP {
		addr += in.next
	} else if mem.Base != 0 {
		n, size, _, ok := X86Reg(mem.Base)
		if !ok || size != 8 {
			return 0, fmt.Errorf("unknown address in %v", in)
		}
		addr += m.Reg[n]
	}
	if mem.Index != 0 {
		n, size, _, ok := X86Reg(mem.Index)
		if !ok || size != 8 {
			return 0, fmt.Errorf("unknown address in %v", in)
		}
		addr += m.Reg[n] * uint64(mem.Scale)
	}
	return addr, nil
}

// size is the size in bytes of the operation on arg.
func (in *x86Insn) size(arg x86asm.Arg) int {
	if r, ok := arg.(x86asm.Reg); ok {
		if _, size, _, ok := X86Reg(r); ok {
			return size
		}
	}
	if in.MemBytes > 0 {
		return in.MemBytes
	}
	return max(in.DataSize/8, 1)
}

func (m *Machine) x86Get(in *x86Insn, arg x86asm.Arg, size int) (uint64, error) {
	switch a := arg.(type) {
	case x86asm.Reg:
		n, size, shift, ok := X86Reg(a)
		if !ok {
			return 0, fmt.Errorf("register %v", a)
		}
		return m.Reg[n] >> shift & sizeMask(size), nil
	case x86asm.Imm:
		return uint64(a) & sizeMask(size), nil
	case x86asm.Mem:
		if a.Segment == x86asm.FS || a.Segment == x86asm.GS {
			return 0, nil // thread-local: the stack protector's canary
		}
		addr, err := m.x86Addr(in, a)
		if err != nil {
			return 0, err
		}
		return m.load(addr, size)
	}
	return 0, fmt.Errorf("operand %v", arg)
}

func (m *Machine) x86Set(in *x86Insn, arg x86asm.Arg, size int, v uint64) error {
	switch a := arg.(type) {
	case x86asm.Reg:
		n, size, shift, ok := X86Reg(a)
		if !ok {
			return fmt.Errorf("register %v", a)
		}
		v &= sizeMask(size)
		if size >= 4 {
			m.Reg[n] = v
		} else {
			m.Reg[n] = m.Reg[n]&^(sizeMask(size)<<shift) | v<<shift
		}
		return nil
	case x86asm.Mem:
		addr, err := m.x86Addr(in, a)
		if err != nil {
			return err
		}
		return m.store(addr, size, v)
	}
	return fmt.Errorf("operand %v", arg)
}

// subFlags sets the flags of a subtraction a - b.
func (m *Machine) subFlags(a, b uint64, size int) {
	a, b = a&sizeMask(size), b&sizeMask(size)
	r := (a - b) & sizeMask(size)
	top := uint64(1) << (8*size - 1)
	m.z, m.n, m.c = r == 0, r&top != 0, a < b
	m.v = (a^b)&(a^r)&top != 0
}

func (m *Machine) logicFlags(r uint64, size int) {
	r &= sizeMask(size)
	m.z, m.n, m.c, m.v = r == 0, r>>(8*size-1) != 0, false, false
}

// x86Conds are the low four bits of an opcode that tests a condition, by name.
var x86Conds = map[x86asm.Op]uint8{}

func init() {
	for i, ops := range [16][3]x86asm.Op{
		{x86asm.JO, x86asm.SETO, x86asm.CMOVO}, {x86asm.JNO, x86asm.SETNO, x86asm.CMOVNO},
		{x86asm.JB, x86asm.SETB, x86asm.CMOVB}, {x86asm.JAE, x86asm.SETAE, x86asm.CMOVAE},
		{x86asm.JE, x86asm.SETE, x86asm.CMOVE}, {x86asm.JNE, x86asm.SETNE, x86asm.CMOVNE},
		{x86asm.JBE, x86asm.SETBE, x86asm.CMOVBE}, {x86asm.JA, x86asm.SETA, x86asm.CMOVA},
		{x86asm.JS, x86asm.SETS, x86asm.CMOVS}, {x86asm.JNS, x86asm.SETNS, x86asm.CMOVNS},
		{x86asm.JP, x86asm.SETP, x86asm.CMOVP}, {x86asm.JNP, x86asm.SETNP, x86asm.CMOVNP},
		{x86asm.JL, x86asm.SETL, x86asm.CMOVL}, {x86asm.JGE, x86asm.SETGE, x86asm.CMOVGE},
		{x86asm.JLE, x86asm.SETLE, x86asm.CMOVLE}, {x86asm.JG, x86asm.SETG, x86asm.CMOVG},
	} {
		for _, op := range ops {
			x86Conds[op] = uint8(i)
		}
	}
}

func (m *Machine) x86Cond(code uint8) bool {
	var r bool
	switch code >> 1 {
	case 0:
		r = m.v
	case 1:
		r = m.c
	case 2:
		r = m.z
	case 3:
		r = m.c || m.z
	case 4:
		r = m.n
	case 6:
		r = m.n != m.v
	case 7:
		r = m.z || m.n != m.v
	}
	return r != (code&1 != 0)
}

func (m *Machine) stepX86(code []byte) error {
	if len(code) >= 4 && [4]byte(code) == [4]byte{0xf3, 0x0f, 0x1e, 0xfa} { // endbr64
		m.PC += 4
		return nil
	}
	dec, err := x86asm.Decode(code[:min(len(code), 15)], 64)
	if err != nil || dec.Len == 0 {
		return fmt.Errorf("unknown instruction % x", code[:min(len(code), 6)])
	}
	in := &x86Insn{dec, m.PC + uint64(dec.Len)}
	a0, a1 := in.Args[0], in.Args[1]
	next := in.next
	switch in.Op {
	case x86asm.NOP:
	case x86asm.JMP, x86asm.CALL:
		return m.x86Branch(in)
	case x86asm.RET:
		return m.ret()
	case x86asm.LEAVE:
		m.Reg[4] = m.Reg[5]
		v, err := m.load(m.Reg[4], 8)
		if err != nil {
			return err
		}
		m.Reg[5] = v
		m.Reg[4] += 8
	case x86asm.PUSH:
		v, err := m.x86Get(in, a0, 8)
		if err != nil {
			return err
		}
		m.Reg[4] -= 8
		if err := m.store(m.Reg[4], 8, v); err != nil {
			return err
		}
	case x86asm.POP:
		v, err := m.load(m.Reg[4], 8)
		if err != nil {
			return err
		}
		m.Reg[4] += 8
		if err := m.x86Set(in, a0, 8, v); err != nil {
			return err
		}
	case x86asm.LEA:
		mem, ok := a1.(x86asm.Mem)
		if !ok {
			return fmt.Errorf("unknown form of lea")
		}
		v, err := m.x86Addr(in, mem)
		if err != nil {
			return err
		}
		if err := m.x86Set(in, a0, 8, v); err != nil {
			return err
		}
	case x86asm.CDQ:
		m.Reg[2] = uint64(uint32(int32(m.Reg[0]) >> 31))
	case x86asm.CQO:
		m.Reg[2] = uint64(int64(m.Reg[0]) >> 63)
	case x86asm.CDQE:
		m.Reg[0] = signExtend(m.Reg[0], 4)
	default:
		if code, ok := x86Conds[in.Op]; ok {
			jumped, err := m.x86Conditional(in, code)
			if jumped || err != nil {
				return err
			}
			break
		}
		done, err := m.x86Vector(in)
		if err == nil && !done {
			err = m.x86Arith(in)
		}
		if err != nil {
			return err
		}
	}
	m.PC = next
	return nil
}

func (m *Machine) x86Branch(in *x86Insn) error {
	ret := uint64(0)
	if in.Op == x86asm.CALL {
		ret = in.next
	}
	switch a := in.Args[0].(type) {
	case x86asm.Rel:
		target := in.next + uint64(int64(a))
		if ret == 0 {
			return m.jump(target)
		}
		return m.call(target, ret)
	case x86asm.Mem:
		addr, err := m.x86Addr(in, a)
		if err != nil {
			return err
		}
		return m.indirect(addr, ret)
	case x86asm.Reg: // through a register: the last load of this value
		v, err := m.x86Get(in, a, 8)
		if err != nil {
			return err
		}
		return m.indirectValue(v)
	}
	return fmt.Errorf("unknown branch %v", in)
}

// indirectValue is indirect for a pointer that was loaded before the jump.
func (m *Machine) indirectValue(v uint64) error {
	for i := len(m.Log) - 1; i >= 0; i-- {
		if a := m.Log[i]; !a.Write && a.Size == 8 && a.Val == v && a.Obj != nil {
			m.Tail = &TailJump{a.Obj, a.Off}
			return errStopped
		}
	}
	return fmt.Errorf("indirect jump to %#x", v)
}

func (m *Machine) x86Conditional(in *x86Insn, code uint8) (jumped bool, err error) {
	yes := m.x86Cond(code)
	if rel, ok := in.Args[0].(x86asm.Rel); ok {
		if yes {
			err = m.jump(in.next + uint64(int64(rel)))
		}
		return yes, err
	}
	if in.Args[1] == nil { // setcc
		v := uint64(0)
		if yes {
			v = 1
		}
		return false, m.x86Set(in, in.Args[0], 1, v)
	}
	size := in.size(in.Args[0])
	v, err := m.x86Get(in, in.Args[1], size)
	if err != nil {
		return false, err
	}
	if !yes {
		if v, err = m.x86Get(in, in.Args[0], size); err != nil {
			return false, err
		}
	}
	return false, m.x86Set(in, in.Args[0], size, v) // also clears the upper half
}

func (m *Machine) x86Arith(in *x86Insn) error {
	dst := in.Args[0]
	size := in.size(dst)
	var a, b uint64
	var err error
	switch in.Op {
	case x86asm.MOV, x86asm.MOVZX, x86asm.MOVSX, x86asm.MOVSXD:
	default:
		if a, err = m.x86Get(in, dst, size); err != nil {
			return err
		}
	}
	if in.Args[1] != nil {
		bsize := size
		switch in.Op {
		case x86asm.MOVZX, x86asm.MOVSX, x86asm.MOVSXD:
			bsize = in.size(in.Args[1])
		}
		if b, err = m.x86Get(in, in.Args[1], bsize); err != nil {
			return err
		}
		if in.Op == x86asm.MOVSX || in.Op == x86asm.MOVSXD {
			b = signExtend(b, bsize)
		}
	}
	top := uint64(1) << (8*size - 1)
	var r uint64
	switch in.Op {
	case x86asm.MOV, x86asm.MOVZX, x86asm.MOVSX, x86asm.MOVSXD:
		return m.x86Set(in, dst, size, b)
	case x86asm.CMP:
		m.subFlags(a, b, size)
		return nil
	case x86asm.TEST:
		m.logicFlags(a&b, size)
		return nil
	case x86asm.SUB:
		m.subFlags(a, b, size)
		r = a - b
	case x86asm.ADD:
		r = (a + b) & sizeMask(size)
		m.z, m.n, m.c, m.v = r == 0, r&top != 0, r < a, (a^r)&(b^r)&top != 0
	case x86asm.INC, x86asm.DEC:
		carry := m.c
		if in.Op == x86asm.INC {
			r = (a + 1) & sizeMask(size)
			m.z, m.n, m.v = r == 0, r&top != 0, r == top
		} else {
			m.subFlags(a, 1, size)
			r = a - 1
		}
		m.c = carry
	case x86asm.NEG:
		m.subFlags(0, a, size)
		r = -a
	case x86asm.NOT:
		return m.x86Set(in, dst, size, ^a)
	case x86asm.AND:
		r = a & b
		m.logicFlags(r, size)
	case x86asm.OR:
		r = a | b
		m.logicFlags(r, size)
	case x86asm.XOR:
		r = a ^ b
		m.logicFlags(r, size)
	case x86asm.SHL, x86asm.SHR, x86asm.SAR:
		r = shift(in.Op, a, b, size)
		m.logicFlags(r, size)
	case x86asm.XCHG:
		if err := m.x86Set(in, in.Args[1], size, a); err != nil {
			return err
		}
		return m.x86Set(in, dst, size, b)
	case x86asm.XADD:
		if err := m.x86Set(in, dst, size, a+b); err != nil {
			return err
		}
		return m.x86Set(in, in.Args[1], size, a)
	case x86asm.IMUL:
		return m.x86Imul(in, a, b, size)
	case x86asm.DIV:
		return m.x86Div(a, size)
	default:
		return fmt.Errorf("unknown instruction %v", in)
	}
	return m.x86Set(in, dst, size, r)
}

func shift(op x86asm.Op, a, b uint64, size int) uint64 {
	if size == 8 {
		b &= 63
	} else {
		b &= 31
	}
	switch op {
	case x86asm.SHL:
		return a << b
	case x86asm.SHR:
		return a >> b
	}
	return uint64(int64(signExtend(a, size)) >> b)
}

func (m *Machine) x86Imul(in *x86Insn, a, b uint64, size int) error {
	switch {
	case in.Args[1] == nil:
		return fmt.Errorf("unknown form of imul")
	case in.Args[2] != nil:
		c, err := m.x86Get(in, in.Args[2], size)
		if err != nil {
			return err
		}
		return m.x86Set(in, in.Args[0], size, b*c)
	}
	return m.x86Set(in, in.Args[0], size, a*b)
}

func (m *Machine) x86Div(by uint64, size int) error {
	if size != 8 || by == 0 || m.Reg[2] >= by {
		return fmt.Errorf("unknown form of div")
	}
	m.Reg[0], m.Reg[2] = bits.Div64(m.Reg[2], m.Reg[0], by)
	return nil
}
