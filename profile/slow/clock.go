// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"slices"

	"github.com/profinfer/profinfer/profile/internal/num"
)

// clockNear is how far from a step a sample of the CPUs' frequencies may be, ns: the recorder samples about
// twice a second.
const clockNear = 600e6

// clockSample is a CPU's frequency at a time.
type clockSample struct {
	at, khz int64
	cpu     int
}

// clock records a frequency.
func (k *cpuBook) clock(at int64, cpu int, khz int64) {
	if len(k.clocks) >= maxIntervals {
		k.clocks = slices.Delete(k.clocks, 0, maxIntervals/2)
	}
	k.clocks = append(k.clocks, clockSample{at, khz, cpu})
}

// clocksOf returns the mean frequency of a step's CPUs around its time, and the median of the same CPUs over
// the run, kHz; nil: unknown.
func (k *cpuBook) clocksOf(r *stepRecord) (then, usual *float64) {
	var sum, n float64
	var all []int64
	for i := range k.clocks {
		c := &k.clocks[i]
		if !r.ranOn(c.cpu) {
			continue
		}
		all = append(all, c.khz)
		if c.at >= r.start-clockNear && c.at <= r.start+r.dur+clockNear {
			sum += float64(c.khz)
			n++
		}
	}
	if n == 0 {
		return nil, nil
	}
	slices.Sort(all)
	v := float64(all[len(all)/2])
	return num.Ratio(sum, n), &v
}
