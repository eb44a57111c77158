// SPDX-License-Identifier: Apache-2.0

package perfetto

import (
	"github.com/profinfer/profinfer/internal/clean"
)

import "cmp"

// track is a row of slices or a counter.
type track struct {
	uuid uint64
	last int64  // time of its latest event
	open []open // slices begun and not ended, outermost first
}

// open is a slice that has begun, identified by what it stands for.
type open struct {
	what any
}

type threadKey struct{ pid, tid int32 }

type counterKey struct {
	pid  int32
	ctx  uint64
	name string
}

func compareCounters(a, b counterKey) int {
	return cmp.Or(cmp.Compare(a.pid, b.pid), cmp.Compare(a.ctx, b.ctx), cmp.Compare(a.name, b.name))
}

// tracks creates tracks. Descriptors are written when a track is first used, with the names known then, and
// for threads and processes again when all names are known.
type tracks struct {
	p         *packets
	next      uint64
	processes map[int32]*track
	threads   map[threadKey]*track
	counters  map[counterKey]*track
	named     map[string]*track
	under     map[threadKey]*track // for faults
	spare     notes
	recent    [64]recentThread // by the low bits of their IDs
}

type recentThread struct {
	key threadKey
	*track
}

func newTracks(p *packets) *tracks {
	return &tracks{p: p, processes: map[int32]*track{}, threads: map[threadKey]*track{},
		counters: map[counterKey]*track{}, named: map[string]*track{}}
}

func (t *tracks) make() *track {
	t.next++
	return &track{uuid: t.next}
}

func (t *tracks) process(pid int32) *track {
	k := t.processes[pid]
	if k == nil {
		k = t.make()
		t.processes[pid] = k
		t.describeProcess(k, pid, "")
	}
	return k
}

func (t *tracks) describeProcess(k *track, pid int32, name string) {
	m := message(nil).int(procPID, int64(pid))
	if name != "" {
		m = m.str(procName, clean.Perfetto(name))
	}
	t.p.descriptor(message(nil).uint(descUUID, k.uuid).sub(descProcess, m))
}

func (t *tracks) thread(pid, tid int32) *track {
	key := threadKey{pid, tid}
	r := &t.recent[uint32(tid)%uint32(len(t.recent))]
	if r.track != nil && r.key == key {
		return r.track
	}
	k := t.threads[key]
	if k == nil {
		t.process(pid)
		k = t.make()
		t.threads[key] = k
		t.describeThread(k, pid, tid, "")
	}
	*r = recentThread{key, k}
	return k
}

func (t *tracks) describeThread(k *track, pid, tid int32, name string) {
	m := message(nil).int(threadPID, int64(pid)).int(threadTID, int64(tid))
	if name != "" {
		m = m.str(threadName, clean.Perfetto(name))
	}
	t.p.descriptor(message(nil).uint(descUUID, k.uuid).sub(descThread, m))
}

// counter returns a process's counter; several contexts can have counters of the same name.
func (t *tracks) counter(pid int32, ctx uint64, name, unit string) *track {
	key := counterKey{pid, ctx, name}
	k := t.counters[key]
	if k == nil {
		parent := t.process(pid)
		k = t.make()
		t.counters[key] = k
		t.p.descriptor(message(nil).uint(descUUID, k.uuid).str(descName, name).uint(descParent, parent.uuid).
			sub(descCounter, message(nil).str(counterUnitName, unit)))
	}
	return k
}

// threadCounter creates a counter of a thread. Counters of one name are drawn to the same scale on all
// threads.
func (t *tracks) threadCounter(pid, tid int32, name, unit string) *track {
	parent := t.thread(pid, tid)
	k := t.make()
	t.p.descriptor(message(nil).uint(descUUID, k.uuid).str(descName, name).uint(descParent, parent.uuid).
		sub(descCounter, message(nil).str(counterUnitName, unit).str(counterShareKey, name)))
	return k
}

// global returns a track that belongs to no process.
func (t *tracks) global(name string) *track {
	k := t.named[name]
	if k == nil {
		k = t.make()
		t.named[name] = k
		t.p.descriptor(message(nil).uint(descUUID, k.uuid).str(descName, name))
	}
	return k
}

// notes begins an event's annotations.
func (t *tracks) notes() *notes {
	t.spare.p, t.spare.m = t.p, t.spare.m[:0]
	return &t.spare
}

// begin opens a slice. Events of a track are written in time order: an earlier event is moved to the time of
// the latest.
func (t *tracks) begin(k *track, at int64, what any, category, name string, n *notes) {
	k.last = max(at, k.last)
	k.open = append(k.open, open{what})
	var m message
	if n != nil {
		m = n.m
	}
	id := t.p.intern(internCategories, category)
	t.p.begin(k.last, k.uuid, id, t.p.intern(internEvents, name), m)
}

// end closes the innermost slice.
func (t *tracks) end(k *track, at int64, n *notes) {
	if len(k.open) == 0 {
		return
	}
	k.open = k.open[:len(k.open)-1]
	k.last = max(at, k.last)
	var m message
	if n != nil {
		m = n.m
	}
	t.p.end(k.last, k.uuid, m)
}

// endTo closes slices until only keep remain open.
func (t *tracks) endTo(k *track, at int64, keep int) {
	for len(k.open) > keep {
		t.end(k, at, nil)
	}
}

// depth returns the depth of what on the track, -1 if it is not open there.
func (k *track) depth(what any) int {
	for i := range k.open {
		if k.open[i].what == what {
			return i
		}
	}
	return -1
}

func (t *tracks) value(k *track, at int64, v float64) {
	k.last = max(at, k.last)
	t.p.value(k.last, k.uuid, v)
}

func compareThreads(a, b threadKey) int {
	return cmp.Or(cmp.Compare(a.pid, b.pid), cmp.Compare(a.tid, b.tid))
}
