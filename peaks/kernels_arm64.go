// SPDX-License-Identifier: Apache-2.0

package peaks

import "golang.org/x/sys/cpu"

// Kernels in readers_arm64.s and compute_arm64.s.

//go:noescape
func readNEON(p *byte, n int) uint64

//go:noescape
func readNEONFour(p *byte, n int) uint64

func spinAdd(n int) uint64

//go:noescape
func fmaNEON(n int, in *operands, out *results)

//go:noescape
func fmaHalf(n int, in *operands, out *results)

//go:noescape
func dotNEON(n int, in *operands, out *results)

//go:noescape
func matrixNEON(n int, in *operands, out *results)

// hasKernels are this CPU's. A flag is set if all CPUs of the machine have the instruction, as reported by
// the kernel (Documentation/arch/arm64/elf_hwcaps.rst).
func hasKernels() kernels {
	k := kernels{
		spin:    spinAdd,
		readers: []reader{{"NEON", Stream, readNEON}, {"NEON, four streams", Read, readNEONFour}},
		computers: []computer{
			{name: "NEON FMLA", what: F32, ops: 24 * 4 * 2, accumulators: 24 * 16, run: fmaNEON},
		},
	}
	a := &cpu.ARM64
	if a.HasASIMDHP {
		k.computers = append(k.computers,
			computer{name: "NEON FMLA", what: F16, ops: 24 * 8 * 2, accumulators: 24 * 16, run: fmaHalf})
	}
	if a.HasASIMDDP {
		k.computers = append(k.computers,
			computer{name: "NEON SDOT", what: Int8, ops: 24 * 16 * 2, accumulators: 24 * 16, run: dotNEON})
	}
	if a.HasI8MM {
		k.computers = append(k.computers,
			computer{name: "NEON SMMLA", what: Int8Matrix, ops: 24 * 4 * 8 * 2, accumulators: 24 * 16,
				run: matrixNEON})
	}
	return k
}
