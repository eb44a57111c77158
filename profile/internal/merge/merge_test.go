// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/profinfer/profinfer/trace"
)

// order is a handler that writes down what it gets.
type order struct{ got []string }

func (o *order) Hit(h *trace.Hit) error {
	o.got = append(o.got, fmt.Sprint("h", h.Time, "/", h.Arg))
	return nil
}
func (o *order) Mark(m *trace.Mark, _ []trace.StepSeq) error {
	o.got = append(o.got, fmt.Sprint("m", m.Time, "/", m.Ctx))
	return nil
}
func (o *order) Sampled(*trace.Sample) {}
func (o *order) Choose(*trace.Experts) {}

func (o *order) Faulted(*trace.Fault) error { return nil }

func (o *order) Switched(s *trace.Sched) error {
	o.got = append(o.got, fmt.Sprint("s", s.Time, "/", s.NextTID))
	return nil
}

// event is any event for the reference: what takes longest to write, sorts surely.
type event struct {
	time int64
	kind int // scheduling before marks before hits
	name string
}

// TestMergeOrder merges blocks as recorders write them, and as none does, and compares with a stable
// sort of all that was there at each drain.
func TestMergeOrder(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 5))
		var m Merger
		var got order
		var all []event
		var want []string
		free := 0
		m.Runs.Free = func([]trace.Hit) { free++ }
		reference := func(limit int64) {
			slices.SortStableFunc(all, func(a, b event) int {
				return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.kind, b.kind))
			})
			n := 0
			for n < len(all) && all[n].time < limit {
				want = append(want, all[n].name)
				n++
			}
			all = slices.Delete(all, 0, n)
		}
		now, held, n, blocks := int64(1000), int64(0), uint64(0), 0
		for range 12 {
			var b trace.Block
			for range r.IntN(6) { // rings
				at := now
				for range r.IntN(40) {
					at += r.Int64N(4) // ties
					if seed%3 == 1 && r.IntN(10) == 0 {
						at -= 5 // written late
					}
					n++
					b.Hits = append(b.Hits, trace.Hit{Time: at, Arg: n})
				}
			}
			if seed%3 == 2 && seed%2 == 0 { // nothing is in order
				for range 3000 {
					n++
					b.Hits = append(b.Hits, trace.Hit{Time: now + r.Int64N(300), Arg: n})
				}
			}
			for range r.IntN(5) {
				n++
				b.Marks = append(b.Marks, trace.Mark{Time: now + r.Int64N(80), Ctx: n})
				n++
				b.Sched = append(b.Sched, trace.Sched{Time: now + r.Int64N(80), NextTID: int32(n)})
			}
			for i := range b.Hits {
				all = append(all, event{b.Hits[i].Time, 2,
					fmt.Sprint("h", b.Hits[i].Time, "/", b.Hits[i].Arg)})
			}
			for i := range b.Marks {
				all = append(all, event{b.Marks[i].Time, 1,
					fmt.Sprint("m", b.Marks[i].Time, "/", b.Marks[i].Ctx)},
					event{b.Sched[i].Time, 0, fmt.Sprint("s", b.Sched[i].Time, "/", b.Sched[i].NextTID)})
			}
			if len(b.Hits) > 0 {
				blocks++
			}
			m.Add(&b)
			now += r.Int64N(120)
			if r.IntN(3) > 0 {
				if err := m.Drained(now, &got); err != nil {
					t.Fatal(err)
				}
				reference(held)
				held = now
			}
		}
		if err := m.Rest(&got); err != nil {
			t.Fatal(err)
		}
		reference(EndOfTime)
		if !slices.Equal(got.got, want) {
			for i := range want {
				if i >= len(got.got) || got.got[i] != want[i] {
					t.Fatalf("seed %d: event %d of %d differs: %v, want %v", seed, i, len(want),
						got.got[min(i, len(got.got)-1):][:1], want[i])
				}
			}
			t.Fatalf("seed %d: %d events, want %d", seed, len(got.got), len(want))
		}
		if free != blocks || len(m.Runs.chains) != 0 {
			t.Fatalf("seed %d: %d of %d blocks were given back, %d chains are left", seed, free, blocks,
				len(m.Runs.chains))
		}
	}
}
