// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"cmp"
	"slices"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/internal/num"
	"github.com/profinfer/profinfer/profile/ops"
	"github.com/profinfer/profinfer/profile/roof"
	"github.com/profinfer/profinfer/profile/sched"
	"github.com/profinfer/profinfer/profile/summary"
)

// workClass is a kind of operators, for which the rule decides whether reading or computing takes their time.
type workClass struct {
	what string // products, attention, other
	sum  workCell
	judgement
}

// judgement is the judgement on one class.
type judgement struct {
	bound   summary.Bound
	among   []summary.Bound
	sure    int  // 1 low, 2 medium, 3 high
	neither bool // neither reads nor computes at a rate near the best
	short   bool // operators so short that starting and ending them matters
	// mem and arith are the fractions of the class's work in which the bytes could be read, and the flops
	// computed, at the rates of ref. They are upper bounds, because the machine may be faster than this run
	// shows. nil: no such rate is known.
	mem, arith       *float64
	memRef, arithRef reference
	// memPeak and arithPeak are the same at the machine's roof: lower bounds of the fractions. nil: unknown.
	// gbps and gflops are that roof for these operators, all types combined, and units is its unit; ridge is
	// the arithmetic intensity at which both take equally long.
	memPeak, arithPeak  *float64
	roofGBps, roofFlops float64
	units               string
	ridge               float64
	cached              bool     // read faster than memory gives
	counted             *counted // nil: nothing was counted
	// arithFar: at the reference rates of arithmetic, reading could not be the limit.
	arithFar bool
	reasons  []string
}

// reference is a rate that was reached elsewhere in the run, and where.
type reference struct {
	rate  float64 // GB/s, GFLOP/s
	where string  // "prefill", "the products"
}

func (c *workCell) gbps() float64   { return num.SafeRatio(c.bytes, c.bytesDur) }
func (c *workCell) gflops() float64 { return num.SafeRatio(c.flops, c.flopsDur) }

// reading and computing are rates while threads work, over operators whose bytes and flops are all known:
// waiting and lost CPUs reveal nothing about the machine.
func (c *workCell) reading() float64   { return num.SafeRatio(c.bytes, c.work) }
func (c *workCell) computing() float64 { return num.SafeRatio(c.flops, c.work) }
func (c *workCell) intensity() float64 { return num.SafeRatio(c.flops, c.bytes) }

// onCPU is the time of the operators without their delay because a thread had lost its CPU.
func (c *workCell) onCPU() int64 { return c.dur - c.off }

// workKind is how weight matmuls are computed: those of one kind are comparable.
type workKind struct {
	typ    string
	chosen bool
	team   int
}

// ways lists the kinds of a phase.
func (g *workGroup) ways() []workKind {
	g.byWay()
	return g.wayList
}

// products is the sum of a phase's weight matmuls of one kind.
func (g *workGroup) products(w workKind) workCell {
	g.byWay()
	return g.waySums[w]
}

// byWay sums up the weight matmuls of each kind, once all operators have come.
func (g *workGroup) byWay() {
	if g.waySums != nil {
		return
	}
	g.waySums = map[workKind]workCell{}
	for _, x := range g.inOrder() {
		if w := x.way(); x.kind == ops.ClassProduct && x.weight {
			sum, known := g.waySums[w]
			if !known {
				g.wayList = append(g.wayList, w)
			}
			sum.merge(x)
			g.waySums[w] = sum
		}
	}
	slices.SortFunc(g.wayList, func(a, b workKind) int {
		return cmp.Or(cmp.Compare(a.typ, b.typ), sched.CompareBool(a.chosen, b.chosen),
			cmp.Compare(a.team, b.team))
	})
}

func (c *workCell) way() workKind { return workKind{c.typ, c.chosen, c.team} }

// needs computes mem and arith of weight matmuls from other phases' weight matmuls of the same type: the same
// weights, read and computed by as many threads.
func (j *judge) needs(k facts.ModelKey, g *workGroup, c *workClass, cells []*workCell) {
	var memNeed, memOf, arithNeed, arithOf float64
	var memLongest, arithLongest int64
	c.arithFar = true
	for _, w := range g.ways() {
		own := sumOf(slices.DeleteFunc(slices.Clone(cells), func(x *workCell) bool {
			return x.kind != ops.ClassProduct || !x.weight || x.way() != w
		}))
		if own.calls == 0 {
			continue
		}
		var mem, arith reference
		far := false
		for _, ok := range j.keys {
			o := j.groups[ok]
			if ok.Phase == k.Phase {
				continue
			}
			p := o.products(w)
			if p.work < minRefDur || own.intensity() <= 0 || p.intensity() <= 0 {
				continue
			}
			switch x := p.intensity() / own.intensity(); {
			case x >= 2 && p.computing() > arith.rate:
				arith, far = reference{p.computing(), phaseWord(ok.Phase)}, p.intensity() >= manyFlops
			case x <= 0.5 && p.reading() > mem.rate:
				mem = reference{p.reading(), phaseWord(ok.Phase)}
			}
		}
		if mem.rate > 0 {
			memNeed += float64(own.bytes) / mem.rate
			memOf += float64(own.work)
			if own.dur > memLongest {
				memLongest, c.memRef = own.dur, mem
			}
		}
		if arith.rate > 0 {
			arithNeed += float64(own.flops) / arith.rate
			arithOf += float64(own.work)
			c.arithFar = c.arithFar && far
			if own.dur > arithLongest {
				arithLongest, c.arithRef = own.dur, arith
			}
		}
	}
	if memOf >= 0.8*float64(c.sum.work) {
		c.mem = num.Ratio(memNeed, memOf)
	}
	if arithOf >= 0.8*float64(c.sum.work) {
		c.arith = num.Ratio(arithNeed, arithOf)
	}
}

func phaseWord(p profile.Phase) string {
	if p == profile.Unknown {
		return "another phase"
	}
	return string(p)
}

// needsOfOthers computes mem and arith of operators that are not matmuls: compared with the best that weight
// matmuls reached in this run.
func (j *judge) needsOfOthers(g *workGroup, c *workClass) {
	for _, k := range j.keys {
		o := j.groups[k]
		for _, w := range o.ways() {
			p := o.products(w)
			if p.work < minRefDur || w.team != g.team {
				continue
			}
			if v := p.reading(); v > c.memRef.rate {
				c.memRef = reference{v, "weight matmuls"}
			}
			if v := p.computing(); v > c.arithRef.rate {
				c.arithRef = reference{v, "weight matmuls"}
			}
		}
	}
	onCPU := float64(c.sum.work)
	if c.memRef.rate > 0 && c.sum.bytesDur*5 >= c.sum.dur*4 {
		c.mem = num.Ratio(float64(c.sum.bytes)/c.memRef.rate, onCPU)
	}
	if c.arithRef.rate > 0 && c.sum.flopsDur*5 >= c.sum.dur*4 {
		c.arith = num.Ratio(float64(c.sum.flops)/c.arithRef.rate, onCPU)
	}
}

// typeMix compares matmuls of differently packed weights: if they read at the same rate, time follows bytes;
// if they compute at the same rate, it follows flops. It needs two types with notable time and different
// flops per byte.
func (j *judge) typeMix(g *workGroup, c *workClass) summary.Bound {
	if c.what != "weight_matmul" {
		return ""
	}
	var sums []workCell
	for _, w := range g.ways() {
		if w.chosen || w.team != g.team { // read and computed in another way: not comparable
			continue
		}
		if p := g.products(w); float64(p.dur) >= 0.1*float64(c.sum.dur) && p.work >= minRefDur &&
			p.bytes > 0 && p.flops > 0 {
			sums = append(sums, p)
		}
	}
	if len(sums) < 2 {
		return ""
	}
	spread := func(f func(*workCell) float64) float64 {
		lo, hi := f(&sums[0]), f(&sums[0])
		for i := range sums {
			lo, hi = min(lo, f(&sums[i])), max(hi, f(&sums[i]))
		}
		return hi / lo
	}
	// while they work: types differ in how much they wait or lose their CPUs
	read, computed := spread((*workCell).reading), spread((*workCell).computing)
	switch {
	case read <= sameRate && computed >= otherRate:
		return summary.BoundMemory
	case computed <= sameRate && read >= otherRate:
		return summary.BoundCompute
	}
	return ""
}

var classNames = map[string]string{"weight_matmul": "weight matmuls", "attention": "attention operators",
	"other": "other operators"}

// classes groups a phase's operators into classes and judges each.
func (j *judge) classes(k facts.ModelKey, g *workGroup) []workClass {
	if done := j.judged[g]; done != nil {
		return done
	}
	out := []workClass{{what: "weight_matmul"}, {what: "attention"}, {what: "other"}}
	kinds := []ops.Class{ops.ClassProduct, ops.ClassAttention, ops.ClassOther}
	for i := range out {
		c := &out[i]
		cells := g.of(func(c *workCell) bool { return c.kind == kinds[i] })
		c.sum = sumOf(cells)
		if c.sum.calls == 0 {
			c.bound = summary.BoundUnknown
			continue
		}
		if c.what == "weight_matmul" {
			j.needs(k, g, c, cells)
		} else {
			j.needsOfOthers(g, c)
		}
		j.peaks(g, c, cells)
		j.decide(g, c)
	}
	slices.SortStableFunc(out, func(a, b workClass) int { return cmp.Compare(b.sum.work, a.sum.work) })
	if j.judged == nil {
		j.judged = map[*workGroup][]workClass{}
	}
	j.judged[g] = out
	return out
}

// statPeaks lists the roofs of the threads and types in a run.
func (j *judge) statPeaks() *roof.Used {
	p := j.machine
	if p == nil {
		return nil
	}
	out := &roof.Used{Source: p.Source, Missing: p.Missing, Doubtful: p.Doubtful, Roofs: []roof.UsedRoof{}}
	seen := map[workKind]bool{}
	for _, k := range j.keys {
		g := j.groups[k]
		for _, w := range append(slices.Clip(g.ways()), workKind{team: g.team}) {
			for _, typ := range []string{"", w.typ} {
				key := workKind{typ: typ, team: w.team}
				r := roof.UsedRoof{Weight: typ, Roof: p.Roof(w.team, typ)}
				if seen[key] || r.GBps == nil && r.GFlops == nil || len(out.Roofs) >= MaxRoofs {
					continue
				}
				seen[key] = true
				out.Roofs = append(out.Roofs, r)
			}
		}
	}
	slices.SortFunc(out.Roofs, func(a, b roof.UsedRoof) int {
		return cmp.Or(cmp.Compare(a.Threads, b.Threads), cmp.Compare(a.Weight, b.Weight))
	})
	return out
}

// MaxRoofs bounds the list of roofs: a run has only a few numbers of threads and types.
const MaxRoofs = 256
