// SPDX-License-Identifier: Apache-2.0

// Package record runs a recording: it finds the engine in the processes it is given, has
// them probed, drains the events and writes the trace, and counts what was not seen.
package record

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/pmu"
	"github.com/profinfer/profinfer/probe"
	"github.com/profinfer/profinfer/target"
)

// Engine makes plans for processes. Package engine/ggml has one.
type Engine interface {
	// Plan finds the engine in what the process has mapped now and says how to probe it. The
	// error says what was looked for where there is none.
	Plan(pid int) (*engine.Plan, error)
	// Dull tells that the file of a mapping was looked at before and has nothing of an engine.
	Dull(pid int, m target.Mapping) bool
	// Backends returns what else is to be probed once the address of a graph scheduler is
	// known: the graph functions of backends that no symbol names. The returned sites refer to
	// the returned files.
	Backends(pid int, p *engine.Plan, sched uint64) ([]engine.File, []engine.Site, error)
}

// Options of a recording.
type Options struct {
	Output string
	// Force replaces an older file of that name also where it is no trace.
	Force   bool
	Command []string // to launch; it ends the recording
	PIDs    []int    // to attach to, before the command is launched
	Level   engine.Level
	Sched   bool
	// Duration ends the recording; 0: it ends with the processes or by the context.
	Duration  time.Duration
	RingBytes int // of one CPU; 0: see probe.Config
	// SwitchSize begins a new file when the present one has so many bytes; 0: never. Of the older ones
	// (Output.1 is the latest) so many are kept that there are SwitchFiles in all; 0: all.
	SwitchSize  int64
	SwitchFiles int
	Steps       int // ends the recording after so many; 0: no limit
	// TwoHits records the begin of every operator besides its end, also where the end would be enough.
	TwoHits bool
	// Budget is the part of the time in steps that recording operators may take (0.01: 1 %): they are
	// recorded in spans spread over the run. 0: no limit.
	Budget float64
	// MinTPS takes the operators' probes away while decode is slower than so many tokens a second
	// of one sequence. 0: no limit.
	MinTPS float64
	// Filters, empty: everything. Ops are operators as the engine describes them (MUL_MAT), Phases
	// "prefill", "decode", "encode", "unknown".
	Ops, Phases []string
	TIDs        []int
	// Events to count, as -e takes them, and a question that stands for a group of them. Both are read at
	// operators' hits, which then are two an operator and thread.
	Events   string
	Question pmu.Question
	// Faults records page faults of the engine's threads, and what of its files is in memory.
	Faults probe.Faults
	Tool   string // profinfer's version, for the trace
	// Peaks of this machine, as package peaks writes them, are kept in the trace: whoever reads it elsewhere
	// compares with them. Empty: none are known.
	Peaks []byte
	// Experts records which experts tokens choose: see docs/experts.md.
	Experts bool
	// KeepSecrets writes command lines down as they are: else the values of keys, tokens and passwords are
	// left out.
	KeepSecrets bool
	// Progress is called after each drain, if set.
	Progress func(Progress)
	// Warn gets messages for the person at the terminal, without a newline.
	Warn func(string)
}

// Defaults are the options of a recording of which nothing else is said: every caller begins with them, so
// that all recordings hold the same.
func Defaults() Options {
	return Options{Output: "run.pinf", Level: engine.LevelOp, Sched: true, Experts: true}
}

// Progress of a recording.
type Progress struct {
	Elapsed time.Duration
	Steps   int
	Hits    uint64
	Lost    uint64
	// Missed are processes with an engine that were not recorded, or not from their begin.
	Missed int
	Bytes  int64
	// Waiting: no engine was found yet.
	Waiting bool
	Engines []string // "llama-bench (1234): llama.cpp 0.7.0"
}

// Result of a recording that was ended in good order.
type Result struct {
	Progress
	// Status of the command, -1 if there was none or it still runs.
	Status int
	Reason string
	// Recorded: at least one event was written.
	Recorded    bool
	Interrupted bool
	Failed      bool // the recording broke off
	Holds       Holds
}

// NoEngine says that none of the processes has an engine that profinfer knows.
type NoEngine struct {
	Looked []Looked
	Status int // of the command, -1 if there was none
}

// Looked is a process that was searched.
type Looked struct {
	PID  int
	Comm string
	Err  error
}

func (e *NoEngine) Error() string {
	var b strings.Builder
	b.WriteString("no inference engine found: nothing was recorded")
	for i, l := range e.Looked {
		if i == 8 {
			fmt.Fprintf(&b, "\n  and %d more processes", len(e.Looked)-i)
			break
		}
		fmt.Fprintf(&b, "\n  %s (%d): ", l.Comm, l.PID)
		b.WriteString(strings.ReplaceAll(l.Err.Error(), "\n", "\n    "))
	}
	return b.String()
}

// Unwrap gives errors.As the reasons.
func (e *NoEngine) Unwrap() []error {
	var errs []error
	for _, l := range e.Looked {
		errs = append(errs, l.Err)
	}
	return errs
}

// ErrNothing says that an engine was found and probed, and did nothing.
var ErrNothing = errors.New("the engine computed nothing while it was watched")
