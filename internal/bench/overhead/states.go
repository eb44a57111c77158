// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/overhead/drive"
	"github.com/profinfer/profinfer/target"
)

// named is a state with the word that chooses it.
type named struct {
	key string
	drive.State
}

// table of the states, in the order of the printed one. A way to record is a line.
var table = []named{
	{"graph", record("graph", engine.LevelGraph, "--level", "graph")},
	{"op", record("op", engine.LevelOp, "--level", "op")},
	{"budget", long(12*time.Second,
		record("op --overhead-budget 0.5%", engine.LevelOp, "--level", "op", "--overhead-budget", "0.5%"))},
	{"two-hits", record("op --two-hits", engine.LevelOp, "--level", "op", "--two-hits")},
	{"counters-software", withCounter("task-clock",
		record("op --counters software", engine.LevelOp, "--counters", "software"))},
	{"counters", withCounter("cycles", record("op --counters auto", engine.LevelOp, "--counters", "auto"))},
	{"no-experts", record("op --experts=false", engine.LevelOp, "--level", "op", "--experts=false")},
	{"faults", withFaults(record("op --faults", engine.LevelOp, "--faults"))},
	{"all", withCounter("task-clock",
		withFaults(record("op, software counters, faults", engine.LevelOp, "--counters", "software",
			"--faults")))},
	{"all-counters", withCounter("cycles",
		withFaults(record("op, CPU counters, faults", engine.LevelOp, "--counters", "auto", "--faults")))},
	{"bpftrace", drive.State{Name: "bpftrace, two entries",
		Other: &drive.Other{Argv: bpftrace, Ready: 2 * time.Second, Hits: hits}}},
}

// usual are the states that are measured if none are named: those of the tables of docs/overhead.md.
const usual = "graph,op,budget,two-hits,counters-software,counters,no-experts,bpftrace"

func record(name string, l engine.Level, flags ...string) drive.State {
	return drive.State{Name: name, Level: l, Flags: flags}
}

// withCounter says which counter the operators of a state's recordings have to have.
func withCounter(role string, s drive.State) drive.State {
	s.Counts = role
	return s
}

// withFaults says that a state's recordings have to tell of page faults.
func withFaults(s drive.State) drive.State {
	s.Faults = true
	return s
}

// withExperts says that they have to tell of experts, except where that is what is left out.
func withExperts(states []drive.State) []drive.State {
	out := slices.Clone(states)
	for i := range out {
		out[i].Experts = out[i].Level == engine.LevelOp && !slices.Contains(out[i].Flags, "--experts=false")
	}
	return out
}

// long gives a state longer spans: a budget is kept over several turns of recording and resting.
func long(d time.Duration, s drive.State) drive.State {
	s.Span = d
	return s
}

func stateNames() string {
	var keys []string
	for _, s := range table {
		keys = append(keys, s.key)
	}
	return strings.Join(keys, ",")
}

// bpftrace probes the two functions that a person would: where an operator's computation is entered, and the
// barrier after it.
func bpftrace(pid int) ([]string, error) {
	path, err := exec.LookPath("bpftrace")
	if err != nil {
		return nil, fmt.Errorf("bpftrace is not installed")
	}
	lib := cpuLibrary(pid)
	if lib == "" {
		return nil, fmt.Errorf("the engine's CPU library was not found")
	}
	return []string{path, "-p", strconv.Itoa(pid), "-e", fmt.Sprintf(
		"uprobe:%s:ggml_cpu_extra_compute_forward { @a = count(); } uprobe:%s:ggml_barrier { @b = count(); }",
		lib, lib)}, nil
}

var counted = regexp.MustCompile(`(?m)^@[ab]: (\d+)$`)

// hits adds up bpftrace's two counts. Both have to be there.
func hits(out []byte) (sum uint64, err error) {
	m := counted.FindAllSubmatch(out, -1)
	if len(m) != 2 {
		return 0, fmt.Errorf("bpftrace counted only %d of two functions", len(m))
	}
	for _, v := range m {
		n, err := strconv.ParseUint(string(v[1]), 10, 64)
		if err != nil || n == 0 {
			return 0, fmt.Errorf("bpftrace counted %s", v[1])
		}
		sum += n
	}
	return sum, nil
}

// cpuLibrary is the path, from here, of the CPU library that a process has loaded; empty if it has none.
func cpuLibrary(pid int) string {
	maps, err := target.Maps(pid)
	if err != nil {
		return ""
	}
	root, _ := os.Readlink(fmt.Sprintf("/proc/%d/root", pid))
	for _, m := range target.ExecutableFiles(maps) {
		if strings.Contains(m.Path, "libggml-cpu") {
			return fmt.Sprintf("/proc/%d/root%s", pid,
				strings.TrimPrefix(m.Path, strings.TrimSuffix(root, "/")))
		}
	}
	return ""
}
