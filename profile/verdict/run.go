// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"cmp"
	"slices"
	"strings"

	"github.com/profinfer/profinfer/internal/format"
	"github.com/profinfer/profinfer/profile/summary"
)

// run sums up the verdicts of all phases: each cause is weighted with its phase's time in steps. nil where no
// phase has causes.
func (j *judge) run() *summary.Verdict {
	v := &summary.Verdict{Phase: "run", Among: []summary.Bound{}, Names: []string{},
		Causes: []summary.Cause{}, Evidence: []summary.Evidence{}}
	var all, known, steps int64
	apart := false
	var ps []boundShare
	surest := map[summary.Bound]float64{} // the share of the phase whose judgement represents a bound
	sure := map[summary.Bound]string{}
	for i := range j.s.Phases {
		f := &j.s.Phases[i]
		n, dur := f.Judged()
		all += dur
		apart = apart || leftOut(f)
		at := slices.IndexFunc(j.s.Verdicts, func(v summary.Verdict) bool {
			return v.Phase == f.Phase && sameModel(v.Model, f.Model)
		})
		if at < 0 || len(j.s.Verdicts[at].Causes) == 0 {
			continue
		}
		known += dur
		steps += n
		x := &j.s.Verdicts[at]
		for _, c := range x.Causes {
			ns := c.Share * float64(dur)
			to := slices.IndexFunc(v.Causes, func(o summary.Cause) bool {
				return o.Bound == c.Bound && o.What == c.What
			})
			if to < 0 {
				to = len(v.Causes)
				v.Causes = append(v.Causes, summary.Cause{Bound: c.Bound, What: c.What})
			}
			v.Causes[to].Share += ns // divided below
			if ns > surest[c.Bound] && (x.Bound == c.Bound || x.Bound == summary.BoundMixed) {
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
		at := slices.IndexFunc(ps, func(p boundShare) bool { return p.bound == c.Bound })
		if at < 0 {
			at = len(ps)
			ps = append(ps, boundShare{bound: c.Bound})
		}
		ps[at].share += c.Share
	}
	slices.SortStableFunc(v.Causes, func(a, b summary.Cause) int { return cmp.Compare(b.Share, a.Share) })
	slices.SortStableFunc(ps, func(a, b boundShare) int { return cmp.Compare(b.share, a.share) })
	var among []summary.Bound
	if v.Bound, among = mostTime(ps); among != nil {
		v.Among = among
	}
	v.Sure = sure[v.Bound]
	if v.Bound == summary.BoundMixed {
		v.Sure = summary.SureMedium
		for _, b := range v.Among {
			if sure[b] == summary.SureLow {
				v.Sure = summary.SureLow
			}
		}
	}
	if v.Bound != summary.BoundUnknown && v.Sure == "" {
		v.Sure = summary.SureLow
	}
	var said []string
	for _, p := range ps {
		words := runWords[p.bound]
		if p.bound == summary.BoundDisk {
			words = j.diskWords()
		}
		if words != "" && (p.share >= 0.1 || len(said) == 0) {
			said = append(said, format.Share(p.share)+" "+words)
		}
	}
	v.Text = "Of the time of all steps, " + andList(said) + "."
	if apart {
		v.Text = "Of the time of the undisturbed steps, " + andList(said) + "."
	}
	v.Text += j.calm(v)
	for i := range j.s.Phases {
		if j.elsewhere(&j.s.Phases[i]) {
			v.Text += " What other processes computed for them is not included."
			break
		}
	}
	for i := range j.s.Phases {
		if j.onDevice(&j.s.Phases[i]) {
			v.Text += " What devices computed after the steps' calls is not included."
			break
		}
	}
	if v.Sure != summary.SureHigh && v.Bound != summary.BoundUnknown {
		v.Why = "It sums up the verdicts on the phases."
	}
	if known*10 < all*9 {
		v.Why += " Operators of " + format.Share(1-float64(known)/float64(all)) +
			" of the steps' time are unknown."
		v.Why = strings.TrimSpace(v.Why)
	}
	return v
}

// disturbing is the share of the time from which contention or the disk is worth a word.
const disturbing = 0.02

// calm says that nothing disturbed a run, and how many CPUs it left unused; empty where that is not so, or not
// known.
func (j *judge) calm(v *summary.Verdict) string {
	if !j.s.HasSched {
		return ""
	}
	var lost float64
	for _, c := range v.Causes {
		if c.Bound == summary.BoundInterference || c.Bound == summary.BoundDisk || c.What == "sleep" {
			lost += c.Share
		}
	}
	for i := range j.s.Phases {
		if ps := &j.s.Phases[i]; ps.Disturbed != nil && (ps.Disturbed.LeftOut || lost >= disturbing) {
			return ""
		}
	}
	if lost >= disturbing {
		return ""
	}
	text := " Nothing disturbed this run: no CPU contention, no disk wait."
	if u := j.s.CPUUse; u != nil && u.Threads > 0 && u.Threads < u.CPUs {
		text += " " + format.Count(int64(u.Threads)) + " of " + format.Plural(int64(u.CPUs), "CPU") +
			" used: try -t " + format.Count(int64(u.CPUs)) + "."
	}
	return text
}

func sameModel(a, b *int) bool { return a == b || a != nil && b != nil && *a == *b }

// runWords complete "Of the time of all steps 60 %".
var runWords = map[summary.Bound]string{
	summary.BoundMemory: "is memory-bound", summary.BoundCompute: "is compute-bound",
	summary.BoundWait:         "is barrier wait",
	summary.BoundInterference: "is CPU contention",
	summary.BoundOutside:      "is outside operators",
	summary.BoundUnknown:      "has no known bottleneck",
}
