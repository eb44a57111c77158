// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// count writes 1234567 as 1,234,567.
func count[T int | int32 | int64 | uint64](n T) string {
	s := fmt.Sprint(n)
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// three writes a positive number with three significant digits, without exponent.
func three(v float64) string {
	switch {
	case v >= 99.95 || v == 0:
		return fmt.Sprintf("%.0f", v)
	case v >= 9.995:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// tps writes a rate with one decimal below 1000: 20.1, 1,234.
func rate(v *float64) string {
	switch {
	case v == nil:
		return "-"
	case *v >= 999.95:
		return count(int64(math.Round(*v)))
	case *v >= 0.095 || *v == 0:
		return fmt.Sprintf("%.1f", *v)
	}
	return fmt.Sprintf("%.3f", *v)
}

// duration writes nanoseconds for a sentence: 71 ms, 5.9 s, 2 min 3 s.
func (o *Options) duration(ns float64) string {
	switch {
	case ns < 999.5:
		return fmt.Sprintf("%.0f ns", ns)
	case ns < 999.5e3:
		if o.Unicode {
			return three(ns/1e3) + " µs"
		}
		return three(ns/1e3) + " us"
	case ns < 999.5e6:
		return three(ns/1e6) + " ms"
	case ns < 119.5e9:
		return three(ns/1e9) + " s"
	}
	s := int64(math.Round(ns / 1e9))
	return fmt.Sprintf("%d min %d s", s/60, s%60)
}

func (o *Options) durationOf(ns *float64) string {
	if ns == nil {
		return "-"
	}
	return o.duration(*ns)
}

// percent writes a share: 93 %.
func percent(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", *v*100)
}

// percent1 writes a share with one decimal: 24.8 %.
func percent1(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", *v*100)
}

// number writes a figure with one decimal where it is small: 14.6, 3.5, 120.
func number(v *float64) string {
	switch {
	case v == nil:
		return "-"
	case *v > 0 && *v < 0.05:
		return "<0.1"
	case *v >= 9999.5:
		return count(int64(math.Round(*v)))
	case *v >= 999.5:
		return fmt.Sprintf("%.0f", *v)
	}
	return fmt.Sprintf("%.1f", *v)
}

// unit is a unit of time for a whole column.
type unit struct {
	name string
	ns   float64
}

// unitFor chooses the unit in which the largest of a column has one to three digits.
func (o *Options) unitFor(largest float64) unit {
	switch {
	case largest >= 10e9:
		return unit{"s", 1e9}
	case largest >= 1e6:
		return unit{"ms", 1e6}
	case o.Unicode:
		return unit{"µs", 1e3}
	}
	return unit{"us", 1e3}
}

// in writes a time in a column's unit.
func (u unit) in(ns float64) string {
	v := ns / u.ns
	switch {
	case v > 0 && v < 0.005:
		return "<0.01"
	case v >= 9999.5:
		return count(int64(math.Round(v)))
	}
	return fmt.Sprintf("%.2f", v)
}

// size writes a size in binary units: 663 MiB.
func size(n int64) string {
	v := float64(n)
	for _, u := range []string{"B", "KiB", "MiB", "GiB"} {
		if v < 1023.5 {
			if u == "B" {
				return strconv.FormatInt(n, 10) + " B"
			}
			return three(v) + " " + u
		}
		v /= 1024
	}
	return three(v) + " TiB"
}

// parameters writes 1.24 B, 494 M, 12.3 K.
func parameters(n int64) string {
	v := float64(n)
	switch {
	case v < 1e3:
		return strconv.FormatInt(n, 10)
	case v < 999.5e3:
		return three(v/1e3) + " K"
	case v < 999.5e6:
		return three(v/1e6) + " M"
	case v < 999.5e9:
		return three(v/1e9) + " B"
	}
	return three(v/1e12) + " T"
}

// bar draws a share of most in width columns. What is not 0 gets a stroke.
func (o *Options) bar(v, most float64, width int) string {
	if v <= 0 || most <= 0 || math.IsNaN(v) {
		return ""
	}
	full := min(v/most, 1) * float64(width)
	if !o.Unicode {
		return strings.Repeat("#", max(1, int(math.Round(full))))
	}
	eighths := max(1, int(math.Round(full*8)))
	s := strings.Repeat("█", eighths/8)
	if r := eighths % 8; r > 0 {
		s += string([]rune("▏▎▍▌▋▊▉")[r-1])
	}
	return s
}
