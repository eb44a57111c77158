// SPDX-License-Identifier: Apache-2.0

package pmu

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Options is where to count.
type Options struct {
	// CPUs to count on, whatever runs there; nil: all online CPUs. Needs a privilege.
	CPUs []int
	// Thread to count instead, on whatever CPU it runs; 0: CPUs are counted.
	Thread int
	// NoTrial skips the short run (20 to 100 ms) that shows which events get a counter.
	NoTrial bool
}

// Set is open counters. They count after Enable.
type Set struct {
	Machine  *Machine
	Counters []*Counter // those opened on at least one CPU
	Missing  []Missing  // those of the plan, and what could not be opened
	Notes    []string
	// Turns are the counters that took turns in the trial before the recording.
	Turns   []Turn
	handles []handle
	kernel  kernel
}

// Turn is a counter that had a hardware counter for only a share of the time, because more events are counted
// than the CPU has counters. Its counts will be scaled.
type Turn struct {
	Counter string
	On      string  // the kind of CPU
	Share   float64 // of the time, in the trial
}

// Handle is one open event, for readers elsewhere (in the kernel: a BPF_MAP_TYPE_PERF_EVENT_ARRAY takes FD).
type Handle struct {
	Counter int // index in Set.Counters
	CPU     int // -1 if a thread is counted
	FD      int
	Event   *Event
}

type handle struct {
	Handle
	leader bool
}

// Open opens a plan's events. With nothing to open the set is empty, which is not an error.
func (p *Plan) Open(o Options) (*Set, error) { return p.open(o, linux{}) }

func (p *Plan) open(o Options, k kernel) (_ *Set, err error) {
	s := &Set{Machine: p.Machine, Counters: slices.Clone(p.Counters), Missing: slices.Clone(p.Missing),
		Notes: slices.Clone(p.Notes), kernel: k}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	wanted, err := o.cpus(p.Machine)
	if err != nil {
		return nil, err
	}
	for _, u := range append([]*PMU{nil}, p.Machine.PMUs...) {
		cpus := []int{-1}
		if o.Thread == 0 {
			cpus = wanted
			if u != nil {
				cpus = slices.DeleteFunc(slices.Clone(wanted), func(c int) bool {
					return !slices.Contains(u.CPUs, c)
				})
			}
		}
		if len(cpus) == 0 {
			continue
		}
		if err := s.openUnit(u, cpus, o); err != nil {
			return nil, err
		}
	}
	s.drop()
	return s, nil
}

// cpus is the CPUs to count on.
func (o Options) cpus(m *Machine) ([]int, error) {
	var online []int
	for _, c := range m.CPUs {
		online = append(online, c.N)
	}
	if o.CPUs == nil {
		return online, nil
	}
	for _, c := range o.CPUs {
		if !slices.Contains(online, c) {
			return nil, fmt.Errorf("counters: there is no CPU %d online", c)
		}
	}
	cpus := slices.Clone(o.CPUs)
	slices.Sort(cpus)
	return slices.Compact(cpus), nil
}

// slot is an event to be opened, and its counter.
type slot struct {
	counter int
	event   *Event
}

// layout returns the groups of a unit's events that the plan wants.
func (s *Set) layout(u *PMU) [][]slot {
	var out [][]slot
	at := map[int]int{}
	for i, c := range s.Counters {
		for _, e := range c.Events {
			if e.PMU != u {
				continue
			}
			if n, ok := at[e.Group]; ok && e.Group > 0 {
				out[n] = append(out[n], slot{i, e})
				continue
			}
			at[e.Group] = len(out)
			out = append(out, []slot{{i, e}})
		}
	}
	return out
}

// openUnit opens a unit's events on all its CPUs. The first CPU shows which groups fit.
func (s *Set) openUnit(u *PMU, cpus []int, o Options) error {
	layout := s.layout(u)
	if len(layout) == 0 {
		return nil
	}
	layout, err := s.fit(u, layout, target{o.Thread, cpus[0]})
	if err != nil {
		return err
	}
	if u != nil && o.Thread == 0 && !o.NoTrial {
		if layout, err = s.trial(u, layout, cpus[0]); err != nil {
			return err
		}
	}
	for _, cpu := range cpus[1:] {
		for _, g := range layout {
			if _, err := s.openGroup(g, target{0, cpu}); err != nil {
				if errors.Is(err, unix.ENODEV) {
					s.Missing = append(s.Missing, Missing{On: fmt.Sprintf("CPU %d", cpu),
						Why: "it went offline"})
					break
				}
				return refused(err, s.Machine, s.Counters[g[0].counter].Name, o)
			}
		}
	}
	return nil
}

type target struct{ tid, cpu int }

func (t target) pid() int {
	if t.tid > 0 {
		return t.tid
	}
	return -1
}

// fit opens the groups on one CPU. It splits a group whose events cannot be counted at once: the event that
// the kernel refuses as one too many (EINVAL) starts a new group, or is dropped if it is a spare one.
func (s *Set) fit(u *PMU, groups [][]slot, t target) (fitting [][]slot, err error) {
	for len(groups) > 0 {
		g := groups[0]
		groups = groups[1:]
		var in, over []slot
		leader := -1
		for _, sl := range g {
			fd, err := s.openEvent(sl, t, leader)
			switch {
			case err == nil:
				in = append(in, sl)
				if leader < 0 {
					leader = fd
				}
			case leader >= 0 && (errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSPC)):
				over = append(over, sl)
			case absent(err):
				s.missing(sl, notThere(err, s.Counters[sl.counter].Name, sl.event))
			default:
				return nil, refused(err, s.Machine, s.Counters[sl.counter].Name, Options{Thread: t.tid})
			}
		}
		if len(in) > 0 {
			fitting = append(fitting, in)
		}
		var rest []slot
		for _, sl := range over {
			if sl.event.spare {
				s.leaveOut(sl, len(in), u)
				continue
			}
			rest = append(rest, sl)
		}
		if len(rest) > 0 {
			groups = append([][]slot{rest}, groups...)
		}
	}
	return fitting, nil
}

func (s *Set) missing(sl slot, m Missing) {
	m.Event, m.On = s.Counters[sl.counter].Name, sl.event.on()
	s.Missing = append(s.Missing, m)
	c := *s.Counters[sl.counter] // the plan keeps its own copy
	c.Events = slices.DeleteFunc(slices.Clone(c.Events), func(e *Event) bool { return e == sl.event })
	s.Counters[sl.counter] = &c
}

func (s *Set) leaveOut(sl slot, n int, u *PMU) {
	s.missing(sl, Missing{
		Why: fmt.Sprintf("%s counts %d of these events at once; this one would have to take turns with them",
			u, n),
		Do: "ask for it with -e, or with a preset of its own: --counters",
	})
}

// openGroup opens all events of a group or none.
func (s *Set) openGroup(g []slot, t target) (leader int, err error) {
	before := len(s.handles)
	leader = -1
	for _, sl := range g {
		fd, err := s.openEvent(sl, t, leader)
		if err != nil {
			s.closeFrom(before)
			return -1, err
		}
		if leader < 0 {
			leader = fd
		}
	}
	return leader, nil
}

func (s *Set) openEvent(sl slot, t target, leader int) (int, error) {
	attr := sl.event.attr(leader < 0)
	fd, err := s.kernel.open(attr, t.pid(), t.cpu, leader)
	if err != nil {
		return -1, err
	}
	s.handles = append(s.handles, handle{Handle{sl.counter, t.cpu, fd, sl.event}, leader < 0})
	return fd, nil
}

// attr is the request to the kernel. New threads do not inherit counters: an inherited count cannot be read
// from a probe.
func (e *Event) attr(leader bool) *unix.PerfEventAttr {
	a := &unix.PerfEventAttr{
		Type: e.Type, Size: unix.PERF_ATTR_SIZE_VER5,
		Config: e.Config, Ext1: e.Config1, Ext2: e.Config2,
		Read_format: unix.PERF_FORMAT_TOTAL_TIME_ENABLED | unix.PERF_FORMAT_TOTAL_TIME_RUNNING,
	}
	if leader {
		a.Bits |= unix.PerfBitDisabled // the others follow their leader
	}
	if e.OnlyUser {
		a.Bits |= unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv
	}
	if e.OnlyKernel {
		a.Bits |= unix.PerfBitExcludeUser | unix.PerfBitExcludeHv
	}
	return a
}

// trial lets the groups of one CPU run for a few turns and checks which got a counter. A group that never did
// is reduced: something else holds a counter that it needs.
func (s *Set) trial(u *PMU, layout [][]slot, cpu int) ([][]slot, error) {
	const rounds = 8
	for range rounds {
		shares, err := s.run(u, len(layout))
		if err != nil {
			return nil, err
		}
		stuck := slices.IndexFunc(layout, func(g []slot) bool { return shares[g[0].event] == 0 })
		if stuck < 0 {
			for _, g := range layout {
				for _, sl := range g {
					if share := shares[sl.event]; share < 0.995 {
						s.Turns = append(s.Turns, Turn{s.Counters[sl.counter].Name, u.String(), share})
					}
				}
			}
			return layout, nil
		}
		g := layout[stuck]
		s.closeUnit(u)
		switch last := g[len(g)-1]; {
		case len(g) == 1:
			s.missing(last, Missing{Why: fmt.Sprintf("no counter of %s was free for it: %s", u, s.holder(u)),
				Do: "end other profilers (perf), and see sysctl kernel.nmi_watchdog"})
			layout = slices.Delete(slices.Clone(layout), stuck, stuck+1)
		case last.event.spare:
			s.leaveOut(last, len(g)-1, u)
			layout[stuck] = g[:len(g)-1]
		default:
			layout[stuck] = g[:len(g)-1]
			layout = append(layout, []slot{last})
		}
		if layout, err = s.fit(u, layout, target{0, cpu}); err != nil || len(layout) == 0 {
			return nil, err
		}
	}
	return layout, nil
}

func (s *Set) holder(u *PMU) string {
	if s.Machine.NMIWatchdog && !u.Arm() {
		return "the NMI watchdog holds one, another user perhaps more"
	}
	return "another user holds them"
}

// run counts for a moment and returns the share of the time that each event of a unit ran.
func (s *Set) run(u *PMU, groups int) (map[*Event]float64, error) {
	mine := func(h handle) bool { return h.Event.PMU == u }
	if err := s.control(true, mine); err != nil {
		return nil, err
	}
	turns := time.Duration(2*groups*u.Interval) * time.Millisecond
	s.kernel.wait(min(max(turns, 20*time.Millisecond), 100*time.Millisecond))
	out := map[*Event]float64{}
	for _, h := range s.handles {
		if !mine(h) {
			continue
		}
		r, err := s.kernel.read(h.FD)
		if err != nil {
			return nil, fmt.Errorf("counter %s: %w", s.Counters[h.Counter].Name, err)
		}
		if out[h.Event] = r.Count().Share; r.Enabled == 0 {
			out[h.Event] = 1 // the clock stood still: unknown
		}
	}
	return out, s.control(false, mine)
}

// drop removes counters that were opened nowhere.
func (s *Set) drop() {
	index := make([]int, len(s.Counters))
	var kept []*Counter
	for i, c := range s.Counters {
		index[i] = len(kept)
		if slices.ContainsFunc(s.handles, func(h handle) bool { return h.Counter == i }) {
			kept = append(kept, c)
		}
	}
	for i := range s.handles {
		s.handles[i].Counter = index[s.handles[i].Counter]
	}
	s.Counters = kept
	if len(s.Turns) > 0 {
		low := slices.MinFunc(s.Turns, func(a, b Turn) int { return cmp.Compare(a.Share, b.Share) })
		s.Notes = append(s.Notes, fmt.Sprintf("%d counters take turns on %s, as it has fewer (%s: %.0f %% of the time): their counts are scaled, and marked so", len(s.Turns), low.On, low.Counter, 100*low.Share))
	}
}
