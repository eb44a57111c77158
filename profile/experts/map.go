// SPDX-License-Identifier: Apache-2.0

package experts

import (
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/internal/limits"
)

// ExpertMapSchema is the version of [Map]'s JSON form. Fields may be added without raising it.
const ExpertMapSchema = 2

// ExpertMapCells is how many choices a [MapBuilder] keeps by default: in a mixture of 24 layers with 4
// experts per token, those of some 20,000 tokens.
const ExpertMapCells = 1 << 21

// Map holds what plots of experts need beyond [Stat]: what each token chose, reuse by layer, the distribution
// of matmul times, and bytes by step. It covers the same steps and choices as Stat. Sizes are bytes, times
// ns, shares 0 to 1; a nil pointer is unknown.
type Map struct {
	SchemaVersion int        `json:"schema_version"`
	Phases        []MapPhase `json:"phases"` // the phases of Stat with experts, in its order
	MaxError      float64    `json:"quantile_max_error"`
}

// MapPhase is one phase of one model.
type MapPhase struct {
	Phase  string     `json:"phase"`
	Model  *int       `json:"model"`
	Layers []MapLayer `json:"layers"` // the layers of [Stat], in its order
	// Axes are the token axes of the layers: mostly all layers have the same one.
	Axes []Axis `json:"axes"`
	// Cache[n-1] is the simulated hit rate of an LRU cache of n experts per layer; beyond the last entry it
	// stays the same. It is empty where no expert could be chosen twice.
	Cache    []float64 `json:"cache"`
	Steps    []Step    `json:"steps"` // steps with choices, in the order of their ends
	PerPoint int64     `json:"steps_per_point"`
	Products []Times   `json:"products"` // the matmuls of [Stat], in its order
	// Data holds what the layers' tokens chose; [MapLayer] defines the layout.
	Data []byte `json:"-"`
}

// MapLayer is one layer. Its part of Data begins at Offset and holds little-endian numbers of Width bytes.
// With TokensPerColumn 1 these are Used expert numbers for each token in order, by rank. Otherwise each
// column has Experts numbers: how many of its tokens chose each expert.
type MapLayer struct {
	Layer           *int `json:"layer"` // nil: unknown
	Experts         int  `json:"experts"`
	Used            int  `json:"used"`
	Columns         int  `json:"columns"`
	TokensPerColumn int  `json:"tokens_per_column"` // at most
	Axis            int  `json:"axis"`
	Offset          int  `json:"offset"`
	Width           int  `json:"width"`
	// ByChance is what Layer.Again would be if tokens chose at random: the sum over batches of used *
	// used before / experts, divided by the sum of used.
	ByChance *float64  `json:"reused_by_chance"`
	Cache    []float64 `json:"cache"` // as in the phase
}

// Axis is a token axis, as runs of columns of one step. If a column stands for several tokens, each run is
// one column.
type Axis struct {
	Step []int64 `json:"step"`           // number of the run's (first) step
	Last []int64 `json:"last,omitempty"` // of a column's last token
	N    []int32 `json:"n"`              // tokens
	// Pos is the position of the run's first token in its sequence, -1 where unknown: several sequences share
	// the step, or not all of its tokens reached the layer.
	Pos []int32 `json:"pos,omitempty"`
}

// Step is one step, or N consecutive ones. Counts and bytes are sums over them.
type Step struct {
	ID     int64 `json:"id"` // of the first
	N      int64 `json:"n"`
	Tokens int64 `json:"tokens"` // of the batch; -1: unknown
	// Experts is the number of distinct experts of each batch, over all layers.
	Experts int64 `json:"experts"`
	// New and Known are of batches whose predecessor (of the same context and phase) is known: Known counts
	// their experts, New those that the predecessor did not choose.
	New   int64 `json:"new"`
	Known int64 `json:"known"`
	// Bytes is that of the chosen experts' weights, each expert counted once per matmul; All is that of all
	// experts. nil where a type's size is unknown.
	Bytes *float64 `json:"bytes"`
	All   *float64 `json:"all"`
}

// Times are the times of one weight's matmuls with one token's experts, by how many of these are new.
type Times struct {
	Weight string     `json:"weight"`
	Type   string     `json:"type"`
	New    []NewTimes `json:"new"`
	// Base and PerNew are the least-squares line through the medians, weighted by calls, ns: Base + PerNew *
	// new. nil where the number of new experts did not vary.
	Base   *float64 `json:"base_ns"`
	PerNew *float64 `json:"per_new_ns"`
}

// NewTimes are the times of matmuls with a given number of new experts, without the time of the probes.
type NewTimes struct {
	New   int     `json:"new"`
	Calls int64   `json:"calls"`
	Mean  float64 `json:"mean_ns"`
	P5    float64 `json:"p5_ns"`
	P25   float64 `json:"p25_ns"`
	P50   float64 `json:"p50_ns"`
	P75   float64 `json:"p75_ns"`
	P95   float64 `json:"p95_ns"`
}

// MapBuilder is a [profile.Sink] that builds a [Map].
type MapBuilder struct {
	profile.BaseSink
	steps Steps
	book  *facts.Book
	whole map[expertPhase]*expertGroup
	part  map[expertPhase]*expertGroup
	cells cellBudget
}

// NewMap returns a builder that keeps at most cells choices; 0: ExpertMapCells. Beyond that, the largest
// phase's tokens are merged, 2, 4, 8 ... per column, with counts. book is shared with other sinks of the
// replay; nil: not shared.
func NewMap(cells int, book *facts.Book) *MapBuilder {
	if cells <= 0 {
		cells = ExpertMapCells
	}
	book = facts.BookOf(book)
	return &MapBuilder{book: book, steps: Steps{Book: book}, whole: map[expertPhase]*expertGroup{},
		part: map[expertPhase]*expertGroup{}, cells: cellBudget{most: cells}}
}

type expertPhase struct {
	phase profile.Phase
	model *facts.ModelWeights
}

// expertGroup is a phase while it is collected.
type expertGroup struct {
	sums   Sums
	number int // in the order they came
	steps  int64
	points []Step
	each   int64 // steps per point
}

// Op takes one operator.
func (b *MapBuilder) Op(o *profile.Op) error {
	b.book.Op(o)
	b.steps.Op(o)
	return nil
}

// Graph takes one graph execution.
func (b *MapBuilder) Graph(g *profile.Graph) error {
	b.book.Graph(g)
	return nil
}

// Step takes one step, after its operators.
func (b *MapBuilder) Step(s *profile.Step) error {
	in := b.whole
	if s.Incomplete != "" {
		in = b.part
	}
	k := expertPhase{s.Phase, b.book.At(s.PID, s.Ctx)}
	if in[k] == nil && len(in) >= limits.Models {
		k.model = nil
	}
	g := in[k]
	if g == nil {
		g = &expertGroup{number: len(in), each: 1}
		g.sums.tokens = &tokenMaps{budget: &b.cells}
		b.cells.maps = append(b.cells.maps, g.sums.tokens)
		in[k] = g
	}
	g.steps++
	if p, ok := b.steps.fold(&g.sums, s); ok {
		g.point(p)
	}
	return nil
}

// point adds a step's point, and merges neighbours where there are too many.
func (g *expertGroup) point(p Step) {
	if n := len(g.points); n > 0 && g.points[n-1].N < g.each {
		g.points[n-1].add(&p)
		return
	}
	g.points = append(g.points, p)
	if len(g.points) > limits.Points {
		g.halve()
	}
}

// halve merges points in pairs.
func (g *expertGroup) halve() {
	to := g.points[:0]
	for i := 0; i < len(g.points); i += 2 {
		p := g.points[i]
		if i+1 < len(g.points) {
			p.add(&g.points[i+1])
		}
		to = append(to, p)
	}
	g.points = to
	g.each *= 2
}

func (p *Step) add(o *Step) {
	p.N += o.N
	if p.Tokens >= 0 && o.Tokens >= 0 {
		p.Tokens += o.Tokens
	} else {
		p.Tokens = -1
	}
	p.Experts += o.Experts
	p.New += o.New
	p.Known += o.Known
	p.Bytes, p.All = bothKnown(p.Bytes, o.Bytes), bothKnown(p.All, o.All)
}

// bothKnown returns a sum, nil if either value is unknown.
func bothKnown(a, b *float64) *float64 {
	if a == nil || b == nil {
		return nil
	}
	v := *a + *b
	return &v
}
