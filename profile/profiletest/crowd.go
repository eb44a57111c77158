// SPDX-License-Identifier: Apache-2.0

package profiletest

import (
	"slices"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/trace"
)

// Crowd is a run in which the holder of each CPU is given tick by tick. Each step is one matmul; each of the
// threads needs Work ticks for its part. A thread without a CPU is runnable and waits.
type Crowd struct {
	PID     int32
	Threads int
	CPUs    int
	Steps   int
	Work    int
	// Seats returns who has each CPU in a tick.
	Seats func(tick int) []Seat
	// Untold: the arrival of others is not recorded, but looked up when a thread that waited gets a CPU, as
	// on the kernel side.
	Untold bool

	// Taken is how long, in ns, each of the others had a CPU in a step while some thread waited, by comm.
	// Play fills it.
	Taken map[string]int64
}

// Seat is the holder of a CPU: a thread of the team by its number, from 1, another one, or none.
type Seat struct {
	Thread int
	Other  *Other
}

// Other is a thread of another process.
type Other struct {
	TID    int32
	Comm   string
	Prio   int32
	Kernel bool
}

const (
	tick   = 1_000_000
	crowd0 = 1_000_000_000 // when it begins
)

func (c *Crowd) shape() *profile.Shape {
	g := &graph{addr: 0x10000, leafAt: map[string]int32{}}
	w := g.leaf("blk.0.ffn_up.weight", "q4_0", dims(64, 192))
	g.node("ffn_up-0", "MUL_MAT", "f32", dims(192), w, g.leaf("inp", "f32", dims(64)))
	return g.shape(c.PID, 1)
}

// Play plays the run into a sink.
func (c *Crowd) Play(to profile.Sink) error {
	c.Taken = map[string]int64{}
	shape := c.shape()
	p := &crowdPlay{c: c, to: to, now: make([]Seat, c.CPUs), since: make([]int64, c.CPUs)}
	at := 0
	for step := range int64(c.Steps) {
		s := &profile.Step{ID: step + 1, PID: c.PID, TID: c.PID, Ctx: 1, Entry: "llama_decode",
			Phase: profile.Decode, Start: crowd0 + int64(at)*tick + 2_000,
			NTokens: 1, NSeqs: 1, Outputs: 1, Graphs: 1, Ops: 1}
		s.Seqs = []trace.StepSeq{{Time: s.Start, TID: c.PID, NTokens: 1, Pos: int32(step), Outputs: 1}}
		g := &profile.Graph{ID: step + 1, Step: s.ID, PID: c.PID, TID: c.PID, Backend: "CPU",
			Start: s.Start + 1_000, Shape: shape, NNodes: 1, Ops: 1}
		o := &profile.Op{ID: step + 1, Step: s, Graph: g, Shape: shape, Op: "MUL_MAT", Start: s.Start + 2_000}
		done, end := make([]int, c.Threads), make([]int, c.Threads)
		for slices.Min(done) < c.Work {
			seats := c.Seats(at)
			if err := p.change(crowd0+int64(at)*tick, seats); err != nil {
				return err
			}
			waits := c.Threads
			for _, x := range seats {
				if x.Thread > 0 {
					waits--
					if done[x.Thread-1]++; done[x.Thread-1] == c.Work {
						end[x.Thread-1] = at + 1
					}
				}
			}
			if waits > 0 {
				for _, x := range seats {
					if x.Other != nil {
						c.Taken[x.Other.Comm] += tick
					}
				}
			}
			at++
		}
		for i := range c.Threads {
			o.Threads = append(o.Threads, profile.OpThread{TID: c.PID + int32(i), Ith: uint16(i),
				CPU: uint16(i % c.CPUs), Start: o.Start,
				Busy: crowd0 + int64(end[i])*tick - 5_000 - o.Start})
		}
		g.Dur = crowd0 + int64(at)*tick - 4_000 - g.Start
		s.Dur = g.Dur + 2_000
		for _, err := range []error{to.Op(o), to.Graph(g), to.Step(s)} {
			if err != nil {
				return err
			}
		}
	}
	return nil
}

type crowdPlay struct {
	c     *Crowd
	to    profile.Sink
	now   []Seat
	since []int64
	any   bool
}

func (p *crowdPlay) who(x Seat) (tid, pid int32, comm string, prio int32, kernel bool) {
	switch {
	case x.Thread > 0:
		return p.c.PID + int32(x.Thread-1), p.c.PID, "llama-bench", 120, false
	case x.Other != nil:
		return x.Other.TID, x.Other.TID, x.Other.Comm, x.Other.Prio, x.Other.Kernel
	}
	return 0, 0, "swapper", 120, true
}

func (p *crowdPlay) sched(at int64, cpu int, from, to Seat, state uint32) error {
	if p.c.Untold && to.Other != nil {
		return nil
	}
	e := trace.Sched{Time: at, CPU: uint16(cpu), Kind: trace.SchedSwitch, PrevState: state}
	e.PrevTID, e.PrevPID, e.PrevComm, e.PrevPrio, e.PrevKernel = p.who(from)
	e.NextTID, e.NextPID, e.NextComm, e.NextPrio, e.NextKernel = p.who(to)
	return p.to.Sched(&e)
}

// change first lets every thread leave whose seat is another's now, and then the new holders come.
func (p *crowdPlay) change(at int64, seats []Seat) error {
	for cpu, x := range seats {
		if p.any && x == p.now[cpu] || p.now[cpu] == (Seat{}) {
			continue
		}
		state := uint32(0)
		if p.now[cpu].Other != nil {
			state = 1
		}
		if err := p.sched(at, cpu, p.now[cpu], Seat{}, state); err != nil {
			return err
		}
	}
	for cpu, x := range seats {
		if x == p.now[cpu] || x == (Seat{}) {
			p.now[cpu] = x
			continue
		}
		if p.c.Untold && x.Thread > 0 && p.any {
			if err := p.look(at+1_000, cpu); err != nil {
				return err
			}
		}
		if err := p.sched(at+1_000, cpu, Seat{}, x, 0); err != nil {
			return err
		}
		p.now[cpu], p.since[cpu] = x, at+1_000
	}
	p.any = true
	return nil
}

func (p *crowdPlay) look(at int64, from int) error {
	for cpu, x := range p.now {
		if cpu == from || x.Other == nil {
			continue
		}
		e := trace.Sched{Time: at, CPU: uint16(cpu), Kind: trace.SchedLook, Held: at - p.since[cpu]}
		e.PrevTID, e.PrevPID, e.PrevComm, e.PrevPrio, e.PrevKernel = p.who(x)
		e.NextTID, e.NextPID, e.NextComm, e.NextPrio, e.NextKernel = p.who(x)
		if err := p.to.Sched(&e); err != nil {
			return err
		}
	}
	return nil
}
