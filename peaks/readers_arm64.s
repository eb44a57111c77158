// SPDX-License-Identifier: Apache-2.0

#include "textflag.h"

// Readers: p+0, n+8, the sum at ret+16.

#define CLEAR8 \
	VEOR V0.B16, V0.B16, V0.B16 \
	VEOR V1.B16, V1.B16, V1.B16 \
	VEOR V2.B16, V2.B16, V2.B16 \
	VEOR V3.B16, V3.B16, V3.B16 \
	VEOR V4.B16, V4.B16, V4.B16 \
	VEOR V5.B16, V5.B16, V5.B16 \
	VEOR V6.B16, V6.B16, V6.B16 \
	VEOR V7.B16, V7.B16, V7.B16

// 128 bytes from at, which moves on
#define ADD128(at) \
	VLD1.P 64(at), [V16.D2, V17.D2, V18.D2, V19.D2] \
	VLD1.P 64(at), [V20.D2, V21.D2, V22.D2, V23.D2] \
	VADD   V16.D2, V0.D2, V0.D2                     \
	VADD   V17.D2, V1.D2, V1.D2                     \
	VADD   V18.D2, V2.D2, V2.D2                     \
	VADD   V19.D2, V3.D2, V3.D2                     \
	VADD   V20.D2, V4.D2, V4.D2                     \
	VADD   V21.D2, V5.D2, V5.D2                     \
	VADD   V22.D2, V6.D2, V6.D2                     \
	VADD   V23.D2, V7.D2, V7.D2

#define SUM8 \
	VADD V1.D2, V0.D2, V0.D2 \
	VADD V3.D2, V2.D2, V2.D2 \
	VADD V5.D2, V4.D2, V4.D2 \
	VADD V7.D2, V6.D2, V6.D2 \
	VADD V2.D2, V0.D2, V0.D2 \
	VADD V6.D2, V4.D2, V4.D2 \
	VADD V4.D2, V0.D2, V0.D2 \
	VMOV V0.D[0], R5         \
	VMOV V0.D[1], R6         \
	ADD  R5, R6, R5

// func readNEON(p *byte, n int) uint64
TEXT ·readNEON(SB), NOSPLIT, $0-24
	MOVD p+0(FP), R0
	MOVD n+8(FP), R1
	CLEAR8
	PCALIGN $64
loop:
	ADD128(R0)
	ADD128(R0)
	SUBS $256, R1
	BGT  loop
	SUM8
	MOVD R5, ret+16(FP)
	RET

// Four places a quarter of n apart, see the readers for x86-64.
// func readNEONFour(p *byte, n int) uint64
TEXT ·readNEONFour(SB), NOSPLIT, $0-24
	MOVD p+0(FP), R0
	MOVD n+8(FP), R1
	LSR  $2, R1
	ADD  R1, R0, R2
	ADD  R1, R2, R3
	ADD  R1, R3, R4
	CLEAR8
	PCALIGN $64
loop:
	ADD128(R0)
	ADD128(R2)
	ADD128(R3)
	ADD128(R4)
	SUBS $128, R1
	BGT  loop
	SUM8
	MOVD R5, ret+16(FP)
	RET

// func spinAdd(n int) uint64
//
// 32 additions per turn, each needing the one before.
TEXT ·spinAdd(SB), NOSPLIT, $0-16
	MOVD n+0(FP), R1
	MOVD $1, R0
	MOVD $3, R2
	PCALIGN $64
#define ADD8 \
	ADD R2, R0, R0 \
	ADD R2, R0, R0 \
	ADD R2, R0, R0 \
	ADD R2, R0, R0 \
	ADD R2, R0, R0 \
	ADD R2, R0, R0 \
	ADD R2, R0, R0 \
	ADD R2, R0, R0
spin:
	ADD8
	ADD8
	ADD8
	ADD8
	SUBS $32, R1
	BGT  spin
	MOVD R0, ret+8(FP)
	RET
