// SPDX-License-Identifier: Apache-2.0

package ggml

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/profinfer/profinfer/engine"
)

// flagCompute is GGML_TENSOR_FLAG_COMPUTE (since 2026-01-19): nodes without it are not run.
const flagCompute = 0x10

// maxParams is how many operator parameters (of 4 bytes) a definition keeps.
const maxParams = 16

// Decoder turns the bytes of a struct ggml_tensor into a definition. It is an [engine.Decoder].
type Decoder struct {
	tensor  tensorLayout
	names   opNames
	types   []typeTraits
	unary   int32 // number of UNARY, whose first parameter identifies it; -1: none
	glu     int32
	flagged bool           // only tensors with flagCompute run
	idle    map[int32]bool // operators that only describe memory: no thread runs them
	// Backend holds the offsets to find the backends of a live scheduler.
	Backend BackendLayout
}

var _ engine.Decoder = (*Decoder)(nil)

// newDecoder makes a decoder from the facts of the base library; flagged is whether the operator loop skips
// tensors without flagCompute.
func newDecoder(b *baseFacts, flagged bool) *Decoder {
	d := &Decoder{tensor: b.tensor, names: b.names, types: b.types, unary: -1, glu: -1, flagged: flagged,
		idle: map[int32]bool{}, Backend: b.backend}
	for i, n := range b.names.ops {
		switch n {
		case "UNARY":
			if b.unaryName {
				d.unary = int32(i)
			}
		case "GLU":
			if b.gluName {
				d.glu = int32(i)
			}
		case "NONE", "RESHAPE", "VIEW", "PERMUTE", "TRANSPOSE":
			d.idle[int32(i)] = true
		}
	}
	return d
}

// Tensor decodes one tensor. Too few bytes are an error; implausible values are not.
func (d *Decoder) Tensor(raw engine.RawTensor) (engine.Tensor, error) {
	b, t := raw.Data, &d.tensor
	if need := min(t.size, maxTensor); len(b) < need {
		return engine.Tensor{}, fmt.Errorf("a tensor of %d bytes, want %d at least", len(b), need)
	}
	le := binary.LittleEndian
	out := engine.Tensor{Addr: raw.Addr, ViewSrc: le.Uint64(b[t.viewSrc:]), Data: le.Uint64(b[t.data:])}
	name, _, _ := bytes.Cut(b[t.name:t.name+maxName], []byte{0})
	out.Name = string(name)
	empty := false
	for i := range out.Ne {
		out.Ne[i] = int64(le.Uint64(b[t.ne+8*i:]))
		out.Nb[i] = le.Uint64(b[t.nb+8*i:])
		empty = empty || out.Ne[i] == 0
	}
	for i := range t.maxSrc {
		if p := le.Uint64(b[t.src+8*i:]); p != 0 {
			out.Src = append(out.Src, p)
		}
	}
	for i := range t.paramsLen / 4 {
		out.Params = append(out.Params, int32(le.Uint32(b[t.params+4*i:])))
	}
	op := int32(le.Uint32(b[t.op:]))
	out.Op = d.desc(op, out.Params)
	typ := int32(le.Uint32(b[t.typ:]))
	if typ >= 0 && int(typ) < len(d.types) {
		x := d.types[typ]
		out.Type, out.BlockSize, out.TypeSize = x.name, x.block, x.size
	} else {
		out.Type = fmt.Sprintf("type %d", typ)
	}
	out.Executes = !d.idle[op] && !empty
	if d.flagged && t.flags >= 0 && le.Uint32(b[t.flags:])&flagCompute == 0 {
		out.Executes = false
	}
	return out, nil
}

// desc is ggml_op_desc: the operator's name, or for a family the member's name.
func (d *Decoder) desc(op int32, params []int32) string {
	family := d.names.ops
	n := op
	switch {
	case len(params) == 0 || op < 0:
	case op == d.unary:
		family, n = d.names.unary, params[0]
	case op == d.glu:
		family, n = d.names.glu, params[0]
	}
	if n >= 0 && int(n) < len(family) {
		return family[n]
	}
	if op >= 0 && int(op) < len(d.names.ops) {
		return fmt.Sprintf("%s %d", d.names.ops[op], n)
	}
	return fmt.Sprintf("operator %d", op)
}

// operators maps every name that desc can return to its number.
func (d *Decoder) operators() map[string]int {
	m := make(map[string]int)
	for i, n := range d.names.ops {
		m[n] = i
		var family []string
		switch int32(i) {
		case d.unary:
			family = d.names.unary
		case d.glu:
			family = d.names.glu
		}
		for _, member := range family {
			m[member] = i
		}
	}
	return m
}
