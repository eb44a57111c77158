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
	full := sampleTrace(t)
	hs, offs := blocksOf(t, full)
	segments := 0
	for i, e := range hs {
		if e.Flags&flagSegment == 0 {
			continue
		}
		segments++
		r := from(t, full, offs[i])
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
					t.Errorf("segment at %d: a mark before its definitions", offs[i])
				}
			}
		}
		if len(c.Metas) != 1 || len(c.Procs) != 1 || len(c.Threads) != 2 || len(c.Shapes) != 1 ||
			len(c.Ends) != 1 {
			t.Errorf("segment at %d: %d metas, %d processes, %d threads, %d shapes, %d ends", offs[i],
				len(c.Metas), len(c.Procs), len(c.Threads), len(c.Shapes), len(c.Ends))
		}
	}
	if segments != 3 {
		t.Errorf("%d segments", segments)
	}
}

// from reads a trace as if its blocks before an offset were not there.
func from(t *testing.T, b []byte, off int) *Reader {
	return openBytes(t, append(bytes.Clone(b[:fileHeaderSize]), b[off:]...))
}

func TestRepeatedDefinitionsComeOnce(t *testing.T) {
	full := sampleTrace(t)
	r := openBytes(t, full)
	c := collect(t, r)
	if len(c.Metas) != 1 || len(c.Procs) != 1 || len(c.Threads) > 4 || len(c.Shapes) != 1 {
		t.Errorf("%d metas, %d processes, %d threads, %d shapes", len(c.Metas), len(c.Procs), len(c.Threads),
			len(c.Shapes))
	}
	r = openBytes(t, full)
	r.Repeats = true
	if c := collect(t, r); len(c.Metas) != 3 || len(c.Procs) != 3 || len(c.Shapes) != 3 {
		t.Errorf("with repeats: %d metas, %d processes, %d shapes", len(c.Metas), len(c.Procs), len(c.Shapes))
	}
}

// A process that ended is repeated for one segment more, another one with its number is new.
func TestDefinitionsThatChange(t *testing.T) {
	var buf bytes.Buffer
	w := NewWriter(&buf)
	at := func(s int64) { must(t, w.Drain(s*second)) }
	p := sampleProcess(7)
	must(t, w.Meta(sampleMeta()), w.Process(p), w.Process(p),
		w.Threads([]Thread{{PID: 7, TID: 7, Comm: "a"}}), w.Threads([]Thread{{PID: 7, TID: 7, Comm: "a"}}),
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
		"|meta", "process", "threads", "exit", "|meta", "process", "threads", "|meta", "marks", "process",
		"shape", "end"}
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
	b, err := os.ReadFile(path)
	must(t, err)
	hs, offs := blocksOf(t, b)
	last := len(hs) - 1
	for hs[last].Flags&flagSegment == 0 {
		last--
	}
	if c := collect(t, from(t, b, offs[last])); hs[last].First != 110*second || len(c.Shapes) != 10 {
		t.Errorf("%d shapes from %d on", len(c.Shapes), hs[last].First)
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
