// SPDX-License-Identifier: Apache-2.0

package probe

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target amd64,arm64 -type site -type open_steps -type layout -type slot -type filter -type sched_event -type fault -type mark -type seq -type def -type shape_end -type shape_key -type chosen -type kin -type kin_key kernel ../bpf/profinfer.bpf.c -- -I../bpf -Wall -Werror
