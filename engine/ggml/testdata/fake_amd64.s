# SPDX-License-Identifier: Apache-2.0
# A made-up engine in the shape of ggml, x86-64: what the tests of package ggml run on.
# Everything is in one section without relocations; fake_test.go makes an ELF file of it.
	.text
base:
	.set BASE, 0x400000

# --- accessors; offsets differ from any real ggml on purpose: ne 24, nb 56, op 88,
# op_params 92, flags 164, src 168, view_src 248, data 264, name 272, size 352
	.type ggml_get_data, @function
ggml_get_data:
	endbr64
	movq 264(%rdi), %rax
	ret
	.type ggml_get_name, @function
ggml_get_name:
	leaq 272(%rdi), %rax
	ret
	.type ggml_is_view, @function
ggml_is_view:
	xorl %eax, %eax
	cmpq $0, 248(%rdi)
	setne %al
	ret
	.type ggml_nelements, @function
ggml_nelements:
	movq 24(%rdi), %rax
	imulq 32(%rdi), %rax
	movq 40(%rdi), %rcx
	imulq 48(%rdi), %rcx
	imulq %rcx, %rax
	ret
	.type ggml_nbytes, @function
ggml_nbytes:
	pushq %rbx
	movq %rdi, %rbx
	leaq 24(%rbx), %rdx
	leaq 56(%rdx), %rsi
	movl $1, %eax
	xorl %ecx, %ecx
1:	movq (%rdx,%rcx,8), %r8
	decq %r8
	imulq 32(%rdx,%rcx,8), %r8
	addq %r8, %rax
	incq %rcx
	cmpl $4, %ecx
	jl 1b
	popq %rbx
	ret
	.type ggml_element_size, @function
ggml_element_size:
	movl (%rdi), %edi
	.type ggml_type_size, @function
ggml_type_size:
	movl %edi, %edi
	leaq types(%rip), %rax
	shlq $5, %rdi
	movq 24(%rax,%rdi), %rax
	ret
	.type ggml_blck_size, @function
ggml_blck_size:
	movslq %edi, %rdi
	leaq types(%rip), %rax
	shlq $5, %rdi
	movq 8(%rax,%rdi), %rax
	ret
	.type ggml_type_name, @function
ggml_type_name:
	leaq unknown(%rip), %rax
	cmpl $2, %edi
	ja 1f
	movl %edi, %edi
	leaq types(%rip), %rax
	shlq $5, %rdi
	movq (%rax,%rdi), %rax
1:	ret
	.type ggml_op_name, @function
ggml_op_name:
	movl %edi, %edi
	leaq ops(%rip), %rax
	movq (%rax,%rdi,8), %rax
	ret
	.type ggml_unary_op_name, @function
ggml_unary_op_name:
	movl %edi, %edi
	leaq unary(%rip), %rax
	movq (%rax,%rdi,8), %rax
	ret
	.type ggml_op_symbol, @function
ggml_op_symbol:
	movl %edi, %edi
	leaq symbols(%rip), %rax
	movq (%rax,%rdi,8), %rax
	ret
	.type ggml_get_unary_op, @function
ggml_get_unary_op:
	cmpl $5, 88(%rdi)
	jne ggml_abort
	movl 92(%rdi), %eax
	ret
	.type ggml_op_desc, @function
ggml_op_desc:
	movl 88(%rdi), %eax
	cmpl $5, %eax
	je 1f
	movl %eax, %edi
	jmp ggml_op_name
1:	call ggml_get_unary_op
	movl %eax, %edi
	jmp ggml_unary_op_name
	.type ggml_set_output, @function
ggml_set_output:
	orl $2, 164(%rdi)
	ret
	.type ggml_new_tensor_1d, @function
ggml_new_tensor_1d:
	ud2
	.type ggml_sum, @function
ggml_sum:
	pushq %rbx
	movq %rsi, %rbx
	movl (%rsi), %esi
	movl $1, %edx
	call ggml_new_tensor_1d
	movl $2, 88(%rax)
	movq %rbx, 168(%rax)
	popq %rbx
	ret
	.type ggml_tensor_overhead, @function
ggml_tensor_overhead:
	movl $384, %eax
	ret
	.type ggml_graph_n_nodes, @function
ggml_graph_n_nodes:
	movl 12(%rdi), %eax
	ret
	.type ggml_graph_nodes, @function
ggml_graph_nodes:
	movq 24(%rdi), %rax
	ret
	.type ggml_version, @function
ggml_version:
	leaq version(%rip), %rax
	ret
	.type ggml_backend_name, @function
ggml_backend_name:
	testq %rdi, %rdi
	je ggml_abort
	jmp *16(%rdi)
	.type ggml_backend_graph_compute_async, @function
ggml_backend_graph_compute_async:
	movq 112(%rdi), %rax
	jmp *%rax
	.type ggml_backend_sched_get_n_backends, @function
ggml_backend_sched_get_n_backends:
	movl 8(%rdi), %eax
	ret
	.type ggml_backend_sched_get_backend, @function
ggml_backend_sched_get_backend:
	cmpl 8(%rdi), %esi
	jge ggml_abort
	movslq %esi, %rsi
	movq 16(%rdi,%rsi,8), %rax
	ret
	.type ggml_abort, @function
ggml_abort:
	ud2
	.type next_number, @function
next_number:
	movl $1, %eax
	lock xaddq %rax, counter(%rip)
	ret
	.type ggml_backend_sched_split_graph, @function
ggml_backend_sched_split_graph:
	pushq %rbx
	movq %rsi, %rbx
	call next_number
	movl 12(%rbx), %ecx
	movq %rax, 96(%rbx)
	call next_number
	movq %rax, 200(%rbx)
	popq %rbx
	ret

# --- entries
	.type ggml_backend_sched_graph_compute_async, @function
ggml_backend_sched_graph_compute_async:
	endbr64
	subq $40, %rsp
	movq %fs:40, %rax
	movq %rax, 24(%rsp)
	xorl %eax, %eax
	testq %rdi, %rdi
	je 2f
	call next_number
1:	movq 24(%rsp), %rdx
	subq %fs:40, %rdx
	jne 3f
	addq $40, %rsp
	ret
2:	movl $1, %eax
	jmp 1b
3:	call __stack_chk_fail
	.type __stack_chk_fail, @function
__stack_chk_fail:
	ud2
	.type llama_decode, @function
llama_decode:
	endbr64
	subq $24, %rsp
	leaq 32(%rsp), %rsi
	call inner_decode
	movl %eax, %ecx
	cmpl $1, %eax
	jbe 1f
	movl %ecx, 12(%rsp)
	call next_number
	movl 12(%rsp), %ecx
1:	movl %ecx, %eax
	addq $24, %rsp
	ret
	.type inner_decode, @function
inner_decode:
	xorl %eax, %eax
	ret
	.type llama_encode, @function
llama_encode:				# no cheap instruction before the context is gone
	movq %rsi, %rdi
	pushq %rbx
	popq %rbx
	ret
	.type llama_process, @function
llama_process:
	endbr64
	testl %esi, %esi
	je 1f
	movq %rdx, %rsi
	jmp inner_decode
1:	movl $-1, %eax
	ret
	.type ggml_graph_compute, @function
ggml_graph_compute:
	endbr64
	pushq %rbp
	movq %rsi, %rbp
	movl 20(%rbp), %ecx
	testl %ecx, %ecx
	jle ggml_abort
	call ggml_graph_compute_thread
	popq %rbp
	ret

# --- the operator loop: the hook, the dispatch, a barrier behind the dispatch that is none of
# the loop's
	.type ggml_graph_compute_thread, @function
ggml_graph_compute_thread:
	pushq %rbp
	pushq %rbx
	subq $72, %rsp
	xorl %ebx, %ebx
	jmp 4f
loop_top:
1:	incl %ebx
	cmpl %ebx, 12(%rbp)
	jle 5f
	movq 48(%rsp), %rdi
barrier_loop:
	call ggml_barrier
4:	movq 24(%rbp), %rax
	movq (%rax,%rbx,8), %r9
	testb $16, 164(%r9)
	je 7f
	cmpl $1, 88(%r9)
	je fused
	movq %r9, %rsi
	movq %rsp, %rdi
op_begin:
	call ggml_cpu_extra_compute_forward
	movq (%rsp), %r9
	testb %al, %al
	jne 1b
	cmpl $6, 88(%r9)
	ja 1b
	movl 88(%r9), %eax
	leaq jumps(%rip), %rdx
	movslq (%rdx,%rax,4), %rax
	addq %rdx, %rax
	jmp *%rax
case_id:
	movq 48(%rsp), %rdi
barrier_inside:
	call ggml_barrier
	jmp 1b
case_sum:
	movq %rsp, %rdi
	call ggml_compute_forward_sum
	jmp 1b
7:	incl %ebx
	cmpl %ebx, 12(%rbp)
	jg 4b
5:	movq 48(%rsp), %rdi
barrier_closing:
	call ggml_barrier
	addq $72, %rsp
	popq %rbx
	popq %rbp
	ret
fused:
	movq %rsp, %rdi
op_fused:
	call ggml_compute_forward_a_b_fused
	jmp 1b
	.p2align 2
jumps:	.long case_sum-jumps, case_sum-jumps, case_sum-jumps, case_sum-jumps, case_id-jumps, case_sum-jumps, case_sum-jumps

	.type ggml_barrier, @function
ggml_barrier:
	ret
	.type ggml_cpu_extra_compute_forward, @function
ggml_cpu_extra_compute_forward:
	xorl %eax, %eax
	ret
	.type ggml_compute_forward_sum, @function
ggml_compute_forward_sum:
	ret
	.type ggml_compute_forward_a_b_fused, @function
ggml_compute_forward_a_b_fused:
	ret
	.type ggml_compute_forward_custom, @function
ggml_compute_forward_custom:
	movq %rdi, %rax
	movq %rsi, %rdi
	movq 92(%rsi), %rcx
	movl 12(%rax), %edx
	movl 8(%rax), %esi
	jmp *%rcx

# --- an older loop: the hook lies in a function of its own, one barrier for all operators
	.type old_loop, @function
old_loop:
	pushq %rbx
1:	movq %rsp, %rdi
old_op:
	call old_forward
	cmpl $0, 8(%rsp)
	jne 2f
	cmpq $0, 16(%rsp)
	jne 3f
2:	movq (%rsp), %rdi
old_barrier:
	call ggml_barrier
	decl %ebx
	jg 1b
	popq %rbx
	ret
3:	movb $1, 24(%rsp)
	jmp 2b
	.type old_forward, @function
old_forward:
	subq $8, %rsp
	call old_hook
	testb %al, %al
	je 1f
	addq $8, %rsp
	ret
1:	leaq jumps(%rip), %rdx
	jmp *%rdx
	.type old_hook, @function
old_hook:
	xorl %eax, %eax
	ret
	.type whisper_version, @function
whisper_version:
	leaq version(%rip), %rax
	ret

# --- a batch in an order of its own: n_tokens, logits 8, seq_id 16, token 24, pos 32, n_seq_id 40
	.type malloc, @function
malloc:
	ud2
	.type llama_batch_init, @function
llama_batch_init:
	pushq %rbx
	pushq %rbp
	movq %rdi, %rbx
	movslq %esi, %rbp
	movl $0, (%rbx)
	leaq (,%rbp,4), %rdi
	call malloc
	movq %rax, 24(%rbx)
	leaq (,%rbp,4), %rdi
	call malloc
	movq %rax, 32(%rbx)
	leaq (,%rbp,4), %rdi
	call malloc
	movq %rax, 40(%rbx)
	leaq 8(,%rbp,8), %rdi
	call malloc
	movq %rax, 16(%rbx)
	movq %rbp, %rdi
	call malloc
	movq %rax, 8(%rbx)
	movq %rbx, %rax
	popq %rbp
	popq %rbx
	ret

# --- ways out: a branch that is no check of the stack, and a way that joins after the check
	.type exit_other, @function
exit_other:
	subq $8, %rsp
	testl %edi, %edi
	jne 1f
	addq $8, %rsp
	ret
1:	ud2
	.type exit_join, @function
exit_join:
	subq $8, %rsp
	testl %edi, %edi
	jne 2f
	subq %fs:40, %rdx
	jne 3f
2:	addq $8, %rsp
	ret
3:	call __stack_chk_fail
moved_away:				# a part of exit_cold, with a way out of its own
	testl %esi, %esi
	je moved_back
	popq %rbx
	ret
	.type exit_cold, @function
exit_cold:
	pushq %rbx
	testl %edi, %edi
	jne moved_away
moved_back:
	leaq 1(%rdi), %rax
	popq %rbx
	ret
	.type exit_tail, @function
exit_tail:				# waits, then hands on to a function of the file that nobody calls
	pushq %rbp
	movq %rsp, %rbp
	subq $32, %rsp
	call next_number
	leave
	jmp exit_cold
	.type exit_foreign, @function
exit_foreign:				# hands on to one that is called elsewhere, too
	pushq %rbx
	call next_number
	popq %rbx
	jmp next_number
	.type exit_indirect, @function
exit_indirect:
	movq (%rdi), %rax
	jmp *%rax

# --- what accessors compute with: arith(a, b), see machine_test.go
	.type arith, @function
arith:
	movq %rdi, %rax
	shrq $3, %rax
	movl %esi, %ecx
	sall $2, %ecx
	leaq 5(%rax,%rcx,4), %rdx
	movslq %esi, %r8
	sarq $1, %r8
	subq %r8, %rdx
	cmpq %rdi, %rsi
	cmovb %rsi, %rdx
	movzbl %dil, %r9d
	notl %r9d
	andl $0xff00ff, %r9d
	xorq %r9, %rdx
	movq %rdx, -8(%rsp)
	movb $7, -7(%rsp)
	movq -8(%rsp), %xmm0
	movq %rsi, %xmm1
	punpcklqdq %xmm1, %xmm0
	movups %xmm0, -32(%rsp)
	movq -24(%rsp), %rax
	addq -32(%rsp), %rax
	xorl %edx, %edx
	movl $10, %ecx
	divq %rcx
	imulq $3, %rdx, %rdx
	addq %rdx, %rax
	ret
	.type forever, @function
forever:
	jmp forever

# --- other backends' graph functions
	.type vk_graph, @function
vk_graph:
	pushq %rbx
	popq %rbx
	ret
	.type cpu_graph, @function
cpu_graph:
	subq $8, %rsp
	call ggml_graph_compute
	addq $8, %rsp
	ret
	.type vk_name, @function
vk_name:
	leaq name_vk(%rip), %rax
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
name_vk: .asciz "Vulkan0"
