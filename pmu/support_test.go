// SPDX-License-Identifier: Apache-2.0

package pmu

import "fmt"

// Open finds and opens what a request asks for on this machine. Errors that a person can do something about
// are a Missing; what is merely not there is in the set's Missing.
func Open(r Request, o Options) (*Set, error) {
	m, err := ReadMachine()
	if err != nil {
		return nil, err
	}
	p, err := NewPlan(m, r)
	if err != nil {
		return nil, err
	}
	return p.Open(o)
}

// On is the event by which the counter is counted on a CPU; nil if it is not.
func (c *Counter) On(cpu CPU) *Event {
	for _, e := range c.Events {
		if e.PMU == nil || e.PMU == cpu.PMU {
			return e
		}
	}
	return nil
}

// Disable stops them. Their counts stay.
func (s *Set) Disable() error { return s.control(false, func(handle) bool { return true }) }

// Read reads a counter on a CPU (-1 where a thread is counted). Where the thread can run on several
// kinds of CPU it is the sum of their counts, over the time that it ran on any. ok is false where it
// is not counted there.
func (s *Set) Read(counter, cpu int) (r Reading, ok bool, err error) {
	for _, h := range s.handles {
		if h.Counter != counter || h.CPU != cpu {
			continue
		}
		one, err := s.kernel.read(h.FD)
		if err != nil {
			return Reading{}, false, fmt.Errorf("counter %s: %w", s.Counters[counter].Name, err)
		}
		r, ok = r.Add(one), true
	}
	return r, ok, nil
}
