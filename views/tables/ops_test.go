// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/synctest"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/trace"
)

// inTurn writes an operator's rows before the replay goes on, and keeps no operator from it.
type inTurn struct {
	*exporter
	write func(*operators) error
}

func (s *inTurn) Op(o *profile.Op) error {
	return s.write(&operators{ops: []operator{{o, s.derive.Derive(o)}}, meta: s.exporter.meta()})
}

// Rows of operators that are written beside the replay, which uses the operators again, are those that are
// written in turn.
func TestBeside(t *testing.T) {
	rows := 0
	for _, trial := range profiletest.Trials() {
		if trial.Large {
			continue
		}
		var b bytes.Buffer
		if err := trial.Write(&b); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"ops", "op_threads"} {
			r, err := trace.NewReader(bytes.NewReader(b.Bytes()))
			if err != nil {
				t.Fatal(err)
			}
			var want bytes.Buffer
			e := &exporter{name: name, meta: r.Meta}
			e.out = &late{open: func() (RowWriter, error) {
				return NewWriter(&want, name, "ndjson", columns(r.Meta())...)
			}}
			e.rows = &opRows{} // rows are of operators, though none is handed over
			_, err = profile.Replay(r, &inTurn{e, e.rowsOfOps()})
			if err := errors.Join(err, e.out.Close(), r.Close()); err != nil {
				t.Fatal(err)
			}
			got := export(t, b.Bytes(), name, "ndjson")
			if !bytes.Equal(got, want.Bytes()) {
				t.Errorf("%s of %s: %d and %d bytes, which differ", name, trial.Name, len(got), want.Len())
			}
			rows += bytes.Count(got, []byte{'\n'})
		}
	}
	if rows < 100*opBatch {
		t.Errorf("%d rows are too few", rows)
	}
}

type full struct{ room int }

var errFull = errors.New("no space left on device")

func (f *full) Write(b []byte) (int, error) {
	if f.room -= len(b); f.room < 0 {
		return 0, errFull
	}
	return len(b), nil
}

// damaged is a recording that cannot be read to its end.
type damaged struct {
	io.Reader
	err error
}

func (d *damaged) Read(b []byte) (int, error) {
	n, err := d.Reader.Read(b)
	if err == io.EOF {
		err = d.err
	}
	return n, err
}

// A table that cannot be written, or whose recording cannot be read, ends with that error, and its goroutine
// with it.
func TestExportFails(t *testing.T) {
	var in bytes.Buffer
	for _, trial := range profiletest.Trials() {
		if trial.Name == "threads-64" {
			if err := trial.Write(&in); err != nil {
				t.Fatal(err)
			}
		}
	}
	recording := in.Bytes()
	errRead := errors.New("the disk is gone")
	for _, name := range []string{"ops", "op_threads"} {
		for _, format := range Formats() {
			for _, c := range []struct {
				room int
				cut  bool
				want error
			}{{room: 0, want: errFull}, {room: 100, want: errFull}, {room: 1 << 30, cut: true, want: errRead}} {
				// Parquet's library keeps encoders between uses, which a bubble does not allow.
				in := synctest.Test
				if format == "parquet" {
					in = func(t *testing.T, f func(*testing.T)) { f(t) }
				}
				in(t, func(t *testing.T) {
					var from io.Reader = bytes.NewReader(recording)
					if c.cut {
						from = &damaged{bytes.NewReader(recording[:len(recording)/2]), errRead}
					}
					r, err := trace.NewReader(from)
					if err != nil {
						t.Fatal(err)
					}
					defer r.Close()
					if _, err = Export(r, name, format, &full{c.room}); !errors.Is(err, c.want) {
						t.Errorf("%s as %s with room for %d: %v, want %v", name, format, c.room, err, c.want)
					}
				})
			}
		}
	}
}
