// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"fmt"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/memory"
	"github.com/profinfer/profinfer/trace"
)

const pg = 4096

// layeredShape has in a file that is mapped at 0x100000: 2 pages of header; an embedding of 3 pages; layer 0
// of a weight of 2 pages and one of 1.5; layer 1 the same, the first right behind the half page; 2 pages of
// nothing, and an output of 1 page.
func layeredShape() *profile.Shape {
	leaf := func(name string, at, bytes int64) trace.Node {
		n := uint64(bytes)
		return trace.Node{Name: name, Type: "f32", Ne: [4]int64{bytes / 4, 1, 1, 1},
			Nb: [4]uint64{4, n, n, n}, ViewSrc: -1, Data: 0x100000 +
				uint64(at), Leaf: true, BlockSize: 1, TypeSize: 4}
	}
	nodes := []trace.Node{
		{Name: "out", Op: "MUL_MAT", Type: "f32", Ne: [4]int64{1, 1, 1, 1}, Src: []int32{1, 2}, ViewSrc: -1,
			Data: 0x10, BlockSize: 1, TypeSize: 4, Nb: [4]uint64{4, 4, 4, 4}},
		leaf("token_embd.weight", 2*pg, 3*pg),
		leaf("blk.0.ffn_up.weight", 5*pg, 2*pg),
		leaf("blk.0.ffn_down.weight", 7*pg, pg+pg/2),
		leaf("blk.1.ffn_up.weight", 8*pg+pg/2, 2*pg),
		leaf("blk.1.ffn_down.weight", 10*pg+pg/2, pg+pg/2),
		leaf("output.weight", 14*pg, pg),
	}
	return &profile.Shape{Index: 1, Shape: &trace.Shape{PID: 7, ID: 1, NNodes: 1, Nodes: nodes}}
}

func pagesOf(n int64, in ...int64) trace.FilePages {
	f := trace.FilePages{Path: "/m.gguf", Dev: 1, Inode: 2, Size: n * pg, Page: pg,
		Resident: make([]byte, (n+7)/8)}
	for _, p := range in {
		f.Resident[p/8] |= 1 << (p % 8)
	}
	return f
}

func mapOf(t testing.TB, start, end trace.FilePages, shape *profile.Shape) memory.FileMap {
	t.Helper()
	var r memory.Residency
	maps := []trace.MemoryMap{{Start: 0x100000, End: 0x100000 + 15*pg, Perms: "r--s", Path: "/m.gguf", Dev: 1,
		Inode: 2}}
	r.Memory(&trace.Memory{PID: 7, When: "start", Maps: maps, Files: []trace.FilePages{start}})
	if shape != nil {
		r.Graph(&profile.Graph{PID: 7, Shape: shape})
	}
	r.Memory(&trace.Memory{PID: 7, When: "end", Files: []trace.FilePages{end}})
	fs := r.Maps()
	if len(fs) != 1 {
		t.Fatalf("%+v", fs)
	}
	return fs[0]
}

// The file's pages over its parts: each page is in the part and the tensor where it lies, not in the next.
func TestFileMap(t *testing.T) {
	// At the start pages 2 (embedding), 8 (shared by both layers) and 14 (output); at the end 8, 9, 10 and 11
	// (layer 1), 4 and 14.
	f := mapOf(t, pagesOf(15, 2, 8, 14), pagesOf(15, 4, 8, 9, 10, 11, 14), layeredShape())
	if !f.Mapped || !f.Graphs || f.Cell != pg || f.Page != pg || f.Bytes != 15*pg ||
		value(f.InStart) != 3*pg || value(f.InEnd) != 6*pg || value(f.Stayed) != 2*pg {
		t.Fatalf("%+v: %d, %d, %d", f, value(f.InStart), value(f.InEnd), value(f.Stayed))
	}
	const h = pg / 2
	want := []struct {
		layer              int // -1: none
		name               string
		at, bytes          int64
		start, end, stayed []int64
	}{
		{-1, "", 0, 2 * pg, []int64{0, 0}, []int64{0, 0}, []int64{0, 0}},
		{-1, "token_embd.weight", 2 * pg, 3 * pg, []int64{pg, 0, 0}, []int64{0, 0, pg}, []int64{0, 0, 0}},
		{0, "", 5 * pg, 3*pg + h, []int64{0, 0, 0, h}, []int64{0, 0, 0, h}, []int64{0, 0, 0, h}},
		// cells count from the group's begin, in the middle of page 8
		{1, "", 8*pg + h, 3*pg + h, []int64{h, 0, 0, 0}, []int64{pg, pg, pg, h}, []int64{h, 0, 0, 0}},
		{-1, "", 12 * pg, 2 * pg, []int64{0, 0}, []int64{0, 0}, []int64{0, 0}},
		{-1, "output.weight", 14 * pg, pg, []int64{pg}, []int64{pg}, []int64{pg}},
	}
	if len(f.Groups) != len(want) {
		t.Fatalf("%+v", f.Groups)
	}
	for i, g := range f.Groups {
		w := want[i]
		layer := -1
		if g.Layer != nil {
			layer = *g.Layer
		}
		if layer != w.layer || g.Name != w.name || g.Offset != w.at || g.Bytes != w.bytes {
			t.Errorf("part %d: layer %d %q, %d bytes from %d; want %+v", i, layer, g.Name, g.Bytes, g.Offset,
				w)
		}
		for _, c := range []struct {
			what      string
			got, want []int64
		}{{"start", g.Start, w.start}, {"end", g.End, w.end}, {"both", g.Stayed, w.stayed}} {
			if fmt.Sprint(c.got) != fmt.Sprint(c.want) {
				t.Errorf("part %d, %s: %v, want %v", i, c.what, c.got, c.want)
			}
		}
	}
	// tensors: in the start, at the end, at both
	tensors := map[string][4]int64{"token_embd.weight": {pg, pg, 0, 1}, "blk.0.ffn_up.weight": {0, 0, 0, 2},
		"blk.0.ffn_down.weight": {h, h, h, 2},
		"blk.1.ffn_up.weight":   {h, 2 * pg, h, 3}, "blk.1.ffn_down.weight": {0, pg + h, 0,
			3}, "output.weight": {pg, pg, pg, 5}}
	if len(f.Tensors) != len(tensors) || f.TensorsLeft != 0 {
		t.Fatalf("%+v", f.Tensors)
	}
	for _, x := range f.Tensors {
		if got := [4]int64{value(x.InStart), value(x.InEnd), value(x.Stayed),
			int64(x.Group)}; got != tensors[x.Name] || x.Class != profile.MemWeight || x.Type != "f32" {
			t.Errorf("%s: %v, want %v; %+v", x.Name, got, tensors[x.Name], x)
		}
	}
}

// The cells of a part add up to what is in memory of the file, however large a cell is and wherever pages
// lie.
func TestFileMapAddsUp(t *testing.T) {
	const n = 40_000 // pages: a cell has ten
	start, end := pagesOf(n), pagesOf(n)
	for i := range int64(n) {
		if i%7 < 3 {
			start.Resident[i/8] |= 1 << (i % 8)
		}
		if i%5 == 0 {
			end.Resident[i/8] |= 1 << (i % 8)
		}
	}
	start.Size -= 1000 // the last page is not full
	end.Size -= 1000
	f := mapOf(t, start, end, layeredShape())
	if f.Cell != 10*pg {
		t.Errorf("a cell of %d bytes", f.Cell)
	}
	var bytes int64
	var sums [3]int64
	for _, g := range f.Groups {
		if g.Offset != bytes {
			t.Errorf("a part at %d, want %d", g.Offset, bytes)
		}
		bytes += g.Bytes
		for i, l := range [][]int64{g.Start, g.End, g.Stayed} {
			if int64(len(l)) != (g.Bytes+f.Cell-1)/f.Cell {
				t.Errorf("%d cells of %d bytes", len(l), g.Bytes)
			}
			for _, v := range l {
				sums[i] += v
			}
		}
	}
	if bytes != f.Bytes || sums != [3]int64{value(f.InStart), value(f.InEnd), value(f.Stayed)} ||
		sums[2] == 0 {
		t.Errorf("%d of %d bytes, %v of %d, %d, %d", bytes, f.Bytes, sums, value(f.InStart), value(f.InEnd),
			value(f.Stayed))
	}
}

// Where one end is not known the other is; and nothing is said of a file of which no pages are known.
func TestFileMapUnknown(t *testing.T) {
	failed := trace.FilePages{Path: "/m.gguf", Dev: 1, Inode: 2, Size: 15 * pg, Page: pg,
		Failed: "not permitted"}
	f := mapOf(t, pagesOf(15, 2), failed, layeredShape())
	if f.InEnd != nil || f.Stayed != nil || value(f.InStart) != pg || len(f.Groups) != 6 ||
		f.Groups[1].End != nil || f.Groups[1].Stayed != nil || f.Groups[1].Start[0] != pg ||
		f.Tensors[0].InEnd != nil {
		t.Errorf("%+v", f)
	}
	if f := mapOf(t, failed, failed, layeredShape()); f.InStart != nil || len(f.Groups) != 0 ||
		f.Failed == "" {
		t.Errorf("%+v", f)
	}
	// a file whose tensors are not known is one part
	if f := mapOf(t, pagesOf(15, 3), pagesOf(15), nil); f.Mapped || f.Graphs || len(f.Groups) != 1 ||
		f.Groups[0].Start[3] != pg || len(f.Groups[0].Start) != 15 {
		t.Errorf("%+v", f)
	}
}

// What is claimed bounds nothing: no size, page or number of parts makes it large or fails.
func TestFileMapClaims(t *testing.T) {
	for name, change := range map[string]func(*trace.FilePages){
		"a page of 2^62":     func(f *trace.FilePages) { f.Page = 1 << 62 },
		"a page of 2^63-1":   func(f *trace.FilePages) { f.Page = 1<<63 - 1 },
		"a page of 1":        func(f *trace.FilePages) { f.Page = 1 },
		"a size of 2^62":     func(f *trace.FilePages) { f.Size = 1 << 62 },
		"a size below 0":     func(f *trace.FilePages) { f.Size = -5 },
		"no size":            func(f *trace.FilePages) { f.Size = 0 },
		"a page below 0":     func(f *trace.FilePages) { f.Page = -4096 },
		"no bits":            func(f *trace.FilePages) { f.Resident = nil },
		"fewer bits at last": func(f *trace.FilePages) { f.Resident = f.Resident[:1] },
	} {
		for _, which := range []int{0, 1, 2} {
			start, end := pagesOf(15, 1), pagesOf(15, 2)
			if which != 1 {
				change(&start)
			}
			if which != 0 {
				change(&end)
			}
			f := mapOf(t, start, end, layeredShape())
			cells := 0
			for _, g := range f.Groups {
				if g.Bytes < 0 {
					t.Errorf("%s: %+v", name, g)
				}
				cells += max(len(g.Start), len(g.End), len(g.Stayed))
			}
			if cells > 4096+512 || f.Cell < 0 {
				t.Errorf("%s: %d cells of %d", name, cells, f.Cell)
			}
		}
	}
	// layers that change from tensor to tensor
	s := layeredShape()
	var nodes []trace.Node
	for i := range int64(2000) {
		n := s.Nodes[1]
		n.Name, n.Data, n.Ne, n.Nb = fmt.Sprintf("blk.%d.a.weight", i), 0x100000+uint64(i*16),
			[4]int64{4, 1, 1, 1}, [4]uint64{4, 16, 16, 16}
		nodes = append(nodes, n)
	}
	s.Nodes = append(s.Nodes[:1], nodes...)
	if f := mapOf(t, pagesOf(15, 1), pagesOf(15, 2), s); len(f.Groups) != 1 || len(f.Tensors) != 2000 ||
		f.Groups[0].Start[1] != pg {
		t.Errorf("%d parts, %d tensors", len(f.Groups), len(f.Tensors))
	}
}

// Experts of which nothing was read are told too, with what of them is in memory: in moeShape the first and
// the third of four.
func TestFaultSeriesExpertsInMemory(t *testing.T) {
	b := memory.NewSeries(nil)
	m := &trace.Memory{PID: 7, When: "start",
		Maps: []trace.MemoryMap{{Start: 0x10000, End: 0x10000 + 7*4096, Offset: 4096, Perms: "r--s",
			Path: "m", Dev: 1, Inode: 2}},
		Files: []trace.FilePages{{Path: "m", Dev: 1, Inode: 2, Size: 7*4096 + 100, Page: 4096,
			Resident: []byte{0}}}}
	_ = b.Memory(m)
	_ = b.Graph(&profile.Graph{PID: 7, Shape: moeShape()})
	end := *m
	end.When, end.Files = "end", []trace.FilePages{{Path: "m", Dev: 1, Inode: 2, Size: 7*4096 + 100,
		Page: 4096, Resident: []byte{4 | 8 | 32}}}
	_ = b.Memory(&end)
	e := b.Finish(&profile.Header{}).Experts
	if len(e) != 1 || len(e[0].Layers) != 1 || e[0].Experts != 4 || e[0].Layers[0].Layer != -1 ||
		e[0].Layers[0].Bytes != 4096 || fmt.Sprint(e[0].Layers[0].InEnd) != "[4096 0 4096 0]" ||
		fmt.Sprint(e[0].Layers[0].Major) != "[0 0 0 0]" {
		t.Errorf("%+v", e)
	}
}
