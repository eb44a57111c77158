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
	// cpusEvery is the minimum time between two reads of the CPUs' state: drains can be as close as 50 ms.
	cpusEvery = 400 * time.Millisecond
	// maxCPUs bounds the CPUs that are read: each frequency is a file of its own.
	maxCPUs = 256
	// tick is the unit of /proc/stat, USER_HZ: 100 per second for every program (proc_stat(5)).
	tick = int64(10 * time.Millisecond)
)

// cpuWatch reads what the kernel reports about CPUs: steal time and frequencies.
type cpuWatch struct {
	root  string // "" for this machine
	last  int64
	steal bool // some CPU has ever had steal time
	freq  bool // frequencies are available
	first bool // the first read was done
}

// sample writes the CPUs' state, if any is available and the last sample is old enough.
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

// look reads the state; it returns none if the kernel reports none. Only a virtual machine has steal time:
// while it has been 0 since the start, it is read but not reported.
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

// khz reads a CPU's frequency: the recently measured one if the kernel measures it, otherwise the one that
// was set.
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

// parseStat reads the CPU lines of /proc/stat: "cpu0 user nice system idle iowait irq softirq steal ...".
func parseStat(b []byte) []trace.CPUTime {
	var out []trace.CPUTime
	for line := range bytes.Lines(b) {
		f := bytes.Fields(line)
		if len(f) == 0 || !bytes.HasPrefix(f[0], []byte("cpu")) {
			break // they come first
		}
		cpu, err := strconv.Atoi(string(f[0][3:]))
		if err != nil || cpu < 0 { // the total
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
