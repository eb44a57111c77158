// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
)

// countedParquet writes tables with columns that are known only once the recording was read: those of its
// counters. The library also accepts a row type built at run time; that is slower, so the other tables avoid
// it.
type countedParquet struct {
	w        *parquet.GenericWriter[any]
	t        *table
	row      reflect.Type // the table's, without Counts, and the counters
	columns  int          // of the table
	counters int
	err      error
}

func newCountedParquet(w io.Writer, t *table, counters []string) RowWriter {
	p := &countedParquet{t: t, columns: countsField(t.row), counters: len(counters)}
	fields := make([]reflect.StructField, 0, p.columns+len(counters))
	for i := range p.columns {
		f := t.row.Field(i)
		fields = append(fields, reflect.StructField{Name: f.Name, Type: f.Type, Tag: f.Tag})
	}
	for i, name := range counters {
		fields = append(fields, reflect.StructField{Name: fmt.Sprintf("Counter%d", i),
			Type: reflect.TypeFor[*int64](),
			Tag:  reflect.StructTag(fmt.Sprintf(`parquet:"%s,optional"`, name))})
	}
	p.row = reflect.StructOf(fields)
	p.w = parquet.NewGenericWriter[any](w, parquet.SchemaOf(reflect.New(p.row).Interface()),
		parquet.Compression(zstdCodec),
		parquet.MaxRowsPerRowGroup(rowGroup), parquet.CreatedBy("profinfer", "",
			""), parquet.KeyValueMetadata("profinfer.table", t.name))
	return p
}

func (p *countedParquet) Write(row any) error {
	if p.err != nil {
		return p.err
	}
	v := reflect.ValueOf(row)
	if v.Kind() != reflect.Pointer || v.Type().Elem() != p.t.row || v.IsNil() {
		return wrongRow(p.t.name, p.t.row, row)
	}
	v = v.Elem()
	out := reflect.New(p.row)
	for i := range p.columns {
		fv := v.Field(i)
		switch s := fv.Interface().(type) {
		case string:
			fv = reflect.ValueOf(valid(s))
		case *string:
			if s != nil {
				text := valid(*s)
				fv = reflect.ValueOf(&text)
			}
		}
		out.Elem().Field(i).Set(fv)
	}
	counts := v.Field(p.columns).Interface().([]int64)
	for i := range min(p.counters, len(counts)) {
		if n := counts[i]; n >= 0 {
			out.Elem().Field(p.columns + i).Set(reflect.ValueOf(&n))
		}
	}
	_, p.err = p.w.Write([]any{out.Interface()})
	return p.err
}

// valid returns valid UTF-8: Parquet strings are UTF-8, and readers refuse a file with an invalid one.
func valid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

func (p *countedParquet) Close() error {
	if err := p.w.Close(); p.err == nil {
		p.err = err
	}
	return p.err
}
