// SPDX-License-Identifier: Apache-2.0

package profile

import "math"

// Dist is a distribution of durations. Counts[i] values lie in (Lo*Ratio^i, Lo*Ratio^(i+1)]; Zeros
// are values of 0.
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

// distSum is a distribution under way.
type distSum struct {
	hist          histogram
	min, max, sum int64
}

// dist returns the distribution as it is drawn.
func (d *distSum) dist() Dist {
	h := &d.hist
	v := Dist{N: h.n, Min: d.min, Max: d.max, Zeros: h.zeros, Counts: []int64{},
		P5: h.quantile(0.05), P25: h.quantile(0.25), P50: h.quantile(0.5), P75: h.quantile(0.75), P95: h.quantile(0.95)}
	if h.n > 0 {
		v.Mean = float64(d.sum) / float64(h.n)
	}
	first, last := 0, len(h.counts)
	for first < last && h.counts[first] == 0 {
		first++
	}
	for last > first && h.counts[last-1] == 0 {
		last--
	}
	// Buckets are joined to few, on bounds that are the same for all rows: two rows' buckets of one width
	// lie on each other.
	wide := 1
	bounds := func() (lo, hi int) { return floorDiv(h.first+first-1, wide), floorDiv(h.first+last-2, wide) }
	for first < last {
		lo, hi := bounds()
		if hi-lo < maxBuckets {
			v.Lo, v.Ratio = bucketBound(lo*wide), bucketBound(wide)
			v.Counts = make([]int64, hi-lo+1)
			for i := first; i < last; i++ {
				v.Counts[floorDiv(h.first+i-1, wide)-lo] += int64(h.counts[i])
			}
			break
		}
		wide++
	}
	return v
}

// add adds a duration without what its probes took: that is an estimate, and can be more than there was.
func (d *distSum) add(net int64) {
	d.sum += net
	v := max(0, net)
	if d.hist.n == 0 || v < d.min {
		d.min = v
	}
	d.max = max(d.max, v)
	d.hist.add(v)
}

func (d *distSum) merge(o *distSum) {
	if o.hist.n == 0 {
		return
	}
	if d.hist.n == 0 {
		d.min = o.min
	}
	d.min, d.max = min(d.min, o.min), max(d.max, o.max)
	d.sum += o.sum
	d.hist.merge(&o.hist)
}

// bucketBound returns the upper bound of bucket i, the lower one of the next.
func bucketBound(i int) float64 { return math.Exp(float64(i) * logGamma) }

func floorDiv(a, b int) int {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// maxBuckets bounds the buckets of a distribution.
const maxBuckets = 160
