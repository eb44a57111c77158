// SPDX-License-Identifier: Apache-2.0

package ggml

import "testing"

// FuzzNames reads names of tensors as a trace has them.
func FuzzNames(f *testing.F) {
	for _, s := range []string{"blk.12.ffn_gate_exps.weight", "Qcur-3 (view)", "cache_k_l2147483648",
		"node_-1", "blk.-1.x", "l_out-999999999999999999999", "\xff-1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if base, layer := words.SplitName(s); layer < -1 || len(base) > len(s) {
			t.Fatalf("%q is %q of layer %d", s, base, layer)
		}
		if layer, rest := splitWeight(s); layer < -1 || len(rest) > len(s) {
			t.Fatalf("%q is %q of layer %d", s, rest, layer)
		}
	})
}
