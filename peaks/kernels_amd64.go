// SPDX-License-Identifier: Apache-2.0

package peaks

import "golang.org/x/sys/cpu"

// Kernels in readers_amd64.s, compute_amd64.s and tiles_amd64.s.

//go:noescape
func readSSE2(p *byte, n int) uint64

//go:noescape
func readAVX2(p *byte, n int) uint64

//go:noescape
func readAVX2Four(p *byte, n int) uint64

//go:noescape
func readAVX512(p *byte, n int) uint64

//go:noescape
func readAVX512Four(p *byte, n int) uint64

func spinAdd(n int) uint64

//go:noescape
func fmaSSE2(n int, in *operands, out *results)

//go:noescape
func fmaAVX(n int, in *operands, out *results)

//go:noescape
func fmaAVX2(n int, in *operands, out *results)

//go:noescape
func fmaAVX512(n int, in *operands, out *results)

//go:noescape
func dotAVX2(n int, in *operands, out *results)

//go:noescape
func dotAVXVNNI(n int, in *operands, out *results)

//go:noescape
func dotAVX512(n int, in *operands, out *results)

//go:noescape
func dotBF16(n int, in *operands, out *results)

//go:noescape
func tilesInt8(n int, in *operands, out *results)

//go:noescape
func tilesBF16(n int, in *operands, out *results)

// hasKernels are this CPU's, the most demanding last. x/sys/cpu reports AVX and AVX-512 only if the system
// saves their registers.
func hasKernels() kernels {
	k := kernels{spin: spinAdd}
	x := &cpu.X86
	read := func(what What, name string, run func(*byte, int) uint64) {
		k.readers = append(k.readers, reader{name, what, run})
	}
	compute := func(what What, name string, ops, accumulators int, run func(int, *operands, *results)) {
		k.computers = append(k.computers,
			computer{name: name, what: what, ops: ops, accumulators: accumulators, run: run})
	}
	read(Stream, "SSE2", readSSE2)
	compute(F32, "SSE2 mul+add", 8*4*2, 8*16, fmaSSE2)
	if x.HasAVX {
		compute(F32, "AVX mul+add", 12*8*2, 12*32, fmaAVX)
	}
	if x.HasAVX2 {
		read(Stream, "AVX2", readAVX2)
		read(Read, "AVX2, four streams", readAVX2Four)
		compute(Int8, "AVX2 maddubs", 12*32*2, 12*32, dotAVX2)
	}
	if x.HasAVX2 && x.HasFMA {
		compute(F32, "AVX2 FMA", 12*8*2, 12*32, fmaAVX2)
	}
	if x.HasAVX2 && x.HasAVXVNNI {
		compute(Int8, "AVX-VNNI", 12*32*2, 12*32, dotAVXVNNI)
	}
	if x.HasAVX512F {
		read(Stream, "AVX-512", readAVX512)
		read(Read, "AVX-512, four streams", readAVX512Four)
		compute(F32, "AVX-512 FMA", 24*16*2, 24*64, fmaAVX512)
		if x.HasAVX512VNNI {
			compute(Int8, "AVX-512 VNNI", 24*64*2, 24*64, dotAVX512)
		}
		if x.HasAVX512BF16 {
			compute(BF16, "AVX-512 BF16", 12*32*2, 12*64, dotBF16)
		}
	}
	// 4 tile products: 16 rows times 16 columns of 64 bytes each
	if x.HasAMXTile && (x.HasAMXInt8 || x.HasAMXBF16) && allowTiles() {
		if x.HasAMXInt8 {
			compute(Int8Matrix, "AMX", 4*16*16*64*2, 4*1024, tilesInt8)
		}
		if x.HasAMXBF16 {
			compute(BF16Matrix, "AMX", 4*16*16*32*2, 4*1024, tilesBF16)
		}
	}
	return k
}
