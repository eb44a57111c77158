// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/profinfer/profinfer/probe"
	"github.com/profinfer/profinfer/target/watch"
)

// Kernel versions, of mainline: distributions backport features to older ones.
var (
	nop5     = probe.Version{6, 18, 0} // multi-byte nops are emulated, the 5-byte one becomes a call (x86-64)
	armNop   = probe.Version{6, 13, 0} // nop is simulated (arm64)
	unlocked = probe.Version{5, 11, 0} // BPF memory is charged to the cgroup, not to RLIMIT_MEMLOCK
)

// kernel checks what the kernel offers; what cannot be tested for lack of a privilege is inferred from its
// version.
func (r *Report) kernel(release string, v probe.Version) {
	c := Check{Name: "kernel", State: OK}
	var there, guessed, absent []string
	for _, f := range probe.Needed() {
		switch {
		case f.Err == nil:
			there = append(there, f.Name)
		case f.Absent(v):
			absent = append(absent, f.Name)
		default:
			guessed = append(guessed, f.Name)
		}
	}
	c.Found = release + ": " + strings.Join(append(there, guessed...), ", ")
	if len(guessed) > 0 {
		c.Found += " (by its version: trying it is not permitted)"
	}
	if len(absent) > 0 {
		c.State, c.Found = Missing, release
		c.Means = "the kernel has no " + strings.Join(absent, ", no ")
		c.Remedy = "Linux 5.17 or newer is needed, 6.6 or newer is best"
	}
	r.add(c)
	f, unused := probe.Multi()
	r.add(links(f, unused, v))
	r.add(cheap(v))
	if probe.ReturnsKill() {
		r.add(Check{Name: "return probes", State: Note,
			Found:  "this kernel's end a process that runs under a seccomp filter (fixed in Linux 6.12.14, 6.13.3 and 6.14)",
			Means:  "of engines under such a filter, most containers' for one, a GPU's queues are not seen",
			Remedy: "a newer kernel"})
	}
	r.add(btfCheck())
	r.programs()
}

// links checks how probes are attached: many at once, or one by one.
func links(f probe.Feature, unused string, v probe.Version) Check {
	c := Check{Name: "probe links", State: OK, Found: "uprobe_multi: all sites of a kind at once"}
	switch {
	case unused != "":
		c.State, c.Found = Degraded, unused+
			" (mainline fixed it in 6.6.35, 6.9.5 and 6.10): not used, each site gets a link of its own"
	case f.Absent(v):
		c.State, c.Found = Degraded, "no uprobe_multi (Linux 6.6): each site gets a link of its own"
	case f.Err != nil:
		c.State, c.Found = Note, "uprobe_multi (by the kernel's version: trying it is not permitted)"
	}
	if c.State == Degraded {
		c.Means, c.Remedy = "the same is recorded; beginning and ending take up to 40 ms for every site",
			"a kernel of 6.10 or newer"
	}
	return c
}

// cheap checks which instructions this kernel probes cheaply.
func cheap(v probe.Version) Check {
	c := Check{Name: "cheap sites", State: OK}
	switch {
	case runtime.GOARCH == "arm64" && v.Less(armNop):
		c.Found = "b, bl, cbz, tbz, adr are emulated; nop is stepped before 6.13"
	case runtime.GOARCH == "arm64":
		c.Found = "b, bl, cbz, tbz, adr and nop are emulated"
	case v.Less(nop5):
		c.Found = "calls, jumps, pushes and nop are emulated; multi-byte nops are stepped before 6.18, sites avoid them"
	default:
		c.Found = "calls, jumps, pushes and nops are emulated; a 5-byte nop takes no trap (6.18)"
	}
	return c
}

func btfCheck() Check {
	c := Check{Name: "BTF", State: OK, Found: "/sys/kernel/btf/vmlinux"}
	if _, err := os.Stat("/sys/kernel/btf/vmlinux"); err != nil {
		c.State, c.Found = Degraded, "no /sys/kernel/btf/vmlinux"
		c.Means = "no scheduling: time off the CPU counts as computing"
		c.Remedy = "a kernel with CONFIG_DEBUG_INFO_BTF; record without: --no-sched"
	}
	return c
}

// programs loads all programs, as a recording does, and measures a probe.
func (r *Report) programs() {
	c := Check{Name: "programs", State: OK, Found: "the kernel's verifier accepts them all"}
	s, err := probe.Open(probe.Config{Sched: true})
	var m *probe.Missing
	if err != nil {
		r.VerifierLog = probe.VerifierLog(err)
		c.State, c.Found = Missing, err.Error()
		if errors.As(err, &m) {
			c.Found, c.Remedy = m.What, m.Remedy
			if m.Err != nil && !strings.Contains(m.What, "permitted") {
				c.Found += ": " + firstLine(m.Err.Error())
			}
		}
		r.add(c)
		return
	}
	defer s.Close()
	sc := Check{Name: "scheduling", State: OK, Found: "attached to the scheduler's tracepoints (tp_btf)"}
	r.sched = s.SchedError == nil
	if !r.sched {
		r.VerifierLog = probe.VerifierLog(s.SchedError)
		if r.VerifierLog != "" {
			c.Found = "the kernel's verifier accepts those for engines"
		}
		sc.State, sc.Found = Degraded, firstLine(s.SchedError.Error())
		sc.Means = "time off the CPU counts as computing, and what preempted it is unknown"
		sc.Remedy = "record --no-sched leaves the warning out"
	}
	c.Found += fmt.Sprintf("; rings of %d KiB on each CPU", s.RingBytes()>>10)
	r.add(c)
	r.add(sc)
	r.cost(s)
}

// dear is the cost of a hit above which short operators are distorted: several times the usual values (0.2 to
// 0.7 us).
const dear = 2000

func (r *Report) cost(s *probe.Session) {
	c := Check{Name: "probe cost", State: OK}
	d, err := s.Cost()
	if err != nil {
		c.State, c.Found = Degraded, err.Error()
		c.Means = "a probe was set and not seen to work: a recording may be empty"
		r.add(c)
		return
	}
	ns := d.Loop.Nanoseconds()
	r.Machine.ProbeCostNS = &ns
	c.Found = fmt.Sprintf("%d ns per probe event (measured in a loop, at an emulated call), %d ns after the caches were emptied", ns, d.Cold.Nanoseconds())
	if ns > dear {
		c.State, c.Means = Degraded, "probes are dear here: short operators look longer than they are"
		c.Remedy = "--level graph costs a few probe events per step only"
	}
	r.add(c)
}

// others checks what a recording uses besides programs.
func (r *Report) others(v probe.Version) {
	c := Check{Name: "process watch", State: OK,
		Found: "the kernel tells of new processes and libraries as they come"}
	if w, err := watch.New(); err != nil {
		c.State, c.Found = Degraded, err.Error()
		c.Means = "/proc is looked at ten times a second instead: what happens between two looks is missed, so the first steps of a short run"
		c.Remedy = "attach with -p once the engine has loaded its libraries"
	} else {
		w.Close()
	}
	r.add(c)
	r.add(counters())
	tracefs := Check{Name: "tracefs", State: Note, Found: "not mounted; not needed"}
	if _, err := os.Stat("/sys/kernel/tracing/events"); err == nil || errors.Is(err, os.ErrPermission) {
		tracefs.Found = "mounted; not needed"
	}
	r.add(tracefs)
	lock := Check{Name: "RLIMIT_MEMLOCK", State: Note,
		Found: "does not matter: since Linux 5.11 the memory of eBPF counts for the cgroup"}
	if v.Less(unlocked) {
		lock.Found = "matters before Linux 5.11"
	}
	r.add(lock)
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}
