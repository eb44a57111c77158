// SPDX-License-Identifier: Apache-2.0

//go:build !amd64 && !arm64

package peaks

import "unsafe"

// hasKernels are those in Go, for CPUs without any in assembly: the result of a compiler without
// vectorization, which is less than the CPU can do.
func hasKernels() kernels {
	return kernels{
		readers: []reader{{"Go", Stream, func(p *byte, n int) uint64 {
			return readGo(unsafe.Slice((*uint64)(unsafe.Pointer(p)), n/8))
		}}},
		computers: []computer{{name: "Go mul+add", what: F32, ops: goOps, accumulators: goAccumulators,
			run: computeGo}},
	}
}
