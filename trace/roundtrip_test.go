// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"testing"
)

func TestRoundTripOfRandomRecords(t *testing.T) {
	for seed := range uint64(20) {
		r := newRandom(seed)
		var buf bytes.Buffer
		w := NewWriter(&buf)
		var want content
		for range 1 + r.IntN(30) {
			n := r.IntN(3000)
			switch r.IntN(6) {
			case 0:
				v := r.hits(n)
				want.Hits = append(want.Hits, v...)
				must(t, w.Hits(v))
			case 1:
				v := r.marks(n)
				want.Marks = append(want.Marks, v...)
				must(t, w.Marks(v))
			case 2:
				v := r.seqs(n)
				want.Seqs = append(want.Seqs, v...)
				must(t, w.StepSeqs(v))
			case 3:
				v := r.sched(n)
				want.Sched = append(want.Sched, v...)
				must(t, w.Sched(v))
			case 4:
				must(t, w.Drain(int64(r.num())))
			case 5:
				must(t, w.Flush())
			}
		}
		must(t, w.Close(End{}))
		rd := openBytes(t, buf.Bytes())
		got := collect(t, rd)
		equal(t, "hits", got.Hits, want.Hits)
		equal(t, "marks", got.Marks, want.Marks)
		equal(t, "seqs", got.Seqs, want.Seqs)
		equal(t, "sched", got.Sched, want.Sched)
		if p := rd.Problems(); p != nil {
			t.Fatal(p)
		}
	}
}

func TestManyRecordsAreCutIntoBlocks(t *testing.T) {
	var buf bytes.Buffer
	w := NewWriter(&buf)
	hs := newRandom(1).hits(200_000)
	must(t, w.Hits(hs), w.Close(End{}))
	hdrs, _ := blocksOf(t, buf.Bytes())
	n := 0
	for _, h := range hdrs {
		if h.Type == TypeHits {
			n++
			if h.Raw > 256<<10 {
				t.Errorf("a block of %d bytes", h.Raw)
			}
		}
	}
	if n < 2 {
		t.Fatalf("%d blocks", n)
	}
	equal(t, "hits", collect(t, openBytes(t, buf.Bytes())).Hits, hs)
}

func TestEveryTypeThroughAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.pinf")
	must(t, os.WriteFile(path, append([]byte(fileMagic), bytes.Repeat([]byte("older and longer"), 10000)...),
		0o600))
	w, err := Create(path)
	must(t, err)
	writeSample(t, w)
	r, err := Open(path)
	must(t, err)
	defer r.Close()
	c := collect(t, r)
	if p := r.Problems(); p != nil {
		t.Fatal(p)
	}
	if !reflect.DeepEqual(c.Metas, []Meta{sampleMeta()}) {
		t.Errorf("meta: %+v", c.Metas)
	}
	if !reflect.DeepEqual(c.Procs, []Process{sampleProcess(42)}) {
		t.Errorf("process: %+v", c.Procs)
	}
	if !reflect.DeepEqual(c.Shapes, []Shape{*sampleShape(42, 0xfeedface12345678, 5)}) {
		t.Errorf("shapes: %+v", c.Shapes)
	}
	if len(c.Hits) != 144 || len(c.Marks) != 48 || len(c.Seqs) != 12 || len(c.Sched) != 12 {
		t.Errorf("%d hits, %d marks, %d seqs, %d sched", len(c.Hits), len(c.Marks), len(c.Seqs), len(c.Sched))
	}
	if len(c.Losses) != 1 || c.Losses[0].Events != 7 || len(c.Exits) != 1 || len(c.Ends) != 1 ||
		c.Ends[0].Hits != 144 {
		t.Errorf("losses %v exits %v ends %v", c.Losses, c.Exits, c.Ends)
	}
	if st, _ := os.Stat(path); st.Size() != w.Size() {
		t.Errorf("size %d, writer says %d", st.Size(), w.Size())
	}
}

// Between two drains stand exactly the events that the watermarks promise.
func TestWatermarksHold(t *testing.T) {
	r := openBytes(t, sampleTrace(t))
	low := int64(0)
	for {
		b, err := r.Next()
		if err != nil {
			break
		}
		if b.Type == TypeDrain {
			if b.Watermark <= low {
				t.Errorf("watermark %d after %d", b.Watermark, low)
			}
			low = b.Watermark
			continue
		}
		for _, h := range b.Hits {
			if h.Time < low {
				t.Errorf("hit at %d after watermark %d", h.Time, low)
			}
		}
		for _, m := range b.Marks {
			if m.Time < low {
				t.Errorf("mark at %d after watermark %d", m.Time, low)
			}
		}
	}
	if low == 0 {
		t.Error("no drain")
	}
}

// Without drains, too, nothing stays in memory for long.
func TestOldRecordsAreWritten(t *testing.T) {
	w := NewWriter(discard{})
	must(t, w.Hits(make([]Hit, 1)))
	if w.Size() != 0 {
		t.Fatal("written at once")
	}
	w.oldest = w.oldest.Add(-flushAfter)
	must(t, w.Hits(make([]Hit, 1)))
	if w.Size() == 0 || w.hits.count != 0 {
		t.Error("not written")
	}
}

func TestWant(t *testing.T) {
	r := openBytes(t, sampleTrace(t))
	r.Want(TypeMarks, TypeEnd)
	c := collect(t, r)
	if len(c.Marks) != 48 || len(c.Ends) != 1 || len(c.Hits) != 0 || len(c.Metas) != 0 {
		t.Errorf("%d marks, %d ends, %d hits, %d metas", len(c.Marks), len(c.Ends), len(c.Hits), len(c.Metas))
	}
	if r.Torn() != "" || r.Problems() != nil {
		t.Error(r.Problems())
	}
}

func TestFromAPipe(t *testing.T) {
	full := sampleTrace(t)
	pr, pw, err := os.Pipe()
	must(t, err)
	defer pr.Close()
	go func() {
		pw.Write(full)
		pw.Close()
	}()
	r, err := NewReader(pr)
	must(t, err)
	r.Want(TypeHits)
	if c := collect(t, r); len(c.Hits) != 144 {
		t.Errorf("%d hits", len(c.Hits))
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	w := NewWriter(discard{})
	hs, ms, ss := benchHits(4096), newRandom(2).marks(64), newRandom(3).sched(64)
	for i := range ms {
		ms[i].Shape = 0
	}
	now := int64(0)
	round := func() {
		now += second / 10
		must(t, w.Hits(hs), w.Marks(ms), w.Sched(ss), w.Flush())
	}
	for range 50 {
		round()
	}
	if n := testing.AllocsPerRun(200, round); n > 1 {
		t.Errorf("%.1f allocations a round", n)
	}
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

func TestConcurrentCalls(t *testing.T) {
	var buf bytes.Buffer
	w := NewWriter(&buf)
	var wg sync.WaitGroup
	for g := range int64(4) {
		wg.Go(func() {
			for i := range int64(50) {
				at := 100*second + i*second/2 + g
				if err := errors.Join(w.Meta(sampleMeta()), w.Hits(make([]Hit, 10)),
					w.Shape(sampleShape(int32(g), 1, 3)),
					w.Marks([]Mark{{Time: at, PID: int32(g), Shape: 1}}), w.Drain(at)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	must(t, w.Close(End{}))
	r := openBytes(t, buf.Bytes())
	if c := collect(t, r); len(c.Hits) != 2000 || len(c.Marks) != 200 || len(c.Shapes) != 4 ||
		r.Problems() != nil {
		t.Errorf("%d hits, %d marks, %d shapes, %v", len(c.Hits), len(c.Marks), len(c.Shapes), r.Problems())
	}
}
