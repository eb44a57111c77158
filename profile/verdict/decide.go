// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"slices"

	"github.com/profinfer/profinfer/internal/format"
	"github.com/profinfer/profinfer/profile/internal/num"
	"github.com/profinfer/profinfer/profile/ops"
	"github.com/profinfer/profinfer/profile/roof"
	"github.com/profinfer/profinfer/profile/summary"
)

// peaks compares a class with the machine's roof: each cell's bytes and flops with the roof for its type of
// weights and number of threads, so that mixed types add up by what each needs.
func (j *judge) peaks(g *workGroup, c *workClass, cells []*workCell) {
	if j.machine == nil {
		return
	}
	var mem, arith float64 // ns
	var memOf, arithOf, bytes, flops int64
	for _, x := range cells {
		r := j.roofOf(g, x.way())
		if r.GBps != nil && x.bytes > 0 {
			mem += float64(x.bytes) / *r.GBps
			memOf += x.work
			bytes += x.bytes
		}
		if r.GFlops != nil && x.flops > 0 {
			arith += float64(x.flops) / *r.GFlops
			arithOf += x.work
			flops += x.flops
			if c.units == "" {
				c.units = r.Units
			} else if c.units != r.Units {
				c.units = "-" // several
			}
		}
	}
	if c.units == "-" {
		c.units = ""
	}
	work := float64(c.sum.work)
	if mem > 0 && float64(memOf) >= knownPart*work {
		c.memPeak, c.roofGBps = num.Ratio(mem, float64(memOf)), float64(bytes)/mem
	}
	if arith > 0 && float64(arithOf) >= knownPart*work {
		c.arithPeak, c.roofFlops = num.Ratio(arith, float64(arithOf)), float64(flops)/arith
	}
	if c.memPeak != nil && c.arithPeak != nil {
		c.ridge = c.roofFlops / c.roofGBps
	}
}

// roofKey is a kind of work of one phase.
type roofKey struct {
	g *workGroup
	workKind
}

// roofOf is the roof of matmuls of one type and number of threads: that of the matrix instructions where the
// observed rate exceeds what vectors give.
func (j *judge) roofOf(g *workGroup, w workKind) roof.Roof {
	k := roofKey{g, w}
	r, ok := j.roofs[k]
	if ok {
		return r
	}
	r = j.machine.Roof(w.team, w.typ)
	if sum := g.products(w); r.GFlops != nil && r.MatrixGFlops != nil && sum.gflops() > *r.GFlops {
		r.GFlops = r.MatrixGFlops
	}
	if j.roofs == nil {
		j.roofs = map[roofKey]roof.Roof{}
	}
	j.roofs[k] = r
	return r
}

// fromCache is how far above the memory's roof a rate must be to be attributed to a cache: roofs are measured
// to within some percent.
const fromCache = 1.1

// decide distinguishes memory from compute by the rule of docs/verdict.md.
func (j *judge) decide(g *workGroup, c *workClass) {
	c.counted = j.counts(&c.sum)
	says := j.typeMix(g, c)
	switch {
	case c.memPeak != nil:
		c.byRoof(says)
	default:
		c.byReference(j, g, says)
	}
	j.byScaling(g, c)
	j.byCounters(c)
	j.doubts(g, c)
}

func (c *workClass) is(b summary.Bound, sure int) { c.bound, c.sure, c.among = b, sure, nil }

func (c *workClass) either() {
	c.is(summary.BoundUnknown, 0)
	c.among = []summary.Bound{summary.BoundMemory, summary.BoundCompute}
}

func (c *workClass) isShort() bool { return c.sum.onCPU() < c.sum.calls*shortOp }

// byRoof decides where the memory's roof is known.
func (c *workClass) byRoof(says summary.Bound) {
	mem, arith, intensity := *c.memPeak, 0.0, c.sum.intensity()
	if c.arithPeak != nil {
		arith = *c.arithPeak
	}
	c.cached = mem > fromCache
	above := c.ridge > 0 && intensity >= c.ridge || c.ridge == 0 && intensity >= manyFlops
	asElsewhere := c.arith != nil && *c.arith >= atLimit && c.arithFar
	switch {
	case mem >= atPeak && !c.cached && mem >= arith:
		c.is(summary.BoundMemory, 3)
	case arith >= atPeak:
		c.is(summary.BoundCompute, 3)
	case c.isShort():
		c.is(summary.BoundUnknown, 0)
		c.short = true
	case c.cached && (above || says == summary.BoundCompute):
		c.is(summary.BoundCompute, 2)
	case c.cached:
		c.either()
	case above && mem <= farBelow:
		c.is(summary.BoundCompute, 3)
	case above && mem <= ruledOut, says == summary.BoundCompute && mem <= ruledOut, asElsewhere &&
		*c.arith > mem:
		c.is(summary.BoundCompute, 2)
	case mem >= ruledOut:
		c.is(summary.BoundMemory, 2)
	case says == summary.BoundMemory:
		c.is(summary.BoundMemory, 1)
	default:
		c.is(summary.BoundUnknown, 0)
		c.neither = true
	}
}

// byReference decides by what other phases reached, where the memory's roof is unknown.
func (c *workClass) byReference(j *judge, g *workGroup, says summary.Bound) {
	cores := j.s.Run.Cores
	all := cores <= 0 || g.team >= cores
	noMem, noArith := c.mem != nil && *c.mem <= ruledOut, c.arith != nil && *c.arith <= ruledOut
	intensity := c.sum.intensity()
	switch {
	case c.arithPeak != nil && *c.arithPeak >= atPeak:
		c.is(summary.BoundCompute, 3)
	case c.isShort():
		c.is(summary.BoundUnknown, 0)
		c.short = true
	case noMem && noArith:
		c.is(summary.BoundUnknown, 0)
		c.neither = true
	case noArith && says != summary.BoundCompute:
		switch {
		case all:
			c.is(summary.BoundMemory, 2)
		case g.team > 1, says == summary.BoundMemory:
			c.is(summary.BoundMemory, 1)
		default:
			c.either()
		}
	case noMem && says != summary.BoundMemory:
		c.is(summary.BoundCompute, 2)
		if *c.mem <= farBelow {
			c.sure = 3
		}
	case says != "":
		c.is(says, 2)
		if says == summary.BoundMemory && !all {
			c.sure = 1
		}
	case c.arith != nil && *c.arith >= atLimit && c.arithFar && (c.mem == nil || *c.mem < *c.arith):
		c.is(summary.BoundCompute, 2)
	case c.mem != nil && *c.mem >= atLimit:
		c.is(summary.BoundMemory, 2)
	case c.arith != nil || c.mem != nil:
		c.either()
	case c.sum.flops == 0 || c.sum.bytes == 0:
		c.is(summary.BoundUnknown, 0)
	case intensity >= manyFlops:
		c.is(summary.BoundCompute, 1)
	case intensity <= fewFlops && all && g.team > 1:
		c.is(summary.BoundMemory, 1)
	default:
		c.either()
	}
}

// byCounters uses what the cores themselves counted: it decides where rates do not, confirms, or casts doubt.
func (j *judge) byCounters(c *workClass) {
	b, sure := c.counted.says(c.sum.bytes)
	text := c.counted.text(c.sum.bytes)
	switch {
	case b == "":
		if text != "" && c.sure < 3 {
			c.reasons = append(c.reasons, text)
		}
		return
	case c.bound == summary.BoundUnknown:
		c.is(b, sure)
		c.neither, c.short = false, false
	case c.bound == b:
		if c.sure = max(c.sure, sure); c.sure < 3 && !c.counted.scaled {
			c.sure++
		}
	case c.sure == 1:
		c.is(b, 1)
		text += " They contradict the rates."
	default:
		c.sure--
		text += " They indicate a " + string(b) + " limit."
	}
	if c.sure < 3 {
		c.reasons = append(c.reasons, text)
	}
}

// doubts collects the reasons why a class's confidence is not higher.
func (j *judge) doubts(g *workGroup, c *workClass) {
	add := func(s string) { c.reasons = append(c.reasons, s) }
	switch {
	case c.neither:
		if c.memPeak != nil {
			text := "At the machine's peak, reading would take " + format.Share(*c.memPeak) +
				" of their working time"
			if c.arithPeak != nil {
				text += ", computing " + format.Share(*c.arithPeak)
			}
			add(text + ": the rest is latency, dependencies or dequantisation. Record another number of threads, or hardware counters, to tell.")
		} else if !c.counted.any() {
			add("Hardware counters would tell what the cores wait for; none were recorded.")
		}
		return
	case c.short:
		add(capital(classNames[c.what]) + " take " +
			format.Sentence.Duration(num.SafeRatio(c.sum.onCPU(), c.sum.calls)) +
			" each on average: much of that is starting and ending one.")
		return
	}
	if text := j.cacheDoubt(g, c); text != "" && c.memPeak != nil && c.bound == summary.BoundMemory {
		add(text)
		if c.what == "other" {
			c.sure = min(c.sure, 1)
		} else {
			c.sure = max(1, c.sure-1)
		}
	}
	if p := j.machine; p != nil && p.Doubtful && c.sure == 3 &&
		(c.bound == summary.BoundMemory || c.arithPeak != nil && *c.arithPeak >= atPeak) && !c.far() {
		add("Other work disturbed the measurement of the machine's peaks: they can be higher.")
		c.sure--
	}
	if c.sure == 3 {
		return
	}
	cores := j.s.Run.Cores
	all := cores <= 0 || g.team >= cores
	memory := c.bound == summary.BoundMemory || slices.Contains(c.among, summary.BoundMemory)
	switch {
	case c.cached:
		add("They read " + format.Sentence.Number(c.sum.gbps()) + " GB/s, more than the memory's peak of " +
			format.Sentence.Number(c.roofGBps) + ": they read from a cache.")
		return
	case c.memPeak != nil && c.bound == summary.BoundMemory:
		if *c.memPeak < atPeak {
			add("Reading alone would take " + format.Share(*c.memPeak) +
				" of their working time at the memory's peak; the rest is latency or dequantisation.")
		}
		return
	case c.memPeak != nil:
		return
	case c.arithPeak != nil:
		add("The memory's peak is not measured: the best rate of this run stands for it.")
	case c.mem == nil && c.arith == nil && c.what == "weight_matmul":
		add("No roofline for this machine (run profinfer peaks), and no other phase of this recording to compare with.")
	default:
		add("No roofline for this machine (run profinfer peaks): the best rates of this run stand for it.")
	}
	if memory && !all {
		if g.team == 1 {
			add("One thread computed, of " + format.Plural(int64(cores), "CPU") +
				": one core can reach its own limit before the memory's.")
		} else {
			add(format.Plural(int64(g.team), "thread") + " computed, of " +
				format.Plural(int64(cores), "CPU") + ": whether more would read faster is unknown.")
		}
	}
	if memory && c.what == "weight_matmul" && c.mem == nil && !c.counted.any() {
		add("Cannot separate memory stalls from dequantisation without hardware counters.")
	}
	if text := j.cacheDoubt(g, c); text != "" && memory {
		add(text)
		c.sure = max(min(c.sure, 1), c.sure-1)
	}
}

// cacheDoubt says that what is read may be in a cache: a step reads less (weights and KV cache) than the last
// level holds, or it reads what the previous operator just wrote. Empty: it cannot be. Where misses are known
// to be few or many, they are used instead of the sizes.
func (j *judge) cacheDoubt(g *workGroup, c *workClass) string {
	if v := c.counted.share(c.sum.bytes); v != nil && *v >= mostTraffic {
		return ""
	}
	size := j.machine.Cache()
	if c.what == "other" {
		if b := num.SafeRatio(c.sum.bytes, c.sum.calls); b > 0 && b < size {
			return "The " + format.Sentence.Bytes(b) +
				" that one of them moves was just written: it can be in a cache."
		}
		return ""
	}
	if b := g.stepBytes(); b > 0 && b < size {
		return "The " + format.Sentence.Bytes(b) +
			" that a step reads fit into a cache: the limit can be the cache's."
	}
	return ""
}

// stepBytes is what the operators of a step, those with weights and attention, read and write.
func (g *workGroup) stepBytes() float64 {
	sum := g.sums(func(c *workCell) bool { return c.kind != ops.ClassOther })
	return num.SafeRatio(sum.bytes, g.traced)
}

// far reports that the other roof is so far away that a higher one changes nothing.
func (c *workClass) far() bool {
	return c.bound == summary.BoundCompute && c.memPeak != nil && *c.memPeak <= farBelow
}
