// SPDX-License-Identifier: Apache-2.0

package ggml

import (
	"errors"
	"math/bits"
	"testing"

	"github.com/profinfer/profinfer/engine/internal/emulator"
	"github.com/profinfer/profinfer/target"
)

// arithAMD64 is what arith of fake_amd64.s computes.
func arithAMD64(a, b uint64) uint64 {
	d := a>>3 + 4*uint64(uint32(b)<<2) + 5 - uint64(int64(int32(b))>>1)
	if b < a {
		d = b
	}
	d ^= uint64(^uint32(a&0xff) & 0xff00ff)
	d = d&^0xff00 | 0x700
	s := d + b
	return s/10 + 3*(s%10)
}

// arithARM64 is what arith of fake_arm64.s computes.
func arithARM64(a, b uint64) uint64 {
	x := (a>>3 + b<<4) & 0xff00ff00ff00ff
	x ^= uint64(int64(int32(uint32(b) - uint32(int32(a)>>1))))
	y := b + 1
	if a > b {
		y = x
	}
	lo := false // carry clear after ccmp: equal sets no flags, else y < 9
	if a == b {
		lo = true
	} else {
		lo = y < 9
	}
	const c = 0x12345678
	x |= c >> 12 & 0x1ff << 40
	hi, _ := bits.Mul64(x, x)
	r := x%c + hi + uint64(int64(int8(y))<<2)
	if lo {
		r++
	}
	return r
}

func TestMachine(t *testing.T) {
	for _, c := range []struct {
		arch target.Arch
		want func(a, b uint64) uint64
	}{{target.AMD64, arithAMD64}, {target.ARM64, arithARM64}} {
		f := fakeEngine(t, c.arch, nil)
		l := newLib(f.open(t).ELF)
		values := []uint64{0, 1, 2, 9, 10, 255, 256, 0x7fffffff, 0x80000000, 0xffffffff, 0x123456789abcdef,
			1 << 63, ^uint64(0), ^uint64(7)}
		for _, a := range values {
			for _, b := range values {
				m, addr, err := l.machine("arith")
				if err != nil {
					t.Fatal(err)
				}
				got, err := m.Run(addr, a, b)
				if err != nil {
					t.Fatalf("%s: %v", c.arch, err)
				}
				if want := c.want(a, b); got != want {
					t.Errorf("%s: arith(%#x, %#x) = %#x, want %#x", c.arch, a, b, got, want)
				}
			}
		}
		m, addr, err := l.machine("forever")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Run(addr); !errors.Is(err, emulator.ErrSteps) {
			t.Errorf("%s: a loop without an end: %v", c.arch, err)
		}
		if m, addr, err = l.machine("ggml_get_data"); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Run(addr, 0x1234); err == nil {
			t.Errorf("%s: a load from nowhere gives no error", c.arch)
		}
		if _, err := m.Run(addr, m.NewObject("x").Addr+emulator.ObjectSize-100); err == nil {
			t.Errorf("%s: a load beyond an object gives no error", c.arch)
		}
		if m, addr, err = l.machine("ggml_get_unary_op"); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Run(addr, m.NewObject("x").Addr); !errors.Is(err, emulator.ErrAbort) {
			t.Errorf("%s: an assertion: %v", c.arch, err)
		}
	}
}
