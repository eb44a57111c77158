// SPDX-License-Identifier: Apache-2.0

package target

import "encoding/binary"

// decodeARM64 follows the encoding tables of the Arm Architecture Reference Manual (C4.1) as far as control
// flow and the kernel's arch/arm64/kernel/probes/decode-insn.c require. Whatever that file neither refuses
// nor simulates is stepped.
func decodeARM64(code []byte, addr uint64) (Insn, error) {
	if len(code) < 4 {
		return Insn{}, ErrCut
	}
	w := binary.LittleEndian.Uint32(code)
	in := Insn{Addr: addr, Len: 4, Class: ClassStepped, Arch: ARM64, Bytes: code[:4:4]}
	switch {
	case w>>16 == 0: // udf
		in.Kind, in.Class = Trap, ClassRefused
	case w&0x7c000000 == 0x14000000: // b, bl
		in.Kind, in.Class = Jump, ClassEmulated
		if w>>31 != 0 {
			in.Kind = Call
		}
		in.Target = addr + signed(w, 0, 26)*4
	case w&0xff000010 == 0x54000000, w&0xff000010 == 0x54000010: // b.cond, bc.cond
		in.Kind, in.Class = CondJump, ClassEmulated
		if w&0x10 != 0 {
			in.Class = ClassRefused // the kernel does not know bc.cond
		}
		in.Target = addr + signed(w, 5, 19)*4
	case w&0x7e000000 == 0x34000000: // cbz, cbnz
		in.Kind, in.Class = CondJump, ClassEmulated
		in.Target = addr + signed(w, 5, 19)*4
	case w&0x7e000000 == 0x36000000: // tbz, tbnz
		in.Kind, in.Class = CondJump, ClassEmulated
		in.Target = addr + signed(w, 5, 14)*4
	case w&0x9f000000 == 0x10000000: // adr
		in.Class = ClassEmulated
		in.Data = addr + (signed(w, 5, 19)<<2 | uint64(w>>29&3))
	case w&0x9f000000 == 0x90000000: // adrp
		in.Class = ClassEmulated
		in.Data = addr&^0xfff + (signed(w, 5, 19)<<2|uint64(w>>29&3))<<12
	case w&0x3b000000 == 0x18000000: // ldr literal, ldrsw literal, prfm literal
		// Simulated for uprobes only until 6.11, and wrongly ("arm64: probes: Remove broken LDR (literal)
		// uprobe support"); refused since.
		in.Class = ClassRefused
		in.Data = addr + signed(w, 5, 19)*4
	case w&0xfe000000 == 0xd6000000: // branch to register
		decodeARM64BranchReg(w, &in)
	case w&0xff000000 == 0xd4000000: // exceptions: svc, hvc, smc, brk, hlt, dcps
		in.Class = ClassRefused
		if op := w >> 21 & 7; op == 1 || op == 2 {
			in.Kind = Trap // brk, hlt
		}
	case w == 0xd503201f: // nop
		in.Class = ClassEmulated
	case w&0xfffff01f == 0xd503201f: // other hints
		if !steppableHint(w >> 5 & 0x7f) {
			in.Class = ClassRefused
		}
	case w&0xffffffe0 == 0xd53b4220: // mrs daif: stepping is visible in it
		in.Class = ClassRefused
	case w&0xfff00000 == 0xd5100000 || w&0xfff8f01f == 0xd500401f: // msr
		in.Class = ClassRefused
	case w&0x3f000000 == 0x08000000 && w&(1<<23) == 0: // exclusive loads and stores, casp
		in.Class = ClassRefused
	}
	return in, nil
}

// decodeARM64BranchReg decodes br, blr, ret and their authenticated forms.
func decodeARM64BranchReg(w uint32, in *Insn) {
	switch w >> 21 & 0xf { // opc; bit 24 marks the authenticated forms with a modifier
	case 0, 8:
		in.Kind = JumpIndirect
	case 1, 9:
		in.Kind = CallIndirect
	case 2:
		in.Kind = Return
	case 4:
		in.Kind = Return // eret
	}
	in.Class = ClassRefused
	switch w & 0xfffffc1f {
	case 0xd61f0000, 0xd63f0000, 0xd65f0000: // br, blr, ret
		in.Class = ClassEmulated
	}
}

// steppableHint recognizes the hints that the kernel steps (aarch64_insn_is_steppable_hint): pointer signing
// and bti. Recent kernels (seen with 7.2) refuse authentication (aut*), as it can raise an exception.
func steppableHint(n uint32) bool {
	switch n {
	case 7, 8, 10, // xpaclri, pacia1716, pacib1716
		24, 25, 26, 27, // paciaz, paciasp, pacibz, pacibsp
		32, 34, 36, 38: // bti
		return true
	}
	return false
}

// signed returns the n-bit field of w at bit at, sign-extended.
func signed(w uint32, at, n uint) uint64 {
	return uint64(int64(int32(w<<(32-at-n))) >> (32 - n))
}
