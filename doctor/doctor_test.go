// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/engine/ggml"
	"github.com/profinfer/profinfer/internal/crafted"
	"github.com/profinfer/profinfer/probe"
	"github.com/profinfer/profinfer/target"
)

func TestVerdict(t *testing.T) {
	whole := &Target{Given: []string{"a.so"}, Arch: runtime.GOARCH,
		Records: []string{"steps", "graphs", "operators"}}
	part := &Target{PID: 7, Comm: "x", Arch: runtime.GOARCH, Records: []string{"graphs"},
		Degraded: []string{"of it"}}
	none := &Target{PID: 7, Comm: "x", Problem: "no engine", Remedy: "load one"}
	foreign := &Target{Given: []string{"a.so", "b.so"}, Arch: "riscv64", Records: []string{"steps"}}
	bad := Check{Name: "kernel", State: Missing, Found: "4.18", Means: "too old", Remedy: "update"}
	dull := Check{Name: "watch", State: Degraded, Found: "polling"}
	for _, c := range []struct {
		r    Report
		ok   bool
		text string
		rem  string
	}{
		{Report{sched: true}, true, "profinfer can record here: steps, graphs, operators, scheduling", ""},
		{Report{Checks: []Check{dull}}, true, "here: steps, graphs, operators; but not scheduling", ""},
		{Report{sched: true, Checks: []Check{dull, bad}}, false, "profinfer cannot record here: too old",
			"update"},
		{Report{sched: true, Target: whole}, true, "record a.so here: steps, graphs, operators, scheduling",
			""},
		{Report{sched: true, Target: part, Checks: []Check{dull}}, true,
			"x (7) here: graphs, scheduling; but not steps, operators", ""},
		{Report{sched: true, Target: none}, false, "cannot record x (7) here: no engine", "load one"},
		{Report{Target: none, Checks: []Check{bad}}, false, "too old", "update"},
		{Report{Target: foreign, Checks: []Check{bad}}, true, "these 2 files, on an riscv64 machine", ""},
	} {
		v := c.r.verdict()
		if v.OK != c.ok || !strings.Contains(v.Text, c.text) || v.Remedy != c.rem {
			t.Errorf("%+v\nwant %v %q %q", v, c.ok, c.text, c.rem)
		}
		if v.OK == (len(v.Missing) > 0) || !v.OK && len(v.Records) > 0 {
			t.Errorf("%+v", v)
		}
		if c.r.Target == part && !slices.Equal(v.Degraded, []string{"of it", "watch: polling"}) {
			t.Errorf("degraded: %q", v.Degraded)
		}
	}
}

// A privilege for the target is the one to name: whoever gets it gets all.
func TestVerdictPrivilege(t *testing.T) {
	r := Report{Target: &Target{PID: 7, Problem: "refused", Remedy: "setcap both", privilege: true},
		Checks: []Check{{State: Missing, Found: "programs", Remedy: "setcap one"}}}
	if v := r.verdict(); v.Remedy != "setcap both" {
		t.Errorf("%q", v.Remedy)
	}
}

func TestPrivilegeChecks(t *testing.T) {
	find := func(p probe.Privileges, name string) Check {
		var r Report
		r.privileges(p)
		for _, c := range r.Checks {
			if c.Name == name {
				return c
			}
		}
		return Check{}
	}
	all := uint64(1<<41 - 1)
	nobody := probe.Privileges{UID: 1000, Bounding: all}
	own := nobody
	own.Effective = 1<<probe.CapBPF | 1<<probe.CapPerfmon
	root := probe.Privileges{Bounding: all, Effective: all}
	for _, c := range []struct {
		p     probe.Privileges
		name  string
		state State
		text  string
	}{
		{nobody, "capabilities", Missing, "setcap cap_bpf,cap_perfmon+ep"},
		{own, "capabilities", OK, "cap_bpf, cap_perfmon"},
		{own, "others' processes", Degraded, "no cap_sys_ptrace"},
		{own, "replaced files", Degraded, "cap_checkpoint_restore and cap_dac_read_search"},
		{own, "own priority", Degraded, "no cap_sys_nice"},
		{own, "setcap", Note, "cap_bpf,cap_perfmon,cap_sys_ptrace,cap_checkpoint_restore,cap_dac_read_search,cap_sys_nice+ep"},
		{root, "setcap", "", ""},
		{root, "others' processes", OK, ""},
		{root, "replaced files", OK, ""},
		{probe.Privileges{UID: 1000, Bounding: all, Seccomp: true, NoNewPrivs: true}, "sandbox", Note,
			"seccomp filter"},
	} {
		got := find(c.p, c.name)
		if got.State != c.state || !strings.Contains(got.Found+got.Means+got.Remedy, c.text) {
			t.Errorf("%s: %+v, want %s %q", c.name, got, c.state, c.text)
		}
	}
	for mode, want := range map[string]State{"": Note, "none": OK, "integrity": OK,
		"confidentiality": Degraded} {
		if c := lockdown(probe.Privileges{Lockdown: mode}); c.State != want {
			t.Errorf("lockdown %q: %+v", mode, c)
		}
	}
}

func TestClassHere(t *testing.T) {
	for _, c := range []struct {
		class, insn, arch string
		v                 probe.Version
		want              string
	}{
		{"nop5", "nopl 0x0(%rax,%rax,1)", "amd64", probe.Version{6, 18, 0}, "nop5"},
		{"nop5", "nopl 0x0(%rax,%rax,1)", "amd64", probe.Version{6, 17, 9}, "stepped"},
		{"emulated", "nop", "amd64", probe.Version{6, 1, 0}, "emulated"},
		{"emulated", "nopw 0x0(%rax)", "amd64", probe.Version{6, 1, 0}, "stepped"},
		{"emulated", "nop", "arm64", probe.Version{6, 12, 0}, "stepped"},
		{"emulated", "nop", "arm64", probe.Version{6, 13, 0}, "emulated"},
		{"emulated", "push %rbp", "amd64", probe.Version{5, 17, 0}, "emulated"},
		{"emulated", "nopw 0x0(%rax)", "amd64", probe.Version{}, "emulated"},
	} {
		if got := classHere(c.class, c.insn, c.arch, c.v); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// Where sources disagree, or a kernel steps a site, the report says so.
func TestJudge(t *testing.T) {
	tg := newTarget()
	tg.take(&engine.Plan{Engine: "llama.cpp", Arch: target.Arch(runtime.GOARCH),
		Files: []engine.File{{Path: "/l.so"}},
		Sites: []engine.Site{{Role: engine.RoleStepBegin, Insn: "nopl 0x0(%rax)", Class: target.ClassNop5,
			Batch: engine.BatchByValue},
			{Role: engine.RoleGraphBegin, Backend: "CPU"}, {Role: engine.RoleOpEnd}},
		Findings: []engine.Finding{{What: "tensor.ne", Value: "16", How: "a", Differ: "b says 24"}},
		Warnings: []engine.Warning{{Text: "w"}, {Text: "w"}}})
	tg.judge(probe.Version{5, 17, 0})
	if runtime.GOARCH == "amd64" && tg.Sites[0].Here != "stepped" {
		t.Errorf("%+v", tg.Sites[0])
	}
	if !slices.Equal(tg.Records, []string{"steps", "graphs"}) {
		t.Errorf("records %v: operators without a begin", tg.Records)
	}
	text := strings.Join(tg.Degraded, "\n")
	if !strings.Contains(text, "b says 24") || strings.Count(text, "w\n") > 1 {
		t.Error(text)
	}
}

func TestYields(t *testing.T) {
	l := &engine.Layout{BatchSeqID: engine.Absent, VecBegin: engine.Absent}
	s := &engine.Site{Role: engine.RoleStepBegin, Batch: engine.BatchByValue, Phase: "encode"}
	if got := yields(s, l); got != "a step: its context (encode), tokens, positions, outputs" {
		t.Error(got)
	}
	s.Batch = engine.BatchVector
	if got := yields(s, l); !strings.Contains(got, "not known") {
		t.Error(got)
	}
	for r := engine.RoleStepBegin; r <= engine.RoleOpEnd; r++ {
		if yields(&engine.Site{Role: r}, l) == "" {
			t.Errorf("%v yields nothing", r)
		}
	}
}

func TestCounterError(t *testing.T) {
	for err, want := range map[error]string{unix.ENOENT: "no hardware counters", unix.EACCES: "not permitted",
		unix.ENOSYS: "no perf events", unix.EINVAL: "invalid argument"} {
		if got := counterError(err); !strings.Contains(got, want) {
			t.Errorf("%v: %s", err, got)
		}
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("no ELF"), 0o644); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{dir: "is a directory", text: "not an ELF file",
		filepath.Join(dir, "none"): "no such file", "/dev/null": "not a regular file"} {
		if _, err := look(Options{Engine: ggml.New(), Files: []string{path}}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tg, err := look(Options{Engine: ggml.New(), Files: []string{self, self}})
	if err != nil || tg.Problem == "" || !slices.Contains(tg.Signs, "ggml_op_name") ||
		!slices.Equal(tg.Looked, []string{self}) {
		t.Errorf("a program without an engine: %+v, %v", tg, err)
	}
}

// A file that asks for too much is named, and what of it.
func TestFileLeftOut(t *testing.T) {
	for _, row := range crafted.Rows() {
		if row.Name != "chain" && row.Name != "headers" {
			continue
		}
		path := filepath.Join(t.TempDir(), row.Name+".so")
		if err := row.Write(path); err != nil {
			t.Fatal(err)
		}
		tg, err := look(Options{Engine: ggml.New(), Files: []string{path}})
		said := ""
		if err != nil {
			said = err.Error()
		} else {
			said = tg.Problem
		}
		if !strings.Contains(said, path+": it is not looked at any further: more than ") {
			t.Errorf("%s: %q", row.Name, said)
		}
	}
}

func TestPID(t *testing.T) {
	tg, err := look(Options{Engine: ggml.New(), PID: os.Getpid()})
	if err != nil || tg.Problem == "" || len(tg.Looked) == 0 {
		t.Errorf("%+v, %v", tg, err)
	}
	if _, err := look(Options{Engine: ggml.New(), PID: 1 << 30}); !errors.Is(err, target.ErrNoProcess) {
		t.Errorf("no such process: %v", err)
	}
}
