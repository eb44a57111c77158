// SPDX-License-Identifier: Apache-2.0

package stat

import (
	"cmp"
	"slices"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/internal/num"
	"github.com/profinfer/profinfer/profile/internal/sketch"
	"github.com/profinfer/profinfer/profile/requests"
	"github.com/profinfer/profinfer/profile/summary"
)

const (
	mostSpans  = 240        // spans of batches over time
	firstWidth = 10_000_000 // ns of a span, doubled until all spans fit
	exactBatch = 16         // tokens up to which each batch size is told apart; then by powers of two
)

// batchSum sums up steps by when they began, and by the size of their batches.
type batchSum struct {
	width int64
	spans map[int64]*summary.BatchTime // by start / width; means are sums until the end
	sizes map[batchKey]*batchSize
}

type batchKey struct {
	phase profile.Phase
	from  int64
}

type batchSize struct {
	to, tokens, seqs, dur, most int64
	times                       sketch.Histogram
}

// step adds a complete step whose batch was read.
func (b *batchSum) step(s *profile.Step) {
	if s.NTokens <= 0 || s.Incomplete != "" {
		return
	}
	if b.spans == nil {
		b.width, b.spans, b.sizes = firstWidth, map[int64]*summary.BatchTime{}, map[batchKey]*batchSize{}
	}
	n, seqs := int64(s.NTokens), int64(max(1, s.NSeqs))
	b.at(s.Start / b.width).Merge(&summary.BatchTime{Steps: 1, Dur: s.Dur, Tokens: float64(n), MaxTokens: n,
		Sequences: float64(seqs), MaxSeqs: seqs})
	if len(b.spans) > mostSpans {
		b.widen()
	}
	k := batchKey{s.Phase, n}
	if n > exactBatch {
		for k.from = exactBatch; 2*k.from <= n; k.from *= 2 {
		}
	}
	z := b.sizes[k]
	if z == nil {
		z = &batchSize{}
		b.sizes[k] = z
	}
	z.to = max(z.to, n)
	z.tokens += n
	z.seqs += seqs
	z.dur += s.Dur
	z.most = max(z.most, s.Dur)
	z.times.Add(s.Dur)
}

func (b *batchSum) at(i int64) *summary.BatchTime {
	t := b.spans[i]
	if t == nil {
		t = &summary.BatchTime{}
		b.spans[i] = t
	}
	return t
}

// widen doubles the spans' width.
func (b *batchSum) widen() {
	old := b.spans
	b.width, b.spans = 2*b.width, map[int64]*summary.BatchTime{}
	for i, t := range old {
		b.at(i / 2).Merge(t)
	}
}

func (b *batchSum) finish() *summary.Batches {
	if len(b.spans) == 0 {
		return nil
	}
	out := &summary.Batches{Width: b.width, OverTime: []summary.BatchTime{}, BySize: []summary.BatchSize{}}
	for i, t := range b.spans {
		t.Start = i * b.width
		t.Tokens /= float64(t.Steps)
		t.Sequences /= float64(t.Steps)
		out.OverTime = append(out.OverTime, *t)
	}
	slices.SortFunc(out.OverTime, func(a, b summary.BatchTime) int { return cmp.Compare(a.Start, b.Start) })
	for k, z := range b.sizes {
		out.BySize = append(out.BySize, summary.BatchSize{Phase: cmp.Or(string(k.phase), "unknown"), From: k.from,
			To: z.to, Sequences: float64(z.seqs) / float64(z.times.N),
			StepTime:   requests.SpreadOf(&z.times, float64(z.dur), float64(z.most)),
			TokensPerS: num.PerSecond(1e9*z.tokens, z.dur)})
	}
	slices.SortFunc(out.BySize, func(a, b summary.BatchSize) int {
		return cmp.Or(cmp.Compare(a.Phase, b.Phase), cmp.Compare(a.From, b.From))
	})
	return out
}
