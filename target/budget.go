// SPDX-License-Identifier: Apache-2.0

package target

import (
	"fmt"
	"sync/atomic"
)

// Anybody can map a file that asks whoever reads it for hours and gigabytes. So what looking at files may
// cost is bounded: for each file, for all files of a process, for all of a recording. Budgets are counted,
// not timed: what is found does not depend on how busy the machine is.

// Limits are what may be spent.
type Limits struct {
	Bytes uint64 // read of files
	// Steps of work: one is about as much as to decode an instruction. What is dearer (a symbol, an entry of
	// the unwind information) counts as several.
	Steps uint64
}

// FileLimits are one file's. Of the engines' libraries that are tested here the largest needs 4 % of them.
var FileLimits = Limits{Bytes: 256 << 20, Steps: 24 << 20}

// Times multiplies limits.
func (l Limits) Times(n uint64) Limits { return Limits{l.Bytes * n, l.Steps * n} }

// Bounds on single tables of a file, most of which are kept in memory: ten times and more what the largest
// engine has.
const (
	// program headers: the kernel loads no file that has more than 64 KiB of them
	maxProgram   = 64 << 10 / 56
	maxSections  = 1 << 16
	maxTable     = 16 << 20 // bytes of a table that is read at once
	maxSymbols   = 192 << 10
	maxStrings   = 24 << 20 // bytes of symbols' names
	maxRelocs    = 256 << 10
	maxFunctions = 192 << 10
	maxCalls     = 768 << 10
)

// Budget counts what was spent on files, on its own and on behalf of a larger budget. It can be used by
// several goroutines at once.
type Budget struct {
	scope        string
	max          Limits
	up           *Budget
	bytes, steps atomic.Uint64
}

// NewBudget makes a budget of which it is a part (nil: of none). scope names it in messages: "a process".
func NewBudget(scope string, max Limits, of *Budget) *Budget {
	return &Budget{scope: scope, max: max, up: of}
}

// Spent is what was spent so far.
func (b *Budget) Spent() Limits { return Limits{b.bytes.Load(), b.steps.Load()} }

// Spend takes from the budget for work on something that is no file, which name tells. The error is a
// *[LimitError].
func (b *Budget) Spend(name string, l Limits) error {
	if over := b.spend(l); over != nil {
		over.File = name
		return over
	}
	return nil
}

// spend takes from the budget and from those that it is a part of, and says which is used up, if one is.
func (b *Budget) spend(l Limits) (over *LimitError) {
	for ; b != nil; b = b.up {
		n, k := b.bytes.Add(l.Bytes), b.steps.Add(l.Steps)
		switch {
		case over != nil: // told of the smallest
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

// LimitError says that looking at a file was given up, as it would cost too much.
type LimitError struct {
	File  string
	What  string // of what there is too much
	Limit uint64
	Scope string // whose limit it is: "a file", "a process"
	// Shared: the limit is one of several files together, and says nothing of this one.
	Shared bool
}

// LimitErrors are all of an error's, which may join several.
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
