// SPDX-License-Identifier: Apache-2.0

package target

// class follows arch/x86/kernel/uprobes.c (uprobe_init_insn, branch_setup_xol_ops,
// push_setup_xol_ops, can_optimize), checked against a 6.18 kernel.
func (x *x86) class(in Insn) Class {
	switch {
	case x.badPfx: // is_prefix_bad
		return ClassRefused
	case x.rex2 || x.vector && x.mapNo > 7:
		return ClassRefused // REX2, XOP: kernels that do not know them misread them as other instructions
	case x.vector:
		return x.vectorClass()
	case x.mapNo == 1:
		return x.twoByteClass(in)
	case x.mapNo != 0:
		return ClassStepped
	}
	switch op := x.op; {
	case op == 0xe8 || op == 0xe9 || op == 0xeb || op >= 0x70 && op <= 0x7f:
		if x.opSize {
			return ClassRefused // branches with 66: Intel and AMD differ
		}
		return ClassEmulated
	case op >= 0x50 && op <= 0x57:
		if x.n == 1 || x.n == 2 && x.rex == 0x41 {
			return ClassEmulated
		}
	case op == 0x90:
		if x.rex&1 != 0 {
			return ClassRefused // xchg with r8, which the kernel mistakes for a nop
		}
		return ClassEmulated
	case op == 0x9c:
		return ClassRefused // pushf: stepping leaves the trap flag on the stack, for a popf to find
	case op == 0x8e && x.modrm>>3&7 == 2:
		return ClassRefused // mov to ss masks exceptions
	case !goodAMD64(op):
		return ClassRefused
	}
	return ClassStepped
}

// vectorClass handles VEX, EVEX and XOP. Kernels so far look at the opcode byte alone: they treat vpshufd
// (70) and vzeroupper (77) as conditional jumps, vpor (eb) as a jump, kmov (90) as a nop and vmovdqu (6f) as
// port I/O. An instruction that they would emulate wrongly must not be probed.
func (x *x86) vectorClass() Class {
	switch op := x.op; {
	case op == 0xe8 || op == 0xe9 || op == 0xeb || op == 0x90 || op >= 0x70 && op <= 0x7f, !goodAMD64(op):
		return ClassRefused
	}
	return ClassStepped
}

// goodAMD64 is good_insns_64: the opcode bytes that can be probed in 64-bit code.
func goodAMD64(op uint8) bool {
	switch {
	case op < 0x40:
		return op&7 < 6
	case op < 0x50:
		return false
	case op >= 0x60 && op <= 0x6f:
		return op == 0x63 || op == 0x64 || op == 0x65 || op >= 0x68 && op <= 0x6b
	case op >= 0xcc && op <= 0xcf, op >= 0xd4 && op <= 0xd6, op >= 0xe4 && op <= 0xe7, op >= 0xec &&
		op <= 0xf1:
		return false
	}
	switch op {
	case 0x82, 0x9a, 0xc4, 0xc5, 0xea, 0xf4, 0xfa, 0xfb:
		return false
	}
	return true
}

func (x *x86) twoByteClass(in Insn) Class {
	switch {
	case x.op >= 0x80 && x.op <= 0x8f:
		if x.opSize {
			return ClassRefused
		}
		return ClassEmulated
	case x.op == 0x1f && isKernelNop(in.Bytes):
		if x.n != 5 || in.Addr&0xfff > 0x1000-5 {
			return ClassEmulated // the kernel does not rewrite a nop that crosses a page
		}
		return ClassNop5
	}
	return ClassStepped
}

// isKernelNop recognizes the multi-byte nops that 6.18 knows (x86_nops); later kernels know more.
func isKernelNop(b []byte) bool {
	var want string
	switch len(b) {
	case 3:
		want = "\x0f\x1f\x00"
	case 4:
		want = "\x0f\x1f\x40\x00"
	case 5:
		want = "\x0f\x1f\x44\x00\x00"
	case 6:
		want = "\x66\x0f\x1f\x44\x00\x00"
	case 7:
		want = "\x0f\x1f\x80\x00\x00\x00\x00"
	case 8:
		want = "\x0f\x1f\x84\x00\x00\x00\x00\x00"
	}
	return want != "" && string(b) == want
}
