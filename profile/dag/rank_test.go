// SPDX-License-Identifier: Apache-2.0

package dag

import (
	"math"
	"testing"
)

// TestMedianRank compares with tables of the sign test, and both ways to compute it.
func TestMedianRank(t *testing.T) {
	for n, want := range map[int64]int64{0: 0, 1: 0, outlierCalls - 1: 0, outlierCalls: 1, 17: 1, 18: 2,
		1000: 441, 1001: 441} {
		if got := medianRank(n); got != want {
			t.Errorf("of %d the rank is %d, want %d", n, got, want)
		}
	}
	for n := int64(2); n <= 3000; n++ {
		k := medianRank(n)
		if k < medianRank(n-1) || k > n/2 {
			t.Fatalf("of %d the rank is %d, of one less %d", n, k, medianRank(n-1))
		}
		// The chance that fewer than k of n lie below the median.
		sum := 0.0
		for i := range k {
			a, _ := math.Lgamma(float64(n + 1))
			b, _ := math.Lgamma(float64(i + 1))
			c, _ := math.Lgamma(float64(n - i + 1))
			sum += math.Exp(a - b - c - float64(n)*math.Ln2)
		}
		if sum > outlierChance*1.05 {
			t.Fatalf("of %d the rank %d has a chance of %g", n, k, sum)
		}
	}
}
