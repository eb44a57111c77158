// SPDX-License-Identifier: Apache-2.0

// Package num provides arithmetic that analyses share: ratios that may be unknown, and least-squares lines.
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

// List copies s; the result is never nil: [] in JSON, not null.
func List[T any](s []T) []T { return append([]T{}, s...) }

// PerSecond returns 1e9 units per second: n/ns equals G/s.
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

// Line is a least-squares line through weighted points. The zero value has no points.
type Line struct{ w, x, y, xx, xy, yy float64 }

// Add adds a point.
func (l *Line) Add(x, y, weight float64) {
	l.w += weight
	l.x += weight * x
	l.y += weight * y
	l.xx += weight * x * x
	l.xy += weight * x * y
	l.yy += weight * y * y
}

// merge adds the points of another line.
func (l *Line) merge(o *Line) {
	l.w += o.w
	l.x += o.x
	l.y += o.y
	l.xx += o.xx
	l.xy += o.xy
	l.yy += o.yy
}

// Weight is the total weight of the points.
func (l *Line) Weight() float64 { return l.w }

// Mean is the mean of the points, through which the line goes.
func (l *Line) Mean() (x, y float64) { return l.x / l.w, l.y / l.w }

// Variances returns the variances of x and y, and their covariance, each times the weight. The slope is cxy /
// vx, and cxy * cxy / vx / vy is the fraction of y's variance that the line explains. 0 without points.
func (l *Line) Variances() (vx, vy, cxy float64) {
	if l.w == 0 {
		return 0, 0, 0
	}
	return l.xx - l.x*l.x/l.w, l.yy - l.y*l.y/l.w, l.xy - l.x*l.y/l.w
}

// Slope is exact where the sums are; nil where x does not vary.
func (l *Line) Slope() *float64 {
	d := l.w*l.xx - l.x*l.x
	if d <= 0 {
		return nil
	}
	v := (l.w*l.xy - l.x*l.y) / d
	return &v
}

// Growth fits the time of attention against the position.
type Growth struct {
	Line
	From, To int32
}

func (g *Growth) Add(pos int32, ns int64) {
	if g.w == 0 {
		g.From, g.To = pos, pos
	}
	g.From, g.To = min(g.From, pos), max(g.To, pos)
	g.Line.Add(float64(pos), float64(ns), 1)
}

func (g *Growth) Merge(o *Growth) {
	switch {
	case o.w == 0:
		return
	case g.w == 0:
		*g = *o
		return
	}
	g.From, g.To = min(g.From, o.From), max(g.To, o.To)
	g.Line.merge(&o.Line)
}

// Fit returns ns at position 0, ns per position, and the fraction of the variance explained; ok is false
// where there is nothing to fit.
func (g *Growth) Fit() (at0, slope, r2 float64, ok bool) {
	vx, vy, cxy := g.Variances()
	if g.w < 16 || vx <= 0 || vy <= 0 {
		return 0, 0, 0, false
	}
	slope = cxy / vx
	return (g.y - slope*g.x) / g.w, slope, cxy * cxy / vx / vy, true
}
