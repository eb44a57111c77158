// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// What the first version of the format wrote must be read for ever, and to the same
// content. -update is for a new golden file only: never replace an old one.
func TestGolden(t *testing.T) {
	path, want := filepath.Join("testdata", "v1.trace"), filepath.Join("testdata", "v1.json")
	if *update {
		w, err := Create(path)
		must(t, err)
		r := newRandom(1)
		must(t, w.Meta(sampleMeta()), w.Hits(r.hits(150)), w.Marks(r.marks(30)), w.StepSeqs(r.seqs(20)),
			w.Sched(r.sched(20)), w.Flush())
		writeSample(t, w)
	}
	r, err := Open(path)
	must(t, err)
	defer r.Close()
	got, err := json.Marshal(collect(t, r))
	must(t, err)
	got = append(got, '\n')
	if p := r.Problems(); p != nil {
		t.Error(p)
	}
	if *update {
		must(t, os.WriteFile(want, got, 0o644))
	}
	b, err := os.ReadFile(want)
	must(t, err)
	if string(b) != string(got) {
		t.Errorf("%s reads otherwise than %s says: the format changed", path, want)
	}
}
