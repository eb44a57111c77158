// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Capability is a capability of the kernel (capabilities(7)).
type Capability uint

func (c Capability) String() string {
	for _, n := range capNames {
		if n.cap == c {
			return n.name
		}
	}
	return fmt.Sprintf("cap_%d", uint(c))
}

// The capabilities relevant to a recording.
const (
	CapDACOverride       Capability = unix.CAP_DAC_OVERRIDE
	CapDACReadSearch     Capability = unix.CAP_DAC_READ_SEARCH
	CapSysPtrace         Capability = unix.CAP_SYS_PTRACE
	CapSysAdmin          Capability = unix.CAP_SYS_ADMIN
	CapSysNice           Capability = unix.CAP_SYS_NICE
	CapPerfmon           Capability = unix.CAP_PERFMON
	CapBPF               Capability = unix.CAP_BPF
	CapCheckpointRestore Capability = unix.CAP_CHECKPOINT_RESTORE
)

var capNames = []struct {
	cap  Capability
	name string
}{
	{CapBPF, "cap_bpf"}, {CapPerfmon, "cap_perfmon"}, {CapSysPtrace, "cap_sys_ptrace"},
	{CapCheckpointRestore, "cap_checkpoint_restore"}, {CapDACReadSearch, "cap_dac_read_search"},
	{CapDACOverride, "cap_dac_override"}, {CapSysNice, "cap_sys_nice"}, {CapSysAdmin, "cap_sys_admin"},
}

// Capabilities lists the relevant ones, in the order in which a person would ask for them.
func Capabilities() []Capability {
	out := make([]Capability, 0, len(capNames))
	for _, n := range capNames {
		out = append(out, n.cap)
	}
	return out
}

// Privileges is what this process may do.
type Privileges struct {
	UID        int    // effective
	Effective  uint64 // one bit per capability
	Bounding   uint64
	NoNewPrivs bool // file capabilities and setuid have no effect
	Seccomp    bool // a filter can refuse system calls
	// OwnUserNS: capabilities are those of a user namespace (a rootless container), but the kernel requires
	// those of the initial one.
	OwnUserNS bool
	// Lockdown is none, integrity or confidentiality; empty if the kernel does not report it.
	Lockdown string
}

// initUserNamespace is the inode number of the initial user namespace (PROC_USER_INIT_INO).
const initUserNamespace = "user:[4026531837]"

// ReadPrivileges reads what this process may do from /proc/self.
func ReadPrivileges() (Privileges, error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return Privileges{UID: os.Geteuid()}, fmt.Errorf("this process's privileges: %w", err)
	}
	p, err := parsePrivileges(string(b))
	p.UID = os.Geteuid()
	if ns, e := os.Readlink("/proc/self/ns/user"); e == nil {
		p.OwnUserNS = ns != initUserNamespace
	}
	if b, e := os.ReadFile("/sys/kernel/security/lockdown"); e == nil {
		p.Lockdown = parseLockdown(string(b))
	}
	return p, err
}

// parsePrivileges parses the text of /proc/PID/status, proc_pid_status(5).
func parsePrivileges(status string) (p Privileges, err error) {
	seen := 0
	for line := range strings.Lines(status) {
		k, v, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		v = strings.TrimSpace(v)
		var n uint64
		var e error
		switch k {
		case "CapEff":
			p.Effective, e = strconv.ParseUint(v, 16, 64)
			seen++
		case "CapBnd":
			p.Bounding, e = strconv.ParseUint(v, 16, 64)
			seen++
		case "NoNewPrivs":
			n, e = strconv.ParseUint(v, 10, 8)
			p.NoNewPrivs = n != 0
		case "Seccomp":
			n, e = strconv.ParseUint(v, 10, 8)
			p.Seccomp = n == 2
		}
		if e != nil {
			return p, fmt.Errorf("this process's privileges: cannot read %q: %w", strings.TrimSpace(line), e)
		}
	}
	if seen != 2 {
		return p, errors.New("this process's privileges: /proc/self/status tells no capabilities")
	}
	return p, nil
}

// parseLockdown returns the active mode of "none [integrity] confidentiality".
func parseLockdown(s string) string {
	_, s, _ = strings.Cut(s, "[")
	s, _, ok := strings.Cut(s, "]")
	if !ok {
		return ""
	}
	return s
}

// Has reports whether a capability is effective. cap_sys_admin includes those that were split off from it.
func (p Privileges) Has(c Capability) bool {
	if p.OwnUserNS {
		return false // useless for anything that concerns the whole machine
	}
	if p.Effective>>c&1 != 0 {
		return true
	}
	switch c {
	case CapBPF, CapPerfmon, CapCheckpointRestore:
		return p.Effective>>CapSysAdmin&1 != 0
	case CapDACReadSearch:
		return p.Effective>>CapDACOverride&1 != 0
	}
	return false
}

// Lacks returns those of caps that are not effective.
func (p Privileges) Lacks(caps ...Capability) []Capability {
	var out []Capability
	for _, c := range caps {
		if !p.Has(c) {
			out = append(out, c)
		}
	}
	return out
}

// Names joins capabilities in the format of setcap(8).
func Names(caps []Capability) string {
	var s []string
	for _, c := range caps {
		s = append(s, c.String())
	}
	return strings.Join(s, ",")
}

// Requirements besides [Need]. Measured by recording with exactly these (Linux 6.18).
var (
	// NeedOthers is needed to record processes of other users.
	NeedOthers = []Capability{CapSysPtrace}
	// NeedReplaced is needed to read files that a process has mapped and that were replaced since; both of
	// them if it is another user's process.
	NeedReplaced = []Capability{CapCheckpointRestore, CapDACReadSearch}
)

// Need is what any recording requires: programs, probes, watching processes. Single uprobe links, where
// nothing better exists, require full cap_sys_admin (perf_uprobe_event_init).
func Need() []Capability {
	f, unused := Multi()
	_, v := Release()
	return need(f.Absent(v) || unused != "" || multiMissesThreads(v))
}

func need(single bool) []Capability {
	if single {
		return []Capability{CapSysAdmin}
	}
	return []Capability{CapBPF, CapPerfmon}
}

// Setcap is the command that gives capabilities to this very program; empty if it would be useless.
func (p Privileges) Setcap(caps ...Capability) string {
	all := p.with(caps)
	if p.OwnUserNS || p.NoNewPrivs || p.UID == 0 || len(p.unreachable(all)) > 0 {
		return ""
	}
	exe, err := os.Executable()
	if err != nil {
		exe = "$(command -v profinfer)"
	}
	return "sudo setcap " + Names(all) + "+ep " + exe
}

// Grant says how to get capabilities.
func (p Privileges) Grant(caps ...Capability) string {
	unreachable := p.unreachable(p.with(caps))
	switch {
	case p.OwnUserNS:
		return "run it outside of the container's user namespace: as root of the host, or in a container with --privileged --pid=host --userns=host"
	case len(unreachable) > 0:
		return "this process cannot be given " + Names(unreachable) +
			" (bounding set): run it outside of the container or service, or start that with --cap-add or CapabilityBoundingSet for " + Names(unreachable)
	case p.UID == 0:
		return "root was deprived of them: run it as full root (sudo), or setpriv without a reduced set"
	case p.NoNewPrivs:
		return "run it as root (sudo); setcap has no effect here, as no_new_privs is set (by a container or service)"
	}
	return "run it as root (sudo), or once: " + p.Setcap(caps...)
}

// unreachable returns those that nothing this process does can obtain.
func (p Privileges) unreachable(caps []Capability) (out []Capability) {
	for _, c := range caps {
		if p.Bounding>>c&1 == 0 {
			out = append(out, c)
		}
	}
	return out
}

// with adds caps to the minimum requirements and to what this process has: setcap replaces a file's previous
// capabilities.
func (p Privileges) with(caps []Capability) []Capability {
	var out []Capability
	least := Need()
	for _, c := range Capabilities() {
		has := p.UID != 0 && c != CapSysAdmin && p.Effective>>c&1 != 0
		if has || slices.Contains(caps, c) || slices.Contains(least, c) {
			out = append(out, c)
		}
	}
	return out
}
