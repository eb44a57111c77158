// SPDX-License-Identifier: Apache-2.0

package profiletest

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/trace"
)

// hostileNames are malicious names. Views must show them as plain text.
var hostileNames = []string{
	`<img src=x onerror=alert(1)>`,
	`</script><script>alert(2)</script>`,
	`"><svg onload=alert(3)>`,
	`' onmouseover='alert(4)`,
	`"quoted" & 'single' \back`,
	"tab\tnew\nline\r\x00\x07bell",
	"\x1b[31mred\x1b[0m\x1b]0;title\x07",
	strings.Repeat("W", 64),
	"i_" + strings.Repeat("long_", 60),
	"\u202egnp.exe\u202c \u2066isolate\u2069",
	"\u0627\u0644\u0639\u0631\u0628\u064a\u0629 \u05e2\u05d1\u05e8\u05d9\u05ea",
	"",
	" ",
	"__proto__",
	"constructor",
	"toString",
	"hasOwnProperty",
	"${alert(5)}`{{7*7}}%s%n",
	"javascript:alert(6)",
	"\xff\xfe\x80 not UTF-8",
	"a\u0301\u0302\u0303\u0304\u0305\u0306\u0307\u0308\u0309 combined \U0001f600",
	"\ufeff\u200b\u2028\u2029invisible",
	"#time?run=1&with=0",
	"../../../../etc/passwd",
}

// manyLayers make more than 10,000 nodes: 24 per layer.
const manyLayers = 430

// hostile returns a name for a number.
func hostile(i int) string { return hostileNames[i%len(hostileNames)] }

// Trial is a recording that every reader and view must handle.
type Trial struct {
	Name  string
	What  string
	Large bool // takes seconds to make and read
	// Write writes the recording's file.
	Write func(io.Writer) error
}

// plain is the run that trials modify.
func plain() Run {
	return Run{Model: Small, PID: 100, Ctx: 0x5, Threads: 2, Prefill: 16, Decode: 24, Start: 1_000_000_000,
		Gap: 300, Preempt: 7, Sched: true}
}

// played is a trial of one run.
func played(r Run, change func(*Recorder)) func(io.Writer) error {
	return func(w io.Writer) error {
		return Record(w, change, func(_ *Recorder, p *Player) error { return p.Play(r) })
	}
}

func with(f func(*Run)) Run {
	r := plain()
	f(&r)
	return r
}

// mixture gives a run experts: each rank has four, some used more often, which differ between layers.
func mixture(r *Run) {
	r.Model, r.Prefill, r.Preempt = MoE, 40, 0
	r.Model.Layers = 3
	r.Choose = func(layer, pos, rank int64) int32 { return int32(rank*4 + (layer*3+pos*pos+rank*pos)%7%4) }
}

// Trials returns recordings that are empty, truncated, incomplete, huge or malicious.
func Trials() []Trial {
	return []Trial{
		{Name: "plain", What: "nothing is wrong: prefill and decode by two threads",
			Write: played(plain(), nil)},
		{Name: "empty", What: "nothing but a head", Write: func(w io.Writer) error {
			return Record(w, nil, func(*Recorder, *Player) error { return nil })
		}},
		{Name: "no-events", What: "a process, and nothing of it", Write: func(w io.Writer) error {
			return Record(w, nil, func(r *Recorder, _ *Player) error { return r.process(100, 1) })
		}},
		{Name: "level-step", What: "no graphs and no operators were recorded",
			Write: played(plain(), func(r *Recorder) {
				r.Level = "step"
			})},
		{Name: "level-graph", What: "no operators were recorded", Write: played(plain(), func(r *Recorder) {
			r.Level = "graph"
		})},
		{Name: "one-step", What: "one decode step", Write: played(with(func(r *Run) {
			r.Prefill, r.Decode, r.Preempt, r.Pos = 0, 1, 0, 7
		}), nil)},
		{Name: "one-prefill", What: "one prefill step", Write: played(with(func(r *Run) {
			r.Decode, r.Preempt = 0, 0
		}), nil)},
		{Name: "one-thread", What: "one thread, scheduling not recorded", Write: played(with(func(r *Run) {
			r.Threads, r.Sched, r.Preempt = 1, false, 0
		}), nil)},
		{Name: "threads-64", What: "64 threads", Write: played(with(func(r *Run) {
			r.Threads, r.Decode = 64, 6
		}), nil)},
		{Name: "no-definitions", What: "no graph is defined", Write: played(plain(), func(r *Recorder) {
			r.noShapes = true
		})},
		{Name: "no-steps", What: "graphs outside of steps", Write: played(plain(), func(r *Recorder) {
			r.noSteps = true
		})},
		{Name: "unknown-phase", What: "batches that could not be read",
			Write: played(plain(), func(r *Recorder) {
				r.Mark = func(m *trace.Mark) {
					if m.Kind == trace.MarkStepBegin {
						m.NTokens, m.Time = -1, m.Time+1 // the sequences belong to another time
					}
				}
			})},
		{Name: "losses", What: "lost events and throttled spans in the middle", Write: losses},
		{Name: "torn", What: "the end of the file is missing", Write: torn},
		{Name: "processes", What: "two processes and three models", Write: processes},
		{Name: "speculative", What: "three sequences in a batch, of which two speculate; target and draft",
			Write: speculative},
		{Name: "requests-many", What: "more requests than are listed, no operators", Write: requestsMany},
		{Name: "names", What: "hostile names within a model's structure, everywhere a name can stand",
			Write: played(plain(), func(r *Recorder) {
				harm(r, false)
			})},
		{Name: "names-only", What: "nothing but hostile names", Write: played(with(func(r *Run) {
			r.Decode = 4
		}), func(r *Recorder) { harm(r, true) })},
		{Name: "engine-unknown", What: "an engine whose names mean nothing here",
			Write: played(with(func(r *Run) {
				r.Decode = 4
			}), func(r *Recorder) {
				r.Process = func(p *trace.Process) { p.Engine = "unheard-of" }
			})},
		{Name: "offload", What: "steps that are split over the CPU, BLAS and a device",
			Write: func(w io.Writer) error {
				return Offload(w, 24, nil)
			}},
		{Name: "offload-names", What: "the same with hostile names, of backends too",
			Write: func(w io.Writer) error {
				return Offload(w, 3, harmOffload)
			}},
		{Name: "experts", What: "a mixture of experts in three layers, unequally chosen",
			Write: played(with(mixture), nil)},
		{Name: "experts-names", What: "a mixture of experts with hostile names",
			Write: played(with(mixture), func(r *Recorder) {
				harm(r, false)
			})},
		faulty(false),
		faulty(true),
		{Name: "remote", What: "steps that another process computes", Write: Remote{Steps: 24}.Record},
		{Name: "remote-names", What: "the same with hostile names", Write: harmedRemote().Record},
		{Name: "graph-10000", What: "a graph of more than 10,000 nodes in 430 layers", Large: true,
			Write: played(with(func(r *Run) {
				r.Model.Layers, r.Prefill, r.Decode, r.Preempt = manyLayers, 8, 2, 0
			}), nil)},
		{Name: "graph-flat", What: "a graph of more than 10,000 nodes without layers", Large: true,
			Write: played(with(func(r *Run) {
				r.Model.Layers, r.Prefill, r.Decode, r.Preempt = manyLayers, 8, 2, 0
			}), func(r *Recorder) { r.Shape = flat })},
		{Name: "spans-million", What: "a million spans: 8 threads, 460 steps", Large: true,
			Write: played(with(func(r *Run) {
				r.Model.Layers, r.Threads, r.Decode = 16, 8, 460
			}), nil)},
	}
}

// TrialNamed returns one of [Trials].
func TrialNamed(name string) (Trial, bool) {
	all := Trials()
	i := slices.IndexFunc(all, func(t Trial) bool { return t.Name == name })
	if i < 0 {
		return Trial{}, false
	}
	return all[i], true
}

func losses(w io.Writer) error {
	return Record(w, nil, func(r *Recorder, p *Player) error {
		run := plain()
		if err := p.Play(run); err != nil {
			return err
		}
		run.Prefill, run.Preempt = 0, 0
		// Hits of three steps did not fit.
		r.lose, r.hold = true, true
		from := p.now
		run.Pos, run.Decode = 40, 3
		if err := p.Play(run); err != nil {
			return err
		}
		if err := r.w.Loss(trace.Loss{Start: from, End: p.now - 1, Why: trace.WhyLost, What: trace.LostHits,
			Events: 412, CPU: 1}); err != nil {
			return err
		}
		// Probes are off for five.
		r.hold = false
		if err := r.w.Watch(trace.Watch{PID: run.PID, Time: p.now, Ops: trace.WatchOff,
			Why: "budget"}); err != nil {
			return err
		}
		run.Pos, run.Decode = 43, 5
		if err := p.Play(run); err != nil {
			return err
		}
		r.lose = false
		if err := r.w.Watch(trace.Watch{PID: run.PID, Time: p.now, Ops: trace.WatchBoth,
			Why: "budget"}); err != nil {
			return err
		}
		run.Pos, run.Decode = 48, 24
		return p.Play(run)
	})
}

func torn(w io.Writer) error {
	var b bytes.Buffer
	err := Record(&b, nil, func(r *Recorder, p *Player) error {
		run := plain()
		for i := range 8 {
			if i > 0 {
				run.Prefill, run.Pos = 0, int32(16+24*i)
			}
			if err := p.Play(run); err != nil {
				return err
			}
			if err := r.w.Flush(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	_, err = w.Write(b.Bytes()[:b.Len()*3/5])
	return err
}

func processes(w io.Writer) error {
	return Record(w, nil, func(_ *Recorder, p *Player) error {
		target, draft, other := plain(), plain(), plain()
		draft.Ctx, draft.Model.Base, draft.Model.Layers, draft.Preempt = 0x6, 0x9000000, 1, 0
		other.PID, other.Ctx, other.Model.Base, other.Model.Width, other.Model.FF, other.Preempt = 300, 0x7,
			0x5000000, 128, 256, 0
		for range 3 {
			for _, r := range []Run{target, draft, other} {
				if err := p.Play(r); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// harm puts hostile names wherever a recording has one. all: also where the name identifies a tensor, so that
// nothing is known of the model.
func harm(r *Recorder, all bool) {
	r.comm = func(tid int32) string { return hostile(int(tid)) }
	r.Head = func(m *trace.Meta) {
		m.Command = append([]string{"llama-bench"}, hostileNames...)
		m.Host, m.CPU, m.Kernel, m.Tool = hostile(0), hostile(1), hostile(2), hostile(5)
		m.Notes = slices.Clone(hostileNames)
		m.Extra = map[string]string{"filter": hostile(0), "budget": hostile(1), "min_tps": hostile(2),
			"__proto__": hostile(3)}
	}
	r.Process = func(p *trace.Process) {
		p.Cmdline = append([]string{strings.Repeat("/very/long/path", 200)}, hostileNames...)
		p.Comm, p.EngineVersion, p.GGMLVersion = hostile(2), hostile(1), hostile(7)
		if all { // for an unknown engine the operators are unknown too
			p.Engine = hostile(0)
		}
		p.Warnings = slices.Clone(hostileNames)
		p.Files = []trace.File{{Path: "/usr/lib/libggml-cpu-" + hostile(0) + ".so", Role: "cpu"}}
		p.Sites[siteStep].Entry = hostile(1)
		p.Sites[siteGraph].Warning = hostile(0)
	}
	r.Shape = func(s *trace.Shape) {
		weights := 0
		for i := range s.Nodes {
			n := &s.Nodes[i]
			if n.Leaf && strings.HasSuffix(n.Name, ".weight") {
				weights++
			}
			switch {
			case all:
				n.Name = hostile(i)
				if i%2 == 0 {
					n.Op, n.Type = hostile(i/2), hostile(i/3)
				}
			case n.Leaf && strings.HasPrefix(n.Name, "blk."):
				n.Name = strings.TrimSuffix(n.Name, "weight") + hostile(weights) + ".weight"
			case n.Leaf && strings.HasSuffix(n.Name, ".weight"):
				n.Name = hostile(weights) + ".weight"
			case n.Leaf:
				n.Name = hostile(i)
			default:
				if at := strings.LastIndexByte(n.Name, '-'); at > 0 {
					n.Name = hostile(i) + n.Name[at:]
				} else {
					n.Name = hostile(i)
				}
			}
		}
	}
}

// harmOffload puts hostile names where a split run has names.
func harmOffload(r *Recorder) {
	harm(r, false)
	sites := r.Process
	r.Process = func(p *trace.Process) {
		sites(p)
		for i := range p.Sites {
			switch p.Sites[i].Backend {
			case "BLAS":
				p.Sites[i].Backend = hostile(0)
			case "GPU":
				p.Sites[i].Backend = hostile(9)
			}
		}
	}
	shape := r.Shape
	r.Shape = func(s *trace.Shape) {
		shape(s)
		for i := range s.Nodes {
			if s.Nodes[i].Leaf && !strings.HasSuffix(s.Nodes[i].Name, ".weight") {
				s.Nodes[i].Name = hostile(i + 1)
			}
		}
	}
}

// flat removes every trace of a layer from the names of a graph definition.
func flat(s *trace.Shape) {
	for i := range s.Nodes {
		s.Nodes[i].Name = fmt.Sprintf("node_%d", i)
		if s.Nodes[i].Leaf {
			s.Nodes[i].Name = fmt.Sprintf("leaf_%d", i)
		}
	}
}

var _ profile.Sink = (*Recorder)(nil)
