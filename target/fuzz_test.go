// SPDX-License-Identifier: Apache-2.0

package target

import (
	"bytes"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// fuzzMemory is what looking at a file of a fuzzer, a few KB, may allocate in all.
const fuzzMemory = 48 << 20

// checkELF asks a file all there is to ask, and holds the answers against what is said of them: within the
// file's budget, in order, within the file. FuzzOpenELF's files and parts come here.
func checkELF(t testing.TB, b []byte, open func([]byte) (*ELF, error)) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	e, err := open(b)
	if err != nil {
		if e != nil {
			t.Fatal("a file with an error")
		}
		return
	}
	exercise(e)
	fs, _ := e.Functions()
	for i, f := range fs {
		if f.End <= f.Start || !e.IsCode(f.Start) || i > 0 && f.Start < fs[i-1].End {
			t.Fatalf("function %+v of %+v", f, fs)
		}
		if got, ok := e.FunctionAt(f.Start); !ok || got != f {
			t.Fatalf("at %#x: %+v, not %+v", f.Start, got, f)
		}
	}
	syms, _ := e.Symbols()
	for i, s := range syms {
		if s.Name == "" || strings.ContainsRune(s.Name, 0) || !s.Defined || i > 0 && s.Addr < syms[i-1].Addr {
			t.Fatalf("symbol %+v of %+v", s, syms)
		}
	}
	if calls, err := e.Calls("ext"); err == nil && (!slices.IsSorted(calls) || len(calls) > len(b)) {
		t.Fatalf("calls at %#x", calls)
	}
	for _, f := range fs[:min(len(fs), 8)] {
		list, _ := e.Insns(f.Start, min(f.End, f.Start+256))
		for at := f.Start; len(list) > 0; list = list[1:] {
			if list[0].Addr != at || list[0].End() > f.End {
				t.Fatalf("instruction %+v in %+v, want one at %#x", list[0], f, at)
			}
			at = list[0].End()
		}
	}
	spent := e.Spent()
	if over := uint64(batch + chunkBytes); spent.Bytes > FileLimits.Bytes+maxTable ||
		spent.Steps > FileLimits.Steps+FileLimits.Steps/20+over {
		t.Fatalf("spent %+v of %+v", spent, FileLimits)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > fuzzMemory {
		t.Fatalf("%d KB were allocated for a file of %d bytes", n>>10, len(b))
	}
}

func openSized(b []byte) (*ELF, error)   { return OpenELF(bytes.NewReader(b), "x") }
func openUnsized(b []byte) (*ELF, error) { return OpenELF(readerAt{bytes.NewReader(b)}, "x") }

// elfParts are where the tables stand that a file of elfSpec has.
var elfParts = map[string]int{"program headers": 64, "symbols": 0x300, "names": 0x400, "hash": 0x500,
	"relocations": 0x600, "slots": 0x680,
	"dynamic": 0x700, "note": 0x800, "unwind": 0x900, "unwind header": 0xa00, "code": specCode,
	"symtab": 0x2000, "section names": 0x2200, "data": specData}

// FuzzELFParts writes over one table of a file that is whole else: what changes anywhere hardly ever keeps a
// file readable.
func FuzzELFParts(f *testing.F) {
	specs := []elfSpec{{arch: AMD64, sections: true}, {arch: AMD64, gnuHash: true},
		{arch: ARM64, sections: true}, {arch: ARM64, gnuHash: true}}
	var files [][]byte
	for i, s := range specs {
		b := s.build()
		files = append(files, b)
		for _, at := range elfParts {
			if at < len(b) {
				f.Add(uint8(i), uint16(at), bytes.Clone(b[at:min(at+64, len(b))]))
			}
		}
		// counts of the hash table
		f.Add(uint8(i), uint16(0x500), u32s(0xffffffff, 0, 0xffffffff, 6))
		// a long chain
		f.Add(uint8(i), uint16(0x500), u32s(4, 0, 1, 6, 0, 0, 0, 0xbfff0))
		// a long record
		f.Add(uint8(i), uint16(0x900), u32s(0xffffffff, 0))
		// backwards
		f.Add(uint8(i), uint16(0x900), append(u32s(4, 0xffffffff), u32s(4, 8)...))
		// absolute addresses
		f.Add(uint8(i), uint16(0x900),
			append(append(u32s(13, 0), "\x01zR\x00\x01\x78\x10\x01\x00"...), u32s(20, 21)...))
		f.Add(uint8(i), uint16(0x700), le64(5, ^uint64(0), 10, ^uint64(0), 6, 8, 4, ^uint64(7)))
	}
	f.Fuzz(func(t *testing.T, which uint8, at uint16, patch []byte) {
		b := bytes.Clone(files[int(which)%len(files)])
		copy(b[int(at)%len(b):], patch)
		checkELF(t, b, openSized)
		checkELF(t, b, openUnsized)
	})
}

// FuzzUnwind reads unwind information of any length, by the section and by the header that unwinders use.
func FuzzUnwind(f *testing.F) {
	for _, s := range []elfSpec{{arch: AMD64, sections: true}, {arch: ARM64}} {
		b := s.build()
		f.Add(s.arch == ARM64, b[0x900:0xa00])
	}
	f.Add(false, append(append(u32s(13, 0), "\x01zR\x00\x01\x78\x10\x01\x00"...),
		append(u32s(20, 21), le64(specCode, 0x1d)...)...))
	f.Add(true, append(append(u32s(12, 0), "\x03zPLR\x00\x01\x78"...), u32s(12, 20, 0, 0)...))
	f.Fuzz(func(t *testing.T, arm bool, eh []byte) {
		s := elfSpec{arch: AMD64}
		if arm {
			s.arch = ARM64
		}
		b := s.build()
		// In the second segment's place, which has what the first one's header leads to.
		at := (len(b) + 0xfff) &^ 0xfff
		b = append(append(b, make([]byte, at-len(b))...), eh...)
		copy(b[0xa00:], append([]byte{1, 0x1b, 3, 0x3b}, u32s(uint32(at-0xa04))...))
		heads := le64(0, 0, 0, uint64(len(b)), uint64(len(b))) // the first segment is all of the file
		copy(b[64+8:], heads)
		checkELF(t, b, openSized)
		e, err := openSized(b)
		if err != nil {
			return
		}
		list, err := e.unwindFunctions()
		if len(list) > len(eh)/8+64 {
			t.Fatalf("%d functions of %d bytes", len(list), len(eh))
		}
		for _, x := range list {
			if x.End <= x.Start || !x.Unwind || x.Name != "" {
				t.Fatalf("%+v (%v)", x, err)
			}
		}
	})
}
