// SPDX-License-Identifier: Apache-2.0

package probe

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target amd64,arm64 -type site -type open_steps -type layout -type slot -type filter -type sched_event -type fault -type mark -type seq -type def -type shape_end -type shape_key -type routing -type routing_places -type op_sequence_key -type hit_kind -type mark_kind -type arg_kind -type batch_kind -type lost_kind -type sched_kind -type sched_flag -type filter_what -type phase_bit -type fault_kind -type record_type -type limit kernel ../bpf/profinfer.bpf.c -- -I../bpf -Wall -Werror
