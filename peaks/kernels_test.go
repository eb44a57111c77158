// SPDX-License-Identifier: Apache-2.0

package peaks

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"unsafe"
)

// words is memory of n bytes, aligned to 64, and its 64-bit words.
func words(n int) ([]byte, []uint64) {
	b := make([]byte, n+64)
	if off := int(uintptr(unsafe.Pointer(&b[0])) & 63); off != 0 {
		b = b[64-off:]
	}
	return b[:n], unsafe.Slice((*uint64)(unsafe.Pointer(&b[0])), n/8)
}

// TestReaders: every word counts once, wherever it lies, and nothing behind the end does.
func TestReaders(t *testing.T) {
	k := hasKernels()
	if len(k.readers) == 0 {
		t.Fatal("no readers")
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, r := range append(k.readers, reader{"Go", Stream, func(p *byte, n int) uint64 {
		return readGo(unsafe.Slice((*uint64)(unsafe.Pointer(p)), n/8))
	}}) {
		t.Run(r.name, func(t *testing.T) {
			for _, n := range []int{4096, 8192, 3 * 4096, 1 << 20} {
				b, w := words(n + 4096)
				var want uint64
				for i := range w {
					w[i] = rng.Uint64()
					if i < n/8 {
						want += w[i]
					}
				}
				if got := r.run(&b[0], n); got != want {
					t.Errorf("%d bytes: %#x, not %#x", n, got, want)
				}
			}
			// one word at a time: none is read twice, or left out in favour of another
			b, w := words(8192)
			for i := range w {
				w[i] = 1 << 40
				if got := r.run(&b[0], 4096); (i < 512) != (got == 1<<40) {
					t.Fatalf("word %d counts %#x", i, got)
				}
				w[i] = 0
			}
		})
	}
}

func putF32(b []byte, i int, v float32) { binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(v)) }
func putBF16(b []byte, i int, v float32) {
	binary.LittleEndian.PutUint16(b[2*i:], uint16(math.Float32bits(v)>>16))
}

// putF16 writes a small whole number, 0 to 2048, or 2^-k: no rounding is needed.
func putF16(b []byte, i int, v float32) {
	var h uint16
	if v != 0 {
		bits := math.Float32bits(v)
		h = uint16(bits>>16)&0x8000 | uint16((bits>>23&0xff)-127+15)<<10 | uint16(bits>>13)&0x3ff
	}
	binary.LittleEndian.PutUint16(b[2*i:], h)
}

// TestComputers: every accumulator is what arithmetic says. Operands differ from lane to lane, so that a
// wrong register, order or sign shows.
func TestComputers(t *testing.T) {
	k := hasKernels()
	all := append(k.computers, computer{name: "Go mul+add", what: F32, ops: goOps,
		accumulators: goAccumulators, run: computeGo})
	for _, c := range all {
		t.Run(string(c.what)+" "+c.name, func(t *testing.T) {
			in, out := new(operands), new(results)
			for i := range out {
				out[i] = 0xA5
			}
			want := expect(c, in)
			for _, n := range []int{1, 2, 7} {
				c.run(n, in, out)
				for i := 0; i < c.accumulators/width(c.what); i++ {
					got, w := at(c.what, out, i), float64(n)*want(i)
					if got != w {
						t.Fatalf("n=%d: accumulator %d is %v, not %v", n, i, got, w)
					}
				}
				for i := c.accumulators; i < len(out); i++ {
					if out[i] != 0xA5 {
						t.Fatalf("wrote byte %d, behind its accumulators", i)
					}
				}
			}
			if c.ops != operations(c) {
				t.Errorf("%d operations, not %d", c.ops, operations(c))
			}
		})
	}
}

// width of an accumulator's element, bytes.
func width(w What) int {
	if w == F16 {
		return 2
	}
	return 4
}

func at(w What, out *results, i int) float64 {
	switch w {
	case Int8, Int8Matrix:
		return float64(int32(binary.LittleEndian.Uint32(out[4*i:])))
	case F16:
		h := binary.LittleEndian.Uint16(out[2*i:])
		if h&0x7fff == 0 {
			return 0
		}
		return float64(math.Float32frombits(uint32(h&0x8000)<<16 | (uint32(h>>10&0x1f)-15+
			127)<<23 | uint32(h&0x3ff)<<13))
	}
	return float64(math.Float32frombits(binary.LittleEndian.Uint32(out[4*i:])))
}

// depth is how many products an element of an accumulator adds up per turn.
func depth(c computer) int {
	switch c.what {
	case BF16:
		return 2
	case Int8:
		return 4
	case Int8Matrix:
		if c.name == "NEON SMMLA" {
			return 8
		}
		return 64
	case BF16Matrix:
		return 32
	}
	return 1
}

// operations follow from the accumulators: each element takes depth products and additions per turn.
func operations(c computer) int { return c.accumulators / width(c.what) * depth(c) * 2 }

// expect fills the operands and returns what element i of the accumulators gains per turn.
func expect(c computer, in *operands) func(i int) float64 {
	var a, b [1024]float64
	for i := range a {
		a[i], b[i] = float64(i%7+i/64), float64(i%5-2)-float64(i/64)
	}
	size := 1
	switch c.what {
	case F32:
		size = 4
		for i := range 256 {
			putF32(in.a[:], i, float32(a[i]))
			putF32(in.b[:], i, float32(b[i]))
		}
	case BF16, BF16Matrix:
		size = 2
		for i := range 512 {
			putBF16(in.a[:], i, float32(a[i]))
			putBF16(in.b[:], i, float32(b[i]))
		}
	case F16:
		size = 2
		for i := range 512 {
			putF16(in.a[:], i, float32(a[i]))
			putF16(in.b[:], i, float32(b[i]))
		}
	default:
		for i := range 1024 {
			in.a[i], in.b[i] = byte(a[i]), byte(int8(b[i]))
		}
	}
	d := depth(c)
	switch {
	case c.name == "AMX": // c[m][n] += sum over k of a[m][k] * b[k/d'][n*d'+k%d'], d' elements to 4 bytes
		per := 4 / size
		return func(i int) (s float64) {
			m, n := i/16%16, i%16
			for k := range d {
				s += a[m*d+k] * b[k/per*d+n*per+k%per]
			}
			return s
		}
	case c.name == "NEON SMMLA": // 2 x 8 times 8 x 2
		return func(i int) (s float64) {
			m, n := i/2%2, i%2
			for k := range 8 {
				s += a[m*8+k] * b[n*8+k]
			}
			return s
		}
	}
	lanes := vector(c) / size / d
	return func(i int) (s float64) {
		l := i % lanes
		for k := range d {
			s += a[l*d+k] * b[l*d+k]
		}
		return s
	}
}

// vector is the width of a kernel's vectors, bytes.
func vector(c computer) int {
	switch {
	case strings.HasPrefix(c.name, "AVX-512"):
		return 64
	case strings.HasPrefix(c.name, "AVX"), strings.HasPrefix(c.name, "Go"):
		return 32
	}
	return 16
}

// TestSpin: as many additions as asked for, and rounded up to a turn's 32.
func TestSpin(t *testing.T) {
	k := hasKernels()
	if k.spin == nil {
		t.Skip("not on this CPU")
	}
	for _, n := range []int{32, 64, 3200} {
		if got := k.spin(n); got != uint64(1+3*n) {
			t.Errorf("%d additions: %d, not %d", n, got, 1+3*n)
		}
	}
}
