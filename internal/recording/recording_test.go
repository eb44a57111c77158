// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/trace"
)

// What a block can hold is copied by write, every kind of it.
func TestEveryKind(t *testing.T) {
	copied := map[string]bool{"Meta": true, "Process": true, "Threads": true, "Shape": true, "Hits": true,
		"Marks": true, "StepSeqs": true,
		"Sched": true, "Samples": true, "Loss": true, "Exit": true, "Watch": true, "CPU": true,
		"Faults": true, "Memory": true, "Experts": true, "End": true, "Watermark": true,
		// of the block itself, not of its contents
		"Type": true, "Segment": true, "Offset": true, "First": true, "Last": true, "Count": true}
	for f := range reflect.TypeFor[trace.Block]().Fields() {
		if !copied[f.Name] {
			t.Errorf("a block can hold %s: copy it in write, then name it here", f.Name)
		}
	}
}

// A recording of which nothing was changed is the same.
func TestChangedNothing(t *testing.T) {
	for _, trial := range profiletest.Trials() {
		if trial.Large {
			continue
		}
		path := filepath.Join(t.TempDir(), "run.pinf")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := trial.Write(f); err != nil {
			t.Fatal(err)
		}
		f.Close()
		a, errA := Load(path)
		b, errB := Changed(path, func(*trace.Block) {})
		if errA != nil || errB != nil {
			if errA == nil || errB == nil {
				t.Errorf("%s: %v, copied %v", trial.Name, errA, errB)
			}
			continue
		}
		if len(a.Ops) != len(b.Ops) || len(a.Steps) != len(b.Steps) || len(a.Graphs) != len(b.Graphs) ||
			a.Scheds != b.Scheds {
			t.Errorf("%s: %d operators, copied %d", trial.Name, len(a.Ops), len(b.Ops))
			continue
		}
		for i := range a.Ops {
			if x, y := a.Ops[i], b.Ops[i]; x.Start != y.Start || x.Dur != y.Dur || x.Busy != y.Busy ||
				!reflect.DeepEqual(x.Counts, y.Counts) {
				t.Errorf("%s: operator %d differs", trial.Name, i)
				break
			}
		}
	}
}

// What a fuzzer's bytes ask for is done: kinds of blocks vanish, come twice, and each kind's fields change.
func TestAlter(t *testing.T) {
	files, err := Small()
	if err != nil {
		t.Fatal(err)
	}
	for i, file := range files {
		same, _, err := blocksOf(file)
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(uint64(i), 1))
		for k := range same[:len(same)-1] { // its end stays
			changed := false
			for try := 0; try < 40 && !changed; try++ {
				edits := make([]byte, 12)
				for at := range edits {
					edits[at] = byte(r.Uint32())
				}
				edits[0], edits[1], edits[2] = 7, byte(k), 0
				out, err := Alter(file, edits)
				if err != nil {
					continue // the writer refuses it
				}
				blocks, _, err := blocksOf(out)
				if err != nil {
					t.Fatal(err)
				}
				if changed = len(blocks) != len(same); !changed {
					a, b := blocks[k], same[k]
					a.Offset, a.First, a.Last = b.Offset, b.First, b.Last // definitions are stamped anew
					changed = !reflect.DeepEqual(a, b)
				}
			}
			if !changed {
				t.Errorf("recording %d: the %v block %d was not changed", i, same[k].Type, k)
			}
		}
	}
}
