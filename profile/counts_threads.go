// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"cmp"
	"slices"
)

// maxThreadCounts bounds the numbers of threads that are told apart, over all phases and models.
const maxThreadCounts = 256

// ThreadsStat is what the steps of one phase did that were computed by one number of threads, and what their operators counted.
type ThreadsStat struct {
	Phase string `json:"phase"`
	// Model is the index in Stat.Models; nil if it is not known.
	Model      *int     `json:"model"`
	Threads    int      `json:"threads"` // of the largest team that ran an operator of the step
	Steps      int64    `json:"steps"`   // that were wholly seen, with their operators
	TokensPerS *float64 `json:"tokens_per_s"`
	// Counts has one for each of Stat.Counters.
	Counts []StatCount `json:"counts"`
	CountRatios
}

// CountRatios are what counters tell beside one another. Each is of two counters that were counted alike (see [CounterPair]); nil
// where one of them is not known or has no values.
type CountRatios struct {
	// IPC is instructions a cycle.
	IPC *float64 `json:"ipc"`
	// StallShare is the part of the cycles, or of the slots in which an instruction could have been issued, that were lost waiting:
	// 0 to 1. StallOf is the counter that says so. CPUs differ in what they count as waiting: compare it on one kind of CPU.
	StallShare *float64 `json:"stall_share"`
	StallOf    string   `json:"stall_of"`
	// Misses are those of the outermost cache that is counted, on 1000 instructions. MissesOf is their counter.
	Misses   *float64 `json:"misses_per_1000"`
	MissesOf string   `json:"misses_of"`
}

// stallRoles are roles of counters that say what was lost waiting, with the role of the whole; the one that tells most comes first. They
// are those of package pmu.
var stallRoles = [][2]string{{"stall-backend", "cycles"}, {"be-bound", "slots"}, {"stall-memory", "cycles"}, {"stall", "cycles"}}

// missRoles are roles of counters of misses, the outermost cache's first. Fills count lines that came from memory, so they are past the
// last cache too.
var missRoles = []string{"llc-miss", "mem-fill", "l3-miss", "l3-refill", "l2-miss", "l2-refill", "l1-refill"}

// Ratios computes what a row's counters tell beside one another. counts are those of a row of Stat. Where one counter of a pair is known
// of fewer operators than the other, it is a mean of each.
func (s *Stat) Ratios(counts []StatCount) CountRatios {
	var r CountRatios
	mean := func(i int) *float64 {
		if i < 0 || i >= len(counts) || counts[i].Sum == nil || counts[i].Calls == 0 {
			return nil
		}
		return ratio(float64(*counts[i].Sum), float64(counts[i].Calls))
	}
	of := func(a, b string, times float64) (*float64, string) {
		i, j := pairOf(s.Counters, a, b)
		x, y := mean(i), mean(j)
		if x == nil || y == nil {
			return nil, ""
		}
		return ratio(*x*times, *y), s.Counters[i].Name
	}
	// lines from this node's memory and from others' are parts of one figure
	parts := func(i int, first *float64) *float64 {
		for j := i + 1; j < len(s.Counters); j++ {
			if k := &s.Counters[j]; first != nil && k.Role == s.Counters[i].Role && k.User == s.Counters[i].User && k.Void == "" {
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
	if i, _ := pairOf(s.Counters, "be-bound", "cycles"); r.StallShare == nil && i >= 0 && s.Counters[i].Slots > 0 {
		r.StallShare, r.StallOf = of("be-bound", "cycles", 1/float64(s.Counters[i].Slots))
	}
	for _, role := range missRoles {
		if r.Misses != nil {
			break
		}
		i, j := pairOf(s.Counters, role, "instructions")
		x, y := mean(i), mean(j)
		if x == nil || y == nil {
			continue
		}
		if role == "mem-fill" {
			x = parts(i, x)
		}
		r.Misses, r.MissesOf = ratio(*x*1000, *y), s.Counters[i].Name
	}
	return r
}

// teamCounts sums up steps by the number of threads that computed them.
type teamCounts struct {
	teams map[teamKey]*threadsSum
}

type teamKey struct {
	groupKey
	threads int
}

type threadsSum struct {
	counts             rowSum
	steps, tokens, dur int64
	noTokens           bool
}

// step adds a step that was wholly seen.
func (t *teamCounts) step(b *statState, s *Step, ops []*Op) {
	counted, threads := false, 0
	for _, o := range ops {
		counted = counted || o.Counts != nil
		threads = max(threads, len(o.Threads), o.team)
	}
	if !counted {
		return
	}
	k := teamKey{groupKey{s.Phase, b.models.at(s.PID, s.Ctx)}, threads}
	e := t.teams[k]
	if e == nil {
		if len(t.teams) >= maxThreadCounts {
			return
		}
		if t.teams == nil {
			t.teams = map[teamKey]*threadsSum{}
		}
		e = &threadsSum{}
		t.teams[k] = e
	}
	e.steps++
	if a, ok := b.awaited[s]; ok {
		a.team = e
		b.awaited[s] = a
	} else {
		e.took(s, s.Dur)
	}
	for _, o := range ops {
		if o.Counts != nil {
			e.counts.count(o.Counts)
		}
	}
}

// took counts the tokens of a step and the time until its results were there.
func (e *threadsSum) took(s *Step, dur int64) {
	e.dur += dur
	e.tokens += int64(max(0, s.NTokens))
	e.noTokens = e.noTokens || s.NTokens <= 0
}

// finish lists them by phase, model and threads. Nothing where no counter tells anything beside another.
func (t *teamCounts) finish(b *statState, s *Stat) []ThreadsStat {
	type key struct {
		modelKey
		threads int
	}
	joined := map[key]*threadsSum{}
	for k, e := range t.teams { // contexts whose models turned out to be one
		to := key{modelKey{k.phase, b.models.index(k.model)}, k.threads}
		if j := joined[to]; j != nil {
			j.counts.mergeCounts(&e.counts)
			j.steps, j.tokens, j.dur, j.noTokens = j.steps+e.steps, j.tokens+e.tokens, j.dur+e.dur, j.noTokens || e.noTokens
		} else {
			joined[to] = e
		}
	}
	var out []ThreadsStat
	for k, e := range joined {
		x := ThreadsStat{Phase: string(k.phase), Threads: k.threads, Steps: e.steps, Counts: e.counts.statCounts(len(s.Counters))}
		if k.phase == Unknown {
			x.Phase = "unknown"
		}
		if m := k.model; m >= 0 {
			x.Model = &m
		}
		if !e.noTokens {
			x.TokensPerS = ratio(float64(e.tokens)*1e9, float64(e.dur))
		}
		x.CountRatios = s.Ratios(x.Counts)
		if x.IPC == nil && x.StallShare == nil && x.Misses == nil {
			continue
		}
		out = append(out, x)
	}
	order := []string{string(Prefill), string(Decode), string(Encode), "unknown"}
	model := func(x ThreadsStat) int {
		if x.Model == nil {
			return -1
		}
		return *x.Model
	}
	slices.SortFunc(out, func(a, b ThreadsStat) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Phase), slices.Index(order, b.Phase)), cmp.Compare(model(a), model(b)), cmp.Compare(a.Threads, b.Threads))
	})
	return out
}
