// SPDX-License-Identifier: Apache-2.0

package bootstrap

import "testing"

// The interval of a sample's median: of 100 values in order the 40th to the 61st, by the binomial
// distribution.
func TestInterval(t *testing.T) {
	var x []float64
	for i := range 100 {
		x = append(x, float64((i*37)%100+1))
	}
	if lo, hi := Interval(x); lo < 37 || lo > 43 || hi < 58 || hi > 64 {
		t.Errorf("%v to %v", lo, hi)
	}
}
