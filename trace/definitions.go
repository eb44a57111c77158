// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"hash/maphash"
	"os"
	"slices"
)

const (
	// maxThreads bounds the threads that are repeated; when there are more, the list starts anew.
	maxThreads = 1 << 15
	// With more threads than fewThreads, those that were inactive for this many segments are no longer
	// repeated: some engines start new ones for every graph.
	fewThreads  = 1024
	idleThreads = 12
)

// definition is a block that was written and may have to be repeated.
type definition struct {
	h      blockHeader
	stored []byte // its stored payload; nil: only in a file, at off
	at     *place // the file it was last written to
	off    int64  // in that file
	hash   uint64 // of the payload before packing
	seg    uint32 // the last segment in which it was written
}

// place is a file from which definitions can be read back.
type place struct {
	f    *os.File // nil: not open, or the file being written
	gone bool     // it has been removed
}

type processDef struct {
	definition
	pid    int32
	start  uint64
	exited bool
	gone   uint32 // segment in which it exited
}

type threadKey struct{ pid, tid int32 }

// definitions is what a new segment begins with.
type definitions struct {
	seed      maphash.Seed
	seg       uint32
	meta      *definition
	procs     []*processDef
	threads   []Thread
	threadSeg []uint32 // segment in which each of threads was last active
	threadAt  map[threadKey]int
	list      *definition // the full list of threads as last written; nil: changed since
	watches   map[int32]Watch
	shapeBook
}

func (d *definitions) init() {
	*d = definitions{seed: maphash.MakeSeed(), threadAt: map[threadKey]int{}, shapeBook: newShapeBook()}
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

// now is the timestamp of definitions: every later event in the file has a later time, if the caller reports
// watermarks.
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

// define writes v as a definition and returns what is needed to repeat it. If old has the same content, it is
// written again only if that is due in this segment.
func (w *Writer) define(t Type, v any, count int, old *definition, replaces func() error) (*definition,
	error) {
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
	d := &definition{h: blockHeader{Type: t, Count: uint32(count), First: w.now(), Last: w.now()}, hash: hash,
		seg: w.defs.seg, at: w.place}
	if err := w.packDefinition(&d.h); err != nil {
		return nil, err
	}
	d.off = w.next()
	if err := w.emit(&d.h); err != nil {
		return nil, err
	}
	d.stored = append([]byte(nil), w.out[blockHeaderSize:]...)
	return d, nil
}

// next is the position of the next block.
func (w *Writer) next() int64 { return max(w.pos, fileHeaderSize) }

// again repeats d if it is not in this segment yet.
func (w *Writer) again(d *definition) error {
	if d == nil || d.seg == w.defs.seg {
		return nil
	}
	w.out = resize(w.out, blockHeaderSize)
	if d.stored != nil {
		w.out = append(w.out, d.stored...)
	} else if !w.readBack(d) {
		return nil
	}
	h := d.h
	h.First, h.Last = w.now(), w.now()
	if d.at == w.place {
		h.Flags |= flagRepeat
	} else { // it is new in this file
		d.at, d.off = w.place, w.next()
	}
	d.seg = w.defs.seg
	return w.emit(&h)
}

// readBack reads the stored payload of d into w.out, after the space for a header.
func (w *Writer) readBack(d *definition) bool {
	f := d.at.f
	if d.at == w.place {
		f = w.f
	}
	if f == nil {
		return false
	}
	w.out = slices.Grow(w.out, int(d.h.Stored))[:blockHeaderSize+int(d.h.Stored)]
	_, err := f.ReadAt(w.out[blockHeaderSize:], d.off+blockHeaderSize)
	return err == nil && checksum(w.out[blockHeaderSize:]) == d.h.Sum
}

// shapeAgain repeats a shape that a mark refers to if it is not in this segment yet.
func (w *Writer) shapeAgain(s *shapeDef) error {
	d := &w.defs
	d.use(s)
	if s.seg == d.seg {
		return nil
	}
	if err := w.again(&s.definition); err != nil {
		return err
	}
	switch {
	case s.stored != nil:
	case s.seg == d.seg: // it was read back
		d.warm(s, w.out[blockHeaderSize:])
	case w.f != nil:
		d.forget(s)
	}
	return nil // a stream has it once
}

// segment begins a new segment: what a reader needs to start here.
func (w *Writer) segment() error {
	w.defs.seg++
	w.segFlag = true
	if err := w.again(w.defs.meta); err != nil {
		return err
	}
	return w.inForce()
}

// inForce repeats the definitions that follow a segment's meta block.
func (w *Writer) inForce() error {
	d := &w.defs
	// Exited processes are kept for one more segment: events from them may still arrive.
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
	// What else a reader that starts here needs: it is written to each segment and file.
	if err := w.rewatch(); err != nil {
		return err
	}
	d.retire()
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

// forget drops everything kept about a process.
func (w *Writer) forget(pid int32) {
	d := &w.defs
	delete(d.watches, pid)
	d.procs = slices.DeleteFunc(slices.Clone(d.procs), func(p *processDef) bool { return p.pid == pid })
	for k, s := range d.shapes {
		if k.pid == pid {
			d.drop(s)
		}
	}
	d.keepThreads(func(i int) bool { return d.threads[i].PID != pid })
}

// keepThreads removes the threads for which keep is false.
func (d *definitions) keepThreads(keep func(i int) bool) {
	n := 0
	for i, t := range d.threads {
		if keep(i) {
			d.threads[n], d.threadSeg[n] = t, d.threadSeg[i]
			n++
		}
	}
	if n == len(d.threads) {
		return
	}
	clear(d.threads[n:])
	d.threads, d.threadSeg = d.threads[:n], d.threadSeg[:n]
	d.list = nil
	clear(d.threadAt)
	for i, t := range d.threads {
		d.threadAt[threadKey{t.PID, t.TID}] = i
	}
}

// retire removes threads that have long been inactive, if there are many.
func (d *definitions) retire() {
	if len(d.threads) > fewThreads {
		d.keepThreads(func(i int) bool { return d.seg-d.threadSeg[i] <= idleThreads })
	}
}

// ran notes that a thread was active.
func (d *definitions) ran(k threadKey) {
	if i, ok := d.threadAt[k]; ok {
		d.threadSeg[i] = d.seg
	}
}

// Meta describes the recording. It is the first block, and is written again when something in it becomes
// known.
func (w *Writer) Meta(m Meta) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.state(); err != nil {
		return err
	}
	if w.start == noTime {
		w.start = m.Start
	}
	d, err := w.define(TypeMeta, w.partOf(m), 1, w.defs.meta, nil)
	if err != nil {
		return err
	}
	w.defs.meta = d
	w.meta, err = json.Marshal(m)
	return err
}

// Process writes how a process is probed, before its first mark, and again when that has changed.
func (w *Writer) Process(p Process) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.state(); err != nil {
		return err
	}
	var old *definition
	i := slices.IndexFunc(w.defs.procs, func(d *processDef) bool { return d.pid == p.PID })
	if i >= 0 && w.defs.procs[i].start != p.StartTime {
		// another process with the same ID
		if err := w.flush(); err != nil {
			return err
		}
		w.forget(p.PID)
		i = -1
	}
	if i >= 0 {
		old = &w.defs.procs[i].definition
	}
	// Marks refer to sites of the latest definition: buffered ones mean the previous one.
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

// Threads writes threads that were seen or that changed their comm. Those written before stay known.
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
			d.threads[i], d.threadSeg[i] = t, d.seg
		} else {
			if len(d.threads) >= maxThreads {
				d.threads, d.threadSeg = d.threads[:0], d.threadSeg[:0]
				clear(d.threadAt)
			}
			d.threadAt[k] = len(d.threads)
			d.threads, d.threadSeg = append(d.threads, t), append(d.threadSeg, d.seg)
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

// Shape defines a graph's shape, before the first mark that refers to it, and again when more of it is known.
// It fails, without ending the recording, on a shape with inconsistent numbers.
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
	var old *definition
	var replaces func() error
	known := w.defs.shapes[k]
	if known != nil {
		old = &known.definition
		replaces = w.flush // buffered marks mean the previous one
	}
	d, err := w.define(TypeShape, s, len(s.Nodes), old, replaces)
	switch {
	case err != nil:
		return err
	case d != old:
		w.defs.put(k, d)
	case known.stored == nil && known.seg != w.defs.seg: // it could not be read back
		if d, err = w.define(TypeShape, s, len(s.Nodes), nil, nil); err != nil {
			return err
		}
		w.defs.put(k, d)
	default:
		w.defs.use(known)
	}
	return nil
}

// shapesOf repeats the shapes that marks refer to and that are not in this segment.
func (w *Writer) shapesOf(ms []Mark) error {
	if err := w.state(); err != nil {
		return err
	}
	for i := range ms {
		if ms[i].Shape == 0 {
			continue
		}
		if s := w.defs.shapes[shapeKey{ms[i].PID, ms[i].Shape}]; s != nil {
			if err := w.shapeAgain(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// check verifies that the shape's numbers are consistent, so that a reader can rely on them.
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
	for i, nodes := range s.Order {
		for _, node := range nodes {
			if node < 0 || int(node) >= s.NNodes {
				return fmt.Errorf("barrier arrival %d ends node %d of %d", i, node, s.NNodes)
			}
		}
	}
	return nil
}

// Loss writes a time span that was not completely observed.
func (w *Writer) Loss(l Loss) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.state(); err != nil {
		return err
	}
	if err := w.json(TypeLoss, l, 1, l.Start, l.End); err != nil {
		return err
	}
	if l.Why == WhyLost && l.What == LostHits {
		w.told.lost += l.Events
	}
	return nil
}

// Exit writes that a process ended. Its events should have been passed in before.
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
