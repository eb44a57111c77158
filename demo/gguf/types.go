// SPDX-License-Identifier: Apache-2.0

package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Type is the format in which a tensor's elements are stored, numbered as in GGUF files.
type Type uint32

// Types that this package can write.
const (
	F32  Type = 0
	F16  Type = 1
	Q4_0 Type = 2
	Q8_0 Type = 8
	Q4_K Type = 12
	Q6_K Type = 14
)

// layout is the block format of a type, and how to turn a block of random bytes into one whose values have a
// standard deviation of about std.
type layout struct {
	name     string
	elements int // in a block
	bytes    int // of a block
	// finish overwrites what must not be random in a block, usually its scale.
	finish func(block []byte, std float64)
}

// Each finish gives the formula of an element's value in its type, from ggml's block formats: q is uniform,
// so its standard deviation is (levels)/sqrt(12).
var layouts = map[Type]layout{
	F32: {"f32", 1, 4, func(b []byte, std float64) {
		u := float64(binary.LittleEndian.Uint32(b))/(1<<31) - 1 // uniform in -1..1
		binary.LittleEndian.PutUint32(b, math.Float32bits(float32(u*std*math.Sqrt(3))))
	}},
	F16: {"f16", 1, 2, func(b []byte, std float64) {
		u := float64(binary.LittleEndian.Uint16(b))/(1<<15) - 1
		putF16(b, u*std*math.Sqrt(3))
	}},
	// d (f16), 32 times 4 bits: d*(q-8). Each 0 becomes an 8: otherwise the mean would be -d/2, which after
	// many layers dominates everything else.
	Q4_0: {"q4_0", 32, 18, func(b []byte, std float64) {
		putF16(b, std/4.18) // 4.18: RMS of q-8
		for i := 2; i < 18; i += 8 {
			x := binary.LittleEndian.Uint64(b[i:])
			some := x | x>>1
			some |= some >> 2 // lowest bit of every half byte: whether any is set
			x |= ^some & 0x1111111111111111 << 3
			binary.LittleEndian.PutUint64(b[i:], x)
		}
	}},
	// d (f16), 32 times int8: d*q
	Q8_0: {"q8_0", 32, 34, func(b []byte, std float64) { putF16(b, std*math.Sqrt(12)/256) }},
	// d, dmin (f16), 12 bytes of 8 scales sc and 8 minima m of 6 bits, 256 times 4 bits:
	// d*sc*q - dmin*m. With means 31.5 of sc and m and 7.5 of q, dmin = 7.5*d centres it.
	Q4_K: {"q4_K", 256, 144, func(b []byte, std float64) {
		d := std / 270 // approximate standard deviation of sc*q - 7.5*m
		putF16(b, d)
		putF16(b[2:], 7.5*d)
	}},
	// 128 bytes low bits, 64 high bits, 16 scales int8, d (f16): d*sc*(q-32)
	Q6_K: {"q6_K", 256, 210, func(b []byte, std float64) { putF16(b[208:], std*12/(256*64)) }},
}

func (t Type) String() string {
	if l, ok := layouts[t]; ok {
		return l.name
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// ParseType returns the type of that name, as in String, in any case.
func ParseType(name string) (Type, error) {
	var names []string
	for t, l := range layouts {
		if strings.EqualFold(l.name, name) {
			return t, nil
		}
		names = append(names, l.name)
	}
	slices.Sort(names)
	return 0, fmt.Errorf("there is no type %q: choose one of %s", name, strings.Join(names, ", "))
}

// BlockElements returns the number of elements in a block of the type, 0 for a type that this package does
// not write.
func (t Type) BlockElements() int { return layouts[t].elements }

// BlockBytes returns the size of a block of the type in bytes.
func (t Type) BlockBytes() int { return layouts[t].bytes }

// putF16 stores v as an IEEE half, rounded towards 0. Values above the largest half
// become the largest: a weight is never infinite.
func putF16(b []byte, v float64) {
	bits := math.Float32bits(float32(v))
	sign := uint16(bits >> 16 & 0x8000)
	exp := int(bits>>23&0xff) - 127 + 15
	switch {
	case exp <= 0: // subnormal: multiples of 2^-24
		binary.LittleEndian.PutUint16(b, sign|uint16(math.Ldexp(math.Abs(v), 24)))
	case exp >= 31:
		binary.LittleEndian.PutUint16(b, sign|0x7bff)
	default:
		binary.LittleEndian.PutUint16(b, sign|uint16(exp)<<10|uint16(bits>>13&0x3ff))
	}
}
