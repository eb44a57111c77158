// SPDX-License-Identifier: Apache-2.0

package pmu

import (
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// cpuInfo is the content of /proc/cpuinfo.
type cpuInfo struct {
	ids   map[int]CPUID
	guest bool
}

func (i cpuInfo) numbers() []int { return slices.Sorted(maps.Keys(i.ids)) }

func readCPUInfo(root fs.FS) (cpuInfo, error) {
	s, _, err := readFile(root, "proc/cpuinfo", maxCPUInfo)
	if err != nil {
		return cpuInfo{}, err
	}
	return parseCPUInfo(s), nil
}

// parseCPUInfo reads x86's names (vendor_id, cpu family) and Arm's (CPU implementer, CPU part), from which it
// composes a MIDR: only kernels since 4.7 provide the register itself.
func parseCPUInfo(s string) cpuInfo {
	out := cpuInfo{ids: map[int]CPUID{}}
	n := -1
	for line := range strings.Lines(s) {
		key, value, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if key == "processor" {
			n = -1
			if v, err := strconv.Atoi(value); err == nil && v >= 0 && v < maxCPU {
				n = v
				out.ids[n] = CPUID{}
			}
			continue
		}
		if n < 0 {
			continue
		}
		id := out.ids[n]
		num, err := strconv.ParseUint(value, 0, 16)
		isNum := err == nil
		switch {
		case key == "vendor_id":
			id.Vendor = value
		case key == "cpu family" && isNum:
			id.Family = int(num)
		case key == "model" && isNum:
			id.Model = int(num)
		case key == "stepping" && isNum:
			id.Stepping = int(num)
		case key == "flags":
			out.guest = out.guest || slices.Contains(strings.Fields(value), "hypervisor")
		case key == "CPU implementer" && isNum:
			id.MIDR |= num & 0xff << 24
		case key == "CPU variant" && isNum:
			id.MIDR |= num & 0xf << 20
		case key == "CPU part" && isNum:
			id.MIDR |= num & 0xfff << 4
		case key == "CPU revision" && isNum:
			id.MIDR |= num & 0xf
		}
		if strings.HasPrefix(key, "CPU ") && id.MIDR != 0 {
			id.MIDR |= 0xf << 16 // architecture: by features, as every Armv8 CPU says
		}
		out.ids[n] = id
	}
	return out
}
