// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"cmp"
	"slices"
)

type span struct{ from, to int64 }

// union returns the time that at least one of the spans covers. It sorts them.
func union(spans []span) (sum int64) {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var end int64
	for _, s := range spans {
		if from := max(s.from, end); s.to > from {
			sum += s.to - from
			end = s.to
		}
	}
	return sum
}

func pidOf(o *Op) int32 {
	switch {
	case o.Step != nil:
		return o.Step.PID
	case o.Graph != nil:
		return o.Graph.PID
	case o.Shape != nil && o.Shape.Shape != nil:
		return o.Shape.PID
	}
	return 0
}
