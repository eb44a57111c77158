// SPDX-License-Identifier: Apache-2.0

package ggml

import (
	"bytes"
	"testing"

	"github.com/profinfer/profinfer/target"
)

// FuzzMachine runs any code, in place of an accessor of the made-up engine, on an object: it ends within its bounds, touches nothing
// but what it has, and does the same again.
func FuzzMachine(f *testing.F) {
	engines := map[bool]*fake{false: fakeEngine(f, target.AMD64, nil), true: fakeEngine(f, target.ARM64, nil)}
	for arm, fk := range engines {
		for _, name := range []string{"arith", "forever", "ggml_get_data", "ggml_get_unary_op", "ggml_nbytes", "ggml_nelements", "op_begin"} {
			if at, ok := fk.label[name]; ok {
				code := fk.file[0x1000+at-fakeBase:]
				f.Add(arm, bytes.Clone(code[:min(96, len(code))]), uint64(7), uint64(1)<<63)
			}
		}
	}
	f.Add(false, []byte("\x48\xf7\xf6\xc3"), uint64(1), uint64(0)) // div by 0
	f.Add(false, []byte("\x99\xf7\xfe\xc3"), uint64(1)<<31, uint64(0xffffffff))
	f.Add(false, []byte("\x54\x5c\xff\x27"), uint64(0), uint64(0)) // push and pop the stack's pointer, a jump through an object
	f.Add(false, []byte("\xe8\xfb\xff\xff\xff"), uint64(0), uint64(0))
	f.Add(true, []byte("\x00\x00\x00\x94\xc0\x03\x5f\xd6"), uint64(0), uint64(0))
	f.Fuzz(func(t *testing.T, arm bool, code []byte, a, b uint64) {
		fk := engines[arm]
		file := bytes.Clone(fk.file)
		at := int(fk.label["arith"] - fakeBase)
		copy(file[0x1000+at:], code[:min(len(code), 256)])
		e, err := target.OpenELF(bytes.NewReader(file), "fake")
		if err != nil {
			t.Fatal(err)
		}
		l := newLib(e)
		var first machine
		for again := range 2 {
			m := l.newMachine()
			o := m.newObject("x")
			for i := range objectSize / 8 {
				o.put64(8*i, o.addr+uint64(i)*40%objectSize) // pointers to itself
			}
			calls := 0
			m.hook = func(*machine, string, uint64) (uint64, hookResult) {
				calls++
				return a, hookResult(calls % 3 % 2) // follow, or a result
			}
			r, err := m.run(fakeBase+uint64(at), o.addr, a, b, o.addr+64)
			if m.steps > maxSteps+1 || len(m.objs) > maxObjects || m.depth > maxDepth+1 || len(m.log) > 64*maxSteps || len(m.static) > 64*maxSteps {
				t.Fatalf("%d steps, %d objects, %d deep, %d accesses (%v)", m.steps, len(m.objs), m.depth, len(m.log), err)
			}
			for _, x := range m.log {
				if x.size <= 0 || x.size > 8 || x.obj != nil && x.off+uint64(x.size) > uint64(len(x.obj.data)) {
					t.Fatalf("access %+v", x)
				}
			}
			if m.tail != nil && (m.tail.obj == nil || m.tail.off >= objectStep) {
				t.Fatalf("tail jump %+v", m.tail)
			}
			m.loads(o)
			m.stores(o)
			if again == 0 {
				first = *m
			} else if m.steps != first.steps || m.pc != first.pc || m.reg != first.reg || len(m.log) != len(first.log) {
				t.Fatalf("the same code: %d steps to %#x, then %d to %#x (%d, %v)", first.steps, first.pc, m.steps, m.pc, r, err)
			}
		}
		if s := e.Spent(); s.Steps > target.FileLimits.Steps/4 {
			t.Fatalf("spent %+v", s)
		}
	})
}
