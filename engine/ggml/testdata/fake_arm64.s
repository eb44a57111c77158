// SPDX-License-Identifier: Apache-2.0
// A made-up engine in the shape of ggml, arm64: the twin of fake_amd64.s, with the same
// offsets. The barrier is inlined into the operator loop, as clang does it.
	.text
base:
	.set BASE, 0x400000

	.type ggml_get_data, %function
ggml_get_data:
	bti c
	ldr x0, [x0, #264]
	ret
	.type ggml_get_name, %function
ggml_get_name:
	add x0, x0, #272
	ret
	.type ggml_is_view, %function
ggml_is_view:
	ldr x0, [x0, #248]
	cmp x0, #0
	cset w0, ne
	ret
	.type ggml_nelements, %function
ggml_nelements:
	ldp x1, x2, [x0, #24]
	mul x1, x1, x2
	ldp x2, x0, [x0, #40]
	mul x1, x1, x2
	mul x0, x1, x0
	ret
	.type ggml_nbytes, %function
ggml_nbytes:
	paciasp
	stp x29, x30, [sp, #-32]!
	mov x29, sp
	stp x19, x20, [sp, #16]
	add x19, x0, #24
	mov x20, #0
	mov x0, #1
1:	ldr x1, [x19, x20, lsl #3]
	add x2, x19, x20, lsl #3
	ldr x2, [x2, #32]
	sub x1, x1, #1
	madd x0, x1, x2, x0
	add w20, w20, #1
	cmp w20, #4
	b.lt 1b
	ldp x19, x20, [sp, #16]
	ldp x29, x30, [sp], #32
	autiasp
	ret
	.type ggml_element_size, %function
ggml_element_size:
	ldr w0, [x0]
	.type ggml_type_size, %function
ggml_type_size:
	adr x1, types
	ubfiz x0, x0, #5, #32
	add x0, x1, x0
	ldr x0, [x0, #24]
	ret
	.type ggml_blck_size, %function
ggml_blck_size:
	adr x1, types
	mov w2, #32
	umaddl x0, w0, w2, x1
	ldr x0, [x0, #8]
	ret
	.type ggml_type_name, %function
ggml_type_name:
	cmp w0, #2
	b.hi 1f
	adr x1, types
	sbfiz x0, x0, #5, #32
	ldr x0, [x1, x0]
	ret
1:	adr x0, unknown
	ret
	.type ggml_op_name, %function
ggml_op_name:
	adr x1, ops
	ldr x0, [x1, w0, uxtw #3]
	ret
	.type ggml_unary_op_name, %function
ggml_unary_op_name:
	adr x1, unary
	ldr x0, [x1, w0, sxtw #3]
	ret
	.type ggml_op_symbol, %function
ggml_op_symbol:
	adr x1, symbols
	ldr x0, [x1, w0, uxtw #3]
	ret
	.type ggml_get_unary_op, %function
ggml_get_unary_op:
	ldr w1, [x0, #88]
	cmp w1, #5
	b.ne 1f
	ldr w0, [x0, #92]
	ret
1:	bl ggml_abort
	.type ggml_op_desc, %function
ggml_op_desc:
	stp x29, x30, [sp, #-16]!
	ldr w1, [x0, #88]
	cmp w1, #5
	b.eq 1f
	mov w0, w1
	ldp x29, x30, [sp], #16
	b ggml_op_name
1:	bl ggml_get_unary_op
	ldp x29, x30, [sp], #16
	b ggml_unary_op_name
	.type ggml_set_output, %function
ggml_set_output:
	ldr w1, [x0, #164]
	orr w1, w1, #2
	str w1, [x0, #164]
	ret
	.type ggml_new_tensor_1d, %function
ggml_new_tensor_1d:
	brk #1
	.type ggml_sum, %function
ggml_sum:
	stp x29, x30, [sp, #-32]!
	str x19, [sp, #16]
	mov x19, x1
	ldr w1, [x1]
	mov w2, #1
	bl ggml_new_tensor_1d
	mov w1, #2
	str w1, [x0, #88]
	str x19, [x0, #168]
	ldr x19, [sp, #16]
	ldp x29, x30, [sp], #32
	ret
	.type ggml_tensor_overhead, %function
ggml_tensor_overhead:
	mov x0, #384
	ret
	.type ggml_graph_n_nodes, %function
ggml_graph_n_nodes:
	ldr w0, [x0, #12]
	ret
	.type ggml_graph_nodes, %function
ggml_graph_nodes:
	ldr x0, [x0, #24]
	ret
	.type ggml_version, %function
ggml_version:
	adr x0, version
	ret
	.type ggml_backend_name, %function
ggml_backend_name:
	cbz x0, 1f
	ldr x1, [x0, #16]
	br x1
1:	bl ggml_abort
	.type ggml_backend_graph_compute_async, %function
ggml_backend_graph_compute_async:
	ldr x2, [x0, #112]
	br x2
	.type ggml_backend_sched_get_n_backends, %function
ggml_backend_sched_get_n_backends:
	ldr w0, [x0, #8]
	ret
	.type ggml_backend_sched_get_backend, %function
ggml_backend_sched_get_backend:
	ldr w2, [x0, #8]
	cmp w1, w2
	b.ge 1f
	add x0, x0, w1, sxtw #3
	ldr x0, [x0, #16]
	ret
1:	bl ggml_abort
	.type ggml_abort, %function
ggml_abort:
	brk #1
	.type next_number, %function
next_number:
	adr x1, counter
1:	ldaxr x0, [x1]
	add x2, x0, #1
	stlxr w3, x2, [x1]
	cbnz w3, 1b
	ret
	.type ggml_backend_sched_split_graph, %function
ggml_backend_sched_split_graph:
	stp x29, x30, [sp, #-32]!
	str x19, [sp, #16]
	mov x19, x1
	bl next_number
	str x0, [x19, #96]
	bl next_number
	str x0, [x19, #200]
	ldr x19, [sp, #16]
	ldp x29, x30, [sp], #32
	ret

	.type ggml_backend_sched_graph_compute_async, %function
ggml_backend_sched_graph_compute_async:
	paciasp
	stp x29, x30, [sp, #-32]!
	mov x29, sp
	str x19, [sp, #16]
	mov x19, x0
	cbz x0, 1f
	bl next_number
	mov w0, #0
	ldr x19, [sp, #16]
	ldp x29, x30, [sp], #32
	autiasp
	ret
1:	mov w0, #1
	ldr x19, [sp, #16]
	ldp x29, x30, [sp], #32
	autiasp
	ret
	.type llama_decode, %function
llama_decode:				// hands a copy of the batch on; the pointer is gone by then
	stp x29, x30, [sp, #-96]!
	mov x2, x1
	add x3, sp, #32
	mov x29, sp
	ldp q1, q2, [x2]
	mov x1, x3
	ldr q0, [x2, #32]
	ldr x2, [x2, #48]
	str x2, [x3, #48]
	stp q1, q2, [x3]
	str q0, [x3, #32]
	bl inner_decode
	ldp x29, x30, [sp], #96
	ret
	.type inner_decode, %function
inner_decode:
	mov w0, #0
	ret
	.type llama_encode, %function
llama_encode:				// the return address is signed before the stack moves
	paciasp
	cbz x0, 1f
	sub sp, sp, #16
	add sp, sp, #16
1:	autiasp
	ret
	.type llama_process, %function
llama_process:
	bti c
	cbz w1, 1f
	mov x1, x2
	b inner_decode
1:	mov w0, #-1
	ret
	.type ggml_graph_compute, %function
ggml_graph_compute:
	stp x29, x30, [sp, #-32]!
	mov x29, sp
	str x19, [sp, #16]
	mov x19, x1
	ldr w2, [x19, #20]
	cmp w2, #0
	b.le 1f
	bl ggml_graph_compute_thread
	ldr x19, [sp, #16]
	ldp x29, x30, [sp], #32
	ret
1:	bl ggml_abort

	.type ggml_graph_compute_thread, %function
ggml_graph_compute_thread:
	stp x29, x30, [sp, #-96]!
	mov w21, #0
	b 4f
1:	add w21, w21, #1
	ldr w10, [x23, #12]
	cmp w21, w10
	b.ge 9f
4:	ldr x8, [x23, #24]
	ldr x20, [x8, w21, sxtw #3]
	ldr w9, [x20, #164]
	tbz w9, #4, 1b
	ldr w8, [x20, #88]
	cmp w8, #1
	b.eq fused
	add x0, sp, #8
	mov x1, x20
op_begin:
	bl ggml_cpu_extra_compute_forward
	tbz w0, #0, 6f
5:	ldr w8, [x19, #536]
join:
	cbz w8, 1b
7:	ldr w9, [x19, #192]			// the inlined barrier spins here
	cmp w9, w8
	b.ne 1b
	yield
	b 7b
6:	ldr w8, [x20, #88]
	cmp w8, #6
	b.hi 5b
	adr x9, jumps
	ldrsw x10, [x9, x8, lsl #2]
	add x9, x9, x10
	br x9
case_sum:
	add x0, sp, #8
	bl ggml_compute_forward_sum
	b 5b
fused:
	add x0, sp, #8
op_fused:
	bl ggml_compute_forward_a_b_fused
	b 5b
9:	ldp x29, x30, [sp], #96
	ret
jumps:	.long case_sum-jumps, case_sum-jumps

	.type ggml_cpu_extra_compute_forward, %function
ggml_cpu_extra_compute_forward:
	mov w0, #0
	ret
	.type ggml_compute_forward_sum, %function
ggml_compute_forward_sum:
	ret
	.type ggml_compute_forward_a_b_fused, %function
ggml_compute_forward_a_b_fused:
	ret
	.type ggml_compute_forward_custom, %function
ggml_compute_forward_custom:
	mov x3, x0
	mov x0, x1
	ldur x4, [x1, #92]
	ldp w1, w2, [x3, #8]
	br x4
// a batch in an order of its own: n_tokens, logits 8, seq_id 16, token 24, pos 32, n_seq_id 40
	.type malloc, %function
malloc:
	brk #1
	.type llama_batch_init, %function
llama_batch_init:
	stp x29, x30, [sp, #-32]!
	stp x19, x20, [sp, #16]
	mov x19, x8
	sxtw x20, w0
	str wzr, [x19]
	lsl x0, x20, #2
	bl malloc
	str x0, [x19, #24]
	lsl x0, x20, #2
	bl malloc
	str x0, [x19, #32]
	lsl x0, x20, #2
	bl malloc
	str x0, [x19, #40]
	add x0, x20, #1
	lsl x0, x0, #3
	bl malloc
	str x0, [x19, #16]
	mov x0, x20
	bl malloc
	str x0, [x19, #8]
	ldp x19, x20, [sp, #16]
	ldp x29, x30, [sp], #32
	ret

// what accessors compute with: arith(a, b), see machine_test.go
	.type arith, %function
arith:
	lsr x2, x0, #3
	add x3, x2, x1, lsl #4
	and x3, x3, #0xff00ff00ff00ff
	sub w4, w1, w0, asr #1
	sxtw x4, w4
	eor x3, x3, x4
	cmp x0, x1
	csinc x5, x3, x1, hi
	ccmp x5, #9, #0, ne
	cset w6, lo
	movz x7, #0x1234, lsl #16
	movk x7, #0x5678
	ubfx x8, x7, #12, #9
	orr x3, x3, x8, lsl #40
	udiv x9, x3, x7
	msub x9, x9, x7, x3
	umulh x10, x3, x3
	str q0, [sp, #-32]!
	stp x9, x10, [sp]
	ldr q1, [sp], #32
	str q1, [sp, #-16]!
	ldp x11, x12, [sp], #16
	add x0, x11, x12
	add x0, x0, w6, uxtw
	add x0, x0, w5, sxtb #2
	ret
	.type forever, %function
forever:
	b forever
	.type vk_graph, %function
vk_graph:
	stp x29, x30, [sp, #-16]!
	ldp x29, x30, [sp], #16
	ret

	.p2align 3
types:	.quad n_f32-base+BASE, 1, 0, 4, n_q-base+BASE, 32, 0, 18, n_f16-base+BASE, 1, 0, 2
ops:	.quad o0-base+BASE, o1-base+BASE, o2-base+BASE, o3-base+BASE, o4-base+BASE, o5-base+BASE
unary:	.quad u0-base+BASE, u1-base+BASE
symbols: .quad s0-base+BASE
	.quad 0
counter: .quad 1
o0:	.asciz "NONE"
o1:	.asciz "MUL"
o2:	.asciz "SUM"
o3:	.asciz "MUL_MAT"
o4:	.asciz "VIEW"
o5:	.asciz "UNARY"
u0:	.asciz "ABS"
u1:	.asciz "SILU"
s0:	.asciz "X"
n_f32:	.asciz "f32"
n_q:	.asciz "q4_0"
n_f16:	.asciz "f16"
unknown: .asciz "NONE"
version: .asciz "9.8.7"
