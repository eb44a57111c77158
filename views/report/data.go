// SPDX-License-Identifier: Apache-2.0

// Package report draws runs as an HTML report: one self-contained file, or served on loopback where the runs
// are too large for one. The page is built in web/ (TypeScript) and embedded here; this package provides its
// data.
package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/profinfer/profinfer/internal/format"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/behind"
	"github.com/profinfer/profinfer/profile/dag"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/memory"
	"github.com/profinfer/profinfer/profile/offload"
	"github.com/profinfer/profinfer/profile/series"
	"github.com/profinfer/profinfer/profile/slow"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/profile/summary"
)

// Schema is the version of the page's data. The page and its data come from one build, so it only shows a
// saved file's age.
const Schema = 2

// Run is one recording, prepared for the page: sections of data, each gzipped separately, so that the page
// unpacks only what is viewed.
type Run struct {
	Label    string
	File     string
	names    []string // in order of writing
	sections map[string][]byte
}

// Replay feeds a run to a sink, as [profile.Replay] of a reader does.
type Replay func(profile.Sink) (*profile.Header, error)

// groupings are the statistics that the page shows, each as in `stat --json --by`.
var groupings = []facts.By{facts.ByWeight, facts.ByOp, facts.ByLayer, facts.ByBlock, facts.ByThread}

// Load computes all that the page shows of one recording. file is the name shown for it.
func Load(file string, replay Replay, opts ...Option) (*Run, error) {
	how := newOptions(opts)
	// Two halves of about the same work, each on a core of its own from the replay to the packed sections.
	book, other := &facts.Book{}, &facts.Book{}
	stats := stat.New(stat.Options{By: groupings[0], Further: groupings[1:], Peaks: how.peaks, Book: book})
	experts := newExperts(how, book)
	faults := memory.NewSeries(book)
	offload := offload.New(book)
	dags := dag.New(dag.Options{Book: other})
	timeline := newTimeline(how, other)
	series := series.New(other)
	slow := slow.New(slow.Options{Top: slowListed, Book: other})
	half := behind.New(profile.Tee(dags, timeline, series, slow))
	h, err := replay(profile.Tee(stats, experts, faults, offload, half))
	if e := half.Wait(); err == nil {
		err = e
	}
	if err != nil {
		return nil, err
	}
	r := &Run{File: filepath.Base(file), sections: map[string][]byte{}}
	halves := make(chan error)
	second := &Run{sections: map[string][]byte{}}
	each := stats.FinishEach(h)
	dags.LeaveOut(each[0].LeavesOut)
	series.LeaveOut(each[0].LeavesOut)
	go func() {
		halves <- cmp.Or(second.addDAGs(dags, h), second.addTime(timeline, h, how),
			second.addSeries(series, h, how.peaks(h)), second.addJSON("slow", slow.Finish(h)))
	}()
	all := map[facts.By]*summary.Stat{}
	for _, s := range each {
		all[s.By] = s
	}
	r.Label = label(all[facts.ByWeight])
	err = cmp.Or(
		r.addJSON("stat", Stats{
			Block: all[facts.ByBlock], Layer: all[facts.ByLayer], Op: all[facts.ByOp],
			Thread: all[facts.ByThread], Weight: all[facts.ByWeight],
		}),
		r.addExperts(experts), r.addFaults(faults, h), r.addJSON("offload", offload.Finish(h)))
	if err = cmp.Or(err, <-halves); err != nil {
		return nil, err
	}
	r.take(second)
	return r, nil
}

// take adds another run's sections after those that r begins with, the statistics.
func (r *Run) take(o *Run) {
	r.names = slices.Insert(r.names, 1, o.names...)
	maps.Copy(r.sections, o.sections)
}

// slowListed is how many slow steps the page lists.
const slowListed = 200

// label names a run by what distinguishes runs: model, type of weights, threads.
func label(s *summary.Stat) string {
	text := ""
	for _, m := range s.Models {
		if text != "" {
			text += " + "
		}
		name := m.Family
		if len(m.Types) > 0 {
			name += " " + m.Types[0].Type
		}
		text += strings.TrimSpace(name)
	}
	if len(s.Run.Processes) > 0 && s.Run.Processes[0].Threads > 0 {
		if text != "" {
			text += ", "
		}
		text += format.Plural(s.Run.Processes[0].Threads, "thread")
	}
	return text
}

// addJSON adds a section of JSON.
func (r *Run) addJSON(name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("report section %s: %w", name, err)
	}
	return r.add(name, b)
}

// packLevel is how well the page's data is gzipped. At the highest levels the compressor searches for minutes
// what the columns of a long timeline hold anyway, which are alike over and over, and finds less.
const packLevel = 6

// add adds a section.
func (r *Run) add(name string, data []byte) error {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, packLevel)
	if err != nil {
		return err
	}
	if _, err := z.Write(data); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	if _, ok := r.sections[name]; !ok {
		r.names = append(r.names, name)
	}
	r.sections[name] = b.Bytes()
	return nil
}
