// SPDX-License-Identifier: Apache-2.0

package profiletest

import (
	"slices"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/trace"
)

// Run describes a run. The zero value runs nothing.
type Run struct {
	Model   Model
	PID     int32
	Ctx     uint64
	Threads int
	Prefill int   // tokens of the prompt; 0: none
	Decode  int   // tokens generated
	Pos     int32 // position of the first token; not 0: the prompt was not seen
	Start   int64
	// Preempt is the decode step in which another process takes thread 1's CPU for 5 ms; 0: none.
	Preempt int
	Sched   bool  // scheduling events are recorded
	NoOps   bool  // level step
	Gap     int64 // between operators, ns
	Partial int   // the decode step that is marked as incomplete; 0: none
	// Cost is the total time of an operator's work over its threads, ns; nil: from its bytes.
	Cost func(*facts.Derived) float64
	// Part is the work of thread t relative to an even share; nil: 5 % more than the previous thread.
	Part func(t int) float64
	// Choose returns the expert that the token at a position chooses in a layer, by rank; nil: see Chosen.
	Choose func(layer, pos, rank int64) int32
	// Preempts: the other process preempts in every decode step.
	Preempts bool

	batch []trace.StepSeq // of the next step; nil: one sequence
}

// Player plays runs into a sink. IDs continue from run to run.
type Player struct {
	Sink                   profile.Sink
	step, graph, op, shape int64
	now                    int64
	threads                map[int32]profile.Thread
	procs                  []trace.Process
	first                  int64
	derive                 facts.Deriver
}

// NsPerByte is the speed of operators in a generated run: 0.1 ns per byte and thread, 10 GB/s.
const NsPerByte = 0.1

// base is the time of every operator in addition to its bytes.
const base = 2_000

// Play runs r.
func (p *Player) Play(r Run) error {
	if p.threads == nil {
		p.threads = map[int32]profile.Thread{}
	}
	p.now = max(p.now, r.Start)
	if p.first == 0 {
		p.first = p.now
	}
	if !slices.ContainsFunc(p.procs, func(q trace.Process) bool { return q.PID == r.PID }) {
		p.procs = append(p.procs, process(r.PID))
	}
	for i := range r.Threads {
		role := "worker"
		if i == 0 {
			role = "main"
		}
		p.threads[r.PID+int32(i)] = profile.Thread{PID: r.PID, TID: r.PID + int32(i), Comm: "llama-bench",
			Role: role}
		if r.Sched {
			if err := p.Sink.Sched(&trace.Sched{Time: p.now, CPU: uint16(i), Kind: trace.SchedSwitch,
				PrevComm: "swapper/0",
				NextTID:  r.PID + int32(i), NextPID: r.PID, NextComm: "llama-bench",
				NextPrio: 120}); err != nil {
				return err
			}
		}
	}
	pos := r.Pos
	if r.Prefill > 0 {
		if err := p.playStep(r, r.Prefill, pos, 0); err != nil {
			return err
		}
		pos += int32(r.Prefill)
	}
	var shape *profile.Shape
	for i := range r.Decode {
		if i%32 == 0 {
			shape = nil // the cache's view grows
		}
		s, err := p.playGraph(r, 1, pos, i+1, shape)
		if err != nil {
			return err
		}
		shape = s
		pos++
	}
	return nil
}

func process(pid int32) trace.Process {
	return trace.Process{PID: pid, Comm: "llama-bench", Cmdline: []string{"llama-bench", "-m", "m.gguf"},
		Engine: "llama.cpp", EngineVersion: "0.7.0", GGMLVersion: "0.27.0",
		Files: []trace.File{{Path: "/usr/lib/ggml/libggml-cpu-haswell.so", Role: "cpu"}},
		Sites: []trace.Site{{Role: trace.RoleOpBegin, Class: "emulated"},
			{Role: trace.RoleOpEnd, Class: "emulated"}}}
}

func (p *Player) playStep(r Run, tokens int, pos int32, n int) error {
	_, err := p.playGraph(r, tokens, pos, n, nil)
	return err
}

func (p *Player) playGraph(r Run, tokens int, pos int32, n int, shape *profile.Shape) (*profile.Shape,
	error) {
	p.step++
	s := &profile.Step{ID: p.step, PID: r.PID, TID: r.PID, Ctx: r.Ctx, Entry: "llama_decode",
		Phase: profile.Decode,
		Start: p.now, NTokens: int32(tokens), NSeqs: 1, Outputs: 1, Graphs: 1,
		Seqs: []trace.StepSeq{{Time: p.now, TID: r.PID, Seq: 0, NTokens: int32(tokens), Pos: pos,
			Outputs: 1}}}
	if tokens > 1 {
		s.Phase = profile.Prefill
	}
	if r.batch != nil {
		s.Seqs, s.NSeqs = slices.Clone(r.batch), int32(len(r.batch))
		if tokens == len(r.batch) {
			s.Phase = profile.Decode
		}
		for i := range s.Seqs {
			s.Seqs[i].Time, s.Seqs[i].TID = p.now, r.PID
		}
	}
	if r.Partial > 0 && n == r.Partial {
		s.Incomplete = "12 hits were lost"
	}
	p.now += 10_000
	if shape == nil && !r.NoOps {
		p.shape++
		shape = r.Model.Shape(r.PID, uint64(p.shape), int64(tokens), (int64(pos)+int64(tokens)+255)/256*256)
	}
	p.graph++
	g := &profile.Graph{ID: p.graph, Step: s.ID, PID: r.PID, TID: r.PID, Backend: "CPU", Start: p.now,
		Shape: shape}
	if shape != nil {
		g.NNodes = int32(shape.NNodes)
	}
	if r.NoOps {
		p.now += 1_000_000 * int64(tokens)
	} else if err := p.playOps(r, s, g, n, pos); err != nil {
		return nil, err
	}
	g.Dur = p.now - g.Start
	if err := p.Sink.Graph(g); err != nil {
		return nil, err
	}
	p.now += 20_000
	s.Dur = p.now - s.Start
	if err := p.Sink.Step(s); err != nil {
		return nil, err
	}
	p.now += 50_000
	return shape, nil
}

func (p *Player) playOps(r Run, s *profile.Step, g *profile.Graph, n int, pos int32) error {
	under := map[int32]*profile.Choice{}
	nodes := g.Shape.Nodes[:g.Shape.NNodes]
	for i := 0; i < len(nodes); i++ {
		if !nodes[i].Executes {
			continue
		}
		o := &profile.Op{Step: s, Graph: g, Shape: g.Shape, Node: int32(i), Op: nodes[i].Op, Start: p.now}
		if o.Op == "RMS_NORM" && i+1 < len(nodes) && nodes[i+1].Op == "MUL" {
			o.Op, o.Fused = "RMS_NORM+MUL", []int32{int32(i + 1)}
			i++
		}
		p.op++
		o.ID = p.op
		if err := p.choose(&r, o, int64(pos), under); err != nil {
			return err
		}
		work := int64(base)
		if d := p.derive.Derive(o); r.Cost != nil {
			work = int64(r.Cost(d) / float64(r.Threads))
		} else if b := d.Bytes; b != nil {
			work += int64(float64(*b) * NsPerByte / float64(r.Threads))
		}
		preempted := (r.Preempt > 0 && n == r.Preempt || r.Preempts && s.Phase == profile.Decode) &&
			o.NodeDef().Name == "ffn_gate-0" && r.Threads > 1
		for t := range r.Threads {
			th := profile.OpThread{TID: r.PID + int32(t), Ith: uint16(t), CPU: uint16(t),
				Start: p.now + int64(t)*100}
			th.Busy = work + int64(t)*work/20
			if r.Part != nil {
				th.Busy = int64(float64(work) * r.Part(t))
			}
			if preempted && t == 1 {
				th.OffCPU = 5_000_000
			}
			o.Dur = max(o.Dur, th.Start+th.Busy+th.OffCPU-o.Start)
			o.Threads = append(o.Threads, th)
		}
		for t := range o.Threads {
			th := &o.Threads[t]
			th.Wait = o.Start + o.Dur - th.Start - th.Busy - th.OffCPU
			o.Busy += th.Busy
			o.Wait += th.Wait
			o.OffCPU += th.OffCPU
		}
		if preempted && r.Sched {
			at := o.Start + 500
			for _, e := range []trace.Sched{
				{Time: at, CPU: 1, Kind: trace.SchedSwitch, PrevTID: r.PID + 1, PrevPID: r.PID,
					PrevComm: "llama-bench", PrevPrio: 120, NextTID: 77, NextPID: 77, NextComm: "apt-get",
					NextPrio: 120},
				{Time: at + 5_000_000, CPU: 1, Kind: trace.SchedSwitch, PrevState: 1, PrevTID: 77,
					PrevPID: 77, PrevComm: "apt-get", PrevPrio: 120, NextTID: r.PID +
						1, NextPID: r.PID, NextComm: "llama-bench", NextPrio: 120},
			} {
				if err := p.Sink.Sched(&e); err != nil {
					return err
				}
			}
		}
		p.now += o.Dur + r.Gap
		s.Ops++
		s.OpsDur += o.Dur
		g.Ops++
		if err := p.Sink.Op(o); err != nil {
			return err
		}
	}
	return nil
}

// Header returns the header of everything played.
func (p *Player) Header(level string) *profile.Header {
	h := &profile.Header{Processes: p.procs, First: p.first, Last: p.now,
		Meta: trace.Meta{SchemaVersion: 1, Tool: "test", Command: []string{"llama-bench", "-m", "m.gguf"},
			Host:   "host",
			Kernel: "6.18.5", Arch: "amd64", CPU: "a CPU", Cores: 2, Level: level,
			ProbeCost: map[string]int64{"emulated": 200}},
		End: &trace.End{Time: p.now, Reason: "the command ended"}}
	for _, t := range p.threads {
		h.Threads = append(h.Threads, t)
	}
	return h
}
