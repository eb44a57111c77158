// SPDX-License-Identifier: Apache-2.0

package record

import (
	"fmt"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/probe"
	"github.com/profinfer/profinfer/trace"
)

// maxPending bounds the definitions that wait for the end of their shape.
const maxPending = 1 << 18

type shapeKey struct {
	pid int32
	id  uint64
}

// assembler makes graph shapes from tensors as they arrive.
type assembler struct {
	pending map[shapeKey][]probe.Def
	n       int
	Dropped uint64 // definitions dropped because too many were waiting
}

func (a *assembler) add(d probe.Def) {
	if a.pending == nil {
		a.pending = make(map[shapeKey][]probe.Def)
	}
	if a.n >= maxPending {
		a.Dropped += uint64(a.n)
		a.n = 0
		clear(a.pending)
	}
	k := shapeKey{d.PID, d.Shape}
	a.pending[k] = append(a.pending[k], d)
	a.n++
}

// forget drops the waiting definitions of a process that has ended.
func (a *assembler) forget(pid int32) {
	for k, defs := range a.pending {
		if k.pid == pid {
			a.n -= len(defs)
			delete(a.pending, k)
		}
	}
}

// end makes the shape whose definitions have all arrived.
func (a *assembler) end(e probe.ShapeEnd, dec engine.Decoder) *trace.Shape {
	k := shapeKey{e.PID, e.Shape}
	defs := a.pending[k]
	delete(a.pending, k)
	a.n -= len(defs)

	s := &trace.Shape{PID: e.PID, ID: e.Shape, NNodes: e.NNodes, Nodes: make([]trace.Node, e.NNodes)}
	index := make(map[uint64]int32, len(defs))
	tensors := make([]engine.Tensor, e.NNodes)
	found := 0
	for _, d := range defs {
		if d.Leaf || int(d.Index) >= e.NNodes {
			continue
		}
		t, err := decode(dec, d)
		if err != nil {
			s.Incomplete = err.Error()
			continue
		}
		if tensors[d.Index].Addr == 0 {
			found++
		}
		tensors[d.Index] = t
		index[d.Addr] = int32(d.Index)
	}
	for _, d := range defs {
		if _, ok := index[d.Addr]; ok || !d.Leaf {
			continue
		}
		t, err := decode(dec, d)
		if err != nil {
			s.Incomplete = err.Error()
			continue
		}
		index[d.Addr] = int32(len(tensors))
		tensors = append(tensors, t)
	}
	s.Nodes = make([]trace.Node, len(tensors))
	for i, t := range tensors {
		s.Nodes[i] = node(&t, index)
		s.Nodes[i].Leaf = i >= e.NNodes
	}
	switch {
	case found < e.NNodes:
		s.Incomplete = fmt.Sprintf("%d of %d nodes arrived", found, e.NNodes)
	case e.Failed > 0:
		s.Incomplete = fmt.Sprintf("%d reads of the process's memory failed", e.Failed)
	case e.Claimed > e.NNodes:
		s.Incomplete = fmt.Sprintf("the graph claims %d nodes, %d were read", e.Claimed, e.NNodes)
	}
	return s
}

func decode(dec engine.Decoder, d probe.Def) (engine.Tensor, error) {
	if len(d.Raw) == 0 {
		return engine.Tensor{}, fmt.Errorf("the tensor at %#x could not be read", d.Addr)
	}
	return dec.Tensor(engine.RawTensor{Addr: d.Addr, Data: d.Raw})
}

func node(t *engine.Tensor, index map[uint64]int32) trace.Node {
	n := trace.Node{Name: t.Name, Op: t.Op, Type: t.Type, Ne: t.Ne, Nb: t.Nb, ViewSrc: -1,
		Addr: t.Addr, Data: t.Data, Executes: t.Executes,
		BlockSize: t.BlockSize, TypeSize: t.TypeSize, Params: t.Params}
	for _, a := range t.Src {
		if i, ok := index[a]; ok {
			n.Src = append(n.Src, i)
		}
	}
	if i, ok := index[t.ViewSrc]; ok && t.ViewSrc != 0 {
		n.ViewSrc = i
	}
	return n
}
