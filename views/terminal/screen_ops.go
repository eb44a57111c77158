// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/profinfer/profinfer/internal/format"
	"github.com/profinfer/profinfer/profile/summary"
)

// topOps draws the operators of the main phase that take most time.
func (p *page) topOps(s *summary.Stat, most int) {
	f := mainPhase(s)
	if f == nil {
		if l := s.Run.Level; l == "step" || l == "graph" {
			p.line(levelText(l), dim)
		} else {
			p.line("No operators were recorded"+whyUntraced(s)+".", dim)
		}
		return
	}
	p.blank()
	t := newOpTable(p, s, false, true, f.Rows)
	t.group(p.opsTitle(s, f))
	rows := slices.Clone(f.Rows)
	slices.SortStableFunc(rows, func(a, b summary.Row) int { return cmp.Compare(b.Dur, a.Dur) })
	if len(rows) == most+1 && f.Rest == nil {
		most++ // a line for it anyway
	}
	left := others{}
	for i := range rows {
		if i < most {
			t.row(p, s, &rows[i], p.rowName(s, &rows[i]), plain)
		} else {
			left.add(&rows[i], 1)
		}
	}
	if f.Rest != nil {
		left.add(f.Rest, f.RestRows)
	}
	if left.n > 0 {
		t.sum(fmt.Sprintf("%s more", format.Count(left.n)), left.perStep, &left.share)
	}
	p.table(&t.table)
}

func (p *page) opsTitle(s *summary.Stat, f *summary.Phase) string {
	return phaseName(s, f) + ", by " + string(s.By)
}

// others sums up rows that are not drawn.
type others struct {
	n              int
	perStep, share float64
}

func (o *others) add(r *summary.Row, rows int) {
	o.n += rows
	o.perStep += r.DurPerStep
	if r.Share != nil {
		o.share += *r.Share
	}
}
