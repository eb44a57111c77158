// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// Packing and writing of blocks.

// packDefinition compresses w.raw, a definition, if readers accept that.
func (w *Writer) packDefinition(h *blockHeader) error {
	if n := objects(w.raw); n > maxObjects {
		return fmt.Errorf("a %v definition of %d parts is too large for a trace (limit %d)", h.Type, n,
			maxObjects)
	}
	return w.pack(h)
}

// pack compresses w.raw into w.out, after the space for a header.
func (w *Writer) pack(h *blockHeader) error {
	if len(w.raw) > maxRaw {
		return fmt.Errorf("a %v definition of %d MiB is too large for a trace (limit %d MiB)", h.Type,
			len(w.raw)>>20, maxRaw>>20)
	}
	if w.enc == nil {
		enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest),
			zstd.WithEncoderConcurrency(1),
			zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(512<<10), zstd.WithEncoderCRC(false))
		if err != nil {
			return err
		}
		w.enc = enc
	}
	h.Raw = uint32(len(w.raw))
	w.out = resize(w.out, blockHeaderSize)
	h.Codec = codecNone
	if len(w.raw) > 64 {
		w.out = w.enc.EncodeAll(w.raw, w.out)
		h.Codec = codecZstd
	}
	if h.Codec == codecNone || len(w.out)-blockHeaderSize >= len(w.raw) {
		w.out = append(w.out[:blockHeaderSize], w.raw...)
		h.Codec = codecNone
	}
	h.Stored = uint32(len(w.out) - blockHeaderSize)
	h.Sum = checksum(w.out[blockHeaderSize:])
	return nil
}

// emit completes the header in front of w.out and writes the block.
func (w *Writer) emit(h *blockHeader) error {
	if err := w.header(); err != nil {
		return err
	}
	h.Seq = w.seq
	h.Flags &^= flagSegment
	if w.segFlag {
		h.Flags |= flagSegment
	}
	h.put(w.out)
	n, err := w.w.Write(w.out)
	if err == nil && n < len(w.out) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return w.fail(n, err)
	}
	w.segFlag = false
	w.pos += int64(n)
	w.seq++
	return nil
}

// bulk writes the records of c, if any.
func (w *Writer) bulk(t Type, c *columns, reset func()) error {
	if c.count == 0 {
		return nil
	}
	w.raw = c.appendTo(w.raw[:0])
	h := blockHeader{Type: t, Count: uint32(c.count), First: c.first, Last: c.last}
	reset()
	if err := w.pack(&h); err != nil {
		return err
	}
	if err := w.emit(&h); err != nil {
		return err
	}
	if w.watermark == noTime { // otherwise only what precedes a written watermark is known to be complete
		w.kept = max(w.kept, h.Last)
	}
	w.sinceDrain += int(h.Raw)
	w.events = true
	if t == TypeHits || t == TypeMarks {
		return w.publish()
	}
	return nil
}
