// SPDX-License-Identifier: Apache-2.0

package ops

import (
	"math"
	"math/bits"
	"slices"

	"github.com/profinfer/profinfer/trace"
)

// Product multiplies. It returns false where the result overflows: dimensions come from a process's memory.
func Product(v ...int64) (int64, bool) {
	p := uint64(1)
	for _, x := range v {
		if x < 0 {
			return 0, false
		}
		hi, lo := bits.Mul64(p, uint64(x))
		if hi != 0 || lo > math.MaxInt64 {
			return 0, false
		}
		p = lo
	}
	return int64(p), true
}

// Elements returns ne0*ne1*ne2*ne3 (ggml_nelements).
func Elements(n *trace.Node) (int64, bool) { return Product(n.Ne[:]...) }

// RowBytes returns the bytes of count consecutive elements of n's type (ggml_row_size).
func RowBytes(n *trace.Node, count int64) (int64, bool) {
	if n.BlockSize <= 0 || n.TypeSize <= 0 || count < 0 {
		return 0, false
	}
	// Whole blocks: a valid row is a multiple of the block size.
	return Product(count/n.BlockSize+min(1, count%n.BlockSize), n.TypeSize)
}

// Touched returns the bytes of n's own elements: what an operator reads that uses all of them. For a view
// only the viewed part counts, and memory that several of its elements share (a stride of 0, or overlapping
// rows) counts once.
func Touched(n *trace.Node) (int64, bool) { return TouchedPart(n, n.Ne) }

// TouchedPart is [Touched] for the first ne[i] elements of each dimension.
func TouchedPart(n *trace.Node, ne [4]int64) (int64, bool) {
	for i := range ne {
		if ne[i] == 0 {
			return 0, true
		}
		if ne[i] < 0 {
			return 0, false
		}
	}
	row, ok := RowBytes(n, ne[0])
	if !ok {
		return 0, false
	}
	all, ok := Product(row, ne[1], ne[2], ne[3])
	if !ok {
		return 0, false
	}
	// The span from the first to the last byte (ggml_nbytes). Elements spaced wider than their size leave
	// holes in it; elements that overlap fill less than their sum.
	span := uint64(row)
	if n.BlockSize == 1 && n.Nb[0] > 0 {
		hi, lo := bits.Mul64(n.Nb[0], uint64(ne[0]-1))
		if hi != 0 {
			return all, true
		}
		span = lo + uint64(n.TypeSize)
	}
	for i := 1; i < 4; i++ {
		hi, lo := bits.Mul64(n.Nb[i], uint64(ne[i]-1))
		sum, carry := bits.Add64(span, lo, 0)
		if hi != 0 || carry != 0 {
			return all, true
		}
		span = sum
	}
	if span < uint64(all) {
		return int64(span), true
	}
	return all, true
}

// FirstRows returns the bytes of count rows of a table, at most all of it.
func FirstRows(n *trace.Node, count int64) (int64, bool) {
	row, ok := RowBytes(n, n.Ne[0])
	if !ok {
		return 0, false
	}
	all, ok := Touched(n)
	if !ok {
		return 0, false
	}
	some, ok := Product(row, count)
	if !ok {
		return all, true
	}
	return min(some, all), true
}

// FirstPlanes returns the bytes of count matrices of n.
func FirstPlanes(n *trace.Node, count int64) (int64, bool) {
	return TouchedPart(n, [4]int64{n.Ne[0], n.Ne[1], count, n.Ne[3]})
}

// Source returns source i of a node, nil if there is none or the graph definition lacks it.
func Source(nodes []trace.Node, n *trace.Node, i int) *trace.Node {
	if i >= len(n.Src) || n.Src[i] < 0 || int(n.Src[i]) >= len(nodes) {
		return nil
	}
	return &nodes[n.Src[i]]
}

// LeafOf follows views to the leaf they look at; -1 if it is not a leaf. The number of hops is bounded: a
// recording may contain a cycle.
func LeafOf(nodes []trace.Node, n int32) int32 {
	for range 8 {
		if n < 0 || int(n) >= len(nodes) {
			return -1
		}
		if nodes[n].Leaf {
			return n
		}
		if nodes[n].ViewSrc < 0 {
			return -1
		}
		n = nodes[n].ViewSrc
	}
	return -1
}

// IsQuantised reports whether a CPU multiplies weights of a type as 8-bit numbers rather than as floats: true
// for all that are not plain numbers. Source: ggml/src/ggml-cpu/ggml-cpu.c, type_traits_cpu: vec_dot_type is
// an 8-bit type for each quantised one, and the same type for f32, f16 and bf16.
func IsQuantised(typ string) bool {
	return !slices.Contains([]string{"", "f32", "f16", "bf16", "f64", "i8", "i16", "i32", "i64"}, typ)
}
