// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/klauspost/compress/gzip"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/roof"
	"github.com/profinfer/profinfer/profile/timeline"
)

// The timeline's sections: "time" is its index (JSON); "time/steps", "time/graphs", "time/copies",
// "time/devices" and "time/overview" are columns; "time/0" and following are its chunks, in the format of
// package profile.

// TimeLimit is how many bytes of packed chunks a single-file page holds per run. Beyond it there is only the
// overview.
const TimeLimit = 8 << 20

// Option modifies how a run is loaded.
type Option func(*options)

type options struct {
	timeLimit int // bytes; -1: none
	peaks     func(*profile.Header) *roof.Peaks
}

// Peaks returns the machine's peaks, once all has been read.
func Peaks(of func(*profile.Header) *roof.Peaks) Option { return func(o *options) { o.peaks = of } }

// WholeTimeline keeps the whole timeline, for a page that is served.
func WholeTimeline() Option { return func(o *options) { o.timeLimit = -1 } }

func newOptions(opts []Option) options {
	o := options{timeLimit: TimeLimit, peaks: func(*profile.Header) *roof.Peaks { return nil }}
	for _, f := range opts {
		f(&o)
	}
	return o
}

// Chunks in memory have at most this many times the bytes that stay: those that are dropped before the end are
// none of those that keepChunks would choose then, which are the slowest steps' and the first.
const timeSlack = 4

// servedLimit is how many bytes of packed chunks a served page holds per run.
const servedLimit = 256 << 20

func newTimeline(o options, book *facts.Book) *timeline.Builder {
	limit := timeSlack * o.timeLimit
	if o.timeLimit < 0 {
		limit = servedLimit
	}
	return timeline.New(timeline.Options{Pack: packer(), Limit: limit, Trim: keepChunks, Book: book})
}

// packer returns a function that gzips. It reuses its tables between calls.
func packer() func([]byte) ([]byte, error) {
	var z *gzip.Writer
	return func(data []byte) ([]byte, error) {
		var b bytes.Buffer
		if z == nil {
			var err error
			if z, err = gzip.NewWriterLevel(&b, packLevel); err != nil {
				return nil, err
			}
		} else {
			z.Reset(&b)
		}
		if _, err := z.Write(data); err != nil {
			return nil, err
		}
		if err := z.Close(); err != nil {
			return nil, err
		}
		return b.Bytes(), nil
	}
}

// addTime adds the timeline's sections.
func (r *Run) addTime(b *timeline.Builder, h *profile.Header, o options) error {
	t, err := b.Finish(h)
	if err != nil {
		return err
	}
	if o.timeLimit >= 0 {
		keepChunks(t, o.timeLimit)
	}
	for i := range t.Chunks {
		if c := &t.Chunks[i]; c.Kept {
			r.addPacked(fmt.Sprintf("time/%d", i), c.Data)
		}
	}
	for _, s := range []struct {
		name string
		data []byte
	}{{"time/steps", t.Steps}, {"time/graphs", t.Graphs}, {"time/overview", t.Bins}, {"time/copies",
		t.Copies}, {"time/devices", t.Devices}} {
		if err := r.add(s.name, s.data); err != nil {
			return err
		}
	}
	return r.addJSON("time", t)
}

// addPacked adds a section that is already gzipped.
func (r *Run) addPacked(name string, data []byte) {
	if _, ok := r.sections[name]; !ok {
		r.names = append(r.names, name)
	}
	r.sections[name] = data
}

// keepChunks chooses which chunks are kept where they are too large together: those with the slowest and the
// first step of each phase, then those of the next slowest steps in turn, then the earliest.
func keepChunks(t *timeline.Timeline, limit int) {
	sum := 0
	for i := range t.Chunks {
		sum += len(t.Chunks[i].Data)
	}
	if sum <= limit {
		return
	}
	for i := range t.Chunks {
		t.Chunks[i].Kept = false
	}
	sum = 0
	keep := func(i int) bool {
		c := &t.Chunks[i]
		if c.Data == nil {
			return false // dropped before
		}
		if !c.Kept {
			if sum+len(c.Data) > limit {
				return false
			}
			c.Kept = true
			sum += len(c.Data)
		}
		return true
	}
	for _, s := range chosenSteps(t.Marks) {
		fits := true
		for i := range t.Chunks {
			if c := &t.Chunks[i]; c.Start < s.Start+s.Dur && c.Start+c.Dur > s.Start {
				fits = keep(i) && fits
			}
		}
		if !fits {
			break
		}
	}
	for i := range t.Chunks {
		if !keep(i) {
			return
		}
	}
}

// maxChosen bounds the steps of each phase whose chunks are selected.
const maxChosen = 256

// chosenSteps returns steps in order of priority: the slowest and the first of each phase, then the next
// slowest.
func chosenSteps(marks []timeline.Mark) []timeline.Mark {
	phases := map[profile.Phase][]timeline.Mark{}
	var order []profile.Phase
	for _, m := range marks {
		if phases[m.Phase] == nil {
			order = append(order, m.Phase)
		}
		phases[m.Phase] = append(phases[m.Phase], m)
	}
	var slowest, first, rest []timeline.Mark
	for _, p := range order {
		s := phases[p]
		first = append(first, s[0])
		s = slices.Clone(s)
		slices.SortStableFunc(s, func(a, b timeline.Mark) int { return cmp.Compare(b.Dur, a.Dur) })
		slowest = append(slowest, s[0])
		rest = append(rest, s[1:min(len(s), maxChosen)]...)
	}
	slices.SortStableFunc(rest, func(a, b timeline.Mark) int { return cmp.Compare(b.Dur, a.Dur) })
	return slices.Concat(slowest, first, rest)
}
