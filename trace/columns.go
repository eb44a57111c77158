// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"encoding/binary"
	"errors"
)

// Records are stored as columns: a payload is the number of columns, the length of each (all uvarint), then
// their bytes. A reader ignores columns that it does not know and reads missing ones as zeros, so that a
// minor version may add columns.

const maxColumns = 64

func zig(v int64) uint64   { return uint64(v<<1) ^ uint64(v>>63) }
func unzig(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

func appendUint(b []byte, v uint64) []byte {
	if v < 0x80 {
		return append(b, byte(v))
	}
	return binary.AppendUvarint(b, v)
}

func appendInt(b []byte, v int64) []byte { return appendUint(b, zig(v)) }

// columns collects the columns of one block.
type columns struct {
	c           [][]byte
	count       int
	first, last int64
}

func newColumns(n int) columns { return columns{c: make([][]byte, n)} }

func (c *columns) reset() {
	for i := range c.c {
		c.c[i] = c.c[i][:0]
	}
	c.count, c.first, c.last = 0, 0, 0
}

func (c *columns) size() (n int) {
	for _, b := range c.c {
		n += len(b)
	}
	return n
}

// at counts a record and updates the time range.
func (c *columns) at(t int64) {
	if c.count == 0 {
		c.first, c.last = t, t
	} else {
		c.first, c.last = min(c.first, t), max(c.last, t)
	}
	c.count++
}

// appendTo appends the payload to b.
func (c *columns) appendTo(b []byte) []byte {
	b = appendUint(b, uint64(len(c.c)))
	for _, col := range c.c {
		b = appendUint(b, uint64(len(col)))
	}
	for _, col := range c.c {
		b = append(b, col...)
	}
	return b
}

var (
	errColumn = errors.New("a column is too short or too long")
	errLayout = errors.New("its columns do not fit its length")
)

// column reads one column. After an error it yields zeros and reports the error.
type column struct {
	b      []byte
	absent bool // the writer did not have this column: all zeros
	bad    bool
}

func (c *column) uint() uint64 {
	if len(c.b) > 0 && c.b[0] < 0x80 {
		v := c.b[0]
		c.b = c.b[1:]
		return uint64(v)
	}
	return c.long()
}

func (c *column) long() uint64 {
	v, n := binary.Uvarint(c.b)
	if n <= 0 {
		c.b, c.bad = nil, c.bad || !c.absent
		return 0
	}
	c.b = c.b[n:]
	return v
}

func (c *column) int() int64 { return unzig(c.uint()) }

// bytes returns the next n bytes.
func (c *column) bytes(n uint64) []byte {
	if n > uint64(len(c.b)) {
		c.b, c.bad = nil, true
		return nil
	}
	v := c.b[:n]
	c.b = c.b[n:]
	return v
}

// splitColumns finds the columns of a payload; cols beyond the payload's columns are absent.
func splitColumns(p []byte, cols []column) error {
	in := column{b: p}
	n := in.uint()
	if in.bad || n > maxColumns {
		return errLayout
	}
	var lens [maxColumns]uint64
	var sum uint64
	for i := range lens[:n] {
		lens[i] = in.uint()
		if lens[i] > uint64(len(p)) {
			return errLayout
		}
		sum += lens[i]
	}
	if in.bad || sum != uint64(len(in.b)) {
		return errLayout
	}
	for i := range cols {
		if uint64(i) >= n {
			cols[i] = column{absent: true}
			continue
		}
		cols[i] = column{b: in.bytes(lens[i])}
	}
	return nil
}

// finish checks that each column was read exactly to its end.
func finish(cols []column) error {
	for i := range cols {
		if cols[i].bad || len(cols[i].b) != 0 {
			return errColumn
		}
	}
	return nil
}
