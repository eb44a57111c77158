// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"github.com/profinfer/profinfer/profile"
)

// sampled is what perf saw of one phase's graphs: numbers of samples.
type sampled struct {
	n      [classes]int64
	inside int64 // of these, waits at barriers within operators, counted with the operator
	other  [classes]map[string]int64
}

func (s *sampled) add(c class, inside bool, symbol string) {
	s.n[c]++
	if inside {
		s.inside++
	}
	if c == rest || c >= undecided {
		s.note(c, symbol, 1)
	}
}

func (s *sampled) note(c class, symbol string, n int64) {
	if s.other[c] == nil {
		s.other[c] = map[string]int64{}
	}
	s.other[c][symbol] += n
}

// decide gives samples in products' shared code to attention, if no product with weights ran
// there: none of the run's samples in it was in code for weights.
func (s *sampled) decide(weights bool) {
	to := attention
	if weights {
		to = ambiguous
	}
	s.n[to] += s.n[undecided]
	s.n[undecided] = 0
	for name, n := range s.other[undecided] {
		if to == ambiguous {
			s.note(to, name, n)
		}
	}
	s.other[undecided] = nil
}

func (s *sampled) sum() (n int64) {
	for _, x := range s.n {
		n += x
	}
	return n
}

// outside is what perf saw of the same threads while no graph ran.
type outside struct {
	n        int64
	compute  int64 // products and attention: graphs that the trace does not have
	unwanted int64 // samples of other threads
}

// margin is half of the 95 % interval of a share seen in n samples (normal approximation of the binomial).
func margin(share float64, n int64) float64 {
	if n == 0 {
		return 1
	}
	return 1.96 * math.Sqrt(share*(1-share)/float64(n))
}

// verdict says whether a difference of shares holds a limit, both in points.
func verdict(diff, limit float64) string {
	if math.Abs(diff) <= limit {
		return fmt.Sprintf("within %g", limit)
	}
	return fmt.Sprintf("MORE THAN %g", limit)
}

// compare writes the shares of perf beside those of profinfer and tells whether all of a
// phase are within limit points. It is false too where there is too little to compare.
func compare(w io.Writer, p profile.Phase, s *sampled, t *phaseTime, limit float64) bool {
	if s == nil || t == nil {
		fmt.Fprintf(w, "%s: nothing to compare\n", p)
		return false
	}
	a, n := shares(s.n)
	b, busy := shares(t.time)
	all := s.sum()
	fmt.Fprintf(w, "\n%s: %d steps, %d operators, %d samples in their graphs\n", p, t.steps, t.ops, all)
	if n == 0 || busy == 0 {
		fmt.Fprintln(w, "  nothing to compare")
		return false
	}
	fmt.Fprintf(w, "  %-16s %9s %8s %11s %11s   points\n", "computing", "perf", "95 %", "profinfer",
		"difference")
	ok := true
	for c := products; c <= rest; c++ {
		d := 100 * (b[c] - a[c])
		ok = ok && math.Abs(d) <= limit
		fmt.Fprintf(w, "  %-16s %7.2f %% ±%6.2f %9.2f %% %+11.2f   %s\n", c, 100*a[c], 100*margin(a[c], n),
			100*b[c], d, verdict(d, limit))
	}
	part := func(n, of int64) float64 {
		if of == 0 {
			return 0
		}
		return 100 * float64(n) / float64(of)
	}
	fmt.Fprintf(w, "  not in these shares: waiting  perf %.2f %% of CPU time, profinfer %.2f %% of time (a thread that waits can have no CPU)\n",
		part(s.n[waiting], all-s.n[probes]), part(t.time[waiting], busy+t.time[waiting]))
	fmt.Fprintf(w, "                       probes   perf %.2f %% of CPU time\n", part(s.n[probes], all))
	fmt.Fprintf(w, "                       of no class (shared code, caller not known)  perf %.2f %%: %s\n",
		part(s.n[ambiguous], all), most(s.other[ambiguous], 4, all))
	fmt.Fprintf(w, "  waits at barriers inside operators, which are the operator's time for both: perf %.2f %% of computing\n", part(s.inside, n))
	fmt.Fprintf(w, "  the rest, by perf: %s\n", most(s.other[rest], 6, n))
	return ok
}

// most lists the symbols with most samples, as parts of all.
func most(m map[string]int64, k int, all int64) (s string) {
	names := slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		return cmp.Or(cmp.Compare(m[b], m[a]), cmp.Compare(a, b))
	})
	for i, name := range names[:min(k, len(names))] {
		if i > 0 {
			s += ", "
		}
		s += fmt.Sprintf("%.40q %.2f %%", name, 100*float64(m[name])/float64(all))
	}
	return s
}

// compareBudget is compare for two recordings of profinfer.
func compareBudget(w io.Writer, p profile.Phase, full, part *phaseTime, limit float64) bool {
	if full == nil || part == nil {
		fmt.Fprintf(w, "%s: nothing to compare\n", p)
		return false
	}
	a, n := shares(full.time)
	b, m := shares(part.time)
	if n == 0 || m == 0 {
		fmt.Fprintf(w, "%s: nothing to compare\n", p)
		return false
	}
	fmt.Fprintf(w, "\n%s: full %d steps, %d operators; with a budget %d steps, %d operators (%.0f %%)\n",
		p, full.steps, full.ops, part.steps, part.ops, 100*float64(part.ops)/float64(full.ops))
	fmt.Fprintf(w, "  %-16s %9s %9s %11s   points\n", "computing", "full", "budget", "difference")
	ok := true
	for c := products; c <= rest; c++ {
		d := 100 * (b[c] - a[c])
		ok = ok && math.Abs(d) <= limit
		fmt.Fprintf(w, "  %-16s %7.2f %% %7.2f %% %+11.2f   %s\n", c, 100*a[c], 100*b[c], d,
			verdict(d, limit))
	}
	share := func(t *phaseTime, busy int64) float64 {
		return 100 * float64(t.time[waiting]) / float64(busy+t.time[waiting])
	}
	fmt.Fprintf(w, "  not in these shares: waiting  full %.2f %%, budget %.2f %% of time\n", share(full, n),
		share(part, m))
	return ok
}
