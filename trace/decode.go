// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxObjects bounds what a definition may consist of, that is, what unpacking it may allocate.
const maxObjects = 1 << 17

// decode reads a block's payload into b.
func (r *Reader) decode(h *blockHeader, stored []byte, b *Block) error {
	p, err := r.unpack(h, stored)
	if err != nil {
		return err
	}
	n := int(h.Count)
	switch h.Type {
	case TypeHits:
		b.Hits, err = r.hits.decode(p, n)
	case TypeMarks:
		b.Marks, err = r.mark.decode(p, n)
	case TypeStepSeqs:
		b.StepSeqs, err = r.seqs.decode(p, n)
	case TypeSched:
		b.Sched, err = r.sch.decode(p, n)
	case TypeSamples:
		b.Samples, err = decodeSamples(p, n)
	case TypeFaults:
		b.Faults, err = decodeFaults(p, n)
	case TypeMemory:
		b.Memory, err = definitionOf[Memory](p)
	case TypeExperts:
		b.Experts, err = decodeExperts(p, n)
	case TypeMeta:
		b.Meta, err = definitionOf[Meta](p)
	case TypeProcess:
		b.Process, err = definitionOf[Process](p)
	case TypeShape:
		if b.Shape, err = definitionOf[Shape](p); err == nil {
			err = b.Shape.check()
		}
	case TypeThreads:
		var ts *[]Thread
		if ts, err = definitionOf[[]Thread](p); err == nil {
			b.Threads = *ts
		}
	case TypeLoss:
		b.Loss, err = definitionOf[Loss](p)
	case TypeExit:
		b.Exit, err = definitionOf[Exit](p)
	case TypeWatch:
		b.Watch, err = definitionOf[Watch](p)
	case TypeCPU:
		b.CPU, err = definitionOf[CPUState](p)
	case TypeEnd:
		b.End, err = definitionOf[End](p)
	case TypeDrain:
		var d *drain
		if d, err = definitionOf[drain](p); err == nil {
			b.Watermark = d.Watermark
		}
	}
	return err
}

func definitionOf[T any](p []byte) (*T, error) {
	if objects(p) > maxObjects {
		return nil, fmt.Errorf("it has more than %d parts", maxObjects)
	}
	v := new(T)
	if err := json.Unmarshal(p, v); err != nil {
		return nil, err
	}
	return v, nil
}

// objects counts what may become an element of a list or map, or an object: a few bytes of
// JSON can ask for a few hundred bytes of memory. The lists of numbers inside a shape's
// nodes stand deeper and are not counted: they take no more memory than JSON.
func objects(p []byte) (n int) {
	level := 0
	inString, escaped := false, false
	for _, c := range p {
		switch {
		case escaped:
			escaped = false
		case inString && c == '\\':
			escaped = true
		case c == '"':
			inString = !inString
		case inString:
		case c == '{':
			n++
			level++
		case c == '[':
			level++
		case c == '}' || c == ']':
			level--
		case c == ',' && level <= 2:
			n++
		}
	}
	return n
}

// Index returns where each block stands, in the order of the file: from the index at the
// file's end, or, if there is none, by looking at every block's header. It does not move
// the reader. It fails with ErrSeek if the input is no file.
func (r *Reader) Index() ([]IndexEntry, error) {
	if r.in.s == nil {
		return nil, fmt.Errorf("%s: %w", r.name, ErrSeek)
	}
	saved := *r
	in := *r.in
	in.buf, in.pos = nil, 0
	r.in = &in
	es, ok := r.footer()
	if !ok {
		es = r.scan()
	}
	err := r.in.err
	dec, raw := r.dec, r.raw
	*r = saved
	r.dec, r.raw = dec, raw
	// The copy moved the input: go back, and read again what was looked at ahead.
	if e := r.in.seek(r.in.off); e != nil {
		err = errors.Join(err, e)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", r.name, err)
	}
	return es, nil
}

// footer reads the index from the end of the file.
func (r *Reader) footer() ([]IndexEntry, bool) {
	size := r.in.size
	h, p, ok := r.blockAt(size-trailerSize, typeTrailer)
	if !ok || h.Raw != 8 {
		return nil, false
	}
	d := column{b: p}
	var off int64
	for i := range 8 {
		off |= int64(d.b[i]) << (8 * i)
	}
	var parts [][]IndexEntry
	total, most := 0, size/blockHeaderSize // blocks that the file has room for
	before := size
	for off != 0 {
		if off < 0 || off >= before {
			return nil, false
		}
		h, p, ok := r.blockAt(off, typeIndex)
		if !ok {
			return nil, false
		}
		if total+int(h.Count) > int(most) {
			return nil, false
		}
		es, prev, err := decodeIndex(p, int(h.Count), size)
		if err != nil {
			return nil, false
		}
		parts = append(parts, es)
		total += len(es)
		before, off = off, prev
	}
	all := make([]IndexEntry, 0, total)
	for i := len(parts) - 1; i >= 0; i-- {
		all = append(all, parts[i]...)
	}
	return all, true
}

// blockAt reads the block of type t at off.
func (r *Reader) blockAt(off int64, t Type) (h blockHeader, p []byte, ok bool) {
	if off < fileHeaderSize || r.in.seek(off) != nil || !h.parse(r.in.peek(blockHeaderSize)) || h.Type != t || h.Stored > maxRaw || h.Raw > maxRaw {
		return h, nil, false
	}
	b := r.in.peek(blockHeaderSize + int(h.Stored))
	if len(b) < blockHeaderSize+int(h.Stored) || checksum(b[blockHeaderSize:]) != h.Sum {
		return h, nil, false
	}
	p, err := r.unpack(&h, b[blockHeaderSize:])
	return h, p, err == nil
}

// scan lists the blocks by their headers.
func (r *Reader) scan() (es []IndexEntry) {
	if r.in.seek(fileHeaderSize) != nil {
		return nil
	}
	for {
		h, off, err := r.nextHeader()
		if errors.Is(err, io.EOF) || err != nil {
			return es
		}
		size := blockHeaderSize + int64(h.Stored)
		if off+size > r.in.size {
			r.in.skip(blockHeaderSize)
			continue
		}
		r.in.skip(size)
		if h.Type == typeIndex || h.Type == typeTrailer {
			continue
		}
		es = append(es, IndexEntry{Type: h.Type, Segment: h.Flags&flagSegment != 0, Repeat: h.Flags&flagRepeat != 0,
			Offset: off, Size: size, Count: int(h.Count), First: h.First, Last: h.Last})
	}
}
