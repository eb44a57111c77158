// SPDX-License-Identifier: Apache-2.0

package pmu

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestMachines(t *testing.T) {
	type unit struct {
		name    string
		typ     uint32
		first   int
		n       int
		kind    string
		genuine bool
	}
	for name, want := range map[string][]unit{
		"rk3588": {{"armv8_cortex_a55", 8, 0, 4, "Cortex-A55", true},
			{"armv8_cortex_a76", 9, 4, 4, "Cortex-A76", true}},
		"phone-x1-a78-a55": {{"armv8_cortex_a55", 8, 0, 4, "Cortex-A55", true},
			{"armv8_cortex_a78", 9, 4, 2, "Cortex-A78", true}, {"armv8_cortex_x1", 10, 6, 2, "Cortex-X1",
				true}},
		"a78ae":       {{"armv8_cortex_a78", 8, 0, 12, "Cortex-A78AE", true}},
		"neoverse-n1": {{"armv8_pmuv3_0", 8, 0, 4, "Neoverse-N1", true}},
		"neoverse-v2": {{"armv8_neoverse_v2", 8, 0, 4, "Neoverse-V2", true}},
		"qemu-n1":     {{"armv8_pmuv3", 10, 0, 1, "Neoverse-N1", false}},
		"qemu-off":    nil,
		"vm-no-pmu":   nil,
		"alderlake": {{"cpu_core", 4, 0, 16, "Alder Lake P", true},
			{"cpu_atom", 10, 16, 8, "Alder Lake E", true}},
		"skylake":        {{"cpu", 4, 0, 4, "Skylake", true}},
		"sapphirerapids": {{"cpu", 4, 0, 4, "Sapphire Rapids", true}},
		"icelakex-guest": {{"cpu", 4, 0, 2, "Ice Lake-X", true}},
		"zen3":           {{"cpu", 4, 0, 4, "Zen 3", true}},
		"zen4":           {{"cpu", 4, 0, 4, "Zen 4", true}},
	} {
		m := machine(t, name)
		var got []unit
		for _, p := range m.PMUs {
			got = append(got, unit{p.Name, p.Type, p.CPUs[0], len(p.CPUs), p.String(), p.Genuine})
			for _, c := range p.CPUs {
				i := slices.IndexFunc(m.CPUs, func(x CPU) bool { return x.N == c })
				if m.CPUs[i].PMU != p {
					t.Errorf("%s: CPU %d does not belong to %s", name, c, p.Name)
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: units %v, want %v", name, got, want)
		}
	}
	if got := len(machines(t)); got != 14 {
		t.Errorf("%d machines in testdata, 14 are tested", got)
	}
}

func TestDescribe(t *testing.T) {
	for name, want := range map[string]string{
		"rk3588":  "Cortex-A55 (armv8_cortex_a55), CPUs 0-3",
		"qemu-n1": "Neoverse-N1 by name only (armv8_pmuv3), CPUs 0", "zen3": "Zen 3 (cpu), CPUs 0-3",
	} {
		if got := machine(t, name).PMUs[0].Describe(); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestMachineFacts(t *testing.T) {
	vm := machine(t, "vm-no-pmu")
	if !vm.Guest || len(vm.CPUs) != 2 || vm.CPUs[1].PMU != nil || *vm.Paranoid != 2 || vm.NMIWatchdog {
		t.Errorf("the virtual machine: %+v", vm)
	}
	if !slices.Contains(vm.Elsewhere, "msr") {
		t.Errorf("msr counts for no thread: %v", vm.Elsewhere)
	}
	n1 := machine(t, "neoverse-n1")
	if !slices.Contains(n1.Elsewhere, "arm_cmn_0") {
		t.Errorf("an interconnect counts for no CPU: %v", n1.Elsewhere)
	}
	if q := machine(t, "qemu-n1"); *q.Paranoid != -1 || !q.NMIWatchdog || q.CPUs[0].ID.MIDR != 0x414fd0c1 {
		t.Errorf("qemu: %+v", q)
	}
	if adl := machine(t, "alderlake"); adl.CPUs[20].ID != (CPUID{Vendor: "GenuineIntel", Family: 6,
		Model: 0x97, Stepping: 2}) {
		t.Errorf("CPU 20: %+v", adl.CPUs[20].ID)
	}
	if _, ok := machine(t, "skylake").PMUs[0].Events["topdown-total-slots.scale"]; ok {
		t.Error("a scale is taken for an event")
	}
}

// A machine without the ID registers in sysfs is known by /proc/cpuinfo, and one without that by the
// name of its unit.
func TestArmIdentity(t *testing.T) {
	tr := tree(t, "qemu-n1")
	delete(tr, "sys/devices/system/cpu/cpu0/regs/identification/midr_el1")
	m, err := ReadMachineFS(tr)
	if err != nil || m.CPUs[0].ID.MIDR != 0x414fd0c1 {
		t.Errorf("from cpuinfo: %+v, %v", m, err)
	}
	tr = tree(t, "rk3588")
	for p := range tr {
		if strings.Contains(p, "midr") {
			delete(tr, p)
		}
	}
	if m, err = ReadMachineFS(tr); err != nil || m.PMUs[1].String() != "Cortex-A76" {
		t.Errorf("from the unit's name: %v, %v", m.PMUs[1], err)
	}
	if k := kindOf(CPUID{MIDR: 0x610fd0b0}, "apple_icestorm_pmu"); k != nil {
		t.Errorf("another maker's part is taken for Arm's: %s", k.Name)
	}
}

func TestOffline(t *testing.T) {
	tr := tree(t, "rk3588")
	tr["sys/devices/system/cpu/online"] = &fstest.MapFile{Data: []byte("0-3,5,7\n")}
	m, err := ReadMachineFS(tr)
	if err != nil || !slices.Equal(m.PMUs[1].CPUs, []int{5, 7}) {
		t.Fatalf("%+v, %v", m, err)
	}
	tr["sys/devices/system/cpu/online"] = &fstest.MapFile{Data: []byte("0-3\n")}
	if m, err = ReadMachineFS(tr); err != nil || len(m.PMUs) != 1 {
		t.Errorf("a unit whose CPUs are all offline counts: %+v, %v", m, err)
	}
}

func TestNothingThere(t *testing.T) {
	m, err := ReadMachineFS(fstest.MapFS{})
	if err != nil || len(m.PMUs) != 0 || m.Paranoid != nil {
		t.Errorf("%+v, %v", m, err)
	}
	if _, err := ReadMachineFS(broken{}); err == nil {
		t.Error("an error of reading is taken for nothing there")
	}
}

// Where a policy hides the event sources (Android's does), that is said, and not that there are none.
func TestHidden(t *testing.T) {
	m, err := ReadMachineFS(hidden{tree(t, "rk3588")})
	if err != nil || !m.Hidden || len(m.CPUs) != 8 {
		t.Fatalf("%+v, %v", m, err)
	}
	if p := plan(t, m, Request{Question: Auto}); len(p.Missing) != 1 ||
		!strings.Contains(p.Missing[0].Why, "may not look") {
		t.Errorf("%v", p.Missing)
	}
}

type hidden struct{ fstest.MapFS }

func (h hidden) ReadDir(name string) ([]fs.DirEntry, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
}

type broken struct{}

func (broken) Open(name string) (fs.File, error) { return nil, errors.New("a broken disk") }

func TestCPULists(t *testing.T) {
	for s, want := range map[string]string{
		"0-3,8": "[0 1 2 3 8]", "0": "[0]", "": "[]", " 2-3 ,5": "[2 3 5]",
		"3-1": "", "-1": "", "x": "", "0-99999999": "", "1,1": "", "1-": "", "5,2": "",
	} {
		got, err := parseCPUs(s)
		if want == "" {
			if err == nil {
				t.Errorf("%q reads as %v", s, got)
			}
			continue
		}
		if err != nil || fmt.Sprint(got) != want {
			t.Errorf("%q: %v, %v", s, got, err)
		}
		if again, err := parseCPUs(formatCPUs(got)); err != nil || !slices.Equal(again, got) ||
			len(formatCPUs(got)) > len(s) {
			t.Errorf("%q is written %q", s, formatCPUs(got))
		}
	}
}

func TestFields(t *testing.T) {
	f, err := parseField("config:0-7,32-35")
	if err != nil {
		t.Fatal(err)
	}
	var w uint64
	if !f.put(&w, 0x1a0) || w != 0x1_0000_00a0 {
		t.Errorf("AMD's event 0x1a0 is %#x", w)
	}
	if f.put(&w, 0x1000) {
		t.Error("13 bits fit into 12")
	}
	w = 0xffff
	if !f.put(&w, 0x42) || w != 0xff42 {
		t.Errorf("a field overwrites others: %#x", w)
	}
	if f, err = parseField("config1:0-63"); err != nil || f.Word != 1 || !f.put(&w, ^uint64(0)) ||
		w != ^uint64(0) {
		t.Errorf("64 bits: %+v %#x %v", f, w, err)
	}
	for _, s := range []string{"", "config", "config9:1", "config:5-1", "config:64", "config:0-63,0-63",
		"config:x", "config:0-7,"} {
		if f, err := parseField(s); err == nil {
			t.Errorf("%q is read as %+v", s, f)
		}
	}
}
