// SPDX-License-Identifier: Apache-2.0

package record

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/profinfer/profinfer/probe"
	"github.com/profinfer/profinfer/trace"
)

const (
	// allowedEvery is the minimum time between two checks of which CPUs threads may use.
	allowedEvery = time.Second
	// maxAllowed bounds the threads that are checked again.
	maxAllowed = 4096
)

// allowedBook tracks which CPUs computing threads may use, to report changes.
type allowedBook struct {
	last    int64
	threads map[threadKey]trace.Thread
	procs   map[int32]string // of some thread of a process: for those that end before they are checked
}

// process adds a process that is attached to.
func (a *allowedBook) process(pid int32) {
	if a.procs == nil || len(a.procs) >= maxAllowed {
		a.procs = map[int32]string{}
	}
	if cpus, err := allowedCPUs(int(pid)); err == nil {
		a.procs[pid] = cpus
	}
}

// first returns a thread with its CPUs, and checks it again from now on.
func (a *allowedBook) first(t trace.Thread) trace.Thread {
	cpus, err := allowedCPUs(int(t.TID))
	if err != nil {
		if a.procs[t.PID] == "" {
			a.process(t.PID)
		}
		t.CPUs = a.procs[t.PID]
		return t
	}
	t.CPUs = cpus
	if a.threads == nil {
		a.threads = map[threadKey]trace.Thread{}
	}
	if len(a.threads) < maxAllowed {
		a.threads[threadKey{t.PID, t.TID}] = t
	}
	return t
}

// changed returns the threads whose allowed CPUs have changed. A thread that has ended is forgotten.
func (a *allowedBook) changed(now int64) []trace.Thread {
	if now-a.last < int64(allowedEvery) {
		return nil
	}
	a.last = now
	var out []trace.Thread
	for k, t := range a.threads {
		cpus, err := allowedCPUs(int(k.tid))
		switch {
		case errors.Is(err, unix.ESRCH):
			delete(a.threads, k)
		case err == nil && cpus != t.CPUs:
			t.CPUs = cpus
			a.threads[k] = t
			out = append(out, t)
		}
	}
	return out
}

// allowedCPUs lists the CPUs that a thread may use: its affinity within its cpuset, which the kernel keeps as
// one mask. The error is the kernel's, which does not report more than 1024 CPUs.
func allowedCPUs(tid int) (string, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(tid, &set); err != nil {
		return "", err
	}
	return cpuList(&set), nil
}

// cpuList formats "0-3,7".
func cpuList(set *unix.CPUSet) string {
	var b strings.Builder
	for cpu, most := 0, 64*len(set); cpu < most; cpu++ {
		if !set.IsSet(cpu) {
			continue
		}
		to := cpu
		for to+1 < most && set.IsSet(to+1) {
			to++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(cpu))
		if to > cpu {
			b.WriteString("-" + strconv.Itoa(to))
		}
		cpu = to
	}
	return b.String()
}

// tellAllowed writes the threads whose allowed CPUs have changed.
func (r *recorder) tellAllowed() error {
	if ts := r.allowed.changed(probe.Now()); len(ts) > 0 {
		return r.w.Threads(ts)
	}
	return nil
}
