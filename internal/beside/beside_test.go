// SPDX-License-Identifier: Apache-2.0

package beside

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// slow takes its time with every third buffer, so that buffers wait at times and are waited for at others.
type slow struct {
	bytes.Buffer
	n int
}

func (s *slow) Write(b []byte) (int, error) {
	if s.n++; s.n%3 == 0 {
		time.Sleep(time.Millisecond)
	}
	return s.Buffer.Write(b)
}

// What is passed arrives complete and in order, in buffers that are used again.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var to slow
		var want bytes.Buffer
		w := New(&to, 64)
		b, _ := w.Pass(nil)
		for i := range 10_000 {
			b = fmt.Appendf(b, "line %d\n", i)
			fmt.Fprintf(&want, "line %d\n", i)
			if w.Full(b) {
				var ok bool
				if b, ok = w.Pass(b); !ok || len(b) != 0 {
					t.Fatal(ok, len(b))
				}
			}
		}
		if _, ok := w.Pass(b); !ok {
			t.Fatal("the last one is refused")
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(to.Bytes(), want.Bytes()) {
			t.Error("what arrived differs")
		}
	})
}

// failing fails from a write on.
type failing struct{ n, after int }

var errFull = errors.New("full")

func (f *failing) Write(b []byte) (int, error) {
	if f.n++; f.n > f.after {
		return 0, errFull
	}
	return len(b), nil
}

// After a failure nothing more is written, Pass says so, and Close tells the first error. No goroutine is left:
// synctest waits for it.
func TestFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &failing{after: 3}
		w := New(to, 8)
		b, _ := w.Pass(nil)
		refused := false
		for range 100 {
			b = append(b, "0123456789"...)
			var ok bool
			if b, ok = w.Pass(b); !ok {
				refused = true
			}
			synctest.Wait()
		}
		if !refused || to.n != 4 {
			t.Errorf("refused %v after %d writes", refused, to.n)
		}
		if err := w.Close(); !errors.Is(err, errFull) {
			t.Error(err)
		}
	})
}

type short struct{}

func (short) Write(b []byte) (int, error) { return len(b) - 1, nil }

func TestShortWrite(t *testing.T) {
	w := New(short{}, 8)
	w.Pass([]byte("01234567"))
	if err := w.Close(); !errors.Is(err, io.ErrShortWrite) {
		t.Error(err)
	}
}
