// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// long feeds a writer with what a recording of hours has: shapes come and come again, in no order.
type long struct {
	w    *Writer
	n    int64 // drains so far
	sent content
}

const longPID = 42

func startLong(t testing.TB, w *Writer) *long {
	t.Helper()
	must(t, w.Meta(sampleMeta()), w.Process(sampleProcess(longPID)),
		w.Threads([]Thread{{PID: longPID, TID: 42, Comm: "main"}, {PID: longPID, TID: 43, Comm: "worker"}}))
	return &long{w: w}
}

// drain is a tenth of a second: two steps, and an end that the next drain has the begin's rest of.
func (l *long) drain() error {
	at := 100*second + l.n*second/10
	l.n++
	id := uint64(1 + (l.n*7919)%37)
	var ms []Mark
	var ss []StepSeq
	var hs []Hit
	if l.n > 1 {
		ms = append(ms, Mark{Time: at, PID: longPID, TID: 42, Kind: MarkGraphEnd, Site: 1},
			Mark{Time: at + 1, PID: longPID, TID: 42, Kind: MarkStepEnd})
	}
	for i := range int64(2) {
		b := at + 1000 + i*second/20
		ms = append(ms, Mark{Time: b, PID: longPID, TID: 42, Kind: MarkStepBegin, Ctx: 5, NTokens: 1,
			Type: -1},
			Mark{Time: b + 1, PID: longPID, TID: 42, Kind: MarkGraphBegin, Site: 1, Graph: 6, Shape: id,
				NNodes: 5, Threads: 2})
		ss = append(ss, StepSeq{Time: b, TID: 42, NTokens: 1, Pos: int32(l.n), Outputs: 1})
		for op := range int64(5) {
			for th := range int32(2) {
				hs = append(hs, Hit{Time: b + 100*op + 20 + int64(th), Arg: 0x7f0000001000 + uint64(op)*336,
					PID: longPID, TID: 42 + th, CPU: uint16(th), Ith: uint16(th), Nth: 2, Kind: HitOpBegin},
					Hit{Time: b + 100*op + 90 + int64(th), Arg: uint64(l.n), PID: longPID, TID: 42 + th,
						CPU: uint16(th), Kind: HitOpEnd})
			}
		}
		if i == 0 { // the second one goes on into the next drain
			ms = append(ms, Mark{Time: b + 900, PID: longPID, TID: 42, Kind: MarkGraphEnd, Site: 1},
				Mark{Time: b + 901, PID: longPID, TID: 42, Kind: MarkStepEnd})
		}
	}
	sched := []Sched{{Time: at + 5, CPU: 1, Kind: SchedSwitch, PrevTID: 43, PrevPID: longPID,
		PrevComm: "worker", NextComm: "swapper/1"}}
	var err error
	if l.n <= 37 {
		err = l.w.Shape(sampleShape(longPID, id, 5))
	}
	err = errors.Join(err, l.w.StepSeqs(ss), l.w.Marks(ms), l.w.Hits(hs), l.w.Sched(sched))
	if err == nil {
		l.sent.Marks, l.sent.Seqs, l.sent.Hits, l.sent.Sched = append(l.sent.Marks, ms...),
			append(l.sent.Seqs, ss...), append(l.sent.Hits, hs...), append(l.sent.Sched, sched...)
		err = l.w.Drain(at + second/10)
	}
	return err
}

// readPart reads one file as a trace of its own, and checks that it is one.
func readPart(t testing.TB, path string) content {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	r := openBytes(t, b)
	var c content
	shapes, procs := map[uint64]bool{}, map[int32]bool{}
	for {
		blk, err := r.Next()
		if err == io.EOF {
			break
		}
		must(t, err)
		c.add(blk)
		switch {
		case blk.Shape != nil:
			shapes[blk.Shape.ID] = true
		case blk.Process != nil:
			procs[blk.Process.PID] = true
		}
		for _, m := range blk.Marks {
			if !procs[m.PID] || m.Shape != 0 && !shapes[m.Shape] {
				t.Fatalf("%s: a mark at %d before its process or shape %d", path, m.Time, m.Shape)
			}
		}
	}
	if p := r.Problems(); p != nil {
		t.Fatalf("%s: %v", path, p)
	}
	if len(c.Metas) == 0 || len(c.Threads) < 2 || c.Segments == 0 {
		t.Fatalf("%s: %d metas, %d threads, %d segments", path, len(c.Metas), len(c.Threads), c.Segments)
	}
	// What is marked as repeated does stand there already.
	hs, _ := blocksOf(t, b)
	seen := map[sameKey]bool{}
	for _, h := range hs {
		k := sameKey{h.Type, h.Sum, h.Raw, h.Stored}
		if h.Flags&flagRepeat != 0 && !seen[k] {
			t.Errorf("%s: a %v block is marked as repeated and is not", path, h.Type)
		}
		seen[k] = true
	}
	return c
}

// readParts reads all files of a recording, and checks how they follow each other.
func readParts(t testing.TB, path string) (all content, parts []content) {
	t.Helper()
	ps, err := Parts(path)
	must(t, err)
	for i, p := range ps {
		c := readPart(t, p)
		parts = append(parts, c)
		first := parts[0].Metas[0].Part()
		if got := c.Metas[len(c.Metas)-1].Part(); got != first+i {
			t.Fatalf("%s is part %d, not %d", p, got, first+i)
		}
		if i < len(ps)-1 && (len(c.Ends) != 1 || c.Ends[0].Reason != Continued ||
			c.Ends[0].Hits != uint64(len(c.Hits))) {
			t.Fatalf("%s: %d hits, ends %+v", p, len(c.Hits), c.Ends)
		}
		all.Marks, all.Seqs, all.Hits, all.Sched = append(all.Marks, c.Marks...), append(all.Seqs, c.Seqs...),
			append(all.Hits, c.Hits...), append(all.Sched, c.Sched...)
		all.Ends, all.Losses = append(all.Ends, c.Ends...), append(all.Losses, c.Losses...)
	}
	return all, parts
}

func sameEvents(t testing.TB, got, want content) {
	t.Helper()
	equal(t, "hit", got.Hits, want.Hits)
	equal(t, "mark", got.Marks, want.Marks)
	equal(t, "sequence", got.Seqs, want.Seqs)
	equal(t, "switch", got.Sched, want.Sched)
}

func newLong(t testing.TB) (*long, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.pinf")
	w, err := CreateParts(path)
	must(t, err)
	return startLong(t, w), path
}

func TestRotate(t *testing.T) {
	l, path := newLong(t)
	must(t, l.w.Watch(Watch{PID: longPID, Time: 99 * second, Ops: WatchArrivals}))
	const parts = 25
	for range parts - 1 {
		for range 3 + l.n%50 {
			must(t, l.drain())
		}
		must(t, l.w.Loss(Loss{Start: 1, End: 2, Why: "lost", What: "hits", Events: 3, CPU: -1}),
			l.w.Rotate(0))
		must(t, l.w.Rotate(0)) // nothing came since: nothing to do
	}
	must(t, l.drain(), l.w.Meta(func() Meta { m := sampleMeta(); m.Notes = nil; return m }()))
	total := uint64(len(l.sent.Hits))
	must(t, l.w.Close(End{Time: 1000 * second, Reason: "interrupted", Hits: total, Lost: 3 * (parts - 1)}))
	all, each := readParts(t, path)
	sameEvents(t, all, l.sent)
	if len(each) != parts || len(all.Losses) != parts-1 {
		t.Fatalf("%d files, %d losses", len(each), len(all.Losses))
	}
	var hits, lost uint64
	for i, c := range each {
		hits, lost = hits+c.Ends[0].Hits, lost+c.Ends[0].Lost
		m := c.Metas[0]
		if m.Start != 100*second || m.Tool != sampleMeta().Tool || i > 0 &&
			m.PartStart() != each[i-1].Ends[0].Time || i == 0 && m.PartStart() != m.Start {
			t.Errorf("part %d begins at %d, the one before ended at %d", i+1, m.PartStart(),
				each[max(i, 1)-1].Ends[0].Time)
		}
		if c.Procs[0].PID != longPID || len(c.Threads) != 2 {
			t.Errorf("part %d: %+v, %+v", i+1, c.Procs, c.Threads)
		}
	}
	if hits != total || lost != 3*(parts-1) {
		t.Errorf("%d hits of %d, %d lost", hits, total, lost)
	}
	last := each[parts-1]
	if m := last.Metas[len(last.Metas)-1]; m.Notes != nil || m.Part() != parts ||
		last.Ends[0].Reason != "interrupted" {
		t.Errorf("the last: %+v, %+v", m, last.Ends)
	}
	if l.w.Total() < l.w.Size()*parts/10 {
		t.Errorf("%d bytes in all, %d in the last", l.w.Total(), l.w.Size())
	}
}

// What a segment and a file are told of processes, in each of them.
func TestRotateTellsWhatIsWatched(t *testing.T) {
	l, path := newLong(t)
	must(t, l.w.Watch(Watch{PID: longPID, Time: 99 * second, Ops: WatchArrivals}), l.drain(), l.w.Rotate(3),
		l.drain(), l.w.Close(End{}))
	for _, p := range []string{path, path + ".1"} {
		r, err := Open(p)
		must(t, err)
		found := false
		for {
			b, err := r.Next()
			if err != nil {
				break
			}
			found = found || b.Watch != nil && b.Watch.Ops == WatchArrivals && b.Watch.Time == 99*second
			if b.Hits != nil && !found {
				t.Errorf("%s: hits before what is watched", p)
			}
		}
		if !found {
			t.Errorf("%s does not tell what is watched", p)
		}
		r.Close()
	}
}

// The files that are kept are the newest, without a gap, and no others are left.
func TestRotateKeeps(t *testing.T) {
	for keep := 1; keep <= 3; keep++ {
		l, path := newLong(t)
		for range 9 {
			for range 20 {
				must(t, l.drain())
			}
			must(t, l.w.Rotate(keep))
		}
		must(t, l.drain(), l.w.Close(End{}))
		all, each := readParts(t, path)
		if len(each) != keep+1 || each[0].Metas[0].Part() != 10-keep {
			t.Fatalf("keep %d: %d files, the first is part %d", keep, len(each), each[0].Metas[0].Part())
		}
		es, err := os.ReadDir(filepath.Dir(path))
		must(t, err)
		if len(es) != keep+1 {
			t.Errorf("keep %d: %v", keep, es)
		}
		n := len(l.sent.Hits) - len(all.Hits)
		equal(t, "hit", all.Hits, l.sent.Hits[n:])
		equal(t, "mark", all.Marks, l.sent.Marks[len(l.sent.Marks)-len(all.Marks):])
	}
}

// Shapes that are no longer in memory are read back from the file before, as long as it is kept.
func TestRotateReadsShapesBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.pinf")
	w, err := CreateParts(path)
	must(t, err)
	must(t, w.Meta(sampleMeta()), w.Process(sampleProcess(1)),
		w.Threads([]Thread{{PID: 1, TID: 1, Comm: "a"}, {PID: 1, TID: 2, Comm: "b"}}))
	for i := range uint64(10) {
		must(t, w.Shape(sampleShape(1, i+1, 20)))
	}
	w.defs.shapesMem += shapeCache // as if there were more
	w.defs.trim()
	w.defs.shapesMem -= shapeCache
	if w.defs.cold.Len() != 10 || w.defs.shapesMem != 0 {
		t.Fatalf("%d shapes let go, %d bytes kept", w.defs.cold.Len(), w.defs.shapesMem)
	}
	step := func(part int64, ids ...uint64) {
		at := (100 + part) * second
		for i, id := range ids {
			must(t, w.Marks([]Mark{{Time: at + int64(i), PID: 1, Kind: MarkGraphBegin, Shape: id}}))
		}
		must(t, w.Drain(at+second))
	}
	step(0, 1)
	must(t, w.Rotate(1))
	step(1, 2, 3, 4)
	if w.defs.cold.Len() != 7 || w.Forgotten() != nil {
		t.Errorf("%d are on disk", w.defs.cold.Len())
	}
	must(t, w.Rotate(1)) // the first file goes, and with it what stood there only
	f := w.Forgotten()
	if len(f) != 7 || len(w.defs.shapes) != 3 || w.Forgotten() != nil {
		t.Errorf("forgotten %v, known %d", f, len(w.defs.shapes))
	}
	step(2, 2)
	must(t, w.Shape(sampleShape(1, 7, 20)))
	step(3, 7)
	must(t, w.Close(End{}))
	if _, each := readParts(t, path); len(each[0].Shapes) != 3 || len(each[1].Shapes) != 2 {
		t.Errorf("%d and %d shapes", len(each[0].Shapes), len(each[1].Shapes))
	}
}

func TestCreateParts(t *testing.T) {
	l, path := newLong(t)
	must(t, l.drain(), l.w.Rotate(2), l.drain(), l.w.Rotate(2), l.drain(), l.w.Close(End{}))
	for _, p := range []string{"run.pinf.x", "run.pinf.01", "run.pinf.-1", "run.pinfs.1"} {
		must(t, os.WriteFile(filepath.Join(filepath.Dir(path), p), []byte("PINF"), 0o600))
	}
	foreign := path + ".7"
	must(t, os.WriteFile(foreign, []byte("a letter"), 0o600))
	if _, err := CreateParts(path); err == nil || !strings.Contains(err.Error(), foreign) {
		t.Errorf("a file that is no trace: %v", err)
	}
	if all, _ := readParts(t, path); len(all.Hits) != len(l.sent.Hits) {
		t.Error("the recording before was touched")
	}
	must(t, os.Remove(foreign), os.Mkdir(foreign, 0o700))
	if _, err := CreateParts(path); err == nil {
		t.Error("a directory in the way")
	}
	must(t, os.Remove(foreign), os.WriteFile(nextName(path), []byte("PI"), 0o600))
	w, err := CreateParts(path)
	must(t, err)
	must(t, w.Meta(sampleMeta()), w.Close(End{}))
	es, err := os.ReadDir(filepath.Dir(path))
	must(t, err)
	if len(es) != 5 {
		t.Errorf("left: %v", es)
	}
	must(t, os.Rename(path, path+".real"), os.Symlink(path+".real", path))
	if _, err := CreateParts(path); err == nil || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("a symbolic link: %v", err)
	}
}

// Files of another recording beside this one are not taken for its own.
func TestPartsOfAnotherRecording(t *testing.T) {
	l, path := newLong(t)
	must(t, l.drain(), l.w.Rotate(0), l.drain(), l.w.Rotate(0), l.drain(), l.w.Close(End{}))
	must(t, os.Rename(path+".2", path+".3"), os.Rename(path+".1", path+".2"))
	w, err := Create(path + ".1")
	must(t, err)
	m := sampleMeta()
	m.Start++
	m.Extra = map[string]string{extraPart: "2"}
	must(t, w.Meta(m), w.Close(End{}), os.WriteFile(path+".4", []byte("no trace"), 0o600))
	ps, err := Parts(path)
	must(t, err)
	equal(t, "part", ps, []string{path + ".3", path + ".2", path})
	w, err = Create(path)
	must(t, err)
	must(t, w.Meta(m), w.Close(End{}))
	ps, err = Parts(path)
	must(t, err)
	equal(t, "part", ps, []string{path})
}

// No file becomes longer than the limit, whatever comes at a time, and little room is wasted.
func TestFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.pinf")
	w, err := CreateParts(path)
	must(t, err)
	must(t, w.Meta(sampleMeta()))
	const limit = 1 << 20
	var sizes []int64
	r := newRandom(9)
	for i := range int64(12_000) {
		n := 40
		if i%97 == 0 {
			n = 2000
		}
		hs := r.hits(n)
		for j := range hs {
			hs[j].Time = 100*second + i*second/10
		}
		must(t, w.Hits(hs), w.Drain(100*second+i*second/10))
		if w.Full(limit) {
			must(t, w.Rotate(1))
			st, err := os.Stat(path + ".1")
			must(t, err)
			sizes = append(sizes, st.Size())
		}
	}
	must(t, w.Close(End{}))
	if len(sizes) < 5 {
		t.Fatalf("files of %d", sizes)
	}
	for _, s := range sizes {
		if s > limit || s < limit*3/4 {
			t.Errorf("a file of %d bytes, the limit is %d", s, limit)
		}
	}
	t.Log(fmt.Sprint(sizes))
}
