// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/memory"
	"github.com/profinfer/profinfer/trace"
)

// moeShape has a weight of 128 bytes that lies over two pages, the weights of 4 experts, a page each, and a
// weight elsewhere.
func moeShape() *profile.Shape {
	nodes := []trace.Node{
		{Name: "out", Op: "MUL_MAT_ID", Type: "f32", Ne: [4]int64{1, 1, 1, 1}, Src: []int32{2, 1},
			ViewSrc: -1, Data: 0x100, BlockSize: 1, TypeSize: 4, Nb: [4]uint64{4, 4, 4, 4}},
		{Name: "a.weight", Type: "f32", Ne: [4]int64{32, 1, 1, 1}, Nb: [4]uint64{4, 128, 128, 128},
			ViewSrc: -1, Data: 0x10000 + 4096 - 64, Leaf: true, BlockSize: 1, TypeSize: 4},
		{Name: "exps.weight", Type: "f32", Ne: [4]int64{1024, 1, 4, 1}, Nb: [4]uint64{4, 4096, 4096, 16384},
			ViewSrc: -1, Data: 0x10000 + 8192, Leaf: true, BlockSize: 1, TypeSize: 4},
		{Name: "copied.weight", Type: "f32", Ne: [4]int64{8, 1, 1, 1}, Nb: [4]uint64{4, 32, 32, 32},
			ViewSrc: -1, Data: 0x900000, Leaf: true, BlockSize: 1, TypeSize: 4},
	}
	return &profile.Shape{Index: 1, Shape: &trace.Shape{PID: 7, ID: 1, NNodes: 1, Nodes: nodes}}
}

// The file is mapped from its second page on. Pages 2, 3 and 5 of 8 are in memory at the end, none at the
// start: of the first weight, on pages 1 and 2, the 64 bytes on page 2; of the experts, on pages 3 to 6, the
// first and the third.
func TestResidency(t *testing.T) {
	file := func(when string, bits byte) *trace.Memory {
		return &trace.Memory{PID: 7, When: when,
			Maps: []trace.MemoryMap{{Start: 0x10000, End: 0x10000 + 7*4096, Offset: 4096, Perms: "r--s",
				Path: "m", Dev: 1, Inode: 2}},
			Files: []trace.FilePages{{Path: "named", Dev: 1, Inode: 2, Size: 7*4096 + 100, Page: 4096,
				Resident: []byte{bits}}}}
	}
	var r memory.Residency
	// before anything is mapped: not taken, nor a reason to fail
	r.Graph(&profile.Graph{PID: 7, Shape: moeShape()})
	r.Memory(file("start", 0))
	r.Graph(&profile.Graph{PID: 7, Shape: moeShape()})
	r.Memory(file("end", 4|8|32))
	r.Memory(file("changed", 255))
	fs := r.Files()
	if len(fs) != 1 {
		t.Fatalf("%+v", fs)
	}
	f := fs[0]
	if f.Path != "m" || !f.Mapped || !f.Graphs || f.Bytes != 7*4096+100 || value(f.InStart) != 0 ||
		value(f.InEnd) != 3*4096 || len(f.Tensors) != 2 {
		t.Errorf("%+v", f)
	}
	a, e := f.Tensors[0], f.Tensors[1]
	if a.Tensor != "a.weight" || a.Class != profile.MemWeight || a.Offset != 8192-64 || a.Bytes != 128 ||
		value(a.InStart) != 0 || value(a.InEnd) != 64 || a.Experts != nil {
		t.Errorf("%+v, %d", a, value(a.InEnd))
	}
	if e.Class != profile.MemExpert || e.Offset != 12288 || e.Bytes != 16384 || value(e.InEnd) != 8192 ||
		len(e.Experts) != 4 || e.Experts[0] != 4096 || e.Experts[1] != 0 || e.Experts[2] != 4096 {
		t.Errorf("%+v, %d", e, value(e.InEnd))
	}
	want := []memory.ClassMemory{{Class: profile.MemExpert, Tensors: 1, Bytes: 16384},
		{Class: profile.MemWeight, Tensors: 1, Bytes: 128}, {Class: profile.MemFile,
			Bytes: 7*4096 + 100 - 16384 - 128}}
	ends := []int64{8192, 64, 4096 - 64}
	for i, c := range f.Classes {
		if c.Class != want[i].Class || c.Tensors != want[i].Tensors || c.Bytes != want[i].Bytes ||
			value(c.InStart) != 0 || value(c.InEnd) != ends[i] {
			t.Errorf("%+v, %d at the end, want %+v, %d", c, value(c.InEnd), want[i], ends[i])
		}
	}
}

// What is claimed is held against what is there.
func TestResidencyClaims(t *testing.T) {
	for name, change := range map[string]func(*trace.FilePages, *trace.MemoryMap){
		"no bits":        func(f *trace.FilePages, _ *trace.MemoryMap) { f.Resident = nil },
		"no page":        func(f *trace.FilePages, _ *trace.MemoryMap) { f.Page = 0 },
		"a size below 0": func(f *trace.FilePages, _ *trace.MemoryMap) { f.Size = -5 },
		"failed":         func(f *trace.FilePages, _ *trace.MemoryMap) { f.Failed = "no" },
		"an offset too large": func(_ *trace.FilePages, m *trace.MemoryMap) {
			m.Offset = 1 << 63
		},
		"a map backwards": func(_ *trace.FilePages, m *trace.MemoryMap) { m.End = 1 },
	} {
		m := &trace.Memory{PID: 7, When: "end",
			Maps: []trace.MemoryMap{{Start: 0x10000, End: 0x10000 + 7*4096, Perms: "r--s", Path: "m", Dev: 1,
				Inode: 2}},
			Files: []trace.FilePages{{Path: "m", Dev: 1, Inode: 2, Size: 6 * 4096, Page: 4096,
				Resident: []byte{255}}}}
		change(&m.Files[0], &m.Maps[0])
		var r memory.Residency
		r.Memory(m)
		r.Graph(&profile.Graph{PID: 7, Shape: moeShape()})
		for _, f := range r.Files() {
			for _, x := range f.Tensors {
				if x.Offset < 0 || x.Bytes <= 0 || f.Bytes < x.Offset+x.Bytes {
					t.Errorf("%s: %+v", name, x)
				}
			}
			if name != "an offset too large" && name != "a map backwards" && f.InEnd != nil {
				t.Errorf("%s: %d bytes in memory", name, *f.InEnd)
			}
		}
	}
}
