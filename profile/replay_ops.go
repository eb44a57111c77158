// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"slices"

	"github.com/profinfer/profinfer/trace"
)

// Operators from begins and arrivals, as they arrive.

// find returns the open graph that the tensor belongs to, and the tensor's node.
func (q *Proc) find(t *thread, addr uint64) (*exec, int32) {
	if x := t.exec; x != nil && !x.closed && x.shape != nil && x.watch.Ops == trace.WatchBoth {
		if n := x.node(addr); n >= 0 {
			return x, n
		}
	}
	for i := len(q.open) - 1; i >= 0; i-- {
		if x := q.open[i]; x.shape != nil && x.watch.Ops == trace.WatchBoth {
			if n := x.node(addr); n >= 0 {
				return x, n
			}
		}
	}
	return nil, -1
}

// node returns the number of the tensor at addr, -1 if it is not in the graph. It is mostly that of the
// current operator, or of the one that followed it the last time.
func (x *exec) node(addr uint64) int32 {
	sh := x.shape
	if o := x.cur; o != nil {
		if sh.Nodes[o.Node].Addr == addr {
			return o.Node
		}
		if n := sh.after[o.Node]; n >= 0 && sh.Nodes[n].Addr == addr {
			return n
		}
	}
	n, ok := sh.ByAddr[addr]
	if !ok {
		return -1
	}
	if o := x.cur; o != nil {
		sh.after[o.Node] = n
	}
	return n
}

func (p *replayer) opBegin(q *Proc, t *thread, x *exec, n int32, h *trace.Hit) error {
	o := x.cur
	if o == nil || o.Node != n || t.exec == x && t.begun == x.begun || t.exec != x && o.has(t.tid) {
		if err := p.opDone(q, x, h.Time); err != nil {
			return err
		}
		p.nextOp++
		o = p.ops.take(q.team(h))
		o.ID, o.Graph, o.Shape, o.Node, o.Start, o.Op = p.nextOp, x.g, x.shape, n, h.Time, x.shape.Nodes[n].Op
		if x.step != nil {
			o.Step = x.step.Step
		}
		x.cur, x.ends = o, x.ends[:0]
		x.begun++
		x.shape.Executed[n] = true
		x.last = max(x.last, n)
	}
	if nth := q.team(h); nth > len(o.Threads) && nth > cap(o.Threads) {
		o.Threads = append(p.ops.team(nth), o.Threads...)
	}
	o.Threads = append(o.Threads, OpThread{TID: h.TID, Ith: h.Ith, CPU: h.CPU, Start: h.Time})
	x.ends = append(x.ends, 0)
	o.Team = max(o.Team, int(h.Nth))
	t.exec, t.begun, t.slot, t.offAt, t.blockedAt, t.in, t.ranOp = x, x.begun, len(o.Threads)-1,
		t.off.sum, t.off.blocked, true, true
	if p.count.All != nil {
		t.meter.Begin(&p.count, p.count.Take(h))
	}
	return nil
}

// team is the number of threads to make room for in the operator that a hit begins: as many as the hit
// reports, but not more than were seen in the process.
func (q *Proc) team(h *trace.Hit) int { return min(int(h.Nth), len(q.threads)) }

func (o *Op) has(tid int32) bool {
	for i := range o.Threads {
		if o.Threads[i].TID == tid {
			return true
		}
	}
	return false
}

// fusedWith adds a node to the operator that the thread has just begun.
func (p *replayer) fusedWith(q *Proc, t *thread, h *trace.Hit) {
	if !t.in || t.exec == nil || t.exec.cur == nil {
		return // of a begin that was counted already
	}
	x, o := t.exec, t.exec.cur
	n, ok := x.shape.ByAddr[h.Arg]
	if !ok {
		p.unmatched.add(h.Time)
		return
	}
	for _, f := range o.Fused {
		if f == n {
			return
		}
	}
	f := &x.shape.fusions[n]
	if k := len(f.nodes) - 1; k < 0 || f.before != o.Op || !slices.Equal(f.nodes[:k], o.Fused) {
		*f = fusion{before: o.Op, op: o.Op + "+" + x.shape.Nodes[n].Op,
			nodes: append(slices.Clip(o.Fused), n)}
	}
	o.Op, o.Fused = f.op, slices.Clip(f.nodes)
	x.shape.Executed[n] = true
	x.shape.FusedInto[n] = o.Node
	x.last = max(x.last, n)
}

func (p *replayer) opEnd(t *thread, h *trace.Hit) {
	if !t.in || t.exec == nil || t.exec.cur == nil || t.slot >= len(t.exec.ends) {
		// a tensor without elements passes the barrier too, and the closing barrier follows that of the last
		// operator
		return
	}
	x := t.exec
	th := &x.cur.Threads[t.slot]
	if th.TID == t.tid && x.ends[t.slot] == 0 {
		x.ends[t.slot] = h.Time
		th.OffCPU, th.Blocked = t.off.sum-t.offAt, t.off.blocked-t.blockedAt
		th.Busy = h.Time - th.Start - th.OffCPU
		if p.count.All != nil {
			counts, scaled := t.meter.End(&p.count, p.count.Take(h))
			th.Counts, x.cur.Scaled = counts, x.cur.Scaled || scaled
		}
	}
	t.in = false
}

// opDone completes the current operator: all its threads have arrived, or what is missing was lost. Where
// arrivals cannot be probed (an inlined barrier), it lasts until now: the begin of the next operator or the
// graph's end.
func (p *replayer) opDone(q *Proc, x *exec, now int64) error {
	o := x.cur
	if o == nil {
		return nil
	}
	x.cur = nil
	if !q.ends {
		for i := range o.Threads {
			x.ends[i] = now
			o.Threads[i].Busy = now - o.Threads[i].Start
		}
	}
	var last int64
	for i := range o.Threads {
		if x.ends[i] == 0 {
			o.Incomplete = true
			continue
		}
		last = max(last, x.ends[i])
	}
	if last == 0 {
		if o.ID == p.nextOp { // otherwise one of another graph has begun since
			p.nextOp--
		}
		return nil // no thread was seen to arrive: its time is unknown
	}
	o.Dur = last - o.Start
	for i := range o.Threads {
		if x.ends[i] == 0 {
			continue
		}
		o.Threads[i].Wait = last - x.ends[i]
		o.Busy += o.Threads[i].Busy
		o.OffCPU += o.Threads[i].OffCPU
		o.Wait += o.Threads[i].Wait
	}
	if n := len(p.count.All); n > 0 {
		for i := range o.Threads {
			o.addCounts(o.Threads[i].Counts, n)
		}
	}
	if o.Team > len(o.Threads) && len(p.filter.TIDs) == 0 {
		o.Incomplete = true
	}
	return p.opSeen(x, o)
}

// opSeen emits an operator.
func (p *replayer) opSeen(x *exec, o *Op) error {
	o.Probe = min(p.hitCost, o.Dur)
	x.g.Ops++
	if x.step != nil {
		x.step.Ops++
		x.step.OpsDur += o.Dur
		if o.Incomplete && x.step.Incomplete == "" {
			x.step.Incomplete = "operators that were not seen on all threads"
		}
	}
	p.faults.op(o)
	if err := p.chosen(x, o); err != nil {
		return err
	}
	return p.sink.Op(o)
}

// OpPool allocates a replay's operators. A run has millions of them, so they are allocated in groups; a group
// is freed once none of it is in use. The zero value is ready to use.
type OpPool struct {
	spare []*Op
	ops   []Op
	teams []OpThread
}

const poolGroup = 48

// maxSpare bounds the operators kept for reuse.
const maxSpare = 1 << 13

// Release takes back operators that are no longer used. A nil pool leaves them to their users.
func (p *OpPool) Release(ops []*Op) {
	if p == nil {
		return
	}
	p.spare = append(p.spare, ops[:min(len(ops), maxSpare-len(p.spare))]...)
}

// take returns a zero operator with room for a team's threads.
func (p *OpPool) take(team int) *Op {
	var o *Op
	if n := len(p.spare) - 1; n >= 0 {
		o, p.spare = p.spare[n], p.spare[:n]
		*o = Op{Threads: o.Threads[:0]}
	} else {
		if len(p.ops) == 0 {
			p.ops = make([]Op, poolGroup)
		}
		o, p.ops = &p.ops[0], p.ops[1:]
	}
	if team > cap(o.Threads) {
		o.Threads = p.team(team)
	}
	return o
}

// team returns room for n threads.
func (p *OpPool) team(n int) []OpThread {
	if n >= poolGroup {
		return make([]OpThread, 0, n)
	}
	if n > len(p.teams) {
		p.teams = make([]OpThread, poolGroup)
	}
	t := p.teams[:0:n]
	p.teams = p.teams[n:]
	return t
}
