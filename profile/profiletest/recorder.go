// SPDX-License-Identifier: Apache-2.0

package profiletest

import (
	"io"
	"slices"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/trace"
)

// Sites of a recorder's processes, as boundary events number them.
const (
	siteStep = iota
	siteGraph
	siteBegin
	siteEnd
)

// pool is the thread pool that all arrivals name.
const pool = 0x9000

// Recorder is a sink that writes what is played into it as a recording: the hits and boundary events that
// probes would have seen. The zero value with W set is ready to use; the function fields change what is
// written.
type Recorder struct {
	profile.BaseSink
	w     *trace.Writer
	Level string // "": op
	// noShapes: definitions are missing.
	noShapes bool
	// lose: hits are dropped, as if they did not fit.
	lose bool
	// noSteps: boundary events of steps are dropped.
	noSteps bool
	// NoExperts: choices of experts were not recorded.
	NoExperts bool
	// hold: no watermarks for now, so that a loss can still be reported.
	hold bool

	Head    func(*trace.Meta)
	Process func(*trace.Process)
	Shape   func(*trace.Shape)
	Mark    func(*trace.Mark)
	Experts func(*trace.Experts)
	comm    func(tid int32) string
	Allowed string // CPUs that threads may use, as reported; "": unknown
	// Faults returns page faults of an operator's threads; Mapped returns mappings, reported before the first
	// event.
	Faults func(*profile.Op) []trace.Fault
	Mapped func() []trace.Memory

	begun   bool
	shapes  map[*profile.Shape]bool
	procs   map[int32]bool
	threads map[int32]bool
	hits    []trace.Hit
	last    int64
}

// Record plays a run into a recording and returns the writer's first error.
func Record(w io.Writer, change func(*Recorder), play func(*Recorder, *Player) error) error {
	r := &Recorder{w: trace.NewWriter(w)}
	if change != nil {
		change(r)
	}
	if err := play(r, &Player{Sink: r}); err != nil {
		return err
	}
	if err := r.begin(0); err != nil {
		return err
	}
	return r.w.Close(trace.End{Time: r.last, Reason: "the command ended"})
}

func (r *Recorder) level() string {
	if r.Level == "" {
		return "op"
	}
	return r.Level
}

// begin writes the recording's header.
func (r *Recorder) begin(start int64) error {
	if r.begun {
		return nil
	}
	r.begun = true
	r.shapes, r.procs, r.threads = map[*profile.Shape]bool{}, map[int32]bool{}, map[int32]bool{}
	m := trace.Meta{SchemaVersion: 1, Tool: "test", Command: []string{"llama-bench", "-m", "m.gguf"},
		Start: start, Host: "host",
		Kernel: "6.18.5", Arch: "amd64", CPU: "a CPU", Cores: 2, Level: r.level(),
		ProbeCost: map[string]int64{"emulated": 200}}
	if r.Head != nil {
		r.Head(&m)
	}
	return r.w.Meta(m)
}

// process reports a process before its first event.
func (r *Recorder) process(pid int32, at int64) error {
	if err := r.begin(at); err != nil || r.procs[pid] {
		return err
	}
	r.procs[pid] = true
	p := process(pid)
	p.Sites = []trace.Site{siteStep: {Role: trace.RoleStepBegin, Entry: "llama_decode"},
		siteGraph: {Role: trace.RoleGraphBegin, Backend: "CPU"},
		siteBegin: {Role: trace.RoleOpBegin, Class: "emulated"}, siteEnd: {Role: trace.RoleOpEnd,
			Class: "emulated"}}
	if r.Process != nil {
		r.Process(&p)
	}
	if err := r.w.Process(p); err != nil || r.Mapped == nil {
		return err
	}
	for _, m := range r.Mapped() {
		if err := r.w.Memory(m); err != nil {
			return err
		}
	}
	return nil
}

func (r *Recorder) thread(pid, tid int32) error {
	if r.threads[tid] {
		return nil
	}
	r.threads[tid] = true
	comm := "llama-bench"
	if r.comm != nil {
		comm = r.comm(tid)
	}
	return r.w.Threads([]trace.Thread{{PID: pid, TID: tid, Comm: comm, CPUs: r.Allowed}})
}

func (r *Recorder) shape(s *profile.Shape) error {
	if s == nil || r.shapes[s] {
		return nil
	}
	r.shapes[s] = true
	if r.noShapes {
		return nil
	}
	told := *s.Shape
	if r.Shape != nil {
		told.Nodes = slices.Clone(told.Nodes) // the player continues to use its own
		r.Shape(&told)
	}
	return r.w.Shape(&told)
}

// Op implements profile.Sink.
func (r *Recorder) Op(o *profile.Op) error {
	if err := r.process(o.Graph.PID, o.Start); err != nil {
		return err
	}
	pid := o.Graph.PID
	nodes := o.Shape.Nodes
	n := uint16(len(o.Threads))
	r.hits = r.hits[:0]
	for i := range o.Threads {
		t := &o.Threads[i]
		if err := r.thread(pid, t.TID); err != nil {
			return err
		}
		h := trace.Hit{Time: t.Start, PID: pid, TID: t.TID, CPU: t.CPU, Ith: t.Ith, Nth: n,
			Kind: trace.HitOpBegin, Arg: nodes[o.Node].Addr}
		if len(o.Fused) > 0 {
			h.Kind = trace.HitOpFused
		}
		r.hits = append(r.hits, h)
		for _, f := range o.Fused {
			h.Kind, h.Arg = trace.HitFusedWith, nodes[f].Addr
			r.hits = append(r.hits, h)
		}
	}
	for i := range o.Threads {
		t := &o.Threads[i]
		r.hits = append(r.hits, trace.Hit{Time: t.Start + t.Busy + t.OffCPU, PID: pid, TID: t.TID, CPU: t.CPU,
			Kind: trace.HitOpEnd, Arg: pool})
	}
	if r.Faults != nil {
		if err := r.w.Faults(r.Faults(o)); err != nil {
			return err
		}
	}
	if r.lose || r.level() != "op" {
		return nil
	}
	return r.w.Hits(r.hits)
}

// Graph implements profile.Sink.
func (r *Recorder) Graph(g *profile.Graph) error {
	if err := r.process(g.PID, g.Start); err != nil {
		return err
	}
	if r.level() == "step" {
		return nil
	}
	if err := r.shape(g.Shape); err != nil {
		return err
	}
	begin := trace.Mark{Time: g.Start, PID: g.PID, TID: g.TID, Kind: trace.MarkGraphBegin, Site: siteGraph,
		NNodes: g.NNodes, NTokens: -1, Type: -1}
	if g.Shape != nil {
		begin.Shape, begin.UID = g.Shape.Shape.ID, uint64(g.Shape.Index)
	}
	end := trace.Mark{Time: g.Start + g.Dur, PID: g.PID, TID: g.TID, Kind: trace.MarkGraphEnd,
		Site: siteGraph, NTokens: -1, Type: -1}
	return r.marks(begin, end)
}

// Step implements profile.Sink.
func (r *Recorder) Step(s *profile.Step) error {
	if err := r.process(s.PID, s.Start); err != nil {
		return err
	}
	r.last = s.Start + s.Dur
	if !r.noSteps {
		if err := r.w.StepSeqs(s.Seqs); err != nil {
			return err
		}
		if err := r.marks(trace.Mark{Time: s.Start, PID: s.PID, TID: s.TID, Kind: trace.MarkStepBegin,
			Site: siteStep, Ctx: s.Ctx, NTokens: s.NTokens, Type: -1},
			trace.Mark{Time: r.last, PID: s.PID, TID: s.TID, Kind: trace.MarkStepEnd, Site: siteStep,
				Ctx: s.Ctx, NTokens: -1, Type: -1}); err != nil {
			return err
		}
	}
	if r.hold {
		return nil
	}
	return r.w.Drain(r.last + 1)
}

func (r *Recorder) marks(ms ...trace.Mark) error {
	for i := range ms {
		if r.Mark != nil {
			r.Mark(&ms[i])
		}
	}
	return r.w.Marks(ms)
}

// Sched implements profile.Sink.
func (r *Recorder) Sched(s *trace.Sched) error {
	if err := r.begin(s.Time); err != nil {
		return err
	}
	e := *s
	if r.comm != nil {
		e.PrevComm, e.NextComm = r.comm(e.PrevTID), r.comm(e.NextTID)
	}
	return r.w.Sched([]trace.Sched{e})
}
