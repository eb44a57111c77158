// SPDX-License-Identifier: Apache-2.0

package sketch

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestHistogramError(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for round := range 50 {
		var h Histogram
		n := 1 + r.IntN(3000)
		values := make([]int64, n)
		for i := range values {
			switch round % 3 {
			case 0:
				values[i] = 1 + r.Int64N(50)
			case 1:
				values[i] = int64(math.Exp(r.Float64() * 43))
			default:
				values[i] = 1_000_000 + int64(r.NormFloat64()*1000)
			}
			h.Add(values[i])
		}
		slices.Sort(values)
		for _, q := range []float64{0, 0.05, 0.5, 0.95, 0.99, 1} {
			exact := float64(values[max(1, int(math.Ceil(q*float64(n))))-1])
			if got := h.Quantile(q); math.Abs(got-exact) > (HistogramError+1e-9)*exact {
				t.Fatalf("quantile %g of %d values is %g, not %g", q, n, got, exact)
			}
		}
		if len(h.Counts) > 2200 {
			t.Fatalf("%d buckets", len(h.Counts))
		}
	}
}

func TestHistogramMerge(t *testing.T) {
	var a, b, both Histogram
	for i := range int64(100) {
		a.Add(i)
		b.Add(i * 1000)
		both.Add(i)
		both.Add(i * 1000)
	}
	a.Add(-5)
	both.Add(-5)
	a.Merge(&b)
	for _, q := range []float64{0.01, 0.3, 0.7, 0.95, 1} {
		if a.Quantile(q) != both.Quantile(q) {
			t.Errorf("quantile %g: %g, not %g", q, a.Quantile(q), both.Quantile(q))
		}
	}
	if a.N != 201 || new(Histogram).Quantile(0.5) != 0 {
		t.Errorf("%d values", a.N)
	}
	var huge Histogram
	huge.Add(math.MaxInt64)
	huge.Add(1)
	if v := huge.Quantile(1); math.Abs(v-math.MaxInt64) > 0.01*math.MaxInt64 {
		t.Errorf("the largest value became %g", v)
	}
}
