// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"slices"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/internal/num"
)

// maxSpeculationPoints bounds the points of a [SpeculationSeries]: beyond it, neighbours are merged.
const maxSpeculationPoints = 512

// Series is what plots of requests need beyond [Sequences]. Times are nanoseconds.
type Series struct {
	// TPOT is over the means of the requests that Sequences lists, TokenGap (inter-token latency) over the
	// tokens of all requests. nil: no request has the figure.
	TPOT     *Dist `json:"tpot"`
	TokenGap *Dist `json:"itl"`
	// Speculation matches Sequences.Speculation: the same contexts in the same order.
	Speculation []SpeculationSeries `json:"speculation"`
}

// SpeculationSeries is the acceptance of drafted tokens over time, in one context that verifies them.
type SpeculationSeries struct {
	PID int32  `json:"pid"`
	Ctx uint64 `json:"ctx"`
	// StepsPerPoint is the most verifying steps that a point stands for.
	StepsPerPoint int64              `json:"steps_per_point"`
	Points        []SpeculationPoint `json:"points"`
}

// SpeculationPoint is one step that verifies drafted tokens, or several consecutive ones. Sums over all
// points are the figures of [Speculation].
type SpeculationPoint struct {
	Step     int64 `json:"step"` // the first one
	LastStep int64 `json:"last_step"`
	Start    int64 `json:"start_ns"` // of the first step, boottime
	End      int64 `json:"end_ns"`   // of the last one
	Steps    int64 `json:"steps"`
	// Rounds counts rounds, Seen those whose outcome was seen: Accepted of their SeenDrafted tokens were
	// accepted.
	Rounds      int64 `json:"rounds"`
	Seen        int64 `json:"rounds_seen"`
	SeenDrafted int64 `json:"seen_drafted"`
	Accepted    int64 `json:"accepted"`
	// Rate is Accepted / SeenDrafted, TokensPerRound (Accepted + Seen) / Seen.
	Rate           *float64 `json:"accepted_share"`
	TokensPerRound *float64 `json:"tokens_per_round"`
	// Near is the Rate over this point and its neighbours: a 32nd of all points on each side, at least two.
	Near *float64 `json:"accepted_share_near"`
	// Verify is the time of the steps, including those that computed again what was accepted; Draft is the
	// time of the draft's steps before them. nil: no context drafts.
	Verify int64  `json:"verify_ns"`
	Draft  *int64 `json:"draft_ns"`

	drafts []draftTime
}

// draftTime is the time of a context that may turn out to be the draft.
type draftTime struct {
	ctx *contextSum
	dur int64
}

// verifiedSteps are the verifying steps of a context, thinned. Point i stands for steps i*every to
// (i+1)*every - 1, counted from 0, so a round finds the point of its step when its outcome is known.
type verifiedSteps struct {
	points []SpeculationPoint
	every  int64
	steps  int64
}

// add adds a step.
func (v *verifiedSteps) add(s *profile.Step) {
	v.every = max(1, v.every)
	p := SpeculationPoint{Step: s.ID, LastStep: s.ID, Start: s.Start, End: s.Start + s.Dur, Steps: 1,
		Verify: s.Dur}
	if i := v.steps / v.every; i < int64(len(v.points)) {
		v.points[i].join(&p)
	} else {
		v.points = append(v.points, p)
	}
	v.steps++
	if len(v.points) > maxSpeculationPoints {
		v.thin()
	}
}

// thin merges points in pairs.
func (v *verifiedSteps) thin() {
	n := len(v.points)
	for i := 0; i < n; i += 2 {
		p := v.points[i]
		if i+1 < n {
			p.join(&v.points[i+1])
		}
		v.points[i/2] = p
	}
	clear(v.points[(n+1)/2:])
	v.points = v.points[:(n+1)/2]
	v.every *= 2
}

// at returns the point of a step by its number; nil where steps are not kept.
func (v *verifiedSteps) at(step int64) *SpeculationPoint {
	if v.every == 0 || step/v.every >= int64(len(v.points)) {
		return nil
	}
	return &v.points[step/v.every]
}

// last returns the point of the last step; nil: there is none.
func (v *verifiedSteps) last() *SpeculationPoint { return v.at(v.steps - 1) }

// round counts a round at its step's number.
func (v *verifiedSteps) round(step int64, r *Round) {
	p := v.at(step)
	if p == nil {
		return
	}
	p.Rounds++
	if r.Accepted >= 0 {
		p.Seen++
		p.SeenDrafted += r.Drafted
		p.Accepted += r.Accepted
	}
}

// again adds a step that computed again what was accepted.
func (v *verifiedSteps) again(s *profile.Step) {
	if p := v.last(); p != nil {
		p.Verify += s.Dur
	}
}

// draft adds the time of a context that may be the draft to the last step.
func (v *verifiedSteps) draft(c *contextSum, dur int64) {
	if p := v.last(); p != nil {
		p.draft(c, dur)
	}
}

func (p *SpeculationPoint) draft(c *contextSum, dur int64) {
	if i := slices.IndexFunc(p.drafts, func(d draftTime) bool { return d.ctx == c }); i >= 0 {
		p.drafts[i].dur += dur
		return
	}
	p.drafts = append(p.drafts, draftTime{c, dur})
}

// join adds the steps of o, which come after p's.
func (p *SpeculationPoint) join(o *SpeculationPoint) {
	p.LastStep, p.End = o.LastStep, max(p.End, o.End)
	p.Steps += o.Steps
	p.Rounds += o.Rounds
	p.Seen += o.Seen
	p.SeenDrafted += o.SeenDrafted
	p.Accepted += o.Accepted
	p.Verify += o.Verify
	for _, d := range o.drafts {
		p.draft(d.ctx, d.dur)
	}
}

// series returns the steps of a context that speculates.
func (c *contextSum) series() SpeculationSeries {
	v := &c.spec.over
	s := SpeculationSeries{PID: c.pid, Ctx: c.ctx, StepsPerPoint: max(1, v.every), Points: num.List(v.points)}
	d, _ := c.draft()
	wide := max(2, len(s.Points)/32)
	for i := range s.Points {
		p := &s.Points[i]
		var accepted, drafted int64
		for _, n := range s.Points[max(0, i-wide):min(len(s.Points), i+wide+1)] {
			accepted += n.Accepted
			drafted += n.SeenDrafted
		}
		p.Near = num.Share(accepted, drafted)
		p.Rate, p.TokensPerRound = num.Share(p.Accepted, p.SeenDrafted), num.Share(p.Accepted+p.Seen, p.Seen)
		if d == nil {
			continue
		}
		p.Draft = new(int64)
		for _, x := range p.drafts {
			if x.ctx == d {
				*p.Draft = x.dur
			}
		}
	}
	return s
}

// RequestSeries returns what plots need. The requests must be finished.
func (b *Collector) RequestSeries(q *Sequences) *Series {
	s := &Series{Speculation: []SpeculationSeries{}}
	var tpot DistSum
	for i := range q.Requests {
		if r := &q.Requests[i]; r.TPOT != nil {
			tpot.Add(int64(*r.TPOT))
		}
	}
	if tpot.Hist.N > 0 {
		d := tpot.Dist()
		s.TPOT = &d
	}
	var gaps DistSum
	for _, c := range b.contexts() {
		if c.countsGaps() && c.gaps.N > 0 {
			gaps.Merge(&DistSum{Hist: c.gaps, min: c.gapMin, Max: c.gapMax, Sum: int64(c.gapSum)})
		}
	}
	if gaps.Hist.N > 0 {
		d := gaps.Dist()
		s.TokenGap = &d
	}
	for i := range q.Speculation {
		x := &q.Speculation[i]
		for _, c := range b.contexts() {
			if c.pid == x.PID && c.ctx == x.Ctx {
				s.Speculation = append(s.Speculation, c.series())
			}
		}
	}
	return s
}

// countsGaps reports whether the times between a context's tokens are those of requests: not if it only
// drafts, nor if the logits of a text were requested.
func (c *contextSum) countsGaps() bool { return !c.drafts && (c.spec.Steps == 0 || c.speculates()) }
