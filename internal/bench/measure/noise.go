// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/profinfer/profinfer/internal/bootstrap"
)

// Noise is how loud a machine was while something was measured on it: a fixed piece of work, timed between
// the runs, would always take the same time on a quiet one.
type Noise struct {
	took         []float64 // ms, of the fixed work
	load         []float64 // processes that run or wait
	stolen, busy uint64    // ticks since boot when it began
	words        []uint64
}

const (
	workWords = 1 << 18 // 2 MiB: memory counts as well
	workTurns = 24
)

// Listen begins to listen.
func Listen() *Noise {
	n := &Noise{words: make([]uint64, workWords)}
	n.stolen, n.busy = ticks()
	n.work() // the first touches the memory
	n.took = nil
	return n
}

// Sample does the fixed work once.
func (n *Noise) Sample() {
	n.work()
	var load float64
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		if _, err := fmt.Sscan(string(b), &load); err == nil {
			n.load = append(n.load, load)
		}
	}
}

func (n *Noise) work() {
	start := time.Now()
	x := uint64(1)
	for range workTurns {
		for i := range n.words {
			x = (x ^ n.words[i]) * 0x9e3779b97f4a7c15
			n.words[i] = x >> 7
		}
	}
	n.took = append(n.took, float64(time.Since(start))/1e6)
}

// ticks returns the time that the hypervisor gave to others, and all time but idle time, since boot.
func ticks() (stolen, busy uint64) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0
	}
	line, _, _ := strings.Cut(string(b), "\n")
	var v [8]uint64 // user nice system idle iowait irq softirq steal
	var name string
	if _, err := fmt.Sscan(line, &name, &v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &v[6], &v[7]); err != nil {
		return 0, 0
	}
	return v[7], v[0] + v[1] + v[2] + v[5] + v[6] + v[7]
}

func (n *Noise) String() string {
	if len(n.took) == 0 {
		return "noise: not measured"
	}
	s := fmt.Sprintf("noise: a fixed loop took %.1f ms (median of %d), from %.1f to %.1f",
		bootstrap.Median(n.took), len(n.took), slices.Min(n.took), slices.Max(n.took))
	if len(n.load) > 0 {
		s += fmt.Sprintf("; load %.1f to %.1f", slices.Min(n.load), slices.Max(n.load))
	}
	if stolen, busy := ticks(); busy > n.busy {
		s += fmt.Sprintf("; stolen %.1f %% of busy time", 100*float64(stolen-n.stolen)/float64(busy-n.busy))
	}
	return s
}
