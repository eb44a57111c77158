// SPDX-License-Identifier: Apache-2.0

package sketch

import (
	"math/rand/v2"
	"testing"
)

// TestBucketTable compares the table with the formula: at each bucket's bounds, at each class's, and
// anywhere.
func TestBucketTable(t *testing.T) {
	check := func(v int64) {
		t.Helper()
		if v > 0 && bucket(v) != bucketOf(v) {
			t.Fatalf("bucket of %d is %d, not %d", v, bucket(v), bucketOf(v))
		}
	}
	for v := int64(1); v < 1<<17; v++ {
		check(v)
	}
	for i := range 1700 {
		v := int64(bucketValue(i) * (histogramGamma + 1) / 2)
		for d := int64(-3); d <= 3; d++ {
			check(v + d)
		}
	}
	for e := range 62 {
		for s := range int64(1 << subBits) {
			v := int64(1)<<e + s<<e>>subBits
			check(v - 1)
			check(v)
			check(v + 1)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 1_000_000 {
		check(r.Int64() >> r.IntN(63))
	}
}

func BenchmarkHistogram(b *testing.B) {
	var h Histogram
	v := int64(1)
	for b.Loop() {
		h.Add(v & (1<<22 - 1))
		v = v*6364136223846793005 + 1442695040888963407
	}
}
