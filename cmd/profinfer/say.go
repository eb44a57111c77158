// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"os"

	"golang.org/x/term"

	"github.com/profinfer/profinfer/internal/clean"
)

// All messages of profinfer go through say, and all results that are not drawn for a terminal through
// results. Names of processes, of files and in recordings are untrusted, and may contain terminal control
// sequences. A test checks that nothing else writes.

// say writes one or more lines to standard error.
func say(format string, a ...any) {
	fmt.Fprintln(os.Stderr, clean.Message(fmt.Sprintf(format, a...)))
}

func warn(format string, a ...any) { say("profinfer: warning: "+format, a...) }

// sayInPlace writes a line that the next one replaces, on a terminal.
func sayInPlace(format string, a ...any) {
	fmt.Fprint(os.Stderr, "\r\x1b[K", clean.Message(fmt.Sprintf(format, a...)))
}

// inPlace records whether there is a line that the next one replaces.
type inPlace struct{ shown bool }

func (l *inPlace) clear() {
	if l.shown {
		sayInPlace("")
		l.shown = false
	}
}

// results returns a writer to out, which is standard output. Data in its own format is unchanged for files
// and programs, and made safe for a terminal; what is drawn for a terminal is safe already.
func results(out *os.File, data bool) *bufio.Writer {
	if data && term.IsTerminal(int(out.Fd())) {
		return bufio.NewWriter(clean.Writer(out))
	}
	return bufio.NewWriterSize(out, 1<<16)
}
