// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"maps"
	"slices"

	"github.com/profinfer/profinfer/trace"
)

// Queue is a queue of a device, as the device's own interface defines it (a Vulkan queue, a CUDA stream).
type Queue struct {
	PID     int32
	ID      int    // number in its process, from 1, in order of first use
	Device  int    // number of its device in its process, from 1; 0: unknown
	Backend string // whose graphs it ran; empty: none of a graph so far
}

// Submission is one call that submitted work to a queue.
type Submission struct {
	Queue *Queue
	TID   int32
	Graph *Graph // during which it was called; nil: none, as for copies
	Step  int64  // 0: outside any step
	Entry string // the function called
	Start int64  // of the call, ns
	Call  int64  // its duration, ns; -1: its return was not seen
	Work  int32  // batches of work; 0: none, a fence to wait for; -1: unknown
	// Begin is when the device could begin: at Start, or when the work before it on its queue was seen done.
	// Done is when the host knew that it was done, ns: an upper bound. 0: not seen.
	Begin, Done int64
	// By is the function that reported completion, "synchronize" for the backend's own.
	By string
}

const (
	maxQueues    = 1024
	maxOpen      = 1 << 14 // submissions of a queue that no thread waited for
	maxOpens     = 1 << 17 // in all queues of a process
	maxBusySpans = 1 << 12 // disjoint spans of one graph
	// bySync is the value of Submission.By for waits in the backend's own function.
	bySync = "synchronize"
)

// queueKey identifies a queue.
type queueKey struct{ handle, device uint64 }

// queue is a queue with its open submissions, in order. A queue executes in order, so a completed submission
// implies that all before it are complete.
type queue struct {
	Queue
	device uint64 // its handle
	open   []openSubmission
	done   int64 // when the latest completion was seen
}

type openSubmission struct {
	*Submission
	token uint64 // signals its completion; 0: none
	x     *handed
}

// handed is a graph that was handed to a device.
type handed struct {
	g      *Graph
	object uint64 // the backend
	device uint64 // its handle; 0: unknown
	queue  *Queue
	subs   int
	left   int // submissions that are not known to be done
	closed bool
	torn   bool // not all of it was seen
	told   bool // its span was emitted
	call   int64
	begin  int64
	done   int64
	spans  []interval // in which the device was busy with it, ascending and disjoint
	tid    int32
	waited int64
	by     string
}

type interval struct{ from, to int64 }

// add adds an interval to the union; intervals come in order of their ends.
func (h *handed) add(from, to int64) {
	for n := len(h.spans); n > 0 && h.spans[n-1].to >= from; n = len(h.spans) {
		from = min(from, h.spans[n-1].from)
		h.spans = h.spans[:n-1]
	}
	if len(h.spans) >= maxBusySpans {
		h.torn = true
		return
	}
	h.spans = append(h.spans, interval{from, to})
}

func (h *handed) busy() (sum int64) {
	for _, s := range h.spans {
		sum += s.to - s.from
	}
	return sum
}

// waiting is a call in progress that waits for work of queues.
type waiting struct {
	since                int64
	entry                string
	covers               trace.Covers
	queue, token, device uint64
	n                    int32
}

// queueMark handles the boundary events of queues.
func (p *replayer) queueMark(q *Proc, t *thread, m *trace.Mark) error {
	_, entry, _ := backendOf(q, m.Site)
	switch m.Kind {
	case trace.MarkSubmitBegin:
		return p.submitBegin(q, t, m, entry)
	case trace.MarkSubmitEnd:
		p.submitEnd(q, t, m)
	case trace.MarkWaitBegin:
		t.wait = waiting{m.Time, entry, coversOf(q, m.Site), m.Queue(), m.Fence(), m.Device(), m.Fences()}
	case trace.MarkWaitEnd:
		w := t.wait
		t.wait = waiting{}
		if w.since == 0 || w.entry != entry || m.Failed() {
			return nil // it began before the recording, or reports that it is not done
		}
		return p.waited(q, t, &w, m.Time)
	case trace.MarkDone:
		return p.tokenDone(q, t, m.Fence(), m.Device(), m.Time, entry, 0)
	}
	return nil
}

func coversOf(q *Proc, site uint32) trace.Covers {
	if q.info == nil || int(site) >= len(q.info.Sites) {
		return ""
	}
	return q.info.Sites[site].Covers
}

// queueOf returns a queue, or nil if there are too many.
func (q *Proc) queueOf(handle, device uint64) *queue {
	k := queueKey{handle, device}
	if u := q.queues[k]; u != nil {
		return u
	}
	if len(q.queues) >= maxQueues {
		return nil
	}
	if q.queues == nil {
		q.queues = map[queueKey]*queue{}
	}
	u := &queue{Queue: Queue{PID: q.pid, ID: len(q.queues) + 1}, device: device}
	for _, o := range q.order {
		if device != 0 && o.device == device {
			u.Device, u.Backend = o.Device, o.Backend
		}
	}
	if u.Device == 0 && device != 0 {
		q.nDevices++
		u.Device = q.nDevices
	}
	q.queues[k] = u
	q.order = append(q.order, u)
	return u
}

func (p *replayer) submitBegin(q *Proc, t *thread, m *trace.Mark, entry string) error {
	t.submitting = nil
	u := q.queueOf(m.Queue(), m.Device())
	if u == nil {
		return nil
	}
	if len(u.open) >= maxOpen { // nothing waits, or the waits are not seen
		if err := p.giveUp(q, u); err != nil {
			return err
		}
	}
	if q.opens >= maxOpens {
		for _, u := range q.order {
			if err := p.giveUp(q, u); err != nil {
				return err
			}
		}
	}
	s := &Submission{Queue: &u.Queue, TID: m.TID, Entry: entry, Start: m.Time, Call: -1, Work: m.Batches()}
	o := openSubmission{Submission: s, token: m.Fence()}
	if st := t.step(); st != nil {
		s.Step = st.ID
	}
	if n := len(t.execs); n > 0 && t.execs[n-1].device != 0 && !q.computes(t.execs[n-1].g.Backend) {
		x := t.execs[n-1]
		if x.handed == nil {
			x.handed = &handed{g: x.g, object: x.device, begin: m.Time}
		}
		h := x.handed
		h.queue, h.device = &u.Queue, u.device
		h.subs++
		h.left++
		s.Graph, o.x = x.g, h
		for _, o := range q.order {
			if o == u || o.device == u.device && u.device != 0 && o.Backend == "" {
				o.Backend = x.g.Backend
			}
		}
	}
	u.open = append(u.open, o)
	q.opens++
	t.submitting = s
	return nil
}

// submitEnd notes how long the call took; a failed call submitted nothing.
func (p *replayer) submitEnd(q *Proc, t *thread, m *trace.Mark) {
	s := t.submitting
	t.submitting = nil
	if _, entry, _ := backendOf(q, m.Site); s == nil || s.Entry != entry {
		return
	}
	s.Call = m.Time - s.Start
	for _, u := range q.order {
		if &u.Queue != s.Queue {
			continue
		}
		i := len(u.open) - 1
		for i >= 0 && u.open[i].Submission != s { // others may have begun since
			i--
		}
		if i < 0 {
			return
		}
		h := u.open[i].x
		if h != nil {
			h.call += s.Call
		}
		if m.Failed() {
			u.open = slices.Delete(u.open, i, i+1)
			q.opens--
			if h != nil {
				h.subs--
				h.left--
			}
		}
		return
	}
}

// giveUp drops a queue's submissions: their completion can no longer be determined.
func (p *replayer) giveUp(q *Proc, u *queue) error {
	q.opens -= len(u.open)
	for _, o := range u.open {
		if o.x != nil {
			o.x.torn = true
		}
		if err := p.sink.Submission(o.Submission); err != nil {
			return err
		}
	}
	u.open = u.open[:0]
	return nil
}

// waited handles the return of a call that waited since a time.
func (p *replayer) waited(q *Proc, t *thread, w *waiting, now int64) error {
	switch w.covers {
	case trace.CoversToken:
		if w.n > 1 { // which of them, if not all, is unknown
			return nil
		}
		return p.tokenDone(q, t, w.token, w.device, now, w.entry, w.since)
	case trace.CoversQueue:
		if w.n == 0 { // it did not wait
			return nil
		}
		for _, u := range q.order {
			if k := (queueKey{w.queue, w.device}); q.queues[k] == u {
				return p.doneUntil(q, t, u, before(u, w.since), now, w.entry, w.since)
			}
		}
	case trace.CoversDevice:
		if w.device == 0 && !q.oneBackend() {
			return nil // its device is unknown
		}
		for _, u := range q.order {
			if u.device != w.device {
				continue
			}
			if err := p.doneUntil(q, t, u, before(u, w.since), now, w.entry, w.since); err != nil {
				return err
			}
		}
	}
	return nil
}

// oneBackend reports whether all queues with work belong to one backend.
func (q *Proc) oneBackend() bool {
	name := ""
	for _, u := range q.order {
		if len(u.open) == 0 || u.Backend == "" {
			continue
		}
		if name != "" && u.Backend != name {
			return false
		}
		name = u.Backend
	}
	return true
}

// before counts the submissions of a queue that began before a time.
func before(u *queue, t int64) int {
	n := slices.IndexFunc(u.open, func(o openSubmission) bool { return o.Start > t })
	if n < 0 {
		return len(u.open)
	}
	return n
}

// tokenDone completes the latest submission with a handle. since is when a thread began to wait for it, 0:
// none did.
func (p *replayer) tokenDone(q *Proc, t *thread, token, device uint64, now int64, by string,
	since int64) error {
	if token == 0 {
		return nil
	}
	for _, u := range q.order {
		if u.device != device {
			continue
		}
		for i := len(u.open) - 1; i >= 0; i-- {
			if u.open[i].token == token {
				return p.doneUntil(q, t, u, i+1, now, by, since)
			}
		}
	}
	return nil
}

// doneUntil completes a queue's first n submissions.
func (p *replayer) doneUntil(q *Proc, t *thread, u *queue, n int, now int64, by string, since int64) error {
	if n == 0 {
		return nil
	}
	var graphs []*handed
	for _, o := range u.open[:n] {
		o.Begin, o.Done, o.By = max(o.Start, u.done), now, by
		if h := o.x; h != nil {
			if !slices.Contains(graphs, h) {
				h.wait(t, since, u.done, now)
				graphs = append(graphs, h)
			}
			h.left--
			h.done, h.tid, h.by = now, t.tid, by
			if o.Work != 0 {
				if len(h.spans) == 0 {
					h.begin = o.Begin
				}
				h.begin = min(h.begin, o.Begin)
				h.add(o.Begin, now)
			}
		}
		if err := p.sink.Submission(o.Submission); err != nil {
			return err
		}
	}
	u.open = slices.Delete(u.open, 0, n)
	q.opens -= n
	u.done = now
	return p.handOver(q, graphs)
}

// wait adds the time that a thread waited for a graph from since (0: it did not) to now, without the wait for
// earlier work, which was done at done.
func (h *handed) wait(t *thread, since, done, now int64) {
	if t.sync.since != 0 && t.sync.device == h.object { // this call is a part of the backend's own wait
		since = t.sync.since
	}
	if since != 0 {
		h.waited += now - max(since, done, h.done)
	}
}

// handOver emits the completed graphs, in the order in which they were submitted to the device.
func (p *replayer) handOver(q *Proc, graphs []*handed) error {
	graphs = slices.DeleteFunc(graphs, func(h *handed) bool { return h.left > 0 || !h.closed || h.told })
	for i, h := range graphs {
		d := h.span(p)
		if d.Queue != nil {
			d.Added = q.add(h)
		}
		h.told = true
		if err := p.came(q, h.done, func(a awaitedGraph) bool { return a.g == h.g }); err != nil {
			return err
		}
		if i < len(graphs)-1 { // the wait was for the last
			d.Shared, d.Waited = true, 0
		} else {
			d.Before = i
		}
		if last, ok := q.devices[h.object]; ok && last.g == h.g {
			d.Before += last.before
			delete(q.devices, h.object)
		} else if ok && last.before > 0 {
			last.before--
			q.devices[h.object] = last
		}
		if err := p.sink.Device(d); err != nil {
			return err
		}
	}
	return nil
}

// add returns how much of a graph's time no earlier graph covered on the same device, and records it as
// covered.
func (q *Proc) add(h *handed) (added int64) {
	k := queueKey{device: h.device}
	if k.device == 0 {
		k.handle = h.object
	}
	if q.covered == nil || len(q.covered) >= maxQueues {
		q.covered = map[queueKey]int64{}
	}
	until := q.covered[k]
	for _, s := range h.spans {
		added += max(0, s.to-max(s.from, until))
	}
	q.covered[k] = max(until, h.done)
	return added
}

func (h *handed) span(p *replayer) *DeviceSpan {
	d := &DeviceSpan{Graph: h.g, TID: h.tid, Done: h.done, Waited: h.waited, By: h.by}
	if h.torn || p.lostIn(h.begin, h.done) || len(h.spans) == 0 {
		return d
	}
	d.Queue, d.Submissions, d.Submit = h.queue, h.subs, h.call
	d.Begin, d.Busy = h.begin, h.busy()
	return d
}

// synced completes what a backend's synchronize covers: the submissions of its graphs, and everything before
// them on the same queues.
func (p *replayer) synced(q *Proc, t *thread, object uint64, since, now int64) error {
	for _, u := range q.order {
		n := 0
		for i, o := range u.open {
			if o.x != nil && o.x.object == object && (o.TID == t.tid || o.Start <= since) {
				n = i + 1
			}
		}
		if err := p.doneUntil(q, t, u, n, now, bySync, since); err != nil {
			return err
		}
	}
	return nil
}

// queuesEnd emits what was not seen done when the trace ends.
func (p *replayer) queuesEnd() error {
	for _, pid := range slices.Sorted(maps.Keys(p.procs)) {
		for _, u := range p.procs[pid].order {
			if err := p.giveUp(p.procs[pid], u); err != nil {
				return err
			}
		}
	}
	return nil
}
