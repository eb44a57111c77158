// SPDX-License-Identifier: Apache-2.0

package main

import (
	"regexp"
	"strings"
)

// class is what a thread that computes a graph does with its time.
type class int

const (
	products  class = iota // with weights, quantizing their other operand included
	attention              // scores, softmax, values: fused or one by one
	rest                   // of the operators, and what runs them
	waiting                // for the others at the barrier between operators
	probes                 // in the kernel for a probe, or on the way out
	undecided              // in a product, of weights or of attention: see [sampled.decide]
	ambiguous              // of several classes, and no caller tells which
	classes
)

func (c class) String() string {
	return [...]string{"matrix products", "attention", "the rest", "waiting", "probes", "undecided",
		"ambiguous"}[c]
}

// frame is one frame of a call chain.
type frame struct {
	symbol string // as perf names it; "[unknown]" if it has none
	file   string
	kernel bool
}

// ours are names of kernel functions of which one is in the chain of what a probe costs.
var ours = regexp.MustCompile(`uprobe|uretprobe|^asm_exc_int3$|^exc_int3$|^asm_exc_debug$|^exc_debug|^brk_handler$|^el0_brk64$|^el0_dbg$|^bpf_prog_|^bpf_trace_run`)

var (
	barrier = regexp.MustCompile(`^(ggml_barrier|ggml_graph_compute_poll_for_work|ggml_graph_compute_check_for_work|ggml_graph_compute_secondary_thread)\b|^(gomp_(team_)?barrier_wait\w*|GOMP_barrier|do_wait|__kmp\w*barrier\w*)`)

	// Of several operators' functions the outermost decides: attention has products of its own.
	attentionOp = regexp.MustCompile(`flash_attn|forward_soft_max`)
	// Without flash attention, its products go through this, as some with weights do.
	plainProduct = regexp.MustCompile(`^ggml_compute_forward_mul_mat(_one_chunk|_id)?\b`)
	productOp    = regexp.MustCompile(`mul_mat|ggml::cpu::repack::tensor_traits<.*::(compute_forward|forward_)|ggml::cpu::(amx|kleidiai)::tensor_traits::compute_forward`)
	otherOp      = regexp.MustCompile(`^ggml_compute_forward_\w`)

	// What tells by itself: types of weights, and the type of a cache of keys and values.
	quantized = regexp.MustCompile(`ggml_vec_dot_(i?q|tq|mxfp|nvfp)\d|ggml_ge(mm|mv)_|repack::ge(mm|mv)<|quantize_(row|mat)_|tinyBLAS_Q0|tinygemm_kernel|ggml_backend_amx`)
	dotHalf   = regexp.MustCompile(`ggml_vec_dot_f16|tinyBLAS<.*(unsigned short|_Float16|ggml_fp16|half)`)
	toHalf    = regexp.MustCompile(`ggml_(cpu_)?fp32_to_fp16`) // of a product's other operand
	softmax   = regexp.MustCompile(`ggml_vec_(log_)?soft_max`)
	// What several operators call.
	shared = regexp.MustCompile(`^ggml_(cpu_)?(fp|bf)(16|32)|^ggml_vec_dot_|sgemm|tinyBLAS|simd_gemm`)
)

// classify says what a sample with this chain, innermost frame first, belongs to. inside is
// true of a wait at a barrier within an operator, whose time it is. kv says that products
// without weights ran, so that a product's own code alone tells nothing.
func classify(chain []frame, kv bool) (c class, inside bool) {
	var user []frame
	for _, f := range chain {
		switch {
		case !f.kernel:
			user = append(user, f)
		case ours.MatchString(f.symbol):
			return probes, false
		}
	}
	if len(user) == 0 {
		return ambiguous, false
	}
	if len(user) > 1 && user[0].symbol == "[unknown]" && strings.Contains(user[0].file, "ggml") &&
		strings.HasPrefix(user[1].symbol, "ggml_graph_compute_thread") {
		// The stub of a probed call. Its few instructions are never met, but for the way out of
		// the trap, on which interrupts are off: it is charged to the first instruction after.
		return probes, false
	}
	in := barrier.MatchString(user[0].symbol)
	for i := len(user) - 1; i >= 0; i-- { // from the outermost
		switch s := user[i].symbol; {
		case attentionOp.MatchString(s):
			return attention, in
		case kv && plainProduct.MatchString(s):
			return whose(user[:i]), in
		case productOp.MatchString(s):
			return products, in
		case otherOp.MatchString(s):
			return rest, in
		}
	}
	if in {
		return waiting, false
	}
	return alone(user), false
}

// whose product is it, by what it calls?
func whose(callees []frame) class {
	for _, f := range callees {
		switch {
		case quantized.MatchString(f.symbol):
			return products
		case dotHalf.MatchString(f.symbol), toHalf.MatchString(f.symbol):
			return attention
		}
	}
	return undecided
}

// alone classifies a chain without the function of an operator: it could not be unwound, or
// what ran is no operator.
func alone(user []frame) class {
	leaf := user[0]
	switch s := leaf.symbol; {
	case quantized.MatchString(s):
		return products
	case softmax.MatchString(s):
		return attention
	case dotHalf.MatchString(s): // weights are of other types here, caches are not
		return attention
	case s == "[unknown]", shared.MatchString(s), system(leaf.file), strings.HasSuffix(s, "@plt"):
		return ambiguous
	}
	return rest // the loop over operators among them
}

// system tells whether a file is one of the C or C++ library, which all classes call.
func system(file string) bool {
	name := file[strings.LastIndexByte(file, '/')+1:]
	for _, p := range []string{"libc.", "libc-", "libm.", "libm-", "libpthread", "ld-linux", "libstdc++",
		"libgcc_s", "[vdso]"} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}
