// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"cmp"
	"slices"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/internal/num"
	"github.com/profinfer/profinfer/profile/internal/sketch"
)

// Finish computes the sequences. h is what Replay returned; the builder must not be used afterwards.
func (b *Builder) Finish(h *profile.Header) *Sequences {
	b.book.List() // sorts them
	return b.Summary(h, &b.book)
}

// Rounds returns the rounds of speculative decoding in step order, and how many were dropped because of the
// limit. Finish and KeepRounds must have been called before.
func (b *Builder) Rounds() (rounds []Round, dropped int64) {
	for _, c := range b.contexts() {
		if !c.speculates() {
			continue
		}
		d, _ := c.draft()
		for _, r := range c.spec.rounds {
			if d != nil {
				r.DraftCtx = d.ctx
			}
			rounds = append(rounds, r)
		}
		dropped += c.spec.dropped
	}
	slices.SortStableFunc(rounds, func(a, b Round) int {
		return cmp.Or(cmp.Compare(a.Step, b.Step), cmp.Compare(a.Seq, b.Seq))
	})
	return rounds, dropped
}

// contexts returns all contexts in the order of their appearance.
func (b *Collector) contexts() []*contextSum {
	var all []*contextSum
	for _, p := range b.procs {
		for _, c := range p.byCtx {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b *contextSum) int { return cmp.Compare(a.number, b.number) })
	return all
}

func (b *Collector) Summary(h *profile.Header, models *facts.Book) *Sequences {
	b.rest(models)
	s := &Sequences{Requests: []Request{}, Every: max(1, b.every), AtOnce: b.atOnce,
		Speculation: []Speculation{}, MaxError: sketch.HistogramError}
	all := b.contexts()
	for _, c := range all {
		open := make([]*openRequest, 0, len(c.seqs))
		for _, e := range c.seqs {
			open = append(open, e)
		}
		slices.SortFunc(open, func(a, b *openRequest) int { return cmp.Compare(a.ID, b.ID) })
		for _, e := range open {
			b.end(c, e)
		}
	}
	s.Every = max(1, b.every)
	for _, c := range all {
		if !c.speculates() {
			continue
		}
		s.Speculation = append(s.Speculation, c.speculation(models))
		if d, _ := c.draft(); d != nil {
			b.forget(d)
		}
	}
	slices.SortStableFunc(s.Speculation, func(a, b Speculation) int {
		return cmp.Compare(b.Rounds, a.Rounds)
	})
	launched := len(h.Meta.Command) > 0
	type key struct {
		pid int32
		ctx uint64
		seq int32
	}
	seqs := map[key]bool{}
	var prompts []prompt
	var tpot []float64
	var gaps sketch.Histogram
	var gapSum float64
	var gapMax int64
	for _, c := range all {
		if c.drafts {
			continue
		}
		s.Seen += c.seen
		b.First.merge(&c.firsts[beginSeen])
		if launched {
			s.Seen -= c.warmups
			s.Warmups += c.warmups
			b.First.merge(&c.firsts[beginUnsure])
		} else {
			b.First.merge(&c.firsts[beginWarmup])
			b.First.Unknown += c.firsts[beginUnsure].Ttft.Hist.N + c.firsts[beginUnsure].Pending
		}
		spec := c.speculates()
		for _, e := range c.ended {
			e.complete(launched, spec)
			e.Model = models.IndexOf(e.model)
			if !e.Warmup {
				seqs[key{c.pid, c.ctx, e.Seq}] = true
				if e.TTFT != nil {
					prompts = append(prompts, prompt{e.prompt, float64(*e.TTFT)})
				}
				if e.TPOT != nil {
					tpot = append(tpot, *e.TPOT)
				}
			}
			s.Requests = append(s.Requests, e.Request)
		}
		if c.countsGaps() {
			gaps.Merge(&c.gaps)
			gapSum += c.gapSum
			gapMax = max(gapMax, c.gapMax)
		}
	}
	slices.SortFunc(s.Requests, func(a, b Request) int { return cmp.Compare(a.ID, b.ID) })
	n := int64(0)
	for i := range s.Requests { // numbered without those of contexts that only draft
		r := &s.Requests[i]
		if r.Warmup {
			r.ID = 0
			continue
		}
		n++
		if s.Every == 1 {
			r.ID = n
		}
	}
	s.Sequences = len(seqs)
	s.TTFT, s.TTFTByPrompt, s.TPOT = spreadOfPrompts(prompts), promptClasses(prompts), spreadOf(tpot)
	s.TokenGap = SpreadOf(&gaps, gapSum, float64(gapMax))
	return s
}

// complete fills in what only the whole run shows about a request.
func (e *openRequest) complete(launched, speculates bool) {
	if e.hidden || e.unsure && !launched {
		e.AtLeast = true
	} else {
		if e.first || e.prompt > 0 {
			e.Prompt = &e.prompt
		}
		if e.cached >= 0 {
			e.Cached = &e.cached
		}
		if e.first && !e.untold {
			d := e.from - e.Start
			e.TTFT = &d
		}
	}
	e.Warmup = e.Warmup && launched
	if e.TPOT != nil && e.Tokens > 0 {
		e.InShare = num.Ratio(float64(e.InSteps), *e.TPOT*float64(e.Tokens))
	}
	if e.Rounds != nil && !speculates { // the logits of a text, not of drafts
		e.Rounds, e.Drafted, e.Accepted, e.Unseen = nil, nil, nil, nil
		e.Generated, e.TPOT, e.P95, e.AtLeast, e.Tokens, e.InSteps, e.InShare = nil, nil, nil, false, 0, 0,
			nil
	}
}
