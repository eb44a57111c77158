// SPDX-License-Identifier: Apache-2.0

// Package bootstrap computes confidence intervals of medians by resampling.
package bootstrap

import (
	"math/rand/v2"
	"slices"
)

// Median returns the median of x, which has at least one value.
func Median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	if n := len(x); n%2 == 0 {
		return (x[n/2-1] + x[n/2]) / 2
	}
	return x[len(x)/2]
}

// resamples is the number of bootstrap samples.
const resamples = 4000

// Interval returns the bootstrap's 95 % interval of the median: percentiles of the medians of samples drawn from
// x. The same x always gives the same interval.
func Interval(x []float64) (lo, hi float64) {
	r := rand.New(rand.NewPCG(uint64(len(x)), 0x9e3779b97f4a7c15))
	ms := make([]float64, resamples)
	y := make([]float64, len(x))
	for i := range ms {
		for k := range y {
			y[k] = x[r.IntN(len(x))]
		}
		ms[i] = Median(y)
	}
	slices.Sort(ms)
	return ms[resamples*25/1000], ms[resamples*975/1000-1]
}
