// SPDX-License-Identifier: Apache-2.0

package ggml

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/arch/x86/x86asm"

	"github.com/profinfer/profinfer/engine/internal/emulator"
	"github.com/profinfer/profinfer/target"
)

// A probe on a function's first instruction is nearly always single-stepped, thirty times more expensive than
// one on an instruction that the kernel emulates. So a function is walked in a straight line from its entry
// to the first such instruction, as long as the needed arguments are still in their registers.

const maxEntry = 48 // instructions walked

// entry is where a function's begin is probed.
type entry struct {
	in target.Insn
	// moved is how far the stack pointer has moved down since the function's entry.
	moved int32
	// canReturn: a return probe at this instruction finds the return address where it expects it.
	canReturn bool
	// cheap: the instruction is emulated. Otherwise it is the function's first.
	cheap bool
}

// walkEntry finds the site for a function's begin; args are the integer arguments needed.
func (l *lib) walkEntry(fn uint64, args ...int) (entry, error) {
	first, err := l.e.Insn(fn)
	if err != nil {
		return entry{}, err
	}
	e := entry{canReturn: true}
	addr := fn
	for range maxEntry {
		in, err := l.e.Insn(addr)
		if err != nil {
			break
		}
		if in.Class == target.ClassEmulated || in.Class == target.ClassNop5 {
			e.in, e.cheap = in, true
			return e, nil
		}
		if in.Kind != target.Other {
			break
		}
		eff := effects(in)
		if !eff.known || eff.writesAny(l.arm(), args) {
			break
		}
		e.moved += eff.down
		if e.moved != 0 || eff.signs {
			e.canReturn = false
		}
		addr = in.End()
	}
	return entry{in: first, canReturn: true}, nil
}

// effect is what an instruction does to the registers that matter at a function's entry.
type effect struct {
	known  bool
	down   int32  // bytes the stack pointer moves down
	writes uint64 // general registers written, one bit each
	signs  bool   // arm64: the return address is signed or stored from here on
}

func (e effect) writesAny(arm bool, args []int) bool {
	for _, a := range args {
		if e.writes>>emulator.ArgReg(a, arm)&1 != 0 {
			return true
		}
	}
	return false
}

func effects(in target.Insn) effect {
	if in.Arch == target.ARM64 {
		return effectsARM(binary.LittleEndian.Uint32(in.Bytes))
	}
	return effectsX86(in.Bytes)
}

func effectsX86(b []byte) effect {
	if len(b) == 4 && [4]byte(b) == [4]byte{0xf3, 0x0f, 0x1e, 0xfa} {
		return effect{known: true} // endbr64
	}
	in, err := x86asm.Decode(b, 64)
	if err != nil || in.Len != len(b) {
		return effect{}
	}
	e := effect{known: true}
	switch in.Op {
	case x86asm.CMP, x86asm.TEST, x86asm.NOP, x86asm.UCOMISS, x86asm.UCOMISD, x86asm.COMISS, x86asm.COMISD:
		return e
	case x86asm.PUSH:
		e.down = 8
		return e
	case x86asm.XCHG, x86asm.XADD, x86asm.CMPXCHG:
		if r, ok := in.Args[1].(x86asm.Reg); ok {
			if n, _, _, ok := emulator.X86Reg(r); ok {
				e.writes |= 1 << n
			}
		}
		e.writes |= 1 // rax
	case x86asm.CDQ, x86asm.CQO:
		e.writes |= 1 << 2
	case x86asm.MUL, x86asm.DIV, x86asm.IDIV, x86asm.CPUID, x86asm.RDTSC:
		e.writes |= 1<<0 | 1<<1 | 1<<2 | 1<<3
	case x86asm.IMUL:
		if in.Args[1] == nil {
			e.writes |= 1<<0 | 1<<2
			return e
		}
	case x86asm.MOVSB, x86asm.MOVSD, x86asm.MOVSQ, x86asm.STOSB, x86asm.STOSD, x86asm.STOSQ:
		if in.Args[0] == nil || isStringOp(in) {
			e.writes |= 1<<1 | 1<<6 | 1<<7
			return e
		}
	}
	r, ok := in.Args[0].(x86asm.Reg)
	if !ok {
		return e
	}
	n, _, _, ok := emulator.X86Reg(r)
	if !ok {
		return e // a vector register
	}
	if n != 4 {
		e.writes |= 1 << n
		return e
	}
	imm, ok := in.Args[1].(x86asm.Imm)
	switch {
	case ok && in.Op == x86asm.SUB:
		e.down = int32(imm)
	case ok && in.Op == x86asm.ADD:
		e.down = -int32(imm)
	default: // aligned, or computed in a way that is not tracked
		e.known = false
	}
	return e
}

// isStringOp distinguishes the string instruction movsd from the vector one.
func isStringOp(in x86asm.Inst) bool {
	_, ok := in.Args[0].(x86asm.Mem)
	_, ok2 := in.Args[1].(x86asm.Mem)
	return ok && ok2
}

func effectsARM(w uint32) effect {
	rd, rn := emulator.Field(w, 0, 5), emulator.Field(w, 5, 5)
	e := effect{known: true}
	write := func(n uint32) {
		if n != 31 {
			e.writes |= 1 << n
			e.signs = e.signs || n == 30
		}
	}
	switch {
	case w&0xfffff01f == 0xd503201f:
		op := emulator.Field(w, 5, 7)
		e.signs = op == 25 || op == 27 || op == 24 || op == 26 // paciasp, pacibsp, paciaz, pacibz
	case w&0x7f800000 == 0x51000000 && rd == 31 && rn == 31: // sub sp, sp, #n
		e.down = int32(emulator.Field(w, 10, 12)) << (12 * emulator.Field(w, 22, 1))
	case w&0x7f800000 == 0x11000000 && rd == 31: // add sp, ...
		e.known = false
	case w&0x0a000000 == 0x08000000: // loads and stores
		e = effectsARMMemory(w, rd, rn)
	case w&0x1c000000 == 0x10000000, w&0x0e000000 == 0x0a000000, w&0x1f000000 == 0x1b000000:
		// data processing
		write(rd)
	case w&0x0e000000 == 0x0e000000: // vectors
		if w&0x7f20fc00 == 0x1e200000 {
			write(rd) // conversions into a general register
		}
		if w&0xbfe0fc00 == 0x0e003c00 {
			write(rd) // umov
		}
	case w&0xfff00000 == 0xd5300000: // mrs
		write(rd)
	default:
		e.known = false
	}
	return e
}

func effectsARMMemory(w, rt, rn uint32) effect {
	e := effect{known: true}
	vec, pair := w>>26&1 != 0, w&0x3a000000 == 0x28000000
	load := w>>22&1 != 0
	single := w&0x3a000000 == 0x38000000
	if single && !vec {
		load = w>>22&3 != 0
	}
	if w&0x3b000000 == 0x18000000 {
		load = true
	}
	regs := []uint32{rt}
	if pair {
		regs = append(regs, emulator.Field(w, 10, 5))
	}
	if !vec {
		for _, r := range regs {
			if r == 30 {
				e.signs = true // the return address is saved, or gone
			}
			if load && r != 31 {
				e.writes |= 1 << r
			}
		}
	}
	imm, back := int32(0), false
	switch {
	case pair && w>>23&1 != 0: // post- or pre-index
		scale := int32(4) << (w >> 30)
		if !vec {
			scale = 4 << (w >> 31)
		}
		imm, back = int32(emulator.SignedField(w, 15, 7))*scale, true
	case single && w>>24&1 == 0 && w>>21&1 == 0 && w>>10&1 != 0:
		imm, back = int32(emulator.SignedField(w, 12, 9)), true
	}
	if back {
		if rn == 31 {
			e.down = -imm
		} else {
			e.writes |= 1 << rn
		}
	}
	return e
}

// passesOn runs a function that takes a batch by address on made-up arguments. It finds the call that
// forwards the engine context and the batch (or a copy) as that call's first two arguments.
func (l *lib) passesOn(fn uint64) (target.Insn, bool) {
	m := l.newMachine()
	ctx, batch := m.NewObject("context"), m.NewObject("batch")
	const size = 56 // size of struct llama_batch
	for off := 0; off < size; off += 8 {
		batch.Put64(off, 0x1000+uint64(off))
	}
	var at uint64
	m.Hook = func(m *emulator.Machine, _ string, _ uint64) (uint64, emulator.HookResult) {
		o, off := m.ObjectAt(m.Arg(1))
		if o != nil && m.Arg(0) == ctx.Addr && off+size <= emulator.ObjectSize &&
			bytes.Equal(o.Data[off:off+size], batch.Data[:size]) {
			at = m.PC
		}
		return 0, emulator.Stop
	}
	if _, err := m.Run(fn, ctx.Addr, batch.Addr); err != nil || at == 0 {
		return target.Insn{}, false
	}
	in, err := l.e.Insn(at)
	return in, err == nil && in.Kind == target.Call && in.Class == target.ClassEmulated
}
