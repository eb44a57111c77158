// SPDX-License-Identifier: Apache-2.0

package pmu

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fake is a kernel with a number of counters on each CPU, who lets groups take turns.
type fake struct {
	counters int             // of a CPU
	held     int             // of these, by somebody else
	absent   map[string]bool // "type/config": ENOENT
	refuse   map[int]error   // by CPU; -2: on any
	limit    int             // of open events
	events   map[int]*fakeEvent
	next     int
	waited   time.Duration
	attrs    []*unix.PerfEventAttr
}

type fakeEvent struct {
	attr             *unix.PerfEventAttr
	pid, cpu, leader int
	on               bool
	r                Reading
}

func (f *fake) open(attr *unix.PerfEventAttr, pid, cpu, group int) (int, error) {
	if err := f.refuse[cpu]; err != nil {
		return -1, err
	}
	if err := f.refuse[-2]; err != nil {
		return -1, err
	}
	if f.absent[fmt.Sprintf("%d/%#x", attr.Type, attr.Config)] {
		return -1, unix.ENOENT
	}
	if f.limit > 0 && len(f.events) >= f.limit {
		return -1, unix.EMFILE
	}
	if group >= 0 && attr.Type != unix.PERF_TYPE_SOFTWARE && len(f.members(group)) >= f.counters {
		return -1, unix.EINVAL
	}
	if f.events == nil {
		f.events = map[int]*fakeEvent{}
	}
	f.next++
	fd := f.next + 100
	leader := group
	if group < 0 {
		leader = fd
	}
	f.events[fd] = &fakeEvent{attr: attr, pid: pid, cpu: cpu, leader: leader}
	f.attrs = append(f.attrs, attr)
	return fd, nil
}

func (f *fake) members(leader int) (out []int) {
	for fd, e := range f.events {
		if e.leader == leader {
			out = append(out, fd)
		}
	}
	slices.Sort(out)
	return out
}

func (f *fake) read(fd int) (Reading, error) {
	e, ok := f.events[fd]
	if !ok {
		return Reading{}, unix.EBADF
	}
	return e.r, nil
}

func (f *fake) enable(fd int, on bool) error {
	if e := f.events[fd]; e == nil || e.leader != fd {
		return unix.EBADF
	}
	for _, m := range f.members(fd) {
		f.events[m].on = on
	}
	return nil
}

func (f *fake) close(fd int) { delete(f.events, fd) }

// wait gives groups their turns of 4 ms: from one on, as many as fit; then from the next.
func (f *fake) wait(d time.Duration) {
	f.waited += d
	cpus := map[int]bool{}
	for _, e := range f.events {
		cpus[e.cpu] = true
	}
	for cpu := range cpus {
		var groups [][]int
		for fd, e := range f.events {
			if e.cpu == cpu && e.leader == fd && e.on {
				groups = append(groups, f.members(fd))
			}
		}
		slices.SortFunc(groups, func(a, b []int) int { return a[0] - b[0] })
		for turn := range int(d / (4 * time.Millisecond)) {
			free := f.counters - f.held
			for i := range groups {
				g := groups[(turn+i)%len(groups)]
				software := f.events[g[0]].attr.Type == unix.PERF_TYPE_SOFTWARE
				runs := software || len(g) <= free
				if runs && !software {
					free -= len(g)
				}
				for _, fd := range g {
					f.events[fd].r.Enabled += 4e6
					if runs {
						f.events[fd].r.Running += 4e6
						f.events[fd].r.Value += 1000
					}
				}
			}
		}
	}
}

func opened(t *testing.T, m *Machine, r Request, o Options, k *fake) *Set {
	t.Helper()
	s, err := plan(t, m, r).open(o, k)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *Set) names() (out []string) {
	for _, c := range s.Counters {
		out = append(out, c.Name)
	}
	return out
}

func TestOpen(t *testing.T) {
	k := &fake{counters: 7}
	m := machine(t, "neoverse-n1")
	s := opened(t, m, Request{Question: Memory, Software: true}, Options{}, k)
	if len(s.Counters) != 7+5 || len(k.events) != 4*12 || len(s.Missing) != 0 || len(s.Turns) != 0 {
		t.Fatalf("%v, %d events, missing %v, turns %v", s.names(), len(k.events), s.Missing, s.Turns)
	}
	// a descriptor for each counter and CPU, that of the right event
	seen := map[[2]int]bool{}
	for _, h := range s.Handles() {
		e := k.events[h.FD]
		if e.cpu != h.CPU || e.pid != -1 || e.attr.Config != h.Event.Config ||
			s.Counters[h.Counter].On(m.CPUs[h.CPU]) != h.Event {
			t.Errorf("%+v is %+v", h, e)
		}
		seen[[2]int{h.Counter, h.CPU}] = true
	}
	if len(seen) != 48 {
		t.Errorf("%d of 48", len(seen))
	}
	// hardware events of a question are one group; the kernel's own stay alone
	if g := k.members(s.handles[len(s.handles)-1].FD); len(g) > 7 {
		t.Errorf("a group of %d", len(g))
	}
	for _, h := range s.handles {
		if n := len(k.members(k.events[h.FD].leader)); h.Event.PMU != nil && n != 7 || h.Event.PMU == nil &&
			n != 1 {
			t.Errorf("%s is in a group of %d", s.Counters[h.Counter].Name, n)
		}
	}
	// nothing counts before it is told to
	before, _, err := s.Read(0, 3)
	if err != nil || before.Value != 0 {
		t.Errorf("%v, %v", before, err)
	}
	if err := s.Enable(); err != nil {
		t.Fatal(err)
	}
	k.wait(40 * time.Millisecond)
	if err := s.Disable(); err != nil {
		t.Fatal(err)
	}
	r, ok, err := s.Read(0, 3)
	if err != nil || !ok || r.Count() != (Count{10000, Exact, 1}) {
		t.Errorf("%v %v %v", r, ok, err)
	}
	d, _ := r.Sub(before)
	if total, err := s.Total(0); err != nil || total.Value < 4*d.Value {
		t.Errorf("%v, %v", total, err)
	}
	if _, ok, _ := s.Read(0, 99); ok {
		t.Error("a CPU that is not there counts")
	}
	s.Close()
	if len(k.events) != 0 {
		t.Errorf("%d events are left open", len(k.events))
	}
}

// Events asked for one by one take turns one by one, as under perf, and that is seen before the recording.
func TestNineOnSeven(t *testing.T) {
	k := &fake{counters: 7}
	list := "cycles,instructions,l1d_cache,l1d_cache_refill,l2d_cache,l2d_cache_refill,l3d_cache,mem_access,bus_access"
	s := opened(t, machine(t, "neoverse-n1"), Request{Events: list}, Options{CPUs: []int{2}}, k)
	if len(s.Counters) != 9 || len(s.Turns) != 9 {
		t.Fatalf("%v, turns %v", s.names(), s.Turns)
	}
	var sum float64
	for _, x := range s.Turns {
		sum += x.Share
	}
	if sum < 6.5 || sum > 7.01 {
		t.Errorf("seven counters are %v", sum)
	}
	if n := strings.Join(s.Notes, "\n"); !strings.Contains(n, "9 counters take turns on Neoverse-N1") {
		t.Errorf("notes %q", n)
	}
	for _, h := range s.Handles() {
		if h.CPU != 2 {
			t.Errorf("CPU %d", h.CPU)
		}
	}
	s.Close()
	// in braces: together, in as many groups as it takes
	k = &fake{counters: 7}
	s = opened(t, machine(t, "neoverse-n1"), Request{Events: "{" + list + "}"}, Options{CPUs: []int{1, 0, 1}},
		k)
	sizes := map[int]int{}
	for fd, e := range k.events {
		if e.leader == fd {
			sizes[len(k.members(fd))]++
		}
	}
	if sizes[7] != 2 || sizes[2] != 2 || len(s.Turns) != 9 || len(s.Missing) != 0 {
		t.Errorf("groups %v, turns %v, missing %v", sizes, s.Turns, s.Missing)
	}
}

// auto takes what can be counted at once, and says what it left out.
func TestAutoFits(t *testing.T) {
	k := &fake{counters: 5}
	s := opened(t, machine(t, "neoverse-n1"), Request{Question: Auto}, Options{}, k)
	if len(s.Counters) != 5 || len(s.Turns) != 0 || len(s.Missing) != 2 ||
		!strings.Contains(s.Missing[0].Why, "counts 5 of these") {
		t.Errorf("%v, turns %v, missing %v", s.names(), s.Turns, s.Missing)
	}
	if s.Counters[0].Name != "cycles" || s.Counters[1].Name != "instructions" {
		t.Errorf("what a ratio needs goes first: %v", s.names())
	}
}

// A watchdog takes a counter, which the kernel does not mind when it is asked whether a group fits.
func TestCounterTaken(t *testing.T) {
	m := machine(t, "skylake")
	k := &fake{counters: 6, held: 1}
	s := opened(t, m, Request{Question: Auto}, Options{}, k)
	if len(s.Counters) != 5 || len(s.Turns) != 0 {
		t.Errorf("auto: %v, turns %v, missing %v", s.names(), s.Turns, s.Missing)
	}
	if len(k.events) != 5*4 {
		t.Errorf("%d events are open", len(k.events))
	}
	// a question's own group is taken apart: all count, in turns
	k = &fake{counters: 6, held: 1}
	s = opened(t, m, Request{Question: Stall}, Options{}, k)
	if len(s.Counters) != 6 || len(s.Turns) != 6 || len(s.Missing) != 0 {
		t.Errorf("stall: %v, turns %v, missing %v", s.names(), s.Turns, s.Missing)
	}
	if n := strings.Join(s.Notes, "\n"); !strings.Contains(n, "watchdog") {
		t.Errorf("notes %q", n)
	}
	// all of them taken
	k = &fake{counters: 6, held: 6}
	s = opened(t, m, Request{Events: "cycles"}, Options{}, k)
	if len(s.Counters) != 0 || len(s.Missing) != 1 || !strings.Contains(s.Missing[0].Why, "watchdog") ||
		len(k.events) != 0 {
		t.Errorf("%v, missing %v, %d open", s.names(), s.Missing, len(k.events))
	}
}

func TestBigLittleOpen(t *testing.T) {
	k := &fake{counters: 7}
	m := machine(t, "rk3588")
	s := opened(t, m, Request{Question: Auto}, Options{}, k)
	for _, h := range s.Handles() {
		if want := uint32(8); h.CPU >= 4 {
			want = 9
			if k.events[h.FD].attr.Type != want {
				t.Errorf("CPU %d: type %d", h.CPU, k.events[h.FD].attr.Type)
			}
		}
	}
	i := slices.IndexFunc(s.Counters, func(c *Counter) bool { return c.Name == "stall_backend_ld" })
	if _, ok, _ := s.Read(i, 5); ok {
		t.Error("a Cortex-A76 counts what it does not have")
	}
	if _, ok, _ := s.Read(i, 1); !ok {
		t.Error("a Cortex-A55 does not count what it has")
	}
	s.Close()
	// a thread is counted wherever it runs, by one event for each kind
	k = &fake{counters: 7}
	s = opened(t, m, Request{Events: "cycles"}, Options{Thread: 4711}, k)
	if len(k.events) != 2 || k.waited != 0 {
		t.Errorf("%d events, a trial of %v", len(k.events), k.waited)
	}
	for _, e := range k.events {
		if e.pid != 4711 || e.cpu != -1 {
			t.Errorf("%+v", e)
		}
		e.r = Reading{10, 5, 5}
	}
	if r, ok, err := s.Read(0, -1); !ok || err != nil || r.Value != 20 {
		t.Errorf("%v %v %v", r, ok, err)
	}
}

func TestEventGone(t *testing.T) {
	k := &fake{counters: 7, absent: map[string]bool{"3/0x10002": true}}
	s := opened(t, machine(t, "zen4"), Request{Events: "LLC-load-misses,cycles"}, Options{}, k)
	if len(s.Counters) != 1 || s.handles[0].Counter != 0 || len(s.Missing) != 1 ||
		s.Missing[0].Event != "LLC-load-misses" || !strings.Contains(s.Missing[0].Why, "ENOENT") {
		t.Errorf("%v, missing %v", s.names(), s.Missing)
	}
	// a CPU that goes offline meanwhile is no reason to stop
	k = &fake{counters: 7, refuse: map[int]error{2: unix.ENODEV}}
	s = opened(t, machine(t, "zen4"), Request{Events: "cycles"}, Options{}, k)
	if len(k.events) != 3 || len(s.Missing) != 1 || s.Missing[0].On != "CPU 2" {
		t.Errorf("%d open, missing %v", len(k.events), s.Missing)
	}
}

func TestRefusals(t *testing.T) {
	m := machine(t, "zen4")
	for _, c := range []struct {
		err    error
		thread int
		want   []string
	}{
		{unix.EACCES, 0, []string{"counting everything on a CPU needs a privilege (kernel.perf_event_paranoid is 2)", "cap_perfmon"}},
		{unix.EACCES, 7, []string{"counting a thread", "cycles:u"}},
		{unix.EPERM, 0, []string{"seccomp", "cap_perfmon"}},
		{unix.EMFILE, 0, []string{"too many files", "ulimit -n"}},
		{unix.ENOSYS, 0, []string{"CONFIG_PERF_EVENTS"}},
		{unix.ESRCH, 7, []string{"no thread 7"}},
		{unix.EBUSY, 0, []string{"for itself alone"}},
		{unix.EIO, 0, []string{"perf_event_open: input/output error"}},
	} {
		k := &fake{counters: 6, refuse: map[int]error{-2: c.err}}
		s, err := plan(t, m, Request{Events: "cycles,instructions"}).open(Options{Thread: c.thread}, k)
		if err == nil || s != nil {
			t.Errorf("%v: opened", c.err)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%v: %q, want %q", c.err, err, w)
			}
		}
		if !errors.Is(err, c.err) {
			t.Errorf("%v: the system call's error is lost", c.err)
		}
		var missing Missing
		if got := errors.As(err, &missing); got != (c.err != unix.EIO) || got && missing.Why == "" {
			t.Errorf("%v: a Missing: %v %+v", c.err, got, missing)
		}
	}
	// what was open before is closed
	k := &fake{counters: 6, limit: 5}
	if _, err := plan(t, m, Request{Events: "cycles,instructions"}).open(Options{}, k); !errors.Is(err,
		unix.EMFILE) || len(k.events) != 0 {
		t.Errorf("%v, %d events are left open", err, len(k.events))
	}
	if _, err := plan(t, m, Request{Events: "cycles"}).open(Options{CPUs: []int{9}}, k); err == nil ||
		!strings.Contains(err.Error(), "no CPU 9") {
		t.Errorf("a CPU that is not there: %v", err)
	}
}

func TestNothingToOpen(t *testing.T) {
	for _, r := range []Request{{Question: Off}, {}} {
		k := &fake{}
		s := opened(t, machine(t, "vm-no-pmu"), r, Options{}, k)
		if len(s.Counters) != 0 || len(k.attrs) != 0 || s.Enable() != nil || s.Close() != nil {
			t.Errorf("%+v: %v", r, s.names())
		}
	}
}
