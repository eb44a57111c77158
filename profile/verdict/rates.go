// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/internal/num"
	"github.com/profinfer/profinfer/profile/ops"
	"github.com/profinfer/profinfer/profile/summary"
)

// rates sets what a phase's operators read, write and compute over the time of its steps, beside the machine's
// peaks, and its tokens per second with the time between steps.
func (j *judge) rates(ps *summary.Phase) {
	g := j.groups[keyOf(ps)]
	if g == nil {
		return
	}
	j.endToEnd(ps, g)
	if ps.TracedDur <= 0 || ps.OpsDur == nil || ps.Gap == nil { // otherwise only some operators are known
		return
	}
	cells := g.inOrder()
	c := workClass{sum: sumOf(cells)}
	j.peaks(g, &c, cells)
	rate := func(n int64, unit string, peak float64) *summary.Rate {
		if n <= 0 {
			return nil
		}
		r := &summary.Rate{Achieved: float64(n) / float64(ps.TracedDur), Unit: unit}
		if peak > 0 {
			part := r.Achieved / peak
			r.Peak, r.OfPeak = &peak, &part
		}
		return r
	}
	ps.Bandwidth = rate(c.sum.bytes, "GB/s", c.roofGBps)
	ps.Compute = rate(c.sum.flops, "GFLOP/s", c.roofFlops)
	model := sumOf(g.of(func(x *workCell) bool {
		return x.weight && x.kind == ops.ClassProduct || x.kind == ops.ClassAttention
	}))
	if c.roofGBps > 0 && model.bytes > 0 {
		ps.MBU = num.Ratio(float64(model.bytes)/float64(ps.TracedDur), c.roofGBps)
	}
}

// endToEnd includes the time between steps of one answer.
func (j *judge) endToEnd(ps *summary.Phase, g *workGroup) {
	if ps.Phase != string(profile.Decode) || ps.Tokens == nil || ps.TokensPerS == nil {
		return
	}
	dur := float64(*ps.Tokens) / *ps.TokensPerS // s in steps, until their results were there
	if all := dur + float64(g.between)/1e9; all > 0 {
		ps.EndToEndTPS = num.Ratio(float64(*ps.Tokens), all)
	}
}
