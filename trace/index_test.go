// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
)

// A chain of index blocks, each of which lists more blocks than there can be before it, asks for no more memory than the
// file's size allows.
func TestIndexChainIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.pinf")
	w, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Meta(Meta{}); err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	var filler []string
	for range 50_000 {
		filler = append(filler, strconv.FormatUint(rnd.Uint64(), 36))
	}
	if err := w.Process(Process{PID: 1, Cmdline: filler}); err != nil {
		t.Fatal(err)
	}
	if err := w.writeIndex(); err != nil {
		t.Fatal(err)
	}
	const each = 10_000
	for range 400 {
		for range each {
			w.index.add(&blockHeader{Type: TypeHits}, w.index.end)
		}
		if err := w.writeIndex(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(End{}); err != nil {
		t.Fatal(err)
	}
	fi, err := os.Stat(path)
	if err != nil || fi.Size() < each*blockHeaderSize || fi.Size() > 4<<20 {
		t.Fatalf("the file has %d bytes, %v: the test shows nothing", fi.Size(), err)
	}
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	es, err := r.Index()
	runtime.ReadMemStats(&after)
	if err != nil || len(es) == 0 || int64(len(es)) > fi.Size()/blockHeaderSize {
		t.Errorf("%d entries of a file of %d bytes, %v", len(es), fi.Size(), err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20 {
		t.Errorf("%d MiB were allocated", n>>20)
	}
}
