// SPDX-License-Identifier: Apache-2.0

package peaks

import (
	"fmt"
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/profinfer/profinfer/internal/format"
)

// watch measures what other processes do on some CPUs.
type watch struct {
	root  fs.FS
	cpus  map[string]bool
	begin time.Time
	busy  time.Duration
	own   time.Duration
	load  *float64
}

func newWatch(root fs.FS, cpus []int) *watch {
	w := &watch{root: root, cpus: map[string]bool{}, begin: time.Now(), own: processCPU()}
	for _, id := range cpus {
		w.cpus[fmt.Sprintf("cpu%d", id)] = true
	}
	w.busy = busyTime(readText(root, "proc/stat"), w.cpus)
	first, _, _ := strings.Cut(readText(root, "proc/loadavg"), " ")
	if v, err := strconv.ParseFloat(first, 64); err == nil && v >= 0 && v < 1e6 {
		w.load = &v
	}
	return w
}

// others is the share of these CPUs' time that was neither this process's nor idle; nil: unknown.
func (w *watch) others() *float64 {
	busy, own, long := busyTime(readText(w.root, "proc/stat"), w.cpus), processCPU(), time.Since(w.begin)
	if w.busy < 0 || busy < w.busy || w.own < 0 || own < w.own || long <= 0 {
		return nil
	}
	share := float64((busy-w.busy)-(own-w.own)) / (float64(long) * float64(len(w.cpus)))
	share = math.Max(0, math.Min(1, share))
	return &share
}

// busyTime is the time in which these CPUs were not idle, steal included, from /proc/stat
// (Documentation/filesystems/proc.rst, 1.7); below 0: unknown.
func busyTime(stat string, cpus map[string]bool) time.Duration {
	total, found := time.Duration(0), false
	for line := range strings.Lines(stat) {
		f := strings.Fields(line)
		if len(f) < 9 || !cpus[f[0]] {
			continue
		}
		found = true
		// user nice system idle iowait irq softirq steal; user already includes guest
		for _, i := range []int{1, 2, 3, 6, 7, 8} {
			n, err := strconv.ParseInt(f[i], 10, 64)
			if err != nil || n < 0 || n > int64((math.MaxInt64-total)/clockTick) {
				return -1
			}
			total += time.Duration(n) * clockTick
		}
	}
	if !found {
		return -1
	}
	return total
}

// available is the memory that can be taken without evicting anything, bytes, according to the machine, this
// process's cgroups and their parents. 0: unknown.
func available(root fs.FS) int64 {
	free := int64(0)
	for line := range strings.Lines(readText(root, "proc/meminfo")) {
		var kb int64
		if n, _ := fmt.Sscanf(line, "MemAvailable: %d kB", &kb); n == 1 && kb > 0 && kb < 1<<50 {
			free = kb << 10
		}
	}
	for line := range strings.Lines(readText(root, "proc/self/cgroup")) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		dir, limit, used := "sys/fs/cgroup", "memory.max", "memory.current"
		if f[1] == "memory" {
			dir, limit, used = "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
		} else if f[1] != "" {
			continue
		}
		for p := path.Clean("/" + f[2]); ; p = path.Dir(p) {
			most, ok := readNumber(root, path.Join(dir, p, limit))
			now, ok2 := readNumber(root, path.Join(dir, p, used))
			if ok && ok2 && most > 0 && most < 1<<60 {
				if left := max(most-now, 1); free == 0 || left < free {
					free = left
				}
			}
			if p == "/" {
				break
			}
		}
	}
	return free
}

// warn reports what makes the figures lower than on an idle machine.
func (m *measurement) warn() {
	p := m.out
	if p.Others != nil && *p.Others > 0.02 {
		m.say("others took %.0f %% of these CPUs' time; what their memory accesses cost is in the bandwidth: measure again when the machine is quiet", *p.Others*100)
	}
	var apart, interrupted []string
	all := 0
	for i := range p.Points {
		pt := &p.Points[i]
		for _, w := range figures {
			f := *pt.slot(w)
			if f == nil {
				continue
			}
			all++
			name := string(w) + " with " + format.Plural(pt.Threads, "thread")
			if !f.Agree {
				apart = append(apart, name)
			}
			if f.interrupted() {
				interrupted = append(interrupted, name)
			}
		}
	}
	if len(apart) > 0 {
		m.say("the best trials do not agree within %.0f %%: %s", agreement*100, some(apart, all))
	}
	if len(interrupted) > 0 {
		m.say("other work interrupted even the best trial: %s", some(interrupted, all))
	}
	if m.high > 0 && m.low < m.high*0.9 {
		m.say("the CPUs' clock went from %.2f to %.2f GHz meanwhile: it scales (governor, power or heat)",
			m.low, m.high)
	}
	if gov := readText(m.root, fmt.Sprintf("sys/devices/system/cpu/cpu%d/cpufreq/scaling_governor",
		p.CPUs[0])); gov == "powersave" {
		if driver := readText(m.root, fmt.Sprintf("sys/devices/system/cpu/cpu%d/cpufreq/scaling_driver",
			p.CPUs[0])); driver != "intel_pstate" && driver != "amd-pstate-epp" {
			m.say("the governor is powersave, which keeps the clock low")
		}
	}
	if thp := readText(m.root, "sys/kernel/mm/transparent_hugepage/enabled"); strings.Contains(thp,
		"[never]") {
		m.say("huge pages are off (transparent_hugepage=never): reading waits for page tables as well")
	}
}

// some lists figures, or counts them if there are many.
func some(names []string, all int) string {
	if len(names) > 4 {
		return fmt.Sprintf("%d of %d figures", len(names), all)
	}
	return strings.Join(names, ", ")
}
