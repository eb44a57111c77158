// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"runtime"
	"testing"
	"time"
)

// collectAhead is collect by way of Ahead; hits are given back once they were copied.
func collectAhead(t testing.TB, r *Reader) (c content, err error) {
	t.Helper()
	a := r.Ahead()
	defer a.Close()
	for {
		b, err := a.Next()
		if err != nil {
			if _, again := a.Next(); again != err {
				t.Fatalf("after %v: %v", err, again)
			}
			return c, err
		}
		if b.Meta != nil && r.Meta() != b.Meta {
			t.Fatal("Meta is not that of the block delivered last")
		}
		c.add(b)
		clear(b.Hits) // whoever still reads them will see it
		a.Reuse(b.Hits)
	}
}

// TestAheadIsTheSame reads whole, cut and damaged traces both ways.
func TestAheadIsTheSame(t *testing.T) {
	full := sampleTrace(t)
	small := smallTrace(t)
	traces := [][]byte{full, small}
	for n := fileHeaderSize; n < len(small); n += 13 {
		traces = append(traces, small[:n])
	}
	for at := fileHeaderSize; at < len(small); at += 29 {
		b := bytes.Clone(small)
		b[at] ^= 0x40
		traces = append(traces, b)
	}
	for i, b := range traces {
		one, two := openBytes(t, b), openBytes(t, b)
		want := collect(t, one)
		got, err := collectAhead(t, two)
		if err != io.EOF || !reflect.DeepEqual(got, want) {
			t.Fatalf("trace %d: %v; what was read ahead differs", i, err)
		}
		if two.Torn() != one.Torn() || !reflect.DeepEqual(two.Problems(), one.Problems()) {
			t.Fatalf("trace %d: torn %q, problems %q; want %q, %q", i, two.Torn(), two.Problems(), one.Torn(),
				one.Problems())
		}
	}
}

// failingAfter fails after some bytes.
type failingAfter struct {
	io.Reader
	err error
}

func (f failingAfter) Read(p []byte) (int, error) {
	n, err := f.Reader.Read(p)
	if err == io.EOF {
		err = f.err
	}
	return n, err
}

func TestAheadError(t *testing.T) {
	b := smallTrace(t)
	want := errors.New("the disk is gone")
	r, err := NewReader(failingAfter{bytes.NewReader(b[:len(b)/2]), want})
	must(t, err)
	defer r.Close()
	if _, err := collectAhead(t, r); !errors.Is(err, want) {
		t.Errorf("%v", err)
	}
}

// TestAheadClose stops in the middle; the reader goes on, and no goroutine is left.
func TestAheadClose(t *testing.T) {
	b := sampleTrace(t)
	before := runtime.NumGoroutine()
	for range 50 {
		r := openBytes(t, b)
		a := r.Ahead()
		if _, err := a.Next(); err != nil {
			t.Fatal(err)
		}
		a.Close()
		if c := collect(t, r); c.Blocks == 0 {
			t.Fatal("nothing was read after Close")
		}
	}
	for range 100 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), before)
}
