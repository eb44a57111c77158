// SPDX-License-Identifier: Apache-2.0

package summary

import (
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/internal/num"
	"github.com/profinfer/profinfer/trace"
)

// Counter is a counter of the run: a column of every row's Counts.
type Counter struct {
	Name string `json:"name"` // perf's name for it
	// what it measures, independent of its name: cycles, instructions, ...; empty: unknown
	Role   string `json:"role"`
	PMU    string `json:"pmu"`    // empty: the kernel counts it per thread
	Unit   string `json:"unit"`   // empty: a number
	User   bool   `json:"user"`   // user space only
	Scaled bool   `json:"scaled"` // it shared a hardware counter: values are estimates
	Void   string `json:"void"`   // why it has no values; empty: it has values
	Slots  int    `json:"slots"`  // of an instruction slot counter: slots per cycle; 0: unknown
}

// Count is what one counter counted over a row's operators.
type Count struct {
	Sum   *int64 `json:"sum"`   // nil: unknown for all operators
	Calls int64  `json:"calls"` // operators in the sum: those for which it is known on all threads
}

// countSum is a [Count] while it is summed up.
type countSum struct {
	sum, calls int64
}

// Count adds an operator's counters.
func (r *RowSum) Count(counts []int64) {
	if len(counts) > len(r.counts) {
		r.counts = append(r.counts, make([]countSum, len(counts)-len(r.counts))...)
	}
	for i, v := range counts {
		if v != profile.UnknownCount {
			r.counts[i].sum += v
			r.counts[i].calls++
		}
	}
}

func (r *RowSum) MergeCounts(o *RowSum) {
	if len(o.counts) > len(r.counts) {
		r.counts = append(r.counts, make([]countSum, len(o.counts)-len(r.counts))...)
	}
	for i, c := range o.counts {
		r.counts[i].sum += c.sum
		r.counts[i].calls += c.calls
	}
}

// StatCounts returns a row's counters; nil where the run has none.
func (r *RowSum) StatCounts(n int) []Count {
	if n == 0 {
		return nil
	}
	out := make([]Count, n)
	for i := range out {
		if i < len(r.counts) && r.counts[i].calls > 0 {
			sum := r.counts[i].sum
			out[i] = Count{Sum: &sum, Calls: r.counts[i].calls}
		}
	}
	return out
}

func CountersOf(cs []trace.Counter) []Counter {
	var out []Counter
	for _, c := range cs {
		out = append(out, Counter{Name: c.Name, Role: c.Role, PMU: c.PMU, Unit: c.Unit, User: c.User,
			Scaled: c.Scaled, Void: c.Void, Slots: c.Slots})
	}
	return out
}

// IPC returns a row's instructions per cycle; nil without both counters. Where each was counted in user space
// and in total, the result is that of user space.
func (s *Stat) IPC(r *Row) *float64 { return s.Ratios(r.Counts).IPC }

func PairOf(cs []Counter, a, b string) (int, int) {
	return pair(len(cs), func(i int) (string, bool, bool) {
		return cs[i].Role, cs[i].User, cs[i].Void == ""
	}, a, b)
}

// CounterPair finds two counters by their roles that were counted alike and have values, in user space where
// both kinds exist. It returns -1 and -1 where there are none.
func CounterPair(cs []trace.Counter, a, b string) (int, int) {
	return pair(len(cs), func(i int) (string, bool, bool) {
		return cs[i].Role, cs[i].User, cs[i].Void == ""
	}, a, b)
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

// Ratios computes the ratios of a row's counters. counts are those of a row of Stat. Where one counter of a
// pair is known for fewer operators than the other, each is averaged over its own.
func (s *Stat) Ratios(counts []Count) CountRatios {
	var r CountRatios
	mean := func(i int) *float64 {
		if i < 0 || i >= len(counts) || counts[i].Sum == nil || counts[i].Calls == 0 {
			return nil
		}
		return num.Ratio(float64(*counts[i].Sum), float64(counts[i].Calls))
	}
	of := func(a, b string, times float64) (*float64, string) {
		i, j := PairOf(s.Counters, a, b)
		x, y := mean(i), mean(j)
		if x == nil || y == nil {
			return nil, ""
		}
		return num.Ratio(*x*times, *y), s.Counters[i].Name
	}
	// lines from this node's memory and from other nodes' are parts of one figure
	parts := func(i int, first *float64) *float64 {
		for j := i + 1; j < len(s.Counters); j++ {
			if k := &s.Counters[j]; first != nil && k.Role == s.Counters[i].Role &&
				k.User == s.Counters[i].User && k.Void == "" {
				if v := mean(j); v != nil {
					sum := *first + *v
					first = &sum
				}
			}
		}
		return first
	}
	r.IPC, _ = of("instructions", "cycles", 1)
	for _, k := range stallRoles {
		if r.StallShare == nil {
			r.StallShare, r.StallOf = of(k[0], k[1], 1)
		}
	}
	if i, _ := PairOf(s.Counters, "be-bound", "cycles"); r.StallShare == nil && i >= 0 &&
		s.Counters[i].Slots > 0 {
		r.StallShare, r.StallOf = of("be-bound", "cycles", 1/float64(s.Counters[i].Slots))
	}
	for _, role := range missRoles {
		if r.Misses != nil {
			break
		}
		i, j := PairOf(s.Counters, role, "instructions")
		x, y := mean(i), mean(j)
		if x == nil || y == nil {
			continue
		}
		if role == "mem-fill" {
			x = parts(i, x)
		}
		r.Misses, r.MissesOf = num.Ratio(*x*1000, *y), s.Counters[i].Name
	}
	return r
}

// CountRatios are ratios of counters. Each is of two counters that were counted alike (see [CounterPair]);
// nil where one of them is unknown or has no values.
type CountRatios struct {
	// IPC is instructions per cycle.
	IPC *float64 `json:"ipc"`
	// StallShare is the fraction (0 to 1) of the cycles, or of the slots in which an instruction could have
	// been issued, that were lost waiting. StallOf is the counter for that. CPUs differ in what they count as
	// waiting, so compare it only between CPUs of one kind.
	StallShare *float64 `json:"stall_share"`
	StallOf    string   `json:"stall_of"`
	// Misses is the misses per 1000 instructions of the outermost cache that is counted. MissesOf is their
	// counter.
	Misses   *float64 `json:"misses_per_1000"`
	MissesOf string   `json:"misses_of"`
}

// missRoles are roles of cache miss counters, the outermost cache first. Fills count lines that came from
// memory, so they missed the last cache too.
var missRoles = []string{"llc-miss", "mem-fill", "l3-miss", "l3-refill", "l2-miss", "l2-refill", "l1-refill"}

// stallRoles are roles of counters of time lost waiting, each with the role of its total; the most
// informative comes first. The roles are those of package pmu.
var stallRoles = [][2]string{{"stall-backend", "cycles"}, {"be-bound", "slots"}, {"stall-memory", "cycles"},
	{"stall", "cycles"}}
