// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"cmp"
	"maps"
	"slices"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/internal/where"
	"github.com/profinfer/profinfer/profile/ops"
	"github.com/profinfer/profinfer/trace"
)

// FileMemory reports which part of a file was in memory, whoever loaded it.
type FileMemory struct {
	PID   int32  `json:"pid"`
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
	// InStart and InEnd are the bytes of its pages that were in memory when the recording of the process
	// began, or when the file was first seen, and at the end. nil: unknown.
	InStart *int64 `json:"resident_start_bytes"`
	InEnd   *int64 `json:"resident_end_bytes"`
	// Failed says why they are unknown.
	Failed string `json:"failed,omitempty"`
	// Mapped: a tensor that the engine computes with is in the file's mapping. Otherwise the file's contents
	// were copied, and its pages are no longer needed.
	Mapped  bool           `json:"mapped"`
	Graphs  bool           `json:"graphs_seen"` // graph definitions were seen: Mapped is known
	Classes []ClassMemory  `json:"classes"`     // the largest first; what is in no tensor comes last
	Tensors []TensorMemory `json:"-"`           // in order of offset
}

// ClassMemory sums up how much of a file's tensors was in memory.
type ClassMemory struct {
	Class   profile.MemoryClass `json:"class"` // MemFile: in no tensor that was seen
	Tensors int                 `json:"tensors"`
	Bytes   int64               `json:"bytes"`
	InStart *int64              `json:"resident_start_bytes"`
	InEnd   *int64              `json:"resident_end_bytes"`
}

// TensorMemory reports how much of a tensor in a file was in memory.
type TensorMemory struct {
	profile.FaultPlace
	Offset  int64
	Bytes   int64
	InStart *int64
	InEnd   *int64
	// Experts are the bytes of each expert that were in memory at the end; nil: no experts, or unknown.
	Experts []int64
}

// Residency determines how much of the files of a run's processes was in memory. It is a part of sinks, which
// pass on graphs and mappings. The zero value is ready to use.
type Residency struct {
	procs map[int32]*residentProc
}

type residentProc struct {
	words  ops.Vocabulary // nil: it has no graph
	where  where.Map
	q      profile.Proc // holds the graph definitions
	files  map[where.FileID]*residentFile
	order  []where.FileID
	mapped map[where.FileID][]trace.MemoryMap
}

type residentFile struct{ first, last *trace.FilePages }

// maxResidentShapes bounds the graph definitions examined: the first ones contain the weights.
const maxResidentShapes = 64

// Graph takes the tensors of a graph.
func (r *Residency) Graph(g *profile.Graph) {
	if g.Shape == nil || g.Shape.Shape == nil || r.procs == nil {
		return
	}
	if p := r.procs[g.PID]; p != nil && len(p.q.Shapes) < maxResidentShapes {
		p.words = g.Vocabulary()
		p.q.Shapes[g.Shape.ID] = g.Shape
	}
}

// Memory takes a process's mappings.
func (r *Residency) Memory(m *trace.Memory) {
	if r.procs == nil {
		r.procs = map[int32]*residentProc{}
	}
	p := r.procs[m.PID]
	if p == nil {
		p = &residentProc{q: profile.Proc{Shapes: map[uint64]*profile.Shape{}},
			files: map[where.FileID]*residentFile{}, mapped: map[where.FileID][]trace.MemoryMap{}}
		r.procs[m.PID] = p
	}
	for i := range m.Files {
		f := &m.Files[i]
		k := where.FileID{Dev: f.Dev, Inode: f.Inode}
		x := p.files[k]
		if x == nil {
			x = &residentFile{first: f}
			p.files[k] = x
			p.order = append(p.order, k)
		}
		if m.When == "end" {
			x.last = f
		}
	}
	fresh := map[where.FileID][]trace.MemoryMap{}
	for _, k := range m.Maps {
		if k.Inode != 0 && k.End > k.Start {
			fresh[where.FileID{Dev: k.Dev,
				Inode: k.Inode}] = append(fresh[where.FileID{Dev: k.Dev, Inode: k.Inode}], k)
		}
	}
	for k, maps := range fresh { // where a file was that is no longer mapped
		p.mapped[k] = maps
	}
}

// Files returns the results, in the order in which the files were first seen. Call it at the end.
func (r *Residency) Files() (out []FileMemory) {
	pids := slices.Sorted(maps.Keys(r.procs))
	for _, pid := range pids {
		p := r.procs[pid]
		p.q.LearnInto(&p.where)
		for _, k := range p.order {
			out = append(out, p.file(pid, k))
		}
	}
	return out
}

func (p *residentProc) file(pid int32, k where.FileID) FileMemory {
	x := p.files[k]
	m := FileMemory{PID: pid, Path: x.first.Path, Bytes: x.first.Size, Failed: x.first.Failed,
		Classes: []ClassMemory{}, Graphs: len(p.where.Leaves()) > 0}
	if maps := p.mapped[k]; len(maps) > 0 && maps[0].Path != "" {
		m.Path = maps[0].Path
	}
	m.InStart, m.InEnd = residentIn(x.first, 0, m.Bytes), residentIn(x.last, 0, m.Bytes)
	sums := map[profile.MemoryClass]*ClassMemory{}
	rest := ClassMemory{Class: profile.MemFile, Bytes: m.Bytes, InStart: clone(m.InStart),
		InEnd: clone(m.InEnd)}
	var end int64
	for _, t := range p.inFile(k) {
		t.InStart, t.InEnd = residentIn(x.first, t.Offset, t.Bytes), residentIn(x.last, t.Offset, t.Bytes)
		if t.Offset < end || t.Offset+t.Bytes > m.Bytes {
			continue // of a definition that does not fit the file
		}
		end = t.Offset + t.Bytes
		if n := len(t.Experts); n > 0 {
			plane := t.Bytes / int64(n)
			for i := range t.Experts {
				in := residentIn(x.last, t.Offset+int64(i)*plane, plane)
				if in == nil {
					t.Experts = nil
					break
				}
				t.Experts[i] = *in
			}
		}
		m.Mapped = true
		m.Tensors = append(m.Tensors, t)
		c := sums[t.Class]
		if c == nil {
			c = &ClassMemory{Class: t.Class, InStart: zeroIf(m.InStart), InEnd: zeroIf(m.InEnd)}
			sums[t.Class] = c
		}
		c.Tensors++
		c.Bytes += t.Bytes
		rest.Bytes -= t.Bytes
		c.InStart, rest.InStart = plus(c.InStart, t.InStart, 1), plus(rest.InStart, t.InStart, -1)
		c.InEnd, rest.InEnd = plus(c.InEnd, t.InEnd, 1), plus(rest.InEnd, t.InEnd, -1)
	}
	for _, c := range sums {
		m.Classes = append(m.Classes, *c)
	}
	slices.SortFunc(m.Classes, func(a, b ClassMemory) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Class, b.Class))
	})
	if m.Mapped && rest.Bytes > 0 {
		m.Classes = append(m.Classes, rest)
	}
	return m
}

// inFile lists the tensors whose data is in a file, in order of offset.
func (p *residentProc) inFile(k where.FileID) (out []TensorMemory) {
	for _, m := range p.mapped[k] {
		for i := range p.where.Leaves() {
			t := &p.where.Leaves()[i]
			if t.From < m.Start || t.To > m.End {
				continue
			}
			x := TensorMemory{FaultPlace: t.Place, Offset: int64(t.From - m.Start + m.Offset),
				Bytes: int64(t.To - t.From)}
			x.File = m.Path
			if t.Plane > 0 && t.Experts > 0 && t.Experts <= 1<<16 {
				x.Experts = make([]int64, t.Experts)
			}
			out = append(out, x)
		}
	}
	slices.SortStableFunc(out, func(a, b TensorMemory) int { return cmp.Compare(a.Offset, b.Offset) })
	return out
}

// residentIn returns how many bytes of a part of a file are on pages in memory; nil: unknown.
func residentIn(f *trace.FilePages, offset, length int64) *int64 {
	if f == nil || f.Failed != "" || f.Page <= 0 || offset < 0 || length < 0 || offset > f.Size-length {
		return nil
	}
	var sum int64
	for at := offset; at < offset+length; {
		n := at / f.Page
		if n/8 >= int64(len(f.Resident)) {
			return nil // the file is larger than what was examined
		}
		next := min((n+1)*f.Page, offset+length)
		if f.Resident[n/8]&(1<<(n%8)) != 0 {
			sum += next - at
		}
		at = next
	}
	return &sum
}

func clone(v *int64) *int64 {
	if v == nil {
		return nil
	}
	x := *v
	return &x
}

func zeroIf(v *int64) *int64 {
	if v == nil {
		return nil
	}
	return new(int64)
}

func plus(a, b *int64, sign int64) *int64 {
	if a == nil || b == nil {
		return nil
	}
	x := *a + sign**b
	return &x
}
