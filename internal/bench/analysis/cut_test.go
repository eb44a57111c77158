// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"path/filepath"
	"testing"

	"github.com/profinfer/profinfer/trace"
)

// TestCut: a tenth has about a tenth of the hits, and reads.
func TestCut(t *testing.T) {
	from, to := filepath.Join(t.TempDir(), "a.pinf"), filepath.Join(t.TempDir(), "b.pinf")
	w, err := trace.Create(from)
	if err != nil {
		t.Fatal(err)
	}
	const all = 1_000_000
	hits := make([]trace.Hit, 1000)
	for n := 0; n < all; n += len(hits) {
		for i := range hits {
			hits[i] = trace.Hit{Time: int64(n + i), Arg: uint64(i) * 12345, Kind: trace.HitOpEnd}
		}
		if err := w.Hits(hits); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(trace.End{}); err != nil {
		t.Fatal(err)
	}
	if err := cut(from, to, 10); err != nil {
		t.Fatal(err)
	}
	var c counter
	c.more(to)
	if c.events < all/10 || c.events > all/5 {
		t.Errorf("%d of %d hits", c.events, all)
	}
	r, err := trace.Open(to)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for {
		if _, err := r.Next(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if r.Torn() != "" {
		t.Error(r.Torn())
	}
}
