// SPDX-License-Identifier: Apache-2.0

// Package report draws runs as an HTML report: one self-contained file, or served on loopback where the runs
// are too large for one. The page is built in web/ (TypeScript) and embedded here; this package provides its
// data.
package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/profinfer/profinfer/internal/format"
	"github.com/profinfer/profinfer/profile"
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
const Schema = 1

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
	book := &facts.Book{}
	stats := stat.New(stat.Options{By: groupings[0], Further: groupings[1:], Peaks: how.peaks, Book: book})
	dags := dag.New(dag.Options{Book: book})
	timeline := newTimeline(book)
	series := series.New(book)
	slow := slow.New(slow.Options{Top: slowListed, Book: book})
	experts := newExperts(how, book)
	faults := memory.NewSeries(book)
	offload := offload.New(book)
	h, err := replay(profile.Tee(stats, dags, timeline, series, slow, experts, faults, offload))
	if err != nil {
		return nil, err
	}
	r := &Run{File: filepath.Base(file), sections: map[string][]byte{}}
	all := map[facts.By]*summary.Stat{}
	for _, s := range stats.FinishEach(h) {
		all[s.By] = s
	}
	r.Label = label(all[facts.ByWeight])
	if err := r.addJSON("stat", Stats{
		Block: all[facts.ByBlock], Layer: all[facts.ByLayer], Op: all[facts.ByOp],
		Thread: all[facts.ByThread], Weight: all[facts.ByWeight],
	}); err != nil {
		return nil, err
	}
	if err := r.addDAGs(dags, h); err != nil {
		return nil, err
	}
	if err := r.addTime(timeline, h, how); err != nil {
		return nil, err
	}
	if err := r.addSeries(series, h, how.peaks(h)); err != nil {
		return nil, err
	}
	if err := r.addJSON("slow", slow.Finish(h)); err != nil {
		return nil, err
	}
	if err := r.addExperts(experts); err != nil {
		return nil, err
	}
	if err := r.addFaults(faults, h); err != nil {
		return nil, err
	}
	if err := r.addJSON("offload", offload.Finish(h)); err != nil {
		return nil, err
	}
	return r, nil
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

// add adds a section.
func (r *Run) add(name string, data []byte) error {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
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
