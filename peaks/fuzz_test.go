// SPDX-License-Identifier: Apache-2.0

package peaks

import (
	"encoding/json"
	"testing"
	"testing/fstest"
	"unicode/utf8"
)

// FuzzTexts reads a machine whose files in /proc and /sys say anything.
func FuzzTexts(f *testing.F) {
	f.Add("processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: A CPU\n", "0-1", "cpu0 1 2 3 4 5 6 7 8\n",
		"MemTotal: 8 kB\nMemAvailable: 4 kB\n", "0::/a/b\n", "2048K")
	f.Add("processor: 1\nCPU implementer: 0x41\nCPU part: 0xd0c\n", "1",
		"cpu1 1125899906842624 1125899906842624 3 4 5 6 7 8\n", "MemTotal: -1 kB\n", "1:memory:/../..\n",
		"99999999999999M")
	f.Add("", "0-99999999", "", "", ":::", "-1K")
	f.Fuzz(func(t *testing.T, info, cpus, stat, memory, cgroup, size string) {
		file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
		const cpu = "sys/devices/system/cpu/"
		root := fstest.MapFS{"proc/cpuinfo": file(info), "proc/stat": file(stat),
			"proc/meminfo": file(memory), "proc/self/cgroup": file(cgroup), "proc/loadavg": file(size),
			cpu + "online": file(cpus), cpu + "cpu0/topology/thread_siblings_list": file(cpus), cpu +
				"cpu0/cpu_capacity": file(size), cpu + "cpu0/cache/index2/level": file("2"),
			cpu + "cpu0/cache/index2/size": file(size), cpu +
				"cpu0/cache/index2/shared_cpu_list": file(cpus), "sys/devices/cpu_core/cpus": file(cpus),
			"sys/fs/cgroup/memory.max": file(size), "sys/fs/cgroup/memory.current": file(stat)}
		m, units := readMachine(root)
		if len(units) > maxCPUs || m.Memory < 0 || m.Cache < 0 || !utf8.ValidString(m.CPU+m.Model+m.Online) {
			t.Fatalf("%+v, %d units", m, len(units))
		}
		if _, err := json.Marshal(m); err != nil {
			t.Fatal(err)
		}
		if key := m.key(); len(key) > 200 || key == "" {
			t.Fatalf("key %q", key)
		}
		if n := available(root); n < 0 {
			t.Fatalf("%d bytes are free", n)
		}
		if d := busyTime(stat, map[string]bool{"cpu0": true, "cpu1": true}); d < -1 {
			t.Fatalf("busy for %d", d)
		}
	})
}
