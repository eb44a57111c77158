// SPDX-License-Identifier: Apache-2.0

// Package emulator runs one small function of an engine, an accessor, on made-up objects and watches what it
// accesses: ggml_get_data(x) loads from x+0xf8 with every compiler and on both architectures, however it is
// written. This is how layouts are read from a binary. It supports integer instructions and simple vector
// moves, never runs long, and treats everything unknown as an error, not a guess.
package emulator

import (
	"encoding/binary"
	"errors"
	"fmt"
)

const (
	MaxSteps   = 4096    // instructions in one run
	MaxDepth   = 6       // nested calls followed within the file
	ObjectSize = 8 << 10 // bytes of one made-up object
	objectBase = 0x7a00_0000_0000
	ObjectStep = 1 << 24
	MaxObjects = 256
	returnAddr = 0x7900_dead_0000 // return address of the outermost function
)

// Reasons why a run ends with an error; other errors name the instruction or the address.
var (
	ErrSteps   = errors.New("ran longer than an accessor may")
	ErrAbort   = errors.New("reached an assertion")
	errStopped = errors.New("stopped by the caller")
)

// Image is the code and the data that the machine runs on. Addresses are those of the file.
type Image interface {
	// Code returns the bytes from addr to the end of its executable segment, or nil.
	Code(addr uint64) []byte
	// Load reads static data (with pointer relocations applied); false: nothing is there.
	Load(addr uint64, buf []byte) bool
	// Callee names the target of a call to addr ("" if it has no name), and the address of its code if that
	// is in this file (0 otherwise).
	Callee(addr uint64) (name string, code uint64)
	// Slot is Callee for a call through the pointer at addr, which the loader fills in.
	Slot(addr uint64) (name string, code uint64)
}

// Object is a made-up object of [ObjectSize] bytes to which a function gets a pointer.
type Object struct {
	name string
	Addr uint64
	Data []byte
}

func (o *Object) Put64(off int, v uint64) { binary.LittleEndian.PutUint64(o.Data[off:], v) }
func (o *Object) Put32(off int, v uint32) { binary.LittleEndian.PutUint32(o.Data[off:], v) }
func (o *Object) Get64(off int) uint64    { return binary.LittleEndian.Uint64(o.Data[off:]) }

// Access is one load from or store to a made-up object or static data.
type Access struct {
	Obj   *Object // nil: static data
	Off   uint64  // from the object's start; for static data the address itself
	Size  int     // bytes
	Write bool
	Val   uint64
	PC    uint64
}

// HookResult is how a call proceeds.
type HookResult uint8

const (
	Follow HookResult = iota // run it if it is in this file, else unknown
	Return                   // it returned the value given
	Stop                     // the run ends here, without an error
)

// Machine is the state of a thread that runs a function. The state persists from one run to the next.
type Machine struct {
	img    Image
	arm    bool
	Reg    [33]uint64 // x86-64: rax.. r15; arm64: x0..x30, then sp at 31
	vec    [32][4]uint64
	PC     uint64
	n      bool // flags: negative (sign), zero, carry (x86: borrow; arm64: no borrow), overflow
	z      bool
	c      bool
	v      bool
	objs   []*Object
	stack  *Object
	static map[uint64]byte // stores to static data
	Log    []Access        // of all runs, except those to the stack
	// Hook is called at every call and tail jump out of the function.
	Hook func(m *Machine, name string, addr uint64) (uint64, HookResult)
	Live func(addr uint64, b []byte) error // reads a process's memory; nil: there is none
	// Aborts recognizes functions that end the process: a run that reaches one ends with ErrAbort. nil: there
	// are none.
	Aborts func(name string) bool
	depth  int
	steps  int
	Tail   *TailJump // set if the run ended in a jump through memory
}

// TailJump is an indirect jump or call through a made-up object.
type TailJump struct {
	Obj *Object
	Off uint64
}

// New makes a machine for x86-64, or for arm64.
func New(img Image, arm bool) *Machine {
	m := &Machine{img: img, arm: arm, static: map[uint64]byte{}}
	m.stack = m.NewObject("stack")
	return m
}

// NewObject makes a zeroed object. Objects beyond the bound share the last one.
func (m *Machine) NewObject(name string) *Object {
	if len(m.objs) >= MaxObjects {
		return m.objs[len(m.objs)-1]
	}
	o := &Object{name: name, Addr: objectBase + uint64(len(m.objs))*ObjectStep,
		Data: make([]byte, ObjectSize)}
	m.objs = append(m.objs, o)
	return o
}

// imported is the object that stands for data of another file.
func (m *Machine) imported(name string) *Object {
	for _, o := range m.objs {
		if o.name == name {
			return o
		}
	}
	return m.NewObject(name)
}

// Used returns what the machine has used so far: instructions and call depth of the last run, objects, bytes
// of static data stored to.
func (m *Machine) Used() (steps, depth, objects, static int) {
	return m.steps, m.depth, len(m.objs), len(m.static)
}

// ObjectAt finds the object that contains an address.
func (m *Machine) ObjectAt(addr uint64) (*Object, uint64) {
	if addr < objectBase {
		return nil, 0
	}
	i, off := (addr-objectBase)/ObjectStep, (addr-objectBase)%ObjectStep
	if i >= uint64(len(m.objs)) {
		return nil, 0
	}
	return m.objs[i], off
}

func (m *Machine) load(addr uint64, size int) (uint64, error) {
	var b [8]byte
	if size > 8 {
		return 0, fmt.Errorf("load of %d bytes", size)
	}
	o, off := m.ObjectAt(addr)
	switch {
	case o != nil:
		if off+uint64(size) > uint64(len(o.Data)) {
			return 0, fmt.Errorf("load beyond %s at +%#x", o.name, off)
		}
		copy(b[:size], o.Data[off:])
	case m.img.Load(addr, b[:size]):
		off = addr
		for i := range size {
			if v, ok := m.static[addr+uint64(i)]; ok {
				b[i] = v
			}
		}
	case m.Live != nil && m.Live(addr, b[:size]) == nil:
		off = addr
	default:
		name, _ := m.img.Slot(addr)
		if name == "" || size != 8 {
			return 0, fmt.Errorf("load from %#x, where nothing is known to be", addr)
		}
		return m.imported(name).Addr, nil // the address of another file's data
	}
	v := binary.LittleEndian.Uint64(b[:])
	if o != m.stack {
		m.Log = append(m.Log, Access{Obj: o, Off: off, Size: size, Val: v, PC: m.PC})
	}
	return v, nil
}

func (m *Machine) store(addr uint64, size int, val uint64) error {
	var b [8]byte
	if size > 8 {
		return fmt.Errorf("store of %d bytes", size)
	}
	binary.LittleEndian.PutUint64(b[:], val)
	o, off := m.ObjectAt(addr)
	switch {
	case o != nil:
		if off+uint64(size) > uint64(len(o.Data)) {
			return fmt.Errorf("store beyond %s at +%#x", o.name, off)
		}
		copy(o.Data[off:], b[:size])
	case m.img.Load(addr, make([]byte, size)):
		off = addr
		for i := range size {
			m.static[addr+uint64(i)] = b[i]
		}
	default:
		return fmt.Errorf("store to %#x, where nothing is known to be", addr)
	}
	if o != m.stack {
		m.Log = append(m.Log, Access{Obj: o, Off: off, Size: size, Write: true, Val: val & sizeMask(size),
			PC: m.PC})
	}
	return nil
}

func sizeMask(size int) uint64 {
	if size >= 8 {
		return ^uint64(0)
	}
	return 1<<(8*size) - 1
}

func signExtend(v uint64, size int) uint64 {
	shift := 64 - 8*min(max(size, 1), 8)
	return uint64(int64(v<<shift) >> shift)
}

// x86Args are the x86-64 register numbers of the integer arguments.
var x86Args = [6]int{7, 6, 2, 1, 8, 9}

// Arg returns the current value of the i-th integer argument.
func (m *Machine) Arg(i int) uint64 { return m.Reg[ArgReg(i, m.arm)] }

// ArgReg is the number of the register with the i-th integer argument.
func ArgReg(i int, arm bool) int {
	if arm {
		return i
	}
	return x86Args[i]
}

func (m *Machine) result() uint64 { return m.Reg[0] }

// Run executes the function at addr with integer arguments and returns its result.
func (m *Machine) Run(addr uint64, args ...uint64) (uint64, error) {
	for i, a := range args {
		m.Reg[ArgReg(i, m.arm)] = a
	}
	sp := m.stack.Addr + ObjectSize - 1024
	if m.arm {
		m.Reg[31], m.Reg[30] = sp, returnAddr
	} else {
		sp -= 8 // the call pushed the return address: rsp+8 is aligned
		m.Reg[4] = sp
		m.stack.Put64(int(sp-m.stack.Addr), returnAddr)
	}
	m.PC, m.Log, m.steps, m.depth, m.Tail = addr, nil, 0, 0, nil
	for m.PC != returnAddr {
		if m.steps++; m.steps > MaxSteps {
			return 0, ErrSteps
		}
		code := m.img.Code(m.PC)
		if len(code) == 0 {
			return 0, fmt.Errorf("no code at %#x", m.PC)
		}
		var err error
		if m.arm {
			err = m.stepARM(code)
		} else {
			err = m.stepX86(code)
		}
		if errors.Is(err, errStopped) {
			break
		}
		if err != nil {
			return 0, fmt.Errorf("at %#x: %w", m.PC, err)
		}
	}
	return m.result(), nil
}

// jump goes to target, which is within the function or is another, named one.
func (m *Machine) jump(target uint64) error {
	if name, _ := m.img.Callee(target); name != "" {
		return m.call(target, 0)
	}
	m.PC = target
	return nil
}

// call performs a direct call or tail jump to target; next is the return address of a call, 0 for a jump (the
// return address is then where the function found it).
func (m *Machine) call(target, next uint64) error {
	name, code := m.img.Callee(target)
	return m.callNamed(name, target, code, next)
}

func (m *Machine) callNamed(name string, target, code, next uint64) error {
	if m.Aborts != nil && m.Aborts(name) {
		return ErrAbort
	}
	val, what := uint64(0), Follow
	if m.Hook != nil {
		val, what = m.Hook(m, name, target)
	}
	switch what {
	case Stop:
		return errStopped
	case Follow:
		if code == 0 {
			return fmt.Errorf("calls %s, which is not in this file", orAddr(name, target))
		}
		if next != 0 {
			if m.depth++; m.depth > MaxDepth {
				return errors.New("calls too deep")
			}
			m.push(next)
		}
		m.PC = code
		return nil
	}
	m.Reg[0] = val
	if next == 0 {
		return m.ret()
	}
	m.PC = next
	return nil
}

// push stores a return address as a call does.
func (m *Machine) push(next uint64) {
	if m.arm {
		m.Reg[30] = next
		return
	}
	m.Reg[4] -= 8
	_ = m.store(m.Reg[4], 8, next)
}

func (m *Machine) ret() error {
	if m.arm {
		m.PC = m.Reg[30]
	} else {
		v, err := m.load(m.Reg[4], 8)
		if err != nil {
			return err
		}
		m.Reg[4] += 8
		m.PC = v
	}
	m.depth = max(m.depth-1, 0)
	return nil
}

// indirect is a jump (next is 0) or call through the pointer at addr. Through a made-up
// object it ends the run.
func (m *Machine) indirect(addr, next uint64) error {
	if o, off := m.ObjectAt(addr); o != nil {
		m.Tail = &TailJump{o, off}
		return errStopped
	}
	if name, code := m.img.Slot(addr); name != "" || code != 0 {
		return m.callNamed(name, addr, code, next)
	}
	return fmt.Errorf("indirect jump through %#x", addr)
}

func orAddr(name string, addr uint64) string {
	if name != "" {
		return name
	}
	return fmt.Sprintf("%#x", addr)
}

// Loads returns the loads of the last run from o, in order, each place once.
func (m *Machine) Loads(o *Object) []Access { return m.touched(o, false) }

// Stores returns the stores of the last run to o, in order, each place once.
func (m *Machine) Stores(o *Object) []Access { return m.touched(o, true) }

func (m *Machine) touched(o *Object, write bool) []Access {
	var out []Access
	seen := map[[2]uint64]int{}
	for _, a := range m.Log {
		if a.Obj != o || a.Write != write {
			continue
		}
		k := [2]uint64{a.Off, uint64(a.Size)}
		if i, ok := seen[k]; ok {
			out[i] = a
			continue
		}
		seen[k] = len(out)
		out = append(out, a)
	}
	return out
}
