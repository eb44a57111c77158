// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"cmp"
	"math"
	"slices"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/sched"
	"github.com/profinfer/profinfer/trace"
)

// causeOff maps the kinds of off-CPU time to causes.
var causeOff = [sched.OffKinds]Cause{sched.OffOther: SlowOther, sched.OffOwn: SlowOwn,
	sched.OffUnseen: SlowNotSeen, sched.OffDisk: SlowDisk, sched.OffSleep: SlowSleep,
	sched.OffFault: SlowFaults}

const whoListed = 5

// Finish returns the slow steps. h is what Replay returned.
func (b *Builder) Finish(h *profile.Header) *Slow {
	b.judge(len(b.records))
	b.records = nil
	s := b.sum
	s.SchemaVersion, s.OverShare, s.OverNs = SlowSchema, slowShare, slowLeast
	s.HasSched = b.track.Any
	s.Listed = []Step{}
	t := &b.doneBy
	t.sort()
	if t.near {
		s.NextShare = &t.next
	}
	var losses []trace.Loss
	if h != nil {
		for _, l := range h.Losses {
			if l.Lost(trace.LostSched) {
				losses = append(losses, l)
			}
		}
	}
	b.cpus.steal(t.found)
	for i := range t.found {
		f := &t.found[i]
		doubts := b.doubts(f, losses)
		if i < b.opts.Top {
			s.Listed = append(s.Listed, b.listed(f, doubts))
		}
		t.take(f)
	}
	if !b.track.Any {
		t.unclaim()
	}
	s.Causes = b.parts(&t.causes, s.Excess, b.whosOf(t.who))
	s.Interference = b.takers.finish(&b.track)
	s.Interference.CPUs = b.cpus.finish()
	return &s
}

// unclaim removes imbalance from the sums of a run whose scheduling was not recorded.
func (t *slowTotals) unclaim() {
	im := t.causes.of(SlowImbalance)
	*t.causes.of(SlowUnexplained) += *im
	*im = 0
}

// doubts lists what is unknown about a step. Without scheduling events it cannot be claimed that a thread was
// late although it had its CPU.
func (b *slowState) doubts(f *foundStep, losses []trace.Loss) []string {
	out := []string{}
	unclaim := func(text string) {
		out = append(out, text)
		im := f.causes.of(SlowImbalance)
		*f.causes.of(SlowUnexplained) += *im
		*im = 0
	}
	switch {
	case f.untraced != "":
		out = append(out, "Its operators were not recorded ("+f.untraced+
			"): only its main thread's off-CPU time and the time outside graphs are known.")
	case !f.hasOps:
		out = append(out, "Operators were not recorded: only its main thread's off-CPU time and the time outside graphs are known.")
	}
	lost := slices.ContainsFunc(losses, func(l trace.Loss) bool {
		return l.Start <= f.start+f.dur && l.End >= f.start
	})
	switch {
	case !b.track.Any:
		unclaim("Scheduling was not recorded: whether its threads had their CPUs is unknown.")
	case lost:
		unclaim("Scheduling events were dropped in it: what its threads waited for is only partly known.")
	case f.doubt:
		out = append(out, "Scheduling events are missing in it: why a thread was late is only partly known.")
	}
	return out
}

func (b *slowState) listed(f *foundStep, doubts []string) Step {
	s := Step{Step: f.id, PID: f.pid, Phase: cmp.Or(string(f.phase), "unknown"), Start: f.start, Dur: f.dur,
		Baseline: f.baseline,
		Excess:   f.excess, Neighbours: f.neighbours, Typical: f.typical, Rebuilt: f.rebuilt, Doubts: doubts,
		Ops: []Op{}}
	if f.baseline > 0 {
		s.Over = float64(f.excess) / float64(f.baseline)
	}
	if f.pos >= 0 {
		s.Position = &f.pos
	}
	if f.tokens >= 0 {
		s.Tokens = &f.tokens
	}
	if f.fresh >= 0 {
		s.NewExperts, s.UsualNewExperts = &f.fresh, f.usualFresh
	}
	if b.track.Any {
		n := int64(f.moved)
		s.Migrations = &n
	}
	s.KHz, s.UsualKHz = b.cpus.clocksOf(&f.stepRecord)
	s.Parts = b.parts(&f.causes, f.excess, f.shares)
	for _, o := range f.ops {
		if o.dur-o.usual < f.excess/100 {
			continue
		}
		x := Op{Layer: o.d.Layer, Op: o.op, Dur: o.dur, Usual: o.usual,
			Most: causeOfPart(int(o.part), b.track.Any)}
		x.Name, _ = facts.RowKey(facts.ByWeight, o.d, o.op)
		s.Ops = append(s.Ops, x)
	}
	return s
}

// causeOfPart returns the cause that a part of an operator's time belongs to.
func causeOfPart(p int, schedule bool) Cause {
	switch {
	case p >= partOff && p < partOff+sched.OffKinds:
		return causeOff[p-partOff]
	case p == partWait && schedule:
		return SlowImbalance
	}
	return SlowUnexplained
}

// parts lists causes, the longest first, with who caused them.
func (b *slowState) parts(causes *causeSums, excess int64, shares []whoShare) []Part {
	out := []Part{}
	for i, ns := range causes {
		c := slowCauses[i]
		if ns == 0 && c != SlowUnexplained {
			continue
		}
		p := Part{Cause: c, Ns: ns, Estimate: c == SlowSteal}
		if excess > 0 {
			p.Share = float64(ns) / float64(excess)
		}
		if kind := slices.Index(causeOff[:], c); kind == sched.OffOther || kind == sched.OffOwn {
			p.Who = b.whoParts(uint8(kind), ns, shares)
		}
		out = append(out, p)
	}
	slices.SortStableFunc(out, func(a, b Part) int { return cmp.Compare(b.Ns, a.Ns) })
	return out
}

// whoParts splits a part by who caused it. The entries add up to ns: what is not listed comes last, without a
// name.
func (b *slowState) whoParts(kind uint8, ns int64, shares []whoShare) []Who {
	var out []Who
	rest, ran := ns, int64(0)
	for _, x := range shares {
		if x.kind != kind {
			continue
		}
		v := int64(math.Round(x.ns))
		if len(out) >= whoListed || v <= 0 || x.who == sched.Rest {
			ran += x.ran
			continue
		}
		w := Who{Comm: b.track.Whos[x.who].Comm, Ns: v, Ran: x.ran}
		if k := &b.track.Whos[x.who]; !k.Mixed {
			w.PID = k.Pid
		}
		rest -= v
		out = append(out, w)
	}
	if rest != 0 {
		out = append(out, Who{Ns: rest, Ran: ran})
	}
	return out
}

func (b *slowState) whosOf(all map[whoKindKey]*whoTotal) []whoShare {
	out := make([]whoShare, 0, len(all))
	for k, t := range all {
		out = append(out, whoShare{who: k.who, kind: k.kind, ns: t.ns, ran: t.ran})
	}
	slices.SortFunc(out, func(a, b whoShare) int {
		return cmp.Or(cmp.Compare(b.ns, a.ns), cmp.Compare(a.kind, b.kind), cmp.Compare(a.who, b.who))
	})
	return out
}
