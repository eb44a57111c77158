// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"encoding/binary"
)

// IndexEntry tells where a block stands and what it spans.
type IndexEntry struct {
	Type        Type
	Segment     bool // a reader may begin here
	Repeat      bool // an earlier block has the same content
	Offset      int64
	Size        int64 // in the file, header included
	Count       int
	First, Last int64 // ns
}

// Columns of an index block. It lists the blocks since the index block before it.
const (
	indexPrev   = iota // one number: offset of the index block before; 0: none
	indexType          // as it is
	indexFlags         // a byte each
	indexOffset        // from the end of the block before
	indexSize
	indexCount
	indexFirst // to the one before
	indexSpan  // last - first
	indexColumns
)

type indexEncoder struct {
	columns
	prev  int64 // offset of the index block before
	end   int64 // of the block before
	lastT int64
}

func (e *indexEncoder) reset() {
	e.columns.reset()
	e.end, e.lastT = 0, 0
}

func (e *indexEncoder) add(h *blockHeader, off int64) {
	e.at(h.First)
	e.last = max(e.last, h.Last)
	e.c[indexType] = appendUint(e.c[indexType], uint64(h.Type))
	e.c[indexFlags] = append(e.c[indexFlags], h.Flags)
	e.c[indexOffset] = appendUint(e.c[indexOffset], uint64(off-e.end))
	size := int64(h.Stored) + blockHeaderSize
	e.c[indexSize] = appendUint(e.c[indexSize], uint64(size))
	e.c[indexCount] = appendUint(e.c[indexCount], uint64(h.Count))
	e.c[indexFirst] = appendInt(e.c[indexFirst], h.First-e.lastT)
	e.c[indexSpan] = appendInt(e.c[indexSpan], h.Last-h.First)
	e.end, e.lastT = off+size, h.First
}

// writeIndex writes the entries collected so far.
func (w *Writer) writeIndex() error {
	e := &w.index
	if e.count == 0 {
		return nil
	}
	e.c[indexPrev] = appendUint(e.c[indexPrev][:0], uint64(e.prev))
	w.raw = e.appendTo(w.raw[:0])
	h := blockHeader{Type: typeIndex, Count: uint32(e.count), First: e.first, Last: e.last}
	e.reset()
	if err := w.pack(&h); err != nil {
		return err
	}
	off := w.pos
	if err := w.emit(&h); err != nil {
		return err
	}
	e.prev = off
	return nil
}

const trailerSize = blockHeaderSize + 8

// writeTrailer writes the block of fixed size that leads from the end of the file to the index.
func (w *Writer) writeTrailer() error {
	w.raw = binary.LittleEndian.AppendUint64(w.raw[:0], uint64(w.index.prev))
	h := blockHeader{Type: typeTrailer, Count: 1, First: w.now(), Last: w.now()}
	if err := w.pack(&h); err != nil {
		return err
	}
	return w.emit(&h)
}

// decodeIndex returns the entries of an index block and the offset of the one before.
func decodeIndex(p []byte, count int, limit int64) (es []IndexEntry, prev int64, err error) {
	var c [indexColumns]column
	if err := splitColumns(p, c[:]); err != nil {
		return nil, 0, err
	}
	flags := c[indexFlags].b
	if len(flags) != count || count > maxCount {
		return nil, 0, errColumn
	}
	prev = int64(c[indexPrev].uint())
	es = make([]IndexEntry, count)
	var end, t int64
	for i := range es {
		typ := c[indexType].uint()
		off, size := c[indexOffset].uint(), c[indexSize].uint()
		if typ > 0xffff || off > uint64(limit) || size < blockHeaderSize || size > blockHeaderSize+maxRaw || end+int64(off)+int64(size) > limit {
			return nil, 0, errColumn
		}
		t += c[indexFirst].int()
		n := c[indexCount].uint()
		if n > 0xffffffff {
			return nil, 0, errColumn
		}
		es[i] = IndexEntry{Type: Type(typ), Segment: flags[i]&flagSegment != 0, Repeat: flags[i]&flagRepeat != 0,
			Offset: end + int64(off), Size: int64(size), Count: int(n), First: t, Last: t + c[indexSpan].int()}
		end += int64(off) + int64(size)
	}
	c[indexFlags].b = nil
	return es, prev, finish(c[:])
}
