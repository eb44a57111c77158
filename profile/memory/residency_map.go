// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"maps"
	"slices"
	"strings"

	"github.com/profinfer/profinfer/profile/ops"
	"github.com/profinfer/profinfer/trace"
)

// maxPage bounds the page size that a recording may claim: the largest real pages have a gigabyte or two.
const maxPage = 1 << 31

// Maps returns the files with their cells and tensors, in the order of [Residency.Files]. Call it at the end.
func (r *Residency) Maps() []FileMap {
	out := []FileMap{}
	pids := slices.Sorted(maps.Keys(r.procs))
	tensors := 0
	for _, pid := range pids {
		p := r.procs[pid]
		p.q.LearnInto(&p.where)
		for _, k := range p.order {
			m := p.file(pid, k)
			f := fileMap(&m, p.files[k], p.words)
			if left := len(f.Tensors) - max(0, maxFileTensors-tensors); left > 0 {
				f.TensorsLeft = left
				f.Tensors = f.Tensors[:len(f.Tensors)-left]
			}
			tensors += len(f.Tensors)
			out = append(out, f)
		}
	}
	return out
}

func fileMap(m *FileMemory, x *residentFile, words ops.Vocabulary) FileMap {
	f := FileMap{PID: m.PID, Path: m.Path, Bytes: m.Bytes, Page: x.first.Page, InStart: m.InStart,
		InEnd: m.InEnd, Failed: m.Failed,
		Mapped: m.Mapped, Graphs: m.Graphs, Groups: []FileGroup{}, Tensors: []FileTensor{}}
	if !m.Mapped && !strings.HasSuffix(m.Path, ".gguf") || m.Bytes <= 0 || x.first.Page <= 0 ||
		x.first.Page > maxPage || m.InStart == nil && m.InEnd == nil {
		return f
	}
	f.Stayed = stayedIn(x, 0, m.Bytes)
	f.Groups = fileGroups(m, words)
	cell := max(1, (m.Bytes+maxFileCells-1)/maxFileCells)
	f.Cell = (cell + f.Page - 1) / f.Page * f.Page
	group := 0
	for i := range f.Groups {
		f.Groups[i].cells(x, f.Cell)
	}
	for i := range m.Tensors {
		t := &m.Tensors[i]
		for group+1 < len(f.Groups) && f.Groups[group+1].Offset <= t.Offset {
			group++
		}
		f.Tensors = append(f.Tensors, FileTensor{Name: t.Tensor, Class: t.Class, Type: t.Type,
			Layer: layerOfLeaf(words, t.Tensor), Group: group, Offset: t.Offset, Bytes: t.Bytes,
			InStart: t.InStart, InEnd: t.InEnd, Stayed: stayedIn(x, t.Offset, t.Bytes)})
	}
	return f
}

// layerOfLeaf returns the layer in a tensor's name; nil: none.
func layerOfLeaf(words ops.Vocabulary, name string) *int {
	l := words.WeightLayer(name)
	if l < 0 {
		_, l = words.SplitName(name)
	}
	if l < 0 {
		return nil
	}
	return &l
}

// fileGroups divides a file into adjacent items. A gap between tensors that is larger than a page is a group;
// a smaller one is due to alignment, and belongs to the tensor before.
func fileGroups(m *FileMemory, words ops.Vocabulary) []FileGroup {
	const gap = 4096
	var out []FileGroup
	var end int64
	for i := range m.Tensors {
		t := &m.Tensors[i]
		if i == 0 && t.Offset > 0 || t.Offset-end > gap {
			out = append(out, FileGroup{Offset: end})
		}
		layer := layerOfLeaf(words, t.Tensor)
		if n := len(out); n > 0 && layer != nil && out[n-1].Layer != nil && *out[n-1].Layer == *layer {
			end = t.Offset + t.Bytes
			continue
		}
		g := FileGroup{Layer: layer, Offset: t.Offset}
		if layer == nil {
			g.Name = t.Tensor
		}
		out = append(out, g)
		end = t.Offset + t.Bytes
	}
	if len(m.Tensors) == 0 || m.Bytes-end > gap {
		out = append(out, FileGroup{Offset: end})
	}
	if len(out) > maxFileGroups { // unlike any engine's file: one part
		out = []FileGroup{{}}
	}
	for i := range out {
		next := m.Bytes
		if i+1 < len(out) {
			next = out[i+1].Offset
		}
		out[i].Bytes = next - out[i].Offset
	}
	return out
}

// cells fills a group's cells.
func (g *FileGroup) cells(x *residentFile, cell int64) {
	n := int((g.Bytes + cell - 1) / cell)
	take := func(of func(offset, bytes int64) *int64) []int64 {
		out := make([]int64, 0, n)
		for i := range int64(n) {
			in := of(g.Offset+i*cell, min(cell, g.Bytes-i*cell))
			if in == nil {
				return nil
			}
			out = append(out, *in)
		}
		return out
	}
	g.Start = take(func(o, b int64) *int64 { return residentIn(x.first, o, b) })
	g.End = take(func(o, b int64) *int64 { return residentIn(x.last, o, b) })
	g.Stayed = take(func(o, b int64) *int64 { return stayedIn(x, o, b) })
}

// stayedIn returns how many bytes of a part of a file are on pages that were in memory both at the start and
// at the end; nil: unknown.
func stayedIn(x *residentFile, offset, length int64) *int64 {
	a, b := x.first, x.last
	if a == nil || b == nil || a.Failed != "" || b.Failed != "" || a.Page != b.Page || a.Size != b.Size {
		return nil
	}
	both := trace.FilePages{Size: a.Size, Page: a.Page}
	if a.Page <= 0 || offset < 0 || length < 0 || offset > a.Size-length {
		return nil
	}
	// Only the bytes of the part count.
	from := offset / a.Page / 8
	to := min((offset+length+a.Page-1)/a.Page/8+1, int64(min(len(a.Resident), len(b.Resident))))
	if from >= to {
		if length == 0 {
			return new(int64)
		}
		return nil
	}
	both.Resident = make([]byte, to-from)
	for i := range both.Resident {
		both.Resident[i] = a.Resident[from+int64(i)] & b.Resident[from+int64(i)]
	}
	skip := from * 8 * a.Page
	both.Size -= skip
	return residentIn(&both, offset-skip, length)
}
