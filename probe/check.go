// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// Missing is a privilege or kernel feature that recording needs and this machine does not provide. Remedy
// says what to do.
type Missing struct {
	What   string
	Remedy string
	Err    error
}

func (m *Missing) Error() string {
	s := m.What
	if m.Err != nil {
		s += ": " + m.Err.Error()
	}
	return s + "\n  " + m.Remedy
}

func (m *Missing) Unwrap() error { return m.Err }

// initPIDNamespace is the inode number of the first PID namespace (PROC_PID_INIT_INO).
const initPIDNamespace = "pid:[4026531836]"

// Check reports whether this kernel and this process can record at all: nil, or a *Missing.
func Check() error {
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		return &Missing{What: errArch.Error(), Remedy: "record on one of these; traces can be read anywhere"}
	}
	if err := CheckNamespace(); err != nil {
		return err
	}
	for _, f := range Needed() {
		if errors.Is(f.Err, ebpf.ErrNotSupported) {
			return &Missing{What: "the kernel is too old: " + f.Name + " is missing",
				Remedy: "Linux 5.17 or newer is needed, 6.6 or newer is best", Err: f.Err}
		}
		if f.Err != nil {
			return privilege("loading eBPF programs", f.Err)
		}
	}
	return nil
}

// CheckNamespace reports whether this process sees the same process IDs as the kernel side: nil, or a
// *Missing.
func CheckNamespace() error {
	if ns, err := os.Readlink("/proc/self/ns/pid"); err == nil && ns != initPIDNamespace {
		return &Missing{
			What:   "profinfer runs in a PID namespace of its own, the kernel side sees other process numbers",
			Remedy: "run it on the host, or in a container with --pid=host",
		}
	}
	return nil
}

// privilege explains a refusal by what this process lacks.
func privilege(what string, err error) error {
	if !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EACCES) {
		return &Missing{What: what + " failed", Remedy: "see profinfer doctor", Err: err}
	}
	m := &Missing{What: what + " is not permitted", Err: err}
	p, perr := ReadPrivileges()
	if perr != nil {
		m.Remedy = "run it as root"
		return m
	}
	m.What, m.Remedy = p.refused(what)
	return m
}

// refused returns the possible reasons for a refusal by the kernel, most likely first.
func (p Privileges) refused(what string) (text, remedy string) {
	text = what + " is not permitted"
	least := Need()
	lacks := p.Lacks(least...)
	switch {
	case p.OwnUserNS:
		return text + ": the capabilities of a user namespace (a rootless container) do not count",
			p.Grant(least...)
	case len(lacks) > 0:
		return text + ": there is no " + strings.ReplaceAll(Names(lacks), ",", " and no "), p.Grant(least...)
	case p.Seccomp:
		return text + ", although the capabilities are there: a seccomp filter (of a container or service) refuses bpf or perf_event_open",
			"run it outside, or start the container with --security-opt seccomp=unconfined"
	case p.Lockdown == "confidentiality":
		return text + ": the kernel is locked down (confidentiality)",
			"boot with lockdown=integrity, or without"
	}
	return text + ", although the capabilities are there: a security module (SELinux, AppArmor, BPF LSM) refuses it",
		"see the kernel's log (dmesg, ausearch -m avc), and allow bpf and perf_event for this program"
}

func loadError(err error) error {
	var ve *ebpf.VerifierError
	if errors.As(err, &ve) {
		return &Missing{What: "the kernel's verifier refused a program", Err: err,
			Remedy: "this is a bug in profinfer on this kernel: please report it with the output of profinfer doctor --verifier-log"}
	}
	if errors.Is(err, unix.ENOMEM) {
		return &Missing{What: "no memory for the rings", Err: err, Remedy: "use a smaller --ring-size"}
	}
	return privilege("loading the eBPF programs", err)
}

// VerifierLog returns the complete log if err comes from the kernel's verifier.
func VerifierLog(err error) string {
	var ve *ebpf.VerifierError
	if errors.As(err, &ve) {
		return fmt.Sprintf("%+v", ve)
	}
	return ""
}

func nothing() asm.Instructions {
	return asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}
}
