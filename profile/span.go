// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"cmp"
	"slices"
)

type Span struct{ From, To int64 }

// Union returns the time that at least one of the spans covers. It sorts them.
func Union(spans []Span) (sum int64) {
	slices.SortFunc(spans, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
	var end int64
	for _, s := range spans {
		if from := max(s.From, end); s.To > from {
			sum += s.To - from
			end = s.To
		}
	}
	return sum
}

func PidOf(o *Op) int32 {
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
