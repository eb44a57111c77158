// SPDX-License-Identifier: Apache-2.0

package ggml

import (
	"encoding/binary"
	"fmt"

	"github.com/profinfer/profinfer/engine/internal/emulator"
	"github.com/profinfer/profinfer/target"
)

// lib is one ELF file of an engine. It is the image that the emulator runs on.
type lib struct {
	e        *target.ELF
	bss, end uint64 // the zeroed data behind the file's part, empty if there is none
}

func newLib(e *target.ELF) *lib {
	l := &lib{e: e}
	if addr, size, ok := e.Section(".bss"); ok && addr+size > addr {
		l.bss, l.end = addr, addr+size
	}
	return l
}

func (l *lib) arm() bool { return l.e.Arch == target.ARM64 }

func (l *lib) Code(addr uint64) []byte {
	l.e.Spend(stepCost)
	b, err := l.e.Code(addr)
	if err != nil {
		return nil
	}
	return b
}

// Costs of emulation, charged to a file's budget.
const (
	machineCost = 256 // to make one
	stepCost    = 8   // per instruction that it runs
)

func (l *lib) newMachine() *emulator.Machine {
	l.e.Spend(machineCost)
	m := emulator.New(l, l.arm())
	m.Aborts = isAbort
	return m
}

func (l *lib) Load(addr uint64, buf []byte) bool {
	if addr >= l.bss && addr+uint64(len(buf)) <= l.end && addr < l.end {
		clear(buf)
		return true
	}
	if len(buf) == 8 {
		v, err := l.e.ReadPtr(addr)
		if err != nil {
			return false
		}
		binary.LittleEndian.PutUint64(buf, v)
		return true
	}
	return l.e.ReadAddr(addr, buf) == nil
}

func (l *lib) Callee(addr uint64) (string, uint64) {
	if f, ok := l.e.FunctionAt(addr); ok && f.Start == addr {
		return f.Name, addr
	}
	name := l.e.CalleeName(addr)
	if name != "" {
		code, _ := l.fn(name)
		return name, code
	}
	if l.e.IsCode(addr) {
		return "", addr
	}
	return "", 0
}

func (l *lib) Slot(addr uint64) (string, uint64) {
	if name, ok := l.e.PtrSymbol(addr); ok {
		code, _ := l.fn(name)
		return name, code
	}
	if v, err := l.e.ReadPtr(addr); err == nil && l.e.IsCode(v) {
		return l.Callee(v)
	}
	return "", 0
}

// fn finds a function that this file defines.
func (l *lib) fn(name string) (uint64, bool) {
	s, ok := l.e.Lookup(name)
	if !ok || !s.Func || !l.e.IsCode(s.Addr) {
		return 0, false
	}
	return s.Addr, true
}

// has reports whether the file defines any of these functions.
func (l *lib) has(names ...string) bool {
	for _, n := range names {
		if _, ok := l.fn(n); ok {
			return true
		}
	}
	return false
}

// machine makes an emulator for the accessor with this name.
func (l *lib) machine(name string) (*emulator.Machine, uint64, error) {
	addr, ok := l.fn(name)
	if !ok {
		return nil, 0, fmt.Errorf("%s does not define %s", l.e.Name, name)
	}
	return l.newMachine(), addr, nil
}

// str reads a constant string of at most max bytes that consists of printable ASCII.
func (l *lib) str(addr uint64, max int) (string, bool) {
	if addr == 0 {
		return "", false
	}
	s, err := l.e.CString(addr, max)
	if err != nil {
		return "", false
	}
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return "", false
		}
	}
	return s, true
}

// constant runs a function that returns a constant string.
func (l *lib) constant(name string) (string, bool) {
	m, addr, err := l.machine(name)
	if err != nil {
		return "", false
	}
	p, err := m.Run(addr)
	if err != nil {
		return "", false
	}
	return l.str(p, 128)
}

// isAbort recognizes functions that end the process.
func isAbort(name string) bool {
	switch name {
	case "ggml_abort", "abort", "__stack_chk_fail", "__assert_fail", "_Unwind_Resume", "_ZSt9terminatev":
		return true
	}
	return false
}
