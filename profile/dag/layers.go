// SPDX-License-Identifier: Apache-2.0

package dag

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/profinfer/profinfer/profile/internal/num"
	"github.com/profinfer/profinfer/profile/internal/sketch"
	"github.com/profinfer/profinfer/profile/ops"
	"github.com/profinfer/profinfer/trace"
)

// Layers of one kind have the same operators in the same order, with the same roles, result types,
// dimensions, parameters and inputs. A role is the node's name without its layer. The selection of the rows
// whose output is requested (GET_ROWS by out_ids, in the last layer) does not by itself make a layer
// different: the dimensions after it do, where they differ.

// Limits of the rule for outliers. Layers are compared by medians over their calls: one call that is
// preempted for 30 times its length moves the mean of 17 calls to nearly three times that of the others, and
// the median not at all.
const (
	outlierZ      = 3.5  // robust z-score: 0.6745 * (x - median) / MAD (Iglewicz and Hoaglin, 1993)
	outlierOver   = 0.05 // of the median, beyond the uncertainty of both medians
	outlierLayer  = 0.01 // of a layer's median time, for one role
	outlierLayers = 5    // equal layers, at least
	// outlierChance is the probability that a layer whose calls take as long as the others' passes for a slow
	// one: with some hundred operators in a model's layers, one in twenty graphs has a mark by chance. It is
	// applied to the median of the observed calls: where half of the calls are delayed, the medians of 17
	// calls scatter widely.
	outlierChance = 1e-4
	outlierCalls  = 14 // needed for that: 2^-14 is below it
)

var outlierRule = fmt.Sprintf("A layer is marked where its median time over at least %d calls is above the median of the layers of its kind by a robust z-score "+
	"(0.6745 × (time − median) / MAD) of more than %g, and where all of the median's interval of confidence (one chance in %.0f, by the binomial distribution of ranks) is above it "+
	"by more than %.0f %% beyond what the medians can be wrong by (%.0f %% each) and by more than the probes cost; "+
	"one of its operators, where that also is more than %.0f %% of a layer's time. A layer's time is the sum of its operators' medians. "+
	"Only operators with the same bytes are compared, and at least %d layers.",
	outlierCalls, outlierZ, 1/outlierChance, outlierOver*100, sketch.HistogramError*100, outlierLayer*100,
	outlierLayers)

// medianRank is the rank, from 1, of the value among n that is a lower bound of the median with error
// probability outlierChance; 0 if there is none: fewer than outlierCalls.
func medianRank(n int64) int64 {
	if n > 1000 { // the quantile of the normal distribution
		return int64(float64(n)/2 - 3.719*math.Sqrt(float64(n))/2)
	}
	// sum is the probability that at most this many of n values are below the median.
	p := math.Pow(0.5, float64(n))
	var k int64
	for sum := p; sum <= outlierChance; sum += p {
		k++
		p *= float64(n-k+1) / float64(k)
	}
	return k
}

// layerNode holds what determines a node's role in its layer.
type layerNode struct {
	id    int32 // in DAG.Nodes
	layer int
	role  string // without its layer; the same in each layer of a kind
	label string
	sign  string // what must be equal in layers of one kind; empty: irrelevant
}

// layerNodes returns the nodes that belong to a layer, with their roles. base is the number of the first node
// in the DAG.
func layerNodes(words ops.Vocabulary, defs []trace.Node, names *ops.ShapeNames,
	base int32) (out []layerNode) {
	type place struct {
		layer int
		role  string
	}
	count := map[place]int{}
	roles := make([]string, len(defs))
	for i := range defs {
		layer := names.Layer[i]
		if layer < 0 {
			continue
		}
		n := &defs[i]
		name, _ := words.SplitName(n.Name)
		if n.Leaf && words.IsWeight(n.Name) {
			name = words.WeightStem(n.Name)
		}
		if words.IsDefaultName(name) {
			name = ""
		}
		role := n.Op + " " + name
		if words.RowsOfOutputs(defs, n) { // identified by what it selects rows of
			of, _ := words.SplitName(defs[n.Src[0]].Name)
			role += "rows of " + of
		}
		k := place{layer, role}
		count[k]++
		if c := count[k]; c > 1 {
			role = fmt.Sprintf("%s %d", role, c)
		}
		roles[i] = role
		label := cmp.Or(name, n.Op)
		if !n.Leaf {
			if w := words.WeightOf(defs, []int32{int32(i)}); w >= 0 && words.ReadsWeight(n.Op, defs[w].Name) {
				label = words.WeightStem(defs[w].Name)
			}
		}
		out = append(out, layerNode{id: base + int32(i), layer: layer, role: role, label: label})
	}
	inputs := layersOf(defs, names)
	for k := range out {
		i := out[k].id - base
		n := &defs[i]
		if n.Leaf || !n.Executes || words.RowsOfOutputs(defs, n) {
			continue
		}
		var s strings.Builder
		fmt.Fprint(&s, roles[i], n.Type, n.Ne)
		if words.HasSettings(n.Op) {
			fmt.Fprint(&s, n.Params) // windows, softcaps, bases of the position encoding
		}
		for _, src := range n.Src {
			s.WriteString("|" + sourceSign(words, defs, names, roles, inputs, src, names.Layer[i]))
		}
		out[k].sign = s.String()
	}
	return out
}

// layersOf counts the layers that use each leaf.
func layersOf(defs []trace.Node, names *ops.ShapeNames) map[int32]int {
	out, last := map[int32]int{}, map[int32]int{}
	for i := range defs {
		l := names.Layer[i]
		for _, s := range defs[i].Src {
			if l < 0 || s < 0 || int(s) >= len(defs) || !defs[s].Leaf {
				continue
			}
			if was, ok := last[s]; !ok || was != l {
				out[s]++
				last[s] = l
			}
		}
	}
	return out
}

// sourceSign describes a source as seen from a layer.
func sourceSign(words ops.Vocabulary, defs []trace.Node, names *ops.ShapeNames, roles []string,
	inputs map[int32]int, src int32, layer int) string {
	for range 8 {
		if src < 0 || int(src) >= len(defs) {
			return "?"
		}
		n := &defs[src]
		switch {
		case n.Leaf && words.IsWeight(n.Name):
			return words.WeightStem(n.Name) // its type can differ between layers
		case n.Leaf && names.Layer[src] < 0:
			if inputs[src] > 1 { // two masks can have the same name
				return fmt.Sprint(n.Name, n.Ne, src)
			}
			return fmt.Sprint(n.Name, n.Ne)
		case !n.Leaf && words.RowsOfOutputs(defs, n):
			src = n.Src[0]
		case names.Layer[src] != layer:
			return "before"
		default:
			return fmt.Sprint(roles[src], n.Ne)
		}
	}
	return "?"
}

// kinds finds equal layers.
func kinds(v *DAG, nodes []layerNode) []Kind {
	byLayer := map[int][]int{} // indices in nodes
	var order []int
	for i := range nodes {
		l := nodes[i].layer
		if byLayer[l] == nil {
			order = append(order, l)
		}
		byLayer[l] = append(byLayer[l], i)
	}
	slices.Sort(order)
	at := map[string]int{}
	out := []Kind{}
	for _, l := range order {
		var s strings.Builder
		for _, i := range byLayer[l] {
			if nodes[i].sign != "" {
				s.WriteString(nodes[i].sign)
				s.WriteByte('\n')
			}
		}
		if s.Len() == 0 {
			continue // only leaves and views
		}
		k, ok := at[s.String()]
		if !ok {
			k = len(out)
			at[s.String()] = k
			out = append(out, Kind{Roles: []Role{}})
		}
		out[k].Layers = append(out[k].Layers, l)
	}
	for k := range out {
		out[k].fill(v, nodes, byLayer)
	}
	return out
}

// fill sets a kind's roles and their spread.
func (k *Kind) fill(v *DAG, nodes []layerNode, byLayer map[int][]int) {
	at := map[string]int{}
	k.LayerNs, k.LayerMedian = make([]*float64, len(k.Layers)), make([]*float64, len(k.Layers))
	all := make([]layerTime, len(k.Layers))
	var runs int64 = 1
	for _, p := range v.Parts {
		runs = max(runs, p.Graphs)
	}
	for x, l := range k.Layers {
		for _, i := range byLayer[l] {
			n := &nodes[i]
			r, ok := at[n.role]
			if !ok {
				r = len(k.Roles)
				at[n.role] = r
				k.Roles = append(k.Roles, Role{Name: n.label,
					Nodes: slices.Repeat([]int32{-1}, len(k.Layers))})
			}
			k.Roles[r].Nodes[x] = n.id
			// in a fused operator, the weight can be another member's
			if d := &v.Nodes[n.id]; d.Key != "" && d.Key != d.Op {
				k.Roles[r].Name = d.Key
			}
			if run := v.Nodes[n.id].Run; run != nil {
				t := &all[x]
				if t.calls == 0 {
					k.LayerNs[x], k.LayerMedian[x] = &t.mean, &t.median
					t.calls = run.Calls
				}
				t.calls = min(t.calls, run.Calls)
				t.mean += float64(run.Dur-run.Probe) / float64(runs)
				t.median += run.Median * float64(run.Calls) / float64(runs)
				t.low += run.low * float64(run.Calls) / float64(runs)
				t.probe += float64(run.Probe) / float64(runs)
			}
		}
	}
	for x, l := range k.Layers {
		var bytes float64
		for _, i := range byLayer[l] {
			if run := v.Nodes[nodes[i].id].Run; run != nil && run.Bytes != nil && !run.AtMost {
				bytes += *run.Bytes
			}
		}
		all[x].alike = fmt.Sprintf("%.3g", bytes) // layers of one kind can have weights of different types
	}
	k.Spread = spread(k.Layers, all, 0)
	floor := 0.0
	if k.Spread != nil {
		floor = outlierLayer * k.Spread.Median
	}
	for r := range k.Roles {
		role := &k.Roles[r]
		times := make([]layerTime, len(k.Layers))
		for x, n := range role.Nodes {
			if n < 0 || v.Nodes[n].Run == nil {
				continue
			}
			run := v.Nodes[n].Run
			times[x] = layerTime{mean: run.Mean, median: run.Median, low: run.low,
				probe: float64(run.Probe) / float64(run.Calls), calls: run.Calls}
			if run.Bytes != nil && !run.AtMost {
				times[x].alike = fmt.Sprintf("%.3g", *run.Bytes)
			}
		}
		role.Spread = spread(k.Layers, times, floor)
	}
}

// layerTime is the time of one layer, ns.
type layerTime struct {
	mean, median float64
	low, probe   float64 // low: lower bound of the median (see medianRank); probe: time of the probes
	calls        int64   // number of calls behind them; 0: none
	alike        string  // the same for comparable layers
}

// spread computes how times vary over layers; nil if none is known. Only comparable layers are compared;
// floor is a difference too small to be marked.
func spread(layers []int, times []layerTime, floor float64) *Spread {
	s := &Spread{Outliers: []Outlier{}}
	groups := map[string][]float64{}
	var all []float64
	for x := range times {
		t := &times[x]
		if t.calls == 0 {
			continue
		}
		if len(all) == 0 || t.median < s.Min {
			s.Min, s.MinLayer = t.median, layers[x]
		}
		if len(all) == 0 || t.median > s.Max {
			s.Max, s.MaxLayer = t.median, layers[x]
		}
		if len(all) == 0 || t.calls < s.Calls {
			s.Calls = t.calls
		}
		s.Mean += t.mean
		all = append(all, t.median)
		if t.calls >= outlierCalls {
			groups[t.alike] = append(groups[t.alike], t.median)
		}
	}
	if len(all) == 0 {
		return nil
	}
	s.Mean /= float64(len(all))
	s.Median = median(all)
	for x := range times {
		t := &times[x]
		g := groups[t.alike]
		if t.calls < outlierCalls || len(g) < outlierLayers {
			continue
		}
		med := median(g)
		off := make([]float64, len(g))
		for i, v := range g {
			off[i] = math.Abs(v - med)
		}
		over := t.median - med
		z := num.Ratio(0.6745*over, median(off))
		if sure := t.low - med; med > 0 && sure > (outlierOver+2*sketch.HistogramError)*med &&
			sure > t.probe && sure > floor && (z == nil || *z > outlierZ) {
			s.Outliers = append(s.Outliers, Outlier{Layer: layers[x], Calls: t.calls, Over: over / med, Z: z})
		}
	}
	slices.SortStableFunc(s.Outliers, func(a, b Outlier) int { return cmp.Compare(b.Over, a.Over) })
	return s
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	n := len(s)
	if n == 0 {
		return 0
	}
	return (s[(n-1)/2] + s[n/2]) / 2
}

// sectionsOf returns the block with which each node of a layer is shown: norms with the only block that they
// feed or finish, and nodes within a block with that block. The sums of the residual stay outside.
func sectionsOf(defs []trace.Node, names *ops.ShapeNames) []ops.Block {
	out := make([]ops.Block, len(defs))
	users := make([][]int32, len(defs))
	for i := range defs {
		switch b := names.Block[i]; b {
		case ops.BlockAttention, ops.BlockFFN, ops.BlockMoE:
			if names.Layer[i] >= 0 && !defs[i].Leaf {
				out[i] = b
			}
		}
		for _, src := range defs[i].Src {
			if src >= 0 && int(src) < len(defs) {
				users[src] = append(users[src], int32(i))
			}
		}
	}
	same := func(i int, of []int32, all bool) ops.Block {
		var b ops.Block
		for _, k := range of {
			if k < 0 || int(k) >= len(defs) || defs[k].Leaf {
				continue
			}
			switch s := out[k]; {
			case names.Layer[k] != names.Layer[i], s == "":
				if all {
					return ""
				}
			case b == "":
				b = s
			case b != s:
				return ""
			}
		}
		return b
	}
	open := func(i int) bool { return out[i] == "" && names.Layer[i] >= 0 && !defs[i].Leaf }
	for i := len(defs) - 1; i >= 0; i-- { // what only feeds a block
		if open(i) && (names.Block[i] == ops.BlockNorm || !defs[i].Executes) {
			out[i] = same(i, users[i], true)
		}
	}
	for i := range defs { // nodes that only finish a block, and those within it
		if !open(i) {
			continue
		}
		from := same(i, defs[i].Src, false)
		switch {
		case names.Block[i] == ops.BlockNorm:
			out[i] = from
		case from != "" && from == same(i, users[i], true):
			out[i] = from
		}
	}
	for i := range defs { // leaves go with the nodes that use them
		if defs[i].Leaf && names.Layer[i] >= 0 && len(users[i]) > 0 {
			out[i] = out[users[i][0]]
		}
	}
	return out
}
