// SPDX-License-Identifier: Apache-2.0

#include "textflag.h"

// Readers: p+0, n+8, the sum at ret+16. Accumulators are integers, as an addition of integers is never slow.

// 128 bytes, 16 at a time
#define SSE4(at) \
	PADDQ (at)(SI), X0     \
	PADDQ (at+16)(SI), X1  \
	PADDQ (at+32)(SI), X2  \
	PADDQ (at+48)(SI), X3  \
	PADDQ (at+64)(SI), X4  \
	PADDQ (at+80)(SI), X5  \
	PADDQ (at+96)(SI), X6  \
	PADDQ (at+112)(SI), X7

// func readSSE2(p *byte, n int) uint64
TEXT ·readSSE2(SB), NOSPLIT, $0-24
	MOVQ p+0(FP), SI
	MOVQ n+8(FP), CX
	PXOR X0, X0
	PXOR X1, X1
	PXOR X2, X2
	PXOR X3, X3
	PXOR X4, X4
	PXOR X5, X5
	PXOR X6, X6
	PXOR X7, X7
	PCALIGN $64
sse:
	SSE4(0)
	SSE4(128)
	ADDQ $256, SI
	SUBQ $256, CX
	JGT  sse
	PADDQ X1, X0
	PADDQ X3, X2
	PADDQ X5, X4
	PADDQ X7, X6
	PADDQ X2, X0
	PADDQ X6, X4
	PADDQ X4, X0
	MOVHLPS X0, X1
	PADDQ X1, X0
	MOVQ X0, ret+16(FP)
	RET

#define AVX8(base, at) \
	VPADDQ (at)(base), Y0, Y0     \
	VPADDQ (at+32)(base), Y1, Y1  \
	VPADDQ (at+64)(base), Y2, Y2  \
	VPADDQ (at+96)(base), Y3, Y3  \
	VPADDQ (at+128)(base), Y4, Y4 \
	VPADDQ (at+160)(base), Y5, Y5 \
	VPADDQ (at+192)(base), Y6, Y6 \
	VPADDQ (at+224)(base), Y7, Y7

#define AVXCLEAR \
	VPXOR Y0, Y0, Y0 \
	VPXOR Y1, Y1, Y1 \
	VPXOR Y2, Y2, Y2 \
	VPXOR Y3, Y3, Y3 \
	VPXOR Y4, Y4, Y4 \
	VPXOR Y5, Y5, Y5 \
	VPXOR Y6, Y6, Y6 \
	VPXOR Y7, Y7, Y7

#define AVXSUM \
	VPADDQ Y1, Y0, Y0       \
	VPADDQ Y3, Y2, Y2       \
	VPADDQ Y5, Y4, Y4       \
	VPADDQ Y7, Y6, Y6       \
	VPADDQ Y2, Y0, Y0       \
	VPADDQ Y6, Y4, Y4       \
	VPADDQ Y4, Y0, Y0       \
	VEXTRACTI128 $1, Y0, X1 \
	VPADDQ X1, X0, X0       \
	VPSRLDQ $8, X0, X1      \
	VPADDQ X1, X0, X0

// func readAVX2(p *byte, n int) uint64
TEXT ·readAVX2(SB), NOSPLIT, $0-24
	MOVQ p+0(FP), SI
	MOVQ n+8(FP), CX
	AVXCLEAR
	PCALIGN $64
avx:
	AVX8(SI, 0)
	AVX8(SI, 256)
	ADDQ $512, SI
	SUBQ $512, CX
	JGT  avx
	AVXSUM
	MOVQ X0, ret+16(FP)
	VZEROUPPER
	RET

// Four places a quarter of n apart: a CPU has a prefetcher per page, and four of them ask for more at once.
// func readAVX2Four(p *byte, n int) uint64
TEXT ·readAVX2Four(SB), NOSPLIT, $0-24
	MOVQ p+0(FP), SI
	MOVQ n+8(FP), CX
	SHRQ $2, CX
	LEAQ (SI)(CX*1), DI
	LEAQ (DI)(CX*1), R8
	LEAQ (R8)(CX*1), R9
	AVXCLEAR
	PCALIGN $64
four:
	AVX8(SI, 0)
	AVX8(DI, 0)
	AVX8(R8, 0)
	AVX8(R9, 0)
	ADDQ $256, SI
	ADDQ $256, DI
	ADDQ $256, R8
	ADDQ $256, R9
	SUBQ $256, CX
	JGT  four
	AVXSUM
	MOVQ X0, ret+16(FP)
	VZEROUPPER
	RET

#define ZMM8(base, at) \
	VPADDQ (at)(base), Z0, Z0     \
	VPADDQ (at+64)(base), Z1, Z1  \
	VPADDQ (at+128)(base), Z2, Z2 \
	VPADDQ (at+192)(base), Z3, Z3 \
	VPADDQ (at+256)(base), Z4, Z4 \
	VPADDQ (at+320)(base), Z5, Z5 \
	VPADDQ (at+384)(base), Z6, Z6 \
	VPADDQ (at+448)(base), Z7, Z7

#define ZMMCLEAR \
	VPXORQ Z0, Z0, Z0 \
	VPXORQ Z1, Z1, Z1 \
	VPXORQ Z2, Z2, Z2 \
	VPXORQ Z3, Z3, Z3 \
	VPXORQ Z4, Z4, Z4 \
	VPXORQ Z5, Z5, Z5 \
	VPXORQ Z6, Z6, Z6 \
	VPXORQ Z7, Z7, Z7

#define ZMMSUM \
	VPADDQ Z1, Z0, Z0           \
	VPADDQ Z3, Z2, Z2           \
	VPADDQ Z5, Z4, Z4           \
	VPADDQ Z7, Z6, Z6           \
	VPADDQ Z2, Z0, Z0           \
	VPADDQ Z6, Z4, Z4           \
	VPADDQ Z4, Z0, Z0           \
	VEXTRACTI64X4 $1, Z0, Y1    \
	VPADDQ Y1, Y0, Y0           \
	VEXTRACTI128 $1, Y0, X1     \
	VPADDQ X1, X0, X0           \
	VPSRLDQ $8, X0, X1          \
	VPADDQ X1, X0, X0

// func readAVX512(p *byte, n int) uint64
TEXT ·readAVX512(SB), NOSPLIT, $0-24
	MOVQ p+0(FP), SI
	MOVQ n+8(FP), CX
	ZMMCLEAR
	PCALIGN $64
zmm:
	ZMM8(SI, 0)
	ADDQ $512, SI
	SUBQ $512, CX
	JGT  zmm
	ZMMSUM
	MOVQ X0, ret+16(FP)
	VZEROUPPER
	RET

// func readAVX512Four(p *byte, n int) uint64
TEXT ·readAVX512Four(SB), NOSPLIT, $0-24
	MOVQ p+0(FP), SI
	MOVQ n+8(FP), CX
	SHRQ $2, CX
	LEAQ (SI)(CX*1), DI
	LEAQ (DI)(CX*1), R8
	LEAQ (R8)(CX*1), R9
	ZMMCLEAR
	PCALIGN $64
four:
	ZMM8(SI, 0)
	ZMM8(DI, 0)
	ZMM8(R8, 0)
	ZMM8(R9, 0)
	ADDQ $512, SI
	ADDQ $512, DI
	ADDQ $512, R8
	ADDQ $512, R9
	SUBQ $512, CX
	JGT  four
	ZMMSUM
	MOVQ X0, ret+16(FP)
	VZEROUPPER
	RET

// func spinAdd(n int) uint64
//
// 32 additions of one register to another per turn, each needing the one before. Not additions of a constant:
// some CPUs carry those out at renaming, several per cycle.
TEXT ·spinAdd(SB), NOSPLIT, $0-16
	MOVQ n+0(FP), CX
	MOVQ $1, AX
	MOVQ $3, BX
	PCALIGN $64
spin:
#define ADD8 \
	ADDQ BX, AX \
	ADDQ BX, AX \
	ADDQ BX, AX \
	ADDQ BX, AX \
	ADDQ BX, AX \
	ADDQ BX, AX \
	ADDQ BX, AX \
	ADDQ BX, AX
	ADD8
	ADD8
	ADD8
	ADD8
	SUBQ $32, CX
	JGT  spin
	MOVQ AX, ret+8(FP)
	RET
