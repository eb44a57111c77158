// SPDX-License-Identifier: Apache-2.0

package gguf

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"testing"
)

// half returns the value of an IEEE half.
func half(b []byte) float64 {
	u := binary.LittleEndian.Uint16(b)
	exp, frac := int(u>>10&31), float64(u&0x3ff)
	v := math.Ldexp(1+frac/1024, exp-15)
	switch {
	case exp == 0:
		v = math.Ldexp(frac/1024, -14)
	case exp == 31:
		v = math.Inf(1)
	}
	if u&0x8000 != 0 {
		v = -v
	}
	return v
}

// decode turns a block into values, by the definitions of ggml's block formats.
func decode(t Type, b []byte) (v []float64) {
	switch t {
	case F32:
		v = append(v, float64(math.Float32frombits(binary.LittleEndian.Uint32(b))))
	case F16:
		v = append(v, half(b))
	case Q4_0:
		for _, q := range b[2:] {
			v = append(v, half(b)*float64(int(q&15)-8), half(b)*float64(int(q>>4)-8))
		}
	case Q8_0:
		for _, q := range b[2:] {
			v = append(v, half(b)*float64(int8(q)))
		}
	case Q4_K:
		d, dmin, s, q := half(b), half(b[2:]), b[4:16], b[16:]
		for j := range 8 { // 32 values each
			var sc, m byte
			if j < 4 {
				sc, m = s[j]&63, s[j+4]&63
			} else {
				sc, m = s[j+4]&15|s[j-4]>>6<<4, s[j+4]>>4|s[j]>>6<<4
			}
			for l := range 32 {
				x := q[j/2*32+l] >> (4 * (j % 2)) & 15
				v = append(v, d*float64(sc)*float64(x)-dmin*float64(m))
			}
		}
	case Q6_K:
		ql, qh, sc, d := b[:128], b[128:192], b[192:208], half(b[208:])
		for i := range 256 {
			n, l, part := i/128, i%32, i%128/32 // halves; position; which of four 32s
			low := ql[n*64+l+part%2*32] >> (4 * (part / 2)) & 15
			high := qh[n*32+l] >> (2 * part) & 3
			v = append(v, d*float64(int8(sc[n*8+part*2+l/16]))*float64(int(low|high<<4)-32))
		}
	}
	return v
}

func write(t *testing.T, f *File) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := f.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestValues(t *testing.T) {
	for typ, l := range layouts {
		t.Run(typ.String(), func(t *testing.T) {
			const want = 0.03
			rows := uint64(200_000 / 256)
			f := &File{Seed: 7, Tensors: []Tensor{{Name: "w", Type: typ, Dims: []uint64{256, rows},
				Std: want}}}
			h, err := f.Header()
			if err != nil {
				t.Fatal(err)
			}
			data := write(t, f)[len(h):]
			var n int
			var sum, sq float64
			for ; len(data) >= l.bytes; data = data[l.bytes:] {
				v := decode(typ, data[:l.bytes])
				if len(v) != l.elements {
					t.Fatalf("a block has %d elements, want %d", len(v), l.elements)
				}
				for _, x := range v {
					if math.IsNaN(x) || math.IsInf(x, 0) {
						t.Fatalf("a value is %v", x)
					}
					n, sum, sq = n+1, sum+x, sq+x*x
				}
			}
			if n != int(256*rows) {
				t.Fatalf("%d values, want %d", n, 256*rows)
			}
			mean := sum / float64(n)
			std := math.Sqrt(sq/float64(n) - mean*mean)
			if math.Abs(std/want-1) > 0.1 {
				t.Errorf("standard deviation %.4f, want %.4f", std, want)
			}
			if math.Abs(mean) > 0.02*want {
				t.Errorf("mean %.6f is %.1f %% of the standard deviation", mean, 100*mean/want)
			}
		})
	}
}

// A spread makes rows of different lengths of the same random values, and leaves everything else as it is.
func TestRowSpread(t *testing.T) {
	const rows, width = 4096, 64
	of := func(spread float64) [][]float64 {
		f := &File{Seed: 3, Tensors: []Tensor{{Name: "w", Type: F32, Dims: []uint64{width, rows}, Std: 0.5,
			RowSpread: spread}}}
		h, err := f.Header()
		if err != nil {
			t.Fatal(err)
		}
		data := write(t, f)[len(h):]
		var all [][]float64
		for len(data) >= 4*width {
			var row []float64
			for i := range width {
				row = append(row, decode(F32, data[4*i:4*i+4])[0])
			}
			all, data = append(all, row), data[4*width:]
		}
		return all
	}
	even, uneven := of(0), of(0.7)
	var sum, sq float64
	for r := range even {
		factor := uneven[r][0] / even[r][0]
		for i, v := range even[r] {
			if math.Abs(uneven[r][i]/v-factor) > 1e-4*factor {
				t.Fatalf("row %d: element %d grew by %g, element 0 by %g", r, i, uneven[r][i]/v, factor)
			}
		}
		sum += math.Log(factor)
		sq += math.Log(factor) * math.Log(factor)
	}
	// of 4096 normal numbers the mean is off by 0.011 and the deviation by 0.008, each as a standard
	// deviation
	if mean, std := sum/rows, math.Sqrt(sq/rows); math.Abs(mean) > 0.05 || math.Abs(std-0.7) > 0.04 {
		t.Errorf("logarithms of the rows' factors: mean %.3f, deviation %.3f, want 0 and 0.7", mean, std)
	}
	// quantized: a row is of several blocks, a chunk that is written at once ends inside of one
	f := &File{Tensors: []Tensor{{Name: "w", Type: Q8_0, Dims: []uint64{32 * 7, 1000}, Std: 1, RowSpread: 1}}}
	h, err := f.Header()
	if err != nil {
		t.Fatal(err)
	}
	data := write(t, f)[len(h):]
	scales := map[float64]bool{}
	for r := range 1000 {
		first := half(data[r*7*34:])
		scales[first] = true
		for b := range 7 {
			if s := half(data[(r*7+b)*34:]); s != first {
				t.Fatalf("row %d: block %d has the scale %g, block 0 %g", r, b, s, first)
			}
		}
	}
	if len(scales) < 500 {
		t.Errorf("%d different scales of 1000 rows", len(scales))
	}
}

func TestHalf(t *testing.T) {
	for _, v := range []float64{0, 1, -1, 0.5, 65504, -65504, 6.103515625e-05, 0x3ffp-24, 0x1p-24,
		0.0999755859375} {
		var b [2]byte
		putF16(b[:], v)
		if got := half(b[:]); got != v {
			t.Errorf("%v became %v", v, got)
		}
	}
	for v, want := range map[float64]float64{1e9: 65504, -1e9: -65504, 1e-9: 0} {
		var b [2]byte
		putF16(b[:], v)
		if got := half(b[:]); got != want {
			t.Errorf("%v became %v, want %v", v, got, want)
		}
	}
}

func TestParseType(t *testing.T) {
	for typ := range layouts {
		for _, name := range []string{typ.String(), strings.ToUpper(typ.String())} {
			if got, err := ParseType(name); err != nil || got != typ {
				t.Errorf("%s is %v, %v", name, got, err)
			}
		}
	}
	if _, err := ParseType("q9_9"); err == nil ||
		!strings.Contains(err.Error(), "f16, f32, q4_0, q4_K, q6_K, q8_0") {
		t.Errorf("an unknown type: %v", err)
	}
}

// reader reads a header back.
type reader struct {
	t *testing.T
	b []byte
}

func (r *reader) take(n int) []byte {
	if n > len(r.b) {
		r.t.Fatalf("the file ends %d bytes early", n-len(r.b))
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}
func (r *reader) u32() uint32 { return binary.LittleEndian.Uint32(r.take(4)) }
func (r *reader) u64() uint64 { return binary.LittleEndian.Uint64(r.take(8)) }
func (r *reader) str() string { return string(r.take(int(r.u64()))) }

func TestFile(t *testing.T) {
	f := &File{
		KV: []KV{{"general.architecture", "llama"}, {"a.u", uint32(5)}, {"a.f", float32(0.5)}, {"a.b", true},
			{"a.s", []string{"x", "yz"}}, {"a.i", []int32{-1, 2}}},
		Tensors: []Tensor{
			{Name: "one", Type: F32, Dims: []uint64{5}, Const: 1},
			{Name: "two", Type: Q4_0, Dims: []uint64{32, 3}, Std: 1},
			{Name: "three", Type: F32, Dims: []uint64{2}, Const: 0.25},
		},
	}
	data := write(t, f)
	if size, err := f.Size(); err != nil || size != int64(len(data)) {
		t.Errorf("Size says %d, %v; %d were written", size, err, len(data))
	}
	r := &reader{t, data}
	if string(r.take(4)) != "GGUF" || r.u32() != 3 || r.u64() != 3 || r.u64() != 6 {
		t.Fatal("wrong start")
	}
	if r.str() != "general.architecture" || r.u32() != 8 || r.str() != "llama" {
		t.Error("string")
	}
	if r.str() != "a.u" || r.u32() != 4 || r.u32() != 5 {
		t.Error("uint32")
	}
	if r.str() != "a.f" || r.u32() != 6 || math.Float32frombits(r.u32()) != 0.5 {
		t.Error("float32")
	}
	if r.str() != "a.b" || r.u32() != 7 || r.take(1)[0] != 1 {
		t.Error("bool")
	}
	if r.str() != "a.s" || r.u32() != 9 || r.u32() != 8 || r.u64() != 2 || r.str() != "x" || r.str() != "yz" {
		t.Error("[]string")
	}
	if r.str() != "a.i" || r.u32() != 9 || r.u32() != 5 || r.u64() != 2 || int32(r.u32()) != -1 ||
		r.u32() != 2 {
		t.Error("[]int32")
	}
	var offsets []uint64
	for _, want := range f.Tensors {
		if name := r.str(); name != want.Name {
			t.Errorf("tensor %q, want %q", name, want.Name)
		}
		for range r.u32() {
			r.u64()
		}
		if typ := Type(r.u32()); typ != want.Type {
			t.Errorf("%s has type %v", want.Name, typ)
		}
		offsets = append(offsets, r.u64())
	}
	start := (len(data) - len(r.b) + Alignment - 1) / Alignment * Alignment
	if offsets[0] != 0 || offsets[1] != 32 || offsets[2] != 32+64 {
		t.Errorf("offsets %v", offsets)
	}
	f32 := func(off int) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(data[start+off:])) }
	if f32(16) != 1 || f32(96+4) != 0.25 {
		t.Errorf("constant values are %v, %v", f32(16), f32(96+4))
	}
	if !bytes.Equal(data, write(t, f)) {
		t.Error("the same file twice gives different bytes")
	}
	f.Seed++
	if bytes.Equal(data, write(t, f)) {
		t.Error("another seed gives the same bytes")
	}
}

func TestImpossible(t *testing.T) {
	ok := Tensor{Name: "w", Type: Q4_0, Dims: []uint64{32, 2}, Std: 1}
	for want, f := range map[string]File{
		"multiple of 32": {Tensors: []Tensor{{Name: "w", Type: Q4_0, Dims: []uint64{33}, Std: 1}}},
		"cannot be":      {Tensors: []Tensor{{Name: "w", Type: 99, Dims: []uint64{32}, Std: 1}}},
		"dimensions, ":   {Tensors: []Tensor{{Name: "w", Type: F32}}},
		"out of range": {Tensors: []Tensor{{Name: "w", Type: F32,
			Dims: []uint64{1 << 30, 1 << 30, 1 << 30}}}},
		"twice":    {Tensors: []Tensor{ok, ok}},
		"constant": {Tensors: []Tensor{{Name: "w", Type: F16, Dims: []uint64{2}}}},
		"a spread": {Tensors: []Tensor{{Name: "w", Type: F32, Dims: []uint64{2}, RowSpread: 1}}},
		"at most 10": {Tensors: []Tensor{{Name: "w", Type: F32, Dims: []uint64{2}, Std: 1,
			RowSpread: math.Inf(1)}}},
		"value of type": {KV: []KV{{"k", 1.5}}},
	} {
		if _, err := f.Size(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}
