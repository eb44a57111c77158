// SPDX-License-Identifier: Apache-2.0

#include "textflag.h"

// Kernels of instructions that Go's assembler does not know: AVX-512 BF16 and AMX. Encodings: Intel SDM, volume 2, as LLVM's
// assembler writes them. n+0, in+8 (a, and b 1024 bytes behind it), out+16.

// func dotBF16(n int, in *operands, out *results)
//
// vdpbf16ps: pairs of bfloat16 multiplied and added to a float32. EVEX.512.F3.0F38.W0 52 /r
TEXT ·dotBF16(SB), NOSPLIT, $0-24
	MOVQ n+0(FP), CX
	MOVQ in+8(FP), SI
	MOVQ out+16(FP), DI
	VMOVUPS 1024(SI), Z30
	VMOVUPS (SI), Z31
	VPXORQ Z0, Z0, Z0
	VPXORQ Z1, Z1, Z1
	VPXORQ Z2, Z2, Z2
	VPXORQ Z3, Z3, Z3
	VPXORQ Z4, Z4, Z4
	VPXORQ Z5, Z5, Z5
	VPXORQ Z6, Z6, Z6
	VPXORQ Z7, Z7, Z7
	VPXORQ Z8, Z8, Z8
	VPXORQ Z9, Z9, Z9
	VPXORQ Z10, Z10, Z10
	VPXORQ Z11, Z11, Z11
	PCALIGN $64
loop:
	BYTE $0x62; BYTE $0x92; BYTE $0x06; BYTE $0x40; BYTE $0x52; BYTE $0xC6 // vdpbf16ps zmm0, zmm31, zmm30
	BYTE $0x62; BYTE $0x92; BYTE $0x06; BYTE $0x40; BYTE $0x52; BYTE $0xCE // vdpbf16ps zmm1, zmm31, zmm30
	BYTE $0x62; BYTE $0x92; BYTE $0x06; BYTE $0x40; BYTE $0x52; BYTE $0xD6 // vdpbf16ps zmm2, zmm31, zmm30
	BYTE $0x62; BYTE $0x92; BYTE $0x06; BYTE $0x40; BYTE $0x52; BYTE $0xDE // vdpbf16ps zmm3, zmm31, zmm30
	BYTE $0x62; BYTE $0x92; BYTE $0x06; BYTE $0x40; BYTE $0x52; BYTE $0xE6 // vdpbf16ps zmm4, zmm31, zmm30
	BYTE $0x62; BYTE $0x92; BYTE $0x06; BYTE $0x40; BYTE $0x52; BYTE $0xEE // vdpbf16ps zmm5, zmm31, zmm30
	BYTE $0x62; BYTE $0x92; BYTE $0x06; BYTE $0x40; BYTE $0x52; BYTE $0xF6 // vdpbf16ps zmm6, zmm31, zmm30
	BYTE $0x62; BYTE $0x92; BYTE $0x06; BYTE $0x40; BYTE $0x52; BYTE $0xFE // vdpbf16ps zmm7, zmm31, zmm30
	BYTE $0x62; BYTE $0x12; BYTE $0x06; BYTE $0x40; BYTE $0x52; BYTE $0xC6 // vdpbf16ps zmm8, zmm31, zmm30
	BYTE $0x62; BYTE $0x12; BYTE $0x06; BYTE $0x40; BYTE $0x52; BYTE $0xCE // vdpbf16ps zmm9, zmm31, zmm30
	BYTE $0x62; BYTE $0x12; BYTE $0x06; BYTE $0x40; BYTE $0x52; BYTE $0xD6 // vdpbf16ps zmm10, zmm31, zmm30
	BYTE $0x62; BYTE $0x12; BYTE $0x06; BYTE $0x40; BYTE $0x52; BYTE $0xDE // vdpbf16ps zmm11, zmm31, zmm30
	DECQ CX
	JGT  loop
	VMOVUPS Z0, (DI)
	VMOVUPS Z1, 64(DI)
	VMOVUPS Z2, 128(DI)
	VMOVUPS Z3, 192(DI)
	VMOVUPS Z4, 256(DI)
	VMOVUPS Z5, 320(DI)
	VMOVUPS Z6, 384(DI)
	VMOVUPS Z7, 448(DI)
	VMOVUPS Z8, 512(DI)
	VMOVUPS Z9, 576(DI)
	VMOVUPS Z10, 640(DI)
	VMOVUPS Z11, 704(DI)
	VZEROUPPER
	RET

// Tiles are 16 rows of 64 bytes: tmm4 is a, tmm5 b, tmm0 to tmm3 add up (a product takes 52 cycles and can begin every 16,
// Intel's optimization manual, 20.5.5).
DATA tileConfig<>+0(SB)/8, $1 // palette 1
DATA tileConfig<>+8(SB)/8, $0
DATA tileConfig<>+16(SB)/8, $0x0040004000400040 // bytes a row
DATA tileConfig<>+24(SB)/8, $0x0000000000400040
DATA tileConfig<>+32(SB)/8, $0
DATA tileConfig<>+40(SB)/8, $0
DATA tileConfig<>+48(SB)/8, $0x0000101010101010 // rows
DATA tileConfig<>+56(SB)/8, $0
GLOBL tileConfig<>(SB), RODATA|NOPTR, $64

#define TILES_BEGIN \
	MOVQ n+0(FP), CX            \
	MOVQ in+8(FP), SI           \
	LEAQ 1024(SI), R8           \
	MOVQ out+16(FP), DI         \
	LEAQ tileConfig<>(SB), AX   \
	MOVQ $64, BX                \
	/* ldtilecfg (%rax) */ BYTE $0xC4; BYTE $0xE2; BYTE $0x78; BYTE $0x49; BYTE $0x00 \
	/* tilezero %tmm0 */ BYTE $0xC4; BYTE $0xE2; BYTE $0x7B; BYTE $0x49; BYTE $0xC0 \
	/* tilezero %tmm1 */ BYTE $0xC4; BYTE $0xE2; BYTE $0x7B; BYTE $0x49; BYTE $0xC8 \
	/* tilezero %tmm2 */ BYTE $0xC4; BYTE $0xE2; BYTE $0x7B; BYTE $0x49; BYTE $0xD0 \
	/* tilezero %tmm3 */ BYTE $0xC4; BYTE $0xE2; BYTE $0x7B; BYTE $0x49; BYTE $0xD8 \
	/* tileloadd (%rsi,%rbx,1),%tmm4 */ BYTE $0xC4; BYTE $0xE2; BYTE $0x7B; BYTE $0x4B; BYTE $0x24; BYTE $0x1E \
	/* tileloadd (%r8,%rbx,1),%tmm5 */ BYTE $0xC4; BYTE $0xC2; BYTE $0x7B; BYTE $0x4B; BYTE $0x2C; BYTE $0x18

#define TILES_END \
	/* tilestored %tmm0,(%rdi,%rbx,1) */ BYTE $0xC4; BYTE $0xE2; BYTE $0x7A; BYTE $0x4B; BYTE $0x04; BYTE $0x1F \
	ADDQ $1024, DI \
	/* tilestored %tmm1,(%rdi,%rbx,1) */ BYTE $0xC4; BYTE $0xE2; BYTE $0x7A; BYTE $0x4B; BYTE $0x0C; BYTE $0x1F \
	ADDQ $1024, DI \
	/* tilestored %tmm2,(%rdi,%rbx,1) */ BYTE $0xC4; BYTE $0xE2; BYTE $0x7A; BYTE $0x4B; BYTE $0x14; BYTE $0x1F \
	ADDQ $1024, DI \
	/* tilestored %tmm3,(%rdi,%rbx,1) */ BYTE $0xC4; BYTE $0xE2; BYTE $0x7A; BYTE $0x4B; BYTE $0x1C; BYTE $0x1F \
	/* tilerelease */ BYTE $0xC4; BYTE $0xE2; BYTE $0x78; BYTE $0x49; BYTE $0xC0

// func tilesInt8(n int, in *operands, out *results)
TEXT ·tilesInt8(SB), NOSPLIT, $0-24
	TILES_BEGIN
	PCALIGN $64
loop:
	BYTE $0xC4; BYTE $0xE2; BYTE $0x53; BYTE $0x5E; BYTE $0xC4 // tdpbssd tmm0, tmm4, tmm5
	BYTE $0xC4; BYTE $0xE2; BYTE $0x53; BYTE $0x5E; BYTE $0xCC // tdpbssd tmm1, tmm4, tmm5
	BYTE $0xC4; BYTE $0xE2; BYTE $0x53; BYTE $0x5E; BYTE $0xD4 // tdpbssd tmm2, tmm4, tmm5
	BYTE $0xC4; BYTE $0xE2; BYTE $0x53; BYTE $0x5E; BYTE $0xDC // tdpbssd tmm3, tmm4, tmm5
	DECQ CX
	JGT  loop
	TILES_END
	RET

// func tilesBF16(n int, in *operands, out *results)
TEXT ·tilesBF16(SB), NOSPLIT, $0-24
	TILES_BEGIN
	PCALIGN $64
loop:
	BYTE $0xC4; BYTE $0xE2; BYTE $0x52; BYTE $0x5C; BYTE $0xC4 // tdpbf16ps tmm0, tmm4, tmm5
	BYTE $0xC4; BYTE $0xE2; BYTE $0x52; BYTE $0x5C; BYTE $0xCC // tdpbf16ps tmm1, tmm4, tmm5
	BYTE $0xC4; BYTE $0xE2; BYTE $0x52; BYTE $0x5C; BYTE $0xD4 // tdpbf16ps tmm2, tmm4, tmm5
	BYTE $0xC4; BYTE $0xE2; BYTE $0x52; BYTE $0x5C; BYTE $0xDC // tdpbf16ps tmm3, tmm4, tmm5
	DECQ CX
	JGT  loop
	TILES_END
	RET
