// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/profinfer/profinfer/internal/format"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/internal/num"
	"github.com/profinfer/profinfer/profile/ops"
	"github.com/profinfer/profinfer/profile/summary"
)

// rowVerdicts judges the rows of every phase.
func (j *judge) rowVerdicts() {
	by := j.s.By
	if by == facts.ByThread || by == facts.ByStep {
		return // the rows are parts of operators, or of unlike ones
	}
	for i := range j.s.Phases {
		ps := &j.s.Phases[i]
		k := keyOf(ps)
		g := j.groups[k]
		if g == nil || ps.OpsDur == nil {
			continue
		}
		cells := map[string][]*workCell{}
		for _, c := range g.inOrder() {
			key := c.rowKey(by)
			cells[key] = append(cells[key], c)
		}
		for r := range ps.Rows {
			row := &ps.Rows[r]
			key := row.Key
			if by == facts.ByWeight {
				key += "\x00"
				if row.Weight {
					key += row.Type
				}
			}
			row.Bound = j.rowVerdict(k, g, cells[key], row.Calls)
			delete(cells, key)
		}
		if ps.Rest != nil {
			var rest []*workCell
			for _, c := range cells {
				rest = append(rest, c...)
			}
			ps.Rest.Bound = j.rowVerdict(k, g, rest, ps.Rest.Calls)
		}
	}
}

// rowKey is the row that a cell's operators belong to, as in stat.Group.facts.
func (c *workCell) rowKey(by facts.By) string {
	switch by {
	case facts.ByOp:
		return c.op
	case facts.ByBlock:
		return string(c.block)
	case facts.ByLayer:
		if c.layer < 0 {
			return "none"
		}
		return strconv.Itoa(c.layer)
	}
	return c.name + "\x00" + c.typ
}

// rowVerdict judges some cells, which should contain calls operators; nil where other operators belong to
// them.
func (j *judge) rowVerdict(k facts.ModelKey, g *workGroup, cells []*workCell,
	calls int64) *summary.RowVerdict {
	slices.SortFunc(cells, compareCells) // floating-point sums depend on the order
	c := workClass{what: "other", sum: sumOf(cells)}
	if c.sum.calls != calls || calls == 0 || c.sum.dur <= 0 {
		return nil
	}
	var products, attention int64
	for _, x := range cells {
		switch {
		case x.kind == ops.ClassProduct && x.weight:
			products += x.dur
		case x.kind == ops.ClassAttention:
			attention += x.dur
		}
	}
	switch {
	case float64(products) >= knownPart*float64(c.sum.dur):
		c.what = "weight_matmul"
		j.needs(k, g, &c, cells)
	case attention == c.sum.dur:
		c.what = "attention"
		fallthrough
	default:
		j.needsOfOthers(g, &c)
	}
	j.peaks(g, &c, cells)
	j.decide(g, &c)
	out := &summary.RowVerdict{OfPeakGBps: c.memPeak, OfPeakFlops: c.arithPeak, Among: []summary.Bound{}}
	var ps []boundShare
	add := func(b summary.Bound, ns int64) {
		if ns <= 0 {
			return
		}
		v := num.SafeRatio(ns, c.sum.dur)
		if at := slices.IndexFunc(ps, func(p boundShare) bool { return p.bound == b }); at >= 0 {
			ps[at].share += v
			return
		}
		ps = append(ps, boundShare{b, v})
	}
	add(c.bound, c.sum.work)
	add(summary.BoundWait, c.sum.wait)
	add(summary.BoundDisk, c.sum.disk)
	if j.slept(g) {
		add(summary.BoundWait, c.sum.off)
	} else {
		add(summary.BoundInterference, c.sum.off)
	}
	slices.SortStableFunc(ps, func(a, b boundShare) int { return cmp.Compare(b.share, a.share) })
	sure := 0
	var why []string
	out.Bound, out.Among = mostTime(ps)
	switch out.Bound {
	case summary.BoundUnknown:
		if c.bound == summary.BoundUnknown {
			out.Among = c.among
		}
	case summary.BoundMemory, summary.BoundCompute:
		sure = c.sure
	case summary.BoundMixed:
		if sure = 2; slices.Contains(out.Among, c.bound) && c.bound != summary.BoundUnknown {
			sure = min(sure, c.sure)
		}
	case summary.BoundDisk:
		if sure = 3; j.inferred(c.sum.majors) {
			sure = 2
		}
	default:
		sure = 3
	}
	if out.Among == nil {
		out.Among = []summary.Bound{}
	}
	for _, p := range ps {
		switch {
		case p.bound == c.bound && c.bound != summary.BoundUnknown:
			why = append(why, c.roofText()...)
		case p.share < partShare:
		case p.bound == summary.BoundWait:
			why = append(why, format.Share(p.share)+
				" of their time is barrier wait or sleep.")
		case p.bound == summary.BoundDisk && j.inferred(c.sum.majors):
			why = append(why, "In "+format.Share(p.share)+
				" of their time a thread is in uninterruptible sleep, mostly a disk read.")
		case p.bound == summary.BoundDisk:
			why = append(why, "In "+format.Share(p.share)+" of their time pages are read from disk: "+
				format.Plural(c.sum.majors, "major fault")+".")
		case p.bound == summary.BoundInterference:
			why = append(why, "In "+format.Share(p.share)+" of their time a thread is runnable, not running (CPU contention).")
		}
	}
	if b := out.Bound; b == summary.BoundMemory || b == summary.BoundCompute || b == summary.BoundUnknown ||
		slices.Contains(out.Among, c.bound) {
		why = append(why, c.reasons...)
	}
	if out.Bound != summary.BoundUnknown {
		out.Sure = sureWords[sure]
	}
	out.Why = joinSentences(why)
	return out
}

// roofText describes how near the operators are to the roof.
func (c *workClass) roofText() []string {
	if c.memPeak == nil || c.neither {
		return nil
	}
	text := "At the machine's peak, reading would take " + format.Share(*c.memPeak) + " of their working time"
	if c.arithPeak != nil {
		text += ", computing " + format.Share(*c.arithPeak)
		if c.units != "" {
			text += " (" + c.units + ")"
		}
	}
	return []string{text + "."}
}

// mostTime is the bound with most of the time, and for a mixed one its parts.
func mostTime(parts []boundShare) (summary.Bound, []summary.Bound) {
	if len(parts) == 0 {
		return summary.BoundUnknown, nil
	}
	var large []summary.Bound
	for _, p := range parts {
		if p.share >= partShare {
			large = append(large, p.bound)
		}
	}
	// Unknown time does not outweigh the disk: a part of it can be the kernel's work for what is read.
	disk := parts[0].bound == summary.BoundUnknown && slices.Contains(large, summary.BoundDisk)
	switch {
	case parts[0].share >= mostShare && !disk, len(large) == 1:
		return parts[0].bound, nil
	case len(large) > 1:
		return summary.BoundMixed, large
	}
	return summary.BoundUnknown, nil
}

// slept reports whether off-CPU threads slept: others were seen to run there for less than a quarter of that
// time.
func (j *judge) slept(g *workGroup) bool {
	var ran int64
	for _, c := range g.instead {
		ran += c.Dur
	}
	return j.s.HasSched && ran*4 < g.thOff-g.thBlocked
}
