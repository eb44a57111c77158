// SPDX-License-Identifier: Apache-2.0

// Package behind feeds a sink of a replay on another core.
package behind

import (
	"sync/atomic"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/trace"
)

// Sink is a sink that hands everything on to another one in a goroutine of its own, in the same order, some
// events later, so that a replay feeds two cores. That other sink must not share what it changes with sinks
// outside, a facts.Book included, and reads of a shape what its definition tells. [Sink.Wait] must be called
// before it is finished.
type Sink struct {
	sink   profile.Sink
	batch  []event
	full   chan []event
	spare  chan []event
	ended  chan struct{}
	broken chan struct{} // closed once the other sink failed
	failed atomic.Pointer[error]
}

// event is an operator, or another call of a sink.
type event struct {
	op   *profile.Op
	call func(profile.Sink) error
}

const (
	batchSize = 2048 // events
	batches   = 8    // in the queue: both bound memory
)

// New starts handing on to a sink.
func New(s profile.Sink) *Sink {
	a := &Sink{sink: s, full: make(chan []event, batches),
		spare: make(chan []event, batches), ended: make(chan struct{}),
		broken: make(chan struct{})}
	go a.run()
	return a
}

func (a *Sink) run() {
	defer close(a.ended)
	for batch := range a.full {
		for i := range batch {
			if a.failed.Load() != nil {
				break
			}
			var err error
			if e := &batch[i]; e.op != nil {
				err = a.sink.Op(e.op)
			} else {
				err = e.call(a.sink)
			}
			if err != nil {
				a.failed.Store(&err)
				close(a.broken)
			}
		}
		clear(batch)
		select {
		case a.spare <- batch[:0]:
		default:
		}
	}
}

// Wait returns once the other sink got everything, and its error. Nothing may be handed to a afterwards.
func (a *Sink) Wait() error {
	a.send()
	close(a.full)
	<-a.ended
	return a.err()
}

func (a *Sink) err() error {
	if e := a.failed.Load(); e != nil {
		return *e
	}
	return nil
}

func (a *Sink) put(e event) error {
	if a.batch == nil {
		select {
		case a.batch = <-a.spare:
		default:
			a.batch = make([]event, 0, batchSize)
		}
	}
	if a.batch = append(a.batch, e); len(a.batch) == batchSize {
		a.send()
	}
	return a.err()
}

func (a *Sink) send() {
	if len(a.batch) > 0 {
		a.full <- a.batch
		a.batch = nil
	}
}

// now hands on a call and returns once it was taken: what it is about changes afterwards.
func (a *Sink) now(call func(profile.Sink) error) error {
	taken := make(chan struct{})
	err := a.put(event{call: func(s profile.Sink) error {
		defer close(taken)
		return call(s)
	}})
	if err != nil {
		return err
	}
	a.send()
	select {
	case <-taken:
	case <-a.broken:
	}
	return a.err()
}

// Needs are those of the other sink.
func (a *Sink) Needs() profile.Needs { return a.sink.Needs() }

// Meta takes the trace's metadata.
func (a *Sink) Meta(m *trace.Meta) {
	c := *m // the replay keeps one and replaces what is in it
	_ = a.put(event{call: func(s profile.Sink) error { s.Meta(&c); return nil }})
}

// Op takes an operator.
func (a *Sink) Op(o *profile.Op) error { return a.put(event{op: o}) }

// Graph takes a finished graph.
func (a *Sink) Graph(g *profile.Graph) error { return later(a, profile.Sink.Graph, g) }

// Step takes a finished step.
func (a *Sink) Step(x *profile.Step) error {
	if x.HandedOver { // its result follows
		return a.now(func(s profile.Sink) error { return s.Step(x) })
	}
	return later(a, profile.Sink.Step, x)
}

// Result takes a step whose results are there.
func (a *Sink) Result(x *profile.Step) error {
	return a.now(func(s profile.Sink) error { return s.Result(x) })
}

// Choice takes which experts tokens chose.
func (a *Sink) Choice(c *profile.Choice) error { return later(a, profile.Sink.Choice, c) }

// Copy takes a copy between memories.
func (a *Sink) Copy(c *profile.Copy) error { return later(a, profile.Sink.Copy, c) }

// Device takes a device's span.
func (a *Sink) Device(d *profile.DeviceSpan) error { return later(a, profile.Sink.Device, d) }

// Submission takes work that was handed to a device.
func (a *Sink) Submission(x *profile.Submission) error { return later(a, profile.Sink.Submission, x) }

// Remote takes a graph that was handed to another process.
func (a *Sink) Remote(r *profile.Remote) error { return later(a, profile.Sink.Remote, r) }

// Fault takes a page fault.
func (a *Sink) Fault(f *profile.Fault) error { return later(a, profile.Sink.Fault, f) }

// Memory takes what is mapped.
func (a *Sink) Memory(m *trace.Memory) error { return later(a, profile.Sink.Memory, m) }

// Sched takes a scheduler's event. The replay uses its place again.
func (a *Sink) Sched(e *trace.Sched) error { c := *e; return later(a, profile.Sink.Sched, &c) }

// CPU takes what the CPUs did.
func (a *Sink) CPU(c *trace.CPUState) error { return later(a, profile.Sink.CPU, c) }

// Thread takes a thread that was seen.
func (a *Sink) Thread(t *trace.Thread) error { c := *t; return later(a, profile.Sink.Thread, &c) }

func later[T any](a *Sink, take func(profile.Sink, T) error, x T) error {
	return a.put(event{call: func(s profile.Sink) error { return take(s, x) }})
}
