// SPDX-License-Identifier: Apache-2.0

package ggml

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/engine"
)

// testDecoder decodes tensors of today's layout with a handful of operators.
func testDecoder(flagged bool) *Decoder {
	e := eras[len(eras)-1]
	b := &baseFacts{
		tensor: tensorLayout{0, e.ne, e.nb, e.op, e.params, e.paramsLen, e.flags, e.src, e.maxSrc, e.viewSrc,
			e.data, e.name, e.size},
		names: opNames{
			ops:   []string{"NONE", "MUL_MAT", "RESHAPE", "VIEW", "PERMUTE", "TRANSPOSE", "UNARY", "GLU"},
			unary: []string{"ABS", "SILU"}, glu: []string{"REGLU", "GEGLU", "SWIGLU"},
		},
		types:     []typeTraits{{"f32", 1, 4}, {"f16", 1, 2}, {"q4_0", 32, 18}},
		unaryName: true, gluName: true,
	}
	return newDecoder(b, flagged)
}

type rawTensor struct {
	typ, op, flags uint32
	params         []int32
	ne             [4]int64
	src            []uint64
	viewSrc        uint64
	name           string
}

func (r rawTensor) bytes() []byte {
	b := make([]byte, 336)
	le := binary.LittleEndian
	le.PutUint32(b, r.typ)
	for i, n := range r.ne {
		le.PutUint64(b[16+8*i:], uint64(n))
		le.PutUint64(b[48+8*i:], uint64(100+i))
	}
	le.PutUint32(b[80:], r.op)
	for i, p := range r.params {
		le.PutUint32(b[84+4*i:], uint32(p))
	}
	le.PutUint32(b[148:], r.flags)
	for i, s := range r.src {
		le.PutUint64(b[152+8*i:], s)
	}
	le.PutUint64(b[232:], r.viewSrc)
	le.PutUint64(b[248:], 0xdada)
	copy(b[256:320], r.name)
	return b
}

func TestDecode(t *testing.T) {
	ne := [4]int64{8, 4, 2, 1}
	long := strings.Repeat("x", 70)
	for _, c := range []struct {
		name     string
		flagged  bool
		in       rawTensor
		op, typ  string
		executes bool
	}{
		{"matrix product", true, rawTensor{typ: 2, op: 1, flags: 0x10, ne: ne, src: []uint64{1, 2},
			name: "Qcur-0"}, "MUL_MAT", "q4_0", true},
		{"not marked", true, rawTensor{op: 1, ne: ne, name: "node_1"}, "MUL_MAT", "f32", false},
		{"marked for output only", true, rawTensor{op: 1, flags: 2, ne: ne}, "MUL_MAT", "f32", false},
		{"no flag in this version", false, rawTensor{op: 1, ne: ne}, "MUL_MAT", "f32", true},
		{"empty", true, rawTensor{op: 1, flags: 0x10, ne: [4]int64{8, 0, 1, 1}}, "MUL_MAT", "f32", false},
		{"leaf", false, rawTensor{typ: 1, ne: ne}, "NONE", "f16", false},
		{"reshape", false, rawTensor{op: 2, ne: ne}, "RESHAPE", "f32", false},
		{"view", false, rawTensor{op: 3, ne: ne, viewSrc: 5}, "VIEW", "f32", false},
		{"permute", false, rawTensor{op: 4, ne: ne}, "PERMUTE", "f32", false},
		{"transpose", false, rawTensor{op: 5, ne: ne}, "TRANSPOSE", "f32", false},
		{"unary", false, rawTensor{op: 6, params: []int32{1}, ne: ne}, "SILU", "f32", true},
		{"unknown unary", false, rawTensor{op: 6, params: []int32{-1}, ne: ne}, "UNARY -1", "f32", true},
		{"gated", false, rawTensor{op: 7, params: []int32{2, 1}, ne: ne}, "SWIGLU", "f32", true},
		{"gated of a later version", false, rawTensor{op: 7, params: []int32{9}, ne: ne}, "GLU 9", "f32",
			true},
		{"unknown operator", false, rawTensor{op: 200, ne: ne}, "operator 200", "f32", true},
		{"negative operator", false, rawTensor{op: 0xffffffff, ne: ne}, "operator -1", "f32", true},
		{"unknown type", false, rawTensor{typ: 99, op: 1, ne: ne}, "MUL_MAT", "type 99", true},
		{"name without an end", false, rawTensor{op: 1, ne: ne, name: long}, "MUL_MAT", "f32", true},
		{"sources with a gap", false, rawTensor{op: 1, ne: ne, src: []uint64{3, 0, 4}}, "MUL_MAT", "f32",
			true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := testDecoder(c.flagged).Tensor(engine.RawTensor{Addr: 0xabc, Data: c.in.bytes()})
			if err != nil {
				t.Fatal(err)
			}
			if got.Op != c.op || got.Type != c.typ || got.Executes != c.executes {
				t.Errorf("%s %s executes %v, want %s %s %v", got.Op, got.Type, got.Executes, c.op, c.typ,
					c.executes)
			}
			src := slices.DeleteFunc(slices.Clone(c.in.src), func(p uint64) bool { return p == 0 })
			if got.Addr != 0xabc || got.Ne != c.in.ne || got.Nb != [4]uint64{100, 101, 102, 103} ||
				got.Data != 0xdada ||
				got.ViewSrc != c.in.viewSrc || !slices.Equal(got.Src, src) {
				t.Errorf("%+v", got)
			}
			if want := c.in.name[:min(len(c.in.name), 64)]; got.Name != want {
				t.Errorf("name %q, want %q", got.Name, want)
			}
			if len(got.Params) != 16 || len(c.in.params) > 0 &&
				!slices.Equal(got.Params[:len(c.in.params)], c.in.params) {
				t.Errorf("parameters %v", got.Params)
			}
		})
	}
	q, _ := testDecoder(false).Tensor(engine.RawTensor{Data: rawTensor{typ: 2, op: 1, ne: ne}.bytes()})
	if q.BlockSize != 32 || q.TypeSize != 18 {
		t.Errorf("q4_0: %d elements in %d bytes", q.BlockSize, q.TypeSize)
	}
	if _, err := testDecoder(false).Tensor(engine.RawTensor{Data: make([]byte, 335)}); err == nil {
		t.Error("a tensor that is cut is no error")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(rawTensor{typ: 2, op: 6, flags: 0x10, params: []int32{1}, src: []uint64{1}, name: "a"}.bytes())
	f.Add(make([]byte, 100))
	d := testDecoder(true)
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := d.Tensor(engine.RawTensor{Addr: 1, Data: b})
		if err != nil {
			return
		}
		if len(x.Name) > maxName || len(x.Src) > 10 || len(x.Params) > maxParams || x.Op == "" ||
			x.Type == "" {
			t.Errorf("%+v", x)
		}
	})
}
