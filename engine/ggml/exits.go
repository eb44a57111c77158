// SPDX-License-Identifier: Apache-2.0

package ggml

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/arch/x86/x86asm"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/target"
)

// Where a call ends. A return probe would be simplest, but is not used on functions of the engine: it
// replaces the return address with one of the kernel's, so a C++ exception that passes finds no way up and
// ends the process. Instead the instructions that leave the function are probed.

const (
	maxExits   = 32 // per function
	noDepth    = int32(-1 << 31)
	maxTails   = 8       // functions that a call is handed on to, one after the other
	maxScanned = 1 << 20 // bytes of one function that are searched for returns
)

// ending is an instruction that is executed exactly once when a call ends.
type ending struct {
	target.Insn
	// early: the function makes no call before it, so nothing was done yet.
	early bool
	// before: for a tail call, a cheaper instruction executed right before it, or the tail call itself.
	before target.Insn
}

// exits is how a function is left.
type exits struct {
	ends    []ending // exactly one is executed before each of its returns
	stepped bool     // some of these are expensive
	tails   []ending // jumps that hand its call on to another function
}

// ends finds a set of instructions of which exactly one is executed, once, when a call of the function ends;
// they may lie in the function that it hands the call on to. inner is part of the name of the function that
// does the work if this one only wraps it, otherwise empty. The end of the inner function stands for the
// wrapper's where that is cheap.
func (l *lib) ends(fn uint64, inner string, role engine.Role) ([]ending, error) {
	x, err := l.exits(fn)
	if err == nil && len(x.tails) == 0 && !x.stepped {
		return x.ends, nil
	}
	if inner != "" {
		if in, ok := l.endOfInner(fn, inner); ok {
			return []ending{{Insn: in}}, nil
		}
	}
	if err != nil {
		return nil, err
	}
	seen := map[uint64]bool{fn: true}
	for _, t := range x.tails {
		more, err := l.tailEnds(t, role, seen)
		if err != nil {
			return nil, err
		}
		x.ends = append(x.ends, more...)
	}
	if len(x.ends) == 0 || len(x.ends) > maxExits {
		return nil, fmt.Errorf("it has %d ways out", len(x.ends))
	}
	return x.ends, nil
}

// tailEnds finds the ends of the function that a call is handed on to, once for each such function. That
// function must not be called in any other way, or its ends would be mistaken for this one's. A step's end
// identifies its step, and a wait's end counts only if one has begun. What is handed on after a wait is not
// part of it.
func (l *lib) tailEnds(t ending, role engine.Role, seen map[uint64]bool) (out []ending, err error) {
	var to uint64
	if t.Kind != target.JumpIndirect {
		_, to = l.Callee(t.Target)
	}
	if seen[to] && to != 0 {
		return nil, nil
	}
	if role == engine.RoleSyncEnd && !t.early && t.before.Class != target.ClassRefused {
		return []ending{{Insn: t.before}}, nil
	}
	if to != 0 && len(seen) < maxTails &&
		(role == engine.RoleStepEnd || role == engine.RoleSyncEnd || !l.called(to)) {
		seen[to] = true
		x, err := l.exits(to)
		for _, t := range x.tails {
			more, terr := l.tailEnds(t, role, seen)
			x.ends, err = append(x.ends, more...), errors.Join(err, terr)
		}
		if err == nil {
			return x.ends, nil
		}
	}
	return nil, fmt.Errorf("it hands its call on by the jump at %#x", t.Addr)
}

// called reports whether a function of this file is called by its name or address, not only jumped to.
func (l *lib) called(fn uint64) bool {
	from, err := l.e.CallsTo(fn)
	if f, ok := l.e.FunctionAt(fn); ok && f.Name != "" {
		more, err2 := l.e.Calls(f.Name)
		from, err = append(slices.Clone(from), more...), errors.Join(err, err2)
	}
	return err != nil || slices.ContainsFunc(from, func(a uint64) bool {
		in, err := l.e.Insn(a)
		return err != nil || in.Kind == target.Call
	})
}

// endOfInner finds the end of the call that does a function's work: the first of its calls, which no path
// bypasses.
func (l *lib) endOfInner(fn uint64, inner string) (target.Insn, bool) {
	for addr, n := fn, 0; n < maxEntry; n++ {
		in, err := l.e.Insn(addr)
		if err != nil {
			break
		}
		if in.Kind == target.Call {
			name := l.e.CalleeName(in.Target)
			if name != "" && !strings.Contains(name, inner) {
				break
			}
			return l.endAfterCall(in)
		}
		if in.Kind != target.Other {
			break
		}
		addr = in.End()
	}
	return target.Insn{}, false
}

// endAfterCall is the first emulated instruction in a straight line after a call: it is executed once
// whenever the call returns.
func (l *lib) endAfterCall(call target.Insn) (target.Insn, bool) {
	addr := call.End()
	for range maxEntry {
		in, err := l.e.Insn(addr)
		if err != nil {
			break
		}
		if in.Class == target.ClassEmulated || in.Class == target.ClassNop5 {
			return in, true
		}
		if in.Kind != target.Other {
			break
		}
		addr = in.End()
	}
	return target.Insn{}, false
}

// exits finds how a function is left: its return instructions, or the branch of the stack protector's check
// before one where only that is emulated (x86-64); and its tail calls. It fails if an exit cannot be probed
// or identified.
func (l *lib) exits(fn uint64) (exits, error) {
	f, ok := l.e.FunctionAt(fn)
	if !ok || f.End-f.Start > maxScanned {
		return exits{}, errors.New("its extent is not known")
	}
	s := exitScan{l: l, f: f, w: l.flow(f), depth: map[uint64]int32{}, joins: map[uint64]bool{},
		byEnd: map[uint64]target.Insn{}, frame: noDepth}
	// Paths that only an exception takes are not walked; their returns are found by reading on. Bytes that
	// are not code there end it.
	all, _ := l.e.Insns(f.Start, f.End)
	for _, in := range all {
		s.note(in)
	}
	s.walk(fn)
	return s.result(all)
}

// exitScan searches for the exits of one function.
type exitScan struct {
	l *lib
	f target.Function
	w *flow
	// depth is how far the stack pointer is below its value at the function's begin, for each instruction
	// reached; frame is the same for the value in the frame pointer.
	depth map[uint64]int32
	frame int32
	joins map[uint64]bool        // targets of branches
	byEnd map[uint64]target.Insn // instructions by their end address
	rets  []target.Insn
	tails []target.Insn
	after []uint64 // return addresses of calls
	many  bool
}

func (s *exitScan) note(in target.Insn) {
	s.byEnd[in.End()] = in
	if in.Kind == target.Jump || in.Kind == target.CondJump {
		s.joins[in.Target] = true
	}
}

func (s *exitScan) inside(addr uint64) bool { return addr >= s.f.Start && addr < s.f.End }

// walk visits what branches reach, including parts that the compiler moved away: a jump out of the function
// goes to such a part if the function's frame still exists, and is a tail call if it does not.
func (s *exitScan) walk(fn uint64) {
	type point struct {
		addr  uint64
		depth int32
	}
	todo := []point{{fn, 0}}
	for len(todo) > 0 {
		p := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for {
			if _, seen := s.depth[p.addr]; seen {
				break
			}
			if len(s.depth) >= maxFlow {
				s.many = true
				return
			}
			in, err := s.l.e.Insn(p.addr)
			if err != nil {
				break
			}
			s.depth[p.addr] = p.depth
			if !s.inside(p.addr) {
				s.note(in)
			}
			d := s.moved(in, p.depth)
			next := point{in.End(), d}
			switch in.Kind {
			case target.Jump, target.CondJump:
				name, _ := s.l.Callee(in.Target)
				switch {
				case isAbort(name):
				case s.leaves(in, name, p.depth):
					s.tails = append(s.tails, in)
				default:
					todo = append(todo, point{in.Target, d})
				}
				if in.Kind == target.Jump {
					next.addr = 0
				}
			case target.JumpIndirect:
				if p.depth == 0 || p.depth == noDepth {
					s.tails = append(s.tails, in)
				}
				next.addr = 0 // of a switch: its targets are read with the rest
			case target.Return:
				if !s.inside(p.addr) {
					s.rets = append(s.rets, in)
				}
				next.addr = 0
			case target.Trap:
				next.addr = 0
			case target.Call, target.CallIndirect:
				if isAbort(s.w.callee(in)) {
					next.addr = 0
				} else {
					s.after = append(s.after, in.End())
				}
			}
			if next.addr == 0 {
				break
			}
			p = next
		}
	}
}

// leaves reports whether a jump is a tail call.
func (s *exitScan) leaves(in target.Insn, name string, depth int32) bool {
	if s.inside(in.Target) {
		return false
	}
	if _, here := s.depth[in.Target]; here {
		return false
	}
	return depth == 0 || depth == noDepth || name != "" && !strings.HasSuffix(name, ".cold")
}

// moved is the stack's depth after an instruction.
func (s *exitScan) moved(in target.Insn, depth int32) int32 {
	if s.l.arm() {
		if e := effectsARM(binary.LittleEndian.Uint32(in.Bytes)); e.known && depth != noDepth {
			return depth + e.down
		} else if !e.known && in.Kind == target.Other {
			// unknown instructions do not move it in compiled code; "mov sp, x29" does not occur before a
			// tail call's load
			return depth
		}
		return depth
	}
	x, err := x86asm.Decode(in.Bytes, 64)
	if err != nil || in.Kind != target.Other {
		return depth
	}
	switch x.Op {
	case x86asm.LEAVE:
		if s.frame == noDepth {
			return noDepth
		}
		return s.frame - 8
	case x86asm.MOV:
		if x.Args[0] == x86asm.RBP && x.Args[1] == x86asm.RSP {
			s.frame = depth
			return depth
		}
	case x86asm.LEA:
		if m, ok := x.Args[1].(x86asm.Mem); ok && x.Args[0] == x86asm.RSP {
			if m.Base == x86asm.RBP && s.frame != noDepth {
				return s.frame - int32(m.Disp)
			}
			return noDepth
		}
	case x86asm.POP:
		if depth != noDepth {
			return depth - 8
		}
		return depth
	}
	e := effectsX86(in.Bytes)
	if x.Args[0] == x86asm.RSP && !e.known {
		return noDepth
	}
	if depth != noDepth {
		depth += e.down
	}
	return depth
}

func (s *exitScan) result(all []target.Insn) (exits, error) {
	if s.many {
		return exits{}, errors.New("it is too large")
	}
	for _, in := range all {
		_, reached := s.depth[in.Addr]
		switch {
		case !reached && !s.f.Unwind: // its extent is a guess: this may belong to another function
		case in.Kind == target.Return:
			s.rets = append(s.rets, in)
		case !reached && (in.Kind == target.Jump || in.Kind == target.CondJump) && !s.inside(in.Target):
			// reached only by a switch or an exception: a tail call if it goes to a function
			if name, _ := s.l.Callee(in.Target); name != "" && !isAbort(name) &&
				!strings.HasSuffix(name, ".cold") {
				return exits{}, fmt.Errorf("it leaves by a jump at %#x", in.Addr)
			}
		}
	}
	worked := map[uint64]bool{} // reached after a call
	s.w.walk(s.after, func(in target.Insn) bool { worked[in.Addr] = true; return false })
	early := func(in target.Insn) bool {
		_, reached := s.depth[in.Addr]
		return reached && s.inside(in.Addr) && !worked[in.Addr]
	}
	var out exits
	for _, ret := range s.rets {
		e := ending{Insn: ret, early: early(ret)}
		switch {
		case ret.Class == target.ClassEmulated:
		default:
			in, ok := s.protectorCheck(ret)
			switch {
			case ok:
				e.Insn = in
			case ret.Class == target.ClassRefused:
				// arm64: one that authenticates the address that it returns to
				return exits{}, fmt.Errorf("the return at %#x cannot be probed", ret.Addr)
			default:
				out.stepped = true
			}
		}
		out.ends = append(out.ends, e)
	}
	for _, t := range s.tails {
		e := ending{Insn: t, early: early(t), before: t}
		if in, ok := s.protectorCheck(t); ok && t.Class != target.ClassEmulated {
			e.before = in
		}
		out.tails = append(out.tails, e)
	}
	if n := len(out.ends) + len(out.tails); n == 0 || n > maxExits {
		return exits{}, fmt.Errorf("it has %d ways out", n)
	}
	return out, nil
}

// protectorCheck looks for the branch to __stack_chk_fail in a straight line before a return or tail call.
func (s *exitScan) protectorCheck(ret target.Insn) (target.Insn, bool) {
	at := ret
	for range 24 {
		if s.joins[at.Addr] {
			return target.Insn{}, false // another path joins here
		}
		in, ok := s.byEnd[at.Addr]
		if !ok || in.Kind != target.Other && in.Kind != target.CondJump {
			return target.Insn{}, false
		}
		if in.Kind == target.CondJump {
			fail := false
			s.w.walk([]uint64{in.Target}, func(x target.Insn) bool {
				fail = fail || x.Kind == target.Call && s.w.callee(x) == "__stack_chk_fail"
				return x.Kind != target.Other
			})
			return in, fail && in.Class == target.ClassEmulated
		}
		at = in
	}
	return target.Insn{}, false
}
