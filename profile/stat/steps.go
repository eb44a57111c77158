// SPDX-License-Identifier: Apache-2.0

package stat

import (
	"slices"
	"time"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/internal/limits"
	"github.com/profinfer/profinfer/profile/internal/num"
	"github.com/profinfer/profinfer/profile/internal/sketch"
	"github.com/profinfer/profinfer/profile/requests"
	"github.com/profinfer/profinfer/profile/sched"
	"github.com/profinfer/profinfer/profile/summary"
)

// stepSum sums up steps, with one duration each.
type stepSum struct {
	Steps, tokens, seqTokens, dur int64
	noTokens, NoPerToken          bool
	perToken, times               sketch.Histogram
	perSum, perMax                float64
	stepMax, stepMaxID            int64
	stepMaxInstead                []sched.Culprit
}

// endSum sums up steps by their end-to-end time, where some handed graphs over.
type endSum struct {
	stepSum
	async, unseen int64 // steps that handed graphs over; those whose results no thread was seen to wait for
}

// add counts a step. instead is who ran in place of its threads.
func (g *stepSum) add(s *profile.Step, instead []sched.Culprit) {
	g.Steps++
	g.dur += s.Dur
	g.times.Add(s.Dur)
	if s.Dur > g.stepMax || g.Steps == 1 {
		g.stepMax, g.stepMaxID, g.stepMaxInstead = s.Dur, s.ID, instead
	}
	if s.NTokens <= 0 {
		g.noTokens, g.NoPerToken = true, true
		return
	}
	g.tokens += int64(s.NTokens)
	perToken := float64(s.Dur) / float64(s.NTokens)
	if s.Phase == profile.Decode {
		// One sequence waits for the whole step, however many others share it.
		if s.NSeqs <= 0 && s.NTokens > 1 {
			g.NoPerToken = true
			return
		}
		perToken *= float64(max(1, s.NSeqs))
		g.seqTokens += int64(s.NTokens) / int64(max(1, s.NSeqs))
	} else {
		g.seqTokens += int64(s.NTokens)
	}
	g.perToken.Add(int64(perToken))
	g.perSum += perToken
	g.perMax = max(g.perMax, perToken)
}

func (g *stepSum) merge(o *stepSum) {
	g.Steps += o.Steps
	g.tokens += o.tokens
	g.seqTokens += o.seqTokens
	g.dur += o.dur
	g.noTokens = g.noTokens || o.noTokens
	g.NoPerToken = g.NoPerToken || o.NoPerToken
	g.perToken.Merge(&o.perToken)
	g.times.Merge(&o.times)
	g.perSum += o.perSum
	g.perMax = max(g.perMax, o.perMax)
	if o.stepMax > g.stepMax || g.stepMaxID == 0 {
		g.stepMax, g.stepMaxID, g.stepMaxInstead = o.stepMax, o.stepMaxID, o.stepMaxInstead
	}
}

// rates returns tokens per second, the time per token and its 95th percentile; nil: unknown.
func (g *stepSum) rates() (tps, per, p95 *float64) {
	if !g.noTokens {
		tps = num.Ratio(float64(g.tokens), time.Duration(g.dur).Seconds())
	}
	if !g.NoPerToken {
		per = num.Share(g.dur, g.seqTokens)
		if g.perToken.N >= requests.P95From {
			v := g.perToken.Quantile(0.95)
			p95 = &v
		}
	}
	return tps, per, p95
}

// Step counts a step, without its operators. What it handed over is added later.
func (g *Group) Step(s *profile.Step, instead []sched.Culprit) {
	if s.HandedOver && g.ends == nil {
		g.ends = endsOf(&g.stepSum)
	}
	g.stepSum.add(s, instead)
	switch {
	case s.HandedOver:
		g.ends.async++
	case g.ends != nil:
		g.ends.add(s, instead)
	}
}

// Result counts a step once its results are there, or it is known that this was not seen.
func (g *Group) Result(s *profile.Step, instead []sched.Culprit) {
	if e, ok := s.WithResults(); ok {
		g.ends.add(e, instead)
	} else {
		g.ends.unseen++
	}
}

// endsOf starts with steps that handed nothing over: their results were there when their calls returned.
func endsOf(calls *stepSum) *endSum {
	e := &endSum{stepSum: *calls}
	e.perToken.Counts = slices.Clone(calls.perToken.Counts)
	e.times.Counts = slices.Clone(calls.times.Counts)
	return e
}

// mergeSteps adds the steps of another group.
func (g *Group) mergeSteps(o *Group) {
	if g.ends != nil || o.ends != nil {
		if g.ends == nil {
			g.ends = endsOf(&g.stepSum)
		}
		from := o.ends
		if from == nil {
			from = endsOf(&o.stepSum)
		}
		g.ends.merge(&from.stepSum)
		g.ends.async += from.async
		g.ends.unseen += from.unseen
	}
	g.stepSum.merge(&o.stepSum)
}

// awaited is a step of a phase whose results are not there yet.
type awaited struct {
	g       *Group
	instead []sched.Culprit
	team    *threadsSum // nil: it was not counted
}

// await keeps the group of a step that handed graphs over.
func (b *statState) await(s *profile.Step, g *Group, instead []sched.Culprit) {
	if !s.HandedOver {
		return
	}
	if b.awaited == nil || len(b.awaited) >= limits.Pending { // of recordings whose steps have no result
		b.awaited = map[*profile.Step]awaited{}
	}
	b.awaited[s] = awaited{g: g, instead: instead}
}

// Result takes a step that handed graphs over.
func (b *statState) Result(s *profile.Step) error {
	if b.opts.PID != 0 && s.PID != b.opts.PID {
		return nil
	}
	b.requests.AddResult(b.book)
	b.offload.Result(s)
	if a, ok := b.awaited[s]; ok {
		delete(b.awaited, s)
		a.g.Result(s, a.instead)
		if d, seen := s.EndToEnd(); seen && a.team != nil {
			a.team.took(s, d)
		}
	}
	return nil
}

// spreads returns the distributions of the steps' times and of the time per token of one sequence.
func (g *stepSum) spreads(p profile.Phase) (steps, tpot *requests.Spread) {
	steps = requests.SpreadOf(&g.times, float64(g.dur), float64(g.stepMax))
	if p == profile.Decode && !g.NoPerToken {
		tpot = requests.SpreadOf(&g.perToken, g.perSum, g.perMax)
	}
	return steps, tpot
}

// fillSteps sets the times of a phase's steps: their end-to-end times take precedence.
func fillSteps(ps *summary.Phase, p profile.Phase, g *Group) {
	ps.Steps, ps.Dur = g.stepSum.Steps, g.dur
	if !g.noTokens {
		ps.Tokens = &g.tokens
	}
	ps.TokensPerS, ps.PerToken, ps.PerTokenP95 = g.rates()
	ps.StepMax, ps.StepMaxID, ps.StepMaxInstead = g.stepMax, g.stepMaxID, num.List(taken(g.stepMaxInstead))
	ps.StepTime, ps.TPOT = g.spreads(p)
	e := g.ends
	if e == nil {
		return
	}
	ps.CallTokensPerS, ps.CallPerToken, ps.CallPerTokenP95 = ps.TokensPerS, ps.PerToken, ps.PerTokenP95
	ps.TokensPerS, ps.PerToken, ps.PerTokenP95 = e.rates()
	ps.StepTime, ps.TPOT = e.spreads(p)
	ps.Async, ps.Unseen = e.async, e.unseen
	if e.Steps > 0 {
		ps.EndToEnd = &e.dur
		ps.StepMax, ps.StepMaxID = e.stepMax, e.stepMaxID
		ps.StepMaxInstead = num.List(taken(e.stepMaxInstead))
	}
}
