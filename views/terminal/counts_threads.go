// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/profinfer/profinfer/internal/format"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/summary"
)

// byThreads draws the counters' ratios by number of threads, where a phase ran with several.
func (p *page) byThreads(s *summary.Stat) {
	rows := severalThreads(s)
	if len(rows) == 0 {
		return
	}
	t := newThreadsTable(p, "")
	for _, r := range rows {
		t.add(p, s, r, "")
	}
	p.blank()
	p.table(&t.table)
	t.say(p)
}

// severalThreads returns the rows of phases that several numbers of threads computed.
func severalThreads(s *summary.Stat) (out []*summary.ByThreads) {
	same := func(a, b *summary.ByThreads) bool {
		return a.Phase == b.Phase && (a.Model == nil) == (b.Model == nil) &&
			(a.Model == nil || *a.Model == *b.Model)
	}
	for i := range s.ByThreads {
		for j := range s.ByThreads {
			if i != j && same(&s.ByThreads[i], &s.ByThreads[j]) {
				out = append(out, &s.ByThreads[i])
				break
			}
		}
	}
	return out
}

// threadsTable is a table with one row per phase and number of threads.
type threadsTable struct {
	table
	file, name, threads, steps, tps, ipc, stall, misses *column
	stallOf, missesOf                                   map[string]bool
}

func newThreadsTable(p *page, file string) *threadsTable {
	t := &threadsTable{stallOf: map[string]bool{}, missesOf: map[string]bool{}}
	if file != "" {
		t.file = t.col(column{title: file, left: true, keep: 99, min: 12, path: true})
	}
	t.name = t.col(column{title: "by threads", left: true, keep: 100, min: 12})
	t.threads = t.col(column{title: "threads", keep: 98})
	t.steps = t.col(column{title: "steps", keep: 50})
	t.tps = t.col(column{title: "t/s", keep: 70})
	t.ipc = t.col(column{title: "IPC", keep: 95})
	t.stall = t.col(column{title: "stalled", keep: 90})
	t.misses = t.col(column{title: "misses/1000 instr", keep: 85})
	return t
}

func (t *threadsTable) add(p *page, s *summary.Stat, r *summary.ByThreads, file string) {
	if t.file != nil {
		t.file.add(p.o.clean(file))
	}
	t.name.add(phaseName(s, &summary.Phase{Phase: r.Phase, Model: r.Model}))
	t.threads.add(format.Count(r.Threads))
	t.steps.add(format.Count(r.Steps))
	t.tps.add(format.Rate(r.TokensPerS))
	t.ipc.add(format.Ratio(r.IPC))
	t.stall.add(format.Percent1(r.StallShare))
	t.misses.add(format.Ratio(r.Misses))
	if r.StallShare != nil {
		t.stallOf[p.o.clean(r.StallOf)] = true
	}
	if r.Misses != nil {
		t.missesOf[p.o.clean(r.MissesOf)] = true
	}
}

// say explains which counters the columns are from.
func (t *threadsTable) say(p *page) {
	for _, of := range []struct {
		what  string
		names map[string]bool
	}{{"stalled: ", t.stallOf}, {"misses: ", t.missesOf}} {
		if len(of.names) > 0 {
			p.line(of.what+strings.Join(slices.Sorted(maps.Keys(of.names)), ", "), dim)
		}
	}
}

// Recording is one of several that are compared.
type Recording struct {
	File string        `json:"file"`
	Stat *summary.Stat `json:"-"`
}

// CompareJSON writes what [Compare] draws, as JSON: each recording's run, models, phases, verdicts and counters
// as in `stat --json`. It returns w's errors.
func CompareJSON(w io.Writer, rs []Recording) error {
	type recording struct {
		Recording
		Run      summary.Run         `json:"run"`
		Models   []facts.Model       `json:"models"`
		Phases   []summary.Phase     `json:"phases"`
		Verdicts []summary.Verdict   `json:"verdicts"`
		Counters []summary.Counter   `json:"counters"`
		By       []summary.ByThreads `json:"counts_by_threads"`
	}
	out := struct {
		SchemaVersion int         `json:"schema_version"`
		Recordings    []recording `json:"recordings"`
	}{SchemaVersion: summary.Schema, Recordings: []recording{}}
	for _, r := range rs {
		s := r.Stat
		out.Recordings = append(out.Recordings, recording{r, s.Run, append([]facts.Model{}, s.Models...),
			append([]summary.Phase{}, s.Phases...), append([]summary.Verdict{}, s.Verdicts...),
			append([]summary.Counter{}, s.Counters...), append([]summary.ByThreads{}, s.ByThreads...)})
	}
	return JSON(w, out)
}

// compareThreads draws the counters' ratios by number of threads, over several recordings.
func (p *page) compareThreads(rs []Recording) {
	t := newThreadsTable(p, "recording")
	for _, phase := range []string{"decode", "prefill", "encode", "unknown"} {
		for i := range rs {
			s := rs[i].Stat
			for j := range s.ByThreads {
				if s.ByThreads[j].Phase == phase {
					t.add(p, s, &s.ByThreads[j], rs[i].File)
				}
			}
		}
	}
	p.table(&t.table)
	t.say(p)
	for i := range rs {
		if len(rs[i].Stat.ByThreads) == 0 {
			p.line(p.o.clean(rs[i].File)+": no counters that give a ratio", plain)
		}
	}
}
