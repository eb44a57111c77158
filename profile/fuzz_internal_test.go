// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"math/bits"
	"strings"
	"testing"
)

// A thread's list of CPUs is whatever stands in the trace: reading it costs no more than it is long. What is in no order, which no
// recorder writes, is not known.
func TestCPUsOfCraftedTrace(t *testing.T) {
	if m, ok := parseCPUs("0-3,7"); !ok || len(m) != 1 || m[0] != 0x8f {
		t.Errorf("%x, %v", m, ok)
	}
	if _, ok := parseCPUs(strings.Repeat("0-16383,", 1<<17) + "0"); ok { // 2 GB of CPUs in 1 MB of text
		t.Error("CPUs that are named again are taken")
	}
	for _, s := range []string{"", "3-1", "1,1", "7,0-3", "16384", "-1", "1-", "0-16384", "1,,2"} {
		if m, ok := parseCPUs(s); ok {
			t.Errorf("%q is %x", s, m)
		}
	}
}

// FuzzNames reads names of tensors and lists of CPUs as a trace has them.
func FuzzNames(f *testing.F) {
	for _, s := range []string{"blk.12.ffn_gate_exps.weight", "Qcur-3 (view)", "cache_k_l2147483648", "0-3,7,16383", "node_-1", "blk.-1.x", "l_out-999999999999999999999", "\xff-1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if base, layer := splitName(s); layer < -1 || len(base) > len(s) {
			t.Fatalf("%q is %q of layer %d", s, base, layer)
		}
		if layer, rest := splitWeight(s); layer < -1 || len(rest) > len(s) {
			t.Fatalf("%q is %q of layer %d", s, rest, layer)
		}
		if m, ok := parseCPUs(s); ok {
			n := 0
			for _, w := range m {
				n += bits.OnesCount64(w)
			}
			if n == 0 || len(m) > maxCPUNumber/64 {
				t.Fatalf("%q is %x", s, m)
			}
		}
	})
}
