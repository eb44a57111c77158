// SPDX-License-Identifier: Apache-2.0

// Package sketch keeps quantiles of durations in little memory, with a bounded relative error (as DDSketch
// does).
package sketch

import (
	"math"
	"math/bits"
	"sync"
)

// HistogramError is the largest relative error of a histogram's quantiles.
const HistogramError = 0.01

// histogramGamma is the ratio between the bounds of a bucket: with (1+e)/(1-e), the middle value of a bucket
// is within e of all its values (Masson, Rim, Lee: DDSketch, VLDB 2019, section 2.1).
const histogramGamma = (1 + HistogramError) / (1 - HistogramError)

var LogGamma = math.Log(histogramGamma)

// Histogram counts positive values in buckets whose bounds grow geometrically, so that quantiles have a
// bounded relative error. All of int64 needs 2,184 buckets; the slice covers those between the smallest and
// the largest value seen. The zero value is empty.
type Histogram struct {
	N      int64
	Zeros  int64 // values of 0 and less
	First  int   // bucket of counts[0]
	Counts []uint32
}

// bucket returns the number of v's bucket: gamma^(i-1) < v <= gamma^i.
func bucket(v int64) int {
	if uint64(v) < 1<<tableBits {
		return bucketTable().bucket(uint64(v))
	}
	return bucketOf(v)
}

func bucketOf(v int64) int { return int(math.Ceil(math.Log(float64(v)) / LogGamma)) }

const (
	tableBits = 40 // of values in the table: 18 minutes in ns
	// Values are classified by their highest bit and the subBits after it. Such a class is narrower than a
	// bucket, so it overlaps at most two.
	subBits = 6
)

// buckets is a lookup table for bucketOf, which would otherwise dominate the cost per operator.
type buckets [tableBits << subBits]struct {
	first int32 // bucket of the class's smallest value
	last  int64 // largest value of that bucket
}

// class returns the table index of v > 0. Values below 1<<subBits have one each.
func class(v uint64) int {
	if v < 1<<subBits {
		return int(v)
	}
	e := bits.Len64(v) - 1 - subBits
	return e<<subBits + int(v>>e)
}

func (t *buckets) bucket(v uint64) int {
	c := &t[class(v)]
	if int64(v) <= c.last {
		return int(c.first)
	}
	return int(c.first) + 1
}

var bucketTable = sync.OnceValue(func() *buckets {
	t := &buckets{}
	for v := uint64(1); v < 1<<tableBits; {
		c := &t[class(v)]
		c.first = int32(bucketOf(int64(v)))
		// Near gamma^first, within rounding.
		c.last = int64(math.Exp(float64(c.first) * LogGamma))
		for bucketOf(c.last+1) <= int(c.first) {
			c.last++
		}
		for c.last > int64(v) && bucketOf(c.last) > int(c.first) {
			c.last--
		}
		e := max(0, bits.Len64(v)-1-subBits)
		v = (v>>e + 1) << e
	}
	return t
})

// bucketValue returns the value with the smallest relative distance to both bounds of a bucket.
func bucketValue(i int) float64 {
	return 2 * math.Exp(float64(i)*LogGamma) / (histogramGamma + 1)
}

func (h *Histogram) Add(v int64) {
	h.N++
	if v <= 0 {
		h.Zeros++
		return
	}
	h.grow(bucket(v), 1)
}

func (h *Histogram) grow(i int, count uint32) {
	switch {
	case len(h.Counts) == 0:
		h.First, h.Counts = i, append(h.Counts, count)
		return
	case i < h.First:
		h.Counts = append(make([]uint32, h.First-i, h.First-i+len(h.Counts)), h.Counts...)
		h.First = i
	case i >= h.First+len(h.Counts):
		h.Counts = append(h.Counts, make([]uint32, i-h.First-len(h.Counts)+1)...)
	}
	if c := &h.Counts[i-h.First]; *c > math.MaxUint32-count {
		*c = math.MaxUint32
	} else {
		*c += count
	}
}

// Merge adds all of o's values.
func (h *Histogram) Merge(o *Histogram) {
	h.N += o.N
	h.Zeros += o.Zeros
	for i, c := range o.Counts {
		if c > 0 {
			h.grow(o.First+i, c)
		}
	}
}

// Quantile returns the value at rank ceil(q*n), 0 for an empty histogram.
func (h *Histogram) Quantile(q float64) float64 {
	rank := max(1, int64(math.Ceil(q*float64(h.N))))
	if h.N == 0 || rank <= h.Zeros {
		return 0
	}
	seen := h.Zeros
	for i, c := range h.Counts {
		if seen += int64(c); seen >= rank {
			return bucketValue(h.First + i)
		}
	}
	return bucketValue(h.First + len(h.Counts) - 1)
}

// AddTimes adds a value n times.
func (h *Histogram) AddTimes(v, n int64) {
	h.N += n
	if v <= 0 {
		h.Zeros += n
		return
	}
	h.grow(bucket(v), uint32(min(n, math.MaxUint32)))
}
