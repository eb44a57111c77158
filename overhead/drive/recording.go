// SPDX-License-Identifier: Apache-2.0

package drive

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/profinfer/profinfer/overhead"
	"github.com/profinfer/profinfer/trace"
)

// leaving is how long removing probes takes: that part of a span without them is left out.
const leaving = int64(100 * time.Millisecond)

// FromRecording compares, in one recording with a budget, the steps whose operators were recorded with
// adjacent ones for which only steps and graphs were. A recording of minutes has many such spans, so small
// differences are measurable; the cost of steps and graphs is in both.
func FromRecording(path string) (*overhead.Report, error) {
	steps, h, err := readClock(path)
	if err != nil {
		return nil, err
	}
	var off []trace.Loss
	for _, l := range h.Losses {
		if l.Why == trace.WhyThrottled && l.End-l.Start > 2*leaving {
			off = append(off, l)
		}
	}
	if len(off) < 2 {
		return nil, fmt.Errorf("%s has operators in all of its steps, or in none: record with --overhead-budget for some minutes", path)
	}
	slices.SortFunc(off, func(a, b trace.Loss) int { return cmp.Compare(a.Start, b.Start) })
	name := "operators"
	spans := []overhead.Span{}
	for i, l := range off {
		if i > 0 {
			spans = append(spans, overhead.Span{State: name, From: off[i-1].End, To: l.Start, Traced: -1,
				CPU: -1})
		}
		spans = append(spans, overhead.Span{From: l.Start + leaving, To: l.End, Traced: -1, CPU: -1})
	}
	if len(h.Processes) != 1 {
		return nil, errors.New("the recording has several processes: which steps belong to which spans is told for one")
	}
	r := overhead.Analyse(steps, spans, []string{name})
	p := &h.Processes[0]
	r.Tool, r.PID, r.Command, r.CPU, r.Cores, r.Kernel = h.Meta.Tool, int(p.PID), p.Comm, h.Meta.CPU,
		h.Meta.Cores, h.Meta.Kernel
	r.Rounds = len(off) - 1
	r.SpanNS = (off[len(off)-1].Start - off[0].End) / int64(2*len(off)-3)
	return r, nil
}
