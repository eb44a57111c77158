// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/internal/format"
	"github.com/profinfer/profinfer/probe"
	"github.com/profinfer/profinfer/target"
)

// Target is the process or the files that were examined, and the engine in them.
type Target struct {
	PID           int      `json:"pid,omitempty"`
	Comm          string   `json:"comm,omitempty"`
	Command       []string `json:"command,omitempty"`
	Given         []string `json:"files_given,omitempty"`
	Engine        string   `json:"engine,omitempty"`
	EngineVersion string   `json:"engine_version,omitempty"`
	GGMLVersion   string   `json:"ggml_version,omitempty"`
	GGMLCommit    string   `json:"ggml_commit,omitempty"`
	Arch          string   `json:"arch,omitempty"`
	Parts         []Part   `json:"parts"`
	Sites         []Site   `json:"sites"`
	// Findings are the layouts, and how each was found.
	Findings []engine.Finding `json:"layouts"`
	Warnings []string         `json:"warnings"`
	Notes    []string         `json:"notes"`
	Records  []string         `json:"records"`
	Degraded []string         `json:"degraded"`
	// Problem is why there is no engine; empty if there is one.
	Problem string `json:"problem,omitempty"`
	Remedy  string `json:"remedy,omitempty"`
	// Looked are the files searched, and Signs the functions looked for, if no engine was found.
	Looked []string `json:"looked,omitempty"`
	Signs  []string `json:"looked_for,omitempty"`

	privilege bool // the remedy is a privilege, including those that any recording needs
}

// Part is a file of the engine.
type Part struct {
	Path    string `json:"path"`
	Role    string `json:"role"`
	BuildID string `json:"build_id,omitempty"`
}

// Site is one place that a recording probes.
type Site struct {
	File   string `json:"file"`
	Offset uint64 `json:"offset"` // in the file
	Where  string `json:"where"`
	Insn   string `json:"instruction"`
	Class  string `json:"class"` // nop5, emulated, stepped; on a current kernel
	// Here is the class on this kernel, if different.
	Here    string `json:"class_here,omitempty"`
	Role    string `json:"role"`
	Return  bool   `json:"return"`
	Level   string `json:"level"` // the lowest that probes it
	Yields  string `json:"yields"`
	Warning string `json:"warning,omitempty"`
}

// newTarget returns a target with empty lists instead of JSON's null.
func newTarget() *Target {
	return &Target{Parts: []Part{}, Sites: []Site{}, Findings: []engine.Finding{}, Warnings: []string{},
		Notes:   []string{},
		Records: []string{}, Degraded: []string{}}
}

// Name is the target's name in a sentence.
func (t *Target) Name() string {
	switch {
	case t.PID != 0:
		return fmt.Sprintf("%s (%d)", t.Comm, t.PID)
	case len(t.Given) == 1:
		return filepath.Base(t.Given[0])
	}
	return fmt.Sprintf("programs that use these %d files", len(t.Given))
}

// foreign reports whether files are for another architecture than this machine's.
func (t *Target) foreign() bool { return t.Arch != "" && t.Arch != runtime.GOARCH }

// look finds the engine.
func look(opt Options) (*Target, error) {
	switch {
	case opt.PID != 0:
		return lookPID(opt.Engine, opt.PID)
	case len(opt.Files) > 0:
		return lookFiles(opt.Engine, opt.Files)
	}
	return nil, nil
}

func lookPID(in Engine, pid int) (*Target, error) {
	st, err := target.ReadStat(pid)
	if err != nil {
		return nil, err
	}
	if st.Ended() {
		return nil, fmt.Errorf("process %d: it has ended: %w", pid, target.ErrNoProcess)
	}
	t := newTarget()
	t.PID, t.Comm = pid, st.Comm
	t.Command, _ = target.Cmdline(pid)
	plan, err := in.Plan(pid, nil)
	if errors.Is(err, target.ErrNoProcess) {
		return nil, err
	}
	if err != nil {
		t.fail(err)
		return t, nil
	}
	t.take(plan)
	// a library of one, or a file with everything in it, which does not show
	if slices.ContainsFunc(plan.Files, func(f engine.File) bool {
		return strings.Contains(f.Role, "backend:") || strings.Contains(f.Role, "base+cpu")
	}) {
		t.Notes = append(t.Notes, "Other backends than the CPU (GPUs, BLAS, RPC): their graph functions are found when the first graph runs, and probed then.")
	}
	return t, nil
}

func lookFiles(in Engine, paths []string) (*Target, error) {
	t := newTarget()
	t.Given = paths
	var opened []engine.OpenedFile
	all := target.NewBudget("all files", target.FileLimits.Times(uint64(min(len(paths), 8))), nil)
	type id struct{ dev, inode uint64 }
	seen := map[id]bool{}
	builds := map[string]bool{}
	var needed, has []string
	for _, path := range paths {
		st, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, reason(err))
		}
		if !st.Mode().IsRegular() {
			what := "not a regular file"
			if st.IsDir() {
				what = "a directory"
			}
			return nil, fmt.Errorf("%s is %s: give programs and libraries, such as libggml-base.so libggml-cpu.so libllama.so", path, what)
		}
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, reason(err))
		}
		defer f.Close()
		e, err := target.OpenELFWithin(f, path, all)
		if err != nil {
			return nil, err
		}
		if b := e.BuildID(); b != "" {
			if builds[b] {
				continue // a copy
			}
			builds[b] = true
		}
		of := engine.OpenedFile{ELF: e, File: engine.File{Path: path, BuildID: e.BuildID(), Open: path}}
		if s, ok := st.Sys().(*syscall.Stat_t); ok {
			of.Dev, of.Inode = uint64(s.Dev), s.Ino
			of.ID, _ = target.Identify(f)
			if seen[id{of.Dev, of.Inode}] {
				continue
			}
			seen[id{of.Dev, of.Inode}] = true
		}
		needed, has = append(needed, e.Needed()...), append(has, e.Soname(), filepath.Base(path))
		opened = append(opened, of)
	}
	plan, err := in.PlanFiles(opened)
	if err != nil {
		t.fail(err)
		t.besides(in, needed, has)
		return t, nil
	}
	t.take(plan)
	t.Notes = append(t.Notes, "A plan for these files alone: a process may load others as well. doctor -p PID looks at all it has.")
	return t, nil
}

// besides names an engine's libraries that the files need and that were not given.
func (t *Target) besides(in Engine, needed, has []string) {
	var more []string
	for _, n := range needed {
		if in.Owns(n) && !slices.Contains(has, n) && !slices.Contains(more, n) {
			more = append(more, n)
		}
	}
	if len(more) > 0 {
		t.Remedy = "the files need these: give them as well (ldd tells where they are): " +
			strings.Join(more, " ")
	}
}

func reason(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// fail describes why there is no plan.
func (t *Target) fail(err error) {
	var none *engine.NotFound
	var part *engine.Incomplete
	for _, l := range target.LimitErrors(err) {
		t.Warnings = append(t.Warnings, "a file is left out: "+l.Error())
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		t.Problem = firstLine(err.Error())
		p, _ := probe.ReadPrivileges()
		need := p.Lacks(probe.NeedOthers...)
		if len(need) == 0 { // then for its files
			need = p.Lacks(probe.NeedReplaced...)
		}
		t.Remedy = "it is protected, by a security module or a user namespace of its own: look at it from where it was started"
		if len(need) > 0 {
			t.Remedy, t.privilege = p.Grant(need...), true
		}
	case errors.As(err, &none) && len(none.LeftOut) > 0:
		t.Problem = "no engine was found; a file is left out: " + none.LeftOut[0].Error()
		t.Remedy = "a file that asks for so much is damaged or made up: if it is an engine's, report it"
		t.Looked, t.Signs = none.Looked, none.Signs
	case errors.As(err, &none) && t.PID != 0:
		t.Problem = fmt.Sprintf("no %s is in process %d", none.Engines, t.PID)
		t.Remedy = "an engine that is loaded later is found by record -p; one that is linked statically and stripped cannot be profiled"
		t.Looked, t.Signs = none.Looked, none.Signs
	case errors.As(err, &none):
		t.Problem = "no " + none.Engines + " is in " + format.Agree(len(t.Given), "this file", "these files")
		t.Remedy = "give the libraries as well where it loads them; one that is linked statically and stripped cannot be profiled"
		t.Looked, t.Signs = none.Looked, none.Signs
	case errors.As(err, &part) && t.PID == 0:
		t.Problem, t.Remedy = part.Files, part.Remedy
	default:
		t.Problem = err.Error()
	}
}

// take copies the contents of a plan.
func (t *Target) take(p *engine.Plan) {
	t.Engine, t.EngineVersion = p.Engine, p.EngineVersion
	t.GGMLVersion, t.GGMLCommit, t.Arch = p.LibraryVersion, p.LibraryCommit, string(p.Arch)
	t.Findings = append(t.Findings, p.Findings...)
	warn := func(text string) {
		if !slices.Contains(t.Warnings, text) {
			t.Warnings = append(t.Warnings, text)
		}
	}
	for _, w := range p.Warnings {
		warn(w.Text)
	}
	for _, f := range p.Files {
		t.Parts = append(t.Parts, Part{f.Path, f.Role, f.BuildID})
	}
	has := map[engine.Role]bool{}
	for _, s := range p.Sites {
		has[s.Role] = true
		if s.Warning != "" {
			warn(s.Dear())
		}
		t.Sites = append(t.Sites, Site{File: p.Files[s.File].Path, Offset: s.Offset, Where: s.Where,
			Insn:  s.Insn,
			Class: s.Class.String(), Role: s.Role.String(), Return: s.Return, Level: s.Role.Needs().String(),
			Yields: yields(&s, &p.Layout), Warning: s.Warning})
	}
	if has[engine.RoleStepBegin] || p.Engine != "llama.cpp" && has[engine.RoleSchedBegin] {
		t.Records = append(t.Records, "steps")
	}
	if has[engine.RoleGraphBegin] {
		t.Records = append(t.Records, "graphs")
	}
	if has[engine.RoleOpBegin] {
		t.Records = append(t.Records, "operators")
	}
}

// yields describes what a hit reports.
func yields(s *engine.Site, l *engine.Layout) string {
	switch s.Role {
	case engine.RoleStepBegin:
		return stepYields(s, l)
	case engine.RoleStepEnd:
		return "end of the step"
	case engine.RoleSchedBegin:
		return "begin of all of a step's graphs; the scheduler, to find other backends"
	case engine.RoleSchedEnd:
		return "end of all of a step's graphs"
	case engine.RoleGraphBegin:
		return first(s.Backend, "a backend") + "'s graph: its definition, its threads"
	case engine.RoleGraphEnd:
		return "end of the graph"
	case engine.RoleOpBegin:
		return "on each thread: which operator, number of the thread"
	case engine.RoleOpFused:
		return "on each thread: two operators run as one"
	case engine.RoleOpEnd:
		return "on each thread: the end of its work, waiting begins"
	}
	return ""
}

func stepYields(s *engine.Site, l *engine.Layout) string {
	text := "a step: its context"
	if s.Phase != "" {
		text += " (" + s.Phase + ")"
	}
	known := func(off ...uint16) bool { return !slices.Contains(off, engine.Absent) }
	switch {
	case s.Batch == engine.BatchNone:
		return text
	case s.Batch == engine.BatchVector && !known(l.VecBegin, l.VecEnd, l.VecStride):
		return text + "; of its batch nothing: the layout is not known"
	case s.Batch == engine.BatchVector:
		text += ", tokens"
		for _, x := range []struct {
			name string
			off  uint16
		}{{"sequences", l.VecSeqHead}, {"positions", l.VecPos}, {"outputs", l.VecOutput}} {
			if known(x.off) {
				text += ", " + x.name
			}
		}
		return text
	}
	for _, x := range []struct {
		name string
		off  uint16
	}{{"tokens", l.BatchNTokens}, {"sequences", l.BatchSeqID}, {"positions", l.BatchPos}, {"outputs",
		l.BatchLogits}} {
		if known(x.off) {
			text += ", " + x.name
		}
	}
	return text
}

// judge adds what this machine's kernel does with the plan.
func (t *Target) judge(v probe.Version) {
	for i := range t.Sites {
		s := &t.Sites[i]
		if t.foreign() {
			break
		}
		if c := classHere(s.Class, s.Insn, t.Arch, v); c != s.Class {
			s.Here = c
			t.Warnings = append(t.Warnings,
				fmt.Sprintf("%s at %s: this kernel steps %q, which newer ones emulate: each probe event is dear",
					s.Role, s.Where, s.Insn))
		}
	}
	for _, f := range t.Findings {
		if f.Differ != "" {
			t.Degraded = append(t.Degraded,
				fmt.Sprintf("%s is %s by %s, but %s", f.What, f.Value, f.How, f.Differ))
		}
	}
	t.Degraded = append(t.Degraded, t.Warnings...)
}

// classHere converts an instruction's class, which is that of a current kernel, to this one: older kernels
// step nops that newer ones emulate.
func classHere(class, insn, arch string, v probe.Version) string {
	op, _, _ := strings.Cut(insn, " ")
	switch {
	case !strings.HasPrefix(op, "nop") || v == (probe.Version{}):
	case arch == "arm64" && v.Less(armNop), arch == "amd64" && v.Less(nop5) && insn != "nop":
		return target.ClassStepped.String()
	}
	return class
}
