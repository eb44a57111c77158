// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"os"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/profinfer/profinfer/probe"
	"github.com/profinfer/profinfer/trace"
)

// SchemaVersion is the version of the definitions in a trace.
const SchemaVersion = 1

// machine describes the machine that records.
func machine() trace.Meta {
	m := trace.Meta{SchemaVersion: SchemaVersion, Arch: runtime.GOARCH, Cores: runtime.NumCPU(),
		CPU: cpuModel()}
	m.Start = probe.Now()
	m.Realtime = time.Now().UnixNano()
	m.Host, _ = os.Hostname()
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	if b, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		m.BootID = strings.TrimSpace(string(b))
	}
	var si unix.Sysinfo_t
	if unix.Sysinfo(&si) == nil {
		m.MemBytes = int64(si.Totalram) * int64(si.Unit)
	}
	return m
}

// cpuModel takes the name from /proc/cpuinfo (x86) or the device tree (arm boards).
func cpuModel() string {
	b, _ := os.ReadFile("/proc/cpuinfo")
	if name := parseCPUModel(b); name != "" {
		return name
	}
	if b, err := os.ReadFile("/proc/device-tree/model"); err == nil {
		return strings.TrimRight(string(b), "\x00")
	}
	return ""
}

// parseCPUModel is the first name in /proc/cpuinfo, empty if there is none.
func parseCPUModel(info []byte) string {
	for line := range bytes.Lines(info) {
		if k, v, ok := strings.Cut(string(line), ":"); ok {
			switch strings.TrimSpace(k) {
			case "model name", "Model", "Hardware":
				return strings.TrimSpace(v)
			}
		}
	}
	return ""
}
