// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"cmp"
	"slices"

	"github.com/profinfer/profinfer/internal/format"
	"github.com/profinfer/profinfer/profile/internal/num"
	"github.com/profinfer/profinfer/profile/summary"
)

// say writes the verdict's sentence and lists its figures.
func (o *opinion) say() {
	c := o.main()
	name := capital(o.name())
	switch o.v.Bound {
	case summary.BoundMemory, summary.BoundCompute:
		for i := range o.classes {
			if o.classes[i].bound == o.v.Bound {
				c = &o.classes[i]
				break
			}
		}
		o.v.Text = name + " " + isWord(o.sure) + " " + string(o.v.Bound) + "-bound: " + o.workText(c)
	case summary.BoundDisk:
		o.v.Text = name + " " + isWord(o.sure) + " limited by the disk: " + o.diskText()
	case summary.BoundWait:
		o.v.Text = name + " " + isWord(o.sure) + " limited by waiting threads: " + o.waitText()
	case summary.BoundInterference:
		o.v.Text = name + " " + isWord(o.sure) + " limited by CPU contention: " + o.interferenceText()
	case summary.BoundOutside:
		o.v.Text = name + " " + isWord(o.sure) + " limited by time outside operators: " + o.outsideText()
	case summary.BoundMixed:
		var said []string
		for _, p := range o.parts() {
			if p.share >= partShare {
				said = append(said, o.partText(p))
			}
		}
		o.v.Text = capital(o.name()) + " has no single bottleneck: " + andList(said)
	default:
		switch {
		case o.cause("backends") >= partShare:
			o.v.Text = "The bottleneck of " + o.name() + " is unknown: " + o.backendText(o.cause("backends"))
		case c == nil || len(o.v.Causes) == 0:
			o.v.Text = "The bottleneck of " + o.name() + " is unknown: no operator was timed"
		case c.short:
			o.v.Text = "The bottleneck of " + o.name() + " is unknown: its operators are too short to tell. " +
				capital(o.classText(c))
		case c.neither:
			o.v.Text = "The bottleneck of " + o.name() + " is unknown: " + o.classText(c) +
				", less than half of what " + o.betterText(c)
		case len(c.among) > 0:
			o.v.Text = name + " is memory-bound or compute-bound, this recording cannot tell which: " +
				o.workText(c)
		default:
			o.v.Text = "The bottleneck of " + o.name() + " is unknown: " + o.classText(c)
		}
	}
	o.v.Text += o.besides() + "."
	o.figures(c)
}

func isWord(sure int) string {
	switch sure {
	case 3:
		return "is"
	case 2:
		return "is most likely"
	}
	return "may be"
}

var classWords = map[string]string{
	"weight_matmul": "weight matmuls", "attention": "attention", "other": "other operators",
}

// isOrAre follows a name of classWords.
func isOrAre(what string) string {
	if what == "attention" {
		return " is "
	}
	return " are "
}

// classText: "weight matmuls are 94 % of its time, at 24.4 GB/s and 84 GFLOP/s".
func (o *opinion) classText(c *workClass) string {
	text := classWords[c.what] + isOrAre(c.what) + format.Share(num.SafeRatio(c.sum.dur, o.ps.TracedDur)) + " of its time"
	var rates []string
	if c.sum.bytesDur > 0 {
		rates = append(rates, format.Sentence.Number(num.SafeRatio(c.sum.bytes, c.sum.bytesDur))+" GB/s")
	}
	if c.sum.flopsDur > 0 {
		rates = append(rates, format.Sentence.Number(num.SafeRatio(c.sum.flops, c.sum.flopsDur))+" GFLOP/s")
	}
	if len(rates) > 0 {
		text += ", at " + andList(rates)
	}
	return text
}

// workText describes what takes the time, and how little of the other resource it needs.
func (o *opinion) workText(c *workClass) string {
	text := classWords[c.what] + isOrAre(c.what) + format.Share(num.SafeRatio(c.sum.dur, o.ps.TracedDur)) + " of its time"
	read := format.Sentence.Number(num.SafeRatio(c.sum.bytes, c.sum.bytesDur)) + " GB/s"
	computed := format.Sentence.Number(num.SafeRatio(c.sum.flops, c.sum.flopsDur)) + " GFLOP/s"
	switch {
	case c.bound == summary.BoundMemory:
		text += " and read " + read
		if c.memPeak != nil {
			text += " of a peak of " + format.Sentence.Number(c.roofGBps) +
				c.whileWorking(c.sum.gbps(), *c.memPeak*c.roofGBps)
		} else if c.arith != nil {
			text += "; " + atRate(c.arithRef, "GFLOP/s") + ", the arithmetic would take " +
				format.Share(*c.arith) + " of that time"
		}
	case c.bound == summary.BoundCompute:
		text += " and compute " + computed
		if c.arithPeak != nil {
			text += " of a peak of " + format.Sentence.Number(c.roofFlops)
			if c.units != "" {
				text += " in " + c.units
			}
			text += c.whileWorking(c.sum.gflops(), *c.arithPeak*c.roofFlops)
		}
		if c.memPeak != nil {
			text += "; at the peak of " + format.Sentence.Number(c.roofGBps) + " GB/s, reading would take " +
				format.Share(*c.memPeak) + " of the working time"
		} else if c.mem != nil {
			text += "; " + atRate(c.memRef, "GB/s") + ", reading would take " + format.Share(*c.mem) +
				" of that time"
		}
	default:
		text += ", at " + read + " and " + computed
	}
	return text
}

// whileWorking describes the rate while threads work, where waiting and lost CPUs made it differ from the
// overall rate: " (13.6 while threads work)".
func (c *workClass) whileWorking(rate, working float64) string {
	if working < 1.1*rate {
		return ""
	}
	return " (" + format.Sentence.Number(working) + " while threads work)"
}

// atRate: "at the 340 GFLOP/s of prefill".
func atRate(r reference, unit string) string {
	return "at the " + format.Sentence.Number(r.rate) + " " + unit + " of " + r.where
}

func (o *opinion) betterText(c *workClass) string {
	if c.memPeak != nil {
		text := "this machine can do (" + format.Sentence.Number(c.roofGBps) + " GB/s"
		if c.arithPeak != nil {
			text += ", " + format.Sentence.Number(c.roofFlops) + " GFLOP/s"
			if c.units != "" {
				text += " in " + c.units
			}
		}
		return text + ")"
	}
	return c.memRef.where + " reached in this run (" + format.Sentence.Number(c.memRef.rate) + " GB/s, " +
		format.Sentence.Number(c.arithRef.rate) + " GFLOP/s)"
}

func (o *opinion) majors() (n int64) {
	for _, c := range o.g.inOrder() {
		n += c.majors
	}
	return n
}

func (o *opinion) diskText() string {
	if o.j.byState {
		text := "in " + format.Share(o.cause("disk")) +
			" of its time operators are delayed by a thread in uninterruptible sleep, mostly a disk read"
		if n := o.majors(); n > 0 {
			text += " (" + format.Plural(n, "major fault") + ")"
		}
		return text
	}
	return format.Share(o.cause("disk")) + " of its time is delay by " +
		format.Plural(o.majors(), "major fault") + ": pages of the model were read from disk"
}

func (o *opinion) waitText() string {
	wait, sleep := o.cause("wait"), o.cause("sleep")
	if sleep > wait {
		return "in " + format.Share(sleep) +
			" of its time a thread sleeps within an operator, as for a disk read or a lock"
	}
	text := format.Share(wait) + " of its time is barrier wait"
	if r := o.g.rows(func(c *workCell) bool { return c.wait > 0 }); len(r) > 0 {
		slices.SortStableFunc(r, func(a, b *workCell) int { return cmp.Compare(b.wait, a.wait) })
		n := shortName(r[0].name)
		o.v.Names = append(o.v.Names, n)
		text += ", longest in " + n + " (" + format.Share(num.SafeRatio(r[0].wait, o.ps.TracedDur)) + ")"
	}
	return text
}

// culprit names who ran most in place of a phase's threads.
func (o *opinion) culprit() string {
	text, names := o.j.ranThere(o.g.culprits(), o.j.crowdOf(o.g))
	o.v.Names = append(o.v.Names, names...)
	return text
}

func (o *opinion) interferenceText() string {
	text := "in " + format.Share(o.cause("contention")) +
		" of its time operators are delayed because a thread is runnable, not running"
	if who := o.culprit(); who != "" {
		return who + ". " + capital(text)
	}
	return text
}

func (o *opinion) outsideText() string {
	text := format.Share(o.cause("outside")) + " of its time"
	if g := o.g; g.graphSteps > 0 && g.graphSteps == g.steps && g.dur > 0 {
		text += ", " + format.Share(1-float64(g.inGraph)/float64(g.dur)) + " outside any graph"
	}
	return text
}

func (o *opinion) partText(p boundShare) string {
	s := format.Share(p.share) + " "
	switch p.bound {
	case summary.BoundMemory:
		return s + "memory-bound work"
	case summary.BoundCompute:
		return s + "compute-bound work"
	case summary.BoundDisk:
		return s + o.j.diskWords()
	case summary.BoundWait:
		return s + "barrier wait"
	case summary.BoundInterference:
		if top := o.blamed(); top != nil && top.Own {
			return s + "CPU contention among its own threads"
		}
		return s + "CPU contention"
	case summary.BoundOutside:
		return s + "outside operators"
	}
	if o.cause("backends") >= partShare {
		return s + "graphs of backends whose operators are not visible"
	}
	if c := o.main(); c != nil && c.short {
		return s + "operators too short to tell memory-bound from compute-bound"
	}
	return s + "work of which memory-bound or compute-bound is not known"
}

// besides describes a loss other than the bound itself.
func (o *opinion) besides() string {
	if o.v.Bound == summary.BoundMixed {
		return ""
	}
	for _, p := range o.parts() {
		if p.bound == o.v.Bound || p.share < 0.1 || p.share >= mostShare {
			continue
		}
		switch p.bound {
		case summary.BoundDisk:
			return "; " + format.Share(p.share) + " " + o.j.diskWords()
		case summary.BoundWait:
			return "; " + format.Share(p.share) + " is barrier wait"
		case summary.BoundInterference:
			top := o.blamed()
			text := "; " + format.Share(p.share) + " is CPU contention"
			switch {
			case top != nil && top.Own:
				return "; " + format.Share(p.share) + " is CPU contention among its own threads"
			case top != nil:
				n := shortName(top.Comm)
				o.v.Names = append(o.v.Names, n)
				text += " (" + n + ")"
			}
			return text
		case summary.BoundOutside:
			return "; " + format.Share(p.share) + " is outside operators"
		}
	}
	return ""
}

// figures lists the verdict's evidence.
func (o *opinion) figures(c *workClass) {
	ps := o.ps
	if c != nil && c.sum.calls > 0 {
		o.figure("share", num.SafeRatio(c.sum.dur, ps.TracedDur), "share",
			"of the steps' time: "+classWords[c.what])
		if c.sum.bytesDur > 0 {
			o.figure("gb_per_s", num.SafeRatio(c.sum.bytes, c.sum.bytesDur), "GB/s",
				"read and written by them")
		}
		if c.sum.flopsDur > 0 {
			o.figure("gflop_per_s", num.SafeRatio(c.sum.flops, c.sum.flopsDur), "GFLOP/s", "computed by them")
		}
		if c.sum.bytes > 0 && c.sum.flops > 0 {
			o.figure("flop_per_byte", c.sum.intensity(), "FLOP/byte", "their arithmetic intensity")
		}
		if c.what == "weight_matmul" && c.sum.bytes > 0 && ps.Traced > 0 {
			o.figure("bytes_per_step", num.SafeRatio(c.sum.bytes, ps.Traced), "B", "moved by them per step")
		}
		if c.memPeak != nil {
			o.figure("of_peak_gb_per_s", *c.memPeak, "share",
				"of their working time at the peak of "+format.Sentence.Number(c.roofGBps)+
					" GB/s is enough for their reading")
		}
		if c.arithPeak != nil {
			units := " GFLOP/s"
			if c.units == "int8" {
				units = " GOP/s of 8-bit dot products"
			}
			o.figure("of_peak_gflop_per_s", *c.arithPeak, "share",
				"of their working time at the peak of "+format.Sentence.Number(c.roofFlops)+units+
					" is enough for their arithmetic")
		}
		if c.ridge > 0 {
			o.figure("ridge", c.ridge, "FLOP/byte",
				"ridge point of this machine's roofline: work below it is memory-bound at the peak")
		}
		if k := c.counted; k != nil {
			for _, x := range []struct {
				name, text string
				v          *float64
			}{
				{"stalled_for_memory", "of the cores' cycles stalled for memory (counters)", k.memory},
				{"stalled", "of the cores' cycles stalled (counters)", k.backend},
				{"from_memory", "of the bytes came from memory (misses counted, 64 B each)",
					k.share(c.sum.bytes)},
			} {
				if x.v != nil {
					o.figure(x.name, *x.v, "share", x.text)
				}
			}
			if k.ipc != nil {
				o.figure("ipc", *k.ipc, "instructions/cycle", "of the cores in them")
			}
		}
		if c.arith != nil {
			o.figure("arithmetic_need", *c.arith, "share",
				"of their time "+atRate(c.arithRef, "GFLOP/s")+" is enough for their arithmetic")
		}
		if c.mem != nil {
			o.figure("reading_need", *c.mem, "share",
				"of their time "+atRate(c.memRef, "GB/s")+" would be enough for their reading")
		}
	}
	if n := o.majors(); n > 0 {
		o.figure("major_faults", float64(n), "count", "in operators: pages read from disk")
	}
	switch {
	case o.j.byState && o.cause("disk") > 0:
		o.figure("disk", o.cause("disk"), "share",
			"of the time delayed by threads in uninterruptible sleep, mostly disk reads")
	case o.majors() > 0:
		o.figure("disk", o.cause("disk"), "share", "of the time delayed by major faults")
	}
	o.figure("wait", o.cause("wait"), "share", "of the time is barrier wait")
	if o.j.s.HasOffCPU {
		if o.slept {
			o.figure("sleep", o.cause("sleep"), "share", "of the time a thread slept within an operator")
		} else {
			o.figure("contention", o.cause("contention"), "share", "of the time operators were delayed because a thread was runnable, not running")
		}
	} else {
		o.evidence("contention", nil, "share", "of the time: unknown, scheduling was not recorded")
	}
	o.figure("outside", o.cause("outside"), "share", "of the steps' time outside operators")
	if t := o.g.team; t > 0 {
		text := "computed"
		if n := o.j.s.Run.Cores; n > 0 {
			text += ", on a machine with " + format.Plural(int64(n), "CPU")
		}
		o.figure("threads", float64(t), "threads", text)
	}
}
