// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"io"
	"reflect"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
)

// rowGroup bounds memory: a group of rows is buffered until it is written.
const rowGroup = 1 << 16

// One encoder per column, on one core: an export may run beside the engine.
var zstdCodec = &zstd.Codec{Level: zstd.SpeedFastest, Concurrency: 1}

type parquetWriter[T any] struct {
	w       *parquet.GenericWriter[T]
	name    string
	strings []stringField
	one     [1]T
	err     error
}

type stringField struct {
	index int
	null  bool
}

func newParquet[T any](w io.Writer, name string) RowWriter {
	p := &parquetWriter[T]{name: name}
	for i, f := range fieldsOf(reflect.TypeFor[T]()) {
		if f.kind == reflect.String {
			p.strings = append(p.strings, stringField{i, f.null})
		}
	}
	p.w = parquet.NewGenericWriter[T](w, parquet.Compression(zstdCodec), parquet.MaxRowsPerRowGroup(rowGroup),
		parquet.CreatedBy("profinfer", "", ""), parquet.KeyValueMetadata("profinfer.table", name))
	return p
}

func (p *parquetWriter[T]) Write(row any) error {
	if p.err != nil {
		return p.err
	}
	r, ok := row.(*T)
	if !ok || r == nil {
		return wrongRow(p.name, reflect.TypeFor[T](), row)
	}
	p.one[0] = *r
	v := reflect.ValueOf(&p.one[0]).Elem()
	for _, f := range p.strings {
		fv := v.Field(f.index)
		if f.null {
			if fv.IsNil() {
				continue
			}
			if s := fv.Elem().String(); !utf8.ValidString(s) {
				s = valid(s)
				fv.Set(reflect.ValueOf(&s))
			}
		} else {
			fv.SetString(valid(fv.String()))
		}
	}
	_, p.err = p.w.Write(p.one[:])
	return p.err
}

func (p *parquetWriter[T]) Close() error {
	if err := p.w.Close(); p.err == nil {
		p.err = err
	}
	return p.err
}
