// SPDX-License-Identifier: Apache-2.0

package stat

import (
	"cmp"
	"slices"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/internal/num"
	"github.com/profinfer/profinfer/profile/summary"
)

// maxThreadCounts bounds the distinct numbers of threads, over all phases and models.
const maxThreadCounts = 256

// teamCounts sums up steps by the number of threads that computed them.
type teamCounts struct {
	teams map[teamKey]*threadsSum
}

type teamKey struct {
	facts.PhaseKey
	threads int
}

type threadsSum struct {
	counts             summary.RowSum
	steps, tokens, dur int64
	noTokens           bool
}

// step adds a complete step.
func (t *teamCounts) step(b *statState, s *profile.Step, ops []*profile.Op) {
	counted, threads := false, 0
	for _, o := range ops {
		counted = counted || o.Counts != nil
		threads = max(threads, len(o.Threads), o.Team)
	}
	if !counted {
		return
	}
	k := teamKey{facts.PhaseKey{Phase: s.Phase, Model: b.book.At(s.PID, s.Ctx)}, threads}
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
			e.counts.Count(o.Counts)
		}
	}
}

// took adds the tokens of a step and its end-to-end time.
func (e *threadsSum) took(s *profile.Step, dur int64) {
	e.dur += dur
	e.tokens += int64(max(0, s.NTokens))
	e.noTokens = e.noTokens || s.NTokens <= 0
}

// finish lists them by phase, model and threads. It returns nothing where no pair of counters gives a ratio.
func (t *teamCounts) finish(b *statState, s *summary.Stat) []summary.ByThreads {
	type key struct {
		facts.ModelKey
		threads int
	}
	joined := map[key]*threadsSum{}
	for k, e := range t.teams { // contexts whose models turned out to be one
		to := key{facts.ModelKey{Phase: k.Phase, Model: b.book.Index(k.Model)}, k.threads}
		if j := joined[to]; j != nil {
			j.counts.MergeCounts(&e.counts)
			j.steps, j.tokens, j.dur, j.noTokens = j.steps+e.steps, j.tokens+e.tokens, j.dur+e.dur,
				j.noTokens || e.noTokens
		} else {
			joined[to] = e
		}
	}
	var out []summary.ByThreads
	for k, e := range joined {
		x := summary.ByThreads{Phase: string(k.Phase), Threads: k.threads, Steps: e.steps,
			Counts: e.counts.StatCounts(len(s.Counters))}
		if k.Phase == profile.Unknown {
			x.Phase = "unknown"
		}
		if m := k.Model; m >= 0 {
			x.Model = &m
		}
		if !e.noTokens {
			x.TokensPerS = num.Ratio(float64(e.tokens)*1e9, float64(e.dur))
		}
		x.CountRatios = s.Ratios(x.Counts)
		if x.IPC == nil && x.StallShare == nil && x.Misses == nil {
			continue
		}
		out = append(out, x)
	}
	order := []string{string(profile.Prefill), string(profile.Decode), string(profile.Encode), "unknown"}
	model := func(x summary.ByThreads) int {
		if x.Model == nil {
			return -1
		}
		return *x.Model
	}
	slices.SortFunc(out, func(a, b summary.ByThreads) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Phase), slices.Index(order, b.Phase)),
			cmp.Compare(model(a), model(b)), cmp.Compare(a.Threads, b.Threads))
	})
	return out
}
