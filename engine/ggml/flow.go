// SPDX-License-Identifier: Apache-2.0

package ggml

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/profinfer/profinfer/engine/internal/emulator"
	"github.com/profinfer/profinfer/target"
)

// The begins and ends of operators are found by following the control flow of the operator loop, not by a
// byte pattern: from the call that begins an operator, over all direct branches inside the function, to the
// first calls of the barrier. Barriers of operators that the compiler inlined into the same function
// (mul_mat_id) are behind the dispatch, an indirect jump, which is not followed.

const (
	maxFlow  = 1 << 16 // instructions visited in one function
	walkCost = 48      // steps of the file's budget to visit one
	maxEnds  = 64      // places where an operator can end or be fused
)

// flow is one function's code, decoded as it is walked.
type flow struct {
	l    *lib
	f    target.Function
	memo map[uint64]target.Insn
}

func (l *lib) flow(f target.Function) *flow {
	return &flow{l: l, f: f, memo: map[uint64]target.Insn{}}
}

func (w *flow) at(addr uint64) (target.Insn, bool) {
	if addr < w.f.Start || addr >= w.f.End {
		return target.Insn{}, false
	}
	if in, ok := w.memo[addr]; ok {
		return in, in.Len > 0
	}
	in, err := w.l.e.Insn(addr)
	if err != nil || in.End() > w.f.End {
		in = target.Insn{}
	}
	w.memo[addr] = in
	return in, in.Len > 0
}

// callee names the target of a direct call (or a call through a slot).
func (w *flow) callee(in target.Insn) string {
	switch {
	case in.Kind == target.Call, in.Kind == target.Jump:
		name, _ := w.l.Callee(in.Target)
		return name
	case in.Kind == target.CallIndirect && in.Data != 0:
		name, _ := w.l.Slot(in.Data)
		return name
	}
	return ""
}

// walk visits every instruction that is reached from the given addresses by direct branches inside the
// function. It calls stop at each; if stop returns true, the walk does not continue from there.
func (w *flow) walk(from []uint64, stop func(target.Insn) bool) {
	seen := map[uint64]bool{}
	todo := slices.Clone(from)
	for len(todo) > 0 && len(seen) < maxFlow {
		addr := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for !seen[addr] {
			in, ok := w.at(addr)
			if !ok {
				break
			}
			seen[addr] = true
			if !w.l.e.Spend(walkCost) {
				return
			}
			if stop(in) || in.Kind == target.Call && isAbort(w.callee(in)) {
				break
			}
			next := in.End()
			switch in.Kind {
			case target.Jump:
				next = in.Target
			case target.CondJump:
				todo = append(todo, in.Target)
			case target.Return, target.JumpIndirect, target.Trap:
				next = 0
			}
			addr = next
		}
	}
}

// reaches reports whether want is reached from addr without passing a call of one of the barriers.
func (w *flow) reaches(from, want uint64, barrier func(target.Insn) bool) bool {
	return w.reached([]uint64{from}, want, barrier)
}

// reached is reaches for any of several addresses.
func (w *flow) reached(from []uint64, want uint64, barrier func(target.Insn) bool) bool {
	found := false
	w.walk(from, func(in target.Insn) bool {
		found = found || in.Addr == want
		return found || barrier(in)
	})
	return found
}

// afterHook returns where control goes when the hook called at call reports that it has computed the operator
// (it returns true): the branch taken if the result is not zero. If the branch is of another kind, it returns
// both sides.
func (w *flow) afterHook(call target.Insn) []uint64 {
	addr := call.End()
	for range 12 {
		in, ok := w.at(addr)
		if !ok || in.Kind != target.Other && in.Kind != target.CondJump {
			break
		}
		if in.Kind == target.CondJump {
			switch nonzeroTaken(in) {
			case 1:
				return []uint64{in.Target}
			case 0:
				return []uint64{in.End()}
			}
			return []uint64{in.Target, in.End()}
		}
		addr = in.End()
	}
	return []uint64{call.End()}
}

// nonzeroTaken reports whether a branch on a result is taken when it is not zero (1), when it is zero (0), or
// neither (-1): jne, je; cbnz, cbz, tbnz, tbz, b.ne, b.eq.
func nonzeroTaken(in target.Insn) int {
	b := in.Bytes
	if in.Arch == target.ARM64 {
		w := binary.LittleEndian.Uint32(b)
		switch {
		case w&0x7e000000 == 0x34000000, w&0x7e000000 == 0x36000000:
			return int(w >> 24 & 1)
		case w&0xff00001e == 0x54000000:
			return int(w & 1)
		}
		return -1
	}
	for len(b) > 0 && (b[0] == 0x2e || b[0] == 0x3e || b[0] == 0xf2) { // branch hints, bnd
		b = b[1:]
	}
	if len(b) > 1 && b[0] == 0x0f {
		b = b[1:]
		b = []byte{b[0] - 0x10}
	}
	switch {
	case len(b) > 0 && b[0] == 0x75:
		return 1
	case len(b) > 0 && b[0] == 0x74:
		return 0
	}
	return -1
}

// loopEnds finds the barrier calls that end operators: those first reached from where an operator is done.
// The first result has the loop's (the operator's begin is reached again), the second the closing ones.
func (w *flow) loopEnds(op target.Insn, from []uint64, barrier func(target.Insn) bool) (loop,
	closing []target.Insn) {
	var ends []target.Insn
	w.walk(from, func(in target.Insn) bool {
		if barrier(in) {
			ends = append(ends, in)
			return true
		}
		return in.Addr == op.Addr
	})
	if len(ends) > maxEnds {
		_ = w.l.e.TooMany("barriers behind its operators", maxEnds)
		return nil, nil
	}
	for _, e := range ends {
		if w.reaches(e.End(), op.Addr, barrier) {
			loop = append(loop, e)
		} else {
			closing = append(closing, e)
		}
	}
	byAddr := func(a, b target.Insn) int { return int(int64(a.Addr - b.Addr)) }
	slices.SortFunc(loop, byAddr)
	slices.SortFunc(closing, byAddr)
	return loop, closing
}

func never(target.Insn) bool { return false }

// join finds the instruction that every operator passes once when it is done, in a build with an inlined
// barrier: the first branch after the point where the paths of all operators join. For operators that can be
// identified by name, it is checked that all pass it.
func (w *flow) join(op target.Insn, from []uint64) (target.Insn, bool) {
	if len(from) != 1 {
		return target.Insn{}, false
	}
	var at target.Insn
	for addr, n := from[0], 0; n < 12 && at.Len == 0; n++ {
		in, ok := w.at(addr)
		if !ok {
			return at, false
		}
		switch {
		case in.Kind == target.CondJump && in.Class == target.ClassEmulated:
			at = in
		case in.Kind != target.Other:
			return at, false
		}
		addr = in.End()
	}
	if at.Len == 0 || !w.reaches(at.End(), op.Addr, never) && !w.reaches(at.Target, op.Addr, never) {
		return at, false
	}
	var done []uint64 // addresses where operators are done
	_ = w.l.e.EachInsn(w.f.Start, w.f.End, func(in target.Insn) bool {
		if in.Kind == target.Call && in.Addr != op.Addr &&
			strings.HasPrefix(w.callee(in), "ggml_compute_forward_") {
			done = append(done, in.End())
		}
		return true
	})
	// One walk from all of them finds whether any continues to the next operator without passing there.
	return at, !w.reached(done, op.Addr, func(x target.Insn) bool { return x.Addr == at.Addr })
}

// fusedCalls lists the calls of fused operators in the function.
func (w *flow) fusedCalls() []target.Insn {
	var out []target.Insn
	_ = w.l.e.EachInsn(w.f.Start, w.f.End, func(in target.Insn) bool {
		if in.Kind != target.Call && (in.Kind != target.CallIndirect || in.Data == 0) {
			return true
		}
		if n := w.callee(in); strings.HasPrefix(n, "ggml_compute_forward_") &&
			strings.HasSuffix(n, "_fused") {
			out = append(out, in)
		}
		return len(out) <= maxEnds
	})
	if len(out) > maxEnds {
		_ = w.l.e.TooMany("calls of fused operators", maxEnds)
		return nil
	}
	return out
}

// testsFlag reports whether the function tests bit 0x10 (COMPUTE) of a tensor's flags, which are at off: test
// byte/dword [reg+off], 0x10; or a load from there and a test of the bit soon after.
func (w *flow) testsFlag(off int) bool {
	t := flagTest{off: off}
	binary.LittleEndian.PutUint32(t.disp[:], uint32(off))
	found := false
	_ = w.l.e.EachInsn(w.f.Start, w.f.End, func(in target.Insn) bool {
		found = t.tests(in)
		return !found
	})
	return found
}

// flagTest examines instructions one after the other.
type flagTest struct {
	off    int
	disp   [4]byte
	loaded int // instructions left in which a loaded flag can be tested
}

func (t *flagTest) tests(in target.Insn) bool {
	b := in.Bytes
	if in.Arch == target.ARM64 {
		x := binary.LittleEndian.Uint32(b)
		switch {
		case x&0xffc00000 == 0xb9400000 && int(emulator.Field(x, 10, 12))*4 == t.off, // ldr w
			x&0xffc00000 == 0x39400000 && int(emulator.Field(x, 10, 12)) == t.off: // ldrb
			t.loaded = 8
		case t.loaded > 0 && x&0x7e000000 == 0x36000000 && x>>31 == 0 && emulator.Field(x, 19, 5) == 4:
			// tbz, tbnz #4
			return true
		}
		t.loaded--
		return false
	}
	if i := bytes.Index(b, t.disp[:]); i >= 2 {
		op := b[i-2]
		if b[i-1]>>6 == 2 && (op == 0xf6 || op == 0xf7) && b[i-1]>>3&7 < 2 && len(b) > i+4 && b[i+4] == 0x10 {
			return true // test [reg+off], 0x10
		}
		if op == 0x8b || op == 0xb6 {
			t.loaded = 8
			return false
		}
	}
	if t.loaded > 0 {
		last := b[len(b)-1]
		if len(b) >= 2 && last == 0x10 && (b[0] == 0xa8 || slices.Contains(b[:len(b)-1], 0xf6)) ||
			len(b) >= 4 && last == 4 && b[len(b)-3] == 0xba { // test al, 0x10; bt reg, 4
			return true
		}
		t.loaded--
	}
	return false
}
