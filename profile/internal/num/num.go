// SPDX-License-Identifier: Apache-2.0

// Package num has the arithmetic that analyses share: ratios that may be unknown, and a line of least squares.
package num

import (
	"math"
	"strconv"
)

func Ratio(a, b float64) *float64 {
	if b <= 0 || math.IsNaN(a) || math.IsInf(a, 0) {
		return nil
	}
	v := a / b
	return &v
}

func Share(a, b int64) *float64 { return Ratio(float64(a), float64(b)) }

// List copies s, to a list without elements where there is none: [] in JSON, not null.
func List[T any](s []T) []T { return append([]T{}, s...) }

// PerSecond returns 1e9 units a second: n/ns is the same as G/s.
func PerSecond(n, ns int64) *float64 {
	return Share(n, ns)
}

func SafeRatio(a, b int64) float64 {
	if b <= 0 {
		return 0
	}
	return float64(a) / float64(b)
}

func Hex(v uint64) string { return "0x" + strconv.FormatUint(v, 16) }

// Growth fits the time of attention to the position by least squares.
type Growth struct {
	N, X, Y, Xx, Xy, Yy float64
	From, To            int32
}

func (g *Growth) Add(pos int32, ns int64) {
	if g.N == 0 {
		g.From, g.To = pos, pos
	}
	g.From, g.To = min(g.From, pos), max(g.To, pos)
	x, y := float64(pos), float64(ns)
	g.N++
	g.X += x
	g.Y += y
	g.Xx += x * x
	g.Xy += x * y
	g.Yy += y * y
}

func (g *Growth) Merge(o *Growth) {
	if o.N == 0 {
		return
	}
	if g.N == 0 {
		*g = *o
		return
	}
	g.From, g.To = min(g.From, o.From), max(g.To, o.To)
	g.N += o.N
	g.X += o.X
	g.Y += o.Y
	g.Xx += o.Xx
	g.Xy += o.Xy
	g.Yy += o.Yy
}

// Fit returns ns at position 0, ns a position, and how much of the variance that explains; ok is
// false where there is nothing to fit.
func (g *Growth) Fit() (at0, slope, r2 float64, ok bool) {
	vx, vy, cxy := g.Xx-g.X*g.X/g.N, g.Yy-g.Y*g.Y/g.N, g.Xy-g.X*g.Y/g.N
	if g.N < 16 || vx <= 0 || vy <= 0 {
		return 0, 0, 0, false
	}
	slope = cxy / vx
	return (g.Y - slope*g.X) / g.N, slope, cxy * cxy / vx / vy, true
}
