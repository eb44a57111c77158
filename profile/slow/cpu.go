// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"cmp"
	"slices"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/sched"
	"github.com/profinfer/profinfer/trace"
)

const maxIntervals = 1 << 17 // kept one by one; of earlier ones only the sums

// cpuBook records how much time the hypervisor took, by CPU and interval.
type cpuBook struct {
	before map[int]cpuSample
	taken  []stolen // in order of their ends
	clocks []clockSample
	sums   map[int]*CPUState
}

type cpuSample struct{ at, steal int64 }

// stolen is the time that the hypervisor took from a CPU between two samples.
type stolen struct {
	profile.Span
	cpu int
	ns  int64
}

// CPU takes what the kernel reported of CPUs.
func (b *Builder) CPU(c *trace.CPUState) error {
	b.cpus.add(c)
	return nil
}

func (k *cpuBook) add(c *trace.CPUState) {
	if k.before == nil {
		k.before, k.sums = map[int]cpuSample{}, map[int]*CPUState{}
	}
	for i := range c.CPUs {
		x := &c.CPUs[i]
		s := k.sums[x.CPU]
		if s == nil {
			if len(k.sums) >= sched.MaxTracked {
				continue
			}
			s = &CPUState{CPU: x.CPU}
			k.sums[x.CPU] = s
		}
		if f := x.KHz; f != nil {
			v := *f
			k.clock(c.Time, x.CPU, v)
			if s.MinKHz == nil || v < *s.MinKHz {
				s.MinKHz = &v
			}
			if s.MaxKHz == nil || v > *s.MaxKHz {
				s.MaxKHz = &v
			}
		}
		if x.Steal == nil {
			continue
		}
		last, ok := k.before[x.CPU]
		k.before[x.CPU] = cpuSample{c.Time, *x.Steal}
		d := *x.Steal - last.steal
		// no valid clock, or one that was set back
		if !ok || d < 0 || c.Time <= last.at || d > c.Time-last.at+int64(20e6) {
			continue
		}
		if s.Steal == nil {
			s.Steal = new(int64)
		}
		*s.Steal += d
		if d == 0 {
			continue
		}
		if len(k.taken) >= maxIntervals {
			k.taken = slices.Delete(k.taken, 0, maxIntervals/2)
		}
		k.taken = append(k.taken, stolen{profile.Span{From: last.at, To: c.Time}, x.CPU, d})
	}
}

// finish lists the CPUs.
func (k *cpuBook) finish() []CPUState {
	out := []CPUState{}
	for _, s := range k.sums {
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b CPUState) int { return cmp.Compare(a.CPU, b.CPU) })
	return out
}

// steal attributes to the hypervisor the unexplained part of slow steps, and the time their threads were late
// on their CPUs, as far as it took time in the same interval. The time taken in an interval is divided among
// the steps in it in proportion to what is unexplained, and never more than that: when in the interval it was
// taken is unknown.
func (k *cpuBook) steal(found []foundStep) {
	if len(k.taken) == 0 {
		return
	}
	type claim struct {
		step, at int
		open     float64
	}
	var claims []claim
	demand := make([]float64, len(k.taken))
	order := make([]int, len(found))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(found[a].start, found[b].start) })
	first := 0
	longest := int64(0)
	for i := range k.taken {
		longest = max(longest, k.taken[i].To-k.taken[i].From)
	}
	for _, i := range order {
		f := &found[i]
		open := max(0, *f.causes.of(SlowUnexplained)) + max(0, *f.causes.of(SlowImbalance))
		if open == 0 || f.dur <= 0 {
			continue
		}
		for first < len(k.taken) && k.taken[first].To <= f.start {
			first++
		}
		for j := first; j < len(k.taken); j++ {
			s := &k.taken[j]
			if s.To > f.start+f.dur+longest {
				break
			}
			d := min(s.To, f.start+f.dur) - max(s.From, f.start)
			if d <= 0 || !f.ranOn(s.cpu) {
				continue
			}
			part := float64(open) * float64(d) / float64(f.dur)
			claims = append(claims, claim{i, j, part})
			demand[j] += part
		}
	}
	got := make([]float64, len(found))
	for _, c := range claims {
		got[c.step] += c.open * min(1, float64(k.taken[c.at].ns)/demand[c.at])
	}
	for i := range found {
		f := &found[i]
		un, im := f.causes.of(SlowUnexplained), f.causes.of(SlowImbalance)
		open := max(0, *un) + max(0, *im)
		ns := min(int64(got[i]), open)
		if ns <= 0 {
			continue
		}
		fromIm := int64(float64(ns) * float64(max(0, *im)) / float64(open))
		*im -= fromIm
		*un -= ns - fromIm
		*f.causes.of(SlowSteal) += ns
	}
}

// ranOn reports whether a step's threads ran on a CPU; where nothing is known of its operators, they may
// have.
func (r *stepRecord) ranOn(cpu int) bool {
	return !r.hasOps || cpu >= 0 && cpu < 64*len(r.cpus) && r.cpus[cpu/64]>>(cpu%64)&1 != 0
}
