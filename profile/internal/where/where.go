// SPDX-License-Identifier: Apache-2.0

// Package where knows what the addresses of a process are used for: tensors, files, stacks.
package where

import (
	"cmp"
	"slices"
	"sort"
	"strings"

	"github.com/profinfer/profinfer/profile/ops"
	"github.com/profinfer/profinfer/trace"
)

// Class is what a page of a process is used for.
type Class string

const (
	Expert  Class = "expert"  // a weight of which each token uses only some experts
	Weight  Class = "weight"  // any other weight
	Cache   Class = "cache"   // state that outlives a step: keys, values, recurrent states
	Compute Class = "compute" // results of operators and inputs of the graph
	File    Class = "file"    // a mapped file that is not a program, with no known tensor there
	Program Class = "program" // code and data of the program and its libraries
	Stack   Class = "stack"
	Other   Class = "other" // anonymous memory with no known tensor, or memory of unknown use
)

// Place says what an address is used for.
type Place struct {
	Class  Class
	Tensor string // empty: no known tensor there
	Type   string // of the tensor
	Expert int32  // expert number; -1: not an expert's weights
	File   string // mapped there, "[heap]" and the like; empty: none, or unknown
}

// Span is the address range of a tensor's data in a process.
type Span struct {
	From, To uint64
	Place    Place
	Plane    uint64 // bytes per expert; 0: no experts
	Experts  int64
}

func (t *Span) at(addr uint64) Place {
	p := t.Place
	if t.Plane > 0 {
		if n := (addr - t.From) / t.Plane; n < uint64(t.Experts) {
			p.Expert = int32(n)
		}
	}
	return p
}

// spanOf returns the address range of a tensor's data; false if that is unknown or there is no data.
func spanOf(n *trace.Node) (t Span, ok bool) {
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
	return Span{From: n.Data, To: n.Data + size, Place: Place{Expert: -1}}, true
}

// leafSpan returns a leaf's address range and what it is used for.
func leafSpan(words ops.Vocabulary, n *trace.Node, chosen bool) (Span, bool) {
	t, ok := spanOf(n)
	if !ok {
		return t, false
	}
	t.Place.Tensor, t.Place.Type = n.Name, n.Type
	switch {
	case chosen:
		t.Place.Class, t.Plane, t.Experts = Expert, n.Nb[2], n.Ne[2]
	case words.IsWeight(n.Name):
		t.Place.Class = Weight
	case words.IsCache(n.Name):
		t.Place.Class = Cache
	default:
		t.Place.Class = Compute
	}
	return t, true
}

// chosenLeaves returns the weights of which matmuls use only some experts.
func chosenLeaves(nodes []trace.Node, words ops.Vocabulary) map[int32]bool {
	out := map[int32]bool{}
	for i := range nodes {
		w, _ := words.ExpertSources(nodes, &nodes[i])
		if l := ops.LeafOf(nodes, w); l >= 0 {
			out[l] = true
		}
	}
	return out
}

// OfOperator returns which of an operator's own tensors contains an address, weights first; the zero value:
// none. The operator is made of the members, indices of nodes, run together.
func OfOperator(nodes []trace.Node, words ops.Vocabulary, members []int32, addr uint64) (p Place) {
	for _, m := range members {
		if m < 0 || int(m) >= len(nodes) {
			continue
		}
		experts, _ := words.ExpertSources(nodes, &nodes[m])
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
	for _, m := range members {
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
			p = Place{Class: Compute, Tensor: nodes[n].Name, Type: nodes[n].Type, Expert: -1}
			if words.IsCache(p.Tensor) {
				p.Class = Cache
			}
			return p
		}
	}
	return p
}

// Map is what is known of a process's addresses.
type Map struct {
	leaves   []Span // in address order, if sorted
	results  []Span // of operators, joined where adjacent; without names
	seen     map[leafKey]bool
	shapes   map[*trace.Shape]bool
	sorted   bool
	maps     []trace.MemoryMap
	programs map[FileID]bool
}

type leafKey struct {
	from, to uint64
	name     string
}

// FileID identifies a file.
type FileID struct{ Dev, Inode uint64 }

// maxSpans bounds the known tensors of a process.
const maxSpans = 1 << 18

// Learn takes the tensors of a graph's definition, if it is new.
func (w *Map) Learn(sh *trace.Shape, words ops.Vocabulary) {
	if w.seen == nil {
		w.seen, w.shapes = map[leafKey]bool{}, map[*trace.Shape]bool{}
	}
	if w.shapes[sh] {
		return
	}
	w.shapes[sh] = true
	w.sorted = false
	chosen := chosenLeaves(sh.Nodes, words)
	for i := range sh.Nodes {
		n := &sh.Nodes[i]
		if !n.Leaf {
			if t, ok := spanOf(n); ok && n.ViewSrc < 0 {
				w.results = append(w.results, t)
			}
			continue
		}
		t, ok := leafSpan(words, n, chosen[int32(i)])
		k := leafKey{t.From, t.To, n.Name}
		if !ok || w.seen[k] || len(w.leaves) >= maxSpans {
			continue
		}
		w.seen[k] = true
		w.leaves = append(w.leaves, t)
	}
	w.results = joinSpans(w.results)
}

// Leaves returns the tensors that no graph computes, in address order.
func (w *Map) Leaves() []Span {
	if !w.sorted {
		w.sorted = true
		slices.SortStableFunc(w.leaves, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
	}
	return w.leaves
}

// joinSpans sorts spans and joins adjacent ones.
func joinSpans(s []Span) []Span {
	slices.SortFunc(s, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
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
func inSpans(s []Span, addr uint64) *Span {
	i := sort.Search(len(s), func(i int) bool { return s[i].From > addr })
	for k := i - 1; k >= 0 && k >= i-8; k-- {
		if addr < s[k].To {
			return &s[k]
		}
	}
	return nil
}

// Place returns what an address is used for.
func (w *Map) Place(addr uint64) Place {
	m := w.mapping(addr)
	file := ""
	if m != nil {
		file = m.Path
	}
	if t := inSpans(w.Leaves(), addr); t != nil {
		p := t.at(addr)
		p.File = file
		return p
	}
	p := Place{Class: Other, Expert: -1, File: file}
	switch {
	case inSpans(w.results, addr) != nil:
		p.Class = Compute
	case m == nil:
	case m.Inode != 0 && (w.programs[FileID{m.Dev, m.Inode}] || strings.Contains(m.Perms, "x")):
		p.Class = Program
	case m.Inode != 0:
		p.Class = File
	case strings.HasPrefix(m.Path, "[stack"):
		p.Class = Stack
	case strings.HasPrefix(m.Path, "[v"): // vdso, vvar, vsyscall
		p.Class = Program
	}
	return p
}

func (w *Map) mapping(addr uint64) *trace.MemoryMap {
	i := sort.Search(len(w.maps), func(i int) bool { return w.maps[i].End > addr })
	if i < len(w.maps) && addr >= w.maps[i].Start {
		return &w.maps[i]
	}
	return nil
}

// File returns what is mapped at an address; empty: no file.
func (w *Map) File(addr uint64) string {
	if m := w.mapping(addr); m != nil {
		return m.Path
	}
	return ""
}

// Mapped takes the current mappings of a process.
func (w *Map) Mapped(m *trace.Memory) {
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
