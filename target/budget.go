// SPDX-License-Identifier: Apache-2.0

package target

import (
	"fmt"
	"sync/atomic"
)

// Anyone can map a file that would take hours and gigabytes to analyse. The cost of reading files is
// therefore bounded: per file, per process and per recording. Budgets are counted, not timed, so that results
// do not depend on how busy the machine is.

// Limits bounds what may be spent.
type Limits struct {
	Bytes uint64 // read from files
	// Steps of work: one is about the cost of decoding an instruction. More expensive items (a symbol, an
	// entry of the unwind information) count as several.
	Steps uint64
}

// FileLimits is the limit for one file. The largest of the engine libraries tested here needs 4 % of it.
var FileLimits = Limits{Bytes: 256 << 20, Steps: 24 << 20}

// Times multiplies limits.
func (l Limits) Times(n uint64) Limits { return Limits{l.Bytes * n, l.Steps * n} }

// Bounds on single tables of a file, most of which are kept in memory: at least ten times what the largest
// engine has.
const (
	// program headers: the kernel does not load a file with more than 64 KiB of them
	maxProgram   = 64 << 10 / 56
	maxSections  = 1 << 16
	maxTable     = 16 << 20 // bytes of a table that is read in one go
	maxSymbols   = 192 << 10
	maxStrings   = 24 << 20 // bytes of symbol names
	maxRelocs    = 256 << 10
	maxFunctions = 192 << 10
	maxCalls     = 768 << 10
)

// Budget counts what was spent on files, for itself and for its parent budget. It is safe for concurrent use.
type Budget struct {
	scope        string
	max          Limits
	up           *Budget
	bytes, steps atomic.Uint64
}

// NewBudget makes a budget below a parent (nil: none). Messages call it by scope: "a process".
func NewBudget(scope string, max Limits, of *Budget) *Budget {
	return &Budget{scope: scope, max: max, up: of}
}

// Spent returns what was spent so far.
func (b *Budget) Spent() Limits { return Limits{b.bytes.Load(), b.steps.Load()} }

// Spend takes from the budget for work on something other than a file, described by name. The error is a
// *[LimitError].
func (b *Budget) Spend(name string, l Limits) error {
	if over := b.spend(l); over != nil {
		over.File = name
		return over
	}
	return nil
}

// spend takes from the budget and its parents, and returns the one that is used up, if any.
func (b *Budget) spend(l Limits) (over *LimitError) {
	for ; b != nil; b = b.up {
		n, k := b.bytes.Add(l.Bytes), b.steps.Add(l.Steps)
		switch {
		case over != nil: // report the smallest
		case n > b.max.Bytes:
			over = &LimitError{Scope: b.scope, What: "bytes to read", Limit: b.max.Bytes,
				Shared: b.scope != scopeFile}
		case k > b.max.Steps:
			over = &LimitError{Scope: b.scope, What: "steps of work", Limit: b.max.Steps,
				Shared: b.scope != scopeFile}
		}
	}
	return over
}

const scopeFile = "a file"

// LimitError reports that a file was abandoned because reading it would cost too much.
type LimitError struct {
	File  string
	What  string // what there is too much of
	Limit uint64
	Scope string // whose limit it is: "a file", "a process"
	// Shared: several files share the limit, so it says nothing about this one.
	Shared bool
}

// LimitErrors returns all limit errors of an error, which may join several.
func LimitErrors(err error) (out []*LimitError) {
	switch e := err.(type) {
	case nil:
	case *LimitError:
		out = append(out, e)
	case interface{ Unwrap() error }:
		out = LimitErrors(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, x := range e.Unwrap() {
			out = append(out, LimitErrors(x)...)
		}
	}
	return out
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("%s: it is not looked at any further: more than %d %s (limit of %s)", e.File, e.Limit,
		e.What, e.Scope)
}
