// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"cmp"
	"slices"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/internal/limits"
	"github.com/profinfer/profinfer/profile/sched"
)

// What a step's thread does for backends other than the CPU: it hands graphs over, copies, and waits.

// Where time outside operators is lost.
const (
	between    = "(outside operators)"
	onBackends = "(on other backends)" // includes copies
)

// slowCall is a thread's call that copies or waits.
type slowCall struct {
	profile.Span
	tid int32
}

// slowCalls holds the calls of steps in progress.
type slowCalls struct {
	copies map[*profile.Step][]slowCall
	waits  map[int32][]slowCall // by process, in order of their ends
}

// Copy takes a copy of a step, before the step.
func (b *slowState) Copy(c *profile.Copy) error {
	if c.Step == nil || c.Dur <= 0 {
		return nil
	}
	if b.calls.copies == nil || len(b.calls.copies) >= limits.Pending { // of steps that never ended
		b.calls.copies = map[*profile.Step][]slowCall{}
	}
	if s := b.calls.copies[c.Step]; len(s) < limits.Copies {
		b.calls.copies[c.Step] = append(s, slowCall{profile.Span{From: c.Start, To: c.Start + c.Dur}, c.TID})
	}
	return nil
}

// Device takes the end of a device's work that a thread waited for.
func (b *slowState) Device(d *profile.DeviceSpan) error {
	if d.Waited <= 0 {
		return nil
	}
	pid := d.Graph.PID
	b.track.Process(pid)
	if b.calls.waits == nil {
		b.calls.waits = map[int32][]slowCall{}
	}
	s := b.calls.waits[pid]
	if s == nil && len(b.calls.waits) >= limits.Models {
		return nil
	}
	if len(s) >= limits.Copies {
		s = slices.Delete(s, 0, limits.Copies/2)
	}
	b.calls.waits[pid] = append(s, slowCall{profile.Span{From: d.Done - d.Waited, To: d.Done}, d.TID})
	return nil
}

// take returns the calls of a step's thread in order, and drops earlier ones. Waits within copies come first.
func (c *slowCalls) take(s *profile.Step) (copies, waits []profile.Span) {
	of := func(all []slowCall) (out []profile.Span) {
		for _, x := range all {
			if x.tid == s.TID && x.To > s.Start && x.From < s.Start+s.Dur {
				out = append(out, x.Span)
			}
		}
		slices.SortFunc(out, func(a, b profile.Span) int {
			return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
		})
		return out
	}
	return of(c.copies[s]), of(c.waits[s.PID])
}

func (c *slowCalls) forget(s *profile.Step, before int64) {
	delete(c.copies, s)
	if w := c.waits[s.PID]; len(w) > 0 {
		c.waits[s.PID] = slices.DeleteFunc(w, func(x slowCall) bool { return x.To <= before })
	}
}

// calling reports whether x.at lies in a call, which part that is, and until when, at most to.
func (x *splitter) calling(to int64) (part int, until int64, in bool) {
	until = to
	next := func(calls *[]profile.Span) bool {
		for len(*calls) > 0 && (*calls)[0].To <= x.at {
			*calls = (*calls)[1:]
		}
		if len(*calls) == 0 {
			return false
		}
		if c := (*calls)[0]; c.From > x.at {
			until = min(until, c.From)
			return false
		}
		until = min(until, (*calls)[0].To)
		return true
	}
	if next(&x.waits) {
		return partBackend, until, true
	}
	if next(&x.copies) {
		return partCopies, until, true
	}
	return 0, until, false
}

// device splits the time up to until, in which the step's thread hands work to a device or waits for it.
// Where the thread sleeps, the time belongs to the device, or to a copy. But if the device is software, its
// threads need CPUs: while another process has one of these, the thread waits for that.
func (x *splitter) device(part int, until int64) {
	at := x.at
	x.at = until
	held := x.held2[:0]
	_, _, ok := x.main.Within(at, until, func(s sched.OffSpan) {
		if s.Kind != sched.OffSleep {
			held = append(held, s)
		}
	})
	if !ok {
		x.r.doubt = true
	}
	slices.SortFunc(held, func(a, b sched.OffSpan) int { return cmp.Compare(a.From, b.From) })
	for _, s := range held {
		if s.From = max(s.From, at); s.To <= s.From {
			continue
		}
		x.software(part, at, s.From)
		x.taken(s, s.To-s.From, onBackends)
		at = s.To
	}
	x.held2 = held
	x.software(part, at, until)
}

// taken counts an interval in which the step's thread had no CPU outside operators.
func (x *splitter) taken(s sched.OffSpan, ns int64, place string) {
	x.r.parts[partOff+int(s.Kind)] += ns
	x.costs = addWho(x.costs, s.Who, s.Kind, ns, ns)
	x.b.takers.gap(s, ns, place)
}

// software splits a device's time by what its threads' CPUs did.
func (x *splitter) software(part int, from, to int64) {
	if to <= from {
		return
	}
	spans := x.spans[:0]
	if x.main != nil {
		for _, t := range x.b.track.Threads {
			if t.Pid != x.main.Pid || t.Computes || t == x.main {
				continue
			}
			t.Within(from, to, func(s sched.OffSpan) {
				if s.Kind == sched.OffOther {
					spans = append(spans, s)
					x.b.takers.ran(t, s)
				}
			})
		}
	}
	x.spans = spans
	x.edges = x.edges[:0]
	for i, s := range spans {
		x.edges = append(x.edges, offEdge{s.From, i, true}, offEdge{s.To, i, false})
	}
	// The map has no order, but the shares of the time must be deterministic.
	slices.SortFunc(x.edges, func(a, b offEdge) int {
		return cmp.Or(cmp.Compare(a.at, b.at), sched.CompareBool(a.begins, b.begins),
			cmp.Compare(spans[a.span].Cpu, spans[b.span].Cpu), cmp.Compare(spans[a.span].Who,
				spans[b.span].Who))
	})
	active := x.active[:0]
	at := from
	for _, e := range x.edges {
		if len(active) == 0 {
			x.r.parts[part] += e.at - at
		} else {
			left := e.at - at
			for n, i := range active {
				ns := left / int64(len(active)-n)
				left -= ns
				x.taken(spans[i], ns, onBackends)
			}
		}
		at = e.at
		if e.begins {
			active = append(active, e.span)
		} else if i := slices.Index(active, e.span); i >= 0 {
			active = slices.Delete(active, i, i+1)
		}
	}
	x.r.parts[part] += to - at
	x.active = active[:0]
}
