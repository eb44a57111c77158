// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"cmp"
	"slices"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/internal/num"
	"github.com/profinfer/profinfer/trace"
)

// markList keeps faults individually: the longest where there are too many.
type markList struct {
	kept []mark
	left int64
}

// mark is a fault in its stored form: it references no operator.
type mark struct {
	start, dur, read, step, op int64
	pid, tid, expert           int32
	major                      bool
	addr                       uint64
	class                      profile.MemoryClass
	tensor, typ, file          string
}

func (l *markList) add(f *profile.Fault) {
	m := mark{start: f.Begin(), dur: f.Dur, read: f.Read, op: f.OpID, pid: f.PID, tid: f.TID,
		expert: f.Expert, major: f.Kind == trace.FaultMajor,
		addr: f.Addr, class: f.Class, tensor: f.Tensor, typ: f.Type, file: f.File}
	if f.Step != nil {
		m.step = f.Step.ID
	}
	if l.kept = append(l.kept, m); len(l.kept) >= 2*maxFaultMarks {
		l.cut()
	}
}

// cut keeps the longest faults; where durations are unknown, the major ones and those that read most.
func (l *markList) cut() {
	n := len(l.kept) - maxFaultMarks
	if n <= 0 {
		return
	}
	rank := func(m *mark) int64 {
		if m.major {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(l.kept, func(a, b mark) int {
		return cmp.Or(cmp.Compare(b.dur, a.dur), cmp.Compare(rank(&b), rank(&a)), cmp.Compare(b.read, a.read),
			cmp.Compare(a.start, b.start))
	})
	l.kept = l.kept[:maxFaultMarks]
	l.left += int64(n)
}

// finish returns the columns. first is the run's start.
func (l *markList) finish(first int64) FaultMarks {
	l.cut()
	slices.SortStableFunc(l.kept, func(a, b mark) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.tid, b.tid))
	})
	n := len(l.kept)
	c := FaultMarks{Left: l.left, Strings: []string{""}, Start: make([]int64, n), Dur: make([]int64, n),
		PID: make([]int32, n), TID: make([]int32, n), Major: make([]int, n),
		Addr: make([]string, n), Class: make([]int, n), Tensor: make([]int, n), Type: make([]int,
			n), File: make([]int, n), Expert: make([]int32, n),
		Read: make([]int64, n), Step: make([]int64, n), Op: make([]int64, n)}
	known := map[string]int{"": 0}
	text := func(s string) int {
		i, ok := known[s]
		if !ok && len(c.Strings) < maxFaultStrings {
			i = len(c.Strings)
			known[s] = i
			c.Strings = append(c.Strings, s)
		}
		return i
	}
	for i := range l.kept {
		m := &l.kept[i]
		c.Start[i], c.Dur[i], c.PID[i], c.TID[i], c.Addr[i] = m.start-first, m.dur, m.pid, m.tid,
			num.Hex(m.addr)
		if m.major {
			c.Major[i] = 1
		}
		c.Class[i], c.Tensor[i], c.Type[i], c.File[i] = text(string(m.class)), text(m.tensor), text(m.typ),
			text(m.file)
		c.Expert[i], c.Read[i], c.Step[i], c.Op[i] = m.expert, max(m.read, 0), m.step, m.op
	}
	return c
}
