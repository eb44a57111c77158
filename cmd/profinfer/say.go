// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"os"

	"github.com/profinfer/profinfer/internal/clean"
	"golang.org/x/term"
)

// All that profinfer says beside its results goes through say, all results that are not drawn for a terminal
// through results: names of processes, of files and in recordings are other people's, and may hold what a
// terminal obeys. A test looks that nothing else writes.

// say writes a line, or several, to standard error.
func say(format string, a ...any) {
	fmt.Fprintln(os.Stderr, clean.Message(fmt.Sprintf(format, a...)))
}

func warn(format string, a ...any) { say("profinfer: warning: "+format, a...) }

// sayInPlace writes a line that the next one replaces, on a terminal.
func sayInPlace(format string, a ...any) {
	fmt.Fprint(os.Stderr, "\r\x1b[K", clean.Message(fmt.Sprintf(format, a...)))
}

// inPlace is whether a line stands there that the next one replaces.
type inPlace struct{ shown bool }

func (l *inPlace) clear() {
	if l.shown {
		sayInPlace("")
		l.shown = false
	}
}

// results writes to out, which is standard output. Data in a format of its own is left as it is for files and
// programs, and made safe for a terminal; what is drawn for a terminal is safe already.
func results(out *os.File, data bool) *bufio.Writer {
	if data && term.IsTerminal(int(out.Fd())) {
		return bufio.NewWriter(clean.Writer(out))
	}
	return bufio.NewWriterSize(out, 1<<16)
}
