// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/internal/limits"
	"github.com/profinfer/profinfer/trace"
)

// SeriesBuilder collects a [Series] while a run is replayed into it. Its memory is bounded by the limits
// of faults_series.go.
type SeriesBuilder struct {
	profile.BaseSink
	on     bool // faults were recorded
	book   *facts.Book
	phases map[profile.Phase]*FaultSteps
	order  []profile.Phase
	names  map[FaultSum]*faultRow
	left   int // rows beyond the limit
	expert map[faultLayer]*FaultExpertLayer
	lost   map[faultLayer]bool // layers of experts beyond the limit
	held   int
	ops    map[delayKey]*delaySum
	rows   map[delayRow]*delaySum
	opLeft int
	marks  markList
	files  Residency
}

type faultRow struct {
	FaultRow
	at map[int]int // index in Layers
}

type faultLayer struct {
	pid   int32
	layer int
}

// delayKey finds an operator's sum quickly: what is derived for a graph definition's node is one object.
type delayKey struct {
	d     *facts.Derived
	op    string
	phase profile.Phase
	in    bool
}

type delayRow struct {
	key, typ string
	weight   bool
	phase    profile.Phase
	in       bool
}

// delaySum is a DelayedOperator whose times are all known so far.
type delaySum struct {
	delayRow
	calls, faulted, dur, major, wait, delay, read int64
}

// maxExpertsOfLayer bounds the number of experts that a layer's definition may claim.
const maxExpertsOfLayer = 1 << 12

// NewSeries returns an empty builder. book is shared with other sinks of the replay; nil: not shared.
func NewSeries(book *facts.Book) *SeriesBuilder {
	return &SeriesBuilder{book: facts.BookOf(book), phases: map[profile.Phase]*FaultSteps{},
		names: map[FaultSum]*faultRow{}, expert: map[faultLayer]*FaultExpertLayer{},
		lost: map[faultLayer]bool{}, ops: map[delayKey]*delaySum{}, rows: map[delayRow]*delaySum{}}
}

// Needs implements Sink.
func (b *SeriesBuilder) Needs() profile.Needs { return profile.NeedFaults }

// Meta implements Sink.
func (b *SeriesBuilder) Meta(m *trace.Meta) { b.on = b.on || m.Extra["faults"] != "" }

// Memory implements Sink.
func (b *SeriesBuilder) Memory(m *trace.Memory) error {
	b.on = true
	b.files.Memory(m)
	return nil
}

// Graph implements Sink.
func (b *SeriesBuilder) Graph(g *profile.Graph) error {
	if b.on {
		b.files.Graph(g)
	}
	return nil
}

// Step takes a step, after its faults.
func (b *SeriesBuilder) Step(s *profile.Step) error {
	if !b.on {
		return nil
	}
	l := b.phases[s.Phase]
	if l == nil {
		l = &FaultSteps{Phase: string(s.Phase), Every: 1}
		b.phases[s.Phase] = l
		b.order = append(b.order, s.Phase)
	}
	wait, wall := s.FaultDur, s.FaultWall
	l.add(FaultPoint{Step: s.ID, N: 1, Worst: s.ID, PID: s.PID, Start: s.Start, Dur: s.Dur,
		Major: s.MajorFaults, Wait: &wait, Wall: &wall, Read: s.DiskRead,
		worst: [2]int64{wall, s.MajorFaults}})
	return nil
}

// add adds a step; once there are too many, neighbours are merged into one point.
func (l *FaultSteps) add(p FaultPoint) {
	if n := len(l.Steps); n > 0 && l.Steps[n-1].N < l.Every {
		l.Steps[n-1].join(&p)
		return
	}
	l.Steps = append(l.Steps, p)
	if len(l.Steps) <= maxFaultPoints {
		return
	}
	for i := 0; i < len(l.Steps); i += 2 {
		q := l.Steps[i]
		if i+1 < len(l.Steps) {
			q.join(&l.Steps[i+1])
		}
		l.Steps[i/2] = q
	}
	l.Steps = l.Steps[:(len(l.Steps)+1)/2]
	l.Every *= 2
}

// join adds the steps of o, which come after p's.
func (p *FaultPoint) join(o *FaultPoint) {
	if o.worst[0] > p.worst[0] || o.worst[0] == p.worst[0] && o.worst[1] > p.worst[1] {
		p.Worst, p.worst = o.Worst, o.worst
	}
	p.N += o.N
	p.Dur += o.Dur
	p.Major += o.Major
	p.Wait, p.Wall = plus(p.Wait, o.Wait, 1), plus(p.Wall, o.Wall, 1)
	p.Read += o.Read
}

// rowOfFault returns the row of Stat.Names that a fault belongs to, and the layer of what it hit; -1:
// none.
func rowOfFault(f *profile.Fault) (k FaultSum, layer int) {
	k = FaultSum{Class: f.Class, Name: f.File}
	if f.Tensor == "" {
		return k, -1
	}
	k.Name, k.Type = f.Tensor, f.Type
	words := f.Vocabulary()
	if f.Class == profile.MemWeight || f.Class == profile.MemExpert {
		k.Name = words.WeightStem(f.Tensor)
		return k, words.WeightLayer(f.Tensor)
	}
	base, layer := words.SplitName(f.Tensor)
	if base != "" {
		k.Name = base
	}
	return k, layer
}

// Fault takes one record; those that are not faults are left out.
func (b *SeriesBuilder) Fault(f *profile.Fault) error {
	b.on = true
	major := int64(0)
	switch f.Kind {
	case trace.FaultMajor:
		major = 1
	case trace.FaultMinor:
	default:
		return nil
	}
	b.marks.add(f)
	dur, read := max(f.Dur, 0), max(f.Read, 0)
	k, layer := rowOfFault(f)
	r := b.names[k]
	if r == nil {
		if len(b.names) >= maxNameSums {
			b.left++
		} else {
			r = &faultRow{FaultRow: FaultRow{FaultSum: k}, at: map[int]int{}}
			r.Wait = new(int64)
			b.names[k] = r
		}
	}
	if r != nil {
		r.add(major, dur, read, layer)
	}
	if f.Expert >= 0 {
		b.expertFault(f, layer, major, dur, read)
	}
	if f.Op != nil {
		if s := b.sum(f.Op); s != nil {
			s.read += read
		}
	}
	return nil
}

func (r *faultRow) add(major, dur, read int64, layer int) {
	r.Major += major
	r.Minor += 1 - major
	*r.Wait += dur
	r.Read += read
	if layer < 0 {
		return
	}
	i, ok := r.at[layer]
	if !ok {
		if len(r.Layers) >= maxFaultLayers {
			return // it is in the sums
		}
		i = len(r.Layers)
		r.at[layer] = i
		r.Layers = append(r.Layers, FaultCell{Layer: layer, Wait: new(int64)})
	}
	c := &r.Layers[i]
	c.Major += major
	c.Minor += 1 - major
	*c.Wait += dur
	c.Read += read
}

// experts makes room for n experts of a layer; nil if there is none.
func (b *SeriesBuilder) experts(k faultLayer, n int) *FaultExpertLayer {
	l := b.expert[k]
	have := 0
	if l != nil {
		have = len(l.Major)
	}
	more := max(0, n-have)
	if n > maxExpertsOfLayer || b.held+more > maxFaultExperts {
		if l == nil && len(b.lost) < maxFaultRows {
			b.lost[k] = true
		}
		return nil
	}
	if l == nil {
		l = &FaultExpertLayer{Layer: k.layer}
		b.expert[k] = l
	}
	b.held += more
	l.Major = append(l.Major, make([]int64, more)...)
	l.Wait = append(l.Wait, make([]int64, more)...)
	l.Read = append(l.Read, make([]int64, more)...)
	return l
}

func (b *SeriesBuilder) expertFault(f *profile.Fault, layer int, major, dur, read int64) {
	if l := b.experts(faultLayer{f.PID, layer}, int(f.Expert)+1); l != nil {
		l.Major[f.Expert] += major
		l.Wait[f.Expert] += dur
		l.Read[f.Expert] += read
	}
}

// Op takes an operator, with the delay by its faults.
func (b *SeriesBuilder) Op(o *profile.Op) error {
	if !b.on {
		return nil
	}
	s := b.sum(o)
	if s == nil {
		return nil
	}
	s.calls++
	s.dur += o.Dur
	if o.MajorFaults > 0 || o.FaultDur > 0 {
		s.faulted++
		s.major += o.MajorFaults
		s.wait += o.FaultDur
		s.delay += o.FaultDelay
	}
	return nil
}

// sum returns the sum that an operator is added to; nil: there are too many.
func (b *SeriesBuilder) sum(o *profile.Op) *delaySum {
	d := b.book.Derive(o)
	k := delayKey{d: d, op: o.Op, in: o.Step != nil}
	if k.in {
		k.phase = o.Step.Phase
	}
	if s, ok := b.ops[k]; ok {
		return s
	}
	key, weight := facts.RowKey(facts.ByWeight, d, o.Op)
	r := delayRow{key: key, weight: weight, phase: k.phase, in: k.in}
	if weight {
		r.typ = d.WeightType
	}
	s := b.rows[r]
	if s == nil {
		if len(b.rows) >= maxFaultOperators {
			b.opLeft++
			return nil
		}
		s = &delaySum{delayRow: r}
		b.rows[r] = s
	}
	if len(b.ops) >= 4*limits.OpDefs { // ever new graph definitions
		clear(b.ops)
	}
	b.ops[k] = s
	return s
}
