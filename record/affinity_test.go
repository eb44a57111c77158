// SPDX-License-Identifier: Apache-2.0

package record

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/profinfer/profinfer/trace"
)

func TestAllowedCPUs(t *testing.T) {
	var set unix.CPUSet
	for _, c := range []struct {
		cpus []int
		want string
	}{{nil, ""}, {[]int{0}, "0"}, {[]int{1, 2, 3, 9}, "1-3,9"}, {[]int{63, 64, 1023}, "63-64,1023"}} {
		set.Zero()
		for _, cpu := range c.cpus {
			set.Set(cpu)
		}
		if got := cpuList(&set); got != c.want {
			t.Errorf("%v is %q, want %q", c.cpus, got, c.want)
		}
	}
}

// A thread that is confined to one CPU while it is recorded is told anew; one that has ended is forgotten.
func TestAllowedChanged(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("one CPU")
	}
	runtime.LockOSThread() // never unlocked: the thread ends with its affinity
	var before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		t.Fatal(err)
	}
	pid, tid := int32(os.Getpid()), int32(unix.Gettid())
	var a allowedBook
	a.first(trace.Thread{PID: 1 << 30, TID: 1 << 30}) // there is none
	if x := a.first(trace.Thread{PID: pid, TID: tid}); x.CPUs != cpuList(&before) {
		t.Fatalf("it may use %q, want %q", x.CPUs, cpuList(&before))
	}
	if got := a.changed(int64(allowedEvery)); len(got) != 0 {
		t.Errorf("changed: %v", got)
	}
	var one unix.CPUSet
	for cpu := range 1024 {
		if before.IsSet(cpu) {
			one.Set(cpu)
			break
		}
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		t.Fatal(err)
	}
	if got := a.changed(int64(allowedEvery) + 1); len(got) != 0 {
		t.Errorf("looked again at once: %v", got)
	}
	if got := a.changed(2 * int64(allowedEvery)); len(got) != 1 || got[0].CPUs != cpuList(&one) ||
		got[0].TID != tid {
		t.Errorf("changed: %v, want %q", got, cpuList(&one))
	}
	// A thread that ended before it was looked at may use what its process may.
	if x := a.first(trace.Thread{PID: pid, TID: 1 << 30}); x.CPUs == "" {
		t.Error("of a thread that has ended nothing is known")
	}
}
