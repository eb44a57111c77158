// SPDX-License-Identifier: Apache-2.0

package profile

import "github.com/profinfer/profinfer/trace"

// StatCounter is a counter of the run: a column of every row's Counts.
type StatCounter struct {
	Name   string `json:"name"`   // as perf has it
	Role   string `json:"role"`   // what it stands for whatever its name: cycles, instructions, ...; empty: not known
	PMU    string `json:"pmu"`    // empty: the kernel counts it for each thread
	Unit   string `json:"unit"`   // empty: a number
	User   bool   `json:"user"`   // of user space only
	Scaled bool   `json:"scaled"` // it shared a hardware counter: values are estimates
	Void   string `json:"void"`   // why it has no values; empty: it has
	Slots  int    `json:"slots"`  // of a counter of slots for instructions: how many a cycle has; 0: not told
}

// StatCount is what one counter counted over a row's operators.
type StatCount struct {
	Sum   *int64 `json:"sum"`   // nil: of no operator known
	Calls int64  `json:"calls"` // operators that it is the sum of: those of which it is known on all threads
}

// countSum is a StatCount under way.
type countSum struct {
	sum, calls int64
}

// count adds an operator's counters.
func (r *rowSum) count(counts []int64) {
	if len(counts) > len(r.counts) {
		r.counts = append(r.counts, make([]countSum, len(counts)-len(r.counts))...)
	}
	for i, v := range counts {
		if v != UnknownCount {
			r.counts[i].sum += v
			r.counts[i].calls++
		}
	}
}

func (r *rowSum) mergeCounts(o *rowSum) {
	if len(o.counts) > len(r.counts) {
		r.counts = append(r.counts, make([]countSum, len(o.counts)-len(r.counts))...)
	}
	for i, c := range o.counts {
		r.counts[i].sum += c.sum
		r.counts[i].calls += c.calls
	}
}

// statCounts completes a row's counters; nil where the run has none.
func (r *rowSum) statCounts(n int) []StatCount {
	if n == 0 {
		return nil
	}
	out := make([]StatCount, n)
	for i := range out {
		if i < len(r.counts) && r.counts[i].calls > 0 {
			sum := r.counts[i].sum
			out[i] = StatCount{Sum: &sum, Calls: r.counts[i].calls}
		}
	}
	return out
}

func statCounters(cs []trace.Counter) []StatCounter {
	var out []StatCounter
	for _, c := range cs {
		out = append(out, StatCounter{Name: c.Name, Role: c.Role, PMU: c.PMU, Unit: c.Unit, User: c.User, Scaled: c.Scaled, Void: c.Void, Slots: c.Slots})
	}
	return out
}

// IPC returns a row's instructions per cycle; nil without both counters. Where each was counted in two ways, of user space and
// of all, it is user space's.
func (s *Stat) IPC(r *StatRow) *float64 { return s.Ratios(r.Counts).IPC }

func pairOf(cs []StatCounter, a, b string) (int, int) {
	return pair(len(cs), func(i int) (string, bool, bool) { return cs[i].Role, cs[i].User, cs[i].Void == "" }, a, b)
}

// CounterPair finds two counters by their roles that were counted alike and have values: of user space where there are both ways.
// -1 and -1 where there are none.
func CounterPair(cs []trace.Counter, a, b string) (int, int) {
	return pair(len(cs), func(i int) (string, bool, bool) { return cs[i].Role, cs[i].User, cs[i].Void == "" }, a, b)
}

func pair(n int, of func(int) (role string, user, valid bool), a, b string) (int, int) {
	for _, wantUser := range []bool{true, false} {
		find := func(want string) int {
			for i := range n {
				if role, user, valid := of(i); role == want && user == wantUser && valid {
					return i
				}
			}
			return -1
		}
		if i, j := find(a), find(b); i >= 0 && j >= 0 {
			return i, j
		}
	}
	return -1, -1
}
