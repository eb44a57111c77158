// SPDX-License-Identifier: Apache-2.0

// Package beside writes in a goroutine of its own, so that whoever makes the data does not wait for what is
// done with it: compression, a pipe, a disk.
package beside

import (
	"io"
	"sync/atomic"
)

// ahead is how many buffers may wait to be written.
const ahead = 2

// Writer hands buffers to a goroutine that writes them, in order. Close must be called, after errors too: it
// ends the goroutine.
type Writer struct {
	full   chan []byte
	spare  chan []byte
	ended  chan struct{}
	failed atomic.Bool
	err    error // of the goroutine, until it has ended
	size   int
}

// New returns a writer to w with buffers of about size bytes.
func New(w io.Writer, size int) *Writer {
	b := &Writer{full: make(chan []byte, ahead), spare: make(chan []byte, ahead+1),
		ended: make(chan struct{}), size: size}
	go b.run(w)
	return b
}

func (w *Writer) run(to io.Writer) {
	defer close(w.ended)
	for b := range w.full {
		if w.err == nil {
			var n int
			if n, w.err = to.Write(b); w.err == nil && n < len(b) {
				w.err = io.ErrShortWrite
			}
			w.failed.Store(w.err != nil)
		}
		if cap(b) > 4*w.size {
			continue
		}
		select {
		case w.spare <- b[:0]:
		default:
		}
	}
}

// Full reports whether a buffer is large enough to be handed over.
func (w *Writer) Full(b []byte) bool { return len(b) >= w.size }

// Pass takes a buffer to write, and returns an empty one to fill next. It returns false once a write has
// failed: Close then says why.
func (w *Writer) Pass(b []byte) ([]byte, bool) {
	if w.failed.Load() {
		return b[:0], false
	}
	if len(b) > 0 {
		w.full <- b
	}
	select {
	case b = <-w.spare:
	default:
		b = make([]byte, 0, w.size+w.size/4) // the last thing that is appended goes beyond size
	}
	return b, true
}

// Close waits until everything is written, and returns the first error of the writes.
func (w *Writer) Close() error {
	close(w.full)
	<-w.ended
	return w.err
}
