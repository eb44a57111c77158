// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/profinfer/profinfer/internal/safeopen"
)

const (
	defaultRepeat = 5 * time.Second
	// Buffered data is written at this age, by the wall clock or by watermarks: if the caller drains twice
	// per second, all but the last second survives a kill.
	flushAfter = 400 * time.Millisecond
	// Records are cut into blocks of about this many bytes, before packing.
	cutBytes = 192 << 10
	cutCount = 1 << 16
	// After this many bytes of records a drain is written at once, so that a reader that sorts between
	// watermarks needs little memory.
	drainBytes = 1 << 20
	// encode this many records before looking at sizes
	addChunk = 1024
)

// Writer writes a recording. Its methods are safe for concurrent use; none starts a goroutine. It does not
// keep the slices and records passed in.
//
// The first failed write ends the recording: the file consists of complete blocks, and every further call
// returns the same [WriteError].
type Writer struct {
	// Repeat is the time in the recording between two segments, that is, points at which a reader may start.
	// 0 means 5 s. Set it before the first record.
	Repeat time.Duration

	mu     sync.Mutex
	file   // being written
	err    error
	closed bool

	at        *safeopen.Place // of the file; nil: Rotate cannot rename it
	mode      fs.FileMode     // of its files
	force     bool
	fs        names
	part      int // number of the file in the recording, from 1
	partStart int64
	held      *held    // an older recording still has the name
	older     []*place // the previous files, oldest first
	before    totals   // in the previous files
	growth    growth
	meta      []byte // as it was passed in

	enc *zstd.Encoder
	raw []byte // payload before packing
	out []byte // block as it is written

	hits    hitEncoder
	marks   markEncoder
	seqs    seqEncoder
	sched   schedEncoder
	samples sampleEncoder
	faults  faultEncoder
	experts expertEncoder

	oldest     time.Time // when the oldest buffered data arrived; zero: nothing is buffered
	pending    int64     // watermark to be written; noTime: none
	watermark  int64     // latest watermark reported
	drained    int64     // latest watermark written
	sinceDrain int       // bytes of records written since then
	latest     int64     // latest event time reported
	kept       int64     // latest event time or watermark written
	start      int64     // of the recording

	segStart int64 // noTime: unknown yet
	defs     definitions
}

// file is one file of a recording, or a stream, as far as it has been written.
type file struct {
	w       io.Writer
	f       *os.File // not nil: w is this regular file
	name    string
	place   *place // of its definitions
	pos     int64  // bytes written
	seq     uint32
	broken  bool // an incomplete block is at the end and cannot be removed
	segFlag bool // the next block begins a segment
	events  bool // it contains records
	told    totals
}

func newFile(w io.Writer, name string) file {
	return file{w: w, name: name, place: &place{}, segFlag: true}
}

const noTime = math.MinInt64

// NewWriter begins a recording on w, which receives each block in one call. Nothing is written before the
// first block. Close does not close w.
func NewWriter(w io.Writer) *Writer {
	tw := &Writer{file: newFile(w, "the trace"), part: 1, pending: noTime, watermark: noTime, drained: noTime,
		latest: noTime, kept: noTime, start: noTime, segStart: noTime}
	if f, ok := w.(interface{ Name() string }); ok {
		tw.name = f.Name()
	}
	tw.hits.columns = newColumns(hitColumns)
	tw.marks.columns = newColumns(markColumns)
	tw.seqs.columns = newColumns(seqColumns)
	tw.sched = newSchedEncoder()
	tw.samples = newSampleEncoder()
	tw.faults = newFaultEncoder()
	tw.experts = newExpertEncoder()
	tw.defs.init()
	return tw
}

// header writes the file's header, once.
func (w *Writer) header() error {
	if w.pos > 0 || w.err != nil {
		return w.err
	}
	h := FileHeader{Major: Major, Minor: Minor}
	n, err := w.w.Write(h.append(nil))
	if err != nil {
		return w.fail(n, err)
	}
	w.pos = fileHeaderSize
	return nil
}

func full(c *columns) bool { return c.count >= cutCount || c.count >= addChunk && c.size() >= cutBytes }

// add buffers records in chunks and cuts blocks as they fill. The writer must be locked.
func add[T any](w *Writer, t Type, rs []T, c *columns, enc func([]T), reset func()) error {
	if err := w.state(); err != nil || len(rs) == 0 {
		return err
	}
	w.touch()
	for len(rs) > 0 {
		n := min(len(rs), addChunk)
		enc(rs[:n])
		rs = rs[n:]
		if full(c) {
			if err := w.bulk(t, c, reset); err != nil {
				return err
			}
		}
	}
	if c.count > 0 {
		w.latest = max(w.latest, c.last)
	}
	return w.tick()
}

// Hits writes operator-level events, in any order of time.
func (w *Writer) Hits(hs []Hit) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state() == nil {
		w.told.hits += uint64(len(hs))
		var last threadKey
		for i := range hs {
			if hs[i].TID != last.tid {
				last = threadKey{hs[i].PID, hs[i].TID}
				w.defs.ran(last)
			}
		}
	}
	return add(w, TypeHits, hs, &w.hits.columns, w.hits.add, w.hits.reset)
}

// Marks writes boundary events of steps and graphs. Shapes that they refer to should be defined before, with
// Shape.
func (w *Writer) Marks(ms []Mark) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.shapesOf(ms); err != nil {
		return err
	}
	for i := range ms {
		w.defs.ran(threadKey{ms[i].PID, ms[i].TID})
	}
	return add(w, TypeMarks, ms, &w.marks.columns, w.marks.add, w.marks.reset)
}

// StepSeqs writes the sequences of steps.
func (w *Writer) StepSeqs(ss []StepSeq) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return add(w, TypeStepSeqs, ss, &w.seqs.columns, w.seqs.add, w.seqs.reset)
}

// Sched writes scheduler events. Comms are cut at 255 bytes.
func (w *Writer) Sched(ss []Sched) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return add(w, TypeSched, ss, &w.sched.columns, w.sched.add, w.sched.reset)
}

// state returns an error if no more can be written.
func (w *Writer) state() error {
	if w.err == nil && w.closed {
		return fmt.Errorf("writing %s: the recording is closed", w.name)
	}
	return w.err
}

// touch notes that something was buffered.
func (w *Writer) touch() {
	if w.oldest.IsZero() {
		w.oldest = time.Now()
	}
}

// tick writes what is due.
func (w *Writer) tick() error {
	if !w.oldest.IsZero() && time.Since(w.oldest) >= flushAfter ||
		w.pending != noTime && (w.drained == noTime || w.pending-w.drained >= int64(flushAfter) ||
			w.sinceDrain >= drainBytes) {
		if err := w.flush(); err != nil {
			return err
		}
	}
	// Without watermarks, event times drive the segments, with a longer delay.
	t, after := w.watermark, w.repeat()
	if t == noTime {
		t, after = w.latest, 2*after
	}
	switch {
	case t == noTime:
		return nil
	case w.segStart == noTime || t < w.segStart: // the first watermark may be earlier than a hit
		w.segStart = t
		return nil
	case t-w.segStart < after:
		return nil
	}
	if err := w.flush(); err != nil {
		return err
	}
	w.segStart = t
	return w.segment()
}

func (w *Writer) repeat() int64 {
	if w.Repeat <= 0 {
		return int64(defaultRepeat)
	}
	return int64(w.Repeat)
}

// flush writes all buffered records, and then the watermark.
func (w *Writer) flush() error {
	w.oldest = time.Time{}
	if err := w.bulk(TypeMarks, &w.marks.columns, w.marks.reset); err != nil {
		return err
	}
	if err := w.bulk(TypeStepSeqs, &w.seqs.columns, w.seqs.reset); err != nil {
		return err
	}
	if err := w.bulk(TypeHits, &w.hits.columns, w.hits.reset); err != nil {
		return err
	}
	if err := w.bulk(TypeSched, &w.sched.columns, w.sched.reset); err != nil {
		return err
	}
	if err := w.bulk(TypeSamples, &w.samples.columns, w.samples.reset); err != nil {
		return err
	}
	if err := w.bulk(TypeFaults, &w.faults.columns, w.faults.reset); err != nil {
		return err
	}
	if err := w.bulk(TypeExperts, &w.experts.columns, w.experts.reset); err != nil {
		return err
	}
	if w.pending == noTime {
		return nil
	}
	mark := w.pending
	w.pending = noTime
	if err := w.json(TypeDrain, drain{mark}, 1, mark, mark); err != nil {
		return err
	}
	w.drained, w.sinceDrain = mark, 0
	w.kept = mark
	return nil
}

type drain struct {
	Watermark int64 `json:"watermark_ns"`
}

// Drain reports that all events with Time < watermark were passed in. Call it after each drain of the probes'
// rings, at least once per second: it determines when data reaches the file. A watermark that is not later
// than the previous one is ignored.
func (w *Writer) Drain(watermark int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.state(); err != nil {
		return err
	}
	if watermark > w.watermark {
		w.watermark, w.pending = watermark, watermark
		w.touch()
	}
	return w.tick()
}

// Flush writes all buffered data to the file.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.state(); err != nil {
		return err
	}
	return w.flush()
}

// Close ends the recording normally. After a failed write it still closes the file, notes in it what is
// missing if there is room, and returns the error.
func (w *Writer) Close(e End) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return w.err
	}
	w.closed = true
	e.Hits, e.Lost = less(e.Hits, w.before.hits), less(e.Lost, w.before.lost)
	if w.err == nil && w.flush() == nil {
		w.finish(e)
	}
	if w.err != nil {
		w.epilogue(e)
	}
	w.defs = definitions{}
	if w.enc != nil {
		w.enc.Close()
	}
	w.settle()
	if w.f != nil {
		if err := w.f.Close(); err != nil && w.err == nil {
			w.fail(0, err)
		}
	}
	for _, p := range w.older {
		if err := p.f.Close(); err != nil && w.err == nil {
			w.fail(0, err)
		}
	}
	w.older = nil
	if w.at != nil {
		w.at.Close()
	}
	return w.err
}

// finish writes what ends a file.
func (w *Writer) finish(e End) error {
	return w.json(TypeEnd, e, 1, e.Time, e.Time)
}

// Size returns the bytes written so far, of the current file.
func (w *Writer) Size() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pos
}

// Err returns the error that ended the recording, nil if none did.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}
