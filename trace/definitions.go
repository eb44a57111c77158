// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"hash/maphash"
	"slices"
)

// shapeCache bounds the packed shapes kept in memory for repetition. Those beyond are
// read back from the file when they are needed again.
const shapeCache = 32 << 20

// maxThreads bounds the threads that are repeated; when more were seen, the list begins anew.
const maxThreads = 1 << 15

// definition is a block that was written and may have to be repeated.
type definition struct {
	h      blockHeader
	stored []byte // its payload as stored; nil: only in the file, at off
	off    int64
	hash   uint64 // of the payload before packing
	seg    uint32 // segment in which it was last written
}

type processDef struct {
	definition
	pid    int32
	start  uint64
	exited bool
	gone   uint32 // segment in which it exited
}

type shapeKey struct {
	pid int32
	id  uint64
}

type threadKey struct{ pid, tid int32 }

// definitions is what a new segment begins with.
type definitions struct {
	seed      maphash.Seed
	seg       uint32
	meta      *definition
	procs     []*processDef
	threads   []Thread
	threadAt  map[threadKey]int
	list      *definition // the full list of threads as last written; nil: it changed
	shapes    map[shapeKey]*definition
	shapesMem int
}

func (d *definitions) init() {
	*d = definitions{seed: maphash.MakeSeed(), threadAt: map[threadKey]int{}, shapes: map[shapeKey]*definition{}}
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// json writes v as a block of its own.
func (w *Writer) json(t Type, v any, count int, first, last int64) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("writing %s: %w", w.name, err)
	}
	w.raw = append(w.raw[:0], b...)
	h := blockHeader{Type: t, Count: uint32(count), First: first, Last: last}
	if err := w.packDefinition(&h); err != nil {
		return err
	}
	return w.emit(&h)
}

// now is the time that definitions are stamped with: every event that comes later in the
// file is later than this, if the caller tells watermarks.
func (w *Writer) now() int64 {
	switch {
	case w.watermark != noTime:
		return w.watermark
	case w.latest != noTime:
		return w.latest
	case w.start != noTime:
		return w.start
	}
	return 0
}

// define writes v as a definition and returns what is needed to repeat it. If old has the
// same content, it is only written again if that is due in this segment.
func (w *Writer) define(t Type, v any, count int, old *definition, replaces func() error) (*definition, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", w.name, err)
	}
	hash := maphash.Bytes(w.defs.seed, b)
	if old != nil && old.hash == hash && old.h.Raw == uint32(len(b)) {
		return old, w.again(old)
	}
	if replaces != nil {
		if err := replaces(); err != nil {
			return nil, err
		}
	}
	w.raw = append(w.raw[:0], b...)
	d := &definition{h: blockHeader{Type: t, Count: uint32(count), First: w.now(), Last: w.now()}, hash: hash, seg: w.defs.seg}
	if err := w.packDefinition(&d.h); err != nil {
		return nil, err
	}
	d.off = w.pos
	if d.off == 0 {
		d.off = fileHeaderSize
	}
	if err := w.emit(&d.h); err != nil {
		return nil, err
	}
	d.stored = append([]byte(nil), w.out[blockHeaderSize:]...)
	return d, nil
}

// again repeats d if it does not stand in this segment yet.
func (w *Writer) again(d *definition) error {
	if d == nil || d.seg == w.defs.seg {
		return nil
	}
	w.out = resize(w.out, blockHeaderSize)
	if d.stored != nil {
		w.out = append(w.out, d.stored...)
	} else {
		if w.f == nil {
			return nil // cannot be read back: it stands in the file once
		}
		w.out = slices.Grow(w.out, int(d.h.Stored))[:blockHeaderSize+int(d.h.Stored)]
		if _, err := w.f.ReadAt(w.out[blockHeaderSize:], d.off+blockHeaderSize); err != nil {
			return nil
		}
		if checksum(w.out[blockHeaderSize:]) != d.h.Sum {
			return nil
		}
	}
	h := d.h
	h.Flags |= flagRepeat
	h.First, h.Last = w.now(), w.now()
	d.seg = w.defs.seg
	return w.emit(&h)
}

// segment begins a new segment: what a reader needs to begin here.
func (w *Writer) segment() error {
	d := &w.defs
	d.seg++
	w.segFlag = true
	if err := w.again(d.meta); err != nil {
		return err
	}
	// What exited is kept for one segment more: events of it may still arrive.
	for _, p := range d.procs {
		if p.exited && d.seg-p.gone > 1 {
			w.forget(p.pid)
		}
	}
	for _, p := range d.procs {
		if err := w.again(&p.definition); err != nil {
			return err
		}
	}
	if d.list != nil {
		return w.again(d.list)
	}
	if len(d.threads) == 0 {
		return nil
	}
	list, err := w.define(TypeThreads, d.threads, len(d.threads), nil, nil)
	d.list = list
	return err
}

// forget drops what is kept of a process.
func (w *Writer) forget(pid int32) {
	d := &w.defs
	d.procs = slices.DeleteFunc(slices.Clone(d.procs), func(p *processDef) bool { return p.pid == pid })
	for k, s := range d.shapes {
		if k.pid == pid {
			d.shapesMem -= len(s.stored)
			delete(d.shapes, k)
		}
	}
	n := len(d.threads)
	d.threads = slices.DeleteFunc(d.threads, func(t Thread) bool { return t.PID == pid })
	if len(d.threads) != n {
		d.list = nil
		clear(d.threadAt)
		for i, t := range d.threads {
			d.threadAt[threadKey{t.PID, t.TID}] = i
		}
	}
}

// Meta describes the recording: first of all, and again when something in it became known.
func (w *Writer) Meta(m Meta) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.state(); err != nil {
		return err
	}
	if w.start == noTime {
		w.start = m.Start
	}
	d, err := w.define(TypeMeta, m, 1, w.defs.meta, nil)
	if err == nil {
		w.defs.meta = d
	}
	return err
}

// Process says how a process is probed, before its first mark, and again when that changed.
func (w *Writer) Process(p Process) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.state(); err != nil {
		return err
	}
	var old *definition
	i := slices.IndexFunc(w.defs.procs, func(d *processDef) bool { return d.pid == p.PID })
	if i >= 0 && w.defs.procs[i].start != p.StartTime {
		// another process of the same number
		if err := w.flush(); err != nil {
			return err
		}
		w.forget(p.PID)
		i = -1
	}
	if i >= 0 {
		old = &w.defs.procs[i].definition
	}
	// Marks name sites of the latest definition: those that are buffered mean the old one.
	d, err := w.define(TypeProcess, p, 1, old, w.flush)
	if err != nil {
		return err
	}
	if i < 0 {
		w.defs.procs = append(w.defs.procs, &processDef{definition: *d, pid: p.PID, start: p.StartTime})
	} else if d != old {
		w.defs.procs[i].definition = *d
	}
	return nil
}

// Threads tells threads that were seen or that changed their comm. Those told before
// stay known.
func (w *Writer) Threads(ts []Thread) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.state(); err != nil {
		return err
	}
	d := &w.defs
	var fresh []Thread
	for _, t := range ts {
		k := threadKey{t.PID, t.TID}
		if i, ok := d.threadAt[k]; ok {
			if d.threads[i] == t {
				continue
			}
			d.threads[i] = t
		} else {
			if len(d.threads) >= maxThreads {
				d.threads = d.threads[:0]
				clear(d.threadAt)
			}
			d.threadAt[k] = len(d.threads)
			d.threads = append(d.threads, t)
		}
		fresh = append(fresh, t)
	}
	if len(fresh) > 0 && len(fresh) == len(d.threads) {
		list, err := w.define(TypeThreads, fresh, len(fresh), nil, nil)
		d.list = list
		return err
	}
	for part := range slices.Chunk(fresh, maxThreads) {
		d.list = nil
		if err := w.json(TypeThreads, part, len(part), w.now(), w.now()); err != nil {
			return err
		}
	}
	return nil
}

// Shape defines a graph's shape, before the first mark that names it, and again when more
// of it is known. It fails, without ending the recording, on a shape whose numbers do not
// fit together.
func (w *Writer) Shape(s *Shape) error {
	if err := s.check(); err != nil {
		return fmt.Errorf("shape %#x of process %d: %w", s.ID, s.PID, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.state(); err != nil {
		return err
	}
	k := shapeKey{s.PID, s.ID}
	old := w.defs.shapes[k]
	var replaces func() error
	if old != nil {
		replaces = w.flush // marks that are buffered mean the old one
	}
	d, err := w.define(TypeShape, s, len(s.Nodes), old, replaces)
	if err != nil || d == old {
		return err
	}
	if old != nil {
		w.defs.shapesMem -= len(old.stored)
	}
	w.defs.shapes[k] = d
	w.defs.shapesMem += len(d.stored)
	w.defs.trim()
	return nil
}

// trim lets go of packed shapes that were not used in the longest time.
func (d *definitions) trim() {
	for d.shapesMem > shapeCache {
		var oldest *definition
		for _, s := range d.shapes {
			if s.stored != nil && (oldest == nil || s.seg < oldest.seg || s.seg == oldest.seg && s.off < oldest.off) {
				oldest = s
			}
		}
		if oldest == nil {
			return
		}
		d.shapesMem -= len(oldest.stored)
		oldest.stored = nil
	}
}

// shapesOf repeats the shapes that marks name and that do not stand in this segment.
func (w *Writer) shapesOf(ms []Mark) error {
	if err := w.state(); err != nil {
		return err
	}
	for i := range ms {
		if ms[i].Shape == 0 {
			continue
		}
		if err := w.again(w.defs.shapes[shapeKey{ms[i].PID, ms[i].Shape}]); err != nil {
			return err
		}
	}
	return nil
}

// check says whether the shape's numbers fit together, so that a reader can rely on them.
func (s *Shape) check() error {
	n := len(s.Nodes)
	if s.NNodes < 0 || s.NNodes > n {
		return fmt.Errorf("it has %d nodes of %d tensors", s.NNodes, n)
	}
	for i := range s.Nodes {
		t := &s.Nodes[i]
		if int(t.ViewSrc) < -1 || int(t.ViewSrc) >= n {
			return fmt.Errorf("tensor %d is a view of number %d of %d", i, t.ViewSrc, n)
		}
		for _, src := range t.Src {
			if int(src) < -1 || int(src) >= n {
				return fmt.Errorf("tensor %d has source %d of %d", i, src, n)
			}
		}
	}
	return nil
}

// Loss tells a span that was not fully seen.
func (w *Writer) Loss(l Loss) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.state(); err != nil {
		return err
	}
	return w.json(TypeLoss, l, 1, l.Start, l.End)
}

// Exit tells that a process ended. Its events should have been passed in before.
func (w *Writer) Exit(e Exit) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.state(); err != nil {
		return err
	}
	if err := w.flush(); err != nil {
		return err
	}
	for _, p := range w.defs.procs {
		if p.pid == e.PID && !p.exited {
			p.exited, p.gone = true, w.defs.seg
		}
	}
	return w.json(TypeExit, e, 1, e.Time, e.Time)
}
