// SPDX-License-Identifier: Apache-2.0

package peaks

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"strconv"
	"strings"
)

// Machine is the machine that peaks belong to. Empty, 0: unknown.
type Machine struct {
	Arch  string `json:"arch"`
	Model string `json:"model"` // name of the CPU, or of the board
	// vendor, family, model, stepping; implementer and part, for each kind
	CPU    string   `json:"cpu,omitempty"`
	CPUs   int      `json:"cpus"`            // online
	Online string   `json:"online"`          // the kernel's list of them: 0-7
	Memory int64    `json:"memory_bytes"`    // as reported by the kernel (MemTotal)
	Cache  int64    `json:"cache_bytes"`     // last-level caches of all CPUs together
	Kinds  []string `json:"kinds,omitempty"` // if CPUs differ
}

// key identifies the machine in a file name. It excludes memory: what the kernel reserves for itself changes
// with its version.
func (m *Machine) key() string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q %q %d %q", m.Arch, m.Model, m.CPU, m.Online, m.Cache, m.Kinds)
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// is reports whether o is the same machine.
func (m *Machine) is(o *Machine) bool { return m.key() == o.key() && near(m.Memory, o.Memory) }

// goarch is the architecture; tests override it.
var goarch = runtime.GOARCH

// maxCPUs bounds what is read about a machine.
const maxCPUs = 8192

// cpuUnit is a CPU.
type cpuUnit struct {
	id    int
	kind  string // as in CPU; the same for all if they do not differ
	speed int64  // orders the kinds: capacity, or the highest frequency
	// capacity is the kernel's measure of a CPU's speed, 1024 for the fastest; 0: unknown
	capacity int64
	rank     int // 0: the first thread of its core
	node     int
	cache    string // its last-level cache
	size     int64  // its size in bytes; 0: unknown
}

// readText reads a small file of /proc or /sys; empty if there is none.
func readText(root fs.FS, name string) string {
	f, err := root.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, 8<<20))
	return strings.TrimSpace(strings.TrimRight(string(b), "\x00\n"))
}

func readNumber(root fs.FS, name string) (int64, bool) {
	v, err := strconv.ParseInt(readText(root, name), 10, 64)
	return v, err == nil
}

// readMachine describes the machine with file system root, and its CPUs in the order of their numbers.
func readMachine(root fs.FS) (Machine, []cpuUnit) {
	m := Machine{Arch: goarch}
	info := parseCPUInfo(readText(root, "proc/cpuinfo"))
	m.Model = info.name
	if m.Model == "" {
		m.Model = short(readText(root, "proc/device-tree/model"))
	}
	m.Online = short(readText(root, "sys/devices/system/cpu/online"))
	ids := parseList(m.Online)
	if len(ids) == 0 {
		for i := range min(runtime.NumCPU(), maxCPUs) {
			ids = append(ids, i)
		}
	}
	m.CPUs = len(ids)
	for line := range strings.Lines(readText(root, "proc/meminfo")) {
		var kb int64
		if n, _ := fmt.Sscanf(line, "MemTotal: %d kB", &kb); n == 1 && kb > 0 && kb < 1<<50 {
			m.Memory = kb << 10
		}
	}
	units := make([]cpuUnit, 0, len(ids))
	fast, slow := hybrid(root)
	seen := map[string]bool{}
	var parts []string
	for _, id := range ids {
		u := readUnit(root, id)
		u.kind = info.part[id]
		switch {
		case fast[id]:
			u.kind, u.speed = "performance core", 2
		case slow[id]:
			u.kind, u.speed = "efficient core", 1
		case m.Arch == "arm64":
			// on some systems one part number runs at several speeds: different kinds for a program
			if u.capacity > 0 {
				u.kind = fmt.Sprintf("%s, capacity %d", u.kind, u.capacity)
			}
		default:
			u.speed = 0 // favoured cores of one kind differ in their maximum frequency
		}
		if part := info.part[id]; part != "" && !seen[part] && len(parts) < 16 {
			seen[part] = true
			parts = append(parts, part)
		}
		units = append(units, u)
	}
	m.CPU = strings.Join(parts, "; ")
	if kinds := kindsOf(units); len(kinds) > 1 {
		for _, k := range kinds {
			m.Kinds = append(m.Kinds, k.Name)
		}
	}
	caches := map[string]bool{}
	for _, u := range units {
		if !caches[u.cache] {
			caches[u.cache] = true
			m.Cache += u.size
		}
	}
	return m, units
}

// short bounds the length of a text.
func short(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	if len(s) > 200 {
		s = strings.ToValidUTF8(s[:200], "")
	}
	return s
}

// cpuInfo is the content of /proc/cpuinfo: the name, and the model of each CPU.
type cpuInfo struct {
	name string
	part map[int]string
}

func parseCPUInfo(text string) cpuInfo {
	info := cpuInfo{part: map[int]string{}}
	id := -1
	f := map[string]string{}
	end := func() {
		if id >= 0 && id < maxCPUs {
			info.part[id] = partName(f)
		}
		id = -1
		clear(f)
	}
	for line := range strings.Lines(text) {
		k, v, ok := strings.Cut(line, ":")
		if !ok {
			end()
			continue
		}
		k, v = strings.TrimSpace(k), short(strings.TrimSpace(v))
		switch k {
		case "processor":
			if n, err := strconv.Atoi(v); err == nil {
				end()
				id = n
			}
		case "model name", "Model", "Hardware":
			// the same name that the recorder uses for a recording's CPU, so that the two can be compared
			if info.name == "" {
				info.name = v
			}
		default:
			f[k] = v
		}
	}
	end()
	return info
}

func partName(f map[string]string) string {
	if f["CPU implementer"] != "" {
		if name := armParts[f["CPU implementer"]+f["CPU part"]]; name != "" {
			return name
		}
		return "implementer " + f["CPU implementer"] + " part " + f["CPU part"]
	}
	if f["vendor_id"] == "" {
		return ""
	}
	return fmt.Sprintf("%s family %s model %s stepping %s", f["vendor_id"], f["cpu family"], f["model"],
		f["stepping"])
}

// armParts names Arm's own CPUs: implementer 0x41 and the part's number in MIDR_EL1, as in the kernel's
// arch/arm64/include/asm/cputype.h.
var armParts = map[string]string{
	"0x410xd03": "Cortex-A53", "0x410xd04": "Cortex-A35", "0x410xd05": "Cortex-A55",
	"0x410xd07": "Cortex-A57", "0x410xd08": "Cortex-A72",
	"0x410xd09": "Cortex-A73", "0x410xd0a": "Cortex-A75", "0x410xd0b": "Cortex-A76",
	"0x410xd0c": "Neoverse-N1", "0x410xd0d": "Cortex-A77",
	"0x410xd40": "Neoverse-V1", "0x410xd41": "Cortex-A78", "0x410xd44": "Cortex-X1",
	"0x410xd46": "Cortex-A510", "0x410xd47": "Cortex-A710",
	"0x410xd48": "Cortex-X2", "0x410xd49": "Neoverse-N2", "0x410xd4b": "Cortex-A78C",
	"0x410xd4d": "Cortex-A715", "0x410xd4e": "Cortex-X3", "0x410xd4f": "Neoverse-V2",
	"0x410xd80": "Cortex-A520", "0x410xd81": "Cortex-A720", "0x410xd82": "Cortex-X4",
	"0x410xd84": "Neoverse-V3", "0x410xd85": "Cortex-X925",
	"0x410xd87": "Cortex-A725", "0x410xd8e": "Neoverse-N3",
}

// hybrid returns the CPUs of Intel's two kinds: the kernel has a PMU for each.
func hybrid(root fs.FS) (fast, slow map[int]bool) {
	set := func(name string) map[int]bool {
		s := map[int]bool{}
		for _, id := range parseList(readText(root, name)) {
			s[id] = true
		}
		return s
	}
	return set("sys/devices/cpu_core/cpus"), set("sys/devices/cpu_atom/cpus")
}

// readUnit reads a CPU's speed, place and last-level cache from sysfs
// (Documentation/ABI/testing/sysfs-devices-system-cpu).
func readUnit(root fs.FS, id int) cpuUnit {
	dir := fmt.Sprintf("sys/devices/system/cpu/cpu%d/", id)
	u := cpuUnit{id: id}
	if v, ok := readNumber(root, dir+"cpu_capacity"); ok {
		u.speed, u.capacity = v, v
	} else if v, ok := readNumber(root, dir+"cpufreq/cpuinfo_max_freq"); ok {
		u.speed = v
	}
	for i, s := range parseList(readText(root, dir+"topology/thread_siblings_list")) {
		if s == id {
			u.rank = i
		}
	}
	if entries, err := fs.ReadDir(root, strings.TrimSuffix(dir, "/")); err == nil {
		for _, e := range entries {
			if n, ok := strings.CutPrefix(e.Name(), "node"); ok {
				if v, err := strconv.Atoi(n); err == nil {
					u.node = v
				}
			}
		}
	}
	level := int64(0)
	for i := range 16 {
		c := fmt.Sprintf("%scache/index%d/", dir, i)
		l, ok := readNumber(root, c+"level")
		if !ok || l <= level {
			continue
		}
		if size := parseSize(readText(root, c+"size")); size > 0 {
			level, u.size = l, size
			u.cache = fmt.Sprintf("%d:%s", l, short(readText(root, c+"shared_cpu_list")))
		}
	}
	return u
}

// parseSize parses sysfs' 107520K.
func parseSize(s string) int64 {
	n, err := strconv.ParseInt(strings.TrimRight(s, "KM"), 10, 64)
	if err != nil || n <= 0 || n > 1<<32 {
		return 0
	}
	switch {
	case strings.HasSuffix(s, "K"):
		n <<= 10
	case strings.HasSuffix(s, "M"):
		n <<= 20
	}
	return n
}

// parseList parses the kernel's lists of CPUs: 0-3,8,10-11. Anything else gives an empty list.
func parseList(s string) []int {
	var out []int
	for part := range strings.SplitSeq(s, ",") {
		lo, hi, ranged := strings.Cut(strings.TrimSpace(part), "-")
		a, err := strconv.Atoi(lo)
		b := a
		if err == nil && ranged {
			b, err = strconv.Atoi(hi)
		}
		if err != nil || a < 0 || b < a || b-a >= maxCPUs || len(out)+b-a+1 > maxCPUs {
			return nil
		}
		for i := a; i <= b; i++ {
			out = append(out, i)
		}
	}
	return out
}
