// SPDX-License-Identifier: Apache-2.0

package ggml

import (
	"math"

	"github.com/profinfer/profinfer/profile/ops"
	"github.com/profinfer/profinfer/trace"
)

// The bytes of an operator are all bytes that it must read or write at least once. Each source counts once
// however often it is used (broadcast, reread blocks), and caches are ignored. So bytes/time is a lower bound
// of what the memory delivered, as far as the data did not stay in a cache.

// byteSum adds up parts, any of which may be unknown.
type byteSum struct {
	sum     int64
	unknown bool
}

func (b *byteSum) add(v int64, ok bool) {
	if !ok || v < 0 || b.sum > math.MaxInt64-v {
		b.unknown = true
		return
	}
	b.sum += v
}

// Bytes returns the bytes of the operator made of the members, run together; nil where unknown. A fused
// operator neither writes nor rereads what one member passes to the next.
func (Vocabulary) Bytes(nodes []trace.Node, members []int32) (bytes *int64, upper bool) {
	var b byteSum
	seen := map[int32]bool{}
	for _, m := range members {
		seen[m] = true
	}
	for _, m := range members {
		reads(nodes, m, seen, &b)
	}
	last := members[len(members)-1]
	b.add(written(nodes, last))
	if b.unknown {
		return nil, false
	}
	return &b.sum, atMost(nodes, &nodes[members[0]])
}

// reads adds the bytes that node m reads. Sources in seen are passed on by another member, or counted
// already.
//
// Null sources are left out of Node.Src, so an index below matches the engine's only where all sources before
// it are present; each case checks what it needs.
func reads(nodes []trace.Node, m int32, seen map[int32]bool, b *byteSum) {
	n := &nodes[m]
	switch n.Op {
	case "CUSTOM", "MAP_CUSTOM1", "MAP_CUSTOM2", "MAP_CUSTOM3":
		b.unknown = true // what a caller's own function reads is unknown
		return
	}
	for i, src := range n.Src {
		if src < 0 || int(src) >= len(nodes) {
			b.unknown = true
			return
		}
		if seen[src] {
			continue
		}
		if !readsSource(n, i) {
			continue
		}
		seen[src] = true
		b.add(readOf(nodes, n, i))
	}
}

// readsSource is false for sources that an operator uses only for their dimensions, or as its destination.
func readsSource(n *trace.Node, i int) bool {
	switch n.Op {
	case "CPY":
		// ggml_cpy(a, b): the result is a view of b, which is src[1].
		return i == 0
	case "SET_ROWS":
		// ggml_set_rows(a, b, c): src[0] = b (rows), src[1] = c (their indices), src[2] = a, of which the
		// result is a view (ggml.c: "note: order is weird due to legacy reasons").
		return i < 2
	case "IM2COL", "IM2COL_3D":
		// ggml_im2col(a, b): the kernel a only provides the sizes.
		return i == 1
	case "REPEAT_BACK":
		return i == 0
	case "SET":
		// ggml_set(a, b) in place: a is overwritten where b goes, and kept elsewhere.
		return i != 0 || n.ViewSrc < 0
	}
	return true
}

// readOf returns the bytes that node n reads of its source i.
func readOf(nodes []trace.Node, n *trace.Node, i int) (int64, bool) {
	s := &nodes[n.Src[i]]
	switch n.Op {
	case "MUL_MAT_ID":
		// src[0] holds the experts' weights [k, m, n_expert], src[2] the indices of the chosen ones [n_used,
		// n_tokens] (ggml_mul_mat_id). Which were chosen is unknown here, so this is an upper bound: as if
		// all choices differed, limited by the number of experts.
		if i == 0 {
			ids := ops.Source(nodes, n, 2)
			if ids == nil {
				return 0, false
			}
			used, ok := ops.Elements(ids)
			if !ok {
				return 0, false
			}
			return ops.FirstPlanes(s, min(used, s.Ne[2]))
		}
	case "GET_ROWS":
		// src[0] is a table, src[1] the indices of the rows (ggml_get_rows). Rows requested twice count
		// twice, so this is an upper bound, limited by the whole table.
		if i == 0 {
			ids := ops.Source(nodes, n, 1)
			if ids == nil {
				return 0, false
			}
			rows, ok := ops.Elements(ids)
			if !ok {
				return 0, false
			}
			return ops.FirstRows(s, rows)
		}
	case "ADD_ID":
		// ggml_add_id(a, b, ids): one row of b per id.
		if i == 1 {
			if ids := ops.Source(nodes, n, 2); ids != nil {
				if rows, ok := ops.Elements(ids); ok {
					return ops.FirstRows(s, rows)
				}
			}
			return 0, false
		}
	case "SOFT_MAX":
		// The mask (src[1], where there is one) may be padded to more rows than are used
		// (GGML_KQ_MASK_PAD until 2025).
		if i == 1 && s.Ne[0] == n.Ne[0] {
			return ops.TouchedPart(s, [4]int64{s.Ne[0], min(s.Ne[1], n.Ne[1]), s.Ne[2], s.Ne[3]})
		}
	case "FLASH_ATTN_EXT":
		// ggml_flash_attn_ext(q, k, v, mask): k and v are the cache's cells so far, whether or not the mask
		// lets a token see them. The mask's rows may be padded as above.
		if q := ops.Source(nodes, n, 0); i == 3 && q != nil {
			return ops.TouchedPart(s, [4]int64{s.Ne[0], min(s.Ne[1], q.Ne[1]), s.Ne[2], s.Ne[3]})
		}
	case "SSM_SCAN":
		// ggml_ssm_scan(s, x, dt, A, B, C, ids): only the states s in ids are read.
		if ids := ops.Source(nodes, n, 6); i == 0 && ids != nil {
			used, ok := ops.Elements(ids)
			if !ok {
				return 0, false
			}
			return ops.TouchedPart(s, [4]int64{s.Ne[0], s.Ne[1], s.Ne[2], min(s.Ne[3], used)})
		}
	}
	return ops.Touched(s)
}

// atMost reports whether a node is a MUL_MAT_ID of several tokens: the choices of one token differ from each
// other, those of several tokens need not.
func atMost(nodes []trace.Node, n *trace.Node) bool {
	if n.Op != "MUL_MAT_ID" {
		return false
	}
	ids := ops.Source(nodes, n, 2)
	return ids != nil && (ids.Ne[1] > 1 || ids.Ne[2] > 1 || ids.Ne[3] > 1)
}

// written returns the bytes that node m writes.
func written(nodes []trace.Node, m int32) (int64, bool) {
	n := &nodes[m]
	switch n.Op {
	case "SET_ROWS":
		// Only the rows given, in the destination's type.
		if rows := ops.Source(nodes, n, 0); rows != nil {
			count, ok := ops.Elements(rows)
			if !ok {
				return 0, false
			}
			return ops.RowBytes(n, count)
		}
		return 0, false
	case "SET":
		// In place: only the part that src[1] covers (the rest of the result is src[0] itself).
		if part := ops.Source(nodes, n, 1); part != nil && n.ViewSrc >= 0 {
			return ops.Touched(part)
		}
	}
	return ops.Touched(n)
}
