// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"math"
	"slices"

	"github.com/profinfer/profinfer/profile/internal/sketch"
)

// Spread is the distribution of a duration, in ns. A quantile q of n values is the one at rank ceil(q*n). A
// nil one is of too few values to say anything: see [P95From] and [P99From].
type Spread struct {
	N int64 `json:"n"`
	// Mean is nil where the values are of different kinds: times to the first token after prompts whose
	// lengths differ by more than a factor of two.
	Mean *float64 `json:"mean_ns"`
	P50  float64  `json:"p50_ns"`
	P95  *float64 `json:"p95_ns"`
	P99  *float64 `json:"p99_ns"`
	Max  float64  `json:"max_ns"`
}

// The fewest values of which a quantile is given: with fewer, it is the largest one or the one after it.
const (
	P95From = 20
	P99From = 100
)

// PromptClass sums up requests whose prompts have From to To computed tokens.
type PromptClass struct {
	From int64   `json:"from_tokens"`
	To   int64   `json:"to_tokens"` // the longest prompt that was seen in it
	TTFT *Spread `json:"ttft"`
	// PerToken is the time to the first token divided by the prompt's tokens.
	PerToken *Spread `json:"ttft_per_token"`
}

// spreadOf returns the distribution of figures; nil if there are none.
func spreadOf(v []float64) *Spread {
	if len(v) == 0 {
		return nil
	}
	slices.Sort(v)
	n := int64(len(v))
	at := func(q float64) float64 { return v[max(0, int(math.Ceil(q*float64(n)))-1)] }
	var mean float64
	for _, x := range v {
		mean += x / float64(n)
	}
	return (&Spread{N: n, Mean: &mean, P50: at(0.5), Max: v[n-1]}).tails(at)
}

// SpreadOf returns the distribution of a histogram's values with their sum and the largest of them; nil if
// there are none.
func SpreadOf(h *sketch.Histogram, sum, largest float64) *Spread {
	if h.N == 0 {
		return nil
	}
	mean := sum / float64(h.N)
	at := func(q float64) float64 { return min(h.Quantile(q), largest) }
	return (&Spread{N: h.N, Mean: &mean, P50: at(0.5), Max: largest}).tails(at)
}

// tails sets the quantiles that the number of values allows.
func (s *Spread) tails(at func(q float64) float64) *Spread {
	if s.N >= P95From {
		v := at(0.95)
		s.P95 = &v
	}
	if s.N >= P99From {
		v := at(0.99)
		s.P99 = &v
	}
	return s
}

// prompt is the time to the first token of one request.
type prompt struct {
	tokens int64
	ttft   float64
}

// spreadOfPrompts is that of their times, without a mean where the prompts' lengths are not comparable.
func spreadOfPrompts(all []prompt) *Spread {
	var v []float64
	short, long := int64(math.MaxInt64), int64(0)
	for _, p := range all {
		v = append(v, p.ttft)
		short, long = min(short, p.tokens), max(long, p.tokens)
	}
	s := spreadOf(v)
	if s != nil && long > 2*short {
		s.Mean = nil
	}
	return s
}

// promptClasses groups requests by their prompts' tokens: 1, 2 to 15, 16 to 127, 128 to 1,023 and so on.
func promptClasses(all []prompt) []PromptClass {
	by := map[int64][]prompt{}
	for _, p := range all {
		from := int64(1)
		for next := int64(2); p.tokens >= next; next *= 8 {
			from = next
		}
		by[from] = append(by[from], p)
	}
	out := []PromptClass{}
	for from, ps := range by {
		c := PromptClass{From: from, TTFT: spreadOfPrompts(ps)}
		var per []float64
		for _, p := range ps {
			c.To = max(c.To, p.tokens)
			per = append(per, p.ttft/float64(max(1, p.tokens)))
		}
		c.PerToken = spreadOf(per)
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b PromptClass) int { return int(a.From - b.From) })
	return out
}
