// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/probe"
)

// FuzzTexts reads what the kernel says of the machine's CPUs.
func FuzzTexts(f *testing.F) {
	f.Add("cpu  1 2 3 4 5 6 7 8 9 0\ncpu0 1 2 3 4 5 6 7 8 9 0\ncpu1 1 2 3 4 5 6 7 9223372036854775807 9 0\nintr 1\n")
	f.Add("cpu0 1\ncpu-1 1 2 3 4 5 6 7 -8\ncpu99999999999999999999 1\n")
	f.Add("processor\t: 0\nmodel name\t: A CPU @ 2 GHz\n")
	f.Fuzz(func(t *testing.T, s string) {
		cpus := parseStat([]byte(s))
		if len(cpus) > maxCPUs {
			t.Fatalf("%d CPUs", len(cpus))
		}
		for _, c := range cpus {
			if c.CPU < 0 || c.Steal != nil && *c.Steal < 0 {
				t.Fatalf("%+v", c)
			}
		}
		if m := parseCPUModel([]byte(s)); len(m) > len(s) {
			t.Fatalf("%q", m)
		}
	})
}

// words is a decoder of tensors that are addresses: of two sources and of a view's.
type words struct{}

func (words) Tensor(raw engine.RawTensor) (engine.Tensor, error) {
	if len(raw.Data) < 3 {
		return engine.Tensor{}, errors.New("cut")
	}
	return engine.Tensor{Addr: raw.Addr, Src: []uint64{uint64(raw.Data[0]), uint64(raw.Data[1])},
		ViewSrc: uint64(raw.Data[2])}, nil
}

// FuzzShapes puts shapes together from definitions in any order, repeated, of nodes that there are not, and
// of several processes.
func FuzzShapes(f *testing.F) {
	f.Add([]byte{0, 0, 16, 1, 2, 3, 1, 1, 17, 16, 16, 0, 2, 0, 18, 9, 9, 9}, uint8(2), uint8(2))
	f.Add([]byte{0, 200, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, uint8(1), uint8(0))
	f.Fuzz(func(t *testing.T, b []byte, nodes, claimed uint8) {
		var a assembler
		total := 0
		for ; len(b) >= 6; b = b[6:] {
			d := probe.Def{PID: int32(b[0] >> 4 & 1), Shape: uint64(b[0] >> 5 & 1), Leaf: b[0]&1 != 0,
				Index: uint32(b[1]), Addr: uint64(b[2]), Raw: b[3:6:6]}
			if b[0]&2 != 0 {
				d.Index = binary.LittleEndian.Uint32(b[1:5])
			}
			if b[0]&4 != 0 {
				d.Raw = nil
			}
			a.add(d)
			total++
		}
		if a.n != total {
			t.Fatalf("%d wait, not %d", a.n, total)
		}
		for pid := range int32(2) {
			s := a.end(probe.ShapeEnd{PID: pid, NNodes: int(nodes), Claimed: int(claimed)}, words{})
			if len(s.Nodes) < int(nodes) || len(s.Nodes) > int(nodes)+total {
				t.Fatalf("%d nodes", len(s.Nodes))
			}
			for i, n := range s.Nodes {
				bad := func(k int32) bool { return k < 0 || int(k) >= len(s.Nodes) }
				if n.Leaf != (i >= int(nodes)) || slices.ContainsFunc(n.Src, bad) || n.ViewSrc != -1 &&
					bad(n.ViewSrc) {
					t.Fatalf("node %d: %+v", i, n)
				}
			}
			if s.Incomplete == "" && claimed > nodes {
				t.Fatalf("%+v", s)
			}
			a.forget(pid)
		}
		if a.n != 0 || len(a.pending) != 0 {
			t.Fatalf("%d wait at the end", a.n)
		}
	})
}
