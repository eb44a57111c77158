// SPDX-License-Identifier: Apache-2.0

package perfetto

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"

	"github.com/profinfer/profinfer/internal/clean"
	"github.com/profinfer/profinfer/trace"
)

const (
	// maxBundle is how many events of one CPU are written together.
	maxBundle = 512
	// maxTasks bounds how many threads of other processes get their process written.
	maxTasks = 1 << 16
)

// scheduling writes switches and wake-ups in the format of the kernel's own trace, so that Perfetto draws its
// CPU and thread state tracks.
type scheduling struct {
	p     *packets
	cpus  map[uint16]*bundle
	tasks map[int32]task
	clean map[string]string // names as they are written

	packet, bundle, event, kind message // for reuse
}

type bundle struct {
	events []trace.Sched
	// Running since the last switch written.
	running trace.Sched
	known   bool
}

// task is a thread with the process it belongs to.
type task struct {
	pid  int32
	comm string
}

func newScheduling(p *packets) *scheduling {
	return &scheduling{p: p, cpus: map[uint16]*bundle{}, tasks: map[int32]task{},
		clean: map[string]string{}}
}

func (s *scheduling) add(e *trace.Sched) {
	s.task(e.PrevTID, e.PrevPID, e.PrevComm)
	s.task(e.NextTID, e.NextPID, e.NextComm)
	b := s.cpus[e.CPU]
	if b == nil {
		b = &bundle{}
		s.cpus[e.CPU] = b
	}
	b.events = append(b.events, *e)
	if len(b.events) >= maxBundle {
		s.flush(e.CPU, b)
	}
}

func (s *scheduling) task(tid, pid int32, comm string) {
	if tid <= 0 || pid <= 0 {
		return
	}
	if _, ok := s.tasks[tid]; ok || len(s.tasks) < maxTasks {
		s.tasks[tid] = task{pid, comm}
	}
}

// flush writes a CPU's events, in time order.
func (s *scheduling) flush(cpu uint16, b *bundle) {
	if len(b.events) == 0 {
		return
	}
	slices.SortStableFunc(b.events, func(x, y trace.Sched) int { return cmp.Compare(x.Time, y.Time) })
	m := s.bundle[:0].uint(bundleCPU, uint64(cpu))
	for i := range b.events {
		e := &b.events[i]
		if e.Kind != trace.SchedWakeup {
			if b.known && b.running.NextTID != e.PrevTID {
				m = m.sub(bundleEvent, s.ftraceEvent(between(&b.running, e)))
			}
			b.running, b.known = *e, true
		}
		if e.Kind == trace.SchedLook {
			continue
		}
		m = m.sub(bundleEvent, s.ftraceEvent(e))
	}
	b.events = b.events[:0]
	s.bundle = m
	s.packet = s.packet[:0].uint(packetSequence, schedSequence).sub(packetFtrace, m)
	s.p.write(s.packet)
}

// name returns a thread's name as it is written.
func (s *scheduling) name(comm string) string {
	c, ok := s.clean[comm]
	if !ok {
		c = clean.Perfetto(comm)
		if len(s.clean) < maxTasks {
			s.clean[comm] = c
		}
	}
	return c
}

// between makes up for switches that were not recorded: the task that ran last hands its CPU to the one that
// leaves it now. When it did so is unknown, so it is drawn as running until now; otherwise a parser would
// draw it as running forever.
func between(last, now *trace.Sched) *trace.Sched {
	return &trace.Sched{Time: now.Time, CPU: now.CPU, Kind: trace.SchedSwitch,
		PrevTID: last.NextTID, PrevPID: last.NextPID, PrevComm: last.NextComm, PrevPrio: last.NextPrio,
		NextTID: now.PrevTID, NextPID: now.PrevPID, NextComm: now.PrevComm, NextPrio: now.PrevPrio}
}

func (s *scheduling) flushAll() {
	cpus := slices.Sorted(maps.Keys(s.cpus))
	for _, c := range cpus {
		s.flush(c, s.cpus[c])
	}
}

// ftraceEvent encodes an event with its plain times, as compact_sched drops each CPU's first switch. It is valid
// until the next call.
func (s *scheduling) ftraceEvent(e *trace.Sched) message {
	s.event = s.event[:0].uint(ftraceTime, uint64(max(0, e.Time)))
	if e.Kind == trace.SchedWakeup {
		// SchedWakingFtraceEvent: comm 1, pid 2, prio 3, success 4, target_cpu 5; the event's own pid
		// is the waker.
		s.kind = s.kind[:0].str(1, s.name(e.NextComm)).int(2, int64(e.NextTID)).int(3,
			int64(e.NextPrio)).int(4, 1).int(5, int64(e.CPU))
		s.event = s.event.uint(ftracePID, uint64(uint32(e.PrevTID))).sub(ftraceWaking, s.kind)
		return s.event
	}
	// SchedSwitchFtraceEvent: prev comm 1, pid 2, prio 3, state 4; next comm 5, pid 6, prio 7.
	s.kind = s.kind[:0].str(1, s.name(e.PrevComm)).int(2, int64(e.PrevTID)).int(3,
		int64(e.PrevPrio)).int(4, reported(e.PrevState)).
		str(5, s.name(e.NextComm)).int(6, int64(e.NextTID)).int(7, int64(e.NextPrio))
	s.event = s.event.uint(ftracePID, uint64(uint32(e.PrevTID))).sub(ftraceSwitch, s.kind)
	return s.event
}

// reported converts a task's state from the kernel's internal value to the one in its trace
// (__task_state_index in include/linux/sched.h): the highest of the reported bits, except for idle kernel
// threads.
func reported(state uint32) int64 {
	const (
		taskReport     = 0x7f
		uninterrupt    = 0x02
		taskIdle       = 0x402
		reportIdle     = 0x80
		taskRTLockWait = 0x1000
		taskFrozen     = 0x8000
	)
	r := state & taskReport
	switch {
	case state&taskIdle == taskIdle:
		return reportIdle
	case state&(taskRTLockWait|taskFrozen) != 0:
		r = uninterrupt
	}
	if r == 0 {
		return 0
	}
	return 1 << (bits.Len32(r) - 1)
}
