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
	"github.com/profinfer/profinfer/profile/timeline"
)

// slowRun plays a run in which one decode step is slow.
func slowRun(slow, decode int) Replay {
	return func(sink profile.Sink) (*profile.Header, error) {
		p := profiletest.Player{Sink: sink}
		r := profiletest.Run{Model: profiletest.Small, PID: 100, Ctx: 1, Threads: 4, Prefill: 16,
			Decode: decode, Preempt: slow, Sched: true, Start: 1_000_000_000_000}
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

func timelineOf(t *testing.T, replay Replay, opts ...Option) (*Run, *timeline.Timeline) {
	t.Helper()
	r, err := Load("x.pinf", replay, opts...)
	if err != nil {
		t.Fatal(err)
	}
	var tl timeline.Timeline
	if err := json.Unmarshal(section(t, r, "time"), &tl); err != nil {
		t.Fatal(err)
	}
	return r, &tl
}

// TestTimelineSections: every chunk is a section, and the index says where it lies.
func TestTimelineSections(t *testing.T) {
	r, tl := timelineOf(t, slowRun(70, 200), WholeTimeline())
	if len(tl.Chunks) < 3 {
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

// TestTimelineLimit: of a page that would be too large, chunks with the slowest and the first steps are kept,
// and no more than fit.
func TestTimelineLimit(t *testing.T) {
	const slow = 150
	make := func() (*timeline.Timeline, int) {
		b := timeline.New(timeline.Options{ChunkSpans: 1024, Pack: packer()})
		h, err := slowRun(slow, 200)(b)
		if err != nil {
			t.Fatal(err)
		}
		tl, err := b.Finish(h)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0
		for i := range tl.Chunks {
			sum += len(tl.Chunks[i].Data)
		}
		return tl, sum
	}
	_, sum := make()
	for _, limit := range []int{sum, sum / 2, sum / 4} {
		tl, _ := make()
		keepChunks(tl, limit)
		size, kept := 0, 0
		for _, c := range tl.Chunks {
			if c.Kept {
				size += len(c.Data)
				kept++
			}
		}
		if size > limit || size < limit/2 || (kept == len(tl.Chunks)) != (limit == sum) {
			t.Errorf("limit %d: %d bytes, %d of %d chunks", limit, size, kept, len(tl.Chunks))
		}
		// The step of number slow+1 (the prompt is the first) lasted 5 ms longer than all others.
		if tl.Marks[slow].Dur < 5_000_000 {
			t.Fatalf("step %d is not slow", slow)
		}
		for _, m := range []timeline.Mark{tl.Marks[slow], tl.Marks[0], tl.Marks[1]} {
			for i, c := range tl.Chunks {
				if c.Start < m.Start+m.Dur && c.Start+c.Dur > m.Start && !c.Kept {
					t.Errorf("limit %d: chunk %d with the %s step at %d was left out", limit, i, m.Phase,
						m.Start)
				}
			}
		}
	}
}

// TestFirstStepsAreKept: where little fits, the first step of a phase comes before the next slowest.
func TestFirstStepsAreKept(t *testing.T) {
	marks := []timeline.Mark{{Phase: "prefill", Start: 0, Dur: 50}, {Phase: "decode", Start: 100, Dur: 10},
		{Phase: "decode", Start: 200, Dur: 90}, {Phase: "decode", Start: 300, Dur: 80}}
	tl := &timeline.Timeline{Marks: marks}
	for _, m := range marks {
		tl.Chunks = append(tl.Chunks, timeline.Chunk{Start: m.Start, Dur: m.Dur, Kept: true,
			Data: bytes.Repeat([]byte{1}, 10)})
	}
	keepChunks(tl, 35)
	var kept []bool
	for _, c := range tl.Chunks {
		kept = append(kept, c.Kept)
	}
	if fmt.Sprint(kept) != "[true true true false]" {
		t.Error(kept)
	}
}

// TestTimelineNothingFits: even then there is a page.
func TestTimelineNothingFits(t *testing.T) {
	r, tl := timelineOf(t, slowRun(3, 10), func(o *options) { o.timeLimit = 0 })
	for i, c := range tl.Chunks {
		if c.Kept || r.sections[fmt.Sprintf("time/%d", i)] != nil {
			t.Errorf("chunk %d is there", i)
		}
	}
}

// TestTimelineMemory: what is dropped while a long recording is read is nothing that the page would hold.
func TestTimelineMemory(t *testing.T) {
	replay := slowRun(150, 1500)
	var all timeline.Timeline
	whole := timeline.New(timeline.Options{Pack: packer()})
	h, err := replay(whole)
	if err != nil {
		t.Fatal(err)
	}
	tl, err := whole.Finish(h)
	if err != nil {
		t.Fatal(err)
	}
	all = *tl
	sum := 0
	for i := range all.Chunks {
		sum += len(all.Chunks[i].Data)
	}
	limit := sum / 20
	how := newOptions([]Option{func(o *options) { o.timeLimit = limit }})
	b := newTimeline(how, nil)
	if h, err = replay(b); err != nil {
		t.Fatal(err)
	}
	if tl, err = b.Finish(h); err != nil {
		t.Fatal(err)
	}
	dropped := 0
	for i := range tl.Chunks {
		if tl.Chunks[i].Data == nil {
			dropped++
		}
	}
	if dropped < len(tl.Chunks)/2 {
		t.Errorf("%d of %d chunks were dropped", dropped, len(tl.Chunks))
	}
	keepChunks(tl, limit)
	keepChunks(&all, limit)
	kept := 0
	for i := range tl.Chunks {
		if tl.Chunks[i].Kept != all.Chunks[i].Kept {
			t.Errorf("chunk %d: kept %v, of all %v", i, tl.Chunks[i].Kept, all.Chunks[i].Kept)
		}
		if tl.Chunks[i].Kept {
			kept++
		}
	}
	if kept < 2 {
		t.Errorf("%d chunks are kept", kept)
	}
}
