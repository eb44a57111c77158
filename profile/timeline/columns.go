// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"encoding/binary"
)

// Columns of numbers: similar numbers are adjacent, so that gzip compresses them well. Every number is a
// varint with zigzag encoding. A block is: rows; the number of columns; for each its length in bytes, then
// its numbers. The first two and the lengths are plain varints.

// columns are the columns of one block.
type columns struct {
	rows int
	col  [][]byte
}

func (c *columns) init(n int) { c.col = make([][]byte, n) }

// put appends a number to column i.
func (c *columns) put(i int, v int64) { c.col[i] = binary.AppendVarint(c.col[i], v) }

// encode returns the block. The first number of column first is relative to base.
func (c *columns) encode(first int, base int64) []byte {
	if first >= 0 && len(c.col[first]) > 0 {
		v, n := binary.Varint(c.col[first])
		c.col[first] = append(binary.AppendVarint(nil, v-base), c.col[first][n:]...)
	}
	return c.appendTo(nil)
}

func (c *columns) appendTo(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(c.rows))
	b = binary.AppendUvarint(b, uint64(len(c.col)))
	for i := range c.col {
		b = binary.AppendUvarint(b, uint64(len(c.col[i])))
		b = append(b, c.col[i]...)
	}
	return b
}

// reset empties the columns.
func (c *columns) reset() {
	c.rows = 0
	for i := range c.col {
		c.col[i] = c.col[i][:0]
	}
}
