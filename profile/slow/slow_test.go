// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"slices"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/trace"
)

// slowRun plays steps by hand: each is 10 µs, ten operators of 100 µs on two threads (30 and 31, on CPUs 0
// and 1), 10 µs.
type slowRun struct {
	b     *Builder
	now   int64
	step  int64
	graph int64
	pos   int32
	// Of the next step alone.
	change func(k int, o *profile.Op)              // an operator, before it is handed on
	before func(s *profile.Step, g *profile.Graph) // its step and graph
	lead   int64                                   // before the graph
	drop   func(e *trace.Sched) bool
}

const (
	slowOp10  = 100_000
	slowEdges = 10_000
	slowDur   = 10*slowOp10 + 2*slowEdges
)

func newSlowRun(opts Options) *slowRun {
	r := &slowRun{b: New(opts), now: 1e9}
	for i := range int32(2) {
		r.sched(r.now, uint16(i), 0, 0, 30+i)
	}
	return r
}

var slowComms = map[int32]string{30: "llama", 31: "llama", 32: "llvmpipe", 33: "llvmpipe", 5: "sh", 6: "apt"}

func (r *slowRun) sched(at int64, cpu uint16, prev int32, state uint32, next int32) {
	pid := func(t int32) int32 {
		if t > 30 && t < 40 {
			return 30
		}
		return t
	}
	e := trace.Sched{Time: at, CPU: cpu, Kind: trace.SchedSwitch, PrevTID: prev, PrevPID: pid(prev),
		PrevComm: slowComms[prev], PrevState: state,
		NextTID: next, NextPID: pid(next), NextComm: slowComms[next]}
	if r.drop == nil || !r.drop(&e) {
		r.b.Sched(&e)
	}
}

// off takes a thread's CPU from it for d, after a while in the operator: by another thread, or as it sleeps
// in a state.
func (r *slowRun) off(o *profile.Op, t int, after, d int64, by int32, state uint32) {
	at := o.Start + after
	tid, cpu := o.Threads[t].TID, o.Threads[t].CPU
	r.sched(at, cpu, tid, state, by)
	r.sched(at+d, cpu, by, 1, tid)
	o.Threads[t].OffCPU += d
	r.settle(o)
}

// settle computes an operator's end and waits.
func (r *slowRun) settle(o *profile.Op) {
	o.Dur, o.Busy, o.Wait, o.OffCPU = 0, 0, 0, 0
	for i := range o.Threads {
		t := &o.Threads[i]
		o.Dur = max(o.Dur, t.Start+t.Busy+t.OffCPU-o.Start)
	}
	for i := range o.Threads {
		t := &o.Threads[i]
		t.Wait = o.Start + o.Dur - t.Start - t.Busy - t.OffCPU
		o.Busy += t.Busy
		o.Wait += t.Wait
		o.OffCPU += t.OffCPU
	}
}

func (r *slowRun) play(n int) {
	for range n {
		r.step++
		r.graph++
		r.pos++
		s := &profile.Step{ID: r.step, PID: 30, TID: 30, Ctx: 1, Phase: profile.Decode, Start: r.now,
			NTokens: 1, NSeqs: 1, Outputs: 1, Graphs: 1,
			Seqs: []trace.StepSeq{{Pos: r.pos - 1, NTokens: 1, Outputs: 1}}}
		r.now += slowEdges + r.lead
		g := &profile.Graph{ID: r.graph, Step: s.ID, PID: 30, TID: 30, Backend: "CPU", Start: r.now,
			Reused: true, Ops: 10}
		if r.before != nil {
			r.before(s, g)
		}
		for k := range 10 {
			o := &profile.Op{ID: r.step*100 + int64(k), Step: s, Graph: g, Node: int32(k), Start: r.now}
			for i := range int32(2) {
				o.Threads = append(o.Threads, profile.OpThread{TID: 30 + i, Ith: uint16(i), CPU: uint16(i),
					Start: r.now, Busy: slowOp10})
			}
			o.Shape = slowShape
			o.Op = slowShape.Nodes[k].Op
			r.settle(o)
			if r.change != nil {
				r.change(k, o)
			}
			r.now += o.Dur
			if s.Untraced == "" {
				r.b.Op(o)
			}
		}
		g.Dur = r.now - g.Start
		r.b.Graph(g)
		r.now += slowEdges
		s.Dur = r.now - s.Start
		r.b.Step(s)
		r.now += 5_000
	}
	r.change, r.before, r.lead = nil, nil, 0
}

// slowShape is nine products and attention, of no size.
var slowShape = func() *profile.Shape {
	nodes := make([]trace.Node, 10)
	for i := range nodes {
		nodes[i] = trace.Node{Op: "MUL_MAT", ViewSrc: -1, Executes: true}
	}
	nodes[9].Op = "FLASH_ATTN_EXT"
	return &profile.Shape{Shape: &trace.Shape{PID: 30, NNodes: len(nodes), Nodes: nodes}}
}()

func (r *slowRun) finish(t *testing.T, losses ...trace.Loss) *Slow {
	t.Helper()
	s := r.b.Finish(&profile.Header{Losses: losses})
	checkSlow(t, s)
	return s
}

// checkSlow tests what has to hold of every result: parts add up.
func checkSlow(t *testing.T, s *Slow) {
	t.Helper()
	check := func(what string, parts []Part, excess int64) {
		var sum int64
		for _, p := range parts {
			sum += p.Ns
			if p.Who == nil {
				continue
			}
			var who int64
			for _, w := range p.Who {
				who += w.Ns
			}
			if who != p.Ns {
				t.Errorf("%s: %s: those behind it add up to %d, it is %d", what, p.Cause, who, p.Ns)
			}
		}
		if sum != excess {
			t.Errorf("%s: parts add up to %d, the excess is %d", what, sum, excess)
		}
	}
	check("all", s.Causes, s.Excess)
	var excess int64
	for i := range s.Listed {
		x := &s.Listed[i]
		check("step", x.Parts, x.Excess)
		if x.Dur-x.Baseline != x.Excess {
			t.Errorf("step %d: %d - %d is not %d", x.Step, x.Dur, x.Baseline, x.Excess)
		}
		if i > 0 && x.Excess > s.Listed[i-1].Excess {
			t.Errorf("step %d is not in order", x.Step)
		}
		excess += x.Excess
	}
	if int64(len(s.Listed)) == s.Slow && excess != s.Excess {
		t.Errorf("the steps' excesses are %d, in all %d", excess, s.Excess)
	}
}

// want compares a step's parts with what they have to be.
func wantParts(t *testing.T, parts []Part, want map[Cause]int64) {
	t.Helper()
	for _, p := range parts {
		if p.Ns != want[p.Cause] {
			t.Errorf("%s is %d ns, want %d", p.Cause, p.Ns, want[p.Cause])
		}
	}
	for c, ns := range want {
		if ns != 0 && !slices.ContainsFunc(parts, func(p Part) bool { return p.Cause == c }) {
			t.Errorf("%s is missing, want %d ns", c, ns)
		}
	}
}

func TestSlowNone(t *testing.T) {
	r := newSlowRun(Options{})
	r.play(50)
	s := r.finish(t)
	if s.Slow != 0 || s.Steps != 50 || s.Excess != 0 || len(s.Listed) != 0 || s.NextShare == nil ||
		*s.NextShare != 0 {
		t.Errorf("of even steps: %+v", s)
	}
}

// Each way to be slow, in one step of which all else is even: its part is what it took.
func TestSlowCauses(t *testing.T) {
	attn := func(k int, o *profile.Op, d int64) {
		if k == 9 {
			o.Threads[0].Busy += d
			o.Threads[1].Busy += d
		}
	}
	cases := []struct {
		name string
		set  func(r *slowRun)
		want map[Cause]int64
		who  string
	}{
		{"another process", func(r *slowRun) {
			r.change = func(k int, o *profile.Op) {
				if k == 3 {
					r.off(o, 1, 50_000, 4e6, 5, 0)
				}
			}
		}, map[Cause]int64{SlowOther: 4e6}, "sh"},
		{"it had no CPU as the operator began", func(r *slowRun) {
			r.change = func(k int, o *profile.Op) {
				if k == 3 {
					o.Threads[1].Start += 2e6
					r.settle(o)
					r.sched(o.Start-1000, 1, 31, 0, 6)
					r.sched(o.Start+2e6, 1, 6, 1, 31)
				}
			}
		}, map[Cause]int64{SlowOther: 2e6}, "apt"},
		{"the other thread spins in the operator meanwhile", func(r *slowRun) {
			r.change = func(k int, o *profile.Op) {
				// thread 31 is away for 3 ms and then the first to arrive; 30 has waited for it at a barrier
				// inside
				if k == 3 {
					r.off(o, 1, 10_000, 3e6, 5, 0)
					o.Threads[0].Busy += 3e6 + 1000
					r.settle(o)
				}
			}
		}, map[Cause]int64{SlowOther: 3e6, SlowImbalance: 500, SlowUnexplained: 500}, "sh"},
		{"its own threads", func(r *slowRun) {
			r.change = func(k int, o *profile.Op) {
				if k == 3 {
					r.sched(o.Start+10, 0, 30, 0, 0) // 30 moves and spins there
					r.sched(o.Start+10, 1, 31, 0, 30)
					r.sched(o.Start+10+1e6, 1, 30, 0, 31)
					o.Threads[1].OffCPU = 1e6
					r.settle(o)
				}
				if k == 4 { // and gets its own back
					r.sched(o.Start, 0, 0, 0, 30)
				}
			}
		}, map[Cause]int64{SlowOwn: 1e6}, "llama"},
		{"disk", func(r *slowRun) {
			r.change = func(k int, o *profile.Op) {
				if k == 5 {
					r.off(o, 0, 0, 2e6, 0, 2|0x100)
				}
			}
		}, map[Cause]int64{SlowDisk: 2e6}, ""},
		{"asleep", func(r *slowRun) {
			r.change = func(k int, o *profile.Op) {
				if k == 5 {
					r.off(o, 0, 0, 2e6, 0, 1)
				}
			}
		}, map[Cause]int64{SlowSleep: 2e6}, ""},
		{"late on its CPU", func(r *slowRun) {
			r.change = func(k int, o *profile.Op) {
				if k == 2 { // the mean grows by half of it: that is work nobody can explain
					o.Threads[1].Busy += 1e6
					r.settle(o)
				}
			}
		}, map[Cause]int64{SlowImbalance: 5e5, SlowUnexplained: 5e5}, ""},
		{"all slower", func(r *slowRun) {
			r.change = func(k int, o *profile.Op) { attn(k, o, 3e6); r.settle(o) }
		}, map[Cause]int64{SlowUnexplained: 3e6}, ""},
		{"a new graph", func(r *slowRun) {
			r.lead = 7e5
			r.before = func(s *profile.Step, g *profile.Graph) { g.Reused = false }
		}, map[Cause]int64{SlowRebuilt: 7e5}, ""},
		{"before the graph, which is not new", func(r *slowRun) {
			r.lead = 7e5
		}, map[Cause]int64{SlowUnexplained: 7e5}, ""},
		{"a new definition", func(r *slowRun) {
			r.before = func(s *profile.Step, g *profile.Graph) {
				g.Shape = &profile.Shape{Index: 9}
				r.now += 4e5
			}
		}, map[Cause]int64{SlowRecording: 4e5}, ""},
		{"another backend", func(r *slowRun) {
			r.before = func(s *profile.Step, g *profile.Graph) {
				r.b.Graph(&profile.Graph{Step: s.ID, PID: 30, Backend: "Vulkan", Start: r.now - slowEdges,
					Dur: 6e5, Reused: true})
				r.now += 6e5 + 5e5
				g.Start = r.now
			}
		}, map[Cause]int64{SlowBackend: 6e5, SlowCopies: 5e5 + slowEdges, SlowUnexplained: -slowEdges}, ""},
		{"reading faults, half of the time on the CPU", func(r *slowRun) {
			r.change = func(k int, o *profile.Op) {
				if k == 5 {
					r.off(o, 0, 5e5, 1e6, 0, 2)
					o.Threads[0].Busy += 1e6
					r.settle(o)
					r.b.faultSpan(30, 30, o.Start+4e5, o.Start+2e6, true)
					r.b.faultSpan(30, 30, o.Start, o.Start+4e5, true)
				}
			}
		}, map[Cause]int64{SlowDisk: 2e6}, ""},
		{"a reading fault beside a thread that is late by itself", func(r *slowRun) {
			r.change = func(k int, o *profile.Op) {
				if k == 5 {
					o.Threads[0].Busy += 2e6
					o.Threads[1].Busy += 1e6
					r.settle(o)
					r.b.faultSpan(30, 30, o.Start, o.Start+2e6, true)
				}
			}
		}, map[Cause]int64{SlowDisk: 1e6, SlowImbalance: 5e5, SlowUnexplained: 5e5}, ""},
		{"a switch between others was not seen", func(r *slowRun) {
			r.change = func(k int, o *profile.Op) {
				if k == 5 {
					r.sched(o.Start+10, 1, 31, 0, 5)
					r.sched(o.Start+10+4e6, 1, 6, 1, 31)
					o.Threads[1].OffCPU = 4e6
					r.settle(o)
				}
			}
		}, map[Cause]int64{SlowNotSeen: 4e6}, ""},
		{"a fault that reads nothing", func(r *slowRun) {
			r.change = func(k int, o *profile.Op) {
				if k == 5 {
					o.Threads[0].Busy += 1e6
					r.settle(o)
					r.b.faultSpan(30, 30, o.Start, o.Start+1e6, false)
				}
			}
		}, map[Cause]int64{SlowFaults: 1e6}, ""},
		{"another process during a fault", func(r *slowRun) {
			r.change = func(k int, o *profile.Op) {
				if k == 5 {
					o.Threads[0].Busy += 1e6
					r.off(o, 0, 1e5, 3e6, 6, 0)
					r.b.faultSpan(30, 30, o.Start, o.Start+4e6, true)
				}
			}
		}, map[Cause]int64{SlowOther: 3e6, SlowDisk: 1e6}, "apt"},
		{"a fault outside operators", func(r *slowRun) {
			r.lead = 8e5
			r.b.faultSpan(30, 30, r.now+slowEdges/2, r.now+slowEdges/2+8e5, true)
		}, map[Cause]int64{SlowDisk: 8e5}, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := newSlowRun(Options{})
			r.play(20)
			c.set(r)
			r.play(1)
			r.play(20)
			s := r.finish(t)
			if s.Slow != 1 || s.Listed[0].Step != 21 {
				t.Fatalf("%d steps are slow: %+v", s.Slow, s.Listed)
			}
			x := &s.Listed[0]
			var excess int64
			for _, ns := range c.want {
				excess += ns
			}
			if x.Excess != excess || x.Baseline != slowDur {
				t.Errorf("it took %d ns beyond %d, want %d beyond %d", x.Excess, x.Baseline, excess, slowDur)
			}
			wantParts(t, x.Parts, c.want)
			wantParts(t, s.Causes, c.want)
			if c.who != "" && (len(x.Parts[0].Who) == 0 || x.Parts[0].Who[0].Comm != c.who) {
				t.Errorf("behind it: %+v, want %s", x.Parts[0].Who, c.who)
			}
			if len(x.Doubts) != 0 {
				t.Errorf("doubts: %q", x.Doubts)
			}
		})
	}
}

// What was not seen is not claimed: with scheduling events missing, nobody is named, and no thread is said to
// be late on its CPU.
func TestSlowUnseen(t *testing.T) {
	play := func(drop func(*trace.Sched) bool) *slowRun {
		r := newSlowRun(Options{})
		r.play(20)
		r.drop = drop
		r.change = func(k int, o *profile.Op) {
			if k == 3 {
				r.off(o, 1, 50_000, 4e6, 5, 0)
				// Replay knows the time off from both events only.
				if drop != nil {
					o.Threads[1].Busy, o.Threads[1].OffCPU = o.Threads[1].Busy+o.Threads[1].OffCPU, 0
					r.settle(o)
				}
			}
		}
		r.play(1)
		r.drop = nil
		r.play(20)
		return r
	}
	away := func(e *trace.Sched) bool { return e.PrevTID == 31 }
	back := func(e *trace.Sched) bool { return e.NextTID == 31 }
	for name, drop := range map[string]func(*trace.Sched) bool{"away": away, "back": back} {
		r := play(drop)
		s := r.finish(t)
		x := s.Listed[0]
		wantParts(t, x.Parts, map[Cause]int64{SlowUnexplained: 4e6})
		if len(x.Doubts) != 1 {
			t.Errorf("%s: doubts: %q", name, x.Doubts)
		}
	}
	// Both missing: only the recorder's count tells.
	r := play(func(*trace.Sched) bool { return true })
	s := r.finish(t, trace.Loss{Start: 2, End: r.now, Why: "lost", What: "sched", Events: 2})
	wantParts(t, s.Listed[0].Parts, map[Cause]int64{SlowUnexplained: 4e6})
	wantParts(t, s.Causes, map[Cause]int64{SlowUnexplained: 4e6})
	// Losses elsewhere do not matter.
	r = play(nil)
	s = r.finish(t, trace.Loss{Start: 2, End: 3, Why: "lost", What: "sched", Events: 2})
	wantParts(t, s.Listed[0].Parts, map[Cause]int64{SlowOther: 4e6})

	// Scheduling not recorded at all.
	r = newSlowRun(Options{})
	r.b = New(Options{})
	r.drop = func(*trace.Sched) bool { return true }
	r.play(20)
	r.change = func(k int, o *profile.Op) { o.Threads[1].Busy += 4e5; r.settle(o) }
	r.play(1)
	r.play(20)
	s = r.finish(t)
	if s.HasSched || s.Interference.Migrations != nil || s.Listed[0].Migrations != nil {
		t.Errorf("scheduling is said to be recorded: %+v", s)
	}
	wantParts(t, s.Listed[0].Parts, map[Cause]int64{SlowUnexplained: 4e6})
	wantParts(t, s.Causes, map[Cause]int64{SlowUnexplained: 4e6})
	if len(s.Listed[0].Doubts) != 1 {
		t.Errorf("doubts: %q", s.Listed[0].Doubts)
	}
}
