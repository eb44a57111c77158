// SPDX-License-Identifier: Apache-2.0

package emulator

import "testing"

func TestBitmask(t *testing.T) {
	// Immediates of logical instructions and their encoding (N, immr, imms), as an assembler has them.
	for _, c := range []struct {
		n, immr, imms uint32
		want          uint64
	}{
		{1, 0, 0, 1}, {1, 0, 7, 0xff}, {1, 60, 3, 0xf0}, {0, 0, 0x3c, 0x5555555555555555},
		{0, 0, 0x27, 0x00ff00ff00ff00ff}, {1, 1, 62, 0xbfffffffffffffff}, {0, 0, 0xf, 0x0000ffff0000ffff}, {1,
			63, 61, 0x7ffffffffffffffe},
	} {
		if got, ok := armBitmask(c.n, c.immr, c.imms, true); !ok || got != c.want {
			t.Errorf("%d %d %#x: %#x, want %#x", c.n, c.immr, c.imms, got, c.want)
		}
	}
	for _, c := range [][3]uint32{{1, 0, 63}, {0, 0, 63}, {0, 0, 0x3e}} {
		if got, ok := armBitmask(c[0], c[1], c[2], true); ok {
			t.Errorf("%v is %#x, want none", c, got)
		}
	}
}
