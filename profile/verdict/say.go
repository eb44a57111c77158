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
		o.v.Text = name + " " + isWord(o.sure) + " bound by the disk: " + o.diskText()
	case summary.BoundWait:
		o.v.Text = name + " " + isWord(o.sure) + " bound by waiting: " + o.waitText()
	case summary.BoundInterference:
		o.v.Text = name + " " + isWord(o.sure) + " bound by interference: " + o.interferenceText()
	case summary.BoundOutside:
		o.v.Text = name + " " + isWord(o.sure) + " bound outside its operators: " + o.outsideText()
	case summary.BoundMixed:
		var said []string
		for _, p := range o.parts() {
			if p.share >= partShare {
				said = append(said, o.partText(p))
			}
		}
		o.v.Text = "No one thing bounds " + o.name() + ": of its time " + andList(said)
	default:
		switch {
		case o.cause("backends") >= partShare:
			o.v.Text = "What bounds " + o.name() + " is not known: " + o.backendText(o.cause("backends"))
		case c == nil || len(o.v.Causes) == 0:
			o.v.Text = "What bounds " + o.name() + " is not known: no operator with a time was seen"
		case c.short:
			o.v.Text = "What bounds " + o.name() + " is not known: its operators are too short to tell. " +
				capital(o.classText(c))
		case c.neither:
			o.v.Text = "What bounds " + o.name() + " is not known: " + o.classText(c) +
				", less than half of what " + o.betterText(c)
		case len(c.among) > 0:
			o.v.Text = name + " is bound by memory or by compute, which cannot be told apart here: " +
				o.workText(c)
		default:
			o.v.Text = "What bounds " + o.name() + " is not known: " + o.classText(c)
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
	"weight_matmul": "in products with weights", "attention": "in attention itself", "other": "in other operators",
}

// classText: "94 % of its time is in products with weights, at 24.4 GB/s and 84 GFLOP/s".
func (o *opinion) classText(c *workClass) string {
	text := format.Share(num.SafeRatio(c.sum.dur, o.ps.TracedDur)) + " of its time is " + classWords[c.what]
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
	text := format.Share(num.SafeRatio(c.sum.dur, o.ps.TracedDur)) + " of its time is " + classWords[c.what]
	read := format.Sentence.Number(num.SafeRatio(c.sum.bytes, c.sum.bytesDur)) + " GB/s"
	computed := format.Sentence.Number(num.SafeRatio(c.sum.flops, c.sum.flopsDur)) + " GFLOP/s"
	switch {
	case c.bound == summary.BoundMemory:
		verb := ", read at "
		if c.what != "weight_matmul" {
			verb = ", which reads at "
		}
		text += verb + read
		if c.memPeak != nil {
			text += c.whileWorking(c.sum.gbps(), *c.memPeak*c.roofGBps) + " of this machine's " +
				format.Sentence.Number(c.roofGBps)
		} else if c.arith != nil {
			text += "; " + atRate(c.arithRef, "GFLOP/s") + " the arithmetic would take " +
				format.Share(*c.arith) + " of that time"
		}
	case c.bound == summary.BoundCompute:
		text += ", at " + computed
		if c.arithPeak != nil {
			text += c.whileWorking(c.sum.gflops(), *c.arithPeak*c.roofFlops) + " of this machine's " +
				format.Sentence.Number(c.roofFlops)
			if c.units != "" {
				text += " in " + c.units
			}
		}
		if c.memPeak != nil {
			text += "; at its " + format.Sentence.Number(c.roofGBps) + " GB/s reading would take " +
				format.Share(*c.memPeak) + " of the working time"
		} else if c.mem != nil {
			text += "; " + atRate(c.memRef, "GB/s") + " reading would take " + format.Share(*c.mem) +
				" of that time"
		}
	default:
		text += ", at " + read + " and " + computed
	}
	return text
}

// whileWorking describes the rate while threads work, where waiting and lost CPUs made it differ from the
// overall rate: ", while working 13.6".
func (c *workClass) whileWorking(rate, working float64) string {
	if working < 1.1*rate {
		return ""
	}
	return ", while working " + format.Sentence.Number(working)
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
		text := "for " + format.Share(o.cause("disk")) +
			" of its time operators last longer as a thread is blocked, as it is while it reads from disk"
		if n := o.majors(); n > 0 {
			text += "; there were " + format.Plural(n, "major fault")
		}
		return text
	}
	return "for " + format.Share(o.cause("disk")) +
		" of its time operators last longer than without a major fault, of which there were " +
		format.Count(o.majors()) +
		": pages of the model were read from disk"
}

func (o *opinion) waitText() string {
	wait, sleep := o.cause("wait"), o.cause("sleep")
	if sleep > wait {
		return "for " + format.Share(sleep) +
			" of its time a thread slept within an operator, as for a page to be read or a lock"
	}
	text := "for " + format.Share(wait) + " of its time threads wait for each other"
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
	text, names := ranThere(o.g.culprits(), o.j.crowdOf(o.g))
	o.v.Names = append(o.v.Names, names...)
	return text
}

func (o *opinion) interferenceText() string {
	text := "for " + format.Share(o.cause("contention")) +
		" of its time operators last longer as a thread had lost its CPU"
	if who := o.culprit(); who != "" {
		text += "; " + who
	}
	return text
}

func (o *opinion) outsideText() string {
	text := "for " + format.Share(o.cause("outside")) + " of its time none ran"
	if g := o.g; g.graphSteps > 0 && g.graphSteps == g.steps && g.dur > 0 {
		text += ", " + format.Share(1-float64(g.inGraph)/float64(g.dur)) + " in no graph at all"
	}
	return text
}

func (o *opinion) partText(p boundShare) string {
	s := format.Share(p.share) + " "
	switch p.bound {
	case summary.BoundMemory:
		return s + "goes into reading"
	case summary.BoundCompute:
		return s + "goes into computing"
	case summary.BoundDisk:
		return s + o.j.diskWords()
	case summary.BoundWait:
		return s + "is lost waiting for other threads"
	case summary.BoundInterference:
		if top := o.blamed(); top != nil && top.Own {
			return s + "is lost as threads share CPUs"
		}
		return s + "is lost while others had a thread's CPU"
	case summary.BoundOutside:
		return s + "is outside operators"
	}
	if o.cause("backends") >= partShare {
		return s + "is in graphs of backends whose operators no probe sees"
	}
	if c := o.main(); c != nil && c.short {
		return s + "is in operators too short to tell memory from compute"
	}
	return s + "is in operators of which memory and compute cannot be told apart"
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
			return "; " + format.Share(p.share) + " is lost as threads wait for each other"
		case summary.BoundInterference:
			top := o.blamed()
			text := "; " + format.Share(p.share) + " is lost to others on its CPUs"
			switch {
			case top != nil && top.Own:
				return "; " + format.Share(p.share) + " is lost as its threads share CPUs"
			case top != nil:
				n := shortName(top.Comm)
				o.v.Names = append(o.v.Names, n)
				text += " (most to " + n + ")"
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
			"of the steps' time "+classWords[c.what])
		if c.sum.bytesDur > 0 {
			o.figure("gb_per_s", num.SafeRatio(c.sum.bytes, c.sum.bytesDur), "GB/s",
				"read and written by them")
		}
		if c.sum.flopsDur > 0 {
			o.figure("gflop_per_s", num.SafeRatio(c.sum.flops, c.sum.flopsDur), "GFLOP/s", "computed by them")
		}
		if c.sum.bytes > 0 && c.sum.flops > 0 {
			o.figure("flop_per_byte", c.sum.intensity(), "FLOP/byte", "their intensity")
		}
		if c.what == "weight_matmul" && c.sum.bytes > 0 && ps.Traced > 0 {
			o.figure("bytes_per_step", num.SafeRatio(c.sum.bytes, ps.Traced), "B", "a step, by them")
		}
		if c.memPeak != nil {
			o.figure("of_peak_gb_per_s", *c.memPeak, "share",
				"of their work at this machine's "+format.Sentence.Number(c.roofGBps)+
					" GB/s would be enough for their reading")
		}
		if c.arithPeak != nil {
			units := " GFLOP/s"
			if c.units == "int8" {
				units = " GOP/s of 8-bit dot products"
			}
			o.figure("of_peak_gflop_per_s", *c.arithPeak, "share",
				"of their work at this machine's "+format.Sentence.Number(c.roofFlops)+units+
					" would be enough for their arithmetic")
		}
		if c.ridge > 0 {
			o.figure("ridge", c.ridge, "FLOP/byte",
				"this machine computes for a byte that it reads: fewer are bound by memory at the roof")
		}
		if k := c.counted; k != nil {
			for _, x := range []struct {
				name, text string
				v          *float64
			}{
				{"stalled_for_memory", "of the cores' cycles they waited for memory (counters)", k.memory},
				{"stalled", "of the cores' cycles nothing could be issued (counters)", k.backend},
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
				"of their time "+atRate(c.arithRef, "GFLOP/s")+" would be enough for their arithmetic")
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
			"of the time a thread slept in operators and could not be interrupted: reading from disk, mostly")
	case o.majors() > 0:
		o.figure("disk", o.cause("disk"), "share", "of the time their operators took beyond those without")
	}
	o.figure("wait", o.cause("wait"), "share", "lost as threads wait for each other")
	if o.j.s.HasOffCPU {
		if o.slept {
			o.figure("sleep", o.cause("sleep"), "share", "lost as a thread slept within an operator")
		} else {
			o.figure("contention", o.cause("contention"), "share", "lost as a thread had no CPU")
		}
	} else {
		o.evidence("contention", nil, "share", "lost as a thread had no CPU: scheduling was not recorded")
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
