// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/profinfer/profinfer/internal/engines"
)

// The clock of a CPU counts on for whoever runs there. Charged to an operator is what passed while its thread
// ran, also where others take the CPUs: then it is the thread's busy time.
func TestCounters(t *testing.T) {
	e := engines.Debian(t)
	_, inside := engines.Model(t, e, "llama-tiny")
	needBPF(t)
	command := e.Command("llama-bench", "-m", inside, "-t", "2", "-p", "8", "-n", "48", "-r", "1")
	for range runtime.NumCPU() {
		hog := start(t, nil, "sh", "-c", "while :; do :; done")
		defer syscall.Kill(-hog.Process.Pid, syscall.SIGKILL)
	}
	r := load(t, record(t, []string{"-e", "cpu-clock,minor-faults"}, command...))
	if c := r.header.Meta.Counters; len(c) < 2 || c[0].Name != "cpu-clock" || c[1].Name != "minor-faults" {
		t.Fatalf("counters %+v", c)
	}
	var known, all, faults, clock, busy, off, over int64
	for _, o := range r.ops {
		if o.Incomplete {
			continue
		}
		for i := range o.Threads {
			th := &o.Threads[i]
			all++
			off += th.OffCPU
			if th.Counts == nil {
				continue
			}
			known++
			clock += th.Counts[0]
			busy += th.Busy
			faults += th.Counts[1]
			if more := th.Counts[0] - th.Busy; more > 100_000 && more > th.Busy/10 {
				over++
				t.Logf("%s %s on thread %d: %d ns of its CPU's clock, busy %d, off its CPU %d", o.Op,
					o.NodeDef().Name, th.TID, th.Counts[0], th.Busy, th.OffCPU)
			}
		}
	}
	t.Logf("%d of %d known; clock %d ns, busy %d, off-CPU %d; %d faults", known, all, clock, busy, off,
		faults)
	// a host that takes the machine's CPU away comes between two readings of a clock
	if over > known/1000 {
		t.Errorf("%d of %d have more of the clock than they were busy", over, known)
	}
	if known < all*9/10 || all == 0 {
		t.Errorf("counters are known of %d operators on threads of %d", known, all)
	}
	if off < busy/20 {
		t.Errorf("threads were off their CPUs for %d ns only, busy %d: nothing is tested", off, busy)
	}
	if d := float64(clock) / float64(busy); d < 0.93 || d > 1.02 {
		t.Errorf("the CPUs' clocks add up to %.3f of the busy time", d)
	}
}

func TestCountersRefused(t *testing.T) {
	needBPF(t)
	out := filepath.Join(t.TempDir(), "x")
	for _, c := range []struct {
		flags  []string
		status int
		say    string
	}{
		{[]string{"-e", "no_such_event"}, 4, "no_such_event"},
		{[]string{"-e", ","}, 2, ""},
		{[]string{"--counters", "everything"}, 2, "memory"},
		{[]string{"--counters", "off", "-e", "cycles"}, 2, "off"},
		{[]string{"--counters", "software", "--level", "graph"}, 2, "--level op"},
		{[]string{"-e", "page-faults", "--no-sched"}, 2, "--no-sched"},
	} {
		r := profinfer(t, append(append([]string{"record", "-o", out}, c.flags...), "--", "true")...)
		if r.status != c.status || !strings.Contains(r.stderr, c.say) {
			t.Errorf("%v: status %d, %s; want %d and %q", c.flags, r.status, r.stderr, c.status, c.say)
		}
	}
}
