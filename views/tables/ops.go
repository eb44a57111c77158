// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"sync/atomic"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/trace"
)

// Rows of operators are most of what is exported: they are made and written in a goroutine of their own, beside
// the replay.

// opBatch is how many operators are handed over at once, opAhead how many batches can wait.
const (
	opBatch = 256
	opAhead = 4
)

// operator is an operator with what follows from its definition, which the replay's goroutine looks up: it
// can change what that depends on.
type operator struct {
	*profile.Op
	d *facts.Derived
}

type operators struct {
	ops  []operator
	meta *trace.Meta // when the first of them came
}

// opRows writes the rows of operators.
type opRows struct {
	write func(*operators) error // in the goroutine
	pool  *profile.OpPool        // of the replay
	batch *operators             // being filled
	full  chan *operators
	spare chan *operators
	ended chan struct{}
	err   error // of the goroutine, until it has ended
	fails atomic.Bool
	back  []*profile.Op // to give back

	closed bool
}

func newOpRows(pool *profile.OpPool, write func(*operators) error) *opRows {
	r := &opRows{write: write, pool: pool, full: make(chan *operators, opAhead),
		spare: make(chan *operators, opAhead+2), ended: make(chan struct{})}
	go r.run()
	return r
}

func (r *opRows) run() {
	defer close(r.ended)
	for b := range r.full {
		if r.err == nil {
			r.err = r.write(b)
			r.fails.Store(r.err != nil)
		}
		r.spare <- b // there are never more than it holds
	}
}

// add takes an operator. It returns false once a write has failed.
func (r *opRows) add(o *profile.Op, d *facts.Derived, meta func() *trace.Meta) bool {
	if r.batch == nil {
		r.batch = r.next()
		r.batch.meta = meta()
	}
	r.batch.ops = append(r.batch.ops, operator{o, d})
	if len(r.batch.ops) == opBatch {
		r.full <- r.batch
		r.batch = nil
	}
	return !r.fails.Load()
}

// next returns an empty batch: one that was written, whose operators the replay can use again.
func (r *opRows) next() *operators {
	select {
	case b := <-r.spare:
		r.back = r.back[:0]
		for i := range b.ops {
			r.back = append(r.back, b.ops[i].Op)
		}
		r.pool.Release(r.back)
		b.ops = b.ops[:0]
		return b
	default:
		return &operators{ops: make([]operator, 0, opBatch)}
	}
}

// close waits until everything is written, and returns the first error. It can be called again.
func (r *opRows) close() error {
	if !r.closed {
		r.closed = true
		if r.batch != nil {
			r.full <- r.batch
		}
		close(r.full)
	}
	<-r.ended
	return r.err
}

// rowsOfOps makes the function that writes a batch's rows; nil for tables that have none of operators.
func (e *exporter) rowsOfOps() func(*operators) error {
	switch e.name {
	case "ops":
		return e.writeOps
	case "op_threads":
		return e.writeOpThreads
	}
	return nil
}

func (e *exporter) writeOps(b *operators) error {
	e.now = b.meta
	for i := range b.ops {
		if err := e.out.Write(e.op(&b.ops[i])); err != nil {
			return err
		}
	}
	return nil
}

// threadRow is a row with room for what its pointers point to.
type threadRow struct {
	OpThreadRow
	ith, busy, wait, offCPU int64
}

// put returns where v was put, or nil if it is not known.
func put(at *int64, known bool, v int64) *int64 {
	if !known {
		return nil
	}
	*at = v
	return at
}

func (e *exporter) writeOpThreads(b *operators) error {
	e.now = b.meta
	r := &e.thread
	for i := range b.ops {
		o := b.ops[i].Op
		for k := range o.Threads {
			t := &o.Threads[k]
			// For a thread that was not seen to arrive only its begin is known, and for the others it is
			// unknown how long they waited for it.
			known := !o.Incomplete || t.Busy != 0 || t.Wait != 0 || t.OffCPU != 0
			r.OpThreadRow = OpThreadRow{OpID: o.ID, TID: int64(t.TID), CPU: int64(t.CPU), StartNs: t.Start,
				Ith:      put(&r.ith, t.Ith != profile.UnknownIth, int64(t.Ith)),
				BusyNs:   put(&r.busy, known, t.Busy),
				WaitNs:   put(&r.wait, !o.Incomplete, t.Wait),
				OffCPUNs: put(&r.offCPU, known && e.offCPUKnown(), t.OffCPU), Counts: t.Counts}
			if err := e.out.Write(&r.OpThreadRow); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *exporter) op(of *operator) *OpRow {
	o, d := of.Op, of.d
	whole := !o.Incomplete
	r := &OpRow{OpID: o.ID, Node: int64(o.Node), Op: o.Op, StartNs: o.Start, ProbeNs: o.Probe, DurNs: o.Dur,
		Threads: int64(len(o.Threads)),
		BusyNs:  when(whole, o.Busy), WaitNs: when(whole, o.Wait), OffCPUNs: when(whole && e.offCPUKnown(),
			o.OffCPU),
		Weight: some(d.Weight, ""), WeightType: some(d.WeightType, ""), Block: some(string(d.Block),
			""), Bytes: d.Bytes, Flops: d.Flops, Counts: o.Counts}
	if d.Layer != nil {
		r.Layer = when(true, int64(*d.Layer))
	}
	if whole {
		r.Imbalance = some(o.Imbalance(), -1)
	}
	if o.Step != nil {
		r.Step = count(o.Step.ID)
	}
	if o.Graph != nil {
		r.Graph, r.Backend = count(o.Graph.ID), some(o.Graph.Backend, "")
	}
	if o.Shape != nil && o.Shape.Shape != nil {
		r.Shape = count(o.Shape.Index)
		if o.Node >= 0 && int(o.Node) < len(o.Shape.Nodes) {
			n := &o.Shape.Nodes[o.Node]
			r.Name, r.Type = &n.Name, some(n.Type, "")
			r.Ne0, r.Ne1, r.Ne2, r.Ne3 = &n.Ne[0], &n.Ne[1], &n.Ne[2], &n.Ne[3]
		}
	}
	return r
}
