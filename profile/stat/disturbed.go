// SPDX-License-Identifier: Apache-2.0

package stat

import (
	"cmp"
	"slices"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/internal/num"
	"github.com/profinfer/profinfer/profile/sched"
	"github.com/profinfer/profinfer/profile/summary"
	"github.com/profinfer/profinfer/profile/verdict"
)

const (
	fewDisturbed  = 0.25 // of the steps: figures of operators can do without them
	maxStepRanges = 64   // ranges of step numbers kept of a phase's disturbed steps
)

// outerLoss is what a step lost to something outside the engine.
type outerLoss struct {
	lost, disk int64
	much       bool
}

// disturbedSum sums up disturbed steps; their number and time are in the group's stepSum.
type disturbedSum struct {
	lost, disk int64
	ranges     []summary.StepRange
	instead    map[sched.CulpritKey]*sched.Culprit
}

// disturbedBy is what a step lost; of one that was not wholly seen, or not traced, nothing is known.
func (b *statState) disturbedBy(s *profile.Step, ops []*profile.Op) (l outerLoss) {
	if s.Incomplete == "" && s.Untraced == "" {
		l.lost, l.disk, l.much = verdict.Disturbed(s, ops)
	}
	return l
}

// disturb counts a disturbed step, without its operators.
func (g *Group) disturb(s *profile.Step, l *outerLoss, instead []sched.Culprit) {
	g.stepSum.add(s, instead)
	d := &g.outer
	d.lost += l.lost
	d.disk += l.disk
	if n := len(d.ranges); n > 0 && d.ranges[n-1].Last+1 == s.ID {
		d.ranges[n-1].Last = s.ID
	} else if n < maxStepRanges {
		d.ranges = append(d.ranges, summary.StepRange{First: s.ID, Last: s.ID})
	}
	for i := range instead {
		d.culprit(&instead[i])
	}
}

func (d *disturbedSum) culprit(c *sched.Culprit) {
	if d.instead == nil {
		d.instead = map[sched.CulpritKey]*sched.Culprit{}
	}
	sched.AddCulprit(d.instead, c)
}

func (d *disturbedSum) merge(o *disturbedSum) {
	d.lost += o.lost
	d.disk += o.disk
	d.ranges = append(d.ranges, o.ranges...)
	slices.SortFunc(d.ranges, func(a, b summary.StepRange) int { return cmp.Compare(a.First, b.First) })
	d.ranges = d.ranges[:min(len(d.ranges), maxStepRanges)]
	for _, c := range o.instead {
		d.culprit(c)
	}
}

// addDisturbed adds the operators of a phase's disturbed steps, d, to those of its other steps, g, or leaves
// them out where these are few. It returns what the phase says of them; nil where d is nil.
func (b *Builder) addDisturbed(g, d *Group) *summary.Disturbed {
	if d == nil || d.Steps == 0 {
		return nil
	}
	out := &summary.Disturbed{Steps: d.Steps, Dur: d.dur, Share: num.Share(d.dur, g.dur), Lost: d.outer.lost,
		Disk: d.outer.disk, Ranges: num.List(d.outer.ranges),
		Instead: num.List(taken(sched.TopCulprits(d.outer.instead, 6)))}
	b.sched.SetHeld(out.Instead)
	out.LeftOut = !b.opts.Disturbed && g.Traced > 0 &&
		float64(d.Traced) <= fewDisturbed*float64(g.Traced+d.Traced) &&
		verdict.FromOutside(out, b.cpus.team, b.sched.MayUse())
	d.stepSum = stepSum{} // g has them
	if !out.LeftOut {
		g.Merge(d)
		return out
	}
	// Threads, experts and rows by step are those of all steps.
	rest := &Group{experts: d.experts, Threads: d.Threads, dropped: d.dropped}
	for at, by := range b.by {
		if by == facts.ByStep {
			for len(rest.rows) <= at {
				rest.rows = append(rest.rows, nil)
			}
			rest.rows[at] = d.rowsBy(at)
		}
	}
	g.Merge(rest)
	return out
}

// undisturbed sets the rates of a phase's steps without the disturbed ones, whose sum d is.
func undisturbed(ps *summary.Phase, g *Group, d *stepSum) {
	if n := g.stepSum.Steps - d.Steps; n > 0 && g.ends == nil {
		dur := g.dur - d.dur
		ps.UndisturbedStep = num.Ratio(float64(dur), float64(n))
		if !g.noTokens {
			ps.UndisturbedTPS = num.PerSecond(1e9*(g.tokens-d.tokens), dur)
		}
	}
}
