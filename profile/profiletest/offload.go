// SPDX-License-Identifier: Apache-2.0

package profiletest

import (
	"fmt"
	"io"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/trace"
)

// A run whose steps are split: layer 0 on the CPU, in prefill with its matmuls on BLAS, layer 1 and the
// output on a GPU.

// Sites in addition to those of a recorder.
const (
	siteBLAS = siteEnd + 1 + iota
	siteGPU
	siteCopy
	siteCopyEnd
	siteSet
	siteGet
	siteSync
)

const gpuDevice = 0x77

// Times of a split run in ns, by what runs: CPU operators, which run on one thread; BLAS graphs; for the GPU
// the submitting call, and the time from its begin to the end of the wait.
const (
	offGetRows, offGate, offUp, offSwiGLU, OffDown, offAdd = 2_000, 30_000, 40_000, 5_000, 50_000, 3_000

	offBLASPair, offBLASDown = 60_000, 25_000
	offSubmit, OffSpan       = 10_000, 100_000
)

// Widths of a split run's model.
const (
	offWidth, offFF, offVocab = 64, 192, 1024
)

// offShape is one split: its last node is out.
type offShape struct {
	*graph
	layer int64
}

func newOffShape(base uint64) *offShape {
	return &offShape{graph: &graph{addr: base, leafAt: map[string]int32{}}}
}

// whole declares a weight, at the same address in each graph.
func (g *offShape) whole(name string, ne ...int64) int32 {
	i := g.leaf(name+".weight", "q4_0", dims(ne...))
	n := &g.leaves[i-leafBit]
	n.Addr = 0x10000000
	for _, c := range name {
		n.Addr += uint64(c) << 12
	}
	n.Data = n.Addr << 12
	return i
}

func (g *offShape) weight(name string, ne ...int64) int32 {
	return g.whole(fmt.Sprintf("blk.%d.%s", g.layer, name), ne...)
}

func (g *offShape) name(base string) string { return fmt.Sprintf("%s-%d", base, g.layer) }

func (g *offShape) pair(in int32, n int64) (gate, up int32) {
	gate = g.node(g.name("ffn_gate"), "MUL_MAT", "f32", dims(offFF, n), g.weight("ffn_gate", offWidth, offFF),
		in)
	return gate, g.node(g.name("ffn_up"), "MUL_MAT", "f32", dims(offFF, n),
		g.weight("ffn_up", offWidth, offFF), in)
}

func (g *offShape) glu(gate, up int32, n int64) int32 {
	return g.node(g.name("ffn_swiglu"), "SWIGLU", "f32", dims(offFF, n), gate, up)
}

func (g *offShape) down(in int32, n int64) int32 {
	return g.node(g.name("ffn_out"), "MUL_MAT", "f32", dims(offWidth, n),
		g.weight("ffn_down", offFF, offWidth), in)
}

func (g *offShape) add(a, b int32, n int64) int32 {
	return g.node(g.name("l_out"), "ADD", "f32", dims(offWidth, n), a, b)
}

// offSplit is a split and its times.
type offSplit struct {
	backend string
	shape   *profile.Shape
	times   []int64 // of the CPU's operators, or of the graph
}

// offSplits returns the splits of a step of n tokens. Graph definitions are numbered from id.
func offSplits(pid int32, id uint64, n int64) (out []offSplit) {
	next := id
	done := func(g *offShape, backend string, times ...int64) {
		out = append(out, offSplit{backend, g.graph.shape(pid, next), times})
		next++
	}
	wide := dims(offWidth, n)
	base := func() uint64 { return 0x100000 * next }
	g := newOffShape(base())
	embd := g.whole("token_embd", offWidth, offVocab)
	x := g.node("embd", "GET_ROWS", "f32", wide, embd, g.leaf("inp_tokens", "i32", dims(n)))
	if n > 1 {
		done(g, "CPU", offGetRows)
		g = newOffShape(base())
		g.pair(g.leaf("BLAS#embd#0", "f32", wide), n)
		done(g, "BLAS", offBLASPair)
		g = newOffShape(base())
		g.glu(g.leaf("ffn_gate-0", "f32", dims(offFF, n)), g.leaf("ffn_up-0", "f32", dims(offFF, n)), n)
		done(g, "CPU", offSwiGLU)
		g = newOffShape(base())
		g.down(g.leaf("ffn_swiglu-0", "f32", dims(offFF, n)), n)
		done(g, "BLAS", offBLASDown)
		g = newOffShape(base())
		g.add(g.leaf("ffn_out-0", "f32", wide), g.leaf("embd", "f32", wide), n)
		done(g, "CPU", offAdd)
	} else {
		gate, up := g.pair(x, n)
		g.add(g.down(g.glu(gate, up, n), n), x, n)
		done(g, "CPU", offGetRows, offGate, offUp, offSwiGLU, OffDown, offAdd)
	}
	g = newOffShape(base())
	g.layer = 1
	in := g.leaf("GPU0#l_out-0#0", "f32", wide)
	gate, up := g.pair(in, n)
	x = g.add(g.down(g.glu(gate, up, n), n), in, n)
	g.node("result_output", "MUL_MAT", "f32", dims(offVocab, n), g.whole("output", offWidth, offVocab), x)
	done(g, "GPU", offSubmit)
	return out
}

// Offload writes a recording of a prefill step of 8 tokens and steps decode steps that are split. change can
// modify the recorder.
func Offload(w io.Writer, steps int, change func(*Recorder)) error {
	return Record(w, func(r *Recorder) {
		r.Head = func(m *trace.Meta) { m.ProbeCost = nil }
		if change != nil {
			change(r)
		}
		more := r.Process
		r.Process = func(p *trace.Process) {
			offSites(p)
			if more != nil {
				more(p)
			}
		}
	}, func(r *Recorder, _ *Player) error {
		p := &offPlayer{r: r, now: 1_000_000}
		for i := range steps + 1 {
			n := int64(1)
			if i == 0 {
				n = 8
			}
			if err := p.step(int64(i), n); err != nil {
				return err
			}
		}
		return nil
	})
}

func offSites(p *trace.Process) {
	p.Sites = append(p.Sites[:siteEnd+1:siteEnd+1], trace.Site{Role: trace.RoleGraphBegin, Backend: "BLAS"},
		trace.Site{Role: trace.RoleGraphBegin, Backend: "GPU"},
		trace.Site{Role: trace.RoleCopyBegin,
			Entry: "ggml_backend_tensor_copy"},
		trace.Site{Role: trace.RoleCopyEnd, Entry: "ggml_backend_tensor_copy"},
		trace.Site{Role: trace.RoleCopyBegin,
			Entry: "ggml_backend_tensor_set"},
		trace.Site{Role: trace.RoleCopyBegin, Entry: "ggml_backend_tensor_get"},
		trace.Site{Role: trace.RoleSyncBegin, Entry: "synchronize"})
}

type offPlayer struct {
	r             *Recorder
	now           int64
	graph         int64
	shapes        map[int64][]offSplit
	tokensStarted int32
}

const offPID = 500

// step plays one step: 1 µs before its first split, 10 µs between splits, in which a copy takes 4 µs; the
// output's copy takes 2 µs.
func (p *offPlayer) step(i, n int64) error {
	if p.shapes == nil {
		p.shapes = map[int64][]offSplit{}
	}
	if p.shapes[n] == nil {
		p.shapes[n] = offSplits(offPID, 1+uint64(100*n), n)
	}
	s := &profile.Step{ID: i + 1, PID: offPID, TID: offPID, Ctx: 0x5, Start: p.now, NTokens: int32(n),
		Seqs: []trace.StepSeq{{Time: p.now, TID: offPID, NTokens: int32(n), Pos: p.tokensStarted,
			Outputs: 1}}}
	p.tokensStarted += int32(n)
	mark := func(at int64, kind trace.MarkKind, site uint32, m trace.Mark) trace.Mark {
		m.Time, m.PID, m.TID, m.Kind, m.Site, m.NTokens, m.Type = at, offPID, offPID, kind, site, -1, -1
		return m
	}
	splits := p.shapes[n]
	if err := p.r.process(offPID, p.now); err != nil {
		return err
	}
	var ms []trace.Mark
	node := func(k int, name string) uint64 {
		for j := range splits[k].shape.Nodes {
			if splits[k].shape.Nodes[j].Name == name {
				return splits[k].shape.Nodes[j].Addr
			}
		}
		return 0
	}
	last := func(k int) uint64 { return splits[k].shape.Nodes[splits[k].shape.NNodes-1].Addr }
	p.now += 500
	ms = append(ms, mark(p.now, trace.MarkCopyBegin, siteSet,
		trace.Mark{Graph: node(0, "inp_tokens"), UID: uint64(4 * n)}))
	p.now += 500
	for k, x := range splits {
		if k > 0 {
			p.now += 10_000
		}
		if x.backend == "GPU" {
			ms = append(ms, mark(p.now-8_000, trace.MarkCopyBegin, siteCopy,
				trace.Mark{Graph: node(k, "GPU0#l_out-0#0"), Ctx: last(k - 1), UID: trace.NoValue}),
				mark(p.now-4_000, trace.MarkCopyEnd, siteCopyEnd, trace.Mark{}))
		}
		p.graph++
		g := &profile.Graph{ID: p.graph, PID: offPID, TID: offPID, Backend: x.backend, Start: p.now,
			Shape: x.shape, NNodes: int32(x.shape.NNodes)}
		if err := p.compute(s, g, x); err != nil {
			return err
		}
		if err := p.r.shape(x.shape); err != nil {
			return err
		}
		site, device := uint32(siteGraph), uint64(1)
		switch x.backend {
		case "BLAS":
			site, device = siteBLAS, 2
		case "GPU":
			site, device = siteGPU, gpuDevice
		}
		ms = append(ms, mark(g.Start, trace.MarkGraphBegin, site,
			trace.Mark{Ctx: device, NNodes: g.NNodes, Shape: x.shape.Shape.ID}),
			mark(p.now, trace.MarkGraphEnd, site, trace.Mark{}))
		if x.backend == "GPU" {
			ms = append(ms, mark(g.Start+2*offSubmit, trace.MarkSyncBegin, siteSync, trace.Mark{Ctx: device}),
				mark(g.Start+OffSpan, trace.MarkSyncEnd, siteSync, trace.Mark{}),
				mark(g.Start+OffSpan+1_000, trace.MarkCopyBegin, siteGet,
					trace.Mark{Graph: last(k), UID: uint64(4 * offVocab)}))
			p.now = g.Start + OffSpan + 3_000
		}
	}
	s.Dur = p.now - s.Start
	p.now += 5_000
	if err := p.r.marks(ms...); err != nil {
		return err
	}
	return p.r.Step(s)
}

// compute advances the time by what a split takes, and emits the CPU's operators.
func (p *offPlayer) compute(s *profile.Step, g *profile.Graph, x offSplit) error {
	p.now += 1_000
	if x.backend != trace.BackendCPU {
		p.now += x.times[0] - 1_000
		return nil
	}
	k := 0
	for i := range x.shape.NNodes {
		if !x.shape.Nodes[i].Executes {
			continue
		}
		o := &profile.Op{Step: s, Graph: g, Shape: x.shape, Node: int32(i), Op: x.shape.Nodes[i].Op,
			Start:   p.now,
			Threads: []profile.OpThread{{TID: offPID, Start: p.now, Busy: x.times[k]}}}
		p.now += x.times[k]
		k++
		if err := p.r.Op(o); err != nil {
			return err
		}
	}
	p.now += 1_000
	return nil
}
