// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/profinfer/profinfer/internal/format"
	"github.com/profinfer/profinfer/profile/requests"
	"github.com/profinfer/profinfer/profile/summary"
)

// comparedFigure is one row of a comparison.
type comparedFigure struct {
	name string
	get  func(*summary.Phase) *float64
	text func(*Options, *float64) string
	// points: a share, whose difference is in percentage points.
	points bool
}

func rateText(_ *Options, v *float64) string  { return format.Rate(v) }
func shareText(_ *Options, v *float64) string { return format.Percent1(v) }
func timeText(o *Options, v *float64) string  { return o.durationOf(v) }

// perToken is a share of the steps' calls as time per token: prompts and batches differ in length.
func perToken(share func(*summary.Phase) *float64) func(*summary.Phase) *float64 {
	return func(f *summary.Phase) *float64 {
		all, part := f.PerToken, share(f)
		if f.CallPerToken != nil {
			all = f.CallPerToken
		}
		if all == nil || part == nil {
			return nil
		}
		v := *all * *part
		return &v
	}
}

func quantile(d *requests.Spread, of func(*requests.Spread) *float64) *float64 {
	if d == nil {
		return nil
	}
	return of(d)
}

// compared are the figures of a phase that recordings are compared by.
var compared = []comparedFigure{
	{name: "t/s end to end", text: rateText, get: endToEnd},
	{name: "t/s without disturbed steps", text: rateText, get: func(f *summary.Phase) *float64 {
		return f.UndisturbedTPS
	}},
	{name: "TPOT p50", text: timeText, get: func(f *summary.Phase) *float64 {
		return quantile(f.TPOT, func(d *requests.Spread) *float64 { return &d.P50 })
	}},
	{name: "TPOT p95", text: timeText, get: func(f *summary.Phase) *float64 {
		return quantile(f.TPOT, func(d *requests.Spread) *float64 { return d.P95 })
	}},
	{name: "TPOT p99", text: timeText, get: func(f *summary.Phase) *float64 {
		return quantile(f.TPOT, func(d *requests.Spread) *float64 { return d.P99 })
	}},
	{name: "TPOT max", text: timeText, get: func(f *summary.Phase) *float64 {
		return quantile(f.TPOT, func(d *requests.Spread) *float64 { return &d.Max })
	}},
	{name: "time per token", text: timeText, get: func(f *summary.Phase) *float64 { return f.PerToken }},
	{name: "  weight matmul", text: timeText,
		get: perToken(func(f *summary.Phase) *float64 { return f.MatMul })},
	{name: "  attention", text: timeText, get: perToken(func(f *summary.Phase) *float64 { return f.Attn })},
	{name: "  other operators", text: timeText,
		get: perToken(func(f *summary.Phase) *float64 { return f.Other })},
	{name: "  outside operators", text: timeText,
		get: perToken(func(f *summary.Phase) *float64 { return f.GapShare })},
	{name: "weights GB/s", text: rateText, get: func(f *summary.Phase) *float64 { return f.MatMulGBps }},
	{name: "MBU", text: shareText, points: true, get: func(f *summary.Phase) *float64 { return f.MBU }},
	{name: "thread time busy", text: shareText, points: true, get: busyShare},
	{name: "  barrier wait", text: shareText, points: true,
		get: func(f *summary.Phase) *float64 { return f.Wait }},
	{name: "  off-CPU", text: shareText, points: true,
		get: func(f *summary.Phase) *float64 { return f.OffCPU }},
}

// Compare draws recordings beside one another: each phase's figures, and how much they differ from the first
// recording's; then the counters' ratios by number of threads, where there are counters. It returns w's
// errors.
func Compare(w io.Writer, rs []Recording, o Options) error {
	p := &page{o: o}
	p.compareHeads(rs)
	p.blank()
	if keys := phasesOf(rs); len(keys) > 0 {
		t := newCompareTable(p, rs)
		for _, k := range keys {
			t.phase(p, rs, k)
		}
		p.table(&t.table)
	} else {
		p.line("No step was seen in any of them.", plain)
	}
	counted := false
	for i := range rs {
		counted = counted || len(rs[i].Stat.ByThreads) > 0
	}
	if counted {
		p.blank()
		p.compareThreads(rs)
	}
	_, err := io.WriteString(w, p.b.String())
	return err
}

// compareHeads names the recordings, with what distinguishes them.
func (p *page) compareHeads(rs []Recording) {
	for i := range rs {
		s := rs[i].Stat
		facts := []string{fmt.Sprintf("%s  %s", letter(i), p.path(rs[i].File))}
		for k, q := range p.active(s) {
			if k == mostNamed {
				facts = append(facts, fmt.Sprintf("+%d more processes", len(p.active(s))-k))
				break
			}
			facts = append(facts, p.program(s, q, len(p.active(s)) > 1))
		}
		for k := range s.Models {
			if k < mostNamed {
				facts = append(facts, strings.Join(p.model(&s.Models[k])[:1], ", "))
			}
		}
		p.parts(facts)
	}
}

// letter names a recording in the tables' heads: A, B, ... AA.
func letter(i int) string {
	if i < 26 {
		return string(rune('A' + i))
	}
	return letter(i/26-1) + letter(i%26)
}

// phasesOf returns the phases that any of the recordings has, in the order of the first that has them.
func phasesOf(rs []Recording) (out []phaseKey) {
	seen := map[phaseKey]bool{}
	for i := range rs {
		for n, f := range phaseOrder(rs[i].Stat) {
			if k := compareKey(rs[i].Stat, f); !seen[k] && n < mostPhases {
				seen[k] = true
				out = append(out, k)
			}
		}
	}
	return out
}

// compareKey is a phase's name, with its model only where a recording has several.
func compareKey(s *summary.Stat, f *summary.Phase) phaseKey {
	if len(s.Models) < 2 {
		return keyOf(f.Phase, nil)
	}
	return keyOf(f.Phase, f.Model)
}

// compareTable has a column for each recording, and one for its difference from the first.
type compareTable struct {
	table
	name            *column
	values, changes []*column
}

func newCompareTable(p *page, rs []Recording) *compareTable {
	t := &compareTable{}
	t.name = t.col(column{left: true, keep: 1000, min: 12})
	for i := range rs {
		head := letter(i)
		if base := p.name(strings.TrimSuffix(filepath.Base(rs[i].File), ".pinf")); len(rs) <= 3 {
			head += "  " + base
		}
		t.values = append(t.values, t.col(column{title: head, keep: 900 - i}))
		if i > 0 {
			t.changes = append(t.changes, t.col(column{title: letter(i) + " vs A", keep: 800 - i}))
		}
	}
	return t
}

func (t *compareTable) add(name string, cell func(i int) (value, change string)) {
	t.name.add(name)
	for i := range t.values {
		v, d := cell(i)
		t.values[i].add(v)
		if i > 0 {
			t.changes[i-1].add(d)
		}
	}
}

func (t *compareTable) phase(p *page, rs []Recording, k phaseKey) {
	title := k.phase
	phases := make([]*summary.Phase, len(rs))
	for i := range rs {
		for _, f := range phaseOrder(rs[i].Stat) {
			if phases[i] == nil && compareKey(rs[i].Stat, f) == k {
				phases[i] = f
				title = phaseName(rs[i].Stat, f)
			}
		}
	}
	t.group(title)
	t.add("bound", func(i int) (string, string) {
		if phases[i] == nil {
			return "-", ""
		}
		v := verdictOf(rs[i].Stat, phases[i])
		switch {
		case v == nil:
			return "-", ""
		case boundPhrases[v.Bound] == "":
			return "not known", ""
		}
		return boundPhrases[v.Bound], ""
	})
	t.add("steps", func(i int) (string, string) {
		if phases[i] == nil {
			return "-", ""
		}
		return format.Count(phases[i].Steps), ""
	})
	for _, g := range compared {
		known := false
		of := func(i int) *float64 {
			if phases[i] == nil {
				return nil
			}
			return g.get(phases[i])
		}
		for i := range rs {
			known = known || of(i) != nil
		}
		if known {
			t.add(g.name, func(i int) (string, string) {
				return g.text(&p.o, of(i)), change(of(0), of(i), g.points)
			})
		}
	}
}

// change is how much b differs from a: "+12 %", or "+3.2 points".
func change(a, b *float64, points bool) string {
	switch {
	case a == nil || b == nil || !points && *a == 0:
		return "-"
	case points:
		return fmt.Sprintf("%+.1f points", 100*(*b-*a))
	case *b >= 10**a:
		return fmt.Sprintf("%.0fx", *b / *a)
	}
	return strings.Replace(fmt.Sprintf("%+.1f %%", 100*(*b / *a - 1)), "-0.0 %", "+0.0 %", 1)
}
