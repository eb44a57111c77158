// SPDX-License-Identifier: Apache-2.0

package profile

import "github.com/profinfer/profinfer/trace"

// Tee returns a sink that hands everything to each of the sinks, in their order. The first error ends
// it. Sinks share what they get and must not change it.
func Tee(sinks ...Sink) Sink { return tee(sinks) }

type tee []Sink

func (t tee) Op(o *Op) error             { return each(t, func(s Sink) error { return s.Op(o) }) }
func (t tee) Graph(g *Graph) error       { return each(t, func(s Sink) error { return s.Graph(g) }) }
func (t tee) Step(st *Step) error        { return each(t, func(s Sink) error { return s.Step(st) }) }
func (t tee) Sched(e *trace.Sched) error { return each(t, func(s Sink) error { return s.Sched(e) }) }

func (t tee) Meta(m *trace.Meta) {
	for _, s := range t {
		if s, ok := s.(MetaSink); ok {
			s.Meta(m)
		}
	}
}

// Choice hands a choice of experts to those that take them.
func (t tee) Choice(c *Choice) error {
	return each(t, func(s Sink) error {
		if s, ok := s.(ChoiceSink); ok {
			return s.Choice(c)
		}
		return nil
	})
}

func each(t tee, f func(Sink) error) error {
	for _, s := range t {
		if err := f(s); err != nil {
			return err
		}
	}
	return nil
}

// Thread hands it to those of the sinks that take it.
func (t tee) Thread(x *trace.Thread) error {
	return each(t, func(s Sink) error {
		if k, ok := s.(ThreadSink); ok {
			return k.Thread(x)
		}
		return nil
	})
}

// ThreadSink is a sink that takes what is told of threads too, as it stands in the trace: within a second or so of the events of its time.
type ThreadSink interface {
	Sink
	Thread(*trace.Thread) error
}

// CPUSink is a sink that takes what the kernel told of the machine's CPUs too. It comes as it stands in the trace: within a second or so
// of the steps of its time, before or after them.
type CPUSink interface {
	Sink
	CPU(*trace.CPUState) error
}

// CPU hands it to those of the sinks that take it.
func (t tee) CPU(c *trace.CPUState) error {
	for _, s := range t {
		if k, ok := s.(CPUSink); ok {
			if err := k.CPU(c); err != nil {
				return err
			}
		}
	}
	return nil
}
