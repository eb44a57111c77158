// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
)

// typical returns the phase's typical step, with its splits.
func (b *Builder) typical(p profile.Phase, first int64) *SplitStep {
	k := b.kept[p]
	if k == nil {
		return nil
	}
	ways := map[string][]*keptStep{}
	var most []*keptStep
	for _, s := range k.steps {
		w := s.way()
		ways[w] = append(ways[w], s)
		if len(ways[w]) > len(most) {
			most = ways[w]
		}
	}
	if len(most) == 0 {
		return nil
	}
	slices.SortStableFunc(most, func(a, b *keptStep) int { return cmp.Compare(a.s.Dur, b.s.Dur) })
	x := most[(len(most)-1)/2]
	out := b.describe(x, first)
	out.Of = len(most)
	return out
}

// way describes how a step is split.
func (s *keptStep) way() string {
	var b strings.Builder
	for _, g := range s.graphs {
		fmt.Fprintf(&b, "%s\x00%d\x00", g.Backend, g.NNodes)
	}
	return b.String()
}

// describe returns a step's splits, in time order.
func (b *Builder) describe(x *keptStep, first int64) *SplitStep {
	s := x.s
	out := &SplitStep{ID: s.ID, PID: s.PID, Start: s.Start - first, Dur: s.Dur, Splits: []StepSplit{},
		Copies: []StepCopy{}, Lists: [][]SplitNode{}}
	graphs := slices.Clone(x.graphs)
	slices.SortStableFunc(graphs, func(a, b *profile.Graph) int { return cmp.Compare(a.Start, b.Start) })
	if n := len(graphs) - maxStepSplits; n > 0 {
		graphs, out.SplitsLeftOut = graphs[:maxStepSplits], n
	}
	times := map[*profile.Graph][]opTime{}
	for _, t := range x.times {
		times[t.graph] = append(times[t.graph], t)
	}
	l := lists{book: b.book, of: map[*profile.Shape]int{}, out: out}
	ends := map[string]int64{}
	for _, g := range graphs {
		y := StepSplit{Split: g.Split, Graph: g.ID, Backend: g.Backend, Start: g.Start - s.Start, Dur: g.Dur,
			List: -1}
		end := g.Start + g.Dur
		if d := b.spans[g.ID]; d != nil {
			done, waited := d.Done-s.Start, d.Waited
			y.Done, y.Waited, y.Before = &done, &waited, d.Before
			if d.Queue != nil {
				begin, busy := d.Begin-s.Start, d.Busy
				y.Begin, y.Busy = &begin, &busy
			}
			end = d.Done
		}
		if last, ok := ends[g.Backend]; ok {
			idle := max(0, g.Start-last)
			y.Idle = &idle
		}
		ends[g.Backend] = max(ends[g.Backend], end)
		if g.Shape != nil && g.Shape.Shape != nil {
			w := b.split.workOf(g.Shape)
			y.Nodes, y.Weights, y.Flops = w.nodes, w.weights, w.flops
			y.Layers = fromTo(w.layers)
			y.List = l.add(g, times[g])
		}
		if t := times[g]; len(t) > 0 {
			var sum int64
			for i := range t {
				sum += t[i].dur
			}
			y.OpsDur = &sum
		}
		out.Splits = append(out.Splits, y)
	}
	for _, c := range x.copies {
		if len(out.Copies) >= maxStepCopies {
			out.CopiesLeftOut++
			continue
		}
		at := slices.IndexFunc(graphs, func(g *profile.Graph) bool { return g.Start >= c.Start })
		if at < 0 {
			at = len(graphs)
		}
		y := StepCopy{At: at, Kind: c.Kind, From: c.From, To: c.To, Tensor: c.Tensor, Type: c.Type,
			Start: c.Start - s.Start, Async: c.Async}
		if c.Bytes >= 0 {
			y.Bytes = &c.Bytes
		}
		if c.Dur >= 0 {
			y.Dur = &c.Dur
		}
		out.Copies = append(out.Copies, y)
	}
	return out
}

// fromTo returns the range of sorted layers.
func fromTo(layers []int) *LayerSet {
	if len(layers) == 0 {
		return nil
	}
	return &LayerSet{layers[0], layers[len(layers)-1], len(layers)}
}

// lists holds the nodes of splits.
type lists struct {
	book  *facts.Book
	of    map[*profile.Shape]int // graphs whose operators have no times
	nodes int
	out   *SplitStep
}

// add returns the number of a graph's list, -1 if there is no room for it.
func (l *lists) add(g *profile.Graph, times []opTime) int {
	alone := g.Vocabulary().CallComputes(g.Backend) && len(times) == 0
	if i, ok := l.of[g.Shape]; ok && len(times) == 0 && !alone {
		return i
	}
	nodes := g.Shape.Nodes
	var list []SplitNode
	executing(g.Shape, func(i int32) {
		n := &nodes[i]
		d := l.book.Node(g.Shape, i)
		list = append(list, SplitNode{Node: i, Name: n.Name, Op: n.Op, Type: n.Type, Ne: n.Ne, Layer: d.Layer,
			Block: d.Block, Weight: d.Weight, WeightType: d.WeightType,
			Flops: d.Flops, Bytes: d.Bytes, Into: -1})
	})
	if l.nodes+len(list) > maxListNodes {
		l.out.NodesLeftOut += len(list)
		return -1
	}
	at := func(node int32) *SplitNode {
		if i, ok := slices.BinarySearchFunc(list, node, func(s SplitNode, n int32) int {
			return cmp.Compare(s.Node, n)
		}); ok {
			return &list[i]
		}
		return nil
	}
	for _, t := range times {
		if n := at(t.node); n != nil {
			dur := t.dur
			n.Dur = &dur
		}
		for _, f := range t.fused {
			if n := at(f); n != nil {
				n.Into = t.node
			}
		}
	}
	if alone && len(list) == 1 && g.Untraced == "" { // the call is its time
		dur := g.Dur
		list[0].Dur = &dur
	}
	l.nodes += len(list)
	l.out.Lists = append(l.out.Lists, list)
	i := len(l.out.Lists) - 1
	if len(times) == 0 && !alone {
		l.of[g.Shape] = i
	}
	return i
}
