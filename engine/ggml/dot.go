// SPDX-License-Identifier: Apache-2.0

package ggml

import "slices"

// Quantised tells weights of types that the CPU backend multiplies as 8-bit numbers from those that it multiplies as floats, by ggml's
// name of the type. Source: ggml/src/ggml-cpu/ggml-cpu.c, type_traits_cpu: vec_dot_type is an 8-bit type for each quantised one,
// the same for f32, f16 and bf16.
func Quantised(typ string) bool {
	return !slices.Contains([]string{"", "f32", "f16", "bf16", "f64", "i8", "i16", "i32", "i64"}, typ)
}
