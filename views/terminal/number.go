// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"math"
	"strings"

	"github.com/profinfer/profinfer/internal/format"
)

// micro writes µs as this terminal can display it.
func (o *Options) micro(s string) string {
	if o.Unicode {
		return s
	}
	return strings.ReplaceAll(s, "µ", "u")
}

// duration formats nanoseconds: 71.0 ms, 5.90 s, 2 min 3 s.
func (o *Options) duration(ns float64) string { return o.micro(format.Minutes(ns)) }

func (o *Options) unitFor(largest float64) format.Unit {
	u := format.UnitFor(largest)
	u.Name = o.micro(u.Name)
	return u
}

func (o *Options) durationOf(ns *float64) string {
	if ns == nil {
		return "-"
	}
	return o.duration(*ns)
}

// bar draws v relative to most in width columns. Nonzero values get at least one stroke.
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
