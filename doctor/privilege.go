// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/profinfer/profinfer/probe"
)

// namespaces checks whether this process sees the machine as the kernel side does.
func namespaces(p probe.Privileges) Check {
	c := Check{Name: "namespaces", State: OK, Found: "the machine's own PIDs and users"}
	var err *probe.Missing
	if errors.As(probe.CheckNamespace(), &err) {
		c.State, c.Found, c.Means, c.Remedy = Missing, "a PID namespace of its own", err.What, err.Remedy
		return c
	}
	if p.OwnUserNS {
		c.State, c.Found = Missing, "a user namespace of its own (a rootless container)"
		c.Means, c.Remedy = "capabilities that hold in a user namespace alone do not permit eBPF", p.Grant()
	}
	return c
}

// privileges checks what may be recorded: whose processes, which files.
func (r *Report) privileges(p probe.Privileges) {
	c := Check{Name: "capabilities", State: OK, Found: strings.Join(names(held(p)), ", ")}
	if p.OwnUserNS {
		c.Found = "those of a user namespace"
	} else if c.Found == "" {
		c.Found = "none of " + strings.Join(names(probe.Capabilities()), ", ")
	}
	least := probe.Need()
	if l := p.Lacks(least...); len(l) > 0 {
		c.State = Missing
		c.Means = "nothing can be recorded without " + list(l)
		c.Remedy = p.Grant(least...)
	}
	r.add(c)
	r.add(grade(p, "others' processes", "processes of every user can be recorded",
		"processes of other users than "+strconv.Itoa(p.UID)+
			" may be refused, and their GPU backends are not seen", probe.NeedOthers))
	replaced := "a library that was replaced or removed since a process loaded it (an update) cannot be probed in it"
	if p.Has(probe.CapCheckpointRestore) {
		replaced += ", where the process is another user's"
	}
	r.add(grade(p, "replaced files", "can be read through /proc/PID/map_files", replaced, probe.NeedReplaced))
	r.add(grade(p, "own priority", "raised while recording",
		"with all CPUs busy, profinfer may look at a new library after its first use, or empty a ring too late", []probe.Capability{probe.CapSysNice}))
	all := slices.Concat(least, probe.NeedOthers, probe.NeedReplaced, []probe.Capability{probe.CapSysNice})
	if cmd := p.Setcap(all...); cmd != "" && len(p.Lacks(all...)) > 0 {
		r.add(Check{Name: "setcap", State: Note,
			Found: "all of these capabilities for this program, whoever runs it: " + cmd})
	}
	r.add(sandbox(p))
	r.add(lockdown(p))
	r.add(ptraceScope(p))
	r.add(Check{Name: "sysctl", State: Note,
		Found: fmt.Sprintf("kernel.unprivileged_bpf_disabled %s, kernel.perf_event_paranoid %s: no matter with the capabilities above",
			sysctl("unprivileged_bpf_disabled"), sysctl("perf_event_paranoid"))})
}

// held are the relevant capabilities that are effective.
func held(p probe.Privileges) (out []probe.Capability) {
	for _, c := range probe.Capabilities() {
		if p.Effective>>c&1 != 0 {
			out = append(out, c)
		}
	}
	return out
}

// grade checks capabilities without which something is not recorded.
func grade(p probe.Privileges, name, found, means string, need []probe.Capability) Check {
	c := Check{Name: name, State: OK, Found: found}
	if l := p.Lacks(need...); len(l) > 0 {
		c.State, c.Found, c.Means = Degraded, "no "+strings.Join(names(l), ", no "), means
		if c.Remedy = p.Grant(need...); p.Setcap(need...) != "" {
			c.Remedy = "root, or " + list(l) + " besides (setcap, below)"
		}
	}
	return c
}

func names(caps []probe.Capability) (out []string) {
	for _, c := range caps {
		out = append(out, c.String())
	}
	return out
}

// list joins names for a sentence.
func list(caps []probe.Capability) string { return strings.Join(names(caps), " and ") }

// sandbox checks what a container or service may refuse.
func sandbox(p probe.Privileges) Check {
	c := Check{Name: "sandbox", State: Note, Found: "none"}
	var has []string
	if p.Seccomp {
		has = append(has, "a seccomp filter, which can refuse bpf and perf_event_open")
	}
	if p.NoNewPrivs {
		has = append(has, "no_new_privs: setcap and sudo have no effect")
	}
	if len(has) > 0 {
		c.Found = strings.Join(has, "; ")
	}
	return c
}

func lockdown(p probe.Privileges) Check {
	c := Check{Name: "lockdown", State: OK, Found: p.Lockdown}
	switch p.Lockdown {
	case "":
		c.State, c.Found = Note, "not known (no /sys/kernel/security/lockdown): where confidentiality is in force, there is no scheduling"
	case "none":
	case "integrity":
		c.Found += ": does not hinder a recording"
	default:
		c.State, c.Means = Degraded, "programs cannot read the kernel's memory: no scheduling"
		c.Remedy = "boot with lockdown=integrity, or record with --no-sched"
	}
	return c
}

// ptraceScope follows Documentation/admin-guide/LSM/Yama.rst.
func ptraceScope(p probe.Privileges) Check {
	scope := sysctl("yama/ptrace_scope")
	c := Check{Name: "ptrace", State: OK, Found: "kernel.yama.ptrace_scope " + scope}
	const means = "cannot be held while a library that it loads is probed (its first operators may be missed), and which GPU backends it uses cannot be read"
	switch {
	case scope == "absent":
		c.Found = "not restricted (no Yama)"
	case scope == "0":
	case scope == "3":
		c.State, c.Means = Degraded, "a process "+means
		c.Remedy = "boot without kernel.yama.ptrace_scope=3: it cannot be lowered"
	case p.Has(probe.CapSysPtrace):
		c.Found += ": no matter with cap_sys_ptrace"
	default:
		c.State, c.Means = Degraded, "a process that profinfer did not start "+means
		if scope == "2" {
			c.Means = "a process " + means
		}
		c.Remedy = p.Grant(probe.CapSysPtrace) + "; or sysctl kernel.yama.ptrace_scope=0"
	}
	return c
}

// sysctl reads a number below /proc/sys/kernel.
func sysctl(name string) string {
	b, err := os.ReadFile("/proc/sys/kernel/" + name)
	if errors.Is(err, os.ErrNotExist) {
		return "absent"
	}
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(b))
}

// counters checks whether the CPU's counters can be read.
func counters() Check {
	c := Check{Name: "counters", State: Note, Found: "cycles can be counted: record --counters, record -e"}
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_HARDWARE, Config: unix.PERF_COUNT_HW_CPU_CYCLES,
		Bits: unix.PerfBitDisabled | unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv}
	attr.Size = uint32(unsafe.Sizeof(attr))
	fd, err := unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err == nil {
		unix.Close(fd)
		return c
	}
	c.Found = counterError(err)
	return c
}

// counterError explains why perf_event_open refused to count cycles.
func counterError(err error) string {
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENODEV):
		return "this machine shows no hardware counters (most virtual machines do not); record -e and --counters take what the kernel counts"
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return "not permitted: needs cap_perfmon, or kernel.perf_event_paranoid of 2 or less; only record --counters and -e need them"
	case errors.Is(err, unix.ENOSYS):
		return "this kernel has no perf events, or a sandbox hides them; only record --counters and -e need them"
	}
	return err.Error() + "; only record --counters and -e need counters"
}
