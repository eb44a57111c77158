// SPDX-License-Identifier: Apache-2.0

package profile

import "github.com/profinfer/profinfer/trace"

// Tee returns a sink that hands everything to each of the sinks, in order. It stops at the first error. The
// sinks share what they get and must not change it.
func Tee(sinks ...Sink) Sink { return tee(sinks) }

type tee []Sink

// Needs is the union of the sinks' needs.
func (t tee) Needs() (all Needs) {
	for _, s := range t {
		all |= s.Needs()
	}
	return all
}

func (t tee) Meta(m *trace.Meta) {
	for _, s := range t {
		s.Meta(m)
	}
}

func (t tee) Op(o *Op) error                 { return each(t, Sink.Op, o) }
func (t tee) Graph(g *Graph) error           { return each(t, Sink.Graph, g) }
func (t tee) Step(s *Step) error             { return each(t, Sink.Step, s) }
func (t tee) Result(s *Step) error           { return each(t, Sink.Result, s) }
func (t tee) Choice(c *Choice) error         { return each(t, Sink.Choice, c) }
func (t tee) Copy(c *Copy) error             { return each(t, Sink.Copy, c) }
func (t tee) Device(d *DeviceSpan) error     { return each(t, Sink.Device, d) }
func (t tee) Submission(s *Submission) error { return each(t, Sink.Submission, s) }
func (t tee) Remote(r *Remote) error         { return each(t, Sink.Remote, r) }
func (t tee) Fault(f *Fault) error           { return each(t, Sink.Fault, f) }
func (t tee) Memory(m *trace.Memory) error   { return each(t, Sink.Memory, m) }
func (t tee) Sched(s *trace.Sched) error     { return each(t, Sink.Sched, s) }
func (t tee) CPU(c *trace.CPUState) error    { return each(t, Sink.CPU, c) }
func (t tee) Thread(x *trace.Thread) error   { return each(t, Sink.Thread, x) }

func each[T any](t tee, take func(Sink, T) error, x T) error {
	for _, s := range t {
		if err := take(s, x); err != nil {
			return err
		}
	}
	return nil
}
