// SPDX-License-Identifier: Apache-2.0

package peaks

import (
	"encoding/binary"
	"math"
)

// chunk is what a read kernel is handed at a time, bytes: long enough that a call costs nothing beside it,
// short enough that a thread looks at the clock often.
const chunk = 1 << 20

// A reader reads n bytes from p, once each, and returns the sum of their 64-bit words: whoever knows the sum
// knows that they were read. p is aligned to 64 bytes, n is a multiple of 4096.
type reader struct {
	name string
	what What // Read, or Stream where it reads one place after the other
	run  func(p *byte, n int) uint64
}

// operands are what a compute kernel multiplies. float32 kernels take the first bytes of a and b, as wide as
// their vectors; so do int8 kernels; kernels on tiles take all of it. a's bytes lie within 0 and 127 for
// int8, where some instructions take them as unsigned.
type operands struct {
	a, b [1024]byte
}

// results are a compute kernel's accumulators, as they lay in registers, from the begin on.
type results [4096]byte

// A computer adds a*b to all its accumulators, n times over, starting with 0. Accumulators do not depend on
// each other, and are as many as it takes to keep the units busy: at least an instruction's latency times the
// number of instructions begun per cycle.
type computer struct {
	name string
	what What
	// ops is the number of operations in one of the n iterations: 2 for a multiplication and its addition.
	ops int
	// accumulators is the number of bytes written to the results.
	accumulators int
	run          func(n int, in *operands, out *results)
}

// What is what a kernel is for.
type What string

const (
	Read What = "read" // bytes from memory, in the way that gives most
	// Stream is reading in order from begin to end, one place a thread, as a loop over the rows of a matrix
	// does. A thread that reads several places at once can get more, as there is a prefetcher for each.
	Stream What = "stream"

	F32  What = "f32"  // multiply-adds of float32 vectors
	F16  What = "f16"  // multiply-adds of float16 vectors
	BF16 What = "bf16" // dot products of bfloat16 vectors, added up in float32
	Int8 What = "int8" // dot products of vectors of 8-bit integers, added up in 32 bits
	// Int8Matrix and BF16Matrix are products of small matrices, where the CPU has instructions for them
	// (AMX's tiles, Arm's i8mm). Their rates are many times higher, and out of reach of code that takes
	// vectors.
	Int8Matrix What = "int8_matrix"
	BF16Matrix What = "bf16_matrix"
)

// computed are those that are computed; figures all, in the order of tables.
var (
	computed = []What{F32, F16, BF16, Int8, BF16Matrix, Int8Matrix}
	figures  = append([]What{Read, Stream}, computed...)
)

// spinner runs n additions each of which needs the one before: one cycle each on every CPU that is known
// here, so n by their time is the clock's rate.
type spinner func(n int) uint64

// kernels are what this CPU can run.
type kernels struct {
	readers   []reader
	computers []computer
	spin      spinner // nil: the clock's rate is not known
}

// readGo is the reader for CPUs without one in assembly.
func readGo(p []uint64) uint64 {
	var s0, s1, s2, s3, s4, s5, s6, s7 uint64
	for ; len(p) >= 8; p = p[8:] {
		s0 += p[0]
		s1 += p[1]
		s2 += p[2]
		s3 += p[3]
		s4 += p[4]
		s5 += p[5]
		s6 += p[6]
		s7 += p[7]
	}
	return s0 + s1 + s2 + s3 + s4 + s5 + s6 + s7
}

// goOps and goAccumulators describe computeGo.
const (
	goOps          = 8 * 2
	goAccumulators = 8 * 4
)

// computeGo is the float32 kernel for CPUs without one in assembly: eight lanes, each with operands of its
// own, so that no product can stand for another.
func computeGo(n int, in *operands, out *results) {
	var a, b, s [8]float32
	for i := range a {
		a[i] = math.Float32frombits(binary.NativeEndian.Uint32(in.a[4*i:]))
		b[i] = math.Float32frombits(binary.NativeEndian.Uint32(in.b[4*i:]))
	}
	s0, s1, s2, s3, s4, s5, s6, s7 := s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7]
	for range n {
		s0 += a[0] * b[0]
		s1 += a[1] * b[1]
		s2 += a[2] * b[2]
		s3 += a[3] * b[3]
		s4 += a[4] * b[4]
		s5 += a[5] * b[5]
		s6 += a[6] * b[6]
		s7 += a[7] * b[7]
	}
	for i, v := range [8]float32{s0, s1, s2, s3, s4, s5, s6, s7} {
		binary.NativeEndian.PutUint32(out[4*i:], math.Float32bits(v))
	}
}
