// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"fmt"
	"strings"

	"github.com/profinfer/profinfer/internal/format"
	"github.com/profinfer/profinfer/profile/requests"
	"github.com/profinfer/profinfer/profile/summary"
)

// mostRequests is how many requests are listed individually.
const mostRequests = 12

// sequences draws the requests, where there is more than one, and speculative decoding.
func (p *page) sequences(s *summary.Stat) {
	q := s.Sequences
	if q == nil {
		return
	}
	for i := range q.Speculation {
		p.speculation(s, &q.Speculation[i])
	}
	var list []*requests.Request
	warm := 0
	for i := range q.Requests {
		if q.Requests[i].Warmup {
			warm++
		} else {
			list = append(list, &q.Requests[i])
		}
	}
	if len(list) < 2 {
		return
	}
	p.blank()
	p.requests(s, list)
	var facts []string
	if q.Every > 1 {
		facts = append(facts, fmt.Sprintf("of %s requests one in %d was kept", format.Count(q.Seen), q.Every))
	}
	if n := len(list) - mostRequests; n > 0 && !p.o.Verbose {
		facts = append(facts, fmt.Sprintf("%s of %s requests shown: -v shows all, so does the table sequences", format.Count(mostRequests), format.Count(len(list))))
	}
	if q.AtOnce > 1 {
		facts = append(facts, fmt.Sprintf("%s, up to %d per batch",
			format.Plural(int64(q.Sequences), "sequence"), q.AtOnce))
	}
	if warm > 0 {
		facts = append(facts, format.Plural(int64(warm), "warm-up")+" left out")
	}
	if q.Sequences > 1 {
		facts = append(facts, "excludes queueing")
	}
	if len(facts) == 0 {
		return
	}
	p.line(strings.Join(facts, "; "), dim)
}

// role is a model's role in speculative decoding, with a leading space; empty: none, or both.
func role(s *summary.Stat, model int) string {
	if s.Sequences == nil {
		return ""
	}
	is := func(m *int) bool { return m != nil && *m == model }
	draft, target := false, false
	for i := range s.Sequences.Speculation {
		d := &s.Sequences.Speculation[i]
		draft, target = draft || is(d.DraftModel), target || is(d.Model)
	}
	switch {
	case draft == target:
		return ""
	case draft:
		return " draft"
	}
	return " target"
}

func (p *page) requests(s *summary.Stat, list []*requests.Request) {
	q := s.Sequences
	var t table
	id := t.col(column{title: "requests", left: true, keep: 100})
	model := t.col(column{title: "model", keep: 30})
	seq := t.col(column{title: "seq", keep: 70})
	begin := t.col(column{title: "begin", keep: 40})
	prompt := t.col(column{title: "prompt", keep: 60})
	cached := t.col(column{title: "cached", keep: 35})
	tokens := t.col(column{title: "tokens", keep: 65})
	ttft := t.col(column{title: "TTFT", keep: 95})
	tpot := t.col(column{title: "TPOT", keep: 90})
	p95 := t.col(column{title: "p95", keep: 75})
	in := t.col(column{title: "in steps", keep: 20})
	accepted := t.col(column{title: "accepted", keep: 50})
	models, begun := map[int]bool{}, list[0].Start
	for _, r := range list {
		if r.Model != nil {
			models[*r.Model] = true
		}
	}
	for i, r := range list {
		if i == mostRequests && !p.o.Verbose {
			break
		}
		id.add(format.Count(r.ID))
		name := ""
		if len(models) > 1 && r.Model != nil && *r.Model < len(s.Models) {
			name = format.Table.Parameters(s.Models[*r.Model].Params)
		}
		model.add(name)
		seq.add(fmt.Sprint(r.Seq))
		if r.Start == begun {
			begin.add("0")
		} else {
			begin.add("+" + p.o.duration(float64(r.Start-begun)))
		}
		prompt.add(countOf(r.Prompt))
		if r.Cached != nil && *r.Cached > 0 {
			cached.add(format.Count(*r.Cached))
		} else {
			cached.add("")
		}
		text := countOf(r.Generated)
		if r.AtLeast && r.Generated != nil {
			text = p.o.atLeast() + text
		}
		tokens.add(text)
		if r.TTFT != nil {
			ttft.add(p.o.duration(float64(*r.TTFT)))
		} else {
			ttft.add("-")
		}
		tpot.add(p.o.durationOf(r.TPOT))
		p95.add(p.o.durationOf(r.P95))
		in.add(format.Percent(r.InShare))
		if r.Rounds != nil {
			accepted.add(fmt.Sprintf("%d of %d", *r.Accepted, *r.Drafted-*r.Unseen))
		} else {
			accepted.add("")
		}
	}
	for _, row := range []struct {
		name string
		of   func(*requests.Spread) *float64
	}{{"p50", func(d *requests.Spread) *float64 { return &d.P50 }},
		{"p95", func(d *requests.Spread) *float64 { return d.P95 }},
		{"p99", func(d *requests.Spread) *float64 { return d.P99 }},
		{"max", func(d *requests.Spread) *float64 { return &d.Max }}} {
		known := func(d *requests.Spread) bool { return d != nil && row.of(d) != nil }
		if len(list) < fewestValues || len(models) > 1 || !known(q.TTFT) && !known(q.TPOT) {
			continue // of few requests, or of different kinds
		}
		figure := func(d *requests.Spread) string {
			if d == nil {
				return "-"
			}
			return p.o.durationOf(row.of(d))
		}
		for _, c := range t.cols {
			c.add("")
			for len(c.style) < len(c.cells)-1 {
				c.style = append(c.style, plain)
			}
			c.style = append(c.style, dim)
		}
		last := len(id.cells) - 1
		id.cells[last], ttft.cells[last], tpot.cells[last] = row.name, figure(q.TTFT), figure(q.TPOT)
	}
	p.table(&t)
}

func (p *page) speculation(s *summary.Stat, d *requests.Speculation) {
	name := func(m *int) string {
		if m == nil || *m >= len(s.Models) {
			return ""
		}
		return format.Table.Parameters(s.Models[*m].Params)
	}
	text := "Speculative decoding"
	if d.DraftCtx != nil {
		a, b := name(d.DraftModel), name(d.Model)
		if a != "" && b != "" {
			text += fmt.Sprintf(" (%s drafts for %s)", a, b)
		}
	} else {
		text += " (no context drafts: the tokens come from elsewhere)"
	}
	if d.Rate != nil {
		text += fmt.Sprintf(": %s of %s drafted tokens accepted (%s), %s tokens per round",
			format.Count(d.Accepted), format.Count(d.SeenDrafted), format.Percent(d.Rate),
			format.Decimal(d.TokensPerRound))
	}
	p.blank()
	p.line(text+".", plain)
	var facts []string
	if d.Steps > 0 {
		n := float64(d.Steps)
		if d.DraftDur != nil {
			all := float64(*d.DraftDur + d.VerifyDur)
			facts = append(facts, fmt.Sprintf("verification %s, drafting %s (%.0f %% of a round)",
				p.o.duration(float64(d.VerifyDur)/n), p.o.duration(float64(*d.DraftDur)/n),
				100*float64(*d.DraftDur)/max(1, all)))
		} else {
			facts = append(facts, "verification "+p.o.duration(float64(d.VerifyDur)/n))
		}
	}
	if len(d.ByAccepted) > 1 {
		var by []string
		for k, n := range d.ByAccepted {
			if n > 0 {
				by = append(by, fmt.Sprintf("%d in %s", k, format.Count(n)))
			}
		}
		facts = append(facts, "accepted "+strings.Join(by, ", ")+" rounds")
	}
	if d.Again > 0 {
		facts = append(facts, format.Plural(d.Again, "step")+
			" computed once more what was accepted: the state could not be wound back")
	}
	if n := d.Rounds - d.Seen; n > 0 {
		facts = append(facts, fmt.Sprintf("of %s the outcome was not seen, as no batch followed",
			format.Plural(n, "round")))
	}
	facts = append(facts, "verification steps count as prefill: they have several tokens of a sequence")
	p.line(strings.Join(facts, "; "), dim)
}
