// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"cmp"
	"slices"
	"sort"
	"strings"

	"github.com/profinfer/profinfer/trace"
)

// tensorSpan is where a tensor's data lies in a process.
type tensorSpan struct {
	from, to uint64
	place    FaultPlace
	plane    uint64 // bytes of an expert; 0: it has none
	experts  int64
}

func (t *tensorSpan) at(addr uint64) FaultPlace {
	p := t.place
	if t.plane > 0 {
		if n := (addr - t.from) / t.plane; n < uint64(t.experts) {
			p.Expert = int32(n)
		}
	}
	return p
}

// spanOf returns where a tensor's data lies; false where that is not known, or it has none.
func spanOf(n *trace.Node) (t tensorSpan, ok bool) {
	if n.Data == 0 {
		return t, false
	}
	row, ok := rowBytes(n, n.Ne[0])
	if !ok {
		return t, false
	}
	size := uint64(row)
	if n.BlockSize == 1 && n.Nb[0] > 0 && n.Ne[0] > 0 { // elements need not lie side by side
		size = n.Nb[0]*uint64(n.Ne[0]-1) + uint64(n.TypeSize)
	}
	for i := 1; i < 4; i++ {
		if n.Ne[i] <= 0 || n.Nb[i] > 1<<47 || n.Ne[i] > 1<<32 {
			return t, false
		}
		size += n.Nb[i] * uint64(n.Ne[i]-1)
		if size > 1<<47 {
			return t, false // nonsense: no address space is larger
		}
	}
	if size == 0 || n.Data > ^uint64(0)-size {
		return t, false
	}
	return tensorSpan{from: n.Data, to: n.Data + size, place: FaultPlace{Expert: -1}}, true
}

// leafSpan is where a leaf lies, and what it is for.
func leafSpan(n *trace.Node, chosen bool) (tensorSpan, bool) {
	t, ok := spanOf(n)
	if !ok {
		return t, false
	}
	t.place.Tensor, t.place.Type = n.Name, n.Type
	switch {
	case chosen:
		t.place.Class, t.plane, t.experts = MemExpert, n.Nb[2], n.Ne[2]
	case isWeightName(n.Name):
		t.place.Class = MemWeight
	case isCacheName(n.Name):
		t.place.Class = MemCache
	default:
		t.place.Class = MemCompute
	}
	return t, true
}

// chosenLeaves are the weights of which products use some experts only.
func chosenLeaves(nodes []trace.Node) map[int32]bool {
	out := map[int32]bool{}
	for i := range nodes {
		if nodes[i].Op == "MUL_MAT_ID" && len(nodes[i].Src) > 0 {
			if l := leafOf(nodes, nodes[i].Src[0]); l >= 0 {
				out[l] = true
			}
		}
	}
	return out
}

// opPlace tells which of an operator's own tensors has an address, weights first; the zero value: none.
func opPlace(o *Op, addr uint64) (p FaultPlace) {
	if o.Shape == nil || o.Shape.Shape == nil || o.Node < 0 || int(o.Node) >= len(o.Shape.Nodes) {
		return p
	}
	nodes := o.Shape.Nodes
	for _, m := range append([]int32{o.Node}, o.Fused...) {
		if m < 0 || int(m) >= len(nodes) {
			continue
		}
		for k, src := range nodes[m].Src {
			l := leafOf(nodes, src)
			if l < 0 {
				continue
			}
			t, ok := leafSpan(&nodes[l], nodes[m].Op == "MUL_MAT_ID" && k == 0)
			if ok && addr >= t.from && addr < t.to {
				return t.at(addr)
			}
		}
	}
	for _, m := range append([]int32{o.Node}, o.Fused...) {
		if m < 0 || int(m) >= len(nodes) {
			continue
		}
		for _, n := range append([]int32{m}, nodes[m].Src...) {
			if n < 0 || int(n) >= len(nodes) {
				continue
			}
			t, ok := spanOf(&nodes[n])
			if !ok || addr < t.from || addr >= t.to {
				continue
			}
			p = FaultPlace{Class: MemCompute, Tensor: nodes[n].Name, Type: nodes[n].Type, Expert: -1}
			if isCacheName(p.Tensor) {
				p.Class = MemCache
			}
			return p
		}
	}
	return p
}

// whereabouts knows what addresses of a process are for.
type whereabouts struct {
	leaves   []tensorSpan // in order of address, as far as they are sorted
	results  []tensorSpan // of operators, joined where they touch; no names
	seen     map[leafKey]bool
	shapes   map[*Shape]bool
	sorted   bool
	maps     []trace.MemoryMap
	programs map[fileID]bool
}

type leafKey struct {
	from, to uint64
	name     string
}

type fileID struct{ dev, inode uint64 }

// maxSpans bounds the tensors that are known of a process.
const maxSpans = 1 << 18

// learn takes the tensors of shapes that came since.
func (w *whereabouts) learn(q *proc) {
	if q == nil {
		return
	}
	if w.seen == nil {
		w.seen, w.shapes = map[leafKey]bool{}, map[*Shape]bool{}
	}
	for _, sh := range q.shapes {
		if w.shapes[sh] {
			continue
		}
		w.shapes[sh] = true
		w.sorted = false
		chosen := chosenLeaves(sh.Nodes)
		for i := range sh.Nodes {
			n := &sh.Nodes[i]
			if !n.Leaf {
				if t, ok := spanOf(n); ok && n.ViewSrc < 0 {
					w.results = append(w.results, t)
				}
				continue
			}
			t, ok := leafSpan(n, chosen[int32(i)])
			k := leafKey{t.from, t.to, n.Name}
			if !ok || w.seen[k] || len(w.leaves) >= maxSpans {
				continue
			}
			w.seen[k] = true
			w.leaves = append(w.leaves, t)
		}
		w.results = joinSpans(w.results)
	}
	if !w.sorted {
		w.sorted = true
		slices.SortStableFunc(w.leaves, func(a, b tensorSpan) int { return cmp.Compare(a.from, b.from) })
	}
}

// joinSpans sorts spans and joins those that touch.
func joinSpans(s []tensorSpan) []tensorSpan {
	slices.SortFunc(s, func(a, b tensorSpan) int { return cmp.Compare(a.from, b.from) })
	out := s[:0]
	for _, t := range s {
		if n := len(out); n > 0 && t.from <= out[n-1].to {
			out[n-1].to = max(out[n-1].to, t.to)
			continue
		}
		out = append(out, t)
	}
	return out
}

// inSpans finds the span with an address. Spans can overlap where memory was used again: the one that
// begins last has it.
func inSpans(s []tensorSpan, addr uint64) *tensorSpan {
	i := sort.Search(len(s), func(i int) bool { return s[i].from > addr })
	for k := i - 1; k >= 0 && k >= i-8; k-- {
		if addr < s[k].to {
			return &s[k]
		}
	}
	return nil
}

// place tells what an address is for.
func (w *whereabouts) place(q *proc, addr uint64) FaultPlace {
	w.learn(q)
	m := w.mapping(addr)
	file := ""
	if m != nil {
		file = m.Path
	}
	if t := inSpans(w.leaves, addr); t != nil {
		p := t.at(addr)
		p.File = file
		return p
	}
	p := FaultPlace{Class: MemOther, Expert: -1, File: file}
	switch {
	case inSpans(w.results, addr) != nil:
		p.Class = MemCompute
	case m == nil:
	case m.Inode != 0 && (w.programs[fileID{m.Dev, m.Inode}] || strings.Contains(m.Perms, "x")):
		p.Class = MemProgram
	case m.Inode != 0:
		p.Class = MemFile
	case strings.HasPrefix(m.Path, "[stack"):
		p.Class = MemStack
	case strings.HasPrefix(m.Path, "[v"): // vdso, vvar, vsyscall
		p.Class = MemProgram
	}
	return p
}

func (w *whereabouts) mapping(addr uint64) *trace.MemoryMap {
	i := sort.Search(len(w.maps), func(i int) bool { return w.maps[i].End > addr })
	if i < len(w.maps) && addr >= w.maps[i].Start {
		return &w.maps[i]
	}
	return nil
}

func (w *whereabouts) file(addr uint64) string {
	if m := w.mapping(addr); m != nil {
		return m.Path
	}
	return ""
}

// mapped takes what a process has mapped now.
func (w *whereabouts) mapped(m *trace.Memory) {
	if len(m.Maps) == 0 {
		return
	}
	w.maps = slices.Clone(m.Maps)
	slices.SortFunc(w.maps, func(a, b trace.MemoryMap) int { return cmp.Compare(a.Start, b.Start) })
	w.programs = map[fileID]bool{}
	for i := range w.maps {
		if k := &w.maps[i]; k.Inode != 0 && strings.Contains(k.Perms, "x") {
			w.programs[fileID{k.Dev, k.Inode}] = true
		}
	}
}
