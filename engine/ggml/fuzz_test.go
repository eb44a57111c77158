// SPDX-License-Identifier: Apache-2.0

package ggml

import (
	"bytes"
	"testing"

	"github.com/profinfer/profinfer/engine/internal/emulator"
	"github.com/profinfer/profinfer/target"
)

// FuzzMachine runs any code, in place of an accessor of the made-up engine, on an object: it ends within its
// bounds, touches nothing but what it has, and does the same again.
func FuzzMachine(f *testing.F) {
	engines := map[bool]*fake{false: fakeEngine(f, target.AMD64, nil), true: fakeEngine(f, target.ARM64, nil)}
	for arm, fk := range engines {
		for _, name := range []string{"arith", "forever", "ggml_get_data", "ggml_get_unary_op", "ggml_nbytes",
			"ggml_nelements", "op_begin"} {
			if at, ok := fk.label[name]; ok {
				code := fk.file[0x1000+at-fakeBase:]
				f.Add(arm, bytes.Clone(code[:min(96, len(code))]), uint64(7), uint64(1)<<63)
			}
		}
	}
	f.Add(false, []byte("\x48\xf7\xf6\xc3"), uint64(1), uint64(0)) // div by 0
	f.Add(false, []byte("\x99\xf7\xfe\xc3"), uint64(1)<<31, uint64(0xffffffff))
	// push and pop the stack's pointer, a jump through an object
	f.Add(false, []byte("\x54\x5c\xff\x27"), uint64(0), uint64(0))
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
		var first emulator.Machine
		for again := range 2 {
			m := l.newMachine()
			o := m.NewObject("x")
			for i := range emulator.ObjectSize / 8 {
				o.Put64(8*i, o.Addr+uint64(i)*40%emulator.ObjectSize) // pointers to itself
			}
			calls := 0
			m.Hook = func(*emulator.Machine, string, uint64) (uint64, emulator.HookResult) {
				calls++
				return a, emulator.HookResult(calls % 3 % 2) // follow, or a result
			}
			r, err := m.Run(fakeBase+uint64(at), o.Addr, a, b, o.Addr+64)
			steps, depth, objects, static := m.Used()
			if steps > emulator.MaxSteps+1 || objects > emulator.MaxObjects || depth > emulator.MaxDepth+1 ||
				len(m.Log) > 64*emulator.MaxSteps || static > 64*emulator.MaxSteps {
				t.Fatalf("%d steps, %d objects, %d deep, %d accesses (%v)", steps, objects, depth, len(m.Log),
					err)
			}
			for _, x := range m.Log {
				if x.Size <= 0 || x.Size > 8 || x.Obj != nil &&
					x.Off+uint64(x.Size) > uint64(len(x.Obj.Data)) {
					t.Fatalf("access %+v", x)
				}
			}
			if m.Tail != nil && (m.Tail.Obj == nil || m.Tail.Off >= emulator.ObjectStep) {
				t.Fatalf("tail jump %+v", m.Tail)
			}
			m.Loads(o)
			m.Stores(o)
			if again == 0 {
				first = *m
			} else if before, _, _, _ := first.Used(); steps != before || m.PC != first.PC ||
				m.Reg != first.Reg || len(m.Log) != len(first.Log) {
				t.Fatalf("the same code: %d steps to %#x, then %d to %#x (%d, %v)", before, first.PC, steps,
					m.PC, r, err)
			}
		}
		if s := e.Spent(); s.Steps > target.FileLimits.Steps/4 {
			t.Fatalf("spent %+v", s)
		}
	})
}
