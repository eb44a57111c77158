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
	// allowedEvery is the least time between two looks at which CPUs threads may use.
	allowedEvery = time.Second
	// maxAllowed bounds the threads that are looked at again.
	maxAllowed = 4096
)

// allowedBook knows which CPUs threads that compute may use: it tells where that changed.
type allowedBook struct {
	last    int64
	threads map[threadKey]trace.Thread
	procs   map[int32]string // of some thread of a process: for those that end before they are looked at
}

// process takes a process that is attached to.
func (a *allowedBook) process(pid int32) {
	if a.procs == nil || len(a.procs) >= maxAllowed {
		a.procs = map[int32]string{}
	}
	if cpus, err := allowedCPUs(int(pid)); err == nil {
		a.procs[pid] = cpus
	}
}

// first returns a thread with its CPUs, and looks at it again from now on.
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

// changed returns those that may use other CPUs than before. A thread that has ended is forgotten.
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

// allowedCPUs lists the CPUs that a thread may use: its affinity within its cpuset, as the kernel keeps them
// in one. An error is the kernel's; it does not tell of more than 1024 CPUs.
func allowedCPUs(tid int) (string, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(tid, &set); err != nil {
		return "", err
	}
	return cpuList(&set), nil
}

// cpuList writes "0-3,7".
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

// tellAllowed writes which threads may use other CPUs now.
func (r *recorder) tellAllowed() error {
	if ts := r.allowed.changed(probe.Now()); len(ts) > 0 {
		return r.w.Threads(ts)
	}
	return nil
}
