// SPDX-License-Identifier: Apache-2.0

// Package record runs a recording: it finds the engine in the given processes, probes them, drains the
// events, writes the trace, and counts what was not seen.
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

// Engine makes plans for processes. Package engine/ggml provides one.
type Engine interface {
	// Plan finds the engine in what the process has mapped now and returns how to probe it. If there is none,
	// the error says what was searched for. unmapped is what it mapped recently, and may map again if it is
	// no longer mapped.
	Plan(pid int, unmapped []target.Mapping) (*engine.Plan, error)
	// Dull reports whether the file of a mapping is already known not to belong to an engine.
	Dull(pid int, m target.Mapping) bool
	// Backends returns what else is to be probed once the address of a graph scheduler is known: the graph
	// functions of backends that have no symbol. The returned sites refer to the returned files.
	Backends(pid int, p *engine.Plan, sched uint64) ([]engine.File, []engine.Site, error)
}

// Options are the options of a recording.
type Options struct {
	Output string
	// Force replaces an existing file of that name even if it is not a trace.
	Force   bool
	Command []string // to launch; its end ends the recording
	PIDs    []int    // to attach to, before the command is launched
	Level   engine.Level
	Sched   bool
	// Duration ends the recording; 0: the end of the processes or of the context does.
	Duration  time.Duration
	RingBytes int // per CPU; 0: see probe.Config
	// SwitchSize starts a new file when the current one has this many bytes; 0: never. Old files are kept
	// (Output.1 is the latest) up to a total of SwitchFiles; 0: all.
	SwitchSize  int64
	SwitchFiles int
	Steps       int // ends the recording after this many; 0: no limit
	// TwoHits records the begin of every operator besides its end, even where the end would suffice.
	TwoHits bool
	// Budget is the fraction of the time in steps that recording operators may cost (0.01: 1 %): they are
	// recorded in sampling windows spread over the run. 0: no limit.
	Budget float64
	// MinTPS removes the operators' probes while decode is slower than this many tokens per second of one
	// sequence. 0: no limit.
	MinTPS float64
	// Filters; empty: everything. Ops are operators as the engine names them (MUL_MAT), Phases are "prefill",
	// "decode", "encode", "unknown".
	Ops, Phases []string
	TIDs        []int
	// Events to count, in the format of -e, and a preset that stands for a group of them. Both are read at
	// operators' hits, of which there are then two per operator and thread.
	Events   string
	Question pmu.Question
	// Faults records page faults of the engine's threads, and how much of its files is in memory.
	Faults probe.Faults
	Tool   string // profinfer's version, for the trace
	// Peaks are this machine's peaks, as written by package peaks. They are kept in the trace for comparison
	// on other machines. Empty: unknown.
	Peaks []byte
	// Experts records which experts tokens are routed to: see docs/experts.md.
	Experts bool
	// KeepSecrets writes command lines unchanged: otherwise the values of keys, tokens and passwords are
	// removed.
	KeepSecrets bool
	// Progress, if set, is called after each drain.
	Progress func(Progress)
	// Warn receives messages for the person at the terminal, without a newline.
	Warn func(string)
}

// Defaults are the default options of a recording: every caller starts from them, so that all recordings have
// the same contents.
func Defaults() Options {
	return Options{Output: "run.pinf", Level: engine.LevelOp, Sched: true, Experts: true}
}

// Progress is the progress of a recording.
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

// Result is the result of a recording that ended normally.
type Result struct {
	Progress
	// Status is the command's exit status, -1 if there was none or it still runs.
	Status int
	Reason string
	// Recorded: at least one event was written.
	Recorded    bool
	Interrupted bool
	Failed      bool // the recording was aborted
	Holds       Holds
}

// NoEngine reports that none of the processes has a known engine.
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

// Unwrap lets errors.As see the reasons.
func (e *NoEngine) Unwrap() []error {
	var errs []error
	for _, l := range e.Looked {
		errs = append(errs, l.Err)
	}
	return errs
}

// ErrNothing means that an engine was found and probed, but did nothing.
var ErrNothing = errors.New("the engine computed nothing while it was watched")
