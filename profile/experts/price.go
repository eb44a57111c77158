// SPDX-License-Identifier: Apache-2.0

package experts

import (
	"math"

	"github.com/profinfer/profinfer/profile/internal/num"
	"github.com/profinfer/profinfer/profile/internal/sketch"
)

// Price is the cost of one more new expert in a matmul, ns: the slope of the least-squares line through the
// medians by number of new experts, weighted by calls; 0 where it is not reliable.
func (p *CostByNew) Price() float64 {
	var line num.Line
	points := 0
	each := func(f func(n, median, calls float64, h *sketch.Histogram)) {
		for n, c := range p.new {
			if c.Calls >= expertCalls {
				f(float64(n), c.Hist.Quantile(0.5), float64(c.Calls), &c.Hist)
			}
		}
	}
	each(func(n, median, calls float64, _ *sketch.Histogram) {
		points++
		line.Add(n, median, calls)
	})
	if points < 2 {
		return 0
	}
	vx, vy, cxy := line.Variances()
	if vx <= 0 || vy <= 0 || cxy <= 0 {
		return 0
	}
	if points > 2 && cxy*cxy/vx/vy < expertR2 {
		return 0
	}
	slope := cxy / vx
	mean, _ := line.Mean()
	// A median of n values has the variance 1 / (4 n f^2) with the density f there: for normal values pi/2
	// s^2/n, and their middle half spans 1.349 s. A histogram adds its own error.
	var variance float64
	each(func(n, median, calls float64, h *sketch.Histogram) {
		s := (h.Quantile(0.75) - h.Quantile(0.25)) / 1.349
		e := math.Pi/2*s*s/calls + median*sketch.HistogramError*median*sketch.HistogramError/3
		variance += calls * calls * (n - mean) * (n - mean) * e
	})
	if slope < expertErrors*math.Sqrt(variance)/vx {
		return 0
	}
	return slope
}

// The price is considered reliable with at least expertCalls matmuls for each number of new experts that
// counts, if the line explains enough of the medians' variance, and if the price is a multiple of its
// standard error.
const expertCalls = 16

const expertR2 = 0.8

const (
	expertErrors = 3
)
