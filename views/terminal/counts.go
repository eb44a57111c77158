// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"strings"

	"github.com/profinfer/profinfer/internal/format"
	"github.com/profinfer/profinfer/profile/summary"
)

// counters draws a phase's counters, per step: below its rows, because there are many.
func (p *page) counters(s *summary.Stat, f *summary.Phase) {
	if len(s.Counters) == 0 || len(f.Rows) == 0 {
		return
	}
	t := &table{}
	name := t.col(column{title: phaseName(s, f) + ", counters per step", left: true, keep: 100, min: 20})
	var ipc, stalled, misses *column
	cols := make([]*column, len(s.Counters))
	var zero []string
	for i := range s.Counters {
		k := &s.Counters[i]
		if k.Void != "" {
			continue
		}
		if none(f.Rows, i) {
			zero = append(zero, p.o.clean(k.Name))
			continue
		}
		title := p.o.clean(k.Name)
		if k.Scaled {
			title += " (scaled)"
		}
		cols[i] = t.col(column{title: title, keep: 80 - i})
		if k.Role == "instructions" {
			ipc = t.col(column{title: "IPC", keep: 90})
		}
	}
	if ipc != nil {
		stalled = t.col(column{title: "stalled", keep: 88})
		misses = t.col(column{title: "misses/1000 instr", keep: 86})
	}
	for r := range f.Rows {
		row := &f.Rows[r]
		name.add(p.rowName(s, row))
		for i, c := range cols {
			if c == nil {
				continue
			}
			var v *float64
			if i < len(row.Counts) && row.Counts[i].Sum != nil && row.Counts[i].Calls > 0 {
				x := float64(*row.Counts[i].Sum) / float64(row.Counts[i].Calls) * row.CallsPerStep
				v = &x
			}
			c.add(p.counted(&s.Counters[i], v))
		}
		if ipc != nil {
			r := s.Ratios(row.Counts)
			ipc.add(format.Ratio(r.IPC))
			stalled.add(format.Percent1(r.StallShare))
			misses.add(format.Ratio(r.Misses))
		}
	}
	p.blank()
	if len(t.cols) > 1 {
		p.table(t)
	}
	if len(zero) > 0 {
		p.line(phaseName(s, f)+": none in operators of "+strings.Join(zero, ", "), dim)
	}
}

// counted formats a counter's value: a time with its unit.
func (p *page) counted(k *summary.Counter, v *float64) string {
	if k.Unit == "ns" {
		return p.o.durationOf(v)
	}
	return format.Thousands(v)
}

// none reports that a counter is known and is zero in every row.
func none(rows []summary.Row, i int) bool {
	known := false
	for r := range rows {
		if i < len(rows[r].Counts) && rows[r].Counts[i].Sum != nil {
			if *rows[r].Counts[i].Sum != 0 {
				return false
			}
			known = true
		}
	}
	return known
}
