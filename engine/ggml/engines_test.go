// SPDX-License-Identifier: Apache-2.0

package ggml

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/target"
)

// install is one build of an engine found under PROFINFER_ENGINES: everything below the
// directory that its base library lies in.
type install struct {
	base        string
	llama, cpus []string
}

// installs finds the real builds to test with. Where PROFINFER_ENGINES is not set, or none of
// their libraries is there, the test is skipped, or fails where PROFINFER_REQUIRE_BPF says that
// the real thing must run.
func installs(t *testing.T) []install {
	t.Helper()
	end := t.Skipf
	if os.Getenv("PROFINFER_REQUIRE_BPF") == "1" {
		end = t.Fatalf
	}
	root := os.Getenv("PROFINFER_ENGINES")
	if root == "" {
		end("PROFINFER_ENGINES is not set: no real engines to test with")
	}
	byDir := map[string]*install{}
	var libs []string
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		name := d.Name()
		if !d.Type().IsRegular() || !strings.Contains(name, ".so") || !strings.HasPrefix(name, "libggml") &&
			!strings.HasPrefix(name, "libllama") {
			return nil
		}
		libs = append(libs, p)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(libs) == 0 {
		end("no library of an engine is below %s", root)
	}
	parts := map[string]Part{}
	for _, p := range libs {
		parts[p] = Parts(openFile(t, p).ELF)
		if parts[p]&PartBase != 0 {
			byDir[filepath.Dir(p)] = &install{base: p}
		}
	}
	for _, p := range libs {
		for dir := filepath.Dir(p); len(dir) >= len(root); dir = filepath.Dir(dir) {
			in := byDir[dir]
			if in == nil {
				continue
			}
			if parts[p]&PartCPU != 0 {
				in.cpus = append(in.cpus, p)
			}
			if parts[p]&PartLlama != 0 {
				in.llama = append(in.llama, p)
			}
			break
		}
	}
	var out []install
	for _, in := range byDir {
		if len(in.cpus) > 0 && len(in.llama) > 0 {
			out = append(out, *in)
		}
	}
	if len(out) == 0 {
		t.Fatalf("no engine below %s", root)
	}
	slices.SortFunc(out, func(a, b install) int { return strings.Compare(a.base, b.base) })
	return out
}

func openFile(t *testing.T, p string) engine.OpenedFile {
	t.Helper()
	fd, err := os.Open(p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fd.Close() })
	e, err := target.OpenELF(fd, p)
	if err != nil {
		t.Fatal(err)
	}
	return engine.OpenedFile{File: engine.File{Path: p, BuildID: e.BuildID()}, ELF: e}
}

// TestEngines makes a plan for every CPU library of every real build at hand: all roles are
// there, at instructions that the kernel emulates, and the binary itself told the layouts.
func TestEngines(t *testing.T) {
	for _, in := range installs(t) {
		for _, cpu := range in.cpus {
			name := filepath.Base(filepath.Dir(in.base)) + "/" + filepath.Base(cpu)
			if _, rest, ok := strings.Cut(in.base, "node-llama-cpp-"); ok {
				v, _, _ := strings.Cut(rest, "/")
				name = v + "/" + filepath.Base(cpu)
			}
			t.Run(name, func(t *testing.T) {
				var files []engine.OpenedFile
				for _, p := range slices.Compact([]string{in.base, in.llama[0], cpu}) {
					if !slices.ContainsFunc(files, func(f engine.OpenedFile) bool { return f.Path == p }) {
						files = append(files, openFile(t, p))
					}
				}
				p, err := New().PlanFiles(files)
				if err != nil {
					t.Fatal(err)
				}
				checkPlan(t, p, files)
				if t.Failed() || testing.Verbose() {
					t.Log("\n" + show(p))
				}
			})
		}
	}
}

func checkPlan(t *testing.T, p *engine.Plan, files []engine.OpenedFile) {
	t.Helper()
	count := map[engine.Role]int{}
	for _, s := range p.Sites {
		count[s.Role]++
		// a call that is refused at once ends by a return of its own, which is stepped
		if s.Class != target.ClassEmulated && s.Class != target.ClassNop5 &&
			(s.Role != engine.RoleStepEnd || s.Warning != "") {
			t.Errorf("%s at %s: %s (%s)", s.Role, s.Where, s.Class, s.Insn)
		}
		if s.Role == engine.RoleOpBegin && s.B.Kind != engine.ArgReg {
			t.Errorf("operator begin without a tensor")
		}
	}
	for _, r := range []engine.Role{engine.RoleStepBegin, engine.RoleStepEnd, engine.RoleSchedBegin,
		engine.RoleGraphBegin, engine.RoleGraphEnd, engine.RoleOpBegin, engine.RoleOpEnd} {
		if count[r] == 0 {
			t.Errorf("no site for %s", r)
		}
	}
	if count[engine.RoleOpBegin] != 1 || count[engine.RoleOpEnd] > 2 || count[engine.RoleGraphBegin] != 1 {
		t.Errorf("%d operator begins, %d ends, %d graph begins; want 1, 1 or 2, 1", count[engine.RoleOpBegin],
			count[engine.RoleOpEnd], count[engine.RoleGraphBegin])
	}
	cpu := files[len(files)-1].ELF
	if _, ok := cpu.Lookup("ggml_compute_forward_rms_norm_mul_fused"); ok != (count[engine.RoleOpFused] == 1) {
		t.Errorf("fused operator exported: %v, sites: %d", ok, count[engine.RoleOpFused])
	}
	for _, f := range p.Findings {
		if strings.HasPrefix(f.What, "tensor") && f.What != "tensor.src count" &&
			strings.HasPrefix(f.How, "history") || f.Differ != "" {
			t.Errorf("%s = %s by %s (%s)", f.What, f.Value, f.How, f.Differ)
		}
	}
	for _, w := range p.Warnings {
		t.Errorf("warning: %+v", w)
	}
	l := &p.Layout
	// As ggml.h, llama.h and the table of history have them.
	type offsets struct{ nNodes, nodes, ith, nth, threads, nTokens, pos, seq, logits uint16 }
	if got, want := (offsets{l.GraphNNodes, l.GraphNodes, l.ParamsIth, l.ParamsNth, l.PlanThreads,
		l.BatchNTokens, l.BatchPos, l.BatchSeqID, l.BatchLogits}),
		(offsets{4, 16, 0, 4, 16, 0, 24, 40, 48}); got != want {
		t.Errorf("offsets %+v, want %+v", got, want)
	}
	if l.GraphUID != engine.Absent && l.GraphUID != histGraphUID {
		t.Errorf("uid at %d", l.GraphUID)
	}
	process := slices.ContainsFunc(files, func(f engine.OpenedFile) bool {
		return f.ELF.Exports("llama_process")
	})
	type ext struct{ begin, end, stride, seq, val, pos, out uint16 }
	none := uint16(engine.Absent)
	want := ext{none, none, none, none, none, none, none}
	if process { // as seen on a running llama.cpp 0.7.0
		want = ext{0x48, 0x50, 0x70, 0x38, 8, 0x60, 0x20}
	}
	if got := (ext{l.VecBegin, l.VecEnd, l.VecStride, l.VecSeqHead, l.VecSeqVal, l.VecPos,
		l.VecOutput}); got != want {
		t.Errorf("llama_batch_ext %+v, want %+v", got, want)
	}
	d := p.Decode.(*Decoder)
	if d.Backend.GraphCompute < 0x58 || d.Backend.SchedBackends != 8 || d.Backend.SchedNBackends != 4 {
		t.Errorf("backends %+v", d.Backend)
	}
	if len(d.names.ops) < 70 || len(d.types) < 30 || d.types[2] != (typeTraits{"q4_0", 32, 18}) ||
		d.unary < 0 {
		t.Errorf("%d operators, %d types, q4_0 is %v", len(d.names.ops), len(d.types), d.types[2])
	}
}

// show is a plan in lines for a person.
func show(p *engine.Plan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %q ggml %q %q %s\n", p.Engine, p.EngineVersion, p.LibraryVersion, p.LibraryCommit,
		p.Arch)
	for _, s := range p.Sites {
		fmt.Fprintf(&b, "  %-20s %-9s ret=%-5v A%v B%v C%v %-48s %s\n", s.Role, s.Class, s.Return, s.A, s.B,
			s.C, s.Where, s.Insn)
	}
	for _, x := range p.Findings {
		fmt.Fprintf(&b, "  F %-22s %-6s %s %s\n", x.What, x.Value, x.How, x.Differ)
	}
	for _, x := range p.Warnings {
		fmt.Fprintf(&b, "  W %+v\n", x)
	}
	return b.String()
}
