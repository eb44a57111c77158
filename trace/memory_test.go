// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"errors"
	"path/filepath"
	"runtime"
	"testing"
)

// live is the memory in use, in bytes.
func live() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Three hours of recording, a drain every 0.1 s, with ever new shapes and threads, take no more memory
// than the first of them; with rotation or without.
func TestMemoryStays(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for _, rotate := range []bool{false, true} {
		w, err := CreateParts(filepath.Join(t.TempDir(), "run.pinf"))
		must(t, err)
		must(t, w.Meta(sampleMeta()), w.Process(sampleProcess(1)))
		const drains = 120_000
		before := live()
		var early, most int64
		forgotten, files := 0, 1
		for i := range int64(drains) {
			at := 100*second + i*second/10
			var err error
			id := uint64(i/2 + 1)
			if i%2 == 0 { // 60,000 shapes
				s := sampleShape(1, id, 5)
				s.Nodes[0].Addr = id * 0x9e3779b97f4a7c15
				err = w.Shape(s)
			}
			if i%2 == 0 { // 60,000 threads, and some processes that come and go
				err = errors.Join(err, w.Threads([]Thread{{PID: 1, TID: int32(100 + i), Comm: "worker"}}))
			}
			if i%400 == 0 {
				err = errors.Join(err, w.Process(sampleProcess(int32(1000+i))),
					w.Shape(sampleShape(int32(1000+i), 1, 5)), w.Exit(Exit{PID: int32(1000 + i), Time: at}))
			}
			err = errors.Join(err, w.Marks([]Mark{{Time: at, PID: 1, TID: int32(100 + i),
				Kind: MarkGraphBegin, Shape: id}}),
				w.Hits([]Hit{{Time: at, PID: 1, TID: int32(100 + i/8*8)}}), w.Drain(at))
			if rotate && w.Full(4<<20) {
				err = errors.Join(err, w.Rotate(1))
				files++
			}
			must(t, err)
			forgotten += len(w.Forgotten())
			switch {
			case i == drains*3/10: // as many as are kept were met
				early = live() - before
			case i > drains*3/10 && i%(drains/10) == 0:
				most = max(most, live()-before)
			}
		}
		must(t, w.Close(End{}))
		t.Logf("rotate %v: %d KiB after an hour, at most %d KiB; %d shapes forgotten, %d files, %d MiB",
			rotate, early>>10, most>>10, forgotten, files, w.Total()>>20)
		if most > early+early/4+4<<20 || most > 64<<20 {
			t.Errorf("rotate %v: %d KiB after an hour, %d KiB later", rotate, early>>10, most>>10)
		}
	}
}

// Where an engine starts new threads for every graph, those that are gone are not told for ever;
// the one that lives on is, though it was told first.
func TestThreadsThatAreGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.pinf")
	w, err := CreateParts(path)
	must(t, err)
	must(t, w.Meta(sampleMeta()), w.Process(sampleProcess(1)),
		w.Threads([]Thread{{PID: 1, TID: 1, Comm: "main"}}))
	most := 0
	for i := range int64(3000) {
		at := 100*second + i*second/5
		must(t, w.Threads([]Thread{{PID: 1, TID: int32(100 + i), Comm: "worker"}}),
			w.Marks([]Mark{{Time: at, PID: 1, TID: 1, Kind: MarkStepBegin}}), w.Hits([]Hit{{Time: at, PID: 1,
				TID: int32(100 + i)}}), w.Drain(at))
		most = max(most, len(w.defs.threads))
	}
	must(t, w.Rotate(1), w.Hits([]Hit{{Time: 1000 * second}}), w.Close(End{}))
	c := readPart(t, path)
	if most > 1100 || len(c.Threads) > 1100 || c.Threads[0] != (Thread{PID: 1, TID: 1, Comm: "main"}) {
		t.Errorf("at most %d threads, %d told to the last file, first %v", most, len(c.Threads), c.Threads[0])
	}
}
