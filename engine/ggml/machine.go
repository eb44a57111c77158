// SPDX-License-Identifier: Apache-2.0

package ggml

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The machine runs one small function of an engine, an accessor, on made-up
// objects and watches what it touches: ggml_get_data(x) loads from x+0xf8 on every
// compiler and both architectures, however it is written. That is how layouts are
// read from a binary. It knows integer instructions only, never runs long, and
// everything it does not know is an error, not a guess.

const (
	maxSteps   = 4096    // instructions in one run
	maxDepth   = 6       // calls followed into the same file
	objectSize = 8 << 10 // bytes of one made-up object
	objectBase = 0x7a00_0000_0000
	objectStep = 1 << 24
	maxObjects = 256
	returnAddr = 0x7900_dead_0000 // where the outermost function returns to
)

var (
	errSteps   = errors.New("ran longer than an accessor may")
	errAbort   = errors.New("reached an assertion")
	errStopped = errors.New("stopped by the caller")
)

// image is the code and the data that the machine runs on. Addresses are those of the file.
type image interface {
	// Code returns the bytes from addr to the end of its executable segment, or nil.
	Code(addr uint64) []byte
	// Load reads static data (relocations of pointers applied); false: nothing is there.
	Load(addr uint64, buf []byte) bool
	// Callee names what a call to addr reaches ("" if it has no name), and the
	// address of its code when that lies in this file (0 otherwise).
	Callee(addr uint64) (name string, code uint64)
	// Slot is Callee for a call through the pointer at addr, which the loader fills in.
	Slot(addr uint64) (name string, code uint64)
}

// object is a made-up object that a function gets a pointer to.
type object struct {
	name string
	addr uint64
	data []byte
}

func (o *object) put64(off int, v uint64) { binary.LittleEndian.PutUint64(o.data[off:], v) }
func (o *object) put32(off int, v uint32) { binary.LittleEndian.PutUint32(o.data[off:], v) }
func (o *object) get64(off int) uint64    { return binary.LittleEndian.Uint64(o.data[off:]) }

// access is one load from or store to a made-up object or static data.
type access struct {
	obj   *object // nil: static data
	off   uint64  // from the object's start; the address itself of static data
	size  int     // bytes
	write bool
	val   uint64
	pc    uint64
}

// hookResult says what becomes of a call.
type hookResult uint8

const (
	hookFollow hookResult = iota // run it if it is in this file, else unknown
	hookReturn                   // it returned the value given
	hookStop                     // the run ends here, without an error
)

type machine struct {
	img    image
	arm    bool
	reg    [33]uint64 // x86-64: rax.. r15; arm64: x0..x30, then sp at 31
	vec    [32][4]uint64
	pc     uint64
	n      bool // flags: negative (sign), zero, carry (x86: borrow; arm64: no borrow), overflow
	z      bool
	c      bool
	v      bool
	objs   []*object
	stack  *object
	static map[uint64]byte // stores to static data
	log    []access
	// hook is asked at every call and tail jump out of the function.
	hook  func(m *machine, name string, addr uint64) (uint64, hookResult)
	live  func(addr uint64, b []byte) error // reads a process's memory; nil: there is none
	depth int
	steps int
	tail  *tailJump // set when the run ended in a jump through memory
}

// tailJump is an indirect jump or call through a made-up object.
type tailJump struct {
	obj *object
	off uint64
}

func newMachine(img image, arm bool) *machine {
	m := &machine{img: img, arm: arm, static: map[uint64]byte{}}
	m.stack = m.newObject("stack")
	return m
}

// newObject makes an object filled with zeros. Objects past the bound share the last one.
func (m *machine) newObject(name string) *object {
	if len(m.objs) >= maxObjects {
		return m.objs[len(m.objs)-1]
	}
	o := &object{name: name, addr: objectBase + uint64(len(m.objs))*objectStep, data: make([]byte, objectSize)}
	m.objs = append(m.objs, o)
	return o
}

// imported is the object that stands for data of another file.
func (m *machine) imported(name string) *object {
	for _, o := range m.objs {
		if o.name == name {
			return o
		}
	}
	return m.newObject(name)
}

// object finds the object that an address lies in.
func (m *machine) object(addr uint64) (*object, uint64) {
	if addr < objectBase {
		return nil, 0
	}
	i, off := (addr-objectBase)/objectStep, (addr-objectBase)%objectStep
	if i >= uint64(len(m.objs)) {
		return nil, 0
	}
	return m.objs[i], off
}

func (m *machine) load(addr uint64, size int) (uint64, error) {
	var b [8]byte
	if size > 8 {
		return 0, fmt.Errorf("load of %d bytes", size)
	}
	o, off := m.object(addr)
	switch {
	case o != nil:
		if off+uint64(size) > uint64(len(o.data)) {
			return 0, fmt.Errorf("load beyond %s at +%#x", o.name, off)
		}
		copy(b[:size], o.data[off:])
	case m.img.Load(addr, b[:size]):
		off = addr
		for i := range size {
			if v, ok := m.static[addr+uint64(i)]; ok {
				b[i] = v
			}
		}
	case m.live != nil && m.live(addr, b[:size]) == nil:
		off = addr
	default:
		name, _ := m.img.Slot(addr)
		if name == "" || size != 8 {
			return 0, fmt.Errorf("load from %#x, where nothing is known to be", addr)
		}
		return m.imported(name).addr, nil // the address of another file's data
	}
	v := binary.LittleEndian.Uint64(b[:])
	if o != m.stack {
		m.log = append(m.log, access{obj: o, off: off, size: size, val: v, pc: m.pc})
	}
	return v, nil
}

func (m *machine) store(addr uint64, size int, val uint64) error {
	var b [8]byte
	if size > 8 {
		return fmt.Errorf("store of %d bytes", size)
	}
	binary.LittleEndian.PutUint64(b[:], val)
	o, off := m.object(addr)
	switch {
	case o != nil:
		if off+uint64(size) > uint64(len(o.data)) {
			return fmt.Errorf("store beyond %s at +%#x", o.name, off)
		}
		copy(o.data[off:], b[:size])
	case m.img.Load(addr, make([]byte, size)):
		off = addr
		for i := range size {
			m.static[addr+uint64(i)] = b[i]
		}
	default:
		return fmt.Errorf("store to %#x, where nothing is known to be", addr)
	}
	if o != m.stack {
		m.log = append(m.log, access{obj: o, off: off, size: size, write: true, val: val & sizeMask(size), pc: m.pc})
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

// x86-64 numbers of the integer arguments.
var x86Args = [6]int{7, 6, 2, 1, 8, 9}

// arg returns the i-th integer argument as it is now.
func (m *machine) arg(i int) uint64 { return m.reg[m.argReg(i)] }

func (m *machine) argReg(i int) int {
	if m.arm {
		return i
	}
	return x86Args[i]
}

func (m *machine) result() uint64 { return m.reg[0] }

// run executes the function at addr with integer arguments and returns its result.
func (m *machine) run(addr uint64, args ...uint64) (uint64, error) {
	for i, a := range args {
		m.reg[m.argReg(i)] = a
	}
	sp := m.stack.addr + objectSize - 1024
	if m.arm {
		m.reg[31], m.reg[30] = sp, returnAddr
	} else {
		sp -= 8 // the call pushed the return address: rsp+8 is aligned
		m.reg[4] = sp
		m.stack.put64(int(sp-m.stack.addr), returnAddr)
	}
	m.pc, m.log, m.steps, m.depth, m.tail = addr, nil, 0, 0, nil
	for m.pc != returnAddr {
		if m.steps++; m.steps > maxSteps {
			return 0, errSteps
		}
		code := m.img.Code(m.pc)
		if len(code) == 0 {
			return 0, fmt.Errorf("no code at %#x", m.pc)
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
			return 0, fmt.Errorf("at %#x: %w", m.pc, err)
		}
	}
	return m.result(), nil
}

// jump goes to target, which is within the function or another one with a name.
func (m *machine) jump(target uint64) error {
	if name, _ := m.img.Callee(target); name != "" {
		return m.call(target, 0)
	}
	m.pc = target
	return nil
}

// call performs a direct call or tail jump to target; next is where a call returns to,
// 0 for a jump (the return address is then where the function found it).
func (m *machine) call(target, next uint64) error {
	name, code := m.img.Callee(target)
	return m.callNamed(name, target, code, next)
}

func (m *machine) callNamed(name string, target, code, next uint64) error {
	if isAbort(name) {
		return errAbort
	}
	val, what := uint64(0), hookFollow
	if m.hook != nil {
		val, what = m.hook(m, name, target)
	}
	switch what {
	case hookStop:
		return errStopped
	case hookFollow:
		if code == 0 {
			return fmt.Errorf("calls %s, which is not in this file", orAddr(name, target))
		}
		if next != 0 {
			if m.depth++; m.depth > maxDepth {
				return errors.New("calls too deep")
			}
			m.push(next)
		}
		m.pc = code
		return nil
	}
	m.reg[0] = val
	if next == 0 {
		return m.ret()
	}
	m.pc = next
	return nil
}

// push leaves a return address as a call does.
func (m *machine) push(next uint64) {
	if m.arm {
		m.reg[30] = next
		return
	}
	m.reg[4] -= 8
	_ = m.store(m.reg[4], 8, next)
}

func (m *machine) ret() error {
	if m.arm {
		m.pc = m.reg[30]
	} else {
		v, err := m.load(m.reg[4], 8)
		if err != nil {
			return err
		}
		m.reg[4] += 8
		m.pc = v
	}
	m.depth = max(m.depth-1, 0)
	return nil
}

// indirect is a jump (next is 0) or call through the pointer at addr. Through a made-up
// object it ends the run.
func (m *machine) indirect(addr, next uint64) error {
	if o, off := m.object(addr); o != nil {
		m.tail = &tailJump{o, off}
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

func isAbort(name string) bool {
	switch name {
	case "ggml_abort", "abort", "__stack_chk_fail", "__assert_fail", "_Unwind_Resume", "_ZSt9terminatev":
		return true
	}
	return false
}

// loads returns the loads of the last run from o, in order, without repeats of one place.
func (m *machine) loads(o *object) []access { return m.touched(o, false) }

// stores returns the stores of the last run to o, in order, without repeats of one place.
func (m *machine) stores(o *object) []access { return m.touched(o, true) }

func (m *machine) touched(o *object, write bool) []access {
	var out []access
	seen := map[[2]uint64]int{}
	for _, a := range m.log {
		if a.obj != o || a.write != write {
			continue
		}
		k := [2]uint64{a.off, uint64(a.size)}
		if i, ok := seen[k]; ok {
			out[i] = a
			continue
		}
		seen[k] = len(out)
		out = append(out, a)
	}
	return out
}
