// SPDX-License-Identifier: Apache-2.0

// Package format formats figures for people: counts, durations, sizes, shares. A [Style] rounds as needed
// where the figure appears; functions of a pointer are for table cells, where an unknown value is "-".
package format

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Count formats 1234567 as 1,234,567.
func Count[T int | int32 | int64 | uint64](n T) string {
	s := fmt.Sprint(n)
	sign := ""
	if n < 0 {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// Plural formats "1 step", "1,234 steps".
func Plural[T int | int32 | int64 | uint64](n T, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return Count(n) + " " + one + "s"
}

// Agree returns the word that agrees with the number.
func Agree[T int | int32 | int64 | uint64](n T, one, more string) string {
	if n == 1 {
		return one
	}
	return more
}

// Style is how figures are rounded.
type Style struct {
	number, ns func(float64) string
}

var (
	// Table always has three digits, for aligned figures.
	Table = Style{three, whole}
	// Sentence groups thousands, and has more digits for values below 0.1.
	Sentence = Style{sentence, whole}
	// Label omits the decimals of whole numbers, but not those of nanoseconds.
	Label = Style{label, label}
)

func whole(v float64) string { return fixed(v, 0) }

func fixed(v float64, decimals int) string { return strconv.FormatFloat(v, 'f', decimals, 64) }

func three(v float64) string {
	switch a := math.Abs(v); {
	case a >= 99.95 || v == 0:
		return fixed(v, 0)
	case a >= 9.995:
		return fixed(v, 1)
	}
	return fixed(v, 2)
}

func label(v float64) string {
	if v == math.Trunc(v) {
		return fixed(v, 0)
	}
	return three(v)
}

func sentence(v float64) string {
	switch a := math.Abs(v); {
	case a >= 99.95:
		return Count(int64(math.Round(v)))
	case a > 0 && a < 0.095:
		return fixed(v, 3)
	}
	return three(v)
}

// unit is a unit with its size in the smallest one.
type unit struct {
	of   float64
	name string
}

// in formats v in the largest unit that it reaches after rounding; ok is false if v is below all units.
func (s Style) in(v float64, units []unit) (string, bool) {
	for _, u := range units {
		if math.Abs(v) >= u.of*0.9995 {
			return s.number(v/max(u.of, 1)) + " " + u.name, true
		}
	}
	return "", false
}

var (
	times  = []unit{{1e9, "s"}, {1e6, "ms"}, {1e3, "µs"}}
	sizes  = []unit{{1 << 40, "TiB"}, {1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}}
	powers = []unit{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}}
	flops  = []unit{{1e15, "PFLOP"}, {1e12, "TFLOP"}, {1e9, "GFLOP"}, {1e6, "MFLOP"}, {1e3, "kFLOP"},
		{0, "FLOP"}}
	params = []unit{{1e12, "T"}, {1e9, "B"}, {1e6, "M"}, {1e3, "K"}}
)

// Number formats a figure with three digits, without an exponent.
func (s Style) Number(v float64) string { return s.number(v) }

// Duration formats nanoseconds: 71.0 ms.
func (s Style) Duration(ns float64) string {
	if t, ok := s.in(ns, times); ok {
		return t
	}
	return s.ns(ns) + " ns"
}

// Bytes formats a size in binary units: 663 MiB.
func (s Style) Bytes(n float64) string {
	if t, ok := s.in(n, sizes); ok {
		return t
	}
	return fixed(n, 0) + " B"
}

// Bytes formats a size for a table.
func Bytes(n int64) string { return Table.Bytes(float64(n)) }

// Parameters formats 1.24 B, 494 M, 12.3 K.
func (s Style) Parameters(n int64) string {
	if t, ok := s.in(float64(n), params); ok {
		return t
	}
	return Count(n)
}

// Minutes formats a duration for a table; beyond two minutes as 2 min 3 s.
func Minutes(ns float64) string {
	if ns < 119.5e9 {
		return Table.Duration(ns)
	}
	s := int64(math.Round(ns / 1e9))
	return fmt.Sprintf("%d min %d s", s/60, s%60)
}

// Share formats a share in a sentence: 93 %, 0.3 %.
func Share(v float64) string {
	if v > 0 && v < 0.005 {
		return fixed(v*100, 1) + " %"
	}
	return fixed(v*100, 0) + " %"
}

// Percent formats a share: 93 %.
func Percent(v *float64) string { return share(v, 0) }

// Percent1 formats a share with one decimal: 24.8 %.
func Percent1(v *float64) string { return share(v, 1) }

func share(v *float64, decimals int) string {
	if v == nil {
		return "-"
	}
	return fixed(*v*100, decimals) + " %"
}

// Rate formats a rate with one decimal below 1000: 20.1, 1,234.
func Rate(v *float64) string {
	switch {
	case v == nil:
		return "-"
	case *v >= 999.95:
		return Count(int64(math.Round(*v)))
	case *v >= 0.095 || *v == 0:
		return fixed(*v, 1)
	}
	return fixed(*v, 3)
}

// Decimal formats a figure, with one decimal if it is small: 14.6, 3.5, 120.
func Decimal(v *float64) string {
	switch {
	case v == nil:
		return "-"
	case *v > 0 && *v < 0.05:
		return "<0.1"
	case *v >= 9999.5:
		return Count(int64(math.Round(*v)))
	case *v >= 999.5:
		return fixed(*v, 0)
	}
	return fixed(*v, 1)
}

// Ratio formats a ratio with two decimals: 0.82.
func Ratio(v *float64) string {
	switch {
	case v == nil:
		return "-"
	case *v >= 9999.5:
		return Decimal(v)
	case *v > 0 && *v < 0.0095:
		return "<0.01"
	}
	return fixed(*v, 2)
}

// Thousands formats a count with three digits and a power of 1000: 12.3M.
func Thousands(v *float64) string {
	if v != nil {
		if t, ok := Table.in(*v, powers); ok {
			return strings.ReplaceAll(t, " ", "")
		}
	}
	return Decimal(v)
}

// Flops formats floating point operations: 206 kFLOP.
func Flops(v *float64) string {
	if v == nil {
		return "-"
	}
	s, _ := Table.in(*v, flops)
	return s
}

// Billions formats a number in billions, or in millions if it is smaller.
func Billions(n int64, unit, small string) string {
	if n < 1e9 {
		return fixed(float64(n)/1e6, 0) + " " + small
	}
	return fixed(float64(n)/1e9, 2) + " " + unit
}

// Calls formats a mean count: integers without decimals.
func Calls(v float64) string {
	if d := v - math.Trunc(v); d < 0.005 || d > 0.995 {
		return Count(int64(v + 0.5))
	}
	return fixed(v, 1)
}

// Unit is a time unit for a whole column.
type Unit struct {
	Name string
	NS   float64
}

// UnitFor chooses the unit in which the largest value of a column has one to three digits.
func UnitFor(largest float64) Unit {
	switch {
	case largest >= 10e9:
		return Unit{"s", 1e9}
	case largest >= 1e6:
		return Unit{"ms", 1e6}
	}
	return Unit{"µs", 1e3}
}

// Of formats a time in a column's unit.
func (u Unit) Of(ns float64) string {
	v := ns / u.NS
	switch {
	case v > 0 && v < 0.005:
		return "<0.01"
	case v >= 9999.5:
		return Count(int64(math.Round(v)))
	}
	return fixed(v, 2)
}
