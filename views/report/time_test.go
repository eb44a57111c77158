// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/profiletest"
)

// slowRun plays a run in which one decode step is slow.
func slowRun(slow, decode int) Replay {
	return func(sink profile.Sink) (*profile.Header, error) {
		p := profiletest.Player{Sink: sink}
		r := profiletest.Run{Model: profiletest.Small, PID: 100, Ctx: 1, Threads: 4, Prefill: 16, Decode: decode, Preempt: slow, Sched: true, Start: 1_000_000_000_000}
		if err := p.Play(r); err != nil {
			return nil, err
		}
		return p.Header("op"), nil
	}
}

func section(t *testing.T, r *Run, name string) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(r.sections[name]))
	if err != nil {
		t.Fatalf("section %s: %v", name, err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func timeline(t *testing.T, replay Replay, opts ...Option) (*Run, *profile.Timeline) {
	t.Helper()
	r, err := Load("x.pinf", replay, opts...)
	if err != nil {
		t.Fatal(err)
	}
	var tl profile.Timeline
	if err := json.Unmarshal(section(t, r, "time"), &tl); err != nil {
		t.Fatal(err)
	}
	return r, &tl
}

// TestTimelineSections: every chunk is a section, and the index says where it lies.
func TestTimelineSections(t *testing.T) {
	r, tl := timeline(t, slowRun(700, 900), WholeTimeline())
	if len(tl.Chunks) < 10 {
		t.Fatalf("%d chunks", len(tl.Chunks))
	}
	for i, c := range tl.Chunks {
		if !c.Kept || len(section(t, r, fmt.Sprintf("time/%d", i))) == 0 {
			t.Errorf("chunk %d is missing", i)
		}
	}
	for _, name := range []string{"time/steps", "time/graphs", "time/overview"} {
		if len(section(t, r, name)) == 0 {
			t.Errorf("%s is empty", name)
		}
	}
}

// TestTimelineLimit: of a page that would be too large, chunks with the slowest and the first steps are kept, and no more than fit.
func TestTimelineLimit(t *testing.T) {
	const slow = 700
	whole, all := timeline(t, slowRun(slow, 900), WholeTimeline())
	sum := 0
	for i := range all.Chunks {
		sum += len(whole.sections[fmt.Sprintf("time/%d", i)])
	}
	for _, limit := range []int{sum, sum / 2, sum / 4} {
		r, tl := timeline(t, slowRun(slow, 900), LimitTimeline(limit))
		size, kept := 0, 0
		for i, c := range tl.Chunks {
			b, ok := r.sections[fmt.Sprintf("time/%d", i)]
			if ok != c.Kept {
				t.Errorf("limit %d: chunk %d is there: %v, told: %v", limit, i, ok, c.Kept)
			}
			size += len(b)
			if c.Kept {
				kept++
			}
		}
		if size > limit || limit == sum && kept != len(tl.Chunks) || limit < sum && kept == len(tl.Chunks) {
			t.Errorf("limit %d: %d bytes, %d of %d chunks", limit, size, kept, len(tl.Chunks))
		}
		// The step of number slow+1 (the prompt is the first) lasted 5 ms longer than all others.
		b := profile.NewTimeline(profile.TimelineOptions{})
		h, err := slowRun(slow, 900)(b)
		if err != nil {
			t.Fatal(err)
		}
		full, err := b.Finish(h)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range []profile.TimelineMark{full.Marks[slow], full.Marks[0], full.Marks[1]} {
			for i, c := range tl.Chunks {
				if c.Start < m.Start+m.Dur && c.Start+c.Dur > m.Start && !c.Kept {
					t.Errorf("limit %d: chunk %d with the %s step at %d was left out", limit, i, m.Phase, m.Start)
				}
			}
		}
		if full.Marks[slow].Dur < 5_000_000 {
			t.Fatalf("step %d is not slow", slow)
		}
	}
}

// TestTimelineNothingFits: even then there is a page.
func TestTimelineNothingFits(t *testing.T) {
	r, tl := timeline(t, slowRun(3, 10), LimitTimeline(0))
	for i, c := range tl.Chunks {
		if c.Kept || r.sections[fmt.Sprintf("time/%d", i)] != nil {
			t.Errorf("chunk %d is there", i)
		}
	}
}
