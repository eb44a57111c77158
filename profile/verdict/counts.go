// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"fmt"

	"github.com/profinfer/profinfer/internal/format"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/internal/num"
	"github.com/profinfer/profinfer/profile/summary"
)

// What counters reveal about operators. docs/verdict.md has the rule and its sources.

// cellCount sums up one counter over a cell's operators.
type cellCount struct {
	sum, calls   int64 // over operators for which it is known
	hits, hitDur int64 // of these, those with a nonzero count, and their time
	noneDur      int64 // time of those with a zero count
}

func (c *workCell) count(counts []int64, dur int64) {
	if len(counts) > len(c.counts) {
		c.counts = append(c.counts, make([]cellCount, len(counts)-len(c.counts))...)
	}
	for i, v := range counts {
		if v == profile.UnknownCount {
			continue
		}
		k := &c.counts[i]
		k.sum += v
		k.calls++
		if v > 0 {
			k.hits++
			k.hitDur += dur
		} else {
			k.noneDur += dur
		}
	}
}

func (c *workCell) mergeCounts(o *workCell) {
	if len(o.counts) > len(c.counts) {
		c.counts = append(c.counts, make([]cellCount, len(o.counts)-len(c.counts))...)
	}
	for i, k := range o.counts {
		to := &c.counts[i]
		to.sum += k.sum
		to.calls += k.calls
		to.hits += k.hits
		to.hitDur += k.hitDur
		to.noneDur += k.noneDur
	}
}

// Roles of counters that the rule uses, as package pmu names them.
const (
	roleCycles       = "cycles"
	roleInstructions = "instructions"
	roleStallBackend = "stall-backend"
	roleStallMemory  = "stall-memory"
	roleSlots        = "slots"
	roleRetiring     = "retiring"
	roleBackendBound = "be-bound"
	roleMemBound     = "mem-bound"
	roleLLCMiss      = "llc-miss"
	roleLLCPrefetch  = "llc-prefetch-miss"
	roleMemFill      = "mem-fill"
	roleMajorFaults  = "major-faults"
)

// lineBytes is the size of a cache line, which one miss fetches, on every CPU that package pmu knows.
const lineBytes = 64

// Thresholds of counters' shares.
const (
	knownPart    = 0.8  // of the operators: a counter known for fewer is not representative
	manyStalls   = 0.5  // of the cycles: nothing was issued because of memory
	fewStalls    = 0.2  // of the cycles: the core works
	someStalls   = 0.5  // of the cycles, for any reason behind the front end
	mostTraffic  = 0.7  // of the bytes came from memory
	smallTraffic = 0.25 // of the bytes: the others stayed in a cache
)

// counted is what the counters of operators reveal; nil: unknown.
type counted struct {
	ipc *float64
	// memory is the fraction of the cycles (of the slots) in which the core waited for memory, backend that
	// in which it waited for anything behind its front end, and useful that in which instructions retired.
	memory, backend, useful *float64
	traffic                 *float64 // bytes that came from memory
	// all: traffic includes what prefetchers fetch. Otherwise it is a lower bound.
	all    bool
	scaled bool // one of these is an estimate, because it shared a hardware counter
}

func (k *counted) any() bool {
	return k != nil && (k.memory != nil || k.backend != nil || k.useful != nil || k.traffic != nil)
}

// counts returns what is known of a class of operators. Only counters that were counted alike are compared.
func (j *judge) counts(c *workCell) *counted {
	out := &counted{}
	part := func(role, of string) *float64 {
		x, y := summary.PairOf(j.s.Counters, role, of)
		if x < 0 || y < 0 {
			return nil
		}
		a, b := j.count(c, x, out), j.count(c, y, out)
		if a == nil || b == nil || *b <= 0 {
			return nil
		}
		return num.Ratio(*a, *b)
	}
	// of the top-down slots, which some CPUs count and of which others have a fixed number per cycle
	slots := func(role string) *float64 {
		if v := part(role, roleSlots); v != nil {
			return v
		}
		x, _ := summary.PairOf(j.s.Counters, role, roleCycles)
		v := part(role, roleCycles)
		if v == nil || j.s.Counters[x].Slots <= 0 {
			return nil
		}
		return num.Ratio(*v, float64(j.s.Counters[x].Slots))
	}
	first := func(a, b *float64) *float64 {
		if a != nil {
			return a
		}
		return b
	}
	out.ipc = part(roleInstructions, roleCycles)
	out.memory = first(slots(roleMemBound), part(roleStallMemory, roleCycles))
	out.backend = first(slots(roleBackendBound), part(roleStallBackend, roleCycles))
	out.useful = slots(roleRetiring)
	lines, prefetched := j.sum(c, roleLLCMiss, out), j.sum(c, roleLLCPrefetch, out)
	if lines != nil && prefetched != nil {
		*lines += *prefetched
		out.all = true
	}
	if fills := j.sum(c, roleMemFill, out); fills != nil {
		lines, out.all = fills, true
	}
	if lines != nil {
		v := *lines * lineBytes
		out.traffic = &v
	}
	return out
}

// count is counter i's sum over all operators of c, extrapolated from those for which it is known. It is nil
// where it is known for too few of them or is unusable: it is void, or a CPU's counter read 0 in the whole
// run, as one does that the CPU lists but does not count.
func (j *judge) count(c *workCell, i int, of *counted) *float64 {
	k := &j.s.Counters[i]
	if k.Void != "" || i >= len(c.counts) {
		return nil
	}
	n := &c.counts[i]
	if n.calls <= 0 || float64(n.calls) < knownPart*float64(c.calls) || k.PMU != "" && j.total(i) == 0 {
		return nil
	}
	of.scaled = of.scaled || k.Scaled
	v := float64(n.sum) * float64(c.calls) / float64(n.calls)
	return &v
}

// sum adds up the counters of one role, which are parts of one figure: lines from this node's memory and from
// that of others. Those counted in another mode than the first (user space only, or all) are the same lines
// again, and are left out.
func (j *judge) sum(c *workCell, role string, of *counted) *float64 {
	var sum *float64
	first := -1
	for i := range j.s.Counters {
		if j.s.Counters[i].Role != role || first >= 0 && j.s.Counters[i].User != j.s.Counters[first].User {
			continue
		}
		v := j.count(c, i, of)
		if v == nil {
			continue
		}
		if sum == nil {
			sum, first = v, i
		} else {
			*sum += *v
		}
	}
	return sum
}

// total is a counter's sum over the run.
func (j *judge) total(i int) int64 {
	if j.totals == nil {
		j.totals = make([]int64, len(j.s.Counters))
		for _, k := range j.keys {
			for _, c := range j.groups[k].inOrder() {
				for at := range c.counts {
					if at < len(j.totals) {
						j.totals[at] += c.counts[at].sum
					}
				}
			}
		}
	}
	return j.totals[i]
}

// says decides by counters between memory and compute: empty where they are not conclusive.
func (k *counted) says(bytes int64) (b summary.Bound, sure int) {
	if !k.any() {
		return "", 0
	}
	share := k.share(bytes)
	cached := share != nil && k.all && *share <= smallTraffic
	fromMemory := share != nil && *share >= mostTraffic
	sure = 2
	if fromMemory && !k.scaled {
		sure = 3
	}
	at := func(v *float64, least float64) bool { return v != nil && *v >= least }
	below := func(v *float64, most float64) bool { return v != nil && *v <= most }
	switch {
	case at(k.memory, manyStalls) && !cached:
		return summary.BoundMemory, sure
	case k.memory == nil && at(k.backend, someStalls) && fromMemory:
		return summary.BoundMemory, 2 // the stalls can have another cause
	case below(k.backend, fewStalls), at(k.useful, 1-someStalls) && !at(k.memory, fewStalls):
		return summary.BoundCompute, 2
	case below(k.memory, fewStalls) && at(k.backend, fewStalls):
		return summary.BoundCompute, 2 // it waits for its own units
	}
	return "", 0
}

// share is the fraction that came from memory of the bytes that the operators had to read.
func (k *counted) share(bytes int64) *float64 {
	if k == nil || k.traffic == nil || bytes <= 0 {
		return nil
	}
	return num.Ratio(*k.traffic, float64(bytes))
}

// text describes the counters' figures; empty: there are none.
func (k *counted) text(bytes int64) string {
	var facts []string
	if k.memory != nil {
		facts = append(facts, "the cores stall for memory in "+format.Share(*k.memory)+" of their cycles")
	} else if k.backend != nil {
		facts = append(facts, "the cores stall in "+format.Share(*k.backend)+" of their cycles")
	}
	if v := k.share(bytes); v != nil {
		less := ""
		if !k.all {
			less = ", without what prefetchers fetch"
		}
		facts = append(facts, format.Share(*v)+" of the bytes come from memory by the misses counted"+less)
	}
	if k.ipc != nil {
		facts = append(facts, fmt.Sprintf("%.2f instructions per cycle", *k.ipc))
	}
	if len(facts) == 0 {
		return ""
	}
	return "Counters: " + andList(facts) + "."
}

// disk sets the time that the disk cost each cell. With major faults that is the excess of operators with
// such a fault over those of the same cell without, or of the same operator in other layers; where there are
// none of these, it is what their threads slept. It is taken out of the off-CPU time first, then out of
// waiting, then out of work.
func (j *judge) disk() {
	if f := j.s.Faults; f != nil && f.Timed {
		j.faulted()
		return
	}
	at := -1
	for i := range j.s.Counters {
		if j.s.Counters[i].Role == roleMajorFaults && j.s.Counters[i].Void == "" {
			at = i
		}
	}
	if at < 0 {
		j.blocked()
		return
	}
	for _, k := range j.keys {
		g := j.groups[k]
		for _, c := range g.inOrder() {
			if at >= len(c.counts) || c.counts[at].hits == 0 {
				continue
			}
			n := &c.counts[at]
			c.majors = n.sum
			var over int64
			if usual := g.usual(c, at); usual > 0 {
				over = max(0, n.hitDur-int64(usual*float64(n.hits)))
			} else {
				over = c.off
			}
			c.takeDisk(over)
		}
	}
}

// usual is the mean time of an operator of c without a major fault; 0: unknown.
func (g *workGroup) usual(c *workCell, at int) float64 {
	if n := &c.counts[at]; n.calls > n.hits {
		return float64(n.noneDur) / float64(n.calls-n.hits)
	}
	var dur, calls int64
	for _, o := range g.inOrder() {
		if o.name == c.name && o.typ == c.typ && o.op == c.op && o.team == c.team &&
			num.SafeRatio(o.bytes, o.calls) == num.SafeRatio(c.bytes, c.calls) && at < len(o.counts) {
			dur += o.counts[at].noneDur
			calls += o.counts[at].calls - o.counts[at].hits
		}
	}
	return num.SafeRatio(dur, calls)
}
