// SPDX-License-Identifier: Apache-2.0

package profile

import "github.com/profinfer/profinfer/trace"

// gate lets through to a sink what is in a part of the recording.
type gate struct {
	Sink
	c *Chosen
}

// mayShow reports whether a graph that begins can be in the part that is replayed.
func (p *replayer) mayShow(g *Graph) bool {
	switch {
	case p.scout != nil:
		return false
	case p.part == nil:
		return true
	case g.Step != 0:
		return p.part.step(g.Step)
	}
	return p.part.covers(g.Start)
}

// within reports whether what a step or a graph has is in the part.
func (s gate) within(x *Step, g *Graph, at int64) bool {
	switch {
	case x != nil:
		return s.c.step(x.ID)
	case g != nil && g.CallerStep != nil:
		return s.c.step(g.CallerStep.ID)
	}
	return !s.c.Part.bySteps() && s.c.covers(at)
}

func (s gate) Op(o *Op) error {
	if !s.within(o.Step, o.Graph, o.Start) {
		return nil
	}
	return s.Sink.Op(o)
}

func (s gate) Graph(g *Graph) error {
	if !s.c.graph(g, g.Start+g.Dur) {
		return nil
	}
	return s.Sink.Graph(g)
}

func (s gate) Step(x *Step) error {
	if !s.c.step(x.ID) {
		return nil
	}
	return s.Sink.Step(x)
}

func (s gate) Result(x *Step) error {
	if !s.c.step(x.ID) {
		return nil
	}
	return s.Sink.Result(x)
}

func (s gate) Choice(c *Choice) error {
	if !s.within(c.Step, c.Graph, c.Time) {
		return nil
	}
	return s.Sink.Choice(c)
}

func (s gate) Copy(c *Copy) error {
	if !s.within(c.Step, nil, c.Start) {
		return nil
	}
	return s.Sink.Copy(c)
}

func (s gate) Device(d *DeviceSpan) error {
	if d.Graph != nil && !s.c.graph(d.Graph, d.Graph.Start+d.Graph.Dur) ||
		d.Graph == nil && !s.c.covers(d.Begin) {
		return nil
	}
	return s.Sink.Device(d)
}

func (s gate) Submission(x *Submission) error {
	if !s.c.covers(x.Begin) {
		return nil
	}
	return s.Sink.Submission(x)
}

func (s gate) Remote(r *Remote) error {
	if !s.c.graph(r.Client, r.Client.Start+r.Client.Dur) {
		return nil
	}
	return s.Sink.Remote(r)
}

func (s gate) Fault(f *Fault) error {
	if !s.c.covers(f.Time) {
		return nil
	}
	return s.Sink.Fault(f)
}

// Memory lets through what is mapped before the part too.
func (s gate) Memory(m *trace.Memory) error {
	if m.Time > s.c.To {
		return nil
	}
	return s.Sink.Memory(m)
}

func (s gate) Sched(e *trace.Sched) error {
	if !s.c.covers(e.Time) {
		return nil
	}
	return s.Sink.Sched(e)
}

func (s gate) CPU(c *trace.CPUState) error {
	if !s.c.covers(c.Time) {
		return nil
	}
	return s.Sink.CPU(c)
}
