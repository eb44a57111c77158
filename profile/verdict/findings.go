// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/profinfer/profinfer/internal/format"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/internal/num"
	"github.com/profinfer/profinfer/profile/ops"
	"github.com/profinfer/profinfer/profile/sched"
	"github.com/profinfer/profinfer/profile/summary"
)

const (
	maxFindings = 5
	minGain     = 0.01 // of the phase's time: less is not reported
	slowerThan  = 0.85 // of the others' rate
	slowStep    = 1.3  // of the other steps' mean
	minBytes    = 1 << 16
)

// findings returns what is most worth looking at: losses by the time to be gained in this run, then what
// takes the most time.
func (j *judge) findings() []summary.Finding {
	var losses, rest []summary.Finding
	for i := range j.s.Phases {
		ps := &j.s.Phases[i]
		g := j.groups[keyOf(ps)]
		if g == nil {
			continue
		}
		f := &finder{j: j, ps: ps, g: g}
		f.oversubscribed()
		f.disturbed()
		f.slowStep()
		f.between()
		f.remote()
		f.faulted()
		if ps.OpsDur != nil && ps.TracedDur > 0 {
			f.slowWeight()
			f.disk()
			f.wait()
			f.interference()
			f.attentionGrowth()
			if f.elsewhere() {
				f.heaviestThere()
			} else {
				f.gap()
			}
			f.layer()
			f.probes()
			f.slowClass()
			if !f.elsewhere() {
				f.heaviest()
			}
		}
		for _, x := range f.found {
			if x.GainAll != nil {
				losses = append(losses, x)
			} else {
				rest = append(rest, x)
			}
		}
	}
	slices.SortStableFunc(losses, func(a, b summary.Finding) int {
		return cmp.Or(sched.CompareBool(a.Kind != oversubscription, b.Kind != oversubscription),
			cmp.Compare(*b.GainAll, *a.GainAll))
	})
	slices.SortStableFunc(rest, func(a, b summary.Finding) int {
		return cmp.Compare(*b.Figures[0].Value, *a.Figures[0].Value)
	})
	all := append(losses, rest...)
	all = all[:min(len(all), maxFindings)]
	return append([]summary.Finding{}, all...)
}

// finder searches one phase.
type finder struct {
	j     *judge
	ps    *summary.Phase
	g     *workGroup
	found []summary.Finding
}

func (f *finder) name() string { return phaseName(f.j.s, f.ps.Phase, f.ps.Model) }

func (f *finder) params(more ...string) map[string]string {
	p := map[string]string{}
	if len(f.j.s.Models) > 1 {
		p["model"] = "none"
		if f.ps.Model != nil {
			p["model"] = strconv.Itoa(*f.ps.Model)
		}
	}
	for i := 0; i+1 < len(more); i += 2 {
		if more[i+1] != "" {
			p[more[i]] = more[i+1]
		}
	}
	return p
}

// sel is the name of a row in the tables: its key, with the type where several rows have that key.
func (f *finder) sel(r *workCell) string {
	for _, c := range f.g.inOrder() {
		if c.name == r.name && c.typ != r.typ && r.typ != "" {
			return r.name + " " + r.typ
		}
	}
	return r.name
}

// search is the search term that finds a row's operators in their graph. A tied output goes by its weight.
func search(name string) string {
	if w, ok := strings.CutPrefix(name, "output ("); ok {
		return strings.TrimSuffix(w, ")")
	}
	return name
}

// loss adds a finding with the time to be gained, which was lost in of ns of steps.
func (f *finder) loss(x summary.Finding, lost float64, steps, of int64) {
	whole := float64(of) * f.ps.Longer()
	if of <= 0 || steps <= 0 || lost < minGain*whole {
		return
	}
	each, part := lost/float64(steps), lost/whole
	_, dur := f.ps.Judged()
	all := lost / float64(of) * float64(dur)
	x.Gain, x.GainShare, x.GainAll = &each, &part, &all
	f.add(x)
}

func (f *finder) add(x summary.Finding) {
	x.Phase, x.Model = f.ps.Phase, f.ps.Model
	if x.Names == nil {
		x.Names = []string{}
	}
	if x.Figures == nil {
		x.Figures = []summary.Evidence{}
	}
	f.found = append(f.found, x)
}

func fig(name string, v float64, unit, text string) summary.Evidence {
	return summary.Evidence{Name: name, Value: &v, Unit: unit, Text: text}
}

// each formats a time per step and its share: "1.20 ms per step (3 %)".
func (f *finder) each(ns float64) string {
	return format.Sentence.Duration(ns/float64(max(1, f.ps.Traced))) + " per step (" +
		format.Share(ns/float64(max(1, f.ps.TracedDur))/f.ps.Longer()) + ")"
}

// slowWeight finds the matmuls that are slower than those of the same type beside them: at reading or, where
// they are compute-bound, at computing.
func (f *finder) slowWeight() {
	bound := summary.BoundMemory
	for _, c := range f.j.classes(keyOf(f.ps), f.g) {
		if c.what == "weight_matmul" && c.bound == summary.BoundCompute {
			bound = summary.BoundCompute
		}
	}
	rows := f.g.rows(func(c *workCell) bool {
		return c.kind == ops.ClassProduct && c.weight && c.bytesDur > 0 && c.flopsDur > 0 && c.layer >= -1
	})
	var worst *workCell
	var lost, own, others float64
	for _, r := range rows {
		var o workCell
		for _, x := range rows {
			// Operators that are much smaller or larger have their own costs.
			near := x.intensity() <= 1.5*r.intensity() && r.intensity() <= 1.5*x.intensity()
			if x != r && x.typ == r.typ && x.chosen == r.chosen && near && x.perCall() >= r.perCall()/16 {
				o.merge(x)
			}
		}
		if r.perCall() < minBytes || o.dur < r.dur/2 {
			continue
		}
		v, w := num.SafeRatio(r.bytes, r.bytesDur), num.SafeRatio(o.bytes, o.bytesDur)
		if bound == summary.BoundCompute {
			v, w = num.SafeRatio(r.flops, r.flopsDur), num.SafeRatio(o.flops, o.flopsDur)
		}
		if w <= 0 || v >= slowerThan*w {
			continue
		}
		if l := float64(r.dur) * (1 - v/w); l > lost {
			worst, lost, own, others = r, l, v, w
		}
	}
	if worst == nil {
		return
	}
	n, unit, verb := shortName(worst.name), "GB/s", "is read"
	if bound == summary.BoundCompute {
		unit, verb = "GFLOP/s", "is multiplied"
	}
	f.loss(summary.Finding{Kind: "slow_weight", Names: []string{n},
		Text: n + " " + verb + " at " + format.Sentence.Number(own) + " " + unit + " in " + f.name() +
			", the other " + worst.typ + " weights at " + format.Sentence.Number(others) +
			": at their rate it would take " + format.Sentence.Duration(lost/float64(f.ps.Traced)) +
			" less per step.",
		Figures: []summary.Evidence{fig("rate", own, unit, "of "+n),
			fig("others", others, unit, "of the others of its type")},
		Target: summary.Target{View: "dag",
			Params: f.params("phase", f.ps.Phase, "q", search(worst.name), "color", "gbps")}}, lost,
		f.ps.Traced, f.ps.TracedDur)
}

func (c *workCell) perCall() float64 { return num.SafeRatio(c.bytes, c.calls) }

func (f *finder) slowStep() {
	ps := f.ps
	if ps.Phase != string(profile.Decode) || ps.Steps < fewSteps || leftOut(ps) {
		return
	}
	// The mean of the others: the slowest must not hide itself.
	all, n := float64(ps.Dur), ps.Steps
	if e, seen := ps.EndToEndStep(); seen > 1 {
		all, n = e*float64(seen), seen
	}
	mean := (all - float64(ps.StepMax)) / float64(n-1)
	over := float64(ps.StepMax) - mean
	if mean <= 0 || float64(ps.StepMax) <= slowStep*mean {
		return
	}
	x := summary.Finding{Kind: "slow_step",
		Target: summary.Target{View: "time", Params: f.params("step", strconv.FormatInt(ps.StepMaxID, 10))},
		Text: "Slowest step of " + f.name() + ": step " + strconv.FormatInt(ps.StepMaxID, 10) + " took " +
			format.Sentence.Duration(float64(ps.StepMax)) + ", the mean of the others is " +
			format.Sentence.Duration(mean),
		Figures: []summary.Evidence{fig("step_max", float64(ps.StepMax), "ns", "the step's duration"),
			fig("others_mean", mean, "ns", "of the other steps")}}
	var kept int64
	for _, c := range ps.StepMaxInstead {
		kept += c.Dur
	}
	if float64(kept) > 0.25*over {
		var who string
		if c := blamed(ps.StepMaxInstead); c == nil {
			who = "who had their CPUs was not seen"
		} else if c.Own {
			who = "other engine threads had their CPUs for " + format.Sentence.Duration(float64(c.Dur))
		} else {
			_, n := saidOf(c)
			x.Names = append(x.Names, n)
			who = ranFor(c, f.j.start)
		}
		x.Text += "; its threads were runnable without a CPU for " + format.Sentence.Duration(float64(kept)) +
			" in sum: " + who
		x.Figures = append(x.Figures, fig("no_cpu", float64(kept), "ns",
			"its threads were runnable without a CPU, in sum"))
	}
	x.Text += "."
	// One step's loss is seldom a notable part of the run; what counts is how much it stands out.
	each, part := over/float64(n), over/all
	x.Gain, x.GainShare, x.GainAll = &each, &part, &over
	f.add(x)
}

// between finds time between consecutive steps.
func (f *finder) between() {
	g := f.g
	if f.ps.Phase != string(profile.Decode) || g.betweens < fewSteps || f.ps.Steps <= 0 {
		return
	}
	f.loss(summary.Finding{Kind: "between_steps",
		Target: summary.Target{View: "time", Params: f.params("step", strconv.FormatInt(f.ps.StepMaxID, 10))},
		Text: "Time between steps of " + f.name() + ": " +
			format.Sentence.Duration(float64(g.between)/float64(g.betweens)) +
			" on average, for sampling and what else the program does.",
		Figures: []summary.Evidence{fig("between", float64(g.between)/float64(g.betweens), "ns",
			"mean, in addition to the steps' time")}}, float64(g.between), f.ps.Steps, f.ps.Dur)
}

func (f *finder) wait() {
	all := f.g.sums(func(*workCell) bool { return true })
	rows := f.g.rows(func(c *workCell) bool { return c.wait > 0 })
	if len(rows) == 0 {
		return
	}
	slices.SortStableFunc(rows, func(a, b *workCell) int { return cmp.Compare(b.wait, a.wait) })
	r := rows[0]
	n := shortName(r.name)
	f.loss(summary.Finding{Kind: "wait", Names: []string{n},
		Text: "Barrier wait in " + f.name() + ": " + f.each(float64(all.wait)) +
			", most in " + n + ": " + format.Sentence.Duration(num.SafeRatio(r.wait, f.ps.Traced)) +
			", " + format.Share(num.SafeRatio(r.thWait, r.thBusy+r.thWait)) + " of its threads' time.",
		Figures: []summary.Evidence{fig("wait", num.SafeRatio(all.wait, f.ps.Traced), "ns", "per step"),
			fig("wait_there", num.SafeRatio(r.wait, f.ps.Traced), "ns", "per step, in "+n)},
		Target: summary.Target{View: "stat",
			Params: f.params("tab", "tables", "by", "weight", "phase", f.ps.Phase, "sel", f.sel(r))}},
		float64(all.wait), f.ps.Traced, f.ps.TracedDur)
}

func (f *finder) disk() {
	if f.g.disk.wall > 0 {
		return // the faults themselves report it
	}
	all := f.g.sums(func(*workCell) bool { return true })
	rows := f.g.rows(func(c *workCell) bool { return c.disk > 0 })
	if len(rows) == 0 {
		return
	}
	slices.SortStableFunc(rows, func(a, b *workCell) int { return cmp.Compare(b.disk, a.disk) })
	r := rows[0]
	n := shortName(r.name)
	if f.j.inferred(all.majors) {
		f.blocked(&all, r)
		return
	}
	f.loss(summary.Finding{Kind: "disk", Names: []string{n},
		Text: "Disk reads in " + f.name() + ": operators with a major fault take " + f.each(float64(all.disk)) +
			" longer than without. At least " + format.Plural(all.majors, "page") +
			" were read, most in " + n + ". More memory or a smaller model avoids it.",
		Figures: []summary.Evidence{fig("disk", num.SafeRatio(all.disk, f.ps.Traced), "ns", "lost per step"),
			fig("major_faults", num.SafeRatio(all.majors, f.ps.Traced), "count", "per step")},
		Target: summary.Target{View: "stat",
			Params: f.params("tab", "tables", "by", "weight", "phase", f.ps.Phase, "sel", f.sel(r))}},
		float64(all.disk), f.ps.Traced, f.ps.TracedDur)
}

func (f *finder) interference() {
	all := f.g.sums(func(*workCell) bool { return true })
	var ran int64
	for _, c := range f.g.instead {
		ran += c.Dur
	}
	x := summary.Finding{Kind: "contention",
		Target: summary.Target{View: "time", Params: f.params("step", strconv.FormatInt(f.ps.StepMaxID, 10))},
		Text: "CPU contention in " + f.name() + ": operators take " + f.each(float64(all.off)) +
			" longer because a thread was runnable, not running"}
	if text, names := f.j.ranThere(f.g.culprits(), f.j.crowdOf(f.g)); text != "" &&
		ran*4 >= f.g.thOff-f.g.thBlocked {
		x.Text += ": " + text
		x.Names = append(x.Names, names...)
	} else if f.j.s.HasSched {
		x.Text += ": it slept, as for a disk read or a lock"
	}
	x.Text += "."
	x.Figures = []summary.Evidence{fig("contention", num.SafeRatio(all.off, f.ps.Traced), "ns",
		"lost per step"), fig("off_cpu", num.SafeRatio(f.g.thOff,
		f.ps.Traced), "ns", "threads off their CPU in operators, per step")}
	f.loss(x, float64(all.off), f.ps.Traced, f.ps.TracedDur)
}

// attentionGrowth finds attention whose time rises with the position.
func (f *finder) attentionGrowth() {
	g := &f.g.growth
	at0, slope, r2, ok := g.Fit()
	if !ok || slope <= 0 || r2 < 0.3 {
		return
	}
	from, to := at0+slope*float64(g.From), at0+slope*float64(g.To)
	_, mean := g.Mean()
	if to < 1.2*max(from, 0) {
		return
	}
	f.loss(summary.Finding{Kind: "attention_growth",
		Text: "Attention grows with the context: from " + format.Sentence.Duration(max(0, from)) +
			" per step at position " + format.Count(int64(g.From)) + " to " + format.Sentence.Duration(to) +
			" at " +
			format.Count(int64(g.To)) + ", " + format.Sentence.Duration(slope) + " per position.",
		Figures: []summary.Evidence{fig("slope", slope, "ns", "per position, by least squares"),
			fig("r2", r2, "share", "of the variance explained")},
		Target: summary.Target{View: "stat", Params: f.params("tab", "steps", "phase", f.ps.Phase)}},
		(mean-max(0, from))*g.Weight(), f.ps.Traced, f.ps.TracedDur)
}

func (f *finder) gap() {
	if f.ps.Gap == nil {
		return
	}
	text := "Time outside operators in " + f.name() + ": " + f.each(float64(*f.ps.Gap))
	g := f.g
	figures := []summary.Evidence{fig("outside_operators", num.SafeRatio(*f.ps.Gap, f.ps.Traced), "ns", "per step")}
	if g.graphSteps > 0 && g.graphSteps == g.steps && g.dur > g.inGraph {
		none := min(num.SafeRatio(g.dur-g.inGraph, g.steps), num.SafeRatio(*f.ps.Gap, f.ps.Traced))
		text += "; " + format.Sentence.Duration(none) + " of that outside any graph (building it, setting inputs), the " +
			"rest within graphs"
		figures = append(figures, fig("in_no_graph", none, "ns", "per step, outside any graph"))
	}
	f.loss(summary.Finding{Kind: "outside_operators", Text: text + ".", Figures: figures,
		Target: summary.Target{View: "time",
			Params: f.params("step", strconv.FormatInt(f.ps.StepMaxID, 10))}}, float64(*f.ps.Gap),
		f.ps.Traced, f.ps.TracedDur)
}

// layer finds the layer whose operators exceed the same operators of the other layers the most.
func (f *finder) layer() {
	by := map[cellKey][]*workCell{}
	for _, c := range f.g.inOrder() {
		if c.layer >= 0 && c.calls > 0 {
			k := c.cellKey
			k.layer = -1
			by[k] = append(by[k], c)
		}
	}
	over, of, names := map[int]float64{}, map[int]float64{}, map[int]string{}
	most := map[int]float64{}
	// in a deterministic order: floating-point sums depend on it
	groups := slices.Collect(maps.Values(by))
	for _, cells := range groups {
		slices.SortFunc(cells, compareCells)
	}
	slices.SortFunc(groups, func(a, b []*workCell) int { return compareCells(a[0], b[0]) })
	for _, cells := range groups {
		if len(cells) < 4 {
			continue
		}
		times := make([]float64, len(cells))
		for i, c := range cells {
			times[i] = num.SafeRatio(c.dur, c.calls)
		}
		slices.Sort(times)
		median := times[len(times)/2]
		for _, c := range cells {
			// An operator that moves other bytes is not comparable.
			if ref := cells[0]; num.SafeRatio(c.bytes, c.calls) != num.SafeRatio(ref.bytes, ref.calls) &&
				ref.kind == ops.ClassProduct {
				continue
			}
			of[c.layer] += median * float64(c.calls)
			x := float64(c.dur) - median*float64(c.calls)
			over[c.layer] += x
			if x > most[c.layer] {
				most[c.layer], names[c.layer] = x, c.name
			}
		}
	}
	worst := -1
	for l, x := range over {
		if of[l] > 0 && x > 0.15*of[l] && (worst < 0 || x > over[worst] || x == over[worst] && l < worst) {
			worst = l
		}
	}
	if worst < 0 {
		return
	}
	n := shortName(names[worst])
	f.loss(summary.Finding{Kind: "layer", Names: []string{n},
		Text: "Layer " + strconv.Itoa(worst) + " takes " + format.Share(over[worst]/of[worst]) +
			" longer in " + f.name() + " than the same operators of other layers: " +
			format.Sentence.Duration(over[worst]/float64(f.ps.Traced)) + " per step, most in " + n + ".",
		Figures: []summary.Evidence{fig("over", over[worst]/float64(f.ps.Traced), "ns",
			"per step, beyond the layers' median"),
			fig("median", of[worst]/float64(f.ps.Traced), "ns", "per step, the layers' median")},
		Target: summary.Target{View: "stat",
			Params: f.params("tab", "tables", "by", "layer", "phase", f.ps.Phase, "sel",
				strconv.Itoa(worst))}}, over[worst], f.ps.Traced, f.ps.TracedDur)
}

func (f *finder) probes() {
	if p := f.ps.ProbeShare; p != nil && *p >= 0.05 {
		f.add(summary.Finding{Kind: "probes",
			Text: "The recording's probes took " + format.Share(*p) + " of " + f.name() +
				". Figures of operators exclude it; step times and time outside operators include it.",
			Figures: []summary.Evidence{fig("probes", float64(*f.ps.Probe), "ns", "in all, an estimate")},
			Target:  summary.Target{View: "summary", Params: map[string]string{}}})
	}
}

// slowClass finds attention that neither reads nor computes near the rates that weight matmuls reach.
func (f *finder) slowClass() {
	for _, c := range f.j.classes(keyOf(f.ps), f.g) {
		if c.what != "attention" || !c.neither || c.mem == nil || c.arith == nil {
			continue
		}
		f.loss(summary.Finding{Kind: "slow_class",
			Text: "Attention reads " + format.Sentence.Number(c.sum.gbps()) +
				" GB/s and computes " + format.Sentence.Number(c.sum.gflops()) + " GFLOP/s in " +
				f.name() +
				"; " + c.memRef.where + " reach " + format.Sentence.Number(c.memRef.rate) + " and " +
				format.Sentence.Number(c.arithRef.rate) + " in this run.",
			Figures: []summary.Evidence{fig("gb_per_s", c.sum.gbps(), "GB/s", "of attention"),
				fig("gflop_per_s", c.sum.gflops(), "GFLOP/s", "of attention")},
			Target: summary.Target{View: "stat",
				Params: f.params("tab", "tables", "by", "block", "phase", f.ps.Phase, "sel",
					string(ops.BlockAttention))}},
			float64(c.sum.onCPU())*(1-max(*c.mem, *c.arith)), f.ps.Traced, f.ps.TracedDur)
	}
}

// heaviest names the operators that take most of a phase, which is not a loss.
func (f *finder) heaviest() {
	rows := f.g.rows(func(c *workCell) bool { return c.dur > 0 })
	for i, r := range rows[:min(2, len(rows))] {
		n := shortName(r.name)
		typ := ""
		if r.typ != "" {
			typ = " (" + r.typ + ")"
		}
		text := n + typ + " takes most of " + f.name() + ": "
		if i > 0 {
			text = n + typ + " is next in " + f.name() + ": "
		}
		text += f.each(float64(r.dur))
		if r.bytesDur > 0 && r.flopsDur > 0 {
			text += ", at " + format.Sentence.Number(r.gbps()) + " GB/s and " +
				format.Sentence.Number(r.gflops()) + " GFLOP/s"
		}
		f.add(summary.Finding{Kind: "heaviest", Names: []string{n}, Text: text + ".",
			Figures: []summary.Evidence{fig("dur", float64(r.dur), "ns", "in all")},
			Target: summary.Target{View: "stat",
				Params: f.params("tab", "tables", "by", "weight", "phase", f.ps.Phase, "sel", f.sel(r))}})
	}
}
