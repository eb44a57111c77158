// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/profinfer/profinfer/trace"
)

// How long reading takes before its progress is shown, and between two looks at it.
var progressAfter, progressEvery = 2 * time.Second, 250 * time.Millisecond

// showProgress shows on a terminal how much of a recording has been read, on a line of its own. The function
// that it returns removes the line and must be called before anything else is written; it can be called again.
func showProgress(r *trace.Reader) (stop func()) {
	if !term.IsTerminal(int(os.Stderr.Fd())) || os.Getenv("TERM") == "dumb" {
		return func() {}
	}
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		var line inPlace
		defer line.clear()
		for wait := progressAfter; ; wait = progressEvery {
			select {
			case <-quit:
				return
			case <-time.After(wait):
			}
			if read, of := r.Progress(); of > 0 {
				line.shown = true
				sayInPlace("reading %d %%", min(100, 100*read/of))
			}
		}
	}()
	return sync.OnceFunc(func() { close(quit); <-ended })
}

// endsInTerminal reports whether what is written to standard output can reach a terminal while a recording is
// being read: at once, or by a program such as less.
func endsInTerminal() bool {
	st, err := os.Stdout.Stat()
	return err != nil || !st.Mode().IsRegular()
}
