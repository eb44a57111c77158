// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

const unprivileged = "Name:\tprofinfer\nUid:\t1000\t1000\t1000\t1000\nCapInh:\t0000000000000000\nCapPrm:\t0000000000000000\n" +
	"CapEff:\t0000000000000000\nCapBnd:\t000001ffffffffff\nCapAmb:\t0000000000000000\nNoNewPrivs:\t0\nSeccomp:\t0\nSeccomp_filters:\t0\n"

func TestParsePrivileges(t *testing.T) {
	p, err := parsePrivileges(unprivileged)
	if err != nil || p.Effective != 0 || p.Bounding != 1<<41-1 || p.NoNewPrivs || p.Seccomp {
		t.Errorf("%+v, %v", p, err)
	}
	p, err = parsePrivileges("CapEff:\t000000c000080000\nCapBnd:\t000000c000080000\nNoNewPrivs:\t1\nSeccomp:\t2\n")
	if err != nil || !p.NoNewPrivs || !p.Seccomp {
		t.Errorf("%+v, %v", p, err)
	}
	if got := p.Lacks(Capabilities()...); slices.Contains(got, CapBPF) || slices.Contains(got, CapPerfmon) ||
		slices.Contains(got, CapSysPtrace) || len(got) != 5 {
		t.Errorf("bpf, perfmon and sys_ptrace are there; lacks %v", Names(got))
	}
	for _, bad := range []string{"", "CapEff:\t12\n", "CapEff:\tx\nCapBnd:\t0\n",
		"CapEff:\t0\nCapBnd:\t10000000000000000\n"} {
		if _, err := parsePrivileges(bad); err == nil {
			t.Errorf("no error for %q", bad)
		}
	}
}

func TestHas(t *testing.T) {
	admin := Privileges{Effective: 1 << CapSysAdmin}
	for _, c := range []Capability{CapBPF, CapPerfmon, CapCheckpointRestore, CapSysAdmin} {
		if !admin.Has(c) {
			t.Errorf("cap_sys_admin does not stand for %v", c)
		}
	}
	for _, c := range []Capability{CapSysPtrace, CapDACReadSearch, CapSysNice} {
		if admin.Has(c) {
			t.Errorf("cap_sys_admin stands for %v", c)
		}
	}
	if !(Privileges{Effective: 1 << CapDACOverride}).Has(CapDACReadSearch) {
		t.Error("cap_dac_override does not stand for cap_dac_read_search")
	}
	if (Privileges{Effective: ^uint64(0), OwnUserNS: true}).Has(CapBPF) {
		t.Error("a capability of a user namespace counts")
	}
}

func TestRefused(t *testing.T) {
	all := uint64(1<<41 - 1)
	own := uint64(1<<CapBPF | 1<<CapPerfmon)
	for _, c := range []struct {
		name         string
		p            Privileges
		text, remedy string
	}{
		{"nobody", Privileges{UID: 1, Bounding: all}, "no cap_bpf and no cap_perfmon",
			"setcap cap_bpf,cap_perfmon+ep /"},
		{"one missing", Privileges{UID: 1, Bounding: all, Effective: 1<<CapBPF | 1<<CapSysNice},
			"no cap_perfmon", "setcap cap_bpf,cap_perfmon,cap_sys_nice+ep /"},
		{"no_new_privs", Privileges{UID: 1, Bounding: all, NoNewPrivs: true}, "no cap_bpf", "no effect"},
		{"container", Privileges{Bounding: all &^ own}, "no cap_bpf", "--cap-add"},
		{"reduced root", Privileges{Bounding: all}, "no cap_bpf", "full root"},
		{"rootless", Privileges{Bounding: all, Effective: all, OwnUserNS: true}, "user namespace",
			"root of the host"},
		{"seccomp", Privileges{Bounding: all, Effective: all, Seccomp: true}, "seccomp",
			"seccomp=unconfined"},
		{"locked down", Privileges{Bounding: all, Effective: all, Lockdown: "confidentiality"}, "locked down",
			"lockdown=integrity"},
		{"security module", Privileges{Bounding: all, Effective: all}, "security module", "dmesg"},
	} {
		text, remedy := c.p.refused("loading")
		if !strings.Contains(text, c.text) || !strings.Contains(remedy, c.remedy) {
			t.Errorf("%s: %s\n  %s", c.name, text, remedy)
		}
	}
}

func TestNeed(t *testing.T) {
	if got := Names(need(false)); got != "cap_bpf,cap_perfmon" {
		t.Error(got)
	}
	if got := Names(need(true)); got != "cap_sys_admin" {
		t.Error(got)
	}
}

func TestLockdown(t *testing.T) {
	for in, want := range map[string]string{"none [integrity] confidentiality\n": "integrity",
		"[none] integrity": "none", "": "", "none": "", "[": ""} {
		if got := parseLockdown(in); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
}

func TestParseVersion(t *testing.T) {
	for in, want := range map[string]Version{
		"6.8.0-45-generic": {6, 8, 0}, "6.18.44-fc-v669": {6, 18,
			44}, "5.15.167.4-microsoft-standard-WSL2": {5, 15, 167},
		"6.18-rc1": {6, 18, 0}, "6.1.0-18-amd64": {6, 1, 0}, "6.6.35": {6, 6, 35}, "7.2": {7, 2,
			0}, "4.18.0-553.el8_10.x86_64": {4, 18, 0},
	} {
		if got, err := ParseVersion(in); got != want || err != nil {
			t.Errorf("%s: %v, %v", in, got, err)
		}
	}
	for _, bad := range []string{"", "linux", "6", "6x.1", "-6.1", "99999999999999999999.1"} {
		if v, err := ParseVersion(bad); err == nil {
			t.Errorf("%q: %v", bad, v)
		}
	}
}

func TestMultiMissesThreads(t *testing.T) {
	for v, want := range map[Version]bool{
		{6, 5, 13}: false, {6, 6, 0}: true, {6, 6, 34}: true, {6, 6, 35}: false, {6, 7, 0}: true, {6, 8,
			12}: true,
		{6, 9, 4}: true, {6, 9, 5}: false, {6, 10, 0}: false, {6, 18, 44}: false,
	} {
		if got := multiMissesThreads(v); got != want {
			t.Errorf("%v: %v", v, got)
		}
	}
}

// Without uprobe_multi, each site has a link of its own, as on kernels before 6.6.
func TestSingleLinks(t *testing.T) {
	needBPF(t)
	s, err := Open(Config{single: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.Multi() {
		t.Error("uprobe_multi is used")
	}
	if d, err := s.Cost(); err != nil || d.Loop <= 0 {
		t.Errorf("a hit costs %v, %v", d, err)
	}
}

// A kernel that refuses the scheduler's programs alone leaves the rest.
func TestSchedRefused(t *testing.T) {
	needBPF(t)
	for name, spoil := range map[string]func(*ebpf.ProgramSpec){
		"no such tracepoint": func(p *ebpf.ProgramSpec) { p.AttachTo = "no_such_tracepoint" },
		"the verifier": func(p *ebpf.ProgramSpec) {
			p.Instructions = asm.Instructions{asm.Mov.Reg(asm.R0, asm.R7), asm.Return()} // never set
		},
	} {
		spec, err := loadKernel()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range spec.Programs {
			if p.Type == ebpf.Kprobe {
				p.AttachType = ebpf.AttachNone
			}
		}
		spoil(spec.Programs["sched_switch"])
		var s Session
		if err := s.faults.set(spec); err != nil {
			t.Fatal(err)
		}
		noSched, err := s.load(spec, true, btf.NewCache())
		if err != nil || noSched == nil {
			t.Fatalf("%s: %v, %v", name, noSched, err)
		}
		if s.objs.OpBegin == nil {
			t.Errorf("%s: the others are not loaded", name)
		}
		if log := VerifierLog(noSched); (name == "the verifier") != strings.Contains(log, "!read_ok") {
			t.Errorf("%s: the verifier's log is %q", name, log)
		}
		s.objs.Close()
	}
}
