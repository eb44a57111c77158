// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"io"
	"math"
	"reflect"
	"strconv"
	"unicode/utf8"
	"unsafe"

	"github.com/profinfer/profinfer/internal/clean"
)

// textFlush is how much is buffered before it is written.
const textFlush = 64 << 10

// text writes newline-delimited JSON and CSV. It reads a row's fields where the struct has them, as reflection
// would take longer than the rest: fieldsOf and Write have checked their types.
//
// CSV has a header line, comma and LF, and quotes where needed. A null is an empty field, an empty string "".
// Lists are JSON. In strings of both formats, characters that could control a terminal or reverse text are
// written as escape sequences. CSV has no escape sequences of its own: there a backslash begins one and is
// therefore doubled.
type text struct {
	w      io.Writer
	t      *table
	csv    bool
	fields []field
	keys   []string // for JSON: {"name": and ,"name":
	counts int      // number of further columns, from the slice at countsAt
	buf    []byte
	err    error

	countsAt uintptr
}

func newText(w io.Writer, t *table, counters []string, csv bool) (*text, error) {
	x := &text{w: w, t: t, csv: csv, fields: fieldsOf(t.row), counts: len(counters)}
	if x.counts > 0 {
		x.countsAt = t.row.Field(len(x.fields)).Offset
	}
	names := make([]string, 0, len(x.fields)+len(counters))
	for _, f := range x.fields {
		names = append(names, f.name)
	}
	for i, name := range append(names, counters...) {
		sep := ","
		if i == 0 {
			sep = "{"
		}
		x.keys = append(x.keys, string(appendJSON([]byte(sep), name))+":")
		if csv {
			if i > 0 {
				x.buf = append(x.buf, ',')
			}
			x.buf = appendCSV(x.buf, name)
		}
	}
	if csv {
		x.buf = append(x.buf, '\n')
	}
	return x, nil
}

func (x *text) Write(row any) error {
	if x.err != nil {
		return x.err
	}
	v := reflect.ValueOf(row)
	if v.Kind() != reflect.Pointer || v.Type().Elem() != x.t.row || v.IsNil() {
		return wrongRow(x.t.name, x.t.row, row)
	}
	p := v.UnsafePointer()
	for i := range x.fields {
		f := &x.fields[i]
		at := unsafe.Add(p, f.offset)
		if x.csv {
			if i > 0 {
				x.buf = append(x.buf, ',')
			}
		} else {
			x.buf = append(x.buf, x.keys[i]...)
		}
		if f.null {
			if at = *(*unsafe.Pointer)(at); at == nil {
				if !x.csv {
					x.buf = append(x.buf, "null"...)
				}
				continue
			}
		}
		x.value(f, at)
	}
	if x.counts > 0 {
		x.counters(*(*[]int64)(unsafe.Add(p, x.countsAt)))
	}
	if !x.csv {
		x.buf = append(x.buf, '}')
	}
	x.buf = append(x.buf, '\n')
	if len(x.buf) >= textFlush {
		x.flush()
	}
	return x.err
}

// counters writes the columns after the struct's.
func (x *text) counters(counts []int64) {
	for i := range x.counts {
		if x.csv {
			x.buf = append(x.buf, ',')
		} else {
			x.buf = append(x.buf, x.keys[len(x.fields)+i]...)
		}
		switch {
		case i < len(counts) && counts[i] >= 0:
			x.buf = strconv.AppendInt(x.buf, counts[i], 10)
		case !x.csv:
			x.buf = append(x.buf, "null"...)
		}
	}
}

// value writes a field's value, which is of the type that fieldsOf found.
func (x *text) value(f *field, at unsafe.Pointer) {
	switch f.kind {
	case reflect.Int64:
		x.buf = strconv.AppendInt(x.buf, *(*int64)(at), 10)
	case reflect.Uint64:
		x.buf = strconv.AppendUint(x.buf, *(*uint64)(at), 10)
	case reflect.Bool:
		x.buf = strconv.AppendBool(x.buf, *(*bool)(at))
	case reflect.Float64:
		if d := *(*float64)(at); !math.IsInf(d, 0) && !math.IsNaN(d) {
			x.buf = strconv.AppendFloat(x.buf, d, 'g', -1, 64)
		} else if !x.csv {
			x.buf = append(x.buf, "null"...) // neither format can express it
		}
	case reflect.String:
		if x.csv {
			x.buf = appendCSV(x.buf, *(*string)(at))
		} else {
			x.buf = appendJSON(x.buf, *(*string)(at))
		}
	case reflect.Slice:
		if x.csv {
			x.buf = append(x.buf, '"')
		}
		x.buf = append(x.buf, '[')
		for i, n := range *(*[]int32)(at) {
			if i > 0 {
				x.buf = append(x.buf, ',')
			}
			x.buf = strconv.AppendInt(x.buf, int64(n), 10)
		}
		x.buf = append(x.buf, ']')
		if x.csv {
			x.buf = append(x.buf, '"')
		}
	}
}

func (x *text) flush() {
	if x.err == nil && len(x.buf) > 0 {
		_, x.err = x.w.Write(x.buf)
	}
	x.buf = x.buf[:0]
}

func (x *text) Close() error {
	x.flush()
	return x.err
}

// appendEscapes appends s; the quote character is doubled in CSV and escaped in JSON. Invalid UTF-8 becomes
// U+FFFD.
func appendEscapes(b []byte, s string, csv bool) []byte {
	const hex = "0123456789abcdef"
	for _, r := range s {
		switch {
		case r == '"' && csv:
			b = append(b, `""`...)
		case r == '"', r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r < 0x80 && r >= 0x20 && r != 0x7f:
			b = append(b, byte(r))
		case !clean.Hidden(r):
			b = utf8.AppendRune(b, r)
		case r > 0xffff:
			r -= 0x10000 // as JSON does
			for _, u := range [...]rune{0xd800 | r>>10, 0xdc00 | r&0x3ff} {
				b = append(b, '\\', 'u', hex[u>>12&15], hex[u>>8&15], hex[u>>4&15], hex[u&15])
			}
		default:
			b = append(b, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
		}
	}
	return b
}

func appendJSON(b []byte, s string) []byte {
	return append(appendEscapes(append(b, '"'), s, false), '"')
}

func appendCSV(b []byte, s string) []byte {
	quote := s == "" || s[0] == ' ' || s[len(s)-1] == ' '
	for i := 0; i < len(s) && !quote; i++ {
		quote = s[i] == ',' || s[i] == '"' || s[i] == '\'' || s[i] == '#'
	}
	if !quote {
		return appendEscapes(b, s, true)
	}
	return append(appendEscapes(append(b, '"'), s, true), '"')
}
