// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"math"
	"strconv"
)

func ratio(a, b float64) *float64 {
	if b <= 0 || math.IsNaN(a) || math.IsInf(a, 0) {
		return nil
	}
	v := a / b
	return &v
}

func share(a, b int64) *float64 { return ratio(float64(a), float64(b)) }

// list copies s, to a list without elements where there is none: [] in JSON, not null.
func list[T any](s []T) []T { return append([]T{}, s...) }

// perSecond returns 1e9 units a second: n/ns is the same as G/s.
func perSecond(n, ns int64) *float64 {
	return share(n, ns)
}

func safeRatio(a, b int64) float64 {
	if b <= 0 {
		return 0
	}
	return float64(a) / float64(b)
}

func hex(v uint64) string { return "0x" + strconv.FormatUint(v, 16) }

// growth fits the time of attention to the position by least squares.
type growth struct {
	n, x, y, xx, xy, yy float64
	from, to            int32
}

func (g *growth) add(pos int32, ns int64) {
	if g.n == 0 {
		g.from, g.to = pos, pos
	}
	g.from, g.to = min(g.from, pos), max(g.to, pos)
	x, y := float64(pos), float64(ns)
	g.n++
	g.x += x
	g.y += y
	g.xx += x * x
	g.xy += x * y
	g.yy += y * y
}

func (g *growth) merge(o *growth) {
	if o.n == 0 {
		return
	}
	if g.n == 0 {
		*g = *o
		return
	}
	g.from, g.to = min(g.from, o.from), max(g.to, o.to)
	g.n += o.n
	g.x += o.x
	g.y += o.y
	g.xx += o.xx
	g.xy += o.xy
	g.yy += o.yy
}

// fit returns ns at position 0, ns a position, and how much of the variance that explains; ok is
// false where there is nothing to fit.
func (g *growth) fit() (at0, slope, r2 float64, ok bool) {
	vx, vy, cxy := g.xx-g.x*g.x/g.n, g.yy-g.y*g.y/g.n, g.xy-g.x*g.y/g.n
	if g.n < 16 || vx <= 0 || vy <= 0 {
		return 0, 0, 0, false
	}
	slope = cxy / vx
	return (g.y - slope*g.x) / g.n, slope, cxy * cxy / vx / vy, true
}
