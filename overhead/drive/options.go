// SPDX-License-Identifier: Apache-2.0

// Package drive makes the spans that package overhead compares: it runs recorders in turn on a running
// engine. Each is a separate process, as a user's would be, so that the result includes the complete cost of
// a recording: its probes, its consumer, what it writes.
package drive

import (
	"fmt"
	"time"

	"github.com/profinfer/profinfer/engine"
)

// State is something that can be active while the engine runs: a recording, or another program.
type State struct {
	Name string
	// Flags of `profinfer record`, without -p, -o, --duration.
	Flags []string
	// Level is the level of the flags: what the recording must contain for its span to count.
	Level engine.Level
	// Counts is the role of a counter (see package pmu) requested by the flags: a recording in which most
	// operators lack it does not count. Empty: none.
	Counts string
	// Faults and Experts: the flags request page faults, or the engine's model has experts whose choice per
	// token must be recorded. A recording without the process's memory account, or without the choice for
	// most matmuls with chosen experts, does not count.
	Faults, Experts bool
	// Settle is the time left out after the probes were attached, in which the engine's graphs are read and
	// learned. 0: 500 ms.
	Settle time.Duration
	// Span is the length of its spans if they must be longer than others: a budget is kept over several
	// cycles of recording and pausing. 0: that of Options.
	Span time.Duration
	// Other runs a program that is not profinfer.
	Other *Other
}

// Other is a program that attaches to a process and runs until it is interrupted.
type Other struct {
	// Argv returns its command line. An error excludes the state.
	Argv func(pid int) ([]string, error)
	// Ready is how long it takes until it is attached.
	Ready time.Duration
	// Hits reads from its standard output how much it counted. A span without hits does not count.
	Hits func(out []byte) (uint64, error)
}

// Levels returns the states for profinfer's own levels by name: step, graph, op.
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

// Options are the options of a measurement.
type Options struct {
	Program string   // profinfer's executable
	PID     int      // of the engine; or
	Command []string // to launch; it is ended after the measurement
	States  []State
	Rounds  int           // number of spans per state
	Span    time.Duration // minimum
	// Progress, if set, is called a few times per second.
	Progress func(Progress)
	// Warn receives messages for the person at the terminal.
	Warn func(string)
}

// Progress is the progress of a measurement.
type Progress struct {
	Waiting string // what is waited for before measuring; empty: measuring
	State   string // the active one; empty: none
	Round   int    // from 1
	Rounds  int
	Left    time.Duration // estimate
}

// RecorderError reports that a recorder failed. Its text is the recorder's own.
type RecorderError struct {
	Status int
	Text   string
}

func (e *RecorderError) Error() string { return e.Text }

// Interrupted reports an interrupt before anything could be compared.
type Interrupted struct{}

func (Interrupted) Error() string { return "interrupted before anything was measured" }
