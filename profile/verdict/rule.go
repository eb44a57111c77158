// SPDX-License-Identifier: Apache-2.0

// Package verdict determines what bounds each phase and each row of a run, and what is most worth looking at
// (docs/verdict.md).
package verdict

import (
	"cmp"
	"maps"
	"slices"

	"github.com/profinfer/profinfer/internal/format"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/internal/num"
	"github.com/profinfer/profinfer/profile/roof"
	"github.com/profinfer/profinfer/profile/sched"
	"github.com/profinfer/profinfer/profile/summary"
)

// judge computes verdicts and findings of a Stat.
type judge struct {
	machine *roof.Peaks // the machine's peaks; nil: not requested
	by      facts.By    // of the rows
	start   int64       // of the run
	held    func([]sched.Culprit)
	cpus    int // CPUs that the threads may use together; 0: unknown
	s       *summary.Stat
	groups  map[facts.ModelKey]*workGroup
	apart   map[facts.ModelKey]*workGroup // of disturbed steps that are not in groups
	keys    []facts.ModelKey              // in order
	totals  []int64                       // of each counter, over the run
	judged  map[*workGroup][]workClass
	roofs   map[roofKey]roof.Roof
	// byState: disk time is the time in which threads were blocked, because page faults were not counted or
	// have no durations.
	byState bool
}

// Judge adds verdicts and findings to the statistics of a run, which differ only in their grouping. peaks are
// those of the machine, nil if none were requested. cpus is how many CPUs the computing threads may use
// together, 0 if unknown.
func (w *Collector) Judge(all []*summary.Stat, peaks *roof.Peaks, cpus int) {
	s := all[0]
	j := &judge{machine: peaks, cpus: cpus, s: s, start: w.Start, held: w.SetHeld}
	j.groups, j.apart = w.joined(s.LeavesOut)
	j.keys = slices.SortedFunc(maps.Keys(j.groups), func(a, b facts.ModelKey) int {
		return cmp.Or(cmp.Compare(a.Phase, b.Phase), cmp.Compare(a.Model, b.Model))
	})
	j.disk()
	s.Verdicts = []summary.Verdict{}
	for _, p := range []string{string(profile.Decode), string(profile.Prefill), string(profile.Encode),
		"unknown"} {
		for i := range s.Phases {
			if s.Phases[i].Phase == p {
				s.Verdicts = append(s.Verdicts, j.verdict(&s.Phases[i]))
			}
		}
	}
	for _, x := range all {
		for i := range x.Phases {
			j.rates(&x.Phases[i])
		}
	}
	s.RunVerdict = j.run()
	for _, x := range all {
		j.s, j.by = x, x.By
		x.Verdicts, x.RunVerdict = s.Verdicts, s.RunVerdict
		x.Findings = j.findings()
	}
	peak := j.statPeaks()
	for _, x := range all {
		j.s, j.by = x, x.By
		x.Peaks = peak
		j.rowVerdicts()
	}
}

func keyOf(ps *summary.Phase) facts.ModelKey {
	k := facts.ModelKey{Phase: profile.Phase(ps.Phase), Model: -1}
	if ps.Phase == "unknown" {
		k.Phase = profile.Unknown
	}
	if ps.Model != nil {
		k.Model = *ps.Model
	}
	return k
}

// sureWords by level; unknown has none.
var sureWords = []string{"", summary.SureLow, summary.SureMedium, summary.SureHigh}

// opinion is a verdict while it is formed.
type opinion struct {
	j       *judge
	ps      *summary.Phase
	g       *workGroup
	classes []workClass
	slept   bool // threads that were off-CPU slept
	v       summary.Verdict
	sure    int
	reasons []string
}

func (j *judge) verdict(ps *summary.Phase) summary.Verdict {
	o := &opinion{j: j, ps: ps, g: j.groups[keyOf(ps)],
		v: summary.Verdict{Phase: ps.Phase, Model: ps.Model, Among: []summary.Bound{}, Names: []string{},
			Causes: []summary.Cause{}, Evidence: []summary.Evidence{}}}
	if o.g == nil {
		o.g = newWorkGroup()
	}
	switch {
	case ps.OpsDur == nil:
		o.withoutOperators()
	case ps.GapShare == nil:
		o.v.Bound = summary.BoundUnknown
		o.v.Text = "The bottleneck of " + o.name() + " is unknown: only some operators were recorded (" +
			j.s.Run.Filter + ")."
		o.v.Names = append(o.v.Names, j.s.Run.Filter)
	default:
		o.classes = j.classes(keyOf(ps), o.g)
		o.causes()
		o.choose()
		o.caution()
		o.say()
	}
	o.device()
	o.remote()
	o.v.Sure = sureWords[o.sure]
	o.v.Why = joinSentences(o.reasons)
	return o.v
}

func joinSentences(s []string) string {
	text := ""
	var said []string
	for _, x := range s {
		if slices.Contains(said, x) {
			continue
		}
		said = append(said, x)
		if text != "" {
			text += " "
		}
		text += x
	}
	return text
}

func (o *opinion) name() string { return phaseName(o.j.s, o.ps.Phase, o.ps.Model) }

// evidence adds a figure; a nil one means that it is unknown.
func (o *opinion) evidence(name string, v *float64, unit, text string) {
	o.v.Evidence = append(o.v.Evidence, summary.Evidence{Name: name, Value: v, Unit: unit, Text: text})
}

func (o *opinion) figure(name string, v float64, unit, text string) { o.evidence(name, &v, unit, text) }

// withoutOperators judges by the graphs of a step alone.
func (o *opinion) withoutOperators() {
	ps, g := o.ps, o.g
	o.v.Bound = summary.BoundUnknown
	why := "no operators were recorded"
	switch {
	case ps.Backend != nil && *ps.Backend >= partShare:
		why = o.backendText(*ps.Backend)
	case ps.Traced == 0 && ps.Steps > 0 && len(o.j.s.Lost.Untraced) > 0:
		why = "no operators of its steps were recorded (" + o.j.s.Lost.Untraced[0].Why + ")"
	case o.j.s.Run.Level == "step" || o.j.s.Run.Level == "graph":
		why += " (level " + o.j.s.Run.Level + ")"
	}
	o.v.Text = "The bottleneck of " + o.name() + " is unknown: " + why + "."
	if g.graphSteps == 0 || g.graphSteps != g.steps || g.dur <= 0 {
		return
	}
	out := 1 - float64(g.inGraph)/float64(g.dur)
	o.figure("outside_graphs", out, "share", "of the steps' time outside graphs")
	if out >= mostShare {
		o.v.Bound, o.sure = summary.BoundOutside, 3
		o.v.Text = capital(o.name()) + " is limited by time outside operators: in " + format.Share(out) +
			" of its time no graph ran."
	}
}

// backendText says that operators of another backend cannot be seen.
func (o *opinion) backendText(part float64) string {
	on := "other backends"
	if len(o.ps.Backends) == 1 {
		on = shortName(o.ps.Backends[0].Backend)
		o.v.Names = append(o.v.Names, on)
	}
	return "in " + format.Share(part) + " of its time graphs ran on " + on +
		", whose operators are not visible"
}

// causes sums up the causes of the steps' time.
func (o *opinion) causes() {
	ps, g := o.ps, o.g
	if ps.TracedDur <= 0 || ps.Traced <= 0 {
		return
	}
	add := func(b summary.Bound, what string, ns int64) {
		if ns > 0 {
			o.v.Causes = append(o.v.Causes,
				summary.Cause{Bound: b, What: what, Share: float64(ns) / float64(ps.TracedDur),
					PerStep: float64(ns) / float64(ps.Traced)})
		}
	}
	var wait, off, disk int64
	for i := range o.classes {
		c := &o.classes[i]
		add(c.bound, c.what, c.sum.work)
		wait += c.sum.wait
		off += c.sum.off
		disk += c.sum.disk
	}
	add(summary.BoundDisk, "disk", disk)
	add(summary.BoundWait, "wait", wait)
	// Off-CPU time is interference where others were seen to run there; otherwise threads slept. Without
	// scheduling events its cause is unknown.
	if o.slept = o.j.slept(g); o.slept {
		add(summary.BoundWait, "sleep", off)
	} else {
		add(summary.BoundInterference, "contention", off)
	}
	if ps.Gap != nil {
		add(summary.BoundOutside, "outside", *ps.Gap)
	}
	if ps.BackendDur != nil {
		add(summary.BoundUnknown, "backends", *ps.BackendDur)
	}
	if ps.Probe != nil {
		add("", "probes", *ps.Probe)
	}
	slices.SortStableFunc(o.v.Causes, func(a, b summary.Cause) int { return cmp.Compare(b.Share, a.Share) })
}

// boundShare is the share of the time that is due to one bound.
type boundShare struct {
	bound summary.Bound
	share float64
}

func (o *opinion) parts() []boundShare {
	var out []boundShare
	for _, c := range o.v.Causes {
		if c.Bound == "" {
			continue
		}
		at := slices.IndexFunc(out, func(p boundShare) bool { return p.bound == c.Bound })
		if at < 0 {
			at = len(out)
			out = append(out, boundShare{bound: c.Bound})
		}
		out[at].share += c.Share
	}
	slices.SortStableFunc(out, func(a, b boundShare) int { return cmp.Compare(b.share, a.share) })
	return out
}

// cause returns the share of what.
func (o *opinion) cause(what string) float64 {
	for _, c := range o.v.Causes {
		if c.What == what {
			return c.Share
		}
	}
	return 0
}

// choose picks the cause with most of the time.
func (o *opinion) choose() {
	parts := o.parts()
	o.v.Bound = summary.BoundUnknown
	if len(parts) == 0 {
		return
	}
	var large []summary.Bound
	if o.v.Bound, large = mostTime(parts); len(large) > 0 {
		o.v.Among = large
	}
	switch o.v.Bound {
	case summary.BoundMemory, summary.BoundCompute:
		for i := range o.classes { // the longest comes first
			if c := &o.classes[i]; c.bound == o.v.Bound {
				o.sure, o.reasons = c.sure, append(o.reasons, c.reasons...)
				break
			}
		}
	case summary.BoundUnknown:
		if c := o.main(); c != nil && c.bound == summary.BoundUnknown && o.cause("backends") < partShare {
			o.v.Among = append(o.v.Among, c.among...)
			o.reasons = append(o.reasons, c.reasons...)
		}
	default:
		o.sure = 3
		if (o.v.Bound == summary.BoundDisk || slices.Contains(large, summary.BoundDisk)) &&
			o.j.inferred(o.majors()) {
			o.sure = 2
			o.reasons = append(o.reasons, notWhatFor)
		}
		if o.v.Bound == summary.BoundMixed {
			o.sure = 2
			if parts[0].share >= mostShare { // see most
				o.reasons = append(o.reasons, "The kernel's work for pages that are read counts as work of the operators.")
			} else {
				o.reasons = append(o.reasons, "No part has half of the time.")
			}
			for i := range o.classes {
				if c := &o.classes[i]; slices.Contains(large, c.bound) &&
					(o.cause(c.what) >= partShare || i == 0) {
					o.reasons = append(o.reasons, c.reasons...)
					if c.bound != summary.BoundUnknown {
						o.sure = min(o.sure, c.sure)
					}
				}
			}
		}
	}
	if o.v.Bound != summary.BoundUnknown && o.v.Bound != summary.BoundMixed && parts[0].share < mostShare {
		o.less("It is less than half of the time: " + format.Share(parts[0].share) + ".")
	}
}

// main is the class of operators that takes longest; nil if none ran.
func (o *opinion) main() *workClass {
	if len(o.classes) > 0 && o.classes[0].sum.calls > 0 {
		return &o.classes[0]
	}
	return nil
}

func (o *opinion) less(why string) {
	if o.sure > 1 {
		o.sure--
	}
	o.reasons = append(o.reasons, why)
}

// caution lowers the confidence for reasons that make all figures doubtful.
func (o *opinion) caution() {
	ps, s := o.ps, o.j.s
	if ps.ProbeShare != nil && *ps.ProbeShare >= muchProbe {
		o.less("The probes took " + format.Share(*ps.ProbeShare) +
			" of the time, and part of the time outside operators.")
	}
	if ps.OnlyPartial {
		o.sure = min(o.sure, 1)
		o.reasons = append(o.reasons, "No step was seen completely.")
	} else if ps.Partial*10 > ps.Steps {
		o.less("Not seen completely: " + format.Plural(ps.Partial, "more step") + ".")
	}
	if ps.Phase == string(profile.Decode) && ps.Traced < fewSteps {
		o.less("Only " + format.Plural(ps.Traced, "step") + " with operators.")
	}
	if mean, n := ps.EndToEndStep(); ps.Late() {
		text := "It describes the steps' calls, which submit work and return before it is done: " +
			format.Sentence.Duration(num.SafeRatio(ps.Dur, ps.Steps)) + " per step"
		if n > 0 {
			text += ", of " + format.Sentence.Duration(mean) + " end to end"
		}
		o.reasons = append(o.reasons, text+".")
	}
	if n, _ := ps.Judged(); ps.Traced < n {
		o.reasons = append(o.reasons, "Operators of "+format.Count(ps.Traced)+" of "+format.Count(n)+
			" steps were recorded.")
	}
	if !s.HasSched && o.v.Bound != summary.BoundOutside && o.v.Bound != summary.BoundUnknown {
		o.less("Scheduling was not recorded: other processes cannot be seen.")
	}
}

const atLimit = 0.8 // a resource needed for this part of the time may bound

const atPeak = 0.7 // of a measured peak: what real programs reach

const farBelow = 0.25 // needed for at most this part of the time: far from bounding

const fewFlops = 8.0 // flop/B below which memory limits any machine before its cores do, if all compute

const fewSteps = 3

const manyFlops = 50.0 // flop/B above which the cores limit any machine before its memory does

const minRefDur = 1e6 // ns of work behind a rate for it to count as one that the machine reached

const mostShare = 0.5 // a cause with this part of the time is the bound

const muchProbe = 0.1 // of the phase's time: figures are doubtful

const otherRate = 1.25 // rates that differ by this factor are different

const partShare = 0.2 // a cause with this part is named in a mixed bound

const ruledOut = 0.5 // a resource needed for at most this part of the time does not bound

const sameRate = 1.1 // rates within this factor are the same

// The rule's thresholds; docs/verdict.md explains them.
const (
	shortOp = 10_000 // ns: operators shorter than this on average are mostly start and end

)
