// SPDX-License-Identifier: Apache-2.0

// Package target knows processes and ELF files: what a process has mapped, the functions, symbols and call
// sites of an ELF file, the length and kind of a machine instruction (x86-64 and arm64), and how to start and
// hold a command. It knows nothing about engines or eBPF.
package target

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/arch/arm64/arm64asm"
	"golang.org/x/arch/x86/x86asm"
)

// Arch is an instruction set, named as in Go.
type Arch string

// The supported instruction sets.
const (
	AMD64 Arch = "amd64"
	ARM64 Arch = "arm64"
)

// Class is how the kernel executes an instruction that carries a uprobe, which determines the cost of a hit.
// It describes a current kernel: multi-byte nops are emulated since 6.18 on x86-64, nop since 6.13 on arm64;
// older kernels step them.
type Class uint8

// From cheap to impossible.
const (
	ClassUnknown  Class = iota
	ClassNop5           // the 5-byte nop, rewritten to a call: no trap (x86-64, 6.18 on)
	ClassEmulated       // trap, then the kernel does what the instruction does
	ClassStepped        // trap, then single-stepped out of line: expensive, very expensive in a VM
	ClassRefused        // the kernel does not allow a uprobe there
)

func (c Class) String() string {
	switch c {
	case ClassNop5:
		return "nop5"
	case ClassEmulated:
		return "emulated"
	case ClassStepped:
		return "stepped"
	case ClassRefused:
		return "refused"
	}
	return "unknown"
}

// Kind is what an instruction does to the flow of control.
type Kind uint8

// Kinds of instruction.
const (
	Other Kind = iota
	Call
	CallIndirect
	Jump
	JumpIndirect
	CondJump
	Return
	Trap // never continues: ud2, hlt, int3, brk, udf
)

func (k Kind) String() string {
	names := [...]string{"other", "call", "indirect call", "jump", "indirect jump", "conditional jump",
		"return", "trap"}
	if int(k) < len(names) {
		return names[k]
	}
	return "unknown"
}

// Insn is one decoded instruction.
type Insn struct {
	Addr   uint64
	Len    int // bytes
	Kind   Kind
	Class  Class
	Target uint64 // where a direct branch goes; 0 for others
	// Data is the address of a memory operand relative to the instruction: RIP-relative
	// on x86-64 (read, written or only computed by lea), adr, adrp and literal loads on
	// arm64. 0: none.
	Data  uint64
	Arch  Arch
	Bytes []byte // the instruction itself; shares the memory of the code it came from
}

// End is the address of the next instruction.
func (i Insn) End() uint64 { return i.Addr + uint64(i.Len) }

// Errors of Decode.
var (
	// ErrBadInsn: the bytes are not an instruction.
	ErrBadInsn = errors.New("not an instruction")
	// ErrCut: the code ends inside the instruction.
	ErrCut = errors.New("the code ends inside an instruction")
)

// Decode decodes the instruction at the start of code, which is at address addr. The error is ErrBadInsn,
// ErrCut or an unknown arch.
func Decode(arch Arch, code []byte, addr uint64) (Insn, error) {
	switch arch {
	case AMD64:
		return decodeAMD64(code, addr)
	case ARM64:
		return decodeARM64(code, addr)
	}
	return Insn{}, fmt.Errorf("cannot decode instructions of %q", string(arch))
}

// Text is the instruction as text, in GNU syntax. Direct branches show the target's name if sym is given and
// knows one. Instructions that the disassembler does not know are shown as bytes.
func (i Insn) Text(sym func(addr uint64) string) string {
	text := ""
	switch i.Arch {
	case AMD64:
		text = i.textAMD64()
	case ARM64:
		if in, err := arm64asm.Decode(i.Bytes); err == nil {
			text = arm64asm.GNUSyntax(in)
		}
	}
	if i.Target != 0 {
		op, _, _ := strings.Cut(text, " ")
		if i.Arch == AMD64 {
			op = strings.TrimSuffix(op, "q") // callq, jmpq: call, jmp
		}
		if op == "" || op == ".byte" {
			op = i.Kind.String()
		}
		ops := i.operandsBeforeTarget(text)
		text = fmt.Sprintf("%s %s%#x", op, ops, i.Target)
		if sym != nil {
			if s := sym(i.Target); s != "" {
				text += " <" + s + ">"
			}
		}
		return text
	}
	if text == "" {
		return byteText(i.Bytes)
	}
	if i.Data != 0 {
		text += fmt.Sprintf(" # %#x", i.Data)
		if sym != nil {
			if s := sym(i.Data); s != "" {
				text += " <" + s + ">"
			}
		}
	}
	return text
}

// operandsBeforeTarget returns "x0, #3, " of "tbz x0, #3, .+0x8".
func (i Insn) operandsBeforeTarget(text string) string {
	if i.Arch != ARM64 {
		return ""
	}
	_, ops, _ := strings.Cut(text, " ")
	if k := strings.LastIndex(ops, ","); k >= 0 {
		return ops[:k] + ", "
	}
	return ""
}

func (i Insn) textAMD64() string {
	if len(i.Bytes) == 4 && [4]byte(i.Bytes) == [4]byte{0xf3, 0x0f, 0x1e, 0xfa} {
		return "endbr64"
	}
	in, err := x86asm.Decode(i.Bytes, 64)
	if err != nil || in.Len != i.Len {
		return ""
	}
	return x86asm.GNUSyntax(in, i.Addr, nil)
}

func byteText(b []byte) string {
	var s strings.Builder
	s.WriteString(".byte")
	for k, c := range b {
		if k > 0 {
			s.WriteByte(',')
		}
		fmt.Fprintf(&s, " 0x%02x", c)
	}
	return s.String()
}
