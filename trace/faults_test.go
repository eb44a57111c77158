// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"io"
	"reflect"
	"testing"
)

func TestFaults(t *testing.T) {
	want := []Fault{
		{Time: 100, PID: 7, TID: 8, CPU: 3, Kind: FaultMajor, Addr: 1 << 63, Dur: 0, Read: 131072, Major: 1,
			Minor: 1 << 40},
		// shares a slot with thread 8
		{Time: 90, PID: 7, TID: 264, CPU: 0, Kind: FaultMinor, Addr: 4096, Dur: -1, Read: -1, Major: 0,
			Minor: 2},
		{Time: 120, PID: -1, TID: 8, CPU: 65535, Kind: FaultCounts, Dur: 1 << 50, Read: 0, Major: ^uint64(0)},
	}
	mem := Memory{PID: 7, Time: 130, When: "end", Major: -1, Minor: 3, Read: 4,
		Maps: []MemoryMap{{Start: 1 << 47, End: 1<<47 + 8192, Offset: 4096, Perms: "r--s", Path: "m \n.gguf",
			Dev: 1, Inode: 2}},
		Files: []FilePages{{Path: "m", Size: 8193, Page: 4096, Resident: []byte{5}}}}
	var b bytes.Buffer
	w := NewWriter(&b)
	for _, f := range want { // predictions hold from block to block
		if err := w.Faults([]Fault{f}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Memory(mem); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(End{}); err != nil {
		t.Fatal(err)
	}
	r, err := NewReader(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	var got []Fault
	var told *Memory
	for {
		blk, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, blk.Faults...)
		if blk.Memory != nil {
			told = blk.Memory
		}
	}
	if !reflect.DeepEqual(got, want) || len(r.Problems()) > 0 {
		t.Errorf("%v\n%+v\nwant\n%+v", r.Problems(), got, want)
	}
	if told == nil || !reflect.DeepEqual(*told, mem) {
		t.Errorf("%+v\nwant\n%+v", told, mem)
	}
}

// What a block claims is held against what it has.
func TestFaultsClaims(t *testing.T) {
	e := newFaultEncoder()
	e.add([]Fault{{Kind: FaultMajor, Addr: 5, Dur: -1, Read: 9}})
	p := e.appendTo(nil)
	if _, err := decodeFaults(p, 1); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 2, maxCount + 1} {
		if _, err := decodeFaults(p, n); err == nil {
			t.Errorf("a block of one fault was read as %d", n)
		}
	}
	for i := range p {
		q := bytes.Clone(p)
		q[i] ^= 0x55
		fs, _ := decodeFaults(q, 1) // an error or not, but no panic
		for _, f := range fs {
			if f.Dur < -1 || f.Read < -1 {
				t.Errorf("byte %d: %+v", i, f)
			}
		}
	}
}
