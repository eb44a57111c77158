// SPDX-License-Identifier: Apache-2.0

package experts

import (
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/internal/limits"
)

// ExpertMapSchema is the version of ExpertMap's JSON form. Fields may be added without raising it.
const ExpertMapSchema = 1

// ExpertMapCells is how many numbers of tokens' choices an [MapBuilder] keeps unless told otherwise: of a
// mixture of 24 layers of which a token uses 4 experts, those of some 20,000 tokens.
const ExpertMapCells = 1 << 21

// Map is what a drawing of experts needs and [Stat] does not have: what each token chose, reuse by layer, the
// spread of products' times, and bytes step by step. Of the same steps and choices as Stat's; sizes in bytes,
// times in ns, shares 0 to 1, a nil pointer is not known.
type Map struct {
	SchemaVersion int        `json:"schema_version"`
	Phases        []MapPhase `json:"phases"` // those of Stat that have experts, in its order
	MaxError      float64    `json:"quantile_max_error"`
}

// MapPhase is one phase of one model.
type MapPhase struct {
	Phase  string     `json:"phase"`
	Model  *int       `json:"model"`
	Layers []MapLayer `json:"layers"` // those of ExpertStat, in its order
	// Axes are what stands along the tokens of layers: mostly all have the same one.
	Axes []Axis `json:"axes"`
	// Cache[n-1] is which part of all choices a cache of n experts a layer would have held, the least lately
	// used replaced; it stays at the last one's. Empty where no expert could be chosen twice.
	Cache    []float64 `json:"cache"`
	Steps    []Step    `json:"steps"` // with choices, in the order of their ends
	PerPoint int64     `json:"steps_per_point"`
	Products []Times   `json:"products"` // those of ExpertStat, in its order
	// Data holds what the layers' tokens chose; [MapLayer] says where.
	Data []byte `json:"-"`
}

// MapLayer is a layer's. Its part of Data begins at Offset and holds little-endian numbers of Width bytes.
// With TokensPerColumn 1 they are Used numbers of experts for each token in its order, by rank; else for each
// column Experts numbers: how many of the column's tokens chose each.
type MapLayer struct {
	Layer           *int `json:"layer"` // nil: none is told
	Experts         int  `json:"experts"`
	Used            int  `json:"used"`
	Columns         int  `json:"columns"`
	TokensPerColumn int  `json:"tokens_per_column"` // at most
	Axis            int  `json:"axis"`
	Offset          int  `json:"offset"`
	Width           int  `json:"width"`
	// ByChance is what ExpertLayer.Again would be if tokens chose at random: the sum over batches of used *
	// used before / experts, against the sum of used.
	ByChance *float64  `json:"again_by_chance"`
	Cache    []float64 `json:"cache"` // as the phase's
}

// Axis is what stands along tokens, as runs of columns of one step. Of columns that are several tokens each
// run is one column.
type Axis struct {
	Step []int64 `json:"step"`           // number of the run's (first) step
	Last []int64 `json:"last,omitempty"` // of a column's last token
	N    []int32 `json:"n"`              // tokens
	// Pos is the position of the run's first token in its sequence, -1 where it is not known: several
	// sequences share the step, or not all of its tokens came to the layer.
	Pos []int32 `json:"pos,omitempty"`
}

// Step is one step, or N in succession. Counts and bytes are sums over them.
type Step struct {
	ID     int64 `json:"id"` // of the first
	N      int64 `json:"n"`
	Tokens int64 `json:"tokens"` // of the batch; -1: not known
	// Experts are the different experts of each batch, over all layers.
	Experts int64 `json:"experts"`
	// New of Known: of experts of batches whose predecessor (of the same context and phase) is known, those
	// that it did not choose.
	New   int64 `json:"new"`
	Known int64 `json:"known"`
	// Bytes of the chosen experts' weights, each expert once a product; All of all experts'. nil where a
	// type's size is not known.
	Bytes *float64 `json:"bytes"`
	All   *float64 `json:"all"`
}

// Times are one weight's products with one token's experts, by how many of these are new.
type Times struct {
	Weight string     `json:"weight"`
	Type   string     `json:"type"`
	New    []NewTimes `json:"new"`
	// Base and PerNew are the line of least squares through the medians, weighted by calls, ns: Base + PerNew
	// * new. nil where the number did not vary.
	Base   *float64 `json:"base_ns"`
	PerNew *float64 `json:"per_new_ns"`
}

// NewTimes are the times of products of which so many experts were new, without what the probes took.
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

// MapBuilder is a [profile.Sink] that makes an [Map].
type MapBuilder struct {
	profile.BaseSink
	steps Steps
	book  *facts.Book
	whole map[expertPhase]*expertGroup
	part  map[expertPhase]*expertGroup
	cells cellBudget
}

// NewMap returns a builder, with which other sinks of the replay share the book (nil: none do), that keeps so
// many numbers of tokens' choices; 0: ExpertMapCells. Where there are more, the largest phase's tokens are
// put together: 2, 4, 8 ... to a column, with counts.
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

// expertGroup is a phase under way.
type expertGroup struct {
	sums   Sums
	number int // in the order they came
	steps  int64
	points []Step
	each   int64 // steps of a point
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

// Step takes one step, whose operators came before.
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

// point adds a step's, and puts neighbours together where there are too many.
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

// halve puts each two points together.
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

// bothKnown returns a sum, which is not known where one of the two is not.
func bothKnown(a, b *float64) *float64 {
	if a == nil || b == nil {
		return nil
	}
	v := *a + *b
	return &v
}
