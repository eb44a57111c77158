// SPDX-License-Identifier: Apache-2.0

package peaks

import (
	"encoding/binary"
	"math"
)

// chunk is the number of bytes per call of a read kernel: long enough to make the call's cost negligible,
// short enough that a thread checks the time often.
const chunk = 1 << 20

// A reader reads n bytes from p, once each, and returns the sum of their 64-bit words, which proves that they
// were read. p is aligned to 64 bytes, n is a multiple of 4096.
type reader struct {
	name string
	what What // Read, or Stream if it reads strictly in sequence
	run  func(p *byte, n int) uint64
}

// operands are what a compute kernel multiplies. float32 and int8 kernels use the first bytes of a and b, as
// many as their vectors hold; kernels on tiles use all of it. For int8, a's bytes are from 0 to 127, as some
// instructions take them as unsigned.
type operands struct {
	a, b [1024]byte
}

// results are a compute kernel's accumulators, as they were in registers, from the start of the array.
type results [4096]byte

// A computer adds a*b to all its accumulators, n times, starting with 0. Accumulators are independent, and
// enough to keep the units busy: at least an instruction's latency times the number of instructions started
// per cycle.
type computer struct {
	name string
	what What
	// ops is the number of operations in one of the n iterations: 2 for a multiplication and its addition.
	ops int
	// accumulators is the number of bytes written to the results.
	accumulators int
	run          func(n int, in *operands, out *results)
}

// What is what a kernel measures.
type What string

const (
	Read What = "read" // bytes from memory, in the fastest way
	// Stream is sequential reading, one position per thread, as a loop over the rows of a matrix does. A
	// thread that reads several positions at once can be faster, as each has its own prefetcher.
	Stream What = "stream"

	F32  What = "f32"  // multiply-adds of float32 vectors
	F16  What = "f16"  // multiply-adds of float16 vectors
	BF16 What = "bf16" // dot products of bfloat16 vectors, accumulated in float32
	Int8 What = "int8" // dot products of vectors of 8-bit integers, accumulated in 32 bits
	// Int8Matrix and BF16Matrix are products of small matrices, if the CPU has instructions for them (AMX
	// tiles, Arm's i8mm). Their rates are many times higher, and unreachable for vector code.
	Int8Matrix What = "int8_matrix"
	BF16Matrix What = "bf16_matrix"
)

// computed are the compute figures; figures are all of them, in table order.
var (
	computed = []What{F32, F16, BF16, Int8, BF16Matrix, Int8Matrix}
	figures  = append([]What{Read, Stream}, computed...)
)

// spinner runs n additions, each of which depends on the previous one: one cycle each on every known CPU, so
// n divided by the time is the clock rate.
type spinner func(n int) uint64

// kernels are what this CPU can run.
type kernels struct {
	readers   []reader
	computers []computer
	spin      spinner // nil: the clock rate is unknown
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

// computeGo is the float32 kernel for CPUs without one in assembly: eight lanes, each with its own operands,
// so that no product can be reused for another.
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
