// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"math"
	"math/bits"
	"sync"
)

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
func bucket(v int64) int {
	if uint64(v) < 1<<tableBits {
		return bucketTable().bucket(uint64(v))
	}
	return bucketOf(v)
}

func bucketOf(v int64) int { return int(math.Ceil(math.Log(float64(v)) / logGamma)) }

const (
	tableBits = 40 // of values in the table: 18 minutes in ns
	// Values are told apart by their highest bit and the subBits after it. Such a class is narrower
	// than a bucket, so it lies in two at most.
	subBits = 6
)

// buckets is a table of bucketOf, which takes longer than all else that is done for an operator.
type buckets [tableBits << subBits]struct {
	first int32 // bucket of the class's smallest value
	last  int64 // largest value of that bucket
}

// class returns the place of v > 0 in the table. Values below 1<<subBits have one each.
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
		// Near gamma^first, as far as that rounds.
		c.last = int64(math.Exp(float64(c.first) * logGamma))
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

// addTimes adds a value n times.
func (h *histogram) addTimes(v, n int64) {
	h.n += n
	if v <= 0 {
		h.zeros += n
		return
	}
	h.grow(bucket(v), uint32(min(n, math.MaxUint32)))
}
