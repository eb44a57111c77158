// SPDX-License-Identifier: Apache-2.0

package target

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Lengths are as binutils' assembler makes them; classes as arch/x86/kernel/uprobes.c says.
var amd64Corpus = []struct {
	hex    string
	kind   Kind
	class  Class
	target uint64 // with the instruction at 0x1000
	data   uint64
}{
	{"e8 0b 00 00 00", Call, ClassEmulated, 0x1010, 0},
	{"f2 e8 0a 00 00 00", Call, ClassEmulated, 0x1010, 0},       // bnd call
	{"66 e8 0b 00 00 00", Call, ClassRefused, 0x1011, 0},        // data16 call
	{"66 66 48 e8 00 00 00 00", Call, ClassRefused, 0x1008, 0},  // of TLS general dynamic
	{"eb fe", Jump, ClassEmulated, 0x1000, 0},                   // jmp .
	{"e9 fb ff ff ff", Jump, ClassEmulated, 0x1000, 0},          // jmp .
	{"74 10", CondJump, ClassEmulated, 0x1012, 0},               // je
	{"0f 8f 00 01 00 00", CondJump, ClassEmulated, 0x1106, 0},   // jg
	{"3e 0f 84 00 00 00 00", CondJump, ClassRefused, 0x1007, 0}, // je,pt
	{"e3 10", CondJump, ClassStepped, 0x1012, 0},                // jrcxz
	{"e2 fe", CondJump, ClassStepped, 0x1000, 0},                // loop .
	{"c3", Return, ClassStepped, 0, 0},
	{"f3 c3", Return, ClassStepped, 0, 0},
	{"c2 08 00", Return, ClassStepped, 0, 0},
	{"0f 0b", Trap, ClassStepped, 0, 0},
	{"f4", Trap, ClassRefused, 0, 0},
	{"cc", Trap, ClassRefused, 0, 0},
	{"0f b9 c0", Trap, ClassStepped, 0, 0},                          // ud1
	{"ff d0", CallIndirect, ClassStepped, 0, 0},                     // call *%rax
	{"ff 15 f9 0f 00 00", CallIndirect, ClassStepped, 0, 0x1fff},    // call *0xff9(%rip)
	{"41 ff 54 24 10", CallIndirect, ClassStepped, 0, 0},            // call *0x10(%r12)
	{"ff e0", JumpIndirect, ClassStepped, 0, 0},                     // jmp *%rax
	{"3e ff e0", JumpIndirect, ClassRefused, 0, 0},                  // notrack jmp *%rax
	{"f2 ff 25 f9 0f 00 00", JumpIndirect, ClassStepped, 0, 0x2000}, // bnd jmp *slot(%rip)
	{"55", Other, ClassEmulated, 0, 0},                              // push %rbp
	{"41 57", Other, ClassEmulated, 0, 0},                           // push %r15
	{"40 55", Other, ClassStepped, 0, 0},                            // rex push: only 41 is known
	{"66 55", Other, ClassStepped, 0, 0},                            // pushw
	{"5d", Other, ClassStepped, 0, 0},                               // pop %rbp
	{"90", Other, ClassEmulated, 0, 0},                              // nop
	{"9c", Other, ClassRefused, 0, 0},                               // pushf
	{"0f 1f 84 00 00 00 00 00", Other, ClassEmulated, 0, 0},
	{"0f 1f c0", Other, ClassStepped, 0, 0},
	{"f3 0f 1f 00", Other, ClassStepped, 0, 0},
	{"c5 f9 eb c1", Other, ClassRefused, 0, 0},                        // vpor: eb is jmp
	{"c5 f8 90 c9", Other, ClassRefused, 0, 0},                        // kmovw: 90 is nop
	{"c5 f8 28 c1", Other, ClassStepped, 0, 0},                        // vmovaps
	{"66 90", Other, ClassEmulated, 0, 0},                             // xchg %ax,%ax
	{"f3 90", Other, ClassEmulated, 0, 0},                             // pause
	{"41 90", Other, ClassRefused, 0, 0},                              // xchg %r8,%rax
	{"0f 1f 00", Other, ClassEmulated, 0, 0},                          // nopl
	{"0f 1f 40 00", Other, ClassEmulated, 0, 0},                       //
	{"0f 1f 44 00 00", Other, ClassNop5, 0, 0},                        //
	{"66 0f 1f 44 00 00", Other, ClassEmulated, 0, 0},                 //
	{"0f 1f 80 00 00 00 00", Other, ClassEmulated, 0, 0},              //
	{"66 0f 1f 84 00 00 00 00 00", Other, ClassStepped, 0, 0},         //
	{"66 2e 0f 1f 84 00 00 00 00 00", Other, ClassRefused, 0, 0},      // cs nopw
	{"66 66 2e 0f 1f 84 00 00 00 00 00", Other, ClassRefused, 0, 0},   //
	{"f3 0f 1e fa", Other, ClassStepped, 0, 0},                        // endbr64
	{"48 83 ec 08", Other, ClassStepped, 0, 0},                        // sub
	{"48 81 ec 00 10 00 00", Other, ClassStepped, 0, 0},               // sub imm32
	{"66 81 c1 34 12", Other, ClassStepped, 0, 0},                     // add $0x1234,%cx
	{"66 48 81 c1 34 12 00 00", Other, ClassStepped, 0, 0},            // REX.W beats 66
	{"48 8b 05 f9 0f 00 00", Other, ClassStepped, 0, 0x2000},          // mov 0xff9(%rip),%rax
	{"48 8d 3d f9 ff ff ff", Other, ClassStepped, 0, 0x1000},          // lea -7(%rip),%rdi
	{"c7 05 f6 0f 00 00 01 00 00 00", Other, ClassStepped, 0, 0x2000}, // movl $1,x(%rip)
	{"66 c7 05 f7 0f 00 00 01 00", Other, ClassStepped, 0, 0x2000},    // movw $1,x(%rip)
	{"48 b8 88 77 66 55 44 33 22 11", Other, ClassStepped, 0, 0},      // movabs
	{"b8 01 00 00 00", Other, ClassStepped, 0, 0},                     // mov
	{"66 b8 01 00", Other, ClassStepped, 0, 0},                        // mov ax
	{"48 a1 88 77 66 55 44 33 22 11", Other, ClassStepped, 0, 0},      // movabs mem
	{"67 a1 44 33 22 11", Other, ClassStepped, 0, 0},                  // addr32 mov
	{"c8 10 00 01", Other, ClassStepped, 0, 0},                        // enter
	{"f6 c1 01", Other, ClassStepped, 0, 0},                           // test $1,%cl
	{"f6 d1", Other, ClassStepped, 0, 0},                              // not %cl
	{"f7 c1 01 00 00 00", Other, ClassStepped, 0, 0},                  // test $1,%ecx
	{"66 f7 c1 01 00", Other, ClassStepped, 0, 0},                     // test $1,%cx
	{"48 f7 f1", Other, ClassStepped, 0, 0},                           // div
	{"48 63 c7", Other, ClassStepped, 0, 0},                           // movslq
	{"64 48 8b 04 25 28 00 00 00", Other, ClassStepped, 0, 0},         // mov %fs:0x28,%rax
	{"f0 48 0f b1 0a", Other, ClassRefused, 0, 0},                     // lock cmpxchg
	{"f0 ff 07", Other, ClassRefused, 0, 0},                           // lock incl
	{"8e d0", Other, ClassRefused, 0, 0},                              // mov %eax,%ss
	{"0f 05", Other, ClassStepped, 0, 0},                              // syscall
	{"0f 20 c0", Other, ClassStepped, 0, 0},                           // mov %cr0,%rax
	{"0f 70 c0 1b", Other, ClassStepped, 0, 0},                        // pshufw
	{"0f 77", Other, ClassStepped, 0, 0},                              // emms
	{"66 0f 38 00 c1", Other, ClassStepped, 0, 0},                     // pshufb
	{"66 0f 3a 0f c1 08", Other, ClassStepped, 0, 0},                  // palignr
	{"f2 0f 78 c1 04 04", Other, ClassStepped, 0, 0},                  // insertq
	{"0f 0f c1 b4", Other, ClassStepped, 0, 0},                        // pfmul (3DNow!)
	{"f3 48 0f b8 c1", Other, ClassStepped, 0, 0},                     // popcnt
	{"c5 f8 77", Other, ClassRefused, 0, 0},                           // vzeroupper
	{"c5 f9 6f 05 f8 0f 00 00", Other, ClassRefused, 0, 0x2000},       // vmovdqa x(%rip),%xmm0
	{"c5 f9 70 c1 1b", Other, ClassRefused, 0, 0},                     // vpshufd
	{"c4 e2 7d 18 05 f7 0f 00 00", Other, ClassStepped, 0, 0x2000},    // vbroadcastss x(%rip)
	{"c4 e3 7d 19 c1 01", Other, ClassStepped, 0, 0},                  // vextractf128
	{"c4 e2 70 f2 c2", Other, ClassStepped, 0, 0},                     // andn
	{"62 f1 7c 48 28 05 f6 0f 00 00", Other, ClassStepped, 0, 0x2000}, // vmovaps x(%rip),%zmm0
	// vmovaps 0x40(%rax),%zmm0
	{"62 f1 7c 48 28 40 01", Other, ClassStepped, 0, 0},
	{"62 f3 7d 48 1b c1 01", Other, ClassStepped, 0, 0}, // vextractf32x8
	{"62 f5 74 48 58 c2", Other, ClassStepped, 0, 0},    // vaddph (map 5)
	{"62 f6 75 48 98 c2", Other, ClassStepped, 0, 0},    // vfmadd132ph (map 6)
	{"c4 e2 78 49 c0", Other, ClassRefused, 0, 0},       // tilerelease
	{"8f e8 78 c0 c1 04", Other, ClassRefused, 0, 0},    // vprotb $4 (XOP map 8)
	{"8f e9 78 01 c9", Other, ClassRefused, 0, 0},       // XOP map 9
	// bextr $imm32 (XOP map 10)
	{"8f ea 78 10 c1 04 03 02 01", Other, ClassRefused, 0, 0},
	{"8f 00", Other, ClassStepped, 0, 0},                                            // pop (%rax)
	{"d5 00 a1 88 77 66 55 44 33 22 11", Jump, ClassRefused, 0x1122334455667788, 0}, // jmpabs
	{"2e 2e 2e 2e 2e 2e 2e 2e 2e 2e 2e 2e 2e 2e 90", Other, ClassRefused, 0, 0},     // 15 bytes, the most
}

func TestAMD64Corpus(t *testing.T) {
	for _, c := range amd64Corpus {
		b := unhex(t, c.hex)
		in, err := Decode(AMD64, append(b, 0x90, 0x90, 0x90), 0x1000)
		if err != nil {
			t.Errorf("%s: %v", c.hex, err)
			continue
		}
		if in.Len != len(b) || in.Kind != c.kind || in.Class != c.class || in.Target != c.target ||
			in.Data != c.data {
			t.Errorf("%s: %d bytes, %v, %v, target %#x, data %#x; want %d, %v, %v, %#x, %#x",
				c.hex, in.Len, in.Kind, in.Class, in.Target, in.Data, len(b), c.kind, c.class, c.target,
				c.data)
		}
		if !bytes.Equal(in.Bytes, b) || in.End() != 0x1000+uint64(len(b)) || in.Text(nil) == "" {
			t.Errorf("%s: bytes % x, end %#x, text %q", c.hex, in.Bytes, in.End(), in.Text(nil))
		}
		for n := range b { // every beginning of it is cut
			if in, err := Decode(AMD64, b[:n], 0x1000); !errors.Is(err, ErrCut) {
				t.Errorf("% x of %s: %v, %v; want ErrCut", b[:n], c.hex, in, err)
			}
		}
	}
}

func TestAMD64Bad(t *testing.T) {
	for _, s := range []string{
		"06", "60", "82 00 00", "9a 00 00 00 00 00 00", "ea 00", "d6", "ce", "0f 04", "0f 0a", "0f 39",
		"0f 24 c0",
		"c4 e0 78 10 c0", // VEX map 0
		"2e 2e 2e 2e 2e 2e 2e 2e 2e 2e 2e 2e 2e 2e 2e 90",             // 16 bytes
		"66 66 66 66 66 66 66 66 48 81 05 00 00 00 00 00 00 00 00 00", // too long
	} {
		if in, err := Decode(AMD64, unhex(t, s), 0); !errors.Is(err, ErrBadInsn) {
			t.Errorf("%s: %+v, %v; want ErrBadInsn", s, in, err)
		}
	}
	if _, err := Decode("mips", []byte{0x90}, 0); err == nil {
		t.Error("an unknown architecture was decoded")
	}
}

// TestNop5AtPageEnd: the kernel does not rewrite a nop that lies in two pages.
func TestNop5AtPageEnd(t *testing.T) {
	nop := []byte{0x0f, 0x1f, 0x44, 0, 0}
	for _, c := range []struct {
		addr uint64
		want Class
	}{{0x1ffb, ClassNop5}, {0x1ffc, ClassEmulated}, {0x1fff, ClassEmulated}, {0x2000, ClassNop5}} {
		if in, err := Decode(AMD64, nop, c.addr); err != nil || in.Class != c.want {
			t.Errorf("at %#x: %v, %v; want %v", c.addr, in.Class, err, c.want)
		}
	}
}

func TestARM64(t *testing.T) {
	const at = 0x10000
	for _, c := range []struct {
		word   uint32
		name   string
		kind   Kind
		class  Class
		target uint64
		data   uint64
	}{
		{0x94000004, "bl", Call, ClassEmulated, at + 16, 0},
		{0x97ffffff, "bl -4", Call, ClassEmulated, at - 4, 0},
		{0x14000002, "b", Jump, ClassEmulated, at + 8, 0},
		{0x54000040, "b.eq", CondJump, ClassEmulated, at + 8, 0},
		{0x54ffffeb, "b.lt -4", CondJump, ClassEmulated, at - 4, 0},
		{0x54000050, "bc.eq", CondJump, ClassRefused, at + 8, 0},
		{0x34000040, "cbz w0", CondJump, ClassEmulated, at + 8, 0},
		{0xb5ffffe1, "cbnz x1 -4", CondJump, ClassEmulated, at - 4, 0},
		{0x36180040, "tbz w0, #3", CondJump, ClassEmulated, at + 8, 0},
		{0xb7ffffe0, "tbnz x0, #63, -4", CondJump, ClassEmulated, at - 4, 0},
		{0x10000040, "adr", Other, ClassEmulated, 0, at + 8},
		{0x30ffffe0, "adr -3", Other, ClassEmulated, 0, at - 3},
		{0x90000010, "adrp x16, 0", Other, ClassEmulated, 0, at},
		{0xf0ffffe1, "adrp x1, -1", Other, ClassEmulated, 0, at - 0x1000},
		{0x58000040, "ldr x0, lit", Other, ClassRefused, 0, at + 8},
		{0x98000040, "ldrsw x0, lit", Other, ClassRefused, 0, at + 8},
		{0x1c000040, "ldr s0, lit", Other, ClassRefused, 0, at + 8},
		{0xd61f0200, "br x16", JumpIndirect, ClassEmulated, 0, 0},
		{0xd63f0000, "blr x0", CallIndirect, ClassEmulated, 0, 0},
		{0xd65f03c0, "ret", Return, ClassEmulated, 0, 0},
		{0xd65f0bff, "retaa", Return, ClassRefused, 0, 0},
		{0xd73f0800, "blraa x0, x0", CallIndirect, ClassRefused, 0, 0},
		{0xd503201f, "nop", Other, ClassEmulated, 0, 0},
		{0xd503245f, "bti c", Other, ClassStepped, 0, 0},
		{0xd503233f, "paciasp", Other, ClassStepped, 0, 0},
		{0xd50323bf, "autiasp", Other, ClassRefused, 0, 0},
		{0xd503205f, "wfe", Other, ClassRefused, 0, 0},
		{0xd4200000, "brk #0", Trap, ClassRefused, 0, 0},
		{0xd4000001, "svc #0", Other, ClassRefused, 0, 0},
		{0x00000000, "udf #0", Trap, ClassRefused, 0, 0},
		{0xd53bd040, "mrs x0, tpidr_el0", Other, ClassStepped, 0, 0},
		{0xd53b4220, "mrs x0, daif", Other, ClassRefused, 0, 0},
		{0xd51bd040, "msr tpidr_el0, x0", Other, ClassRefused, 0, 0},
		{0xd5033bbf, "dmb ish", Other, ClassStepped, 0, 0},
		{0xc85f7c00, "ldxr x0, [x0]", Other, ClassRefused, 0, 0},
		{0xc8007c20, "stxr w0, x0, [x1]", Other, ClassRefused, 0, 0},
		{0xc8dffc00, "ldar x0, [x0]", Other, ClassStepped, 0, 0},
		{0xa9bf7bfd, "stp x29, x30, [sp, #-16]!", Other, ClassStepped, 0, 0},
		{0xf9400211, "ldr x17, [x16]", Other, ClassStepped, 0, 0},
		{0xf8e00020, "ldaddal x0, x0, [x1]", Other, ClassStepped, 0, 0},
		{0x4ea11c20, "mov v0.16b, v1.16b", Other, ClassStepped, 0, 0},
	} {
		b := binary.LittleEndian.AppendUint32(nil, c.word)
		in, err := Decode(ARM64, b, at)
		if err != nil || in.Len != 4 || in.Kind != c.kind || in.Class != c.class || in.Target != c.target ||
			in.Data != c.data {
			t.Errorf("%s %#x: %v %v target %#x data %#x %v; want %v %v %#x %#x", c.name, c.word, in.Kind,
				in.Class, in.Target, in.Data, err,
				c.kind, c.class, c.target, c.data)
		}
		if in.Text(nil) == "" {
			t.Errorf("%s: no text", c.name)
		}
	}
	if _, err := Decode(ARM64, []byte{1, 2, 3}, 0); !errors.Is(err, ErrCut) {
		t.Errorf("three bytes: %v", err)
	}
}

func TestText(t *testing.T) {
	sym := func(a uint64) string {
		if a == 0x1010 {
			return "callee"
		}
		return ""
	}
	for _, c := range []struct {
		arch Arch
		hex  string
		want string
	}{
		{AMD64, "e8 0b 00 00 00", "call 0x1010 <callee>"},
		{AMD64, "74 10", "je 0x1012"},
		{AMD64, "55", "push %rbp"},
		{AMD64, "f3 0f 1e fa", "endbr64"},
		{AMD64, "48 8d 3d 09 00 00 00", "lea 0x9(%rip),%rdi # 0x1010 <callee>"},
		{AMD64, "8f e9 78 01 c9", ".byte 0x8f, 0xe9, 0x78, 0x01, 0xc9"},
		{ARM64, "04 00 00 94", "bl 0x1010 <callee>"},
		{ARM64, "80 00 00 b4", "cbz x0, 0x1010 <callee>"},
		{ARM64, "80 00 18 36", "tbz w0, #3, 0x1010 <callee>"},
		{ARM64, "80 00 00 54", "b.eq 0x1010 <callee>"},
		{ARM64, "fd 7b bf a9", "stp x29, x30, [sp,#-16]!"},
	} {
		in, err := Decode(c.arch, unhex(t, c.hex), 0x1000)
		if err != nil {
			t.Errorf("%s: %v", c.hex, err)
		} else if got := in.Text(sym); got != c.want {
			t.Errorf("%s: %q, want %q", c.hex, got, c.want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, c := range amd64Corpus {
		f.Add(unhex(f, c.hex))
	}
	f.Add([]byte{0x62, 0xf1, 0x7c, 0x48, 0x28})
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, arch := range []Arch{AMD64, ARM64} {
			in, err := Decode(arch, b, 0x1000)
			if err != nil {
				continue
			}
			if in.Len <= 0 || in.Len > len(b) || in.Len > maxInsnAMD64 || len(in.Bytes) != in.Len {
				t.Fatalf("%s % x: %d bytes", arch, b, in.Len)
			}
			if in.Class == ClassUnknown || in.Class > ClassRefused || in.Kind > Trap || in.Target != 0 &&
				in.Kind != Call && in.Kind != Jump && in.Kind != CondJump {
				t.Fatalf("%s % x: %+v", arch, b, in)
			}
			_ = in.Text(nil)
			// What follows an instruction does not change it.
			again, err := Decode(arch, append(bytes.Clone(in.Bytes), 0xff, 0x0f, 0x66), 0x1000)
			if err != nil || again.Len != in.Len || again.Kind != in.Kind || again.Class != in.Class ||
				again.Target != in.Target || again.Data != in.Data {
				t.Fatalf("%s % x: %+v, then %+v, %v", arch, in.Bytes, in, again, err)
			}
		}
	})
}
