// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"math"
	"slices"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/dag"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/trace"
)

func dagOf(t *testing.T, d *dag.List, phase string) *dag.DAG {
	t.Helper()
	for i := range d.DAGs {
		if d.DAGs[i].Phase == phase {
			return &d.DAGs[i]
		}
	}
	t.Fatalf("no DAG of %s", phase)
	return nil
}

// find returns the number of the node with that name and op, of its definition or as it ran.
func find(t *testing.T, g *dag.DAG, name, op string) int32 {
	t.Helper()
	for i := range g.Nodes {
		if g.Nodes[i].Name == name && g.Nodes[i].Op == op {
			return int32(i)
		}
	}
	t.Fatalf("no node %s %s", name, op)
	return -1
}

func edge(t *testing.T, g *dag.DAG, from, to int32, kind string, bytes int64) {
	t.Helper()
	for _, e := range g.Edges {
		if e.From == from && e.To == to {
			if e.Kind != kind || e.Bytes == nil || *e.Bytes != bytes {
				b := int64(-1)
				if e.Bytes != nil {
					b = *e.Bytes
				}
				t.Errorf("%s to %s: %s of %d bytes, want %s of %d", g.Nodes[from].Name, g.Nodes[to].Name,
					e.Kind, b, kind, bytes)
			}
			return
		}
	}
	t.Errorf("no edge from %s to %s", g.Nodes[from].Name, g.Nodes[to].Name)
}

// TestDAGNodes checks nodes and edges of the small model against its definition in profiletest.
func TestDAGNodes(t *testing.T) {
	d, _ := dags(t, dag.Options{}, run)
	g := dagOf(t, d, "decode")
	if g.Steps != calmSteps || g.Runs != calmSteps || g.Ops != calmSteps*opsPerStep ||
		len(g.Parts) != 1 || !g.Parts[0].Seen {
		t.Errorf("%d steps, %d runs, %d operators, parts %+v", g.Steps, g.Runs, g.Ops, g.Parts)
	}
	gate, up, glu := find(t, g, "ffn_gate-1", "MUL_MAT"), find(t, g, "ffn_up-1", "MUL_MAT"),
		find(t, g, "ffn_swiglu-1", "SWIGLU")
	w := find(t, g, "blk.1.ffn_gate.weight", "NONE")
	edge(t, g, gate, glu, dag.EdgeData, 192*4)
	edge(t, g, up, glu, dag.EdgeData, 192*4)
	edge(t, g, w, gate, dag.EdgeWeight, 64*192/32*18)
	if n := &g.Nodes[gate]; n.Weight != w || n.Key != "ffn_gate" || n.Kind != dag.NodeOp || n.Layer == nil ||
		*n.Layer != 1 || n.Section != "ffn" {
		t.Errorf("ffn_gate-1: %+v", n)
	}
	if n := &g.Nodes[w]; n.Kind != dag.NodeWeight || n.Bytes == nil || *n.Bytes != 6912 {
		t.Errorf("weight: %+v", n)
	}
	// The cache: written by SET_ROWS, read through a view.
	set := find(t, g, "cache_k_l0 (view)", "SET_ROWS")
	cache, view := find(t, g, "cache_k_l0", "NONE"), find(t, g, "cache_k_l0 (view)", "VIEW")
	fa := find(t, g, "node_14", "FLASH_ATTN_EXT")
	edge(t, g, cache, set, dag.EdgeWrite, 2*16*4096*2)
	edge(t, g, cache, view, dag.EdgeCache, 2*16*4096*2)
	edge(t, g, view, fa, dag.EdgeData, 16*256*2*2)
	edge(t, g, find(t, g, "inp_kq_mask", "NONE"), fa, dag.EdgeInput, 256*2)
	if g.Nodes[cache].Kind != dag.NodeCache || g.Nodes[view].Kind != dag.NodeView ||
		g.Nodes[view].Run != nil {
		t.Errorf("cache is %s, its view %s", g.Nodes[cache].Kind, g.Nodes[view].Kind)
	}
	// What ran as one.
	norm, mul := find(t, g, "norm-0", "RMS_NORM+MUL"), find(t, g, "attn_norm-0", "MUL")
	if n := &g.Nodes[norm]; !slices.Equal(n.Fused, []int32{mul}) ||
		n.Weight != find(t, g, "blk.0.attn_norm.weight", "NONE") || n.Key != "attn_norm" {
		t.Errorf("norm-0: %+v", n)
	}
	if n := &g.Nodes[mul]; n.FusedInto != norm || n.Run != nil || n.Kind != dag.NodeOp {
		t.Errorf("attn_norm-0: %+v", n)
	}
	for name, section := range map[string]string{"attn_norm-1": "attention", "Qcur-1": "attention",
		"attn_out-1": "attention",
		"ffn_inp-1":  "", "ffn_norm-1": "ffn", "ffn_out-1": "ffn", "l_out-1": "", "result_norm": "", "embd": ""} {
		for i := range g.Nodes {
			if g.Nodes[i].Name == name && g.Nodes[i].Section != section {
				t.Errorf("%s %s is shown with %q, want %q", name, g.Nodes[i].Op, g.Nodes[i].Section, section)
			}
		}
	}
}

// TestDAGRun checks one operator's figures against its calls.
func TestDAGRun(t *testing.T) {
	b := dag.New(dag.Options{})
	var nets []float64
	var bytes int64
	tap := &tapped{Sink: b, op: func(o *profile.Op) {
		if o.NodeDef().Name != "ffn_out-0" || o.Step.Phase != profile.Decode {
			return
		}
		o.Probe = 500
		o.Dur += o.Step.ID * 10
		nets = append(nets, float64(o.Dur-o.Probe))
		bytes = *facts.Derive(o).Bytes
	}}
	p := &profiletest.Player{Sink: tap}
	if err := p.Play(run); err != nil {
		t.Fatal(err)
	}
	d := b.Finish(p.Header("op"))
	g := dagOf(t, d, "decode")
	r := g.Nodes[find(t, g, "ffn_out-0", "MUL_MAT")].Run
	var sum, sq float64
	for _, v := range nets {
		sum += v
	}
	mean := sum / 64
	for _, v := range nets {
		sq += (v - mean) * (v - mean)
	}
	slices.Sort(nets)
	std := math.Sqrt(sq / 63)
	near := func(name string, got *float64, want float64) {
		t.Helper()
		if got == nil || math.Abs(*got-want) > 1e-6*math.Abs(want) {
			t.Errorf("%s is %v, want %g", name, got, want)
		}
	}
	if r.Calls != 64 || float64(r.Dur-r.Probe) != sum || r.Probe != 64*500 || float64(r.Min) != nets[0] ||
		float64(r.Max) != nets[63] {
		t.Errorf("%+v; want %g in 64 calls, %g to %g", r, sum, nets[0], nets[63])
	}
	near("mean", &r.Mean, mean)
	near("deviation", r.Std, std)
	near("bytes", r.Bytes, float64(bytes))
	near("bandwidth", r.GBps, float64(64*bytes)/sum)
	near("flops", r.Flops, 2*192*64)
	near("intensity", r.Intensity, float64(2*192*64)/float64(bytes))
	near("time a step", r.PerStep, mean)
	near("share", r.Share, sum/float64(g.TracedDur))
	near("wait", r.WaitShare, float64(r.Wait)/float64(r.Busy+r.Wait+r.OffCPU))
	if math.Abs(r.P95-nets[60]) > 0.011*nets[60] {
		t.Errorf("p95 is %g, want about %g", r.P95, nets[60])
	}
}

// tapped lets a test look at, and change, what is played.
type tapped struct {
	profile.Sink
	op   func(*profile.Op)
	step func(*profile.Step)
}

func (t *tapped) Op(o *profile.Op) error {
	if t.op != nil {
		t.op(o)
	}
	return t.Sink.Op(o)
}

func (t *tapped) Step(s *profile.Step) error {
	if t.step != nil {
		t.step(s)
	}
	return t.Sink.Step(s)
}

// TestDAGGrows checks that a cache that grows is one structure, and is seen to grow.
func TestDAGGrows(t *testing.T) {
	r := run
	r.Decode = 400 // from position 32: to cell 432
	d, s := dags(t, dag.Options{}, r)
	agree(t, d, s)
	if len(d.DAGs) != 2 {
		t.Fatalf("%d DAGs", len(d.DAGs))
	}
	g := dagOf(t, d, "decode")
	mask := &g.Nodes[find(t, g, "inp_kq_mask", "NONE")]
	if mask.Ne != [4]int64{256, 1, 1, 1} || mask.NeMax == nil || *mask.NeMax != [4]int64{512, 1, 1, 1} ||
		*mask.Bytes != 1024 {
		t.Errorf("mask: %v to %v", mask.Ne, mask.NeMax)
	}
	if n := &g.Nodes[find(t, g, "ffn_gate-0", "MUL_MAT")]; n.NeMax != nil {
		t.Errorf("ffn_gate grew to %v", n.NeMax)
	}
	if p := dagOf(t, d, "prefill"); p.Nodes[find(t, p, "ffn_gate-0", "MUL_MAT")].Ne[1] != 32 ||
		p.Parts[0].Shapes != 1 {
		t.Errorf("prefill: %+v", p.Parts)
	}
}

func sixLayers() profiletest.Run {
	r := run
	r.Model.Layers, r.Preempt, r.Decode = 6, 0, 17
	return r
}

func played(t *testing.T, r profiletest.Run, op func(*profile.Op)) *dag.List {
	t.Helper()
	b := dag.New(dag.Options{})
	p := &profiletest.Player{Sink: &tapped{Sink: b, op: op}}
	if err := p.Play(r); err != nil {
		t.Fatal(err)
	}
	return b.Finish(p.Header("op"))
}

func TestDAGLayers(t *testing.T) {
	g := dagOf(t, played(t, sixLayers(), nil), "decode")
	if len(g.Kinds) != 1 || !slices.Equal(g.Kinds[0].Layers, []int{0, 1, 2, 3, 4, 5}) {
		t.Fatalf("kinds %+v", g.Kinds)
	}
	k := &g.Kinds[0]
	if k.Spread == nil || len(k.Spread.Outliers) != 0 || k.Spread.Min != k.Spread.Max {
		t.Errorf("layers that are equal spread: %+v", k.Spread)
	}
	var sum float64
	names := map[string]int{}
	for _, r := range k.Roles {
		if r.Spread != nil {
			names[r.Name]++
		}
		if slices.Contains(r.Nodes, -1) {
			t.Errorf("%s: nodes %v", r.Name, r.Nodes)
		}
		for i, n := range r.Nodes {
			if *g.Nodes[n].Layer != k.Layers[i] {
				t.Errorf("%s: node %d is in layer %d", r.Name, n, *g.Nodes[n].Layer)
			}
		}
		if r.Spread != nil {
			sum += r.Spread.Mean
		}
	}
	if math.Abs(sum-*k.LayerNs[0]) > 1 {
		t.Errorf("roles sum up to %g, a layer to %g", sum, *k.LayerNs[0])
	}
	for _, want := range []string{"attn_norm", "attn_q", "ffn_down", "ffn_inp", "FLASH_ATTN_EXT",
		"ffn_norm"} {
		if names[want] == 0 {
			t.Errorf("no role %s: %v", want, names)
		}
	}
}

// TestDAGOutlier makes one layer slower than the others, by more and by less than the rule asks for.
func TestDAGOutlier(t *testing.T) {
	uneven := 0.0 // by which each layer's ffn_down takes longer than the one before
	slow := func(name string, by float64, probe int64) *dag.DAG {
		return dagOf(t, played(t, sixLayers(), func(o *profile.Op) {
			n := o.NodeDef().Name
			l := n[len(n)-1] - '0'
			o.Probe = probe
			o.Dur += int64(l)%3 + probe // layers differ a little
			if n[:len(n)-1] == "ffn_out-" {
				o.Dur += 50_000 + int64(uneven*float64(l)*50_000)
			}
			if n == name {
				o.Dur += int64(by * float64(o.Dur))
			}
		}), "decode")
	}
	outliers := func(g *dag.DAG, role string) []int {
		out := []int{}
		for _, r := range g.Kinds[0].Roles {
			if r.Name == role && r.Spread != nil {
				for _, o := range r.Spread.Outliers {
					out = append(out, o.Layer)
				}
			}
		}
		return out
	}
	g := slow("ffn_out-3", 1, 0)
	if got := outliers(g, "ffn_down"); !slices.Equal(got, []int{3}) {
		t.Errorf("ffn_down of layers %v is marked, want 3", got)
	}
	if s := g.Kinds[0].Spread; len(s.Outliers) != 1 || s.Outliers[0].Layer != 3 || s.MaxLayer != 3 ||
		s.Outliers[0].Over < 0.05 {
		t.Errorf("layers: %+v", s)
	}
	if got := outliers(g, "ffn_up"); len(got) != 0 {
		t.Errorf("ffn_up of layers %v is marked", got)
	}
	if got := outliers(slow("ffn_out-3", 0.04, 0), "ffn_down"); len(got) != 0 {
		t.Errorf("4 %% more is marked: %v", got)
	}
	if got := outliers(slow("ffn_out-3", 0.2, 30_000), "ffn_down"); len(got) != 0 {
		t.Errorf("less than the probes cost is marked: %v", got)
	}
	uneven = 0.1
	if got := outliers(slow("", 0, 0), "ffn_down"); len(got) != 0 {
		t.Errorf("the last of layers that all differ is marked: %v", got)
	}
	uneven = 0
	// A small operator's excess is nothing to a layer.
	if got := outliers(slow("cache_k_l3 (view)", 0.12, 0), "cache_k"); len(got) != 0 {
		t.Errorf("a small excess is marked: %v", got)
	}
}

// TestDAGOutlierCalls makes calls of one layer's ffn_down slow: one of 17 by 30 times, as one that is
// preempted, tells nothing of the layer; all of them do, if they are enough to tell.
func TestDAGOutlierCalls(t *testing.T) {
	for _, c := range []struct {
		name        string
		decode      int
		slow        func(call int) bool
		times, want float64 // want 0: no mark
	}{
		{"one of 17", 17, func(i int) bool { return i == 8 }, 30, 0},
		{"the first", 17, func(i int) bool { return i == 0 }, 30, 0},
		{"8 of 17", 17, func(i int) bool { return i%2 == 1 }, 30, 0},
		{"9 of 17", 17, func(i int) bool { return i%2 == 0 }, 30, 0},
		{"100 of 200", 200, func(i int) bool { return i%2 == 0 }, 30, 0},
		{"150 of 200", 200, func(i int) bool { return i%4 > 0 }, 1.4, 0.4},
		{"every call", 17, func(int) bool { return true }, 1.4, 0.4},
		{"every call, one of them preempted", 17, func(int) bool { return true }, 1.4, 0.4},
		{"every one of 14", 14, func(int) bool { return true }, 1.4, 0.4},
		{"every one of 13", 13, func(int) bool { return true }, 1.4, 0},
		{"every one of 1500", 1500, func(int) bool { return true }, 1.4, 0.4},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := sixLayers()
			r.Decode = c.decode
			calls := map[string]int{}
			g := dagOf(t, played(t, r, func(o *profile.Op) {
				if o.Step.Phase != profile.Decode {
					return
				}
				n := o.NodeDef().Name
				call := calls[n]
				calls[n]++
				o.Probe = 0
				o.Dur += 50_000 + int64(call%5)*100 // calls differ a little
				if n == "ffn_out-3" && c.slow(call) {
					o.Dur = int64(float64(o.Dur) * c.times)
				}
				if c.name == "every call, one of them preempted" && n == "ffn_out-1" && call == 3 {
					o.Dur *= 30
				}
			}), "decode")
			var s *dag.Spread
			for _, r := range g.Kinds[0].Roles {
				if r.Name == "ffn_down" && r.Spread != nil {
					s = r.Spread
				}
			}
			layers := g.Kinds[0].Spread
			if s.Calls != int64(c.decode) || layers.Calls != int64(c.decode) {
				t.Errorf("%d calls, of the layers %d, want %d", s.Calls, layers.Calls, c.decode)
			}
			if c.want == 0 {
				if len(s.Outliers) != 0 || len(layers.Outliers) != 0 {
					t.Errorf("marked: %+v, layers %+v", s.Outliers, layers.Outliers)
				}
				return
			}
			if len(s.Outliers) != 1 || s.Outliers[0].Layer != 3 || s.Outliers[0].Calls != int64(c.decode) ||
				math.Abs(s.Outliers[0].Over/c.want-1) > 0.1 {
				t.Errorf("marked: %+v, want layer 3 by %g", s.Outliers, c.want)
			}
			if s.MaxLayer != 3 || math.Abs(s.Max/s.Median-1-c.want) > 0.1*c.want+0.02 {
				t.Errorf("layers from %g to %g (layer %d), median %g", s.Min, s.Max, s.MaxLayer, s.Median)
			}
		})
	}
}

// TestDAGKinds makes layers of two kinds: every second one looks at another mask, of another name or the
// same.
func TestDAGKinds(t *testing.T) {
	for _, name := range []string{"inp_kq_mask_swa", "inp_kq_mask"} {
		done := map[*trace.Shape]bool{}
		g := dagOf(t, played(t, sixLayers(), func(o *profile.Op) {
			if done[o.Shape.Shape] {
				return
			}
			done[o.Shape.Shape] = true
			nodes := o.Shape.Nodes
			swa := int32(len(nodes))
			mask := slices.IndexFunc(nodes, func(n trace.Node) bool { return n.Name == "inp_kq_mask" })
			nodes = append(nodes, nodes[mask])
			nodes[swa].Name, nodes[swa].Addr = name, 1
			even := true
			for i := range nodes {
				if nodes[i].Op == "FLASH_ATTN_EXT" {
					if even {
						nodes[i].Src = append(slices.Clone(nodes[i].Src[:3]), swa)
					}
					even = !even
				}
			}
			o.Shape.Nodes = nodes
		}), "decode")
		if len(g.Kinds) != 2 || !slices.Equal(g.Kinds[0].Layers, []int{0, 2, 4}) ||
			!slices.Equal(g.Kinds[1].Layers, []int{1, 3, 5}) {
			for _, k := range g.Kinds {
				t.Errorf("second mask %s: kind of layers %v", name, k.Layers)
			}
		}
	}
}

// TestDAGNameless gives a norm whose name tells no layer that of the weight that scales it.
func TestDAGNameless(t *testing.T) {
	for name, fused := range map[string]bool{"fused": true, "alone": false} {
		done := map[*trace.Shape]bool{}
		d := played(t, sixLayers(), func(o *profile.Op) {
			if !done[o.Shape.Shape] {
				done[o.Shape.Shape] = true
				for i := range o.Shape.Nodes {
					if n := &o.Shape.Nodes[i]; n.Op == "RMS_NORM" {
						n.Name = "norm"
					}
				}
			}
			if !fused && len(o.Fused) > 0 {
				o.Op, o.Fused = "RMS_NORM", nil
			}
		})
		g := dagOf(t, d, "decode")
		for i := range g.Nodes {
			n := &g.Nodes[i]
			if n.Op != "RMS_NORM" && n.Op != "RMS_NORM+MUL" {
				continue
			}
			feeds := g.Nodes[i+1].Name
			switch {
			case feeds == "result_norm":
				if n.Layer != nil {
					t.Errorf("%s: the last norm is in layer %d", name, *n.Layer)
				}
			case n.Layer == nil || feeds[len(feeds)-1] != byte('0'+*n.Layer) || n.Section == "":
				t.Errorf("%s: the norm before %s: layer %v, section %q", name, feeds, n.Layer, n.Section)
			}
		}
		if len(g.Kinds) != 1 {
			t.Errorf("%s: %d kinds of layers", name, len(g.Kinds))
		}
	}
}
