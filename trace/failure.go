// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"
)

// WriteError reports that a recording could not be written to its end.
type WriteError struct {
	Path string // of the trace
	// Kept is how much of the recording, from its start, is in the file; negative: nothing.
	Kept time.Duration
	Err  error
}

func (e *WriteError) Error() string {
	err := e.Err
	var pe *fs.PathError
	if errors.As(err, &pe) { // it repeats the file's name
		err = pe.Err
	}
	if e.Kept < 0 {
		return fmt.Sprintf("writing %s: %v; nothing was recorded", e.Path, err)
	}
	return fmt.Sprintf("writing %s: %v; what was recorded until %.1f s is kept", e.Path, err,
		e.Kept.Seconds())
}

func (e *WriteError) Unwrap() error { return e.Err }

// fail notes the first error. n bytes of a block were written: they are removed.
func (w *Writer) fail(n int, err error) error {
	e := &WriteError{Path: w.name, Kept: -1, Err: err}
	if w.kept != noTime && w.start != noTime {
		e.Kept = time.Duration(max(0, w.kept-w.start))
	}
	w.err = e
	if n > 0 {
		w.broken = !w.cut()
	}
	return e
}

// cut removes everything after the last complete block.
func (w *Writer) cut() bool {
	if w.f == nil || w.f.Truncate(w.pos) != nil {
		return false
	}
	_, err := w.f.Seek(w.pos, io.SeekStart)
	return err == nil
}

// epilogue tries, after a failed write, to note in the file itself that its end is missing, and why: a few
// bytes often still fit where a block did not.
func (w *Writer) epilogue(e End) {
	if w.f == nil || w.broken || w.pos == 0 {
		return
	}
	failed := w.err
	w.err = nil
	var we *WriteError
	if errors.As(failed, &we) {
		e.Reason = fmt.Sprintf("%s (%v)", e.Reason, we)
	}
	from := max(w.kept, w.start)
	if from == noTime {
		from = e.Time
	}
	if w.json(TypeLoss, Loss{Start: min(from, e.Time), End: e.Time, Why: WhyLost, What: LostAll, CPU: -1}, 1,
		from, e.Time) == nil {
		w.json(TypeEnd, e, 1, e.Time, e.Time)
	}
	w.err = failed
}
