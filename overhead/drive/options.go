// SPDX-License-Identifier: Apache-2.0

// Package drive makes the spans that package overhead compares: it lets recorders take turns on a running
// engine. Each is a process of its own, as a user's would be, so that all that a recording costs is in the
// figure: its probes, its reader, what it writes.
package drive

import (
	"fmt"
	"time"

	"github.com/profinfer/profinfer/engine"
)

// State is something that can hold while the engine runs: a recording, or another program.
type State struct {
	Name string
	// Flags of `profinfer record`, without -p, -o, --duration.
	Flags []string
	// Level that they give: what the recording has to hold for its span to count.
	Level engine.Level
	// Counts is the role of a counter (see package pmu) that the flags ask for: a recording whose operators
	// mostly lack it does not count. Empty: none.
	Counts string
	// Faults and Experts say that the flags ask for page faults, or that the engine's model has experts of
	// which each token's have to be recorded: a recording without the process's account of memory, or most of
	// whose products with chosen experts lack the choice, does not count.
	Faults, Experts bool
	// Settle is left out after the probes were set: the engine's graphs are read and learned then. 0: 500 ms.
	Settle time.Duration
	// Span is the length of its spans if they have to be longer than others: a budget is kept over several
	// turns of recording and resting. 0: that of Options.
	Span time.Duration
	// Other runs a program that is not profinfer.
	Other *Other
}

// Other is a program that attaches to a process and goes on until it is interrupted.
type Other struct {
	// Argv makes its command line. An error leaves the state out.
	Argv func(pid int) ([]string, error)
	// Ready is how long it takes until it is attached.
	Ready time.Duration
	// Hits reads from its standard output how much it counted. A span without any does not count.
	Hits func(out []byte) (uint64, error)
}

// Levels returns the states of profinfer's own levels by name: step, graph, op.
func Levels(names []string) ([]State, error) {
	var out []State
	seen := make(map[string]bool)
	for _, n := range names {
		var l engine.Level
		switch n {
		case "step":
			l = engine.LevelStep
		case "graph":
			l = engine.LevelGraph
		case "op":
			l = engine.LevelOp
		default:
			return nil, fmt.Errorf("a level is step, graph or op, not %q", n)
		}
		if seen[n] {
			return nil, fmt.Errorf("the level %s is given twice", n)
		}
		seen[n] = true
		out = append(out, State{Name: n, Flags: []string{"--level", n}, Level: l})
	}
	return out, nil
}

// Options of a measurement.
type Options struct {
	Program string   // profinfer's executable
	PID     int      // of the engine; or
	Command []string // to launch. It is ended when all was measured
	States  []State
	Rounds  int           // spans of each state
	Span    time.Duration // at least
	// Progress is called a few times a second, if set.
	Progress func(Progress)
	// Warn gets messages for the person at the terminal.
	Warn func(string)
}

// Progress of a measurement.
type Progress struct {
	Waiting string // what is waited for before measuring begins; empty: measuring
	State   string // that holds now; empty: none
	Round   int    // from 1
	Rounds  int
	Left    time.Duration // estimate
}

// RecorderError says that a recorder could not do its work. Its text is the recorder's own.
type RecorderError struct {
	Status int
	Text   string
}

func (e *RecorderError) Error() string { return e.Text }

// Interrupted says that an interrupt came before anything could be compared.
type Interrupted struct{}

func (Interrupted) Error() string { return "interrupted before anything was measured" }
