// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestHistogramError(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for round := range 50 {
		var h histogram
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
			h.add(values[i])
		}
		slices.Sort(values)
		for _, q := range []float64{0, 0.05, 0.5, 0.95, 0.99, 1} {
			exact := float64(values[max(1, int(math.Ceil(q*float64(n))))-1])
			if got := h.quantile(q); math.Abs(got-exact) > (histogramError+1e-9)*exact {
				t.Fatalf("quantile %g of %d values is %g, not %g", q, n, got, exact)
			}
		}
		if len(h.counts) > 2200 {
			t.Fatalf("%d buckets", len(h.counts))
		}
	}
}

func TestHistogramMerge(t *testing.T) {
	var a, b, both histogram
	for i := range int64(100) {
		a.add(i)
		b.add(i * 1000)
		both.add(i)
		both.add(i * 1000)
	}
	a.add(-5)
	both.add(-5)
	a.merge(&b)
	for _, q := range []float64{0.01, 0.3, 0.7, 0.95, 1} {
		if a.quantile(q) != both.quantile(q) {
			t.Errorf("quantile %g: %g, not %g", q, a.quantile(q), both.quantile(q))
		}
	}
	if a.n != 201 || new(histogram).quantile(0.5) != 0 {
		t.Errorf("%d values", a.n)
	}
	var huge histogram
	huge.add(math.MaxInt64)
	huge.add(1)
	if v := huge.quantile(1); math.Abs(v-math.MaxInt64) > 0.01*math.MaxInt64 {
		t.Errorf("the largest value became %g", v)
	}
}
