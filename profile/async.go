// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"sync/atomic"

	"github.com/profinfer/profinfer/trace"
)

// Async is a sink that hands everything on to another one in a goroutine of its own, in the same order, some
// events later, so that a replay feeds two cores. That other sink must not share what it changes with sinks
// outside, a facts.Book included, and reads of a shape what its definition tells. [Async.Wait] must be called
// before it is finished.
type Async struct {
	sink   Sink
	batch  []asyncEvent
	full   chan []asyncEvent
	spare  chan []asyncEvent
	ended  chan struct{}
	broken chan struct{} // closed once the other sink failed
	failed atomic.Pointer[error]
}

// asyncEvent is an operator, or another call of a sink.
type asyncEvent struct {
	op   *Op
	call func(Sink) error
}

const (
	asyncEvents  = 2048 // of a batch
	asyncBatches = 8    // on their way. Both bound memory
)

// NewAsync starts handing on to a sink.
func NewAsync(s Sink) *Async {
	a := &Async{sink: s, full: make(chan []asyncEvent, asyncBatches),
		spare: make(chan []asyncEvent, asyncBatches), ended: make(chan struct{}),
		broken: make(chan struct{})}
	go a.run()
	return a
}

func (a *Async) run() {
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
func (a *Async) Wait() error {
	a.send()
	close(a.full)
	<-a.ended
	return a.err()
}

func (a *Async) err() error {
	if e := a.failed.Load(); e != nil {
		return *e
	}
	return nil
}

func (a *Async) put(e asyncEvent) error {
	if a.batch == nil {
		select {
		case a.batch = <-a.spare:
		default:
			a.batch = make([]asyncEvent, 0, asyncEvents)
		}
	}
	if a.batch = append(a.batch, e); len(a.batch) == asyncEvents {
		a.send()
	}
	return a.err()
}

func (a *Async) send() {
	if len(a.batch) > 0 {
		a.full <- a.batch
		a.batch = nil
	}
}

// now hands on a call and returns once it was taken: what it is about changes afterwards.
func (a *Async) now(call func(Sink) error) error {
	taken := make(chan struct{})
	if err := a.put(asyncEvent{call: func(s Sink) error { defer close(taken); return call(s) }}); err != nil {
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
func (a *Async) Needs() Needs { return a.sink.Needs() }

// Meta takes the trace's metadata.
func (a *Async) Meta(m *trace.Meta) {
	c := *m // the replay keeps one and replaces what is in it
	_ = a.put(asyncEvent{call: func(s Sink) error { s.Meta(&c); return nil }})
}

// Op takes an operator.
func (a *Async) Op(o *Op) error { return a.put(asyncEvent{op: o}) }

// Graph takes a finished graph.
func (a *Async) Graph(g *Graph) error { return later(a, Sink.Graph, g) }

// Step takes a finished step.
func (a *Async) Step(x *Step) error {
	if x.HandedOver { // its result follows
		return a.now(func(s Sink) error { return s.Step(x) })
	}
	return later(a, Sink.Step, x)
}

// Result takes a step whose results are there.
func (a *Async) Result(x *Step) error { return a.now(func(s Sink) error { return s.Result(x) }) }

// Choice takes which experts tokens chose.
func (a *Async) Choice(c *Choice) error { return later(a, Sink.Choice, c) }

// Copy takes a copy between memories.
func (a *Async) Copy(c *Copy) error { return later(a, Sink.Copy, c) }

// Device takes a device's span.
func (a *Async) Device(d *DeviceSpan) error { return later(a, Sink.Device, d) }

// Submission takes work that was handed to a device.
func (a *Async) Submission(x *Submission) error { return later(a, Sink.Submission, x) }

// Remote takes a graph that was handed to another process.
func (a *Async) Remote(r *Remote) error { return later(a, Sink.Remote, r) }

// Fault takes a page fault.
func (a *Async) Fault(f *Fault) error { return later(a, Sink.Fault, f) }

// Memory takes what is mapped.
func (a *Async) Memory(m *trace.Memory) error { return later(a, Sink.Memory, m) }

// Sched takes a scheduler's event. The replay uses its place again.
func (a *Async) Sched(e *trace.Sched) error { c := *e; return later(a, Sink.Sched, &c) }

// CPU takes what the CPUs did.
func (a *Async) CPU(c *trace.CPUState) error { return later(a, Sink.CPU, c) }

// Thread takes a thread that was seen.
func (a *Async) Thread(t *trace.Thread) error { c := *t; return later(a, Sink.Thread, &c) }

func later[T any](a *Async, take func(Sink, T) error, x T) error {
	return a.put(asyncEvent{call: func(s Sink) error { return take(s, x) }})
}
