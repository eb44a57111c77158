// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"cmp"
	"slices"
	"sort"
	"strings"

	"github.com/profinfer/profinfer/profile/ops"
	"github.com/profinfer/profinfer/trace"
)

// tensorSpan is the address range of a tensor's data in a process.
type tensorSpan struct {
	From, To uint64
	Place    FaultPlace
	Plane    uint64 // bytes per expert; 0: no experts
	Experts  int64
}

func (t *tensorSpan) at(addr uint64) FaultPlace {
	p := t.Place
	if t.Plane > 0 {
		if n := (addr - t.From) / t.Plane; n < uint64(t.Experts) {
			p.Expert = int32(n)
		}
	}
	return p
}

// spanOf returns the address range of a tensor's data; false if that is unknown or there is no data.
func spanOf(n *trace.Node) (t tensorSpan, ok bool) {
	if n.Data == 0 {
		return t, false
	}
	row, ok := ops.RowBytes(n, n.Ne[0])
	if !ok {
		return t, false
	}
	size := uint64(row)
	if n.BlockSize == 1 && n.Nb[0] > 0 && n.Ne[0] > 0 { // elements need not be adjacent
		size = n.Nb[0]*uint64(n.Ne[0]-1) + uint64(n.TypeSize)
	}
	for i := 1; i < 4; i++ {
		if n.Ne[i] <= 0 || n.Nb[i] > 1<<47 || n.Ne[i] > 1<<32 {
			return t, false
		}
		size += n.Nb[i] * uint64(n.Ne[i]-1)
		if size > 1<<47 {
			return t, false // invalid: no address space is larger
		}
	}
	if size == 0 || n.Data > ^uint64(0)-size {
		return t, false
	}
	return tensorSpan{From: n.Data, To: n.Data + size, Place: FaultPlace{Expert: -1}}, true
}

// leafSpan returns a leaf's address range and what it is used for.
func leafSpan(words ops.Vocabulary, n *trace.Node, chosen bool) (tensorSpan, bool) {
	t, ok := spanOf(n)
	if !ok {
		return t, false
	}
	t.Place.Tensor, t.Place.Type = n.Name, n.Type
	switch {
	case chosen:
		t.Place.Class, t.Plane, t.Experts = MemExpert, n.Nb[2], n.Ne[2]
	case words.IsWeight(n.Name):
		t.Place.Class = MemWeight
	case words.IsCache(n.Name):
		t.Place.Class = MemCache
	default:
		t.Place.Class = MemCompute
	}
	return t, true
}

// chosenLeaves returns the weights of which matmuls use only some experts.
func chosenLeaves(sh *Shape) map[int32]bool {
	out := map[int32]bool{}
	for i := range sh.Nodes {
		w, _ := sh.expertSources(int32(i))
		if l := ops.LeafOf(sh.Nodes, w); l >= 0 {
			out[l] = true
		}
	}
	return out
}

// opPlace returns which of an operator's own tensors contains an address, weights first; the zero value:
// none.
func opPlace(o *Op, addr uint64) (p FaultPlace) {
	if o.Shape == nil || o.Shape.Shape == nil || o.Node < 0 || int(o.Node) >= len(o.Shape.Nodes) {
		return p
	}
	nodes, words := o.Shape.Nodes, o.Shape.Vocabulary()
	for _, m := range append([]int32{o.Node}, o.Fused...) {
		if m < 0 || int(m) >= len(nodes) {
			continue
		}
		experts, _ := o.Shape.expertSources(m)
		for _, src := range nodes[m].Src {
			l := ops.LeafOf(nodes, src)
			if l < 0 {
				continue
			}
			t, ok := leafSpan(words, &nodes[l], src == experts)
			if ok && addr >= t.From && addr < t.To {
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
			if !ok || addr < t.From || addr >= t.To {
				continue
			}
			p = FaultPlace{Class: MemCompute, Tensor: nodes[n].Name, Type: nodes[n].Type, Expert: -1}
			if words.IsCache(p.Tensor) {
				p.Class = MemCache
			}
			return p
		}
	}
	return p
}

// Whereabouts knows what the addresses of a process are used for.
type Whereabouts struct {
	Leaves   []tensorSpan // in address order, for the sorted part
	results  []tensorSpan // of operators, joined where adjacent; without names
	seen     map[leafKey]bool
	shapes   map[*Shape]bool
	sorted   bool
	maps     []trace.MemoryMap
	programs map[FileID]bool
}

type leafKey struct {
	from, to uint64
	name     string
}

type FileID struct{ Dev, Inode uint64 }

// maxSpans bounds the known tensors of a process.
const maxSpans = 1 << 18

// Learn takes the tensors of graph definitions that are new since the last call.
func (w *Whereabouts) Learn(q *Proc) {
	if q == nil {
		return
	}
	if w.seen == nil {
		w.seen, w.shapes = map[leafKey]bool{}, map[*Shape]bool{}
	}
	for _, sh := range q.Shapes {
		if w.shapes[sh] {
			continue
		}
		w.shapes[sh] = true
		w.sorted = false
		chosen := chosenLeaves(sh)
		for i := range sh.Nodes {
			n := &sh.Nodes[i]
			if !n.Leaf {
				if t, ok := spanOf(n); ok && n.ViewSrc < 0 {
					w.results = append(w.results, t)
				}
				continue
			}
			t, ok := leafSpan(sh.Vocabulary(), n, chosen[int32(i)])
			k := leafKey{t.From, t.To, n.Name}
			if !ok || w.seen[k] || len(w.Leaves) >= maxSpans {
				continue
			}
			w.seen[k] = true
			w.Leaves = append(w.Leaves, t)
		}
		w.results = joinSpans(w.results)
	}
	if !w.sorted {
		w.sorted = true
		slices.SortStableFunc(w.Leaves, func(a, b tensorSpan) int { return cmp.Compare(a.From, b.From) })
	}
}

// joinSpans sorts spans and joins adjacent ones.
func joinSpans(s []tensorSpan) []tensorSpan {
	slices.SortFunc(s, func(a, b tensorSpan) int { return cmp.Compare(a.From, b.From) })
	out := s[:0]
	for _, t := range s {
		if n := len(out); n > 0 && t.From <= out[n-1].To {
			out[n-1].To = max(out[n-1].To, t.To)
			continue
		}
		out = append(out, t)
	}
	return out
}

// inSpans finds the span that contains an address. Spans can overlap where memory was reused; the one that
// begins last wins.
func inSpans(s []tensorSpan, addr uint64) *tensorSpan {
	i := sort.Search(len(s), func(i int) bool { return s[i].From > addr })
	for k := i - 1; k >= 0 && k >= i-8; k-- {
		if addr < s[k].To {
			return &s[k]
		}
	}
	return nil
}

// place returns what an address is used for.
func (w *Whereabouts) place(q *Proc, addr uint64) FaultPlace {
	w.Learn(q)
	m := w.mapping(addr)
	file := ""
	if m != nil {
		file = m.Path
	}
	if t := inSpans(w.Leaves, addr); t != nil {
		p := t.at(addr)
		p.File = file
		return p
	}
	p := FaultPlace{Class: MemOther, Expert: -1, File: file}
	switch {
	case inSpans(w.results, addr) != nil:
		p.Class = MemCompute
	case m == nil:
	case m.Inode != 0 && (w.programs[FileID{m.Dev, m.Inode}] || strings.Contains(m.Perms, "x")):
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

func (w *Whereabouts) mapping(addr uint64) *trace.MemoryMap {
	i := sort.Search(len(w.maps), func(i int) bool { return w.maps[i].End > addr })
	if i < len(w.maps) && addr >= w.maps[i].Start {
		return &w.maps[i]
	}
	return nil
}

func (w *Whereabouts) file(addr uint64) string {
	if m := w.mapping(addr); m != nil {
		return m.Path
	}
	return ""
}

// mapped takes the current mappings of a process.
func (w *Whereabouts) mapped(m *trace.Memory) {
	if len(m.Maps) == 0 {
		return
	}
	w.maps = slices.Clone(m.Maps)
	slices.SortFunc(w.maps, func(a, b trace.MemoryMap) int { return cmp.Compare(a.Start, b.Start) })
	w.programs = map[FileID]bool{}
	for i := range w.maps {
		if k := &w.maps[i]; k.Inode != 0 && strings.Contains(k.Perms, "x") {
			w.programs[FileID{k.Dev, k.Inode}] = true
		}
	}
}
