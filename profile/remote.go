// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"encoding/binary"
	"hash/fnv"
	"slices"

	"github.com/profinfer/profinfer/profile/internal/limits"
	"github.com/profinfer/profinfer/trace"
)

// Remote is a graph that one process handed to another one on this machine (ggml's RPC backend), with the
// graph that the other process computed for it. Both are timed by the same clock.
type Remote struct {
	Client, Server *Graph
	// Done is when a client thread had waited for it, ns; 0: not seen. Waited is how long it waited.
	Done, Waited int64
	// Queued is the part of Sent in which the server still computed a graph that it had received before.
	Queued int64
}

// Sent is the time from when the client began to hand the graph over to when the server began to compute it:
// serialising, sending, reading, building the graph, and waiting for the previous graph (Queued).
func (r *Remote) Sent() int64 { return r.Server.Start - r.Client.Start }

// Answered is the time from the server's end to when the client knew of it; false: not seen.
func (r *Remote) Answered() (int64, bool) {
	return r.Done - r.Server.Start - r.Server.Dur, r.Done != 0
}

const (
	// maxCalls bounds the graphs of one backend that wait for their server graph. It never comes from a
	// server on another machine.
	maxCalls = 1 << 10
	// maxRemoteOpen bounds the graphs whose client was not seen to wait.
	maxRemoteOpen = 1 << 8
	// maxRemoteQueues bounds the backends that hand graphs over.
	maxRemoteQueues = 1 << 8
)

// remoteLinks joins graphs that were handed over with those that other processes computed for them. One
// backend object's graphs are computed in the order in which they were handed over. The next graph of another
// process with the same operators, types and dimensions is therefore the oldest one that still waits.
// Addresses differ between the processes; tensor names are transferred and decide between candidates.
type remoteLinks struct {
	queues []*remoteQueue
	kinds  map[*Shape]remoteKind
	served map[*Graph]*remoteCall
	last   map[int32]int64 // by server thread: end of its latest graph that was handed over
}

// remoteQueue holds what one backend object of a process handed over.
type remoteQueue struct {
	pid    int32
	device uint64
	server int32         // the thread that computed its latest graph
	calls  []*remoteCall // not yet begun by a server
	open   []*remoteCall // begun, and not waited for
}

// remoteCall is one graph that was handed over.
type remoteCall struct {
	x      *exec
	ended  bool // the client's call ended
	remote *Remote
	served bool // the server's graph ended
	done   int64
	waited int64
}

// remoteKind identifies a graph definition across processes.
type remoteKind struct {
	nodes       int
	work, names uint64 // hashes: of operators, types and dimensions; of names
}

// kind returns the identity of a graph definition, independent of addresses.
func (l *remoteLinks) kind(s *Shape) remoteKind {
	if k, ok := l.kinds[s]; ok {
		return k
	}
	work, names := fnv.New64a(), fnv.New64a()
	var b [8]byte
	n := min(s.NNodes, len(s.Nodes))
	for i := range n {
		d := &s.Nodes[i]
		work.Write([]byte(d.Op))
		work.Write([]byte{0})
		work.Write([]byte(d.Type))
		work.Write([]byte{0})
		for _, ne := range d.Ne {
			binary.LittleEndian.PutUint64(b[:], uint64(ne))
			work.Write(b[:])
		}
		names.Write([]byte(d.Name))
		names.Write([]byte{0})
	}
	k := remoteKind{n, work.Sum64(), names.Sum64()}
	if l.kinds == nil || len(l.kinds) >= limits.Pending {
		l.kinds = map[*Shape]remoteKind{}
	}
	l.kinds[s] = k
	return k
}

// fits reports whether g can be what was handed over with x, and whether the names match too. Of a graph
// without a definition only the number of nodes is known.
func (l *remoteLinks) fits(x *exec, g *Graph) (fits, named bool) {
	if x.shape == nil || g.Shape == nil {
		return x.g.NNodes > 0 && x.g.NNodes == g.NNodes, false
	}
	a, b := l.kind(x.shape), l.kind(g.Shape)
	return a.nodes == b.nodes && a.work == b.work, a.names == b.names
}

// call notes a graph that is being handed over.
func (l *remoteLinks) call(q *Proc, x *exec) {
	i := slices.IndexFunc(l.queues, func(e *remoteQueue) bool {
		return e.pid == q.pid && e.device == x.device
	})
	if i < 0 {
		if len(l.queues) >= maxRemoteQueues {
			l.queues = slices.Delete(l.queues, 0, 1)
		}
		i = len(l.queues)
		l.queues = append(l.queues, &remoteQueue{pid: q.pid, device: x.device})
	}
	e := l.queues[i]
	if len(e.calls) >= maxCalls {
		e.calls = slices.Delete(e.calls, 0, 1)
	}
	c := &remoteCall{x: x}
	e.calls = append(e.calls, c)
	x.remote = c
}

// serve finds the client for which a process begins a graph that belongs to no step of its own.
func (p *replayer) serve(q *Proc, g *Graph) error {
	l := &p.remote
	var from *remoteQueue
	at, rank := 0, -1
	for _, e := range l.queues {
		if e.pid == q.pid {
			continue
		}
		p.outdated(e, q, g.Start)
		for i, c := range e.calls {
			fits, named := l.fits(c.x, g)
			// a later one only if the names match too: then those before it were not seen
			if fits && (i == 0 || named) {
				r := 0
				if named {
					r += 2
				}
				if e.server == g.TID {
					r++
				}
				if r > rank || r == rank && c.x.g.Start < from.calls[at].x.g.Start {
					from, at, rank = e, i, r
				}
				break
			}
		}
	}
	if from == nil {
		return nil
	}
	c := from.calls[at]
	from.calls = from.calls[at+1:]
	from.server = g.TID
	q.thread(g.TID).serves = true
	c.remote = &Remote{Client: c.x.g, Server: g}
	if end := l.last[g.TID]; end > c.x.g.Start {
		c.remote.Queued = min(end, g.Start) - c.x.g.Start
	}
	g.Caller = c.x.g
	if c.x.step != nil {
		g.CallerStep = c.x.step.Step
	}
	if l.served == nil {
		l.served = map[*Graph]*remoteCall{}
	}
	l.served[g] = c
	from.open = append(from.open, c)
	for len(from.open) > maxRemoteOpen && from.open[0].ended && from.open[0].served {
		if err := p.handOnRemote(from.open[0]); err != nil {
			return err
		}
	}
	return nil
}

// outdated drops what process q cannot be starting now: what its client has already waited for, what was
// handed over before q was watched, and what precedes a loss of boundary events, after which the order means
// nothing.
func (p *replayer) outdated(e *remoteQueue, q *Proc, now int64) {
	var since int64
	if len(q.attached) > 0 {
		since = q.attached[0]
	}
	for i := range p.h.Losses {
		if x := &p.h.Losses[i]; x.Lost(trace.LostMarks) && x.Start <= now {
			since = max(since, x.End)
		}
	}
	e.calls = slices.DeleteFunc(e.calls, func(c *remoteCall) bool {
		return c.done != 0 || c.x.g.Start < since
	})
}

// remoteEnd handles the end of a graph that was handed over, or computed for another process.
func (p *replayer) remoteEnd(x *exec) error {
	l := &p.remote
	if c := x.remote; c != nil {
		c.ended = true
		if c.remote != nil {
			return p.settle(c)
		}
		return nil
	}
	c := l.served[x.g]
	if c == nil {
		return nil
	}
	delete(l.served, x.g)
	c.served = true
	if l.last == nil || len(l.last) >= limits.Pending {
		l.last = map[int32]int64{}
	}
	l.last[x.g.TID] = x.g.Start + x.g.Dur
	return p.settle(c)
}

// settle emits a remote graph for which nothing more can come.
func (p *replayer) settle(c *remoteCall) error {
	if !c.ended || !c.served {
		return nil
	}
	r := c.remote
	if end := r.Client.Start + r.Client.Dur; end >= r.Server.Start+r.Server.Dur && c.done == 0 {
		c.done = end // the call itself waits
		if err := p.came(p.proc(r.Client.PID), end, func(a awaitedGraph) bool {
			return a.g == r.Client
		}); err != nil {
			return err
		}
	}
	if c.done == 0 {
		return nil
	}
	return p.handOnRemote(c)
}

// remoteSynced handles that a thread of process q waited for a backend from since until now: everything
// handed over before is done. What was handed over last is known to be done only now.
func (p *replayer) remoteSynced(q *Proc, device uint64, since, now int64) error {
	for _, e := range p.remote.queues {
		if e.pid != q.pid || e.device != device {
			continue
		}
		before := func(c *remoteCall) bool { return c.ended && c.x.g.Start+c.x.g.Dur <= since && c.done == 0 }
		for _, c := range e.calls {
			if before(c) {
				c.done, c.waited = now, now-since
			}
		}
		ready := slices.Clone(e.open)
		for i, c := range ready {
			switch {
			case !before(c):
			case !c.served:
				c.done, c.waited = now, now-since // its end is about to be seen, or was not seen
			case i+1 < len(ready) && before(ready[i+1]): // a thread waited for a later one
				if err := p.handOnRemote(c); err != nil {
					return err
				}
			default:
				c.done, c.waited = now, now-since
				if err := p.settle(c); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// handOnRemote emits a remote graph, unless its client knew the result before it was computed.
func (p *replayer) handOnRemote(c *remoteCall) error {
	for _, e := range p.remote.queues {
		e.open = slices.DeleteFunc(e.open, func(x *remoteCall) bool { return x == c })
	}
	r := c.remote
	if c.done != 0 && c.done < r.Server.Start+r.Server.Dur {
		return nil
	}
	r.Done, r.Waited = c.done, c.waited
	return p.sink.Remote(r)
}

// remoteRest emits what no thread was seen to wait for.
func (p *replayer) remoteRest() error {
	for _, e := range p.remote.queues {
		for _, c := range slices.Clone(e.open) {
			if c.ended && c.served {
				if err := p.handOnRemote(c); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// HandedOver reports whether another process computes the graph: its backend only forwards it.
func (g *Graph) HandedOver() bool { return g.Vocabulary().HandsOver(g.Backend) }
