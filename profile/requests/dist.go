// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"math"

	"github.com/profinfer/profinfer/profile/internal/sketch"
)

// Dist is a distribution of durations. Counts[i] values are in (Lo*Ratio^i, Lo*Ratio^(i+1)]; Zeros counts
// values of 0.
type Dist struct {
	N      int64   `json:"n"`
	Min    int64   `json:"min_ns"`
	Max    int64   `json:"max_ns"`
	Mean   float64 `json:"mean_ns"`
	P5     float64 `json:"p5_ns"`
	P25    float64 `json:"p25_ns"`
	P50    float64 `json:"p50_ns"`
	P75    float64 `json:"p75_ns"`
	P95    float64 `json:"p95_ns"`
	Lo     float64 `json:"lo_ns"`
	Ratio  float64 `json:"ratio"`
	Counts []int64 `json:"counts"`
	Zeros  int64   `json:"zeros"`
}

// DistSum is a distribution while it is summed up.
type DistSum struct {
	Hist          sketch.Histogram
	min, Max, Sum int64
}

// Dist returns the distribution in the form that is drawn.
func (d *DistSum) Dist() Dist {
	h := &d.Hist
	v := Dist{N: h.N, Min: d.min, Max: d.Max, Zeros: h.Zeros, Counts: []int64{},
		P5: h.Quantile(0.05), P25: h.Quantile(0.25), P50: h.Quantile(0.5), P75: h.Quantile(0.75),
		P95: h.Quantile(0.95)}
	if h.N > 0 {
		v.Mean = float64(d.Sum) / float64(h.N)
	}
	first, last := 0, len(h.Counts)
	for first < last && h.Counts[first] == 0 {
		first++
	}
	for last > first && h.Counts[last-1] == 0 {
		last--
	}
	// Buckets are merged into fewer, with bounds that are the same for all rows: buckets of equal width in
	// two rows coincide.
	wide := 1
	bounds := func() (lo, hi int) { return floorDiv(h.First+first-1, wide), floorDiv(h.First+last-2, wide) }
	for first < last {
		lo, hi := bounds()
		if hi-lo < maxBuckets {
			v.Lo, v.Ratio = bucketBound(lo*wide), bucketBound(wide)
			v.Counts = make([]int64, hi-lo+1)
			for i := first; i < last; i++ {
				v.Counts[floorDiv(h.First+i-1, wide)-lo] += int64(h.Counts[i])
			}
			break
		}
		wide++
	}
	return v
}

// Add adds a duration without the time of its probes. That is an estimate, so net can be negative.
func (d *DistSum) Add(net int64) {
	d.Sum += net
	v := max(0, net)
	if d.Hist.N == 0 || v < d.min {
		d.min = v
	}
	d.Max = max(d.Max, v)
	d.Hist.Add(v)
}

func (d *DistSum) Merge(o *DistSum) {
	if o.Hist.N == 0 {
		return
	}
	if d.Hist.N == 0 {
		d.min = o.min
	}
	d.min, d.Max = min(d.min, o.min), max(d.Max, o.Max)
	d.Sum += o.Sum
	d.Hist.Merge(&o.Hist)
}

// bucketBound returns the upper bound of bucket i, which is the lower bound of the next.
func bucketBound(i int) float64 { return math.Exp(float64(i) * sketch.LogGamma) }

func floorDiv(a, b int) int {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// maxBuckets bounds the buckets of a distribution.
const maxBuckets = 160
