// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

// Chains as perf script shows them (npm's 3.22.1 and 3.12.4), innermost first; k: is the kernel's.
func TestClassify(t *testing.T) {
	const (
		thread = "ggml_graph_compute_thread.isra.0"
		amx    = "ggml_backend_amx_mul_mat"
		lambda = "ggml_backend_amx_mul_mat(ggml_compute_params const*, ggml_tensor*)::{lambda(int, int)#4}::operator()(int, int) const::{lambda()#1}::operator()"
		extra  = "ggml::cpu::amx::tensor_traits::compute_forward < ggml_cpu_extra_compute_forward < " + thread
		half   = "(anonymous namespace)::tinyBLAS<16, float __vector(16), float __vector(16), unsigned short, unsigned short, float>::gemm<4, 5, 1>"
		single = "(anonymous namespace)::tinyBLAS<16, float __vector(16), float __vector(16), float, float, float>::gemm<4, 5, 1>"
		second = thread + " < ggml_graph_compute_secondary_thread < start_thread < clone3"
		timer  = "k:irqentry_exit_to_user_mode < k:asm_sysvec_apic_timer_interrupt < "
		trap   = "k:handler_chain < k:uprobe_notify_resume < k:irqentry_exit_to_user_mode < k:asm_exc_int3 < "
	)
	for _, c := range []struct {
		chain  string
		kv     bool
		want   class
		inside bool
	}{
		// products with weights
		{lambda + " < " + amx + " < [unknown]", false, products, false},
		{lambda, false, products, false},
		{"parallel_for_ggml<ggml_backend_amx_mul_mat(ggml_compute_params const*, ggml_tensor*)::{lambda(int, int)#3}> < " + amx, false, products, false},
		{"(anonymous namespace)::tinygemm_kernel_amx<block_q8_0, block_q4_0, float, 32, 0>(int, int, int, void const*, void const*, float*, int)::{lambda()#5}::operator()() const::{lambda()#2}::operator() < [unknown]", false, products, false},
		{"quantize_row_q8_0 < " + amx + " < " + extra, false, products, false},
		{"quantize_row_q8_0", false, products, false},
		{"__tls_get_addr@/lib/libc.so.6 < " + lambda, false, products, false},
		{"ggml_gemv_q4_0_8x8_q8_0", false, products, false},
		{"void ggml::cpu::repack::gemm<block_q4_0, 8l, 8l, (ggml_type)8>(int, float*, unsigned long, void const*, void const*, int, int)", false, products, false},
		{"__memmove_avx512_unaligned_erms@/lib/libc.so.6 < ggml::cpu::repack::tensor_traits<block_q4_0, 8l, 8l, (ggml_type)8>::forward_mul_mat < " + thread, true, products, false},
		{"ggml::cpu::repack::tensor_traits<block_q4_0, 4l, 4l, (ggml_type)8>::compute_forward(ggml_compute_params*, ggml_tensor*)", false, products, false},
		{"(anonymous namespace)::tinyBLAS_Q0_AVX<block_q4_0, block_q8_0, float>::gemm4xN<2>", false, products,
			false},
		{"ggml_vec_dot_q4_0_q8_0 < ggml_compute_forward_mul_mat < " + thread, true, products, false},
		{"ggml_vec_dot_q6_K_q8_K", true, products, false},
		{"ggml_vec_dot_iq4_nl_q8_0", true, products, false},
		{"ggml_compute_forward_mul_mat < " + thread, false, products, false},
		{"ggml_compute_forward_mul_mat_id < " + thread, false, products, false},
		{timer + lambda, false, products, false}, // an interrupt is charged to what it interrupted
		{"k:exc_page_fault < k:asm_exc_page_fault < " + lambda, false, products, false},
		// attention, whatever its parts are called
		{"ggml_compute_forward_flash_attn_ext_tiled", false, attention, false},
		{"ggml_compute_forward_flash_attn_ext < " + thread, false, attention, false},
		{"ggml_vec_dot_f16 < ggml_compute_forward_flash_attn_ext < " + thread, false, attention, false},
		{"quantize_row_q8_0 < ggml_compute_forward_flash_attn_ext < " + thread, false, attention, false},
		{"ggml_vec_dot_q8_0_q8_0 < ggml_compute_forward_flash_attn_ext < " + thread, false, attention, false},
		{"__expf_fma@/lib/libm.so.6 < ggml_compute_forward_flash_attn_ext_tiled", false, attention, false},
		{"__expf_fma@/lib/libm.so.6 < ggml_compute_forward_soft_max < " + thread, true, attention, false},
		{"ggml_vec_soft_max_f32", false, attention, false},
		{"ggml_vec_dot_f16 < ggml_compute_forward_mul_mat < " + thread, true, attention, false},
		{"ggml_vec_dot_f16", true, attention, false},
		{half + " < llamafile_sgemm < ggml_compute_forward_mul_mat < [unknown]", true, attention, false},
		{half + " < [unknown]", true, attention, false},
		{"ggml_cpu_fp32_to_fp16 < ggml_compute_forward_mul_mat < " + thread, true, attention, false},
		// the rest
		{"ggml_vec_swiglu_f32 < ggml_compute_forward_glu < " + thread, false, rest, false},
		{"ggml_compute_forward_rms_norm_mul_fused < " + thread, false, rest, false},
		{"__sincosf_fma@/lib/libm.so.6 < ggml_compute_forward_rope_flt<float> < " + thread, false, rest,
			false},
		{"ggml_cpu_fp32_to_fp16 < ggml_compute_forward_set_rows < " + thread, false, rest, false},
		{thread + " < ggml_graph_compute", false, rest, false},
		// as its operator is counted
		{"ggml_compute_forward_mul_mat < ggml_call_mul_mat < ggml_compute_forward_conv_2d < " + thread, false,
			rest, false},
		{"ggml::cpu::amx::extra_buffer_type::get_tensor_traits < ggml_cpu_extra_compute_forward < " + thread,
			false, rest, false},
		{"ggml_cpu_extra_compute_forward < " + thread, false, rest, false},
		// waits: for the next operator, and inside of one
		{"ggml_barrier < " + second, false, waiting, false},
		{"ggml_barrier", false, waiting, false},
		{timer + "ggml_barrier < " + second, false, waiting, false},
		{"ggml_graph_compute_secondary_thread < start_thread < clone3", false, waiting, false},
		{"ggml_barrier < " + amx + " < " + extra, false, products, true},
		{"ggml_barrier < ggml_compute_forward_flash_attn_ext < " + thread, false, attention, true},
		{"ggml_barrier < " + half + " < llamafile_sgemm < ggml_compute_forward_mul_mat < " + thread, true,
			attention, true},
		{"ggml_barrier < llamafile_sgemm < ggml_compute_forward_mul_mat < " + thread, true, undecided, true},
		{"ggml_compute_forward_mul_mat < " + thread, true, undecided, false},
		// what profinfer costs
		{trap + thread, false, probes, false},
		{"k:irqentry_exit_to_user_mode < k:asm_exc_int3 < " + thread, false, probes, false},
		{"k:__bpf_ringbuf_reserve < k:bpf_prog_822cc948ab447e33_op_begin < k:uprobe_prog_run < k:asm_exc_int3 < " + thread, false, probes, false},
		{"k:bpf_prog_0123_sched_switch < k:bpf_trace_run4 < k:__schedule < ggml_barrier", false, probes,
			false},
		{"[unknown]@/x/libggml-cpu-icelake.so < " + second, false, probes, false}, // the way out of a trap
		// nothing tells
		{"__expf_fma@/lib/libm.so.6", false, ambiguous, false},
		{"[unknown]@/x/libggml-cpu-icelake.so", false, ambiguous, false},
		{"__memset_avx512_unaligned_erms@/usr/lib/x86_64-linux-gnu/libc.so.6 < [unknown]", false, ambiguous,
			false},
		{single + " < [unknown]", false, ambiguous, false},
		{"ggml_cpu_fp16_to_fp32", true, ambiguous, false},
		{"k:__schedule", false, ambiguous, false},
		{"", false, ambiguous, false},
	} {
		got, inside := classify(chainOf(c.chain), c.kv)
		if got != c.want || inside != c.inside {
			t.Errorf("%s (kv %v): %v, inside %v; want %v, %v", c.chain, c.kv, got, inside, c.want, c.inside)
		}
	}
}

func chainOf(s string) (chain []frame) {
	if s == "" {
		return nil
	}
	for f := range strings.SplitSeq(s, " < ") {
		var fr frame
		f, fr.kernel = strings.CutPrefix(f, "k:")
		fr.symbol, fr.file, _ = strings.Cut(f, "@")
		chain = append(chain, fr)
	}
	return chain
}

// Samples in shared code are attention's only where nothing shows that products with weights use it.
func TestDecide(t *testing.T) {
	for _, weights := range []bool{false, true} {
		s := &sampled{}
		s.add(attention, false, "a")
		s.add(undecided, false, "ggml_barrier")
		s.add(undecided, true, "ggml_barrier")
		s.decide(weights)
		want := [classes]int64{attention: 3}
		if weights {
			want = [classes]int64{attention: 1, ambiguous: 2}
		}
		if s.n != want || s.sum() != 3 || weights != (s.other[ambiguous]["ggml_barrier"] == 2) {
			t.Errorf("weights %v: %v %v", weights, s.n, s.other)
		}
	}
}
