// SPDX-License-Identifier: Apache-2.0

package profile

import "math"

// histogramError is the largest relative error of a histogram's quantiles.
const histogramError = 0.01

// histogramGamma is the ratio between the bounds of a bucket: with (1+e)/(1-e), the value in a
// bucket's middle is within e of all its values (Masson, Rim, Lee: DDSketch, VLDB 2019,
// section 2.1).
const histogramGamma = (1 + histogramError) / (1 - histogramError)

var logGamma = math.Log(histogramGamma)

// histogram counts positive values in buckets whose bounds grow geometrically, so that
// quantiles have a bounded relative error. All of int64 needs 2,184 buckets; the slice covers
// those between the smallest and the largest met. The zero value is empty.
type histogram struct {
	n      int64
	zeros  int64 // values of 0 and less
	first  int   // bucket of counts[0]
	counts []uint32
}

// bucket returns the number of v's bucket: gamma^(i-1) < v <= gamma^i.
func bucket(v int64) int { return int(math.Ceil(math.Log(float64(v)) / logGamma)) }

// bucketValue returns the value whose relative distance to both bounds of a bucket is least.
func bucketValue(i int) float64 {
	return 2 * math.Exp(float64(i)*logGamma) / (histogramGamma + 1)
}

func (h *histogram) add(v int64) {
	h.n++
	if v <= 0 {
		h.zeros++
		return
	}
	h.grow(bucket(v), 1)
}

func (h *histogram) grow(i int, count uint32) {
	switch {
	case len(h.counts) == 0:
		h.first, h.counts = i, append(h.counts, count)
		return
	case i < h.first:
		h.counts = append(make([]uint32, h.first-i, h.first-i+len(h.counts)), h.counts...)
		h.first = i
	case i >= h.first+len(h.counts):
		h.counts = append(h.counts, make([]uint32, i-h.first-len(h.counts)+1)...)
	}
	if c := &h.counts[i-h.first]; *c > math.MaxUint32-count {
		*c = math.MaxUint32
	} else {
		*c += count
	}
}

// merge adds all of o's values.
func (h *histogram) merge(o *histogram) {
	h.n += o.n
	h.zeros += o.zeros
	for i, c := range o.counts {
		if c > 0 {
			h.grow(o.first+i, c)
		}
	}
}

// quantile returns the value at rank ceil(q*n), 0 for an empty histogram.
func (h *histogram) quantile(q float64) float64 {
	rank := max(1, int64(math.Ceil(q*float64(h.n))))
	if h.n == 0 || rank <= h.zeros {
		return 0
	}
	seen := h.zeros
	for i, c := range h.counts {
		if seen += int64(c); seen >= rank {
			return bucketValue(h.first + i)
		}
	}
	return bucketValue(h.first + len(h.counts) - 1)
}
