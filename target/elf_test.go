// SPDX-License-Identifier: Apache-2.0

package target

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func open(t testing.TB, b []byte) *ELF {
	t.Helper()
	e, err := OpenELF(bytes.NewReader(b), "tiny.so")
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// everySpec runs a test on all kinds of library that the builder makes.
func everySpec(t *testing.T, test func(t *testing.T, s elfSpec, e *ELF)) {
	for _, arch := range []Arch{AMD64, ARM64} {
		for _, sections := range []bool{true, false} {
			for _, gnu := range []bool{true, false} {
				s := elfSpec{arch: arch, sections: sections, gnuHash: gnu}
				t.Run(fmt.Sprintf("%s/sections=%v/gnuhash=%v", arch, sections, gnu), func(t *testing.T) {
					test(t, s, open(t, s.build()))
				})
			}
		}
	}
}

func TestELFHeaders(t *testing.T) {
	everySpec(t, func(t *testing.T, s elfSpec, e *ELF) {
		if e.Arch != s.arch || e.Type != elf.ET_DYN || e.BuildID() != "deadbeef01020304" ||
			e.Soname() != "libtiny.so.1" || !slices.Equal(e.Needed(), []string{"libc.so.6"}) {
			t.Errorf("%v %v %q %q %q", e.Arch, e.Type, e.BuildID(), e.Soname(), e.Needed())
		}
		if off, ok := e.FileOffset(dataAddr + 3); !ok || off != specData+3 {
			t.Errorf("offset %#x, %v", off, ok)
		}
		if a, ok := e.AddrOfOffset(specData + 3); !ok || a != dataAddr+3 {
			t.Errorf("address %#x, %v", a, ok)
		}
		// the end, .bss, nothing
		for _, a := range []uint64{0x1300, dataAddr + 64, dataAddr + 0xff, 1 << 40} {
			if off, ok := e.FileOffset(a); ok {
				t.Errorf("%#x is at offset %#x", a, off)
			}
		}
		want := []Range{{0, 0x1300, false, true}, {dataAddr, dataAddr + 64, true, false}}
		if got := e.Ranges(); !slices.Equal(got, want) {
			t.Errorf("ranges %+v", got)
		}
		if _, _, ok := e.Section(".text"); ok != s.sections {
			t.Errorf(".text: %v", ok)
		}
	})
}

func TestELFSymbols(t *testing.T) {
	everySpec(t, func(t *testing.T, s elfSpec, e *ELF) {
		syms, err := e.Symbols()
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, y := range syms {
			names = append(names, y.Name)
		}
		want := "caller exported"
		if s.sections {
			want = "caller local __local_alias exported __alias slotcaller"
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("symbols %q, want %q", got, want)
		}
		if y, ok := e.Lookup("exported"); !ok || y.Addr != specCode+0x60 || y.Size != 0x100 || !y.Func ||
			!y.Exported || !y.Defined {
			t.Errorf("%+v, %v", y, ok)
		}
		if y, ok := e.Lookup("local"); ok != s.sections || y.Exported {
			t.Errorf("local: %+v, %v", y, ok)
		}
		if _, ok := e.Lookup("ext"); ok {
			t.Error("an import was looked up as if defined")
		}
		if imps, err := e.Imports(); err != nil || !slices.Equal(imps, []string{"ext"}) {
			t.Errorf("imports %q, %v", imps, err)
		}
		if !e.Exports("caller") || e.Exports("ext") || e.Exports("local") || e.Exports("") {
			t.Error("exports are wrong")
		}
		if d, err := e.DynamicSymbols(); err != nil || len(d) != 3 {
			t.Errorf("dynamic symbols %v, %v", d, err)
		}
	})
}

func TestELFFunctions(t *testing.T) {
	everySpec(t, func(t *testing.T, s elfSpec, e *ELF) {
		fs, err := e.Functions()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range fs {
			got = append(got, fmt.Sprintf("%s %x-%x %v", f.Name, f.Start-specCode, f.End-specCode, f.Unwind))
		}
		want := []string{"caller 0-1d true", "local 40-41 true", "exported 60-80 false",
			"slotcaller c0-c9 true"}
		if !s.sections { // no names but the dynamic ones, and nothing tells the stubs from code
			want = []string{"caller 0-1d true", " 40-41 true", "exported 60-80 false", " 80-c0 true",
				" c0-c9 true"}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		if f, ok := e.FunctionAt(specCode + 0x1c); !ok || f.Name != "caller" {
			t.Errorf("%+v, %v", f, ok)
		}
		for _, a := range []uint64{specCode - 1, specCode + 0x1d, specCode + 0x41, 0, ^uint64(0)} {
			if f, ok := e.FunctionAt(a); ok {
				t.Errorf("%#x is in %+v", a, f)
			}
		}
		local, stub := "local+0x0", "ext@plt"
		if !s.sections {
			local = "tiny.so+0x1040"
		} else {
			local = "local"
		}
		for a, want := range map[uint64]string{specCode: "caller", specCode + 7: "caller+0x7",
			specCode + 0x40: local, specCode + 0x80: stub, specCode + 0x1f0: "tiny.so+0x11f0"} {
			if got := e.NameAt(a); got != want {
				t.Errorf("%#x is %q, want %q", a, got, want)
			}
		}
	})
}

func TestELFCalls(t *testing.T) {
	everySpec(t, func(t *testing.T, s elfSpec, e *ELF) {
		at := func(offs ...uint64) (out []uint64) {
			for _, o := range offs {
				out = append(out, specCode+o)
			}
			return out
		}
		local, ext, exported, slot := at(7, 0x18), at(0xc), at(0x11), at(0xc0)
		if s.arch == ARM64 {
			local, ext, exported, slot = at(4, 16), at(8), at(12), nil
		}
		if got, err := e.CallsTo(specCode + 0x40); err != nil || !slices.Equal(got, local) {
			t.Errorf("calls to local: %#x, %v; want %#x", got, err, local)
		}
		for name, want := range map[string][]uint64{"ext": ext, "exported": exported, "caller": nil,
			"none": nil} {
			if got, err := e.Calls(name); err != nil || !slices.Equal(got, want) {
				t.Errorf("calls of %s: %#x, %v; want %#x", name, got, err, want)
			}
		}
		if got, err := e.CallsTo(specCode + 0xc0); err != nil || len(got) != 0 {
			t.Errorf("a loop is a call: %#x, %v", got, err)
		}
		if got, err := e.Calls("local"); s.sections && (err != nil || !slices.Equal(got, local)) {
			t.Errorf("calls of local: %#x, %v", got, err)
		}
		if got, err := e.SlotCalls("ext"); err != nil || !slices.Equal(got, slot) {
			t.Errorf("calls through the slot: %#x, %v; want %#x", got, err, slot)
		}
		for a, want := range map[uint64]string{0x80: "ext", 0xa0: "exported", 0x60: "exported", 0: "caller",
			0x84: "", 0x200: "", 1 << 40: ""} {
			if got := e.CalleeName(specCode + a); got != want {
				t.Errorf("callee at %#x: %q, want %q", a, got, want)
			}
		}
		in, err := e.Insn(ext[0])
		if err != nil || in.Kind != Call || !strings.HasSuffix(in.Text(e.NameAt), "<ext@plt>") {
			t.Errorf("%+v, %v", in, err)
		}
		list, err := e.Insns(specCode, specCode+0x10)
		if s.arch == AMD64 {
			list, err = e.Insns(specCode, specCode+0x1d)
		}
		if err != nil || len(list) < 4 || list[0].Addr != specCode {
			t.Errorf("%v, %v", list, err)
		}
		if _, err := e.Insns(specCode+4, specCode); err == nil {
			t.Error("instructions from end to start")
		}
		if _, err := e.Insns(specCode, 1<<40); err == nil {
			t.Error("instructions beyond the end")
		}
		if _, err := e.Insn(dataAddr); err == nil {
			t.Error("data was decoded")
		}
		if e.IsCode(dataAddr) || !e.IsCode(specCode) {
			t.Error("code and data are mixed up")
		}
	})
}

func TestELFPointers(t *testing.T) {
	everySpec(t, func(t *testing.T, s elfSpec, e *ELF) {
		for a, want := range map[uint64]uint64{ptrHello: helloAddr, ptrExported: specCode + 0x60,
			slotExported: specCode + 0x60, ptrRelr: helloAddr} {
			if got, err := e.ReadPtr(a); err != nil || got != want {
				t.Errorf("pointer at %#x: %#x, %v; want %#x", a, got, err, want)
			}
		}
		if got, err := e.ReadPtr(ptrExt); err == nil || !strings.Contains(err.Error(), "ext") {
			t.Errorf("a pointer to another file: %#x, %v", got, err)
		}
		for a, want := range map[uint64]string{ptrExt: "ext", slotExt: "ext", slotExported: "exported",
			ptrHello: "", ptrRelr: ""} {
			if got, ok := e.PtrSymbol(a); got != want || ok != (want != "") {
				t.Errorf("symbol at %#x: %q, %v", a, got, ok)
			}
		}
		if got, err := e.CString(helloAddr+1, 100); err != nil || got != "ello" {
			t.Errorf("%q, %v", got, err)
		}
		if got, err := e.CString(helloAddr, 5); err == nil {
			t.Errorf("%q is not terminated", got)
		}
		for _, a := range []uint64{dataAddr + 60, 0x12ff, 1 << 40} {
			if _, err := e.ReadPtr(a); err == nil {
				t.Errorf("a pointer at %#x", a)
			}
		}
		buf := make([]byte, 0x1300)
		if err := e.ReadAddr(0, buf); err != nil || !bytes.HasPrefix(buf, []byte("\x7fELF")) {
			t.Errorf("the whole segment: %v", err)
		}
		if err := e.ReadAddr(1, buf); err == nil {
			t.Error("more than the segment was read")
		}
	})
}

// readerAt hides everything but reading: a file of unknown size.
type readerAt struct{ r io.ReaderAt }

func (r readerAt) ReadAt(b []byte, off int64) (int, error) { return r.r.ReadAt(b, off) }

func TestELFUnknownSize(t *testing.T) {
	b := elfSpec{arch: AMD64, sections: true}.build()
	e, err := OpenELF(readerAt{bytes.NewReader(b)}, "x")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := e.Calls("ext"); err != nil || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
}

// exercise asks everything of a file, whatever is in it.
func exercise(e *ELF) {
	_, _ = e.Functions()
	_, _ = e.Symbols()
	_, _ = e.Imports()
	_, _ = e.Calls("ext")
	_, _ = e.SlotCalls("ext")
	_ = e.Mentions("ext")
	_ = e.BuildID()
	_ = e.Soname()
	_ = e.Needed()
	for _, a := range []uint64{0, specCode, specCode + 0x40, specCode + 0x80, slotExt, ptrHello, ptrExported,
		ptrExt, ^uint64(0) - 3} {
		_, _ = e.ReadPtr(a)
		_, _ = e.PtrSymbol(a)
		_, _ = e.CString(a, 1<<30)
		_ = e.NameAt(a)
		_ = e.CalleeName(a)
		_, _ = e.Insns(a, a+64)
		_, _ = e.FileOffset(a)
		_, _ = e.AddrOfOffset(a)
	}
	for _, r := range e.Ranges() {
		var b [8]byte
		_ = e.ReadAddr(r.End-4, b[:])
	}
}

func TestELFErrors(t *testing.T) {
	good := elfSpec{arch: AMD64, sections: true}.build()
	edit := func(at int, v ...byte) []byte {
		b := bytes.Clone(good)
		copy(b[at:], v)
		return b
	}
	for name, c := range map[string]struct {
		b   []byte
		say string
	}{
		"empty":       {nil, "not an ELF file"},
		"script":      {[]byte("#!/bin/sh\n" + strings.Repeat("x", 100)), "not an ELF file"},
		"cut header":  {good[:40], "truncated"},
		"32 bit":      {edit(4, 1), "64-bit"},
		"big endian":  {edit(5, 2), "little-endian"},
		"riscv":       {edit(18, 243), "x86-64 and arm64"},
		"object file": {edit(16, 1), "neither an executable nor a shared library"},
		"no segments": {edit(56, 0, 0), "program headers"},
		"truncated":   {good[:200], "truncated"},
		"far segment": {edit(32, 0, 0, 0, 0, 0, 0, 0, 0x70), "beyond reason"},
		"wraps":       {edit(64+8, bytes.Repeat([]byte{0xff}, 8)...), "wraps"},
		"cut dynamic": {edit(64+2*56+8, 0, 0xff, 0xff), "truncated"},
	} {
		e, err := OpenELF(bytes.NewReader(c.b), "bad.so")
		if err == nil || !strings.Contains(err.Error(), c.say) || !strings.Contains(err.Error(), "bad.so") {
			t.Errorf("%s: %v, %v; want %q", name, e, err, c.say)
		}
	}
	if _, err := OpenELF(bytes.NewReader(nil), "x"); !errors.Is(err, ErrNotELF) {
		t.Errorf("%v", err)
	}
	// Nonsense among the sections leaves what the segments tell.
	e := open(t, edit(60, 0xff, 0xff))
	if got, err := e.Calls("ext"); err != nil || len(got) != 1 {
		t.Errorf("without its sections: %v, %v", got, err)
	}
	// A damaged table is told; the others serve.
	e = open(t, edit(0x600-0x100+4, 0xff, 0xff, 0xff, 0xff)) // of the hash table: only used without sections
	if _, err := e.Symbols(); err != nil {
		t.Error(err)
	}
	e = open(t, edit(0x900, 0xf0, 0xff, 0xff, 0x7f))
	if fs, err := e.Functions(); err == nil || len(fs) == 0 {
		t.Errorf("damaged unwind information: %v, %v", fs, err)
	}
}

// TestELFHostile changes every byte of the headers and tables, and cuts the file
// everywhere: no panic, and no more memory than the file is worth.
func TestELFHostile(t *testing.T) {
	for _, s := range []elfSpec{{arch: AMD64, sections: true}, {arch: ARM64, gnuHash: true}} {
		good := s.build()
		var before, after runtime.MemStats
		for at := range good {
			if good[at] == 0 && (at%4 != 3 || at > 0xb00) {
				continue // most of a file is zeros; the high bytes of numbers count
			}
			for _, v := range []byte{0xff, 0x7f} {
				b := bytes.Clone(good)
				b[at] = v
				runtime.ReadMemStats(&before)
				if e, err := OpenELF(bytes.NewReader(b), "x"); err == nil {
					exercise(e)
				}
				runtime.ReadMemStats(&after)
				if n := after.TotalAlloc - before.TotalAlloc; n > 8<<20 {
					t.Fatalf("byte %#x = %#x: %d bytes allocated", at, v, n)
				}
			}
		}
		for n := 0; n < len(good); n += 61 {
			if e, err := OpenELF(bytes.NewReader(good[:n]), "x"); err == nil {
				exercise(e)
			}
		}
	}
}

func FuzzOpenELF(f *testing.F) {
	for _, s := range []elfSpec{{arch: AMD64, sections: true}, {arch: AMD64, gnuHash: true},
		{arch: ARM64, sections: true}, {arch: ARM64, gnuHash: true}} {
		f.Add(s.build())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		checkELF(t, b, openSized)
		checkELF(t, b, openUnsized)
	})
}

// TestELFSelf reads this test's own executable, and compares with debug/elf.
func TestELFSelf(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	compareDebugELF(t, path)
}

// TestELFEngines does so with the engines' libraries.
func TestELFEngines(t *testing.T) {
	files := engineFiles(t, "libggml", "libllama", "libwhisper", "llama-addon")
	if len(files) == 0 {
		t.Skip("PROFINFER_ENGINES is not set, or no library of an engine is there")
	}
	for _, f := range files {
		compareDebugELF(t, f)
		e := openFile(t, f)
		fs, err := e.Functions()
		if err != nil || len(fs) < 10 {
			t.Errorf("%s: %d functions, %v", f, len(fs), err)
		}
		unwind := 0
		for i, fn := range fs {
			if fn.Unwind {
				unwind++
			}
			if fn.End <= fn.Start || i > 0 && fn.Start < fs[i-1].End {
				t.Fatalf("%s: %+v after %+v", f, fn, fs[i-1])
			}
		}
		// small libraries are a few functions and as many of the C runtime's, which have none
		if unwind+8 < len(fs)*9/10 {
			t.Errorf("%s: only %d of %d functions have unwind information", f, unwind, len(fs))
		}
		if e.BuildID() == "" && e.Soname() == "" {
			t.Errorf("%s: neither build id nor soname", f)
		}
	}
}

// compareDebugELF compares symbols and pointers with what the standard library reads.
func compareDebugELF(t *testing.T, path string) {
	t.Helper()
	e := openFile(t, path)
	std, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer std.Close()
	ours, err := e.Symbols()
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	have := map[string]bool{}
	for _, s := range ours {
		have[fmt.Sprintf("%s %x", s.Name, s.Addr)] = true
	}
	for _, get := range []func() ([]elf.Symbol, error){std.Symbols, std.DynamicSymbols} {
		list, err := get()
		if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
			t.Fatal(err)
		}
		for _, s := range list {
			typ := elf.ST_TYPE(s.Info)
			name, _, _ := strings.Cut(s.Name, "@")
			if s.Section == elf.SHN_UNDEF || name == "" || typ == elf.STT_SECTION || typ == elf.STT_FILE ||
				typ == elf.STT_TLS || isMappingSymbol(name) {
				continue
			}
			if !have[fmt.Sprintf("%s %x", name, s.Value)] {
				t.Fatalf("%s: %s at %#x was not found", path, s.Name, s.Value)
			}
		}
	}
	imps, err := e.Imports()
	if err != nil {
		t.Fatal(err)
	}
	want, err := std.ImportedSymbols()
	if err == nil && len(want) > len(imps) {
		t.Errorf("%s: %d imports, debug/elf finds %d", path, len(imps), len(want))
	}
	rela := std.Section(".rela.dyn")
	if rela == nil || std.Machine != elf.EM_X86_64 {
		return
	}
	data, err := rela.Data()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for ; len(data) >= 24; data = data[24:] {
		if binary.LittleEndian.Uint64(data[8:]) == uint64(elf.R_X86_64_RELATIVE) {
			at, want := binary.LittleEndian.Uint64(data), binary.LittleEndian.Uint64(data[16:])
			if got, err := e.ReadPtr(at); err != nil || got != want {
				t.Fatalf("%s: pointer at %#x: %#x, %v; want %#x", path, at, got, err, want)
			}
			n++
		}
	}
	t.Logf("%s: %d symbols, %d relative pointers agree", path, len(ours), n)
}
