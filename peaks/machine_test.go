// SPDX-License-Identifier: Apache-2.0

package peaks

import (
	"fmt"
	"io/fs"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"
)

// machineFS is a made-up /proc and /sys.
type machineFS struct{ fstest.MapFS }

func newMachine() machineFS { return machineFS{fstest.MapFS{}} }

func (m machineFS) put(name, text string) {
	m.MapFS[name] = &fstest.MapFile{Data: []byte(text + "\n"), Mode: 0o444}
}

func (m machineFS) cpu(id int, file, text string) {
	m.put(fmt.Sprintf("sys/devices/system/cpu/cpu%d/%s", id, file), text)
}

func (m machineFS) cache(id, index, level int, kind, size, shared string) {
	dir := fmt.Sprintf("cache/index%d/", index)
	m.cpu(id, dir+"level", fmt.Sprint(level))
	m.cpu(id, dir+"type", kind)
	m.cpu(id, dir+"size", size)
	m.cpu(id, dir+"shared_cpu_list", shared)
}

// rk3588 is a board of four Cortex-A55 and four Cortex-A76, in clusters of two.
func rk3588() machineFS {
	m := newMachine()
	var info strings.Builder
	for i := range 8 {
		part, capacity := "0xd05", "530"
		if i >= 4 {
			part, capacity = "0xd0b", "1024"
		}
		fmt.Fprintf(&info, "processor\t: %d\nCPU implementer\t: 0x41\nCPU part\t: %s\n\n", i, part)
		m.cpu(i, "cpu_capacity", capacity)
		m.cpu(i, "topology/thread_siblings_list", fmt.Sprint(i))
		m.cache(i, 0, 1, "Data", "32K", fmt.Sprint(i))
		m.cache(i, 1, 1, "Instruction", "32K", fmt.Sprint(i))
		m.cache(i, 2, 2, "Unified", "512K", fmt.Sprint(i))
		m.cache(i, 3, 3, "Unified", "3072K", "0-7")
	}
	m.put("proc/cpuinfo", info.String())
	m.put("proc/device-tree/model", "Radxa ROCK 5B\x00")
	m.put("proc/meminfo", "MemTotal:       16000000 kB\nMemAvailable:   12000000 kB")
	m.put("sys/devices/system/cpu/online", "0-7")
	return m
}

// hybridPC has two performance cores of two threads each, CPUs 0 to 3, and two efficient cores, 4 and 5.
func hybridPC() machineFS {
	m := newMachine()
	var info strings.Builder
	for i := range 6 {
		fmt.Fprintf(&info, "processor\t: %d\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 151\nmodel name\t: A Core\nstepping\t: 2\n\n", i)
		m.cpu(i, "topology/thread_siblings_list", []string{"0-1", "0-1", "2-3", "2-3", "4", "5"}[i])
		m.cache(i, 3, 3, "Unified", "12M", "0-5")
		m.cpu(i, "cpufreq/cpuinfo_max_freq",
			[]string{"5000000", "5000000", "5200000", "5200000", "3900000", "3900000"}[i])
	}
	m.put("proc/cpuinfo", info.String())
	m.put("sys/devices/system/cpu/online", "0-5")
	m.put("sys/devices/cpu_core/cpus", "0-3")
	m.put("sys/devices/cpu_atom/cpus", "4-5")
	return m
}

// server has two sockets of four cores with two threads, CPUs as Linux numbers them: 0-3 and 8-11 are socket
// 0.
func server() machineFS {
	m := newMachine()
	var info strings.Builder
	for i := range 16 {
		fmt.Fprintf(&info, "processor\t: %d\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 1\nmodel name\t: An EPYC\nstepping\t: 1\n\n", i)
		core, node := i%8, i%8/4
		m.cpu(i, "topology/thread_siblings_list", fmt.Sprintf("%d,%d", core, core+8))
		m.cpu(i, fmt.Sprintf("node%d/x", node), "")
		m.cache(i, 3, 3, "Unified", "32768K", []string{"0-3,8-11", "4-7,12-15"}[node])
	}
	m.put("proc/cpuinfo", info.String())
	m.put("sys/devices/system/cpu/online", "0-15")
	return m
}

func ids(units []cpuUnit) []int {
	var out []int
	for _, u := range units {
		out = append(out, u.id)
	}
	return out
}

func TestMachines(t *testing.T) {
	defer func(a string) { goarch = a }(goarch)
	for _, c := range []struct {
		name, arch   string
		fs           fs.FS
		model, cpu   string
		cache        int64
		kinds        []Kind
		placed       []int
		counts       []int
		share1, most int64 // MiB, of one thread and of all together, where the least is 1 MiB
	}{
		{"board", "arm64", rk3588(), "Radxa ROCK 5B", "Cortex-A55; Cortex-A76", 3 << 20,
			[]Kind{{Name: "Cortex-A76, capacity 1024", CPUs: []int{4, 5, 6, 7}},
				{Name: "Cortex-A55, capacity 530", CPUs: []int{0, 1, 2, 3}}},
			[]int{4, 5, 6, 7, 0, 1, 2, 3}, []int{1, 2, 3, 4, 8}, 12, 16},
		{"hybrid", "amd64", hybridPC(), "A Core", "GenuineIntel family 6 model 151 stepping 2", 12 << 20,
			[]Kind{{Name: "performance core", CPUs: []int{0, 1, 2, 3}},
				{Name: "efficient core", CPUs: []int{4, 5}}},
			[]int{0, 2, 4, 5, 1, 3}, []int{1, 2, 3, 4, 6}, 48, 48},
		{"server", "amd64", server(), "An EPYC", "AuthenticAMD family 25 model 1 stepping 1", 64 << 20,
			[]Kind{{Name: "AuthenticAMD family 25 model 1 stepping 1",
				CPUs: []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}}},
			[]int{0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15}, []int{1, 2, 3, 4, 8, 16}, 128, 256},
	} {
		t.Run(c.name, func(t *testing.T) {
			goarch = c.arch
			m, units := readMachine(c.fs)
			if m.Model != c.model || m.CPU != c.cpu || m.Cache != c.cache || m.CPUs != len(units) ||
				m.Arch != c.arch {
				t.Errorf("%+v", m)
			}
			if k := kindsOf(units); !reflect.DeepEqual(k, c.kinds) {
				t.Errorf("kinds %+v", k)
			}
			placed := place(units)
			if got := ids(placed); !slices.Equal(got, c.placed) {
				t.Errorf("placed %v, not %v", got, c.placed)
			}
			if got := counts(placed); !slices.Equal(got, c.counts) {
				t.Errorf("counts %v, not %v", got, c.counts)
			}
			if got := share(placed[:1], 1<<20) >> 20; got != c.share1 {
				t.Errorf("one thread reads %d MiB, not %d", got, c.share1)
			}
			if got := share(placed, 1<<20) >> 20 * int64(len(placed)); got != c.most {
				t.Errorf("all read %d MiB, not %d", got, c.most)
			}
			if got := share(placed[:2], leastSet) >> 20; got != 128 {
				t.Errorf("two threads read %d MiB each: not the least", got)
			}
		})
	}
}

// TestShareUneven: where one thread has a cache to itself and another shares his, the lonely one reads four
// times his as well.
func TestShareUneven(t *testing.T) {
	a, b := "3:0-2", "3:3"
	units := []cpuUnit{{cache: a, size: 12 << 20}, {cache: a, size: 12 << 20}, {cache: a, size: 12 << 20},
		{cache: b, size: 12 << 20}}
	if got := share(units, 1); got != 48<<20 {
		t.Errorf("%d bytes each", got)
	}
}

func TestCounts(t *testing.T) {
	many := make([]cpuUnit, 96)
	for i := range many {
		many[i] = cpuUnit{id: i, rank: i / 48}
	}
	if got := counts(many); !slices.Equal(got, []int{1, 2, 3, 4, 8, 16, 32, 48, 64, 96}) {
		t.Errorf("%v", got)
	}
	if got := counts(many[:1]); !slices.Equal(got, []int{1}) {
		t.Errorf("%v", got)
	}
}

// TestNothingKnown: a system without /proc and /sys, or with nonsense in them, is a machine all the same.
func TestNothingKnown(t *testing.T) {
	bad := newMachine()
	bad.put("proc/cpuinfo", "processor: 99999999999999999999\nprocessor : -4\nmodel name : \x1b[31m\xff\xfe"+
		strings.Repeat("x", 5000)+"\nCPU implementer: 1\n:\n::\n")
	bad.put("proc/meminfo", "MemTotal: -5 kB\nMemTotal: 99999999999999999999 kB\nMemAvailable: x")
	bad.put("sys/devices/system/cpu/online", "0-3,7-5")
	bad.cpu(0, "cpu_capacity", "-1x")
	bad.cpu(0, "cache/index0/level", "9999999999999999999999")
	bad.put("sys/devices/cpu_core/cpus", "0-999999999999")
	for name, f := range map[string]fs.FS{"empty": fstest.MapFS{}, "bad": bad} {
		m, units := readMachine(f)
		if len(units) != min(runtime.NumCPU(), maxCPUs) || m.Memory != 0 || m.Cache != 0 || m.Kinds != nil {
			t.Errorf("%s: %+v, %d CPUs", name, m, len(units))
		}
		if len(m.Model) > 200 || strings.Contains(m.Model, "\x1b") || !utf8.ValidString(m.Model) {
			t.Errorf("%s: %q", name, m.Model)
		}
		if len(place(units)) != len(units) || available(f) != 0 {
			t.Errorf("%s: placed or memory", name)
		}
	}
}

func TestParseList(t *testing.T) {
	for s, want := range map[string][]int{"0": {0}, "0-2,5": {0, 1, 2, 5}, "": nil, "3-1": nil, "x": nil,
		"-1": nil, "0-99999999": nil, "0-9223372036854775807": nil, "1,": nil,
		"0-8000,0-8000": nil, " 1 , 3 ": {1, 3}} {
		if got := parseList(s); !slices.Equal(got, want) {
			t.Errorf("%q: %v, not %v", s, got, want)
		}
	}
}

// TestSame: another CPU, other caches or other CPUs online are another machine; a little more memory is not.
func TestSame(t *testing.T) {
	m, _ := readMachine(server())
	for i, change := range []func(*Machine){
		func(m *Machine) { m.Model = "B" }, func(m *Machine) {
			m.CPU = ""
		}, func(m *Machine) { m.Online = "0-7" },
		func(m *Machine) { m.Cache *= 2 }, func(m *Machine) {
			m.Arch = "s390x"
		}, func(m *Machine) { m.Kinds = []string{"a", "b"} },
		func(m *Machine) { m.Memory = 20 << 30 },
	} {
		m.Memory = 16 << 30
		o := m
		change(&o)
		if m.is(&o) || o.is(&m) {
			t.Errorf("change %d: the same machine", i)
		}
	}
	o := m
	o.Memory = m.Memory + m.Memory/16
	if !m.is(&o) {
		t.Error("a sixteenth more memory is another machine")
	}
}

func TestAvailable(t *testing.T) {
	m := newMachine()
	m.put("proc/meminfo", "MemTotal: 8000000 kB\nMemAvailable: 4000000 kB")
	check := func(want int64) {
		t.Helper()
		if got := available(m); got != want {
			t.Errorf("%d, not %d", got, want)
		}
	}
	check(4000000 << 10)
	m.put("proc/self/cgroup", "0::/a/b")
	m.put("sys/fs/cgroup/a/b/memory.max", "max")
	m.put("sys/fs/cgroup/a/b/memory.current", "5")
	check(4000000 << 10)
	m.put("sys/fs/cgroup/a/memory.max", "1000000")
	m.put("sys/fs/cgroup/a/memory.current", "400000")
	check(600000)
	m.put("sys/fs/cgroup/a/memory.current", "1400000")
	check(1)
	m.put("proc/self/cgroup", "4:memory:/c\n3:cpu:/a\n0::/../../x")
	m.put("sys/fs/cgroup/memory/c/memory.limit_in_bytes", "900000")
	m.put("sys/fs/cgroup/memory/c/memory.usage_in_bytes", "100000")
	check(800000)
	// a folder above with more left than the one below
	m.put("proc/self/cgroup", "0::/a/b")
	m.put("sys/fs/cgroup/a/b/memory.max", "500000")
	m.put("sys/fs/cgroup/a/memory.current", "100000")
	check(499995)
}
