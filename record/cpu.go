// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/profinfer/profinfer/trace"
)

const (
	// cpusEvery is the least time between two looks at the machine's CPUs: drains can be as close as 50 ms.
	cpusEvery = 400 * time.Millisecond
	// maxCPUs bounds the CPUs that are looked at: each frequency is a file of its own.
	maxCPUs = 256
	// tick is what /proc/stat counts in, USER_HZ: 100 a second for every program (proc_stat(5)).
	tick = int64(10 * time.Millisecond)
)

// cpuWatch reads what the kernel tells of CPUs: time that the hypervisor took, and frequencies.
type cpuWatch struct {
	root  string // "" is the machine's own
	last  int64
	steal bool // some CPU ever lost time
	freq  bool // there are frequencies
	first bool // the first look was taken
}

// sample writes the CPUs' state, if there is anything to tell and the last time is long enough ago.
func (c *cpuWatch) sample(now int64, w *trace.Writer) error {
	if c.first && now-c.last < int64(cpusEvery) {
		return nil
	}
	c.last = now
	cpus := c.look()
	if len(cpus) == 0 {
		return nil
	}
	return w.CPU(trace.CPUState{Time: now, CPUs: cpus})
}

// look reads them; none where the kernel tells neither. Only a virtual machine has steal time: where it was 0
// since the start, it is read but not told until it is not.
func (c *cpuWatch) look() []trace.CPUTime {
	first := !c.first
	c.first = true
	b, err := os.ReadFile(c.root + "/proc/stat")
	if err != nil {
		return nil
	}
	out := parseStat(b)
	for i := range out {
		c.steal = c.steal || out[i].Steal != nil && *out[i].Steal > 0
	}
	if first {
		c.freq = len(out) > 0 && c.khz(out[0].CPU) != nil
	}
	if !c.steal && !c.freq {
		return nil
	}
	if c.freq {
		for i := range out {
			out[i].KHz = c.khz(out[i].CPU)
		}
	}
	return out
}

// khz reads a CPU's frequency: what it had over the last moments where the kernel measures it, else what it
// was set to.
func (c *cpuWatch) khz(cpu int) *int64 {
	b, err := os.ReadFile(fmt.Sprintf("%s/sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq", c.root,
		cpu))
	if err != nil {
		return nil
	}
	v, err := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64)
	if err != nil || v <= 0 {
		return nil
	}
	return &v
}

// parseStat reads /proc/stat's lines of CPUs: "cpu0 user nice system idle iowait irq softirq steal ...".
func parseStat(b []byte) []trace.CPUTime {
	var out []trace.CPUTime
	for line := range bytes.Lines(b) {
		f := bytes.Fields(line)
		if len(f) == 0 || !bytes.HasPrefix(f[0], []byte("cpu")) {
			break // they stand first
		}
		cpu, err := strconv.Atoi(string(f[0][3:]))
		if err != nil || cpu < 0 { // the sum of all
			continue
		}
		if len(out) >= maxCPUs {
			break
		}
		x := trace.CPUTime{CPU: cpu}
		if len(f) > 8 {
			if v, err := strconv.ParseInt(string(f[8]), 10, 64); err == nil && v >= 0 &&
				v < int64(^uint64(0)>>1)/tick {
				v *= tick
				x.Steal = &v
			}
		}
		out = append(out, x)
	}
	return out
}
