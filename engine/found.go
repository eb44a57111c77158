// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/profinfer/profinfer/target"
)

// OpenedFile is a file to examine. Its Role is determined; without an ID it is read anew each time.
type OpenedFile struct {
	File
	ELF *target.ELF
}

// NotFound reports that files contain no known engine.
type NotFound struct {
	Text    string   // of a process: "no llama.cpp or other program on ggml in this process"
	Engines string   // what was looked for: "llama.cpp or other program on ggml"
	Signs   []string // the functions by which it is recognised
	Looked  []string // files examined, as the process names them
	Refused []error  // why some of these could not be opened, for lack of a privilege
	LeftOut []error  // why some were not read to the end: *target.LimitError
}

// Unwrap lets errors.Is see the refusals.
func (e *NotFound) Unwrap() []error { return slices.Concat(e.Refused, e.LeftOut) }

func (e *NotFound) Error() string {
	if n := len(e.LeftOut); n > 0 && len(e.Refused) == 0 {
		more := ""
		if n > 1 {
			more = fmt.Sprintf(" (and %d more)", n-1)
		}
		return fmt.Sprintf("no engine was found in this process, but not all files that it has mapped were looked at to the end: %v%s", e.LeftOut[0], more)
	}
	if n := len(e.Refused); n > 0 {
		of := "the files"
		if n < len(e.Looked) {
			of = fmt.Sprintf("%d of the %d files", n, len(e.Looked))
		}
		return fmt.Sprintf("no engine was found in this process, but %s that it has mapped could not be opened: %v", of, e.Refused[0])
	}
	where := "no file that can be executed was found in it"
	if n := len(e.Looked); n > 0 {
		shown := e.Looked[:min(n, 12)]
		where = fmt.Sprintf("looked in %d files: %s", n, strings.Join(shown, ", "))
		if len(shown) < n {
			where += ", ..."
		}
	}
	return e.Text + ": none of the functions " + strings.Join(e.Signs, ", ") + " is in its files (" + where +
		"). " +
		"If the engine loads its libraries later, wait for it; if it is linked statically and stripped, it cannot be profiled"
}

// Incomplete reports that parts of an engine are present, but not yet the one without which nothing can be
// planned.
type Incomplete struct {
	Text   string // of a process: "ggml's base library is not loaded yet"
	Files  string // of files: "ggml's base library is not among the files"
	Remedy string // of files
}

func (e *Incomplete) Error() string { return e.Text }
