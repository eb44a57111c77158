// SPDX-License-Identifier: Apache-2.0

package ggml

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/target"
)

//go:generate llvm-mc -filetype=obj -triple=x86_64-linux-gnu testdata/fake_amd64.s -o testdata/fake_amd64.o
//go:generate llvm-mc -filetype=obj -triple=aarch64-linux-gnu testdata/fake_arm64.s -o testdata/fake_arm64.o

const fakeBase = 0x400000 // where the made-up engine is mapped, BASE in its source

// fake is a made-up engine: an ELF executable of one segment, and its labels.
type fake struct {
	file  []byte
	label map[string]uint64
	arch  target.Arch
}

// fakeEngine makes an executable of an assembled testdata file. rename (nil: none) gives functions
// other names, or none by an empty one.
func fakeEngine(t testing.TB, arch target.Arch, rename map[string]string) *fake {
	t.Helper()
	f, err := elf.Open("testdata/fake_" + string(arch) + ".o")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	code, err := f.Section(".text").Data()
	if err != nil {
		t.Fatal(err)
	}
	syms, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	out := &fake{label: map[string]uint64{}, arch: arch}
	strtab, symtab := []byte{0}, make([]byte, 24)
	le := binary.LittleEndian
	const codeOff = 0x1000
	for _, s := range syms {
		if s.Name == "" || s.Section == elf.SHN_ABS || strings.HasPrefix(s.Name, "$") {
			continue
		}
		out.label[s.Name] = fakeBase + s.Value
		name := s.Name
		if r, ok := rename[name]; ok {
			name = r
		}
		if elf.ST_TYPE(s.Info) != elf.STT_FUNC || name == "" {
			continue
		}
		var e [24]byte
		le.PutUint32(e[:], uint32(len(strtab)))
		e[4] = byte(elf.STT_FUNC) | byte(elf.STB_GLOBAL)<<4
		le.PutUint16(e[6:], 1)
		le.PutUint64(e[8:], fakeBase+s.Value)
		symtab = append(symtab, e[:]...)
		strtab = append(append(strtab, name...), 0)
	}
	shstr := []byte("\x00.text\x00.symtab\x00.strtab\x00.shstrtab\x00")
	b := make([]byte, codeOff, codeOff+len(code))
	b = append(b, code...)
	symOff := len(b)
	b = append(b, symtab...)
	strOff := len(b)
	b = append(b, strtab...)
	shstrOff := len(b)
	b = append(b, shstr...)
	b = append(b, make([]byte, (8-len(b)%8)%8)...)
	shoff := len(b)
	section := func(name string, typ elf.SectionType, flags elf.SectionFlag, addr uint64, off, size, link,
		ent int) {
		var s [64]byte
		le.PutUint32(s[:], uint32(bytes.Index(shstr, []byte(name+"\x00"))))
		le.PutUint32(s[4:], uint32(typ))
		for i, v := range []uint64{uint64(flags), addr, uint64(off), uint64(size)} {
			le.PutUint64(s[8+8*i:], v)
		}
		le.PutUint32(s[40:], uint32(link))
		le.PutUint64(s[56:], uint64(ent))
		b = append(b, s[:]...)
	}
	b = append(b, make([]byte, 64)...)
	section(".text", elf.SHT_PROGBITS, elf.SHF_ALLOC|elf.SHF_EXECINSTR, fakeBase, codeOff, len(code), 0, 0)
	section(".symtab", elf.SHT_SYMTAB, 0, 0, symOff, len(symtab), 3, 24)
	section(".strtab", elf.SHT_STRTAB, 0, 0, strOff, len(strtab), 0, 0)
	section(".shstrtab", elf.SHT_STRTAB, 0, 0, shstrOff, len(shstr), 0, 0)
	copy(b, "\x7fELF\x02\x01\x01")
	le.PutUint16(b[16:], uint16(elf.ET_EXEC))
	machine := elf.EM_X86_64
	if arch == target.ARM64 {
		machine = elf.EM_AARCH64
	}
	le.PutUint16(b[18:], uint16(machine))
	le.PutUint32(b[20:], 1)
	le.PutUint64(b[32:], 64) // program headers
	le.PutUint64(b[40:], uint64(shoff))
	for i, v := range []uint16{64, 56, 1, 64, 5, 4} {
		le.PutUint16(b[52+2*i:], v)
	}
	le.PutUint32(b[64:], uint32(elf.PT_LOAD))
	le.PutUint32(b[68:], uint32(elf.PF_R|elf.PF_X))
	for i, v := range []uint64{codeOff, fakeBase, fakeBase, uint64(len(code)), uint64(len(code)), 0x1000} {
		le.PutUint64(b[72+8*i:], v)
	}
	out.file = b
	return out
}

func (f *fake) open(t testing.TB) engine.OpenedFile {
	t.Helper()
	e, err := target.OpenELF(bytes.NewReader(f.file), "fake")
	if err != nil {
		t.Fatal(err)
	}
	return engine.OpenedFile{File: engine.File{Path: "/opt/fake"}, ELF: e}
}

func (f *fake) plan(t testing.TB) *engine.Plan {
	t.Helper()
	p, err := New().PlanFiles([]engine.OpenedFile{f.open(t)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// want is a site as the tests expect it: a label and what is to be known there.
type want struct {
	role  engine.Role
	label string
	plus  uint64
	ret   bool
	a, b  engine.Arg
}

func stackArg(n int32) engine.Arg { return engine.Arg{Kind: engine.ArgStackAddr, Stack: n} }

func checkSites(t *testing.T, f *fake, p *engine.Plan, wants []want) {
	t.Helper()
	got := slices.Clone(p.Sites)
	for _, w := range wants {
		addr, ok := f.label[w.label]
		if !ok {
			t.Fatalf("no label %s", w.label)
		}
		i := slices.IndexFunc(got, func(s engine.Site) bool {
			return s.Role == w.role && s.Addr == addr+w.plus && s.Return == w.ret
		})
		if i < 0 {
			t.Errorf("no site %s at %s+%#x (%#x, return %v)", w.role, w.label, w.plus, addr+w.plus, w.ret)
			continue
		}
		s := got[i]
		got = slices.Delete(got, i, i+1)
		if s.A != w.a || s.B != w.b {
			t.Errorf("%s at %s: arguments %v %v, want %v %v", w.role, w.label, s.A, s.B, w.a, w.b)
		}
		if s.Offset != s.Addr-fakeBase+0x1000 {
			t.Errorf("%s at %#x: offset %#x", s.Role, s.Addr, s.Offset)
		}
	}
	for _, s := range got {
		t.Errorf("a site that was not expected: %s at %s (%s), return %v", s.Role, s.Where, s.Insn, s.Return)
	}
	if t.Failed() {
		t.Log("\n" + show(p))
	}
}

func TestFakeAMD64(t *testing.T) {
	f := fakeEngine(t, target.AMD64, nil)
	p := f.plan(t)
	none := engine.Arg{}
	checkSites(t, f, p, []want{
		{engine.RoleSchedBegin, "ggml_backend_sched_graph_compute_async", 0x1b, false, reg(0), reg(1)},
		{engine.RoleSchedEnd, "ggml_backend_sched_graph_compute_async", 0x30, false, none, none},
		{engine.RoleStepBegin, "llama_decode", 0xd, false, reg(0), stackArg(8 + 24)},
		{engine.RoleStepEnd, "llama_decode", 0x17, false, none, none},
		{engine.RoleStepBegin, "llama_encode", 0, false, reg(0), stackArg(8)},
		{engine.RoleStepEnd, "llama_encode", 5, false, none, none},
		{engine.RoleStepBegin, "llama_process", 6, false, reg(0), reg(2)},
		{engine.RoleStepEnd, "llama_process", 0x12, false, none, none}, // nothing was done
		{engine.RoleStepEnd, "inner_decode", 2, false, none, none},     // it hands its call on
		{engine.RoleGraphBegin, "ggml_graph_compute", 4, false, reg(0), reg(1)},
		{engine.RoleGraphEnd, "ggml_graph_compute", 0x19, false, none, none},
		{engine.RoleOpBegin, "op_begin", 0, false, reg(0), reg(1)},
		{engine.RoleOpEnd, "barrier_loop", 0, false, reg(0), none},
		{engine.RoleOpEnd, "barrier_closing", 0, false, reg(0), none},
		{engine.RoleOpFused, "op_fused", 0, false, reg(0), reg(1)},
	})
	if i := slices.IndexFunc(p.Sites, func(s engine.Site) bool {
		return s.Warning != "" && strings.HasPrefix(s.Dear(),
			"step begin at llama_encode (mov %rsi,%rdi) is stepped")
	}); i < 0 {
		t.Errorf("no warning that llama_encode is dear: %q", show(p))
	}
	checkFakeLayout(t, p)
	if i := slices.IndexFunc(p.Findings, func(f engine.Finding) bool {
		return f.What == "operator end"
	}); i < 0 || p.Findings[i].Value != "1 in the loop, 1 closing" {
		t.Errorf("operator ends: %+v", p.Findings[max(i, 0)])
	}
}

func TestFakeARM64(t *testing.T) {
	f := fakeEngine(t, target.ARM64, nil)
	p := f.plan(t)
	none := engine.Arg{}
	checkSites(t, f, p, []want{
		{engine.RoleSchedBegin, "ggml_backend_sched_graph_compute_async", 0x14, false, reg(0), reg(1)},
		{engine.RoleSchedEnd, "ggml_backend_sched_graph_compute_async", 0x2c, false, none, none},
		{engine.RoleSchedEnd, "ggml_backend_sched_graph_compute_async", 0x40, false, none, none},
		{engine.RoleStepBegin, "llama_decode", 0x2c, false, reg(0), reg(1)},
		{engine.RoleStepEnd, "llama_decode", 0x34, false, none, none},
		{engine.RoleStepBegin, "llama_encode", 4, false, reg(0), reg(1)},
		{engine.RoleStepEnd, "llama_encode", 0x14, false, none, none},
		{engine.RoleStepBegin, "llama_process", 4, false, reg(0), reg(2)},
		{engine.RoleStepEnd, "llama_process", 0x14, false, none, none},
		{engine.RoleStepEnd, "inner_decode", 4, false, none, none},
		{engine.RoleGraphBegin, "ggml_graph_compute", 0x18, false, reg(0), reg(1)},
		{engine.RoleGraphEnd, "ggml_graph_compute", 0x28, false, none, none},
		{engine.RoleOpBegin, "op_begin", 0, false, reg(0), reg(1)},
		{engine.RoleOpEnd, "join", 0, false, none, none},
		{engine.RoleOpFused, "op_fused", 0, false, reg(0), reg(1)},
	})
	checkFakeLayout(t, p)
}

func checkFakeLayout(t *testing.T, p *engine.Plan) {
	t.Helper()
	l := &p.Layout
	for _, c := range []struct {
		what      string
		got, want uint16
	}{
		{"n_nodes", l.GraphNNodes, 12}, {"nodes", l.GraphNodes, 24}, {"uid", l.GraphUID, 96},
		{"tensor size", l.TensorSize, 352}, {"src", l.TensorSrc, 168}, {"number of src", l.MaxSrc,
			10}, {"view_src", l.TensorViewSrc, 248},
		{"batch.pos", l.BatchPos, 32}, {"batch.seq_id", l.BatchSeqID, 16}, {"batch.logits", l.BatchLogits, 8},
		{"ith", l.ParamsIth, 8}, {"nth", l.ParamsNth, 12}, {"n_threads", l.PlanThreads, 20},
	} {
		if c.got != c.want {
			t.Errorf("%s at %d, want %d", c.what, c.got, c.want)
		}
	}
	always := []engine.Region{{Off: 0, Len: 4}, {Off: 24, Len: 32}, {Off: 56, Len: 32}, {Off: 88, Len: 4},
		{Off: 164, Len: 4}, {Off: 168, Len: 80}, {Off: 248, Len: 8}, {Off: 272, Len: 64}}
	if !slices.Equal(l.Always, always) {
		t.Errorf("regions %v, want %v", l.Always, always)
	}
	if own := []engine.Region{{Off: 92, Len: 16}, {Off: 264, Len: 8}}; !slices.Equal(l.OwnData, own) {
		t.Errorf("own regions %v, want %v", l.OwnData, own)
	}
	if p.LibraryVersion != "9.8.7" {
		t.Errorf("version %q", p.LibraryVersion)
	}
	d := p.Decode.(*Decoder)
	if want := (BackendLayout{SchedNBackends: 8, SchedBackends: 16, GetName: 16, GraphCompute: 112,
		Device: unknown, Synchronize: unknown}); d.Backend != want {
		t.Errorf("backend %+v, want %+v", d.Backend, want)
	}
	if want := []typeTraits{{"f32", 1, 4}, {"q4_0", 32, 18}, {"f16", 1, 2}}; !slices.Equal(d.types, want) {
		t.Errorf("types %v, want %v", d.types, want)
	}
	if len(d.names.ops) != 6 || len(d.names.unary) != 2 || d.unary != 5 || !d.flagged {
		t.Errorf("names %v, unary %d, flagged %v", d.names, d.unary, d.flagged)
	}
	// The made-up layout is no era's of ggml: the binary must win and say so.
	i := slices.IndexFunc(p.Findings, func(f engine.Finding) bool { return f.What == "tensor.data" })
	if i < 0 || p.Findings[i].Value != "264" || !strings.Contains(p.Findings[i].Differ, "history") {
		t.Errorf("tensor.data was found as %+v", p.Findings[max(i, 0)])
	}
}

// TestShapes plans operators of loops in other shapes: those of older versions and other compilers.
func TestShapes(t *testing.T) {
	none := engine.Arg{}
	for _, c := range []struct {
		name   string
		rename map[string]string
		ops    []want
		warn   string
	}{
		{"the hook in a function of its own", map[string]string{hookName: "", "old_hook": hookName},
			[]want{{engine.RoleOpBegin, "old_op", 0, false, reg(0), reg(1)},
				{engine.RoleOpEnd, "old_barrier", 0, false, reg(0), none}}, ""},
		{"no hook yet", map[string]string{hookName: "", "old_forward": forwardName},
			[]want{{engine.RoleOpBegin, "old_op", 0, false, reg(0), reg(1)},
				{engine.RoleOpEnd, "old_barrier", 0, false, reg(0), none}}, ""},
		{"the barrier inlined", map[string]string{barrierName: ""},
			[]want{{engine.RoleOpBegin, "op_begin", 0, false, reg(0), reg(1)},
				{engine.RoleOpFused, "op_fused", 0, false, reg(0), reg(1)},
				{engine.RoleOpEnd, "loop_top", 5, false, none, none}}, ""},
		{"the barrier inlined, no single place where operators end",
			map[string]string{hookName: "", "old_forward": forwardName, barrierName: "GOMP_barrier",
				"old_hook": "ggml_compute_forward_x"},
			[]want{{engine.RoleOpBegin, "old_op", 0, false, reg(0), reg(1)},
				{engine.RoleOpEnd, "old_op", 10, false, none, none}}, ""},
		{"an operator goes on to the next without passing where the others end",
			map[string]string{barrierName: "ggml_compute_forward_y"},
			[]want{{engine.RoleOpBegin, "op_begin", 0, false, reg(0), reg(1)},
				{engine.RoleOpFused, "op_fused", 0, false, reg(0), reg(1)}}, "no barrier was found"},
		{"no operators", map[string]string{hookName: ""}, nil, "operators cannot be seen"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := fakeEngine(t, target.AMD64, c.rename)
			p := f.plan(t)
			p.Sites = slices.DeleteFunc(p.Sites, func(s engine.Site) bool {
				return s.Role.Needs() != engine.LevelOp
			})
			checkSites(t, f, p, c.ops)
			if all := fmt.Sprint(p.Warnings); c.warn != "" && !strings.Contains(all, c.warn) {
				t.Errorf("warnings %q, want %q", all, c.warn)
			}
		})
	}
}

func TestWhisper(t *testing.T) {
	f := fakeEngine(t, target.AMD64,
		map[string]string{"llama_decode": "whisper_full", "llama_encode": "", "llama_process": ""})
	p := f.plan(t)
	if p.Engine != "whisper.cpp" || p.EngineVersion != "9.8.7" || p.Files[0].Role != "base+cpu+whisper" {
		t.Errorf("%s %q, the file is %s", p.Engine, p.EngineVersion, p.Files[0].Role)
	}
}

// TestDesc: where ggml_op_desc does not name the inner operator, neither does the decoder.
func TestDesc(t *testing.T) {
	f := fakeEngine(t, target.AMD64, map[string]string{"ggml_op_desc": "", "ggml_version": "ggml_op_desc"})
	if d := f.plan(t).Decode.(*Decoder); d.unary != -1 {
		t.Errorf("UNARY is %d, want it described by its own name", d.unary)
	}
}

func TestHasUID(t *testing.T) {
	for v, want := range map[string]bool{"": false, "0.9.7": false, "0.16.9": false, "0.17.0": true,
		"0.27.0": true, "1.0": true, "b123": false, "0.17-dev": true} {
		if got := hasUID(v); got != want {
			t.Errorf("%q: %v, want %v", v, got, want)
		}
	}
	f := fakeEngine(t, target.AMD64, map[string]string{splitGraph: ""})
	if l := f.plan(t).Layout; l.GraphUID != histGraphUID { // the made-up version is 9.8.7
		t.Errorf("uid at %d", l.GraphUID)
	}
}

func TestParts(t *testing.T) {
	for _, c := range []struct {
		rename map[string]string
		want   string
	}{
		{nil, "base+cpu+llama"},
		{map[string]string{"vk_name": "ggml_backend_init"}, "base+cpu+llama"},
		{map[string]string{"vk_name": "ggml_backend_init", "ggml_graph_compute": "", hookName: ""},
			"base+llama+backend:vulkan"},
	} {
		f := fakeEngine(t, target.AMD64, c.rename)
		if got := Parts(f.open(t).ELF).role("/usr/lib/libggml-vulkan.so.0"); got != c.want {
			t.Errorf("%v: %s, want %s", c.rename, got, c.want)
		}
	}
}

// TestIncomplete plans before everything is loaded, and where nothing is.
func TestIncomplete(t *testing.T) {
	var nf *engine.NotFound
	f := fakeEngine(t, target.AMD64, map[string]string{"ggml_op_name": "", "ggml_get_data": ""})
	if _, err := New().PlanFiles([]engine.OpenedFile{f.open(t)}); !errors.Is(err, errIncomplete) {
		t.Errorf("without a base library: %v", err)
	}
	if _, err := New().PlanFiles(nil); !errors.As(err, &nf) {
		t.Errorf("without files: %v", err)
	}
	names := map[string]string{}
	for n := range f.label {
		names[n] = ""
	}
	f = fakeEngine(t, target.AMD64, names)
	_, err := New().PlanFiles([]engine.OpenedFile{f.open(t)})
	if !errors.As(err, &nf) || !strings.Contains(err.Error(), "/opt/fake") ||
		!strings.Contains(err.Error(), "ggml_graph_compute") {
		t.Errorf("an engine without names: %v", err)
	}
	if Parts(f.open(t).ELF) != 0 {
		t.Error("a file without names is a part of an engine")
	}
	late := fakeEngine(t, target.AMD64, map[string]string{"ggml_graph_compute": "", hookName: ""})
	p := late.plan(t)
	if !slices.ContainsFunc(p.Warnings, func(w engine.Warning) bool {
		return strings.Contains(w.Text, "no CPU backend of ggml is loaded (yet)")
	}) {
		t.Errorf("warnings %+v", p.Warnings)
	}
	if !slices.ContainsFunc(p.Sites, func(s engine.Site) bool { return s.Role == engine.RoleStepBegin }) {
		t.Error("no steps before the CPU library is there")
	}
}

// TestStripped takes away accessors one at a time: no crash, and what is missing is said.
func TestStripped(t *testing.T) {
	for _, arch := range []target.Arch{target.AMD64, target.ARM64} {
		all := fakeEngine(t, arch, nil)
		for name := range all.label {
			f := fakeEngine(t, arch, map[string]string{name: ""})
			p, err := New().PlanFiles([]engine.OpenedFile{f.open(t)})
			if err != nil {
				if name != "ggml_op_name" {
					t.Errorf("%s without %s: %v", arch, name, err)
				}
				continue
			}
			if p.Decode == nil || p.Layout.TensorSize == 0 {
				t.Errorf("%s without %s: an empty plan", arch, name)
			}
		}
	}
}

// FuzzPlan plans with bytes of the engine overwritten: within a file's budget there is an error, or a plan
// whose sites are instructions of the file that can be probed.
func FuzzPlan(f *testing.F) {
	for _, arch := range []target.Arch{target.AMD64, target.ARM64} {
		fk := fakeEngine(f, arch, nil)
		f.Add(arch == target.ARM64, uint32(0), []byte{})
		f.Add(arch == target.ARM64, uint32(fk.label["ggml_nbytes"]-fakeBase),
			[]byte{0xff, 0xff, 0xff, 0xff, 0xeb, 0xfe})
		f.Add(arch == target.ARM64, uint32(fk.label["op_begin"]-fakeBase),
			[]byte{0x90, 0x90, 0xe8, 1, 2, 3, 4})
		f.Add(arch == target.ARM64, uint32(fk.label["ops"]-fakeBase), bytes.Repeat([]byte{0x41}, 64))
	}
	files := map[bool]*fake{false: fakeEngine(f, target.AMD64, nil), true: fakeEngine(f, target.ARM64, nil)}
	f.Fuzz(func(t *testing.T, arm bool, at uint32, patch []byte) {
		fk := files[arm]
		b := slices.Clone(fk.file)
		copy(b[0x1000+int(at)%(len(b)-0x1000):], patch)
		e, err := target.OpenELF(bytes.NewReader(b), "fake")
		if err != nil {
			return
		}
		p, err := New().PlanFiles([]engine.OpenedFile{{ELF: e}})
		if s := e.Spent(); s.Bytes > target.FileLimits.Bytes || s.Steps > target.FileLimits.Steps+1<<20 {
			t.Fatalf("spent %+v", s)
		}
		if err != nil {
			if p != nil || err.Error() == "" {
				t.Fatalf("a plan with an error: %v", err)
			}
			return
		}
		for _, x := range p.Sites {
			if off, ok := e.FileOffset(x.Addr); x.File != 0 || !ok || off != x.Offset || !e.IsCode(x.Addr) ||
				x.Class == target.ClassRefused || x.Class == target.ClassUnknown {
				t.Fatalf("site %+v", x)
			}
		}
		if p.Layout.TensorSize > maxTensor {
			t.Fatalf("tensors of %d bytes", p.Layout.TensorSize)
		}
		if p.Decode != nil {
			_, _ = p.Decode.Tensor(engine.RawTensor{Data: make([]byte, p.Layout.TensorSize)})
		}
	})
}
