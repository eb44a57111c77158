// SPDX-License-Identifier: Apache-2.0

// Package tables writes a run as tables, for analysis elsewhere: newline-delimited JSON, CSV or Parquet. Each
// table is a struct; its fields are the columns. Columns may be added, never renamed; an unknown value is
// null, never 0.
//
// Times are nanoseconds of CLOCK_BOOTTIME, durations nanoseconds, sizes bytes.
package tables

import (
	"fmt"
	"io"
	"reflect"
	"strings"
)

// Column describes a column of a table.
type Column struct {
	Name string
	Type string // int64, uint64, double, bool, string, or list of int32
	Null bool   // may be null
	Doc  string
}

// RowWriter writes the rows of one table. Close ends the table; it does not close the underlying writer.
type RowWriter interface {
	// Write writes a row: a pointer to the table's struct (*StepRow for steps, ...). It does not retain it.
	Write(row any) error
	Close() error
}

// Formats returns the names of the formats.
func Formats() []string { return []string{"ndjson", "csv", "parquet"} }

type table struct {
	name    string
	doc     string
	row     reflect.Type
	parquet func(w io.Writer, name string) RowWriter
}

func define[T any](name, doc string) table {
	return table{name: name, doc: doc, row: reflect.TypeFor[T](), parquet: newParquet[T]}
}

var all = []table{
	define[RunRow]("runs", "the recording"),
	define[StepRow]("steps", "one step"),
	define[GraphRow]("graphs", "one graph execution"),
	define[NodeRow]("nodes", "one tensor of a graph shape"),
	define[OpRow]("ops", "one executed operator"),
	define[OpThreadRow]("op_threads", "one operator on one thread"),
	define[EdgeRow]("edges", "one dependency"),
	define[FaultRow]("faults", "one page fault"),
	define[ResidencyRow]("residency", "one tensor in a file, and what of it was in memory"),
	define[ExpertRow]("experts", "one chosen expert"),
	define[SchedRow]("sched", "one switch or wake-up"),
	define[CopyRow]("copies", "one copy between memories, where a backend other than the CPU computes"),
	define[DeviceRow]("device_spans",
		"one graph on a backend other than the CPU, until the host saw that it was done"),
	define[SubmissionRow]("submissions", "one call that handed work to a queue of a device"),
	define[RemoteRow]("remote_graphs",
		"one graph that a process on this machine computed for another one (RPC), both being recorded"),
	define[ThreadRow]("threads", "one thread seen"),
	define[LossRow]("losses", "one span not fully seen"),
	define[SequenceRow]("sequences", "one request: a prompt on one sequence, with what followed"),
	define[RoundRow]("rounds", "one round of speculative decoding: one sequence's drafted tokens in one verification step"),
}

// Names returns the names of the tables.
func Names() []string {
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].name
	}
	return names
}

func find(name string) (*table, error) {
	for i := range all {
		if all[i].name == name {
			return &all[i], nil
		}
	}
	return nil, fmt.Errorf("there is no table %q; the tables are %s", name, strings.Join(Names(), ", "))
}

// Columns returns the columns of a table, in their order.
func Columns(name string) ([]Column, error) {
	t, err := find(name)
	if err != nil {
		return nil, err
	}
	fs := fieldsOf(t.row)
	cs := make([]Column, len(fs))
	for i, f := range fs {
		cs[i] = Column{Name: f.name, Type: f.typ, Null: f.null, Doc: t.row.Field(i).Tag.Get("doc")}
	}
	return cs, nil
}

// NewWriter returns a writer of the rows of a table in a format. Memory is bounded, however many rows are
// written. counters are the names of further columns of ops and op_threads, of type int64: a row's Counts, in
// which a negative value is null.
func NewWriter(w io.Writer, name, format string, counters ...string) (RowWriter, error) {
	t, err := find(name)
	if err != nil {
		return nil, err
	}
	if countsField(t.row) < 0 {
		counters = nil
	}
	switch format {
	case "ndjson", "csv":
		return newText(w, t, counters, format == "csv")
	case "parquet":
		if len(counters) > 0 {
			return newCountedParquet(w, t, counters), nil
		}
		return t.parquet(w, t.name), nil
	}
	return nil, fmt.Errorf("there is no table format %q; the formats are %s", format,
		strings.Join(Formats(), ", "))
}

// field is a column of a struct.
type field struct {
	name string
	typ  string
	null bool
	kind reflect.Kind // of the value that the pointer points to

	offset uintptr // in the struct
}

// fieldsOf reads the columns from the struct's tags. The structs are of this package, so an unknown type is a
// bug here.
func fieldsOf(t reflect.Type) []field {
	n := t.NumField()
	if countsField(t) >= 0 {
		n-- // it is the last one
	}
	fs := make([]field, n)
	for i := range fs {
		sf := t.Field(i)
		name, _, _ := strings.Cut(sf.Tag.Get("parquet"), ",")
		f := field{name: name, offset: sf.Offset}
		ft := sf.Type
		if ft.Kind() == reflect.Pointer {
			f.null, ft = true, ft.Elem()
		}
		f.kind = ft.Kind()
		switch f.kind {
		case reflect.Int64, reflect.Uint64, reflect.Bool, reflect.String:
			f.typ = f.kind.String()
		case reflect.Float64:
			f.typ = "double"
		case reflect.Slice:
			f.typ = "list of int32"
		}
		if f.typ == "" || f.kind == reflect.Slice && ft != reflect.TypeFor[[]int32]() {
			panic("tables: a column of type " + sf.Type.String())
		}
		fs[i] = f
	}
	return fs
}

// countsField returns the index of the field that holds counters, -1 if the table has none.
func countsField(t reflect.Type) int {
	if n := t.NumField() - 1; t.Field(n).Name == "Counts" {
		return n
	}
	return -1
}

func wrongRow(name string, want reflect.Type, got any) error {
	return fmt.Errorf("table %s: a row is a *%v, not %T", name, want, got)
}
