// SPDX-License-Identifier: Apache-2.0

package pmu

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// absent reports whether an error concerns one event, so that the others may still be counted.
func absent(err error) bool {
	for _, e := range []unix.Errno{unix.ENOENT, unix.EOPNOTSUPP, unix.EINVAL, unix.ENOSPC, unix.ENXIO} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// notThere returns why an event could not be opened. perf_event_open(2) describes the errors.
func notThere(err error, name string, e *Event) Missing {
	switch {
	case errors.Is(err, unix.ENOENT):
		return Missing{Why: fmt.Sprintf("the kernel has nothing for it on %s (ENOENT)", e.on())}
	case errors.Is(err, unix.EOPNOTSUPP):
		return Missing{Why: fmt.Sprintf("%s cannot count it this way (EOPNOTSUPP)", e.on()),
			Do: "try it without :u and :k"}
	}
	return Missing{Why: fmt.Sprintf("the kernel does not take it for %s (%v)", e.on(), err), Do: "see dmesg"}
}

// refused returns why nothing may be counted.
func refused(err error, m *Machine, name string, o Options) error {
	var out Missing // not for a single event
	level := "unknown"
	if m.Paranoid != nil {
		level = fmt.Sprint(*m.Paranoid)
	}
	switch {
	case errors.Is(err, unix.EACCES):
		out.Why = "counting everything on a CPU needs a privilege (kernel.perf_event_paranoid is " + level +
			")"
		out.Do = "run as root, or give the program cap_perfmon (setcap), or sysctl kernel.perf_event_paranoid=0"
		if o.Thread > 0 {
			out.Why = "counting a thread needs a privilege here (kernel.perf_event_paranoid is " + level +
				"), or the thread is another user's"
			out.Do = "run as root, or give the program cap_perfmon (setcap), or sysctl kernel.perf_event_paranoid=1; with 2 count in user mode only (cycles:u)"
		}
	case errors.Is(err, unix.EPERM):
		out.Why = "something forbids this process to count: a container's seccomp profile, a security module, or capabilities that hold in a user namespace alone"
		out.Do = "give the container cap_perfmon and a profile with perf_event_open, or record on the host"
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		out.Why = fmt.Sprintf("too many files are open: each event takes one for each of %d CPUs",
			len(m.CPUs))
		out.Do = "raise the limit (ulimit -n), or ask for fewer events"
	case errors.Is(err, unix.ENOSYS):
		out.Why = "this kernel has no perf events (CONFIG_PERF_EVENTS), or a seccomp profile hides them"
	case errors.Is(err, unix.ESRCH):
		out.Why = fmt.Sprintf("there is no thread %d any more", o.Thread)
	case errors.Is(err, unix.EBUSY):
		out.Why, out.Do = "another user holds the counters for itself alone",
			"end it (perf, a profiler of the machine's vendor)"
	default:
		return fmt.Errorf("counter %s: perf_event_open: %w", name, err)
	}
	return &refusal{out, err}
}

// refusal is a Missing that keeps the system call's error.
type refusal struct {
	Missing
	err error
}

func (r *refusal) Error() string { return "counters: " + r.Missing.Error() }

// Unwrap returns the Missing and the error of the system call.
func (r *refusal) Unwrap() []error { return []error{r.Missing, r.err} }
