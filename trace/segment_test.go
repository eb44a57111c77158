// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func TestBeginInTheMiddle(t *testing.T) {
	r := openBytes(t, sampleTrace(t))
	es, err := r.Index()
	must(t, err)
	segments := 0
	for _, e := range es {
		if !e.Segment {
			continue
		}
		segments++
		must(t, r.SeekOffset(e.Offset))
		var c content
		for {
			b, err := r.Next()
			if err != nil {
				break
			}
			c.add(b)
			for _, m := range b.Marks {
				if m.Time < e.First && e.First > 100*second {
					t.Errorf("mark at %d in a segment from %d on", m.Time, e.First)
				}
				if m.Shape != 0 && (len(c.Shapes) == 0 || len(c.Metas) == 0 || len(c.Procs) == 0) {
					t.Errorf("segment at %d: a mark before its definitions", e.Offset)
				}
			}
		}
		if len(c.Metas) != 1 || len(c.Procs) != 1 || len(c.Threads) != 2 || len(c.Shapes) != 1 || len(c.Ends) != 1 {
			t.Errorf("segment at %d: %d metas, %d processes, %d threads, %d shapes, %d ends", e.Offset,
				len(c.Metas), len(c.Procs), len(c.Threads), len(c.Shapes), len(c.Ends))
		}
	}
	if segments != 3 {
		t.Errorf("%d segments", segments)
	}
	// By time.
	must(t, r.SeekTime(107*second))
	c := collect(t, r)
	if c.Segments != 2 || len(c.Marks) == 0 || c.Marks[0].Time > 107*second || c.Marks[0].Time < 104*second {
		t.Errorf("from 107 s: %d segments, first mark %v", c.Segments, c.Marks[0])
	}
	must(t, r.SeekTime(0))
	if c := collect(t, r); c.Segments != 3 {
		t.Errorf("from the start: %d segments", c.Segments)
	}
}

func TestRepeatedDefinitionsComeOnce(t *testing.T) {
	full := sampleTrace(t)
	r := openBytes(t, full)
	c := collect(t, r)
	if len(c.Metas) != 1 || len(c.Procs) != 1 || len(c.Threads) > 4 || len(c.Shapes) != 1 {
		t.Errorf("%d metas, %d processes, %d threads, %d shapes", len(c.Metas), len(c.Procs), len(c.Threads), len(c.Shapes))
	}
	r = openBytes(t, full)
	r.Repeats = true
	if c := collect(t, r); len(c.Metas) != 3 || len(c.Procs) != 3 || len(c.Shapes) != 3 {
		t.Errorf("with repeats: %d metas, %d processes, %d shapes", len(c.Metas), len(c.Procs), len(c.Shapes))
	}
}

func TestIndexIsWhatAScanFinds(t *testing.T) {
	full := sampleTrace(t)
	r := openBytes(t, full)
	footer, ok := r.footer()
	if !ok {
		t.Fatal("no footer")
	}
	must(t, r.SeekOffset(0))
	if scan := r.scan(); !reflect.DeepEqual(footer, scan) {
		t.Errorf("footer %v\nscan %v", footer, scan)
	}
	// Asking for the index does not move the reader.
	r = openBytes(t, full)
	for i := range 5 {
		b, err := r.Next()
		must(t, err)
		if b.Offset != footer[i].Offset || b.Type != footer[i].Type {
			t.Fatalf("block %d: %v at %d", i, b.Type, b.Offset)
		}
		es, err := r.Index()
		must(t, err)
		if len(es) != len(footer) {
			t.Fatalf("%d entries", len(es))
		}
	}
}

func TestIndexInParts(t *testing.T) {
	var buf bytes.Buffer
	w := NewWriter(&buf)
	const n = cutCount + 1000
	for i := range n {
		must(t, w.Loss(Loss{Start: int64(i), End: int64(i + 1)}))
	}
	must(t, w.Close(End{Time: n}))
	r := openBytes(t, buf.Bytes())
	es, ok := r.footer()
	if !ok || len(es) != n+1 {
		t.Fatalf("%v, %d entries", ok, len(es))
	}
	for i, e := range es[:n] {
		if e.First != int64(i) || e.Type != TypeLoss {
			t.Fatalf("entry %d: %+v", i, e)
		}
	}
	must(t, r.SeekOffset(0))
	if scan := r.scan(); !reflect.DeepEqual(scan, es) {
		t.Error("a scan finds other blocks")
	}
}

// A process that ended is repeated for one segment more, another one with its number is new.
func TestDefinitionsThatChange(t *testing.T) {
	var buf bytes.Buffer
	w := NewWriter(&buf)
	at := func(s int64) { must(t, w.Drain(s*second)) }
	p := sampleProcess(7)
	must(t, w.Meta(sampleMeta()), w.Process(p), w.Process(p), w.Threads([]Thread{{PID: 7, TID: 7, Comm: "a"}}), w.Threads([]Thread{{PID: 7, TID: 7, Comm: "a"}}),
		w.Shape(sampleShape(7, 1, 3)), w.Shape(sampleShape(7, 1, 3)))
	must(t, w.Marks([]Mark{{Time: 100 * second, PID: 7, Kind: MarkGraphBegin, Shape: 1}}))
	p.Warnings = []string{"a probe was lost"}
	must(t, w.Process(p)) // behind the mark
	must(t, w.Marks([]Mark{{Time: 101 * second, PID: 7, Kind: MarkGraphBegin, Shape: 1}}))
	must(t, w.Shape(sampleShape(7, 1, 4))) // behind the mark
	at(102)
	at(108)
	must(t, w.Exit(Exit{PID: 7, Time: 109 * second}))
	at(114)
	at(120)
	must(t, w.Marks([]Mark{{Time: 121 * second, PID: 7, Kind: MarkGraphBegin, Shape: 1}}))
	p.StartTime++
	must(t, w.Process(p), w.Shape(sampleShape(7, 1, 4)), w.Close(End{}))
	r := openBytes(t, buf.Bytes())
	r.Repeats = true
	var order []string
	for {
		b, err := r.Next()
		if err != nil {
			break
		}
		s := b.Type.String()
		if b.Segment {
			s = "|" + s
		}
		if b.Type != TypeDrain {
			order = append(order, s)
		}
	}
	want := []string{"|meta", "process", "threads", "shape", "marks", "process", "marks", "shape",
		"|meta", "process", "threads", "exit", "|meta", "process", "threads", "|meta", "marks", "process", "shape", "end"}
	if !reflect.DeepEqual(order, want) {
		t.Errorf("got  %v\nwant %v", order, want)
	}
}

func TestShapesBeyondTheCacheAreReadBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.pinf")
	w, err := Create(path)
	must(t, err)
	must(t, w.Meta(sampleMeta()))
	for i := range uint64(10) {
		must(t, w.Shape(sampleShape(1, i+1, 20)))
	}
	w.defs.shapesMem += shapeCache // as if there were more
	w.defs.trim()
	for _, d := range w.defs.shapes {
		if d.stored != nil {
			t.Fatal("not trimmed")
		}
	}
	must(t, w.Drain(100*second), w.Drain(110*second))
	for i := range uint64(10) {
		must(t, w.Marks([]Mark{{Time: 111 * second, PID: 1, Kind: MarkGraphBegin, Shape: i + 1}}))
	}
	must(t, w.Close(End{}))
	r, err := Open(path)
	must(t, err)
	defer r.Close()
	must(t, r.SeekTime(110*second))
	if c := collect(t, r); len(c.Shapes) != 10 || r.Problems() != nil {
		t.Errorf("%d shapes, %v", len(c.Shapes), r.Problems())
	}
	if err := w.Flush(); err == nil {
		t.Error("written after Close")
	}
}

func TestShapesThatDoNotFit(t *testing.T) {
	w := NewWriter(discard{})
	for name, change := range map[string]func(*Shape){
		"nodes":  func(s *Shape) { s.NNodes = 99 },
		"source": func(s *Shape) { s.Nodes[1].Src[0] = 99 },
		"view":   func(s *Shape) { s.Nodes[1].ViewSrc = -2 },
	} {
		s := sampleShape(1, 1, 3)
		change(s)
		if err := w.Shape(s); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	must(t, w.Shape(sampleShape(1, 1, 3)), w.Err())
}

func TestCreateRefuses(t *testing.T) {
	dir := t.TempDir()
	if _, err := Create(dir); err == nil {
		t.Error("wrote over a directory")
	}
	if _, err := Create(filepath.Join(dir, "none", "run.pinf")); err == nil {
		t.Error("wrote into a directory that is not there")
	}
	if _, err := os.Stat(os.DevNull); err == nil {
		if _, err := Create(os.DevNull); err == nil {
			t.Error("wrote over a device")
		}
	}
}

// A hit whose time is nonsense does not put off all later segments.
func TestTimesOutOfOrder(t *testing.T) {
	var buf bytes.Buffer
	w := NewWriter(&buf)
	must(t, w.Meta(sampleMeta()), w.Hits([]Hit{{Time: 1 << 62}}))
	for i := range int64(12) {
		must(t, w.Drain(100*second+i*second))
	}
	must(t, w.Close(End{}))
	if c := collect(t, openBytes(t, buf.Bytes())); c.Segments != 3 {
		t.Errorf("%d segments", c.Segments)
	}
}

// Watermarks follow many records at once, so that a reader that sorts needs little memory.
func TestDrainAfterManyRecords(t *testing.T) {
	var buf bytes.Buffer
	w := NewWriter(&buf)
	for i := range int64(10) {
		must(t, w.Hits(newRandom(uint64(i)).hits(100_000)), w.Drain(100*second+i*second/1000))
	}
	must(t, w.Close(End{}))
	if c := collect(t, openBytes(t, buf.Bytes())); len(c.Drains) < 8 {
		t.Errorf("%d watermarks", len(c.Drains))
	}
}
