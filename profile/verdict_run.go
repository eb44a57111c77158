// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"cmp"
	"slices"
	"strings"
)

// run sums up the verdicts of all phases: each cause counts with its phase's time in steps. nil where no phase has causes.
func (j *judge) run() *Verdict {
	v := &Verdict{Phase: "run", Among: []Bound{}, Names: []string{}, Causes: []Cause{}, Evidence: []Evidence{}}
	var all, known, steps int64
	var ps []part
	surest := map[Bound]float64{} // the share of the phase whose judgement stands for a bound
	sure := map[Bound]string{}
	for i := range j.s.Phases {
		f := &j.s.Phases[i]
		all += f.Dur
		at := slices.IndexFunc(j.s.Verdicts, func(v Verdict) bool { return v.Phase == f.Phase && sameModel(v.Model, f.Model) })
		if at < 0 || len(j.s.Verdicts[at].Causes) == 0 {
			continue
		}
		known += f.Dur
		steps += f.Steps
		x := &j.s.Verdicts[at]
		for _, c := range x.Causes {
			ns := c.Share * float64(f.Dur)
			to := slices.IndexFunc(v.Causes, func(o Cause) bool { return o.Bound == c.Bound && o.What == c.What })
			if to < 0 {
				to = len(v.Causes)
				v.Causes = append(v.Causes, Cause{Bound: c.Bound, What: c.What})
			}
			v.Causes[to].Share += ns // divided below
			if ns > surest[c.Bound] && (x.Bound == c.Bound || x.Bound == BoundMixed) {
				surest[c.Bound], sure[c.Bound] = ns, x.Sure
			}
		}
	}
	if known <= 0 {
		return nil
	}
	for i := range v.Causes {
		c := &v.Causes[i]
		c.PerStep = c.Share / float64(max(1, steps))
		c.Share /= float64(known)
		if c.Bound == "" {
			continue
		}
		at := slices.IndexFunc(ps, func(p part) bool { return p.bound == c.Bound })
		if at < 0 {
			at = len(ps)
			ps = append(ps, part{bound: c.Bound})
		}
		ps[at].share += c.Share
	}
	slices.SortStableFunc(v.Causes, func(a, b Cause) int { return cmp.Compare(b.Share, a.Share) })
	slices.SortStableFunc(ps, func(a, b part) int { return cmp.Compare(b.share, a.share) })
	var among []Bound
	if v.Bound, among = most(ps); among != nil {
		v.Among = among
	}
	v.Sure = sure[v.Bound]
	if v.Bound == BoundMixed {
		v.Sure = SureMedium
		for _, b := range v.Among {
			if sure[b] == SureLow {
				v.Sure = SureLow
			}
		}
	}
	if v.Bound != BoundUnknown && v.Sure == "" {
		v.Sure = SureLow
	}
	var said []string
	for _, p := range ps {
		words := runWords[p.bound]
		if p.bound == BoundDisk {
			words = j.diskWords()
		}
		if words != "" && (p.share >= 0.1 || len(said) == 0) {
			said = append(said, sayPercent(p.share)+" "+words)
		}
	}
	v.Text = "Of the time of all steps " + andList(said) + "."
	for i := range j.s.Phases {
		if j.elsewhere(&j.s.Phases[i]) {
			v.Text += " What other processes computed for them is not in it."
			break
		}
	}
	for i := range j.s.Phases {
		if j.onDevice(&j.s.Phases[i]) {
			v.Text += " What devices computed after the steps' calls is not in it."
			break
		}
	}
	if v.Sure != SureHigh && v.Bound != BoundUnknown {
		v.Why = "It is as sure as what it sums up, the verdicts on the phases."
	}
	if known*10 < all*9 {
		v.Why += " Of " + sayPercent(1-float64(known)/float64(all)) + " of the steps' time nothing is known of operators."
		v.Why = strings.TrimSpace(v.Why)
	}
	return v
}

func sameModel(a, b *int) bool { return a == b || a != nil && b != nil && *a == *b }

// runWords follow "Of the time of all steps 60 %".
var runWords = map[Bound]string{
	BoundMemory: "goes into reading", BoundCompute: "goes into computing", BoundWait: "is lost waiting for other threads",
	BoundInterference: "is lost while others had a thread's CPU", BoundOutside: "is outside operators",
	BoundUnknown: "has no bound that is known",
}
