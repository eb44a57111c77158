// SPDX-License-Identifier: Apache-2.0

// Package dot draws the operator graph of a phase for Graphviz.
package dot

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/profinfer/profinfer/internal/clean"
	"github.com/profinfer/profinfer/internal/format"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/dag"
	"github.com/profinfer/profinfer/profile/stat"
)

// Color selects what nodes are coloured by.
type Color string

const (
	ByShare     Color = "share"     // of the time in steps
	ByBandwidth Color = "bandwidth" // minimum bytes moved divided by time
	ByNothing   Color = "none"
)

// ParseColor returns the colouring of that name.
func ParseColor(s string) (Color, error) {
	switch c := Color(s); c {
	case ByShare, ByBandwidth, ByNothing:
		return c, nil
	}
	return "", fmt.Errorf("cannot colour by %q: it is one of share, bandwidth, none", s)
}

// Options choose what is drawn. The zero value is decode (or prefill, encode, unknown, in this order), equal
// layers merged, coloured by share.
type Options struct {
	Phase  profile.Phase // "": the first of decode, prefill, encode, unknown that ran
	Layers bool          // every layer separately
	Color  Color         // "": ByShare
	PID    int32         // 0: all processes
}

// maxNodes bounds the nodes written: Graphviz takes minutes for some thousand.
const maxNodes = 20_000

// Export writes the graph that took most of the phase's time.
func Export(w io.Writer, replay func(profile.Sink) (*profile.Header, error), opt Options) error {
	b, s := dag.New(dag.Options{PID: opt.PID}), stat.New(stat.Options{PID: opt.PID})
	h, err := replay(profile.Tee(b, s))
	if err != nil {
		return err
	}
	b.LeaveOut(s.Finish(h).LeavesOut)
	d := choose(b.Finish(h), opt)
	if d == nil {
		what := "no graph was seen in any step"
		if opt.Phase != "" {
			what = "no graph was seen in steps of " + string(opt.Phase)
		}
		return fmt.Errorf("%s: a recording at --level graph or op has them", what)
	}
	out := bufio.NewWriterSize(w, 1<<16)
	newDrawing(d, opt).write(out)
	return out.Flush()
}

// choose returns the wanted phase's DAG with most time, nil if there is none.
func choose(all *dag.List, opt Options) *dag.DAG {
	phases := []string{"decode", "prefill", "encode", "unknown"}
	if opt.Phase != "" {
		phases = []string{string(opt.Phase)}
	}
	for _, p := range phases {
		var best *dag.DAG
		for i := range all.DAGs {
			if d := &all.DAGs[i]; d.Phase == p && (best == nil || d.OpsDur > best.OpsDur) {
				best = d
			}
		}
		if best != nil {
			return best
		}
	}
	return nil
}

// drawing is what is drawn of a DAG: one item per node, or per role in equal layers.
type drawing struct {
	d     *dag.DAG
	opt   Options
	of    []int // item of each node; -1: not drawn
	items []item
	kind  map[int]int // of each layer
	max   float64
}

type item struct {
	nodes []int32
	kind  int // of layer; -1: every layer separately, or none
	layer int // -1: none
	name  string
	sum   sums
}

type sums struct {
	net, calls     int64
	share          float64
	bytes, bytesNs float64
	timed          bool
	atMost         bool
}

func newDrawing(d *dag.DAG, opt Options) *drawing {
	if opt.Color == "" {
		opt.Color = ByShare
	}
	g := &drawing{d: d, opt: opt, of: make([]int, len(d.Nodes)), kind: map[int]int{}}
	role, at := map[int32]int{}, map[[2]int]int{}
	var names [][]string
	for k := range d.Kinds {
		var ns []string
		for _, l := range d.Kinds[k].Layers {
			g.kind[l] = k
		}
		for r := range d.Kinds[k].Roles {
			for _, n := range d.Kinds[k].Roles[r].Nodes {
				if n >= 0 {
					role[n] = r
				}
			}
			ns = append(ns, d.Kinds[k].Roles[r].Name)
		}
		names = append(names, ns)
	}
	for i := range d.Nodes {
		n := &d.Nodes[i]
		g.of[i] = -1
		if n.Kind != dag.NodeOp && n.Kind != dag.NodeCache || n.FusedInto >= 0 || len(g.items) >= maxNodes {
			continue
		}
		x := item{kind: -1, layer: -1, name: n.Name}
		if n.Kind == dag.NodeOp && n.Key != "" && n.Weight >= 0 && n.Key != n.Op {
			x.name = n.Key
		}
		if n.Layer != nil {
			x.layer = *n.Layer
			r, known := role[int32(i)]
			k, ok := g.kind[x.layer]
			if ok && known {
				x.name = names[k][r]
			}
			if ok && known && !opt.Layers && len(d.Kinds[k].Layers) > 1 {
				key := [2]int{k, r}
				if was, ok := at[key]; ok {
					g.of[i] = was
					g.items[was].nodes = append(g.items[was].nodes, int32(i))
					continue
				}
				x.kind = k
				at[key] = len(g.items)
			}
		}
		x.nodes = []int32{int32(i)}
		g.of[i] = len(g.items)
		g.items = append(g.items, x)
	}
	for i := range d.Nodes { // fused nodes are one item
		n := i
		for hops := 0; hops < 8 && d.Nodes[n].FusedInto >= 0 &&
			int(d.Nodes[n].FusedInto) < len(d.Nodes); hops++ {
			n = int(d.Nodes[n].FusedInto)
		}
		if n != i {
			g.of[i] = g.of[n]
		}
	}
	for i := range g.items {
		g.items[i].sum = g.sum(&g.items[i])
		if v, ok := g.value(&g.items[i]); ok {
			g.max = max(g.max, v)
		}
	}
	return g
}

func (g *drawing) sum(x *item) (s sums) {
	for _, i := range x.nodes {
		r := g.d.Nodes[i].Run
		if r == nil {
			continue
		}
		s.timed = true
		s.net += r.Dur - r.Probe
		s.calls += r.Calls
		if r.Share != nil {
			s.share += *r.Share
		}
		if r.Bytes != nil && r.GBps != nil && *r.GBps > 0 {
			b := *r.Bytes * float64(r.Calls)
			s.bytes += b
			s.bytesNs += b / *r.GBps
			s.atMost = s.atMost || r.AtMost
		}
	}
	return s
}

// value is what an item is coloured by.
func (g *drawing) value(x *item) (float64, bool) {
	switch {
	case !x.sum.timed:
	case g.opt.Color == ByShare:
		return x.sum.share, true
	case g.opt.Color == ByBandwidth && x.sum.bytesNs > 0:
		return x.sum.bytes / x.sum.bytesNs, true
	}
	return 0, false
}

func (g *drawing) write(w *bufio.Writer) {
	d := g.d
	fmt.Fprintf(w, "digraph profinfer {\n  label=%s\n", quote(g.title()))
	w.WriteString("  labelloc=t\n  fontname=\"Helvetica\"\n  rankdir=TB\n  nodesep=0.25\n  ranksep=0.35\n  compound=true\n" +
		"  node [shape=box style=\"filled\" fillcolor=\"#f4f5f7\" color=\"#5c6570\" fontname=\"Helvetica\" fontsize=10 margin=\"0.12,0.05\"]\n" +
		"  edge [color=\"#5c6570\" fontname=\"Helvetica\" fontsize=8 fontcolor=\"#5c6570\" arrowsize=0.6]\n")
	// Clusters: layer, in it block.
	type group struct {
		label  string
		loose  []int
		blocks []string
		in     map[string][]int
	}
	var order []string
	groups := map[string]*group{}
	for i := range g.items {
		x := &g.items[i]
		if x.layer < 0 {
			g.node(w, i, "  ")
			continue
		}
		id, label := fmt.Sprintf("layer%d", x.layer), fmt.Sprintf("layer %d", x.layer)
		if x.kind >= 0 {
			k := &d.Kinds[x.kind]
			id, label = fmt.Sprintf("kind%d", x.kind),
				fmt.Sprintf("layers %s, × %d", ranges(k.Layers), len(k.Layers))
			if k.Spread != nil {
				label += fmt.Sprintf("\n%s each, %s (layer %d) to %s (layer %d)",
					format.Label.Duration(k.Spread.Median), format.Label.Duration(k.Spread.Min),
					k.Spread.MinLayer,
					format.Label.Duration(k.Spread.Max), k.Spread.MaxLayer)
				for _, o := range k.Spread.Outliers {
					label += fmt.Sprintf("\nlayer %d takes %.0f %% longer (median of %d calls)", o.Layer,
						o.Over*100, o.Calls)
				}
			}
		}
		e := groups[id]
		if e == nil {
			e = &group{label: label, in: map[string][]int{}}
			groups[id] = e
			order = append(order, id)
		}
		s := d.Nodes[x.nodes[0]].Section
		if s == "" {
			e.loose = append(e.loose, i)
			continue
		}
		if e.in[s] == nil {
			e.blocks = append(e.blocks, s)
		}
		e.in[s] = append(e.in[s], i)
	}
	for _, id := range order {
		e := groups[id]
		fmt.Fprintf(w, "  subgraph %s {\n    label=%s\n    style=rounded\n    color=\"#9aa4b0\"\n",
			quote("cluster_"+id), quote(e.label))
		for _, b := range e.blocks {
			fmt.Fprintf(w, "    subgraph %s {\n      label=%s\n      style=\"rounded,filled\"\n      fillcolor=\"#fafbfc\"\n      color=\"#c8cdd4\"\n", quote("cluster_"+id+"_"+b), quote(b))
			for _, i := range e.in[b] {
				g.node(w, i, "      ")
			}
			w.WriteString("    }\n")
		}
		for _, i := range e.loose {
			g.node(w, i, "    ")
		}
		w.WriteString("  }\n")
	}
	g.edges(w)
	w.WriteString("}\n")
}

func (g *drawing) title() string {
	d := g.d
	t := fmt.Sprintf("%s: %d steps", d.Phase, d.Steps)
	if d.Ops > 0 && d.Traced > 0 {
		t += fmt.Sprintf(", %s of operators per step",
			format.Label.Duration(float64(d.OpsDur-d.Probe)/float64(d.Traced)))
	} else {
		t += ", no operator was seen: no times"
	}
	if d.OnlyPartial {
		t += "\nof steps that were not wholly seen"
	}
	for i := range d.Parts {
		if d.Parts[i].Incomplete != "" {
			t += "\ndefinition with holes: " + clean.Terminal(d.Parts[i].Incomplete, false)
			break
		}
	}
	switch g.opt.Color {
	case ByShare:
		t += fmt.Sprintf("\ncolour: share of the time in steps, 0 to %.1f %%", g.max*100)
	case ByBandwidth:
		t += fmt.Sprintf("\ncolour: bandwidth, 0 to %.1f GB/s", g.max)
	}
	if len(g.items) >= maxNodes {
		t += fmt.Sprintf("\nonly the first %d operators", maxNodes)
	}
	return t
}

func (g *drawing) node(w *bufio.Writer, i int, indent string) {
	x := &g.items[i]
	n := &g.d.Nodes[x.nodes[0]]
	lines := []string{clean.Terminal(x.name, false)}
	attrs := ""
	if n.Kind == dag.NodeCache {
		lines = append(lines, clean.Terminal(n.Type, false)+" "+dims(n)+" "+size(n.Bytes))
		attrs = " shape=cylinder fillcolor=\"#ffffff\""
	} else {
		what := clean.Terminal(n.Op, false) + " " + dims(n)
		if n.OwnWeight && int(n.Weight) < len(g.d.Nodes) {
			wt := &g.d.Nodes[n.Weight]
			what += "\n" + clean.Terminal(wt.Type, false) + " " + size(wt.Bytes)
		}
		lines = append(lines, what)
		if len(g.d.Parts) > 1 && n.Part < len(g.d.Parts) {
			lines = append(lines, clean.Terminal(g.d.Parts[n.Part].Backend, false))
		}
		if x.sum.timed && g.d.Traced > 0 {
			line := format.Label.Duration(float64(x.sum.net)/float64(g.d.Traced)) +
				fmt.Sprintf("  %.1f %%", x.sum.share*100)
			if x.sum.bytesNs > 0 {
				most := ""
				if x.sum.atMost {
					most = "≤"
				}
				line += fmt.Sprintf("  %s%.1f GB/s", most, x.sum.bytes/x.sum.bytesNs)
			}
			lines = append(lines, line)
		}
		if x.kind >= 0 && len(x.nodes) < len(g.d.Kinds[x.kind].Layers) {
			lines = append(lines, fmt.Sprintf("in %d of %d layers", len(x.nodes),
				len(g.d.Kinds[x.kind].Layers)))
		}
		if v, ok := g.value(x); ok && g.max > 0 {
			fill, ink := shade(v/g.max, g.opt.Color)
			attrs = fmt.Sprintf(" fillcolor=\"%s\" fontcolor=\"%s\"", fill, ink)
		}
	}
	fmt.Fprintf(w, "%sn%d [label=%s%s]\n", indent, i, quote(strings.Join(lines, "\n")), attrs)
}

// edges writes the edges between drawn items, passing through views, which are not drawn.
func (g *drawing) edges(w *bufio.Writer) {
	d := g.d
	into := make([][]int32, len(d.Nodes))
	for i := range d.Edges {
		if e := &d.Edges[i]; e.From >= 0 && int(e.From) < len(d.Nodes) && e.To >= 0 &&
			int(e.To) < len(d.Nodes) {
			into[e.To] = append(into[e.To], int32(i))
		}
	}
	done := map[[2]int]bool{}
	var found []int32
	var origins func(n int32, seen map[int32]bool)
	origins = func(n int32, seen map[int32]bool) {
		if seen[n] || len(seen) > 64 {
			return
		}
		seen[n] = true
		if g.of[n] >= 0 {
			found = append(found, n)
			return
		}
		if k := d.Nodes[n].Kind; k != dag.NodeView && k != dag.NodeIdle {
			return
		}
		for _, e := range into[n] {
			origins(d.Edges[e].From, seen)
		}
	}
	for to := range d.Nodes {
		if g.of[to] < 0 {
			continue
		}
		for _, ei := range into[to] {
			e := &d.Edges[ei]
			found = found[:0]
			origins(e.From, map[int32]bool{})
			for _, from := range found {
				a, b, n, style := g.of[from], g.of[to], from, ""
				switch {
				case e.Kind == dag.EdgeWrite && d.Nodes[from].Kind != dag.NodeCache:
					continue
				case e.Kind == dag.EdgeWrite:
					a, b, style = b, a, " style=dashed"
				case d.Nodes[from].Kind == dag.NodeCache:
					style = " style=dashed"
				}
				if a == b || g.back(from, int32(to)) || done[[2]int{a, b}] {
					continue
				}
				done[[2]int{a, b}] = true
				bytes := e.Bytes
				if bytes == nil {
					bytes = d.Nodes[n].Bytes
				}
				label := ""
				if e.Kind != dag.EdgeWrite && bytes != nil {
					label = " label=" + quote(size(bytes)) + fmt.Sprintf(" penwidth=%.1f", width(*bytes))
				}
				fmt.Fprintf(w, "  n%d -> n%d [weight=1%s%s]\n", a, b, label, style)
			}
		}
	}
}

// back reports whether an edge leads from a folded layer to the next, which is drawn as the same item.
func (g *drawing) back(from, to int32) bool {
	a, b := g.d.Nodes[from].Layer, g.d.Nodes[to].Layer
	if a == nil || b == nil || *a == *b {
		return false
	}
	ia, ib := g.items[g.of[from]].kind, g.items[g.of[to]].kind
	if ia < 0 && ib < 0 {
		return false
	}
	ka, kb := g.kind[*a], g.kind[*b]
	return ka == kb || g.d.Kinds[ka].Layers[0] > g.d.Kinds[kb].Layers[0]
}
