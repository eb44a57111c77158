// SPDX-License-Identifier: Apache-2.0

// Package doctor finds out whether profinfer can record on this machine, and what it finds in a process or in
// ELF files. It tests what can be tested: programs are loaded, a probe is attached and measured; versions and
// settings only explain the results.
package doctor

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/probe"
	"github.com/profinfer/profinfer/target"
)

// SchemaVersion of the report as JSON.
const SchemaVersion = 1

// State is the result of a check.
type State string

const (
	OK       State = "ok"
	Degraded State = "degraded" // something is not recorded, or costs more
	Missing  State = "missing"  // nothing can be recorded
	Note     State = "note"     // does not affect recording
)

// Check is one item that was checked.
type Check struct {
	Name   string `json:"name"`
	State  State  `json:"state"`
	Found  string `json:"found"`            // the finding
	Means  string `json:"means,omitempty"`  // its consequence for a recording
	Remedy string `json:"remedy,omitempty"` // how to fix it
}

// Machine is where the report was made.
type Machine struct {
	Kernel string `json:"kernel"`
	Arch   string `json:"arch"`
	CPUs   int    `json:"cpus"`
	UID    int    `json:"uid"`
	// ProbeCostNS is the cost of a hit at an emulated instruction in a loop; null: not measured.
	ProbeCostNS *int64 `json:"probe_cost_ns"`
}

// Verdict is the overall result.
type Verdict struct {
	OK      bool     `json:"ok"`
	Text    string   `json:"text"`
	Records []string `json:"records"` // of steps, graphs, operators, scheduling
	Missing []string `json:"missing"` // why not, with OK false
	// Degraded are the checks and warnings that limit it.
	Degraded []string `json:"degraded"`
	Remedy   string   `json:"remedy,omitempty"`
}

// Report is everything that was found out.
type Report struct {
	SchemaVersion int     `json:"schema_version"`
	Version       string  `json:"profinfer"`
	Verdict       Verdict `json:"verdict"`
	Machine       Machine `json:"machine"`
	Checks        []Check `json:"checks"`
	Target        *Target `json:"target,omitempty"`
	// VerifierLog is the kernel verifier's output for programs that it refused.
	VerifierLog string `json:"verifier_log,omitempty"`

	sched bool // scheduling events are available
}

// Engine finds the engines that can be recorded.
type Engine interface {
	// Plan and PlanFiles find an engine in what a process has mapped, and in files. The error is
	// *[engine.NotFound], *[engine.Incomplete], or a read error.
	Plan(pid int, unmapped []target.Mapping) (*engine.Plan, error)
	PlanFiles(files []engine.OpenedFile) (*engine.Plan, error)
	// Owns reports whether a library, by its name, probably belongs to an engine.
	Owns(soname string) bool
}

// Options select what to check besides the machine: at most one of PID and Files.
type Options struct {
	Engine  Engine
	Version string // of profinfer
	PID     int
	Files   []string
}

// Run makes the report. An error means that the process or a file does not exist or is not an ELF file; an
// engine that was not found is part of the report.
func Run(opt Options) (*Report, error) {
	r := &Report{SchemaVersion: SchemaVersion, Version: opt.Version}
	t, err := look(opt)
	if err != nil {
		return nil, err
	}
	r.Target = t
	r.machine()
	if t != nil {
		t.judge(r.Machine.version())
	}
	r.Verdict = r.verdict()
	return r, nil
}

func (r *Report) add(c Check) { r.Checks = append(r.Checks, c) }

func (r *Report) machine() {
	release, v := probe.Release()
	r.Machine = Machine{Kernel: release, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), UID: os.Geteuid()}
	p, err := probe.ReadPrivileges()
	if err != nil {
		r.add(Check{Name: "privileges", State: Degraded, Found: err.Error(),
			Means: "what is permitted is seen only by trying"})
	}
	r.add(architecture())
	r.add(namespaces(p))
	r.kernel(release, v)
	r.privileges(p)
	r.others(v)
}

func (m *Machine) version() probe.Version {
	v, _ := probe.ParseVersion(m.Kernel)
	return v
}

func architecture() Check {
	c := Check{Name: "architecture", State: OK, Found: runtime.GOARCH}
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		c.State, c.Means = Missing, "there are eBPF programs for amd64 and arm64 only"
		c.Remedy = "record on one of these; recordings can be read anywhere"
	}
	return c
}

// verdict summarizes the report. If several things are missing, the first is the one to start with.
func (r *Report) verdict() Verdict {
	v := Verdict{OK: true, Records: []string{"steps", "graphs", "operators"}, Missing: []string{},
		Degraded: []string{}}
	t := r.Target
	foreign := t != nil && t.foreign()
	if t != nil { // problems of the target come first
		v.Degraded = append(v.Degraded, t.Degraded...)
	}
	if !foreign {
		for _, c := range r.Checks {
			switch c.State {
			case Missing:
				v.Missing = append(v.Missing, first(c.Means, c.Found))
				v.Remedy = first(v.Remedy, c.Remedy)
			case Degraded:
				v.Degraded = append(v.Degraded, c.Name+": "+first(c.Means, c.Found))
			}
		}
	}
	what := "here"
	if t != nil {
		what = t.Name() + " here"
		if foreign {
			what = fmt.Sprintf("%s, on an %s machine (this one is %s)", t.Name(), t.Arch, runtime.GOARCH)
		}
		v.Records = t.Records
		if t.Problem != "" {
			v.Missing = append(v.Missing, t.Problem)
			if v.Remedy == "" || t.privilege {
				v.Remedy = t.Remedy
			}
		} else if len(t.Records) == 0 {
			v.Missing = append(v.Missing, "no site to probe was found in "+t.Name())
		}
	}
	if len(v.Missing) > 0 {
		v.OK, v.Records = false, []string{}
		v.Text = "profinfer cannot record " + what + ": " + v.Missing[0]
		return v
	}
	if r.sched && !foreign {
		v.Records = append(slices.Clip(v.Records), "scheduling")
	}
	v.Text = "profinfer can record " + what + ": " + strings.Join(v.Records, ", ")
	var not []string
	for _, w := range []string{"steps", "graphs", "operators", "scheduling"} {
		if !slices.Contains(v.Records, w) && !(foreign && w == "scheduling") {
			not = append(not, w)
		}
	}
	if len(not) > 0 {
		v.Text += "; but not " + strings.Join(not, ", ")
	}
	return v
}

func first(s ...string) string {
	for _, x := range s {
		if x != "" {
			return x
		}
	}
	return ""
}
