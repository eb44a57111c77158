// SPDX-License-Identifier: Apache-2.0

package ggml

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/engine/internal/emulator"
)

const unknown = -1

// tensorLayout holds the offsets in struct ggml_tensor; unknown if not found.
type tensorLayout struct {
	typ, ne, nb, op, params, paramsLen, flags, src, maxSrc, viewSrc, data, name, size int
}

// field is one named offset of a tensor.
type field struct {
	name string
	val  int
	set  func(int)
	of   func(*era) int
}

func (t *tensorLayout) fields() []field {
	f := func(name string, p *int, of func(*era) int) field {
		return field{name, *p, func(v int) { *p = v }, of}
	}
	return []field{
		f("tensor.type", &t.typ, func(*era) int { return 0 }),
		f("tensor.ne", &t.ne, func(e *era) int { return e.ne }),
		f("tensor.nb", &t.nb, func(e *era) int { return e.nb }),
		f("tensor.op", &t.op, func(e *era) int { return e.op }),
		f("tensor.op_params", &t.params, func(e *era) int { return e.params }),
		f("tensor.flags", &t.flags, func(e *era) int { return e.flags }),
		f("tensor.src", &t.src, func(e *era) int { return e.src }),
		f("tensor.view_src", &t.viewSrc, func(e *era) int { return e.viewSrc }),
		f("tensor.data", &t.data, func(e *era) int { return e.data }),
		f("tensor.name", &t.name, func(e *era) int { return e.name }),
		f("tensor size", &t.size, func(e *era) int { return e.size }),
	}
}

// findings collects how each fact was found.
type findings []engine.Finding

func (f *findings) add(what string, value any, how string) {
	*f = append(*f, engine.Finding{What: what, Value: fmt.Sprint(value), How: how})
}

func (f findings) get(what string) *engine.Finding {
	for i := range f {
		if f[i].What == what {
			return &f[i]
		}
	}
	return nil
}

// probeTensor runs an accessor on a made-up tensor. It calls fill before the run.
func (l *lib) probeTensor(fn string, fill func(*emulator.Object)) (*emulator.Machine, *emulator.Object,
	uint64, error) {
	m, addr, err := l.machine(fn)
	if err != nil {
		return nil, nil, 0, err
	}
	t := m.NewObject("tensor")
	if fill != nil {
		fill(t)
	}
	ret, err := m.Run(addr, t.Addr)
	return m, t, ret, err
}

// onlyLoad is the offset of the single load of size bytes from o, unknown if there is none or more than one.
func onlyLoad(m *emulator.Machine, o *emulator.Object, size int) int {
	l := slices.DeleteFunc(m.Loads(o), func(a emulator.Access) bool { return a.Size != size })
	if len(l) != 1 {
		return unknown
	}
	return int(l[0].Off)
}

// run4 is the start of four consecutive 8-byte loads among those of a run, unknown if there are none. from is
// the lowest possible start.
func run4(loads []emulator.Access, from uint64) int {
	at := map[uint64]bool{}
	var offs []uint64
	for _, a := range loads {
		if a.Size == 8 {
			at[a.Off] = true
			offs = append(offs, a.Off)
		}
	}
	slices.Sort(offs)
	for _, o := range offs {
		if o >= from && at[o+8] && at[o+16] && at[o+24] {
			return int(o)
		}
	}
	return unknown
}

// readTensor reads the layout of struct ggml_tensor from the accessors of a base library.
func (l *lib) readTensor(f *findings, ops []string) tensorLayout {
	t := tensorLayout{unknown, unknown, unknown, unknown, unknown, unknown, unknown, unknown, unknown,
		unknown, unknown, unknown, unknown}
	note := func(p *int, what string, v int, how string) {
		if *p == unknown && v >= 0 && v < 4096 {
			*p = v
			f.add(what, v, how)
		}
	}
	ones := func(o *emulator.Object) { // dimensions and strides that every accessor can walk
		for i := 8; i < 2048; i += 8 {
			o.Put64(i, 2)
		}
	}
	if m, o, _, err := l.probeTensor("ggml_get_data", nil); err == nil {
		note(&t.data, "tensor.data", onlyLoad(m, o, 8), "ggml_get_data loads it")
	}
	if _, o, ret, err := l.probeTensor("ggml_get_name", nil); err == nil && ret > o.Addr {
		note(&t.name, "tensor.name", int(ret-o.Addr), "ggml_get_name returns its address")
	}
	if m, o, _, err := l.probeTensor("ggml_is_view", nil); err == nil {
		note(&t.viewSrc, "tensor.view_src", onlyLoad(m, o, 8), "ggml_is_view loads it")
	}
	if m, o, _, err := l.probeTensor("ggml_nelements", ones); err == nil {
		note(&t.ne, "tensor.ne", run4(m.Loads(o), 0), "ggml_nelements multiplies it")
	}
	for _, fn := range []string{"ggml_nbytes", "ggml_is_permuted"} {
		// q4_0, f32: types with and without blocks take different paths
		for _, typ := range []uint32{2, 0} {
			m, o, _, _ := l.probeTensor(fn, func(o *emulator.Object) { ones(o); o.Put32(0, typ) })
			if m != nil && t.ne >= 0 {
				// The run may end in an instruction the machine does not know: loads before it count.
				note(&t.nb, "tensor.nb", run4(m.Loads(o), uint64(t.ne)+32), fn+" computes with it")
			}
		}
	}
	if m, o, _, err := l.probeTensor("ggml_element_size", nil); err == nil {
		note(&t.typ, "tensor.type", onlyLoad(m, o, 4), "ggml_element_size loads it")
	}
	l.readOp(&t, ops, note)
	if m, o, _, err := l.probeTensor("ggml_set_output", nil); err == nil {
		for _, s := range m.Stores(o) {
			if s.Val == 2 { // GGML_TENSOR_FLAG_OUTPUT, never changed
				note(&t.flags, "tensor.flags", int(s.Off), "ggml_set_output sets a bit in it")
			}
		}
	}
	l.readSrc(&t, ops, note)
	if m, addr, err := l.machine("ggml_tensor_overhead"); err == nil {
		if v, err := m.Run(addr); err == nil && v > objectHeader && v < 4096 {
			note(&t.size, "tensor size", int(v)-objectHeader,
				fmt.Sprintf("ggml_tensor_overhead returns %d, less %d of its header", v, objectHeader))
		}
	}
	if t.viewSrc == unknown && t.data >= 0 {
		// There was no accessor until 2025. ggml_view_tensor reads what a view is a view of.
		if m, addr, err := l.machine("ggml_view_tensor"); err == nil {
			ctx, src := m.NewObject("context"), m.NewObject("tensor")
			_, _ = m.Run(addr, ctx.Addr, src.Addr)
			for _, a := range m.Loads(src) {
				if a.Size == 8 && int(a.Off) == t.data-16 {
					note(&t.viewSrc, "tensor.view_src", int(a.Off),
						"ggml_view_tensor loads it, 16 before the data")
				}
			}
		}
	}
	return t
}

// readOp finds the operator's number, its parameters and (in name tables) the numbers of families:
// ggml_get_unary_op loads the number, compares it with that of UNARY and returns the first parameter.
func (l *lib) readOp(t *tensorLayout, ops []string, note func(*int, string, int, string)) {
	n := slices.Index(ops, "UNARY")
	if n < 0 {
		return
	}
	m, o, ret, err := l.probeTensor("ggml_get_unary_op", func(o *emulator.Object) {
		for i := 0; i < 1024; i += 4 {
			o.Put32(i, uint32(n))
		}
	})
	if err != nil || ret&0xffffffff != uint64(n) {
		return
	}
	if lo := m.Loads(o); len(lo) == 2 && lo[0].Size == 4 && lo[1].Size == 4 {
		note(&t.op, "tensor.op", int(lo[0].Off), "ggml_get_unary_op compares it with UNARY's number")
		note(&t.params, "tensor.op_params", int(lo[1].Off), "ggml_get_unary_op returns the first")
	}
}

// readSrc runs a function that makes a node with one source: it stores the source at src and the operator's
// number at op.
func (l *lib) readSrc(t *tensorLayout, ops []string, note func(*int, string, int, string)) {
	for _, c := range []struct{ fn, op string }{
		{"ggml_sum", "SUM"}, {"ggml_mean", "MEAN"}, {"ggml_argmax", "ARGMAX"}, {"ggml_sum_rows", "SUM_ROWS"},
		{"ggml_sqr", "SQR"}, {"ggml_log", "LOG"}, {"ggml_dup", "DUP"},
	} {
		n := slices.Index(ops, c.op)
		m, addr, err := l.machine(c.fn)
		if err != nil || n < 0 {
			continue
		}
		ctx, a, result := m.NewObject("context"), m.NewObject("source"), m.NewObject("result")
		for i := range 8 {
			a.Put64(16+8*i, 1)
		}
		m.Hook = func(_ *emulator.Machine, name string, _ uint64) (uint64, emulator.HookResult) {
			if len(name) > 14 && name[:14] == "ggml_new_tenso" || name == "ggml_dup_tensor" ||
				name == "ggml_view_tensor" {
				return result.Addr, emulator.Return
			}
			return 0, emulator.Follow
		}
		if _, err := m.Run(addr, ctx.Addr, a.Addr); err != nil {
			continue
		}
		for _, s := range m.Stores(result) {
			if s.Size == 8 && s.Val == a.Addr {
				note(&t.src, "tensor.src", int(s.Off), c.fn+" stores its source there")
			}
			if s.Size == 4 && s.Val == uint64(n) {
				note(&t.op, "tensor.op", int(s.Off), c.fn+" stores "+c.op+"'s number there")
			}
		}
		if t.src != unknown {
			return
		}
	}
}

// complete fills in from history what the binary did not reveal and notes differences.
func (t *tensorLayout) complete(f *findings) (warnings []string, err error) {
	e := bestEra(t)
	if e == nil {
		return nil, fmt.Errorf("no offset of struct ggml_tensor could be read from the binary")
	}
	for _, x := range t.fields() {
		h := x.of(e)
		switch fd := f.get(x.name); {
		case x.val == unknown && h >= 0:
			x.set(h)
			f.add(x.name, h, "history "+e.from)
			if x.name != "tensor size" && x.name != "tensor.type" {
				warnings = append(warnings, fmt.Sprintf("%s could not be read from the binary; taken from ggml's history (%s)", x.name, e.from))
			}
		case x.val >= 0 && x.val != h && fd != nil:
			fd.Differ = "history " + e.from + ": " + strconv.Itoa(h)
		}
	}
	t.maxSrc, t.paramsLen = e.maxSrc, e.paramsLen
	// Since mid-2024 view_src follows src; before, there were counters between them.
	n := (t.viewSrc - t.src) / 8
	if known := e.src == t.src && e.viewSrc == t.viewSrc && e.maxSrc != n; n > 0 && n <= 32 && !known {
		t.maxSrc = n
		f.add("tensor.src count", n, "from src to view_src")
	} else {
		f.add("tensor.src count", t.maxSrc, "history "+e.from)
	}
	if t.flags > t.params && t.params >= 0 {
		t.paramsLen = t.flags - t.params
	}
	t.paramsLen = min(t.paramsLen, 4*maxParams)
	return warnings, t.check()
}

// check rejects an impossible layout: a field beyond the copied part of a tensor.
func (t *tensorLayout) check() error {
	end := min(t.size, maxTensor)
	for _, x := range []struct {
		name     string
		off, len int
	}{
		{"type", t.typ, 4}, {"ne", t.ne, 32}, {"nb", t.nb, 32}, {"op", t.op, 4}, {"op_params", t.params,
			max(t.paramsLen, 16)},
		{"src", t.src, 8 * t.maxSrc}, {"view_src", t.viewSrc, 8}, {"data", t.data, 8}, {"name", t.name,
			maxName},
	} {
		if x.off < 0 || x.off+x.len > end {
			return fmt.Errorf("struct ggml_tensor of %d bytes cannot hold %s at %d: the binary was misread",
				t.size, x.name, x.off)
		}
	}
	if t.flags+4 > end {
		return fmt.Errorf("struct ggml_tensor of %d bytes cannot hold flags at %d: the binary was misread",
			t.size, t.flags)
	}
	return nil
}
